"""Rank trials: the best by the first objective, and the frontier of two objectives."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.rows import EXTRA_ORIGINS
from dimsweep.sweeper.objective import Objective

Integers = npt.NDArray[np.intp]

NEAR = 0.01  # this close to the best is as good in practice
_PAIR = re.compile(r"\b(?:Ring|FullyConnected)\(2\)")


def merge_identical_blocks(coordinates: Mapping[str, str]) -> dict[str, str]:
    """Return a design's axis values with one name, ``Pair(2)``, for identical blocks.

    One link joins the two NPUs of a ``Ring(2)``, and of a ``FullyConnected(2)``.
    """
    return {key: _PAIR.sub("Pair(2)", value) for key, value in coordinates.items()}


def find_best(rows: Any, objectives: Sequence[Objective]) -> int:
    """Return the position of the best of ``rows``, which must not be empty; ties go to the first.

    With two objectives, it is the best in the second objective among the rows within 1 % of the
    best in the first, since the last per cent may cost several times as much.
    """
    order = find_front(rows, objectives)
    values = np.asarray(rows[objectives[0].column], dtype=float)[order]
    return int(order[np.flatnonzero(is_near(values, values[0]))[-1]])


def is_near(values: Any, best: float) -> Any:
    """Return whether values are within 1% of ``best``."""
    return abs(values - best) <= NEAR * best


def rank_rows(rows: Any, objectives: Sequence[Objective]) -> Integers:
    """Return positions of ``rows`` (a table by column) from best to worst.

    Rows are compared by the first objective, then the second, then the trial.
    """
    keys = [np.asarray(rows["trial"])]
    keys += [o.sign * np.asarray(rows[o.column], dtype=float) for o in reversed(objectives)]
    return np.asarray(np.lexsort(keys))


def find_front(rows: Any, objectives: Sequence[Objective]) -> Integers:
    """Return positions of the rows that no other row dominates, in ranking order."""
    order = rank_rows(rows, objectives)
    if len(objectives) == 1:
        return order[:1]
    # Down the ranking the first objective only gets worse, so a row stays if and only if its
    # second objective is better than that of all rows before it.
    second = (objectives[1].sign * np.asarray(rows[objectives[1].column], dtype=float))[order]
    before = np.minimum.accumulate(np.concatenate(([math.inf], second)))[:-1]
    return np.asarray(order[second < before])


def best_of_scenarios(rows: pa.Table, study: StudyRecord) -> pa.Table:
    """Return the best row of each scenario, by cell: the rows that the report names."""
    objectives, axes = study.objectives, study.scenarios
    rows = rows.filter(pc.invert(pc.is_in(rows["origin"], pa.array(EXTRA_ORIGINS))))
    for objective in objectives:
        rows = rows.filter(pc.is_finite(rows[objective.column]))
    columns = {
        name: rows[name].to_numpy() for name in ("trial", *(each.column for each in objectives))
    }
    cells = rows["cell"].to_numpy()
    by_cell = np.argsort(cells, kind="stable")
    own = np.split(by_cell, np.flatnonzero(np.diff(cells[by_cell])) + 1) if len(rows) else []
    found = [g[find_best({name: v[g] for name, v in columns.items()}, objectives)] for g in own]
    rows = rows.take(pa.array(found, pa.int64()))
    order = "descending" if objectives[0].maximised else "ascending"
    rows = rows.sort_by([(objectives[0].column, order), ("cell", "ascending")])
    seen = dict[tuple[str, ...], int]()
    for i in range(len(rows)):
        seen.setdefault(tuple(rows[axis][i].as_py() for axis in axes), i)
    return rows.take(pa.array(list(seen.values()), pa.int64())).sort_by("cell")
