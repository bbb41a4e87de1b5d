"""The critical path of the best trial, and what more bandwidth in each dimension saves of it.

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
    columns = ["critical path", *_PARTS, "next GB/s\nsaves"]
    columns += ["next k USD\nsaves"] * summary.priced
    rows = [
        (name, seconds(best[f"path_{name}_s"]), *[""] * (len(columns) - 2))
        for name in ("compute", "memory")
        if name == "compute" or best["path_memory_s"] > 0
    ]
    for d, name in enumerate(summary.dims):
        values = [best[f"path_{part}_{d}_s"] for part in _PARTS]
        values += [-best[f"ms_per_GBps_{d}"] / 1e3]
        values += [-best[f"ms_per_usd_{d}"]] * summary.priced
        rows.append((name, *map(seconds, values)))
    title = "What the time of the best trial is made of, and what more saves"
    return [Sheet(title, tuple(columns), rows)]


SECTION = Section(of_cell=table)
