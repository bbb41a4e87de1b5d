"""Axes of a study that made no difference, by its rows."""

import pandas as pd

from sweeper.ledger.record import StudyRecord
from sweeper.ledger.rows import BASELINE, COMPLETE, RECHECK, WHAT_IF

_CHANGED = (RECHECK, BASELINE, WHAT_IF)  # differ in more than the axes of the study
_RESULT = ["time_ps", "cost_usd"]


def idle_axes(rows: pd.DataFrame, study: StudyRecord) -> list[str]:
    """The axes of the grid and the searched keys whose values never changed a result.

    Rows are compared that differ in nothing but the axis; where no two such rows have different
    values of it, nothing is said.
    """
    axes = [*study.grid, *study.parameters]
    rows = rows[(rows["state"] == COMPLETE) & ~rows["origin"].isin(_CHANGED)]
    splits = [name for name in rows if name.startswith("bandwidth_")]
    return [axis for axis in axes if _is_idle(rows, axis, [*splits, *axes])]


def _is_idle(rows: pd.DataFrame, axis: str, design: list[str]) -> bool:
    others = [name for name in dict.fromkeys(design) if name != axis]
    alike = rows.groupby(others, dropna=False) if others else rows.groupby(lambda _: 0)
    compared = alike[axis].nunique() > 1
    results = alike[_RESULT].nunique(dropna=False).max(axis=1)
    return bool(compared.any() and (results[compared] == 1).all())
