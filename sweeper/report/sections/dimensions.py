"""Each dimension's bandwidth, utilisation and exposed communication: of the best trial, and of what
it is compared with where that has the same dimensions."""

from dimsweep.sweeper.ledger.schema import BANDWIDTH, EXPOSED, UTILISATION
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.words import gbps, percent, seconds


def table(summary: CellSummary) -> list[Sheet]:
    compared, split = summary.compared, summary.split(summary.best)
    if summary.reference is not None and list(summary.reference.dims) != summary.dims:
        compared = compared[:1]
    heads, shown = zip(*compared, strict=True)
    rows, wide = [], not summary.of_graph  # whose links are not as wide as the dimensions say
    for d, name in enumerate(summary.dims):
        cells = [name, *[percent(split[d] / split.sum())] * wide]
        for row in shown:
            cells += [gbps(row[BANDWIDTH.at(d)])] * wide + [percent(row[UTILISATION.at(d)])]
            cells += [seconds(row[EXPOSED.at(d)])]
        rows.append(tuple(cells))
    if any(row["waiting_s"] > 0 for row in shown):
        none = [""] * wide
        waits = [cell for row in shown for cell in (*none, "", seconds(row["waiting_s"]))]
        rows.append(("none, waiting", *none, *waits))
    columns = ["dimension", *["share"] * wide]
    for head in heads:
        told = ["GB/s", "util.", "exposed"] if wide else ["util.", "exposed"]
        columns += [f"{head}\n{told[0]}", *told[1:]]
    return [Sheet("Dimensions", tuple(columns), rows)]


SECTION = Section(of_cell=table)
