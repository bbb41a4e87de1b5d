"""The complete trials of a study as one table that all charts of a page share.

A trial that is brushed in one chart is therefore marked in all of them, and a filter applies to all
charts.  Of many trials the page has only those that can be seen in its charts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from bokeh.models import CDSView, ColumnDataSource, IndexFilter, Range1d, TextInput

from dimsweep.sweeper.ledger.pieces import Places
from dimsweep.sweeper.ledger.rows import BANDWIDTH, EXPOSED, WAITED
from dimsweep.sweeper.objective import OBJECTIVES, TIME, Objective
from dimsweep.sweeper.report import naming, words
from dimsweep.sweeper.report.charts import RELATIVE_AXIS, minimum_losses, needs_separate_scales
from dimsweep.sweeper.report.colours import GREY, dimension_colour
from dimsweep.sweeper.report.colours import WAITING as WAITS
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary, Floats
from dimsweep.sweeper.report.trials import Kept

COMPUTE, WAITING = "compute", "waiting"
RELATIVE = "relative"  # the column of what an objective is against the best of its scenario


@dataclass(frozen=True)
class Column:
    """A column of the shared table: its title with the unit, and the format of its numbers."""

    title: str
    format: str | None = None


@dataclass
class Points:
    """The trials of a report's cells that the page shows, the best of each scenario first.

    ``rows`` has the ledger's columns. ``source`` has the ``columns`` that charts show, in the units
    of their titles.  ``kept`` are the trials that pass the reader's filter in ``box``. ``listed``
    are the brushed ones among them, if some are brushed.
    """

    report: Report
    rows: pd.DataFrame
    columns: dict[str, Column] = field(default_factory=dict)
    source: ColumnDataSource = field(default_factory=ColumnDataSource)
    kept: IndexFilter = field(default_factory=IndexFilter)
    listed: IndexFilter = field(default_factory=IndexFilter)
    box: TextInput = field(default_factory=TextInput)

    @classmethod
    def from_report(cls, report: Report) -> Self:
        """Collect the complete trials of all cells of a report."""
        self = cls(report, pd.DataFrame())
        self.rows = self._drawn()
        self._add_designs()
        self._add_measures()
        self._add("origin", "origin", self.rows["origin"])
        names = np.array([*self.dims, WAITING, COMPUTE], dtype=object)
        self._add("bottleneck", "bottleneck", names[limits(self.rows, len(self.dims))])
        return self

    def _drawn(self) -> pd.DataFrame:
        """Return the rows of the trials that the page shows, the best of each scenario first."""
        report, dims = self.report, len(self.dims)
        columns = ["cell", "trial", "origin", *report.study.grid, *report.study.parameters]
        columns += [objective.column for objective in OBJECTIVES.values()]
        columns += [*BANDWIDTH.names(dims), *_parts(self.dims).values()]
        if self.n > ALL:
            rows = report.seen.rows.select(columns, drawn(report, dims))
        else:
            rows = pd.concat(list(report.seen.complete(columns)))
        return ranked(report, rows).reset_index(drop=True)

    @property
    def n(self) -> int:
        """Number of complete trials."""
        return sum(cell.trials.n_complete for cell in self.report.tried)

    @property
    def view(self) -> CDSView:
        """Filter of the shared table that every chart applies."""
        return CDSView(filter=self.kept)

    @property
    def dims(self) -> list[str]:
        """Names of the dimensions; only their numbers if the cells' names differ."""
        names = {tuple(s.dims) for s in self.report.tried}
        if len(names) == 1:
            return list(names.pop())
        return [f"dim {d}" for d in range(max(map(len, names)))]

    @property
    def design(self) -> list[str]:
        """Names of the columns that vary and describe a design: bandwidths, then searched keys."""
        own = [*(f"b{d}" for d in range(len(self.dims))), *self.report.study.parameters]
        known = [name for name in own if name in self.columns]  # a graph has no bandwidths
        return [name for name in known if self.columns[name].format and self._varies(name)]

    @property
    def searched(self) -> bool:
        """True if anything besides the axes of the grid was searched."""
        found = self.report.tried
        return any(cell.split_varies or cell.parameters for cell in found) or len(found) == 1

    def place(self, row: pd.Series) -> int:
        """Return the position in the shared table of a row's trial."""
        same = (self.rows["cell"] == row["cell"]) & (self.rows["trial"] == row["trial"])
        return int(same.to_numpy().argmax())

    @property
    def colours(self) -> dict[str, str]:
        """Colour of each bottleneck that occurs among the trials, by its name."""
        names = {COMPUTE: GREY, WAITING: WAITS}
        names |= {name: dimension_colour(d) for d, name in enumerate(self.dims)}
        found = set(self.source.data["bottleneck"])
        return {name: colour for name, colour in names.items() if name in found}

    def axis(self, objective: Objective) -> tuple[float, str]:
        """Return the factor by which an objective is plotted, and the label of its axis."""
        return axis_of(self.report, objective)

    def shown_column(self, objective: Objective) -> str:
        """Return the name of the column that charts plot for an objective.

        It is relative to the best of each scenario if scenarios have very different values.
        """
        is_first = objective is self.report.study.objectives[0]
        return RELATIVE if is_first and RELATIVE in self.columns else objective.column

    def scaled(self, cell: CellSummary, objective: Objective, values: Floats) -> Floats:
        """Return a cell's values of an objective in the units of :meth:`shown_column`."""
        if self.shown_column(objective) != RELATIVE:
            return self.axis(objective)[0] * values
        return np.asarray(
            objective.loss(values) / minimum_losses(self.report.tried)[cell.cell.cell]
        )

    def differs(self, name: str) -> bool:
        """Return whether the trials have more than one value in a column."""
        return len(set(self.source.data[name])) > 1

    def coded(self, name: str) -> tuple[str, list[str]]:
        """Add a column with the position of each value of a key; return its name and the values."""
        values = list(self.source.data[name])
        ordered = self._in_order(name, set(values))
        texts = ordered
        if self.columns[name].format:
            texts = [words.number(float(value)) for value in ordered]
        coded, place = f"{name}#", {value: i for i, value in enumerate(ordered)}
        self.source.data[coded] = np.array([place[value] for value in values], np.float32)
        return coded, texts

    def _in_order(self, key: str, values: set[Any]) -> list[Any]:
        """Return the values of a key in order: numbers by size, texts as the study lists them."""
        asked = self.report.study.config.get("space", {}).get("parameters", {}).get(key, {})
        listed = [str(value) for value in asked.get("values") or ()]
        places = {value: listed.index(value) for value in values if value in listed}
        return sorted(values, key=lambda value: (places.get(value, len(listed)), value))

    def take(self, name: str, places: list[int]) -> list[Any]:
        """Return the values of a column at the given positions."""
        return [self.source.data[name][place] for place in places]

    def _varies(self, name: str) -> bool:
        values = self.source.data[name]
        return bool(np.nanmin(values) < np.nanmax(values))

    def _add(self, name: str, title: str, values: Any, digits: str | None = None) -> None:
        self.columns[name] = Column(title, digits)
        # Single precision has the seven digits that anyone reads, in half of the page.
        data = np.asarray(values, np.float32) if digits else [str(value) for value in values]
        self.source.data[name] = data

    def _add_designs(self) -> None:
        rows, keys = self.rows, self.report.study.parameters
        for objective in self.report.study.objectives:
            self._add_measure(objective)
        first = self.report.study.objectives[0]
        if needs_separate_scales(self.report.tried):
            losses = first.loss(rows[first.column]) / rows["cell"].map(
                minimum_losses(self.report.tried)
            )
            self._add(RELATIVE, RELATIVE_AXIS, losses, "0,0.[0000]")
        self._add("trial", "trial", rows["trial"], "0")
        if len(self.report.summaries) > 1:
            found = self.report.tried
            names = dict(zip((s.cell.cell for s in found), naming.labels(found), strict=True))
            self._add("cell", "cell", rows["cell"].map(names))
        if not all(cell.of_graph for cell in self.report.tried):
            for d, name in enumerate(self.dims):
                self._add(f"b{d}", f"{name}, GB/s", rows[BANDWIDTH.at(d)], "0,0.[00]")
        for key, name in zip(keys, naming.short_keys(keys), strict=True):
            numbers = pd.to_numeric(rows[key], errors="coerce")
            if numbers.notna().all():
                self._add(key, name, numbers, "0,0.[0000]")
            else:
                self._add(key, name, rows[key])

    def _known(self, objective: Objective) -> bool:
        return objective.column in self.rows and bool(self.rows[objective.column].notna().all())

    def _add_measure(self, objective: Objective) -> None:
        factor, title = self.axis(objective)
        self._add(objective.column, title, factor * self.rows[objective.column], "0,0.[0000]")

    def _add_measures(self) -> None:
        for objective in OBJECTIVES.values():
            if objective.column not in self.columns and self._known(objective):
                self._add_measure(objective)
        factor, title = self.axis(TIME)
        unit = title.rsplit(" ", 1)[-1]
        for name, column in _parts(self.dims).items():
            self._add(column, f"{name} {unit}", factor * self.rows[column], "0,0.[000]")


def _parts(dims: list[str]) -> dict[str, str]:
    """Return the columns with the components of a trial's time, by name."""
    exposed = {f"exposed in {name}": EXPOSED.at(d) for d, name in enumerate(dims)}
    return {COMPUTE: "compute_s", **exposed, WAITING: "waiting_s"}


LOG_RATIO = 20.0  # an axis that spans more than this is logarithmic


def axis_of(report: Report, objective: Objective) -> tuple[float, str]:
    """Return the factor by which an objective's values are plotted, and the label of its axis."""
    return words.axis(objective, min(objective.value(cell.best) for cell in report.found))


def useful(report: Report, objective: Objective) -> tuple[float, float]:
    """Return the range of an objective to show at first, in the unit of its axis.

    It goes from the best value or its bound to the equal split's, the front's end, or that of most
    trials.  A search also tries splits that are many times slower; they would hide the rest.
    """
    factor, _ = axis_of(report, objective)
    ends = [_useful(cell, objective) for cell in report.found]
    low = factor * min(end[0] for end in ends)
    high = factor * max(end[1] for end in ends)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    if high > LOG_RATIO * low > 0:
        return low / 1.3, high * 1.3
    return low - margin, high + margin


def useful_relative(report: Report) -> tuple[float, float]:
    """Return the range of ratios to the best of each scenario to show at first."""
    objective, least = report.study.objectives[0], minimum_losses(report.tried)
    ends = [
        objective.loss(end) / least[cell.cell.cell]
        for cell in report.found
        for end in _useful(cell, objective)
    ]
    low, high = min(ends), max(ends)
    if high > LOG_RATIO * low > 0:
        return low / 1.3, high * 1.3
    margin = 0.06 * (high - low) or 0.05
    return low - margin, high + margin


def _useful(cell: CellSummary, objective: Objective) -> tuple[float, float]:
    front: Floats = objective.sign * cell.front[objective.column].to_numpy(float)
    # The least loss in either objective is on the front.
    ends = [front.min(), cell.trials.not_exceeded(objective, 80), front.max()]
    if cell.equal is not None:
        ends.append(objective.sign * objective.value(cell.equal))
    if cell.bound is not None and objective is cell.objective:
        ends.append(objective.sign * cell.bound)
    values = sorted(objective.sign * end for end in ends)
    return values[0], values[-1]


def span(ends: tuple[float, float]) -> Range1d:
    """Return a Bokeh range that starts at ``ends``; the reader may zoom out of it and reset it."""
    return Range1d(*ends)


def scale(ends: tuple[float, float], ratio: float = LOG_RATIO) -> str:
    """Return the type of axis for a range: log if the ratio of its ends is above ``ratio``."""
    return "log" if ends[0] > 0 and ends[1] > ratio * ends[0] else "linear"


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
    """Return the bottleneck of each trial: a dimension's number, or that of waiting or compute.

    It takes most of the trial's time besides compute; the numbers of waiting and compute follow
    those of the dimensions.
    """
    times = rows[[*EXPOSED.names(n_dims), WAITED.name]].fillna(0.0).to_numpy(float)
    return np.where(times.max(axis=1) > 0, times.argmax(axis=1), n_dims + 1)


def ranked(report: Report, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the complete trials, sorted by their loss against the best of their scenario."""
    first, *others = report.study.objectives
    keys = [rows["cell"], rows["trial"], *(o.sign * rows[o.column] for o in reversed(others))]
    keys.append(first.loss(rows[first.column]) / rows["cell"].map(minimum_losses(report.tried)))
    return rows.iloc[np.lexsort(keys)]


def drawn(report: Report, n_dims: int) -> Places:
    """Return the places (row numbers in the study) of the trials that the page shows."""
    objectives = [objective.column for objective in report.study.objectives]
    keys, splits = list(report.study.parameters), _splits(report)
    columns = ["cell", "trial", *objectives, *splits, *keys, *EXPOSED.names(n_dims), WAITED.name]
    views = list(_views(report, n_dims))
    kept = [Kept(lambda rows: ranked(report, rows).head(_BEST)), Kept(_at_ends(splits))]
    kept += [Kept(_of_each(key)) for key in keys]
    first, least = report.study.objectives[0], minimum_losses(report.tried)
    for rows in report.seen.complete(columns):
        scaled = rows.assign(**{RELATIVE: first.loss(rows[first.column]) / rows["cell"].map(least)})
        for view in views:
            view.add(scaled, limits(rows, n_dims))
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
    """Selects the trials that are visible in a plot of two columns within given ends.

    It keeps one trial of each colour for each square of the size of a mark.
    """

    x: str
    y: str
    x_ends: _Ends
    y_ends: _Ends
    n_colours: int
    _kept: npt.NDArray[np.uint64] = field(init=False)

    def __post_init__(self) -> None:
        self._kept = np.full(self.n_colours * _DOWN * _ACROSS, _NONE, np.uint64)

    def add(self, rows: pd.DataFrame, colours: npt.NDArray[np.intp]) -> None:
        """Consider further trials, with their colours."""
        x, y = _bins(rows[self.x], self.x_ends, _ACROSS), _bins(rows[self.y], self.y_ends, _DOWN)
        seen = (x >= 0) & (y >= 0)
        square = (colours[seen] * _DOWN + y[seen]) * _ACROSS + x[seen]
        mixed = rows.index.to_numpy(np.uint64)[seen] * np.uint64(_MIX)
        np.minimum.at(self._kept, square, mixed)

    @property
    def places(self) -> Places:
        return (self._kept[self._kept < _NONE] * _BACK).astype(np.int64)


def _bins(values: pd.Series, ends: _Ends, n: int) -> npt.NDArray[np.intp]:
    """Return the bin of each value among ``n`` equal parts of an axis; -1 outside its ends."""
    found, (low, high) = values.to_numpy(float), ends
    if high > LOG_RATIO * low > 0:
        found, low, high = np.log(found), np.log(low), np.log(high)
    share = np.nan_to_num((found - low) / (high - low or 1.0), nan=-1.0)
    inside = (share >= 0) & (share <= 1)
    return np.where(inside, np.minimum((share * n).astype(np.intp, copy=False), n - 1), -1)


def _views(report: Report, n_dims: int) -> Iterator[_View]:
    """Yield, for each chart, the plot that it shows first, and the plot with all trials."""
    cells, (first, *others) = report.tried, report.study.objectives
    whole = {name: _ends(report, name) for name in (*_splits(report), first.column)}
    whole |= {each.column: _ends(report, each.column) for each in others}
    whole["trial"] = (0.0, float(max(cell.trials.last for cell in cells)))
    shown = dict(whole)
    for objective in (first, *others):
        factor, _ = axis_of(report, objective)
        low, high = useful(report, objective)
        shown[objective.column] = low / factor, high / factor
    value = first.column
    if needs_separate_scales(cells):
        value, least = RELATIVE, minimum_losses(cells)
        ends = [
            first.loss(end) / least[cell.cell.cell]
            for cell in cells
            for end in cell.trials.ends[first.column]
        ]
        whole[value], shown[value] = (min(ends), max(ends)), useful_relative(report)
    pairs = [("trial", value), *((first.column, each.column) for each in others)]
    varied = [name for name in _splits(report) if whole[name][0] < whole[name][1]]
    pairs += [(varied[0], value)] if varied else []
    if len(cells) == 1 and len(varied) > 1:
        splits = cells[0].trials.bandwidths
        one, other = cells[0].trials.widest_dims
        pairs.append((splits[one], splits[other]))
    for x, y in pairs:
        yield _View(x, y, shown[x], shown[y], n_dims + 2)
        yield _View(x, y, whole[x], whole[y], n_dims + 2)


def _splits(report: Report) -> list[str]:
    return max((cell.trials.bandwidths for cell in report.tried), key=len)


def _ends(report: Report, name: str) -> _Ends:
    found = [e[name] for cell in report.tried if name in (e := cell.trials.ends)]
    return min(low for low, _ in found), max(high for _, high in found)


def _at_ends(columns: Sequence[str]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return a function that keeps the rows with the smallest and largest value of each column."""

    def keep(rows: pd.DataFrame) -> pd.DataFrame:
        known = [rows[name].dropna() for name in columns]
        ends = [end for own in known if len(own) for end in (own.idxmin(), own.idxmax())]
        return rows[rows.index.isin(ends)]

    return keep


def _of_each(name: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return a function that keeps the first row of each value of a column, up to a maximum."""
    return lambda rows: rows.drop_duplicates(subset=[name]).head(_VALUES)
