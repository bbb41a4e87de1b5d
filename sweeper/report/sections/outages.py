"""How much longer an iteration takes while something is down, and in the mean of all the time."""

from dimsweep.sweeper.ledger.schema import OUTAGE_SLOWDOWN
from dimsweep.sweeper.report import naming
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet


def table(report: Report) -> list[Sheet]:
    """A row for the best trial of each cell of which devices or links may be down."""
    keys, rows = list(report.summaries[0].cell.coordinates), list[tuple[str, ...]]()
    for cell in report.found:
        outages = dict(cell.best.get(OUTAGE_SLOWDOWN.name) or ())
        if outages:
            at = (cell.cell.coordinates[key] for key in keys)
            each = [f"{what}: {_longer(slower)}" for what, slower in outages.items()]
            mean = cell.best["effective_time_s"] * cell.best["ettr"] / cell.best["time_s"]
            rows.append((*at, "\n".join(each), _longer(mean)))
    columns = (*naming.short_keys(keys), "while one is down", "in the\nmean")
    title = "How much longer an iteration takes while a device or link is down"
    return [Sheet(title, columns, rows, n_names=len(keys) + 1)] if rows else []


def _longer(slowdown: float) -> str:
    return f"{slowdown - 1:+.2%}"


SECTION = Section(of_study=table)
