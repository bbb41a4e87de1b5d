"""Which of several trials are the best ones: by the first objective, and on the front of two."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dimsweep.sweeper.objective import Objective

Integers = npt.NDArray[np.intp]

NEAR = 0.01  # this close to the best is as good in practice
_PAIR = re.compile(r"\b(?:Ring|FullyConnected)\(2\)")


def physical(coordinates: Mapping[str, str]) -> dict[str, str]:
    """Return the coordinates of a design with one name for blocks that are physically identical:
    one link joins the two NPUs of a ``Ring(2)`` and of a ``FullyConnected(2)``."""
    return {key: _PAIR.sub("Pair(2)", value) for key, value in coordinates.items()}


def best(rows: Any, objectives: Sequence[Objective]) -> int:
    """The position of the row that stands for ``rows``, of which there must be one: the best, the
    earliest of equal ones; of two objectives what is within 1% of the best in the first and best in
    the second, since a last per cent may cost several times as much."""
    order = front(rows, objectives)
    values = np.asarray(rows[objectives[0].column], dtype=float)[order]
    return int(order[np.flatnonzero(near(values, values[0]))[-1]])


def near(values: Any, best: float) -> Any:
    """Whether values are within 1% of the best one."""
    return abs(values - best) <= NEAR * best


def ranking(rows: Any, objectives: Sequence[Objective]) -> Integers:
    """Positions of ``rows`` (a table by column) from best to worst: by the first objective, the
    second, the trial."""
    keys = [np.asarray(rows["trial"])]
    keys += [o.sign * np.asarray(rows[o.column], dtype=float) for o in reversed(objectives)]
    return np.asarray(np.lexsort(keys))


def front(rows: Any, objectives: Sequence[Objective]) -> Integers:
    """Positions of the rows no other dominates, in ranking order."""
    order = ranking(rows, objectives)
    if len(objectives) == 1:
        return order[:1]
    # Down the ranking the first objective only gets worse, so a row stays if and only if its
    # second objective is better than that of all rows before it.
    second = (objectives[1].sign * np.asarray(rows[objectives[1].column], dtype=float))[order]
    before = np.minimum.accumulate(np.concatenate(([math.inf], second)))[:-1]
    return np.asarray(order[second < before])
