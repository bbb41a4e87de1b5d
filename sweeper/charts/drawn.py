"""Which trials a page has: all of them, or, of many, those that can be seen in its charts.

A trial is left out only if it is none of the best, and another one of its colour has its mark
beside or over it in each chart, as they are at first and with all trials in view.  What is told of
trials (fronts, the best so far, tables, claims) is told of all.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from dimsweep.sweeper.charts.ranges import LOG_RATIO, axis_of, useful
from dimsweep.sweeper.ledger.pieces import Places
from dimsweep.sweeper.ledger.schema import EXPOSED, WAITED
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.stands_out import Kept

ALL = 20_000  # trials, up to which a page has all of them
_BEST = 2_000  # that it has in any case
_VALUES = 50  # of a searched key, of which it has some trial in any case
_ACROSS, _DOWN = 240, 80  # marks beside one another in a chart, and below
# Of trials whose marks are one any is drawn, whenever it was asked for: by its place, mixed.
_MIX = 0x9E3779B97F4A7C15
_BACK = np.uint64(pow(_MIX, -1, 1 << 64))
_NONE = np.iinfo(np.uint64).max
_Ends = tuple[float, float]


def limits(rows: pd.DataFrame, n_dims: int) -> npt.NDArray[np.intp]:
    """What holds most of each trial's time apart from compute: the number of a dimension, then
    that of waiting, and that of compute where nothing does."""
    times = rows[[*EXPOSED.names(n_dims), WAITED.name]].fillna(0.0).to_numpy(float)
    return np.where(times.max(axis=1) > 0, times.argmax(axis=1), n_dims + 1)


def ranked(report: Report, rows: pd.DataFrame) -> pd.DataFrame:
    """Complete trials, those first that lose least against the best of their scenario: the shortest
    time of several models is no merit."""
    first, *others = report.study.objectives
    keys = [rows["cell"], rows["trial"], *(o.sign * rows[o.column] for o in reversed(others))]
    keys.append(first.loss(rows[first.column]) / rows["cell"].map(_least(report)))
    return rows.iloc[np.lexsort(keys)]


def drawn(report: Report, n_dims: int) -> Places:
    """The places of the trials that a page has, in no order."""
    objectives = [objective.column for objective in report.study.objectives]
    keys, splits = list(report.study.parameters), _splits(report)
    columns = ["cell", "trial", *objectives, *splits, *keys, *EXPOSED.names(n_dims), WAITED.name]
    views = list(_views(report, n_dims))
    kept = [Kept(lambda rows: ranked(report, rows).head(_BEST)), Kept(_at_ends(splits))]
    kept += [Kept(_of_each(key)) for key in keys]
    for rows in report.seen.complete(columns):
        for view in views:
            view.add(rows, limits(rows, n_dims))
        for each in kept:
            each.add(rows)
    found = [view.places for view in views] + [each.places for each in kept]
    for cell in report.tried:
        found += [cell.trials.front, cell.trials.steps.index.to_numpy(np.int64)]
        marked = [row.name for row in (cell.best, cell.equal) if row is not None]
        found.append(np.array(marked, np.int64))
    return np.unique(np.concatenate(found))


@dataclass
class _View:
    """A column over another one between two ends each: in each square of the size of a mark, one
    of the trials of each colour."""

    x: str
    y: str
    x_ends: _Ends
    y_ends: _Ends
    n_colours: int
    _kept: npt.NDArray[np.uint64] = field(init=False)

    def __post_init__(self) -> None:
        self._kept = np.full(self.n_colours * _DOWN * _ACROSS, _NONE, np.uint64)

    def add(self, rows: pd.DataFrame, colours: npt.NDArray[np.intp]) -> None:
        """Look at more trials."""
        x, y = _bins(rows[self.x], self.x_ends, _ACROSS), _bins(rows[self.y], self.y_ends, _DOWN)
        seen = (x >= 0) & (y >= 0)
        square = (colours[seen] * _DOWN + y[seen]) * _ACROSS + x[seen]
        mixed = rows.index.to_numpy(np.uint64)[seen] * np.uint64(_MIX)
        np.minimum.at(self._kept, square, mixed)

    @property
    def places(self) -> Places:
        return (self._kept[self._kept < _NONE] * _BACK).astype(np.int64)


def _bins(values: pd.Series, ends: _Ends, n: int) -> npt.NDArray[np.intp]:
    """In which of ``n`` equal parts of an axis values are; -1 of those beyond its ends."""
    found, (low, high) = values.to_numpy(float), ends
    if high > LOG_RATIO * low > 0:
        found, low, high = np.log(found), np.log(low), np.log(high)
    share = np.nan_to_num((found - low) / (high - low or 1.0), nan=-1.0)
    inside = (share >= 0) & (share <= 1)
    return np.where(inside, np.minimum((share * n).astype(np.intp, copy=False), n - 1), -1)


def _views(report: Report, n_dims: int) -> Iterator[_View]:
    """What the charts show at first, and what they show with all trials in view."""
    cells, (first, *others) = report.tried, report.study.objectives
    whole = {name: _ends(report, name) for name in (*_splits(report), first.column)}
    whole |= {each.column: _ends(report, each.column) for each in others}
    whole["trial"] = (0.0, float(max(cell.trials.last for cell in cells)))
    shown = dict(whole)
    for objective in (first, *others):
        factor, _ = axis_of(report, objective)
        low, high = useful(report, objective)
        shown[objective.column] = low / factor, high / factor
    pairs = [("trial", first.column), *((first.column, each.column) for each in others)]
    varied = [name for name in _splits(report) if whole[name][0] < whole[name][1]]
    pairs += [(varied[0], first.column)] if varied else []
    if len(cells) == 1 and len(varied) > 1:
        splits = cells[0].trials.bandwidths
        one, other = cells[0].trials.widest_dims
        pairs.append((splits[one], splits[other]))
    for x, y in pairs:
        yield _View(x, y, shown[x], shown[y], n_dims + 2)
        yield _View(x, y, whole[x], whole[y], n_dims + 2)


def _splits(report: Report) -> list[str]:
    """The columns of all cells' splits."""
    return max((cell.trials.bandwidths for cell in report.tried), key=len)


def _ends(report: Report, name: str) -> _Ends:
    found = [e[name] for cell in report.tried if name in (e := cell.trials.ends)]
    return min(low for low, _ in found), max(high for _, high in found)


def _at_ends(columns: Sequence[str]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Keeps a row with the least and one with the largest value of each column."""

    def keep(rows: pd.DataFrame) -> pd.DataFrame:
        known = [rows[name].dropna() for name in columns]
        ends = [end for own in known if len(own) for end in (own.idxmin(), own.idxmax())]
        return rows[rows.index.isin(ends)]

    return keep


def _of_each(name: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Keeps the first row of each value of a column, of some values."""
    return lambda rows: rows.drop_duplicates(subset=[name]).head(_VALUES)


def _least(report: Report) -> dict[int, float]:
    """For each cell what is lost by the best of its scenario; 1 where that is nothing."""
    decisions = report.decisions
    least: dict[int, float] = {}
    for s in range(len(decisions.scenarios)):
        cells = [decisions.cells[d, s] for d in decisions.order(s)]
        own = min(each.objective.loss(each.objective.of(each.best)) for each in cells)
        least |= {each.cell.cell: own or 1.0 for each in cells}
    return least
