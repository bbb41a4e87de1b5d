"""Axes of a study that made no difference, by its rows."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from dimsweep.engine import MERIT_NEEDS
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.rows import BASELINE, COMPLETE, RECHECK, WHAT_IF
from dimsweep.sweeper.ledger.schema import BANDWIDTH
from dimsweep.sweeper.report.rows import Rows

_CHANGED = (RECHECK, BASELINE, WHAT_IF)  # differ in more than the axes of the study
_RESULTS = ("time_ps", "cost_usd", *MERIT_NEEDS)
_FIRST = 100_000  # rows, which show of most axes that they make a difference


def idle_axes(rows: pd.DataFrame | Rows, study: StudyRecord) -> list[str]:
    """The axes of the grid and the searched keys whose values never changed a result.

    Rows are compared that differ in nothing but the axis; where no two such rows have different
    values of it, nothing is said.
    """
    axes, rows = list(dict.fromkeys([*study.grid, *study.parameters])), Rows.of(rows)
    if not axes:
        return []
    design = list(dict.fromkeys([*BANDWIDTH.among(rows.names), *axes]))
    first, whole = list[pd.DataFrame](), True
    for own in _compared(rows, design):
        first.append(own)
        if sum(map(len, first)) > _FIRST:
            whole = False
            break
    if not first:
        return []
    start = pd.concat(first)
    told = {axis: _is_idle(start, axis, design) for axis in axes}
    if not whole:  # what made a difference in some rows makes one in all
        open_still = [axis for axis in axes if told[axis] is not False]
        told |= {axis: _is_idle(_alike(rows, axis, design), axis, design) for axis in open_still}
    return [axis for axis in axes if told[axis]]


def _compared(rows: Rows, design: Sequence[str]) -> Iterator[pd.DataFrame]:
    """The design and the results of the rows that are compared, some of them at a time."""
    results = rows.there(_RESULTS)
    for own in rows.pieces([*design, *results, "state", "origin"]):
        complete = (own["state"] == COMPLETE) & ~own["origin"].isin(_CHANGED)
        yield own[complete.to_numpy()][[*design, *results]]


def _alike(rows: Rows, axis: str, design: Sequence[str]) -> pd.DataFrame:
    """The rows that differ from some other one in nothing but the axis and the result."""
    others = [name for name in design if name != axis]
    hashes = [_hashes(own, others) for own in _compared(rows, design)]
    every = np.sort(np.concatenate(hashes))
    again = np.unique(every[1:][every[1:] == every[:-1]])
    pairs = zip(_compared(rows, design), hashes, strict=True)
    return pd.concat([own[np.isin(each, again)] for own, each in pairs])


def _hashes(rows: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    if not names:
        return np.zeros(len(rows), np.uint64)
    return pd.util.hash_pandas_object(rows[list(names)], index=False).to_numpy()


def _is_idle(rows: pd.DataFrame, axis: str, design: Sequence[str]) -> bool | None:
    """Whether no two rows that differ in the axis alone have other results; None where there are no
    two such rows."""
    others = [name for name in design if name != axis]
    alike = rows.groupby(others, dropna=False) if others else rows.groupby(lambda _: 0)
    compared = alike[axis].nunique() > 1
    if not compared.any():
        return None
    there = [name for name in rows.columns if name not in design]
    results = alike[there].nunique(dropna=False).max(axis=1)
    return bool((results[compared] == 1).all())
