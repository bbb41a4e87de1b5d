"""The critical path of the best trial: what its time is made of.

There is none of a trial that was simulated message by message.
"""

import pandas as pd

from dimsweep.sweeper.ledger.schema import PATH, PATH_PARTS
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.words import seconds


def table(summary: CellSummary) -> list[Sheet]:
    best = summary.best
    if pd.isna(best.get(PATH["compute"].name)):
        return []
    rows = [
        (part, seconds(best[column.name]), *[""] * (len(PATH_PARTS) - 1))
        for part, column in PATH.items()
        if part == "compute" or best[column.name] > 0
    ]
    for d, name in enumerate(summary.dims):
        values = [best[column.at(d)] for column in PATH_PARTS.values()]
        rows.append((name, *map(seconds, values)))
    return [
        Sheet("What the time of the best trial is made of", ("critical path", *PATH_PARTS), rows)
    ]


SECTION = Section(of_cell=table)
