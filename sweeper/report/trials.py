"""Read the rows of a study's trials, some thousands at a time."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from dimsweep.sweeper.ledger.pieces import Places
from dimsweep.sweeper.ledger.record import CellRecord, StudyRecord
from dimsweep.sweeper.ledger.rows import (
    BANDWIDTH,
    COMPLETE,
    EXTRA_ORIGINS,
    FAILED,
    INFEASIBLE,
    LOST,
    PORTFOLIO,
)
from dimsweep.sweeper.ledger.stored import Stored
from dimsweep.sweeper.objective import COST, Objective
from dimsweep.sweeper.study.ranking import find_front, is_near, rank_rows


class Rows(ABC):
    """The rows of a study.

    In any table of them, the index is a row's place: its number in the study.
    """

    @staticmethod
    def wrap(rows: "pd.DataFrame | Stored | Rows") -> "Rows":
        """Return an object for rows that are in a table, in any order, or in a study's files."""
        if isinstance(rows, Rows):
            return rows
        return _OfFiles(rows) if isinstance(rows, Stored) else _OfTable(rows)

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of all columns of the rows."""

    @abstractmethod
    def pieces(self, columns: Sequence[str], cell: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield tables with the existing ``columns`` of all rows, or of the rows of a ``cell``.

        A table has some thousands of rows; the tables come in any order.
        """

    @abstractmethod
    def take(self, places: Places) -> pd.DataFrame:
        """Return all columns of the rows at ``places``, in that order."""

    def existing_columns(self, columns: Sequence[str]) -> list[str]:
        """Return the existing ``columns``, each once."""
        return [name for name in dict.fromkeys(columns) if name in self._known]

    def select(self, columns: Sequence[str], places: Places) -> pd.DataFrame:
        """Return the existing ``columns`` of the rows at ``places``, in row order."""
        wanted = np.sort(places)
        found = [
            piece[np.isin(piece.index, wanted, assume_unique=True)]
            for piece in self.pieces(columns)
        ]
        return pd.concat(found).loc[places]

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)


class _OfTable(Rows):
    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table.reset_index(drop=True)

    @property
    def names(self) -> list[str]:
        return list(self._table.columns)

    def pieces(self, columns: Sequence[str], cell: int | None = None) -> Iterator[pd.DataFrame]:
        own = self._table if cell is None else self._table[self._table["cell"] == cell]
        yield own[self.existing_columns(columns)]

    def take(self, places: Places) -> pd.DataFrame:
        return self._table.loc[places]


class _OfFiles(Rows):
    def __init__(self, stored: Stored) -> None:
        self._stored = stored

    @property
    def names(self) -> list[str]:
        return list(self._stored.schema.names)

    def pieces(self, columns: Sequence[str], cell: int | None = None) -> Iterator[pd.DataFrame]:
        for places, table in self._stored.pieces(self.existing_columns(columns), cell):
            yield table.to_pandas().set_axis(places)

    def take(self, places: Places) -> pd.DataFrame:
        return self._stored.take(places).to_pandas().set_axis(places)


Floats = npt.NDArray[np.float64]
Keep = Callable[[pd.DataFrame], pd.DataFrame]


class Kept:
    """A filter of rows that arrive in batches; it keeps the rows that ``keep`` selects from all.

    ``keep`` must select the same rows if it is applied to batches first.
    """

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._rows: pd.DataFrame | None = None

    def add(self, rows: pd.DataFrame) -> None:
        """Add rows, whose index has their places (numbers in the study)."""
        if rows.empty:
            return
        own = self._keep(rows)
        self._rows = own if self._rows is None else self._keep(pd.concat([self._rows, own]))

    @property
    def rows(self) -> pd.DataFrame:
        """The rows kept so far."""
        return pd.DataFrame() if self._rows is None else self._rows

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """The places (numbers in the study) of the rows kept so far."""
        return self.rows.index.to_numpy(np.int64)


def on_front(objectives: Sequence[Objective]) -> Keep:
    """Return a function that selects the frontier of two objectives, or the best row, ranked."""
    return lambda rows: rows.iloc[find_front(rows, objectives)]


def best_of_designs(objectives: Sequence[Objective], design: Sequence[str]) -> Keep:
    """Return a function that selects the best row of each design, ranked."""

    def keep(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.iloc[rank_rows(rows, objectives)].drop_duplicates(subset=design)

    return keep


def improvements(objective: Objective) -> Keep:
    """Return a function that selects the trials that are better than all earlier trials."""

    def keep(rows: pd.DataFrame) -> pd.DataFrame:
        ordered = rows.iloc[np.argsort(rows["trial"].to_numpy(), kind="stable")]
        losses = objective.sign * ordered[objective.column].to_numpy(float)
        before = np.minimum.accumulate(np.append(np.inf, losses))[:-1]
        return ordered[losses < before]

    return keep


BROKEN = (FAILED, INFEASIBLE, LOST)  # the states of trials that are not complete


@dataclass
class Searched:
    """The trials of one cell: counts from one pass over all rows.

    Other values are read on demand.
    """

    rows: Rows
    cell: CellRecord
    objectives: Sequence[Objective]
    parameters: Sequence[str]
    n_complete: int = 0
    n_broken: int = 0  # failed, infeasible or lost
    n_lost: int = 0
    n_valueless: dict[str, int] = field(default_factory=dict)
    origins: set[str] = field(default_factory=set)
    equal: list[int] = field(default_factory=list)  # places of trials proposed as the equal split
    priced: bool = False
    last: int = 0  # number of the last complete trial

    def __post_init__(self) -> None:
        self._front, self._steps = (
            Kept(on_front(self.objectives)),
            Kept(improvements(self.objectives[0])),
        )
        self._measured = [*self.bandwidths, *self.values]
        self._low = np.full(len(self._measured), np.inf)
        self._high = -self._low
        self._not_exceeded = dict[tuple[str, float], float]()

    @property
    def bandwidths(self) -> list[str]:
        """Names of the columns with the bandwidth of each dimension."""
        return BANDWIDTH.names(len(self.cell.dims))

    @property
    def design(self) -> list[str]:
        """Names of the columns that distinguish designs."""
        return [*self.bandwidths, *self.parameters]

    @property
    def values(self) -> list[str]:
        """Names of the columns of the objectives."""
        return [objective.column for objective in self.objectives]

    def add(self, rows: pd.DataFrame) -> None:
        """Add some of the cell's rows to the counts.

        They have the columns trial, origin, state, split, objectives and cost.
        """
        self.origins.update(rows["origin"].dropna().unique().tolist())
        complete = rows[(rows["state"] == COMPLETE).to_numpy()]
        self.n_broken += int(rows["state"].isin(BROKEN).sum())
        self.n_lost += int((rows["state"] == LOST).sum())
        if complete.empty:
            return
        self.n_complete += len(complete)
        for name in self.values:
            missing = int(complete[name].isna().sum())
            self.n_valueless[name] = self.n_valueless.get(name, 0) + missing
        self.priced |= COST.column in complete and bool(complete[COST.column].notna().any())
        self.equal += complete.index[(complete["origin"] == "equal").to_numpy()].tolist()
        self.last = max(self.last, int(complete["trial"].max()))
        values = np.nan_to_num(complete[self._measured].to_numpy(float), nan=-1.0)
        self._low = np.minimum(self._low, values.min(axis=0))
        self._high = np.maximum(self._high, values.max(axis=0))
        numbered = complete[["trial", *self.values]]
        self._front.add(numbered)
        self._steps.add(numbered[["trial", self.values[0]]])

    @property
    def front(self) -> np.ndarray:
        """Places (row numbers in the study) of the nondominated rows, by the first objective."""
        return self._front.places

    @property
    def steps(self) -> pd.DataFrame:
        """Number and value of each trial that is better than all earlier trials."""
        return self._steps.rows

    @property
    def split_varies(self) -> bool:
        """True if the complete trials differ in bandwidth."""
        n = len(self.bandwidths)
        return self.n_complete > 0 and bool((self._low[:n] < self._high[:n]).any())

    @property
    def ends(self) -> dict[str, tuple[float, float]]:
        """Minimum and maximum of each dimension's bandwidth and of each objective, by column."""
        pairs = zip(self._low.tolist(), self._high.tolist(), strict=True)
        return dict(zip(self._measured, pairs, strict=True))

    def complete(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield tables with some columns of the complete trials."""
        for rows in self.all_trials([*columns, "state"]):
            yield rows[(rows["state"] == COMPLETE).to_numpy()][list(dict.fromkeys(columns))]

    def all_trials(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield tables with some columns of all trials, whether complete or not."""
        for rows in self.rows.pieces([*columns, "origin"], self.cell.cell):
            yield rows[~rows["origin"].isin(EXTRA_ORIGINS).to_numpy()]

    def values_of(self, objective: Objective) -> Floats:
        """Return the values of an objective for the P complete trials (P,), in any order."""
        name = objective.column
        found = [own[name].to_numpy(float) for own in self.complete([name])]
        return np.concatenate(found) if found else np.empty(0)

    def not_exceeded(self, objective: Objective, percent: float) -> float:
        """Return the ``percent``-th percentile of an objective's loss over the complete trials."""
        if (objective.name, percent) not in self._not_exceeded:
            losses = objective.sign * self.values_of(objective)
            found = np.percentile(losses, percent, overwrite_input=True)
            self._not_exceeded[objective.name, percent] = float(found)
        return self._not_exceeded[objective.name, percent]

    @cached_property
    def n_designs(self) -> int:
        """Number of distinct designs among all trials, compared by 64-bit hashes."""
        found = []
        for rows in self.all_trials([*self.design, "state"]):
            tried = rows[rows["state"].isin([COMPLETE, *BROKEN]).to_numpy()]
            found.append(pd.util.hash_pandas_object(tried[self.design], index=False).to_numpy())
        return len(np.unique(np.concatenate(found)))

    def front_without(self, row: pd.Series) -> pd.DataFrame:
        """Return the frontier of complete trials whose searched values differ from the row's."""
        keys, kept = list(self.parameters), Kept(on_front(self.objectives))
        for rows in self.complete(["trial", *self.values, *keys]):
            kept.add(rows[(rows[keys] != row[keys]).any(axis=1).to_numpy()])
        return self.rows.take(kept.places)

    def near_first(self) -> int:
        """Return the number of the first trial within 1% of the first objective's best value."""
        values = self.steps[self.objectives[0].column].to_numpy(float)
        return int(self.steps["trial"].to_numpy()[is_near(values, values[-1])][0])

    def shares_near(self) -> tuple[Floats, Floats]:
        """Return the minimum and maximum share (D,) of each dimension in the total bandwidth.

        Only trials within 1% of the best in the first objective are considered.
        """
        (first, *_), low = self.objectives, np.full(len(self.bandwidths), np.inf)
        best, high = float(self.steps[first.column].iloc[-1]), -low
        for rows in self.complete([*self.bandwidths, first.column]):
            own = rows[is_near(rows[first.column], best).to_numpy()]
            if len(own):
                share = _shares(own[self.bandwidths])
                low, high = np.minimum(low, share.min(axis=0)), np.maximum(high, share.max(axis=0))
        return low, high

    @cached_property
    def widest_dims(self) -> tuple[int, int]:
        """The two dimensions whose bandwidth shares vary most among the better half of the trials.

        The worse half shows where the search did not go.
        """
        better, n, mean, spread = self._better_half(), 0, 0.0, 0.0
        for rows in self.complete([*self.bandwidths, "trial", *self.values]):
            own = _shares(rows[better(rows)][self.bandwidths])
            if len(own):  # Chan, Golub and LeVeque (1983): of parts the variance of the whole
                apart, m = own.mean(axis=0) - mean, n + len(own)
                spread = spread + ((own - own.mean(axis=0)) ** 2).sum(axis=0)
                spread = spread + apart**2 * (n * len(own) / m)
                mean, n = mean + apart * (len(own) / m), m
        first, second = sorted(np.argsort(-np.sqrt(spread / n), kind="stable")[:2])
        return int(first), int(second)

    def _better_half(self) -> Callable[[pd.DataFrame], np.ndarray]:
        """Return a function that selects rows in the better half of the complete trials."""
        (first, *_), half = self.objectives, -(-self.n_complete // 2)
        losses = first.sign * self.values_of(first)
        losses.partition(half - 1)
        last = losses[half - 1]
        n_ties = half - int((losses < last).sum())  # kept of the ties
        del losses
        kept = Kept(lambda rows: rows.iloc[rank_rows(rows, self.objectives)].head(n_ties))
        for rows in self.complete(["trial", *self.values]):
            kept.add(rows[(first.sign * rows[first.column] == last).to_numpy()])
        places = np.sort(kept.places)

        def is_better(rows: pd.DataFrame) -> np.ndarray:
            below = (first.sign * rows[first.column] < last).to_numpy()
            return np.asarray(below | np.isin(rows.index, places))

        return is_better

    def ranked(self, designs: pd.DataFrame) -> list[tuple[int, int] | None]:
        """Return, for each row, the rank (from 1) and the place of the best trial of its design.

        Or None. Ranks are among the designs of the complete trials. Columns in which a row of
        ``designs`` has no value are not compared.
        """
        given = [row[self.design].dropna() for _, row in designs.iterrows()]
        same = [Kept(lambda rows: rows.iloc[rank_rows(rows, self.objectives)[:1]]) for _ in given]
        columns = ["trial", *self.values, *self.design]
        for rows in self.complete(columns):
            for own, kept in zip(given, same, strict=True):
                kept.add(rows[(rows[own.index] == own).all(axis=1).to_numpy()])
        first = self.objectives[0]
        losses = [(first.sign * kept.rows[first.column]).max() for kept in same if len(kept.rows)]
        above = Kept(best_of_designs(self.objectives, self.design))
        for rows in self.complete(columns) if losses else ():
            above.add(rows[(first.sign * rows[first.column] <= max(losses)).to_numpy()])
        ranks = {place: i + 1 for i, place in enumerate(above.places.tolist())}
        places = [kept.places.tolist() for kept in same]
        return [(ranks[own[0]], own[0]) if own else None for own in places]


def _shares(split: pd.DataFrame) -> Floats:
    """Return the share of each dimension in the total bandwidth of each split (N, D)."""
    bandwidth = split.to_numpy(float)
    return np.asarray(bandwidth / bandwidth.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Overview:
    """The counts of all cells, from one pass over all rows of a study."""

    rows: Rows
    #: The trials of each cell's search.
    searched: Mapping[int, Searched]
    #: Rows of rechecks, baselines and what-ifs, with all columns.
    extra_rows: pd.DataFrame
    #: Places of the splits that were tried for a portfolio, by cell.
    shared: Mapping[int, np.ndarray]

    @classmethod
    def from_rows(cls, rows: Rows, study: StudyRecord) -> Self:
        """Read the rows of a study once, and count the trials of each cell."""
        parts = study.objectives, study.parameters
        found = {cell.cell: Searched(rows, cell, *parts) for cell in study.cells}
        names = dict.fromkeys(name for each in found.values() for name in each.bandwidths)
        values = [*(objective.column for objective in study.objectives), COST.column]
        extra_rows, shared = list[int](), dict[int, list[int]]()
        for piece in rows.pieces(["cell", "trial", "origin", "state", *names, *values]):
            others = piece["origin"].isin(EXTRA_ORIGINS).to_numpy()
            extra = piece[others]
            for_all = (extra["origin"] == PORTFOLIO).to_numpy()
            extra_rows += extra.index[~for_all].tolist()
            for number, place in zip(extra["cell"][for_all], extra.index[for_all], strict=True):
                shared.setdefault(int(number), []).append(place)
            for number, own in piece[~others].groupby("cell", sort=False):
                if (one := found.get(int(number))) is not None:
                    one.add(own)
        return cls(rows, found, rows.take(np.array(extra_rows, np.int64)), _arrays(shared))

    def complete(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield tables with some columns of the complete trials."""
        wanted = self.rows.existing_columns(columns)
        for rows in self.rows.pieces([*wanted, "cell", "origin", "state"]):
            own = (rows["state"] == COMPLETE) & ~rows["origin"].isin(EXTRA_ORIGINS)
            own &= rows["cell"].isin(list(self.searched))
            yield rows[own.to_numpy()][wanted]

    def broken(self) -> Iterator[pd.DataFrame]:
        """Yield tables of the searches' failed and infeasible trials: cell, number and error."""
        for rows in self.rows.pieces(["cell", "trial", "origin", "state", "error"]):
            own = rows["state"].isin(BROKEN) & ~rows["origin"].isin(EXTRA_ORIGINS)
            own &= rows["cell"].isin(list(self.searched))
            yield rows[own.to_numpy()]


def _arrays(lists: Mapping[int, list[int]]) -> dict[int, np.ndarray]:
    return {number: np.array(own, np.int64) for number, own in lists.items()}
