"""Whether the dimensions of the best trial are provisioned for one another.

There is nothing to say where no collective crosses two dimensions, nor of a split that is proven to
be as good as any: whatever a pair of dimensions looks like, another split would not be faster.
"""

from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.study.rules import verdict


def table(summary: CellSummary) -> list[Sheet]:
    if summary.is_proven:
        return []
    split, rows = summary.split(summary.best), []
    for pair in summary.cell.pairs:
        provision = pair.provision(split)
        inner, outer = summary.dims[pair.inner], summary.dims[pair.outer]
        rows.append((pair.group, inner, outer, verdict(provision), f"{provision:.2f}x"))
    columns = ("group", "fed by", "dimension", "provision", "of what\nsuffices")
    title = "Whether the dimensions of the best trial are provisioned for one another"
    return [Sheet(title, columns, rows, n_names=4)] if rows else []


SECTION = Section(details=table)
