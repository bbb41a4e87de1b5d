"""How much longer an iteration takes while something is down, and in the mean of all the time."""

from dimsweep.sweeper.ledger.schema import OUTAGE_SLOWDOWN
from dimsweep.sweeper.report import naming
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet


def table(report: Report) -> list[Sheet]:
    """A row for each kind of device or link that may be down, of the best trial of each cell."""
    keys, rows = list(report.summaries[0].cell.coordinates), list[tuple[str, ...]]()
    for cell in report.found:
        at = [cell.cell.coordinates[key] for key in keys]
        outages = dict(cell.best.get(OUTAGE_SLOWDOWN.name) or ())
        rows += [(*at, f"a {what} is down", f"{each - 1:+.2%}") for what, each in outages.items()]
        if outages:
            whole = cell.best["effective_time_s"] * cell.best["ettr"] / cell.best["time_s"]
            rows.append((*at, "all are down as often as is said", f"{whole - 1:+.2%}"))
    columns = (*naming.short_keys(keys), "while", "longer")
    title = "How much longer an iteration takes while a device or link is down"
    return [Sheet(title, columns, rows, n_names=len(keys) + 1)] if rows else []


SECTION = Section(of_study=table)
