"""The critical path of the best trial: what its time is made of.

There is none of a trial that was simulated message by message.
"""

import pandas as pd

from sweeper.report.sheet import Section, Sheet
from sweeper.report.summary import CellSummary
from sweeper.report.words import seconds

_PARTS = ("transfer", "latency", "endpoint")


def table(summary: CellSummary) -> list[Sheet]:
    best = summary.best
    if pd.isna(best.get("path_compute_s")):
        return []
    rows = [
        (name, seconds(best[f"path_{name}_s"]), *[""] * (len(_PARTS) - 1))
        for name in ("compute", "memory")
        if name == "compute" or best["path_memory_s"] > 0
    ]
    for d, name in enumerate(summary.dims):
        values = [best[f"path_{part}_{d}_s"] for part in _PARTS]
        rows.append((name, *map(seconds, values)))
    return [Sheet("What the time of the best trial is made of", ("critical path", *_PARTS), rows)]


SECTION = Section(of_cell=table)
