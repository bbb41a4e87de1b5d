"""Rows that stand out among any number of rows, which are added some at a time, in any order."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from dimsweep.sweeper.objective import Objective
from dimsweep.sweeper.study.ranking import front, ranking

Floats = npt.NDArray[np.float64]
Keep = Callable[[pd.DataFrame], pd.DataFrame]


class Kept:
    """The rows that ``keep`` keeps of all that were added.  It keeps the same of rows of which some
    were left out before that it did not keep."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._rows: pd.DataFrame | None = None

    def add(self, rows: pd.DataFrame) -> None:
        """Add rows, with their places as the index."""
        if rows.empty:
            return
        own = self._keep(rows)
        self._rows = own if self._rows is None else self._keep(pd.concat([self._rows, own]))

    @property
    def rows(self) -> pd.DataFrame:
        """The rows that are kept."""
        return pd.DataFrame() if self._rows is None else self._rows

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """The places of the rows that are kept."""
        return self.rows.index.to_numpy(np.int64)


def on_front(objectives: Sequence[Objective]) -> Keep:
    """Keeps the front of two objectives, or the best row, in the order of ranking."""
    return lambda rows: rows.iloc[front(rows, objectives)]


def best_of(objectives: Sequence[Objective], design: Sequence[str]) -> Keep:
    """Keeps the best row of each design, in the order of ranking."""

    def keep(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.iloc[ranking(rows, objectives)].drop_duplicates(subset=design)

    return keep


def steps(objective: Objective) -> Keep:
    """Keeps the trials that are better than all before them, in order: the best so far."""

    def keep(rows: pd.DataFrame) -> pd.DataFrame:
        ordered = rows.iloc[np.argsort(rows["trial"].to_numpy(), kind="stable")]
        losses = objective.sign * ordered[objective.column].to_numpy(float)
        before = np.minimum.accumulate(np.append(np.inf, losses))[:-1]
        return ordered[losses < before]

    return keep
