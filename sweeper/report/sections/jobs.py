"""How long each of several jobs on one network takes, and how many times as long as alone."""

from dimsweep.sweeper.ledger.schema import JOB_SLOWDOWN, JOB_TIME
from dimsweep.sweeper.report import naming, words
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet


def table(report: Report) -> list[Sheet]:
    """A row for each job in the best trial of each cell."""
    keys, rows = list(report.summaries[0].cell.coordinates), list[tuple[str, ...]]()
    for cell in report.found:
        slowdowns = dict(cell.best.get(JOB_SLOWDOWN.name) or ())
        for job, time in dict(cell.best.get(JOB_TIME.name) or ()).items():
            alone = words.seconds(time / slowdowns[job])
            at = (cell.cell.coordinates[key] for key in keys)
            rows.append((*at, job, words.seconds(time), alone, words.ratio(slowdowns[job])))
    columns = (*naming.short_keys(keys), "job", "among\nothers", "alone", "times as\nlong")
    title = "Each job among the others, and alone in its place"
    return [Sheet(title, columns, rows, n_names=len(keys) + 1)] if rows else []


SECTION = Section(of_study=table)
