"""The complete trials of a study as one table that all charts of a page share.

A trial that is brushed in one chart is therefore marked in all of them, and what the reader filters
is filtered everywhere.
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from bokeh.models import CDSView, ColumnDataSource, IndexFilter, TextInput

from dimsweep.sweeper.charts.drawn import ALL, drawn, limits, ranked
from dimsweep.sweeper.charts.ranges import axis_of
from dimsweep.sweeper.ledger.schema import BANDWIDTH, EXPOSED
from dimsweep.sweeper.objective import OBJECTIVES, TIME, Objective
from dimsweep.sweeper.report import naming, words
from dimsweep.sweeper.report.colours import GREY, dimension_colour
from dimsweep.sweeper.report.colours import WAITING as WAITS
from dimsweep.sweeper.report.report import Report

COMPUTE, WAITING = "compute", "waiting"


@dataclass(frozen=True)
class Column:
    """A column of the shared table: its title with the unit, and how its numbers are shown; texts
    have no format."""

    title: str
    format: str | None = None


@dataclass
class Points:
    """The trials of a report's cells that can be seen, the best of each scenario first.

    ``rows`` are the ledger's, ``source`` has the ``columns`` that charts show, in the units of
    their titles.  ``kept`` are the trials that the reader's ``box`` lets through, ``listed`` those
    of them that are also brushed, if some are.
    """

    report: Report
    rows: pd.DataFrame
    columns: dict[str, Column] = field(default_factory=dict)
    source: ColumnDataSource = field(default_factory=ColumnDataSource)
    kept: IndexFilter = field(default_factory=IndexFilter)
    listed: IndexFilter = field(default_factory=IndexFilter)
    box: TextInput = field(default_factory=TextInput)

    @classmethod
    def of(cls, report: Report) -> Self:
        """Those of all cells that have complete ones."""
        self = cls(report, pd.DataFrame())
        self.rows = self._drawn()
        self._add_designs()
        self._add_measures()
        self._add("origin", "origin", self.rows["origin"])
        names = np.array([*self.dims, WAITING, COMPUTE], dtype=object)
        self._add("bottleneck", "bottleneck", names[limits(self.rows, len(self.dims))])
        return self

    def _drawn(self) -> pd.DataFrame:
        """The trials that can be seen, the best of each scenario first."""
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
        """How many complete trials there are."""
        return sum(cell.trials.n_complete for cell in self.report.tried)

    @property
    def view(self) -> CDSView:
        """What the filter leaves, for a chart."""
        return CDSView(filter=self.kept)

    @property
    def dims(self) -> list[str]:
        """The names of the dimensions; where cells differ in them their numbers alone."""
        names = {tuple(s.dims) for s in self.report.tried}
        if len(names) == 1:
            return list(names.pop())
        return [f"dim {d}" for d in range(max(map(len, names)))]

    @property
    def design(self) -> list[str]:
        """The columns of numbers that vary and make up a design: bandwidths, then parameters."""
        own = [*(f"b{d}" for d in range(len(self.dims))), *self.report.study.parameters]
        known = [name for name in own if name in self.columns]  # a graph has no bandwidths
        return [name for name in known if self.columns[name].format and self._varies(name)]

    @property
    def searched(self) -> bool:
        """Whether anything but the axes of the grid was searched."""
        found = self.report.tried
        return any(cell.split_varies or cell.parameters for cell in found) or len(found) == 1

    def place(self, row: pd.Series) -> int:
        """Where a trial is."""
        same = (self.rows["cell"] == row["cell"]) & (self.rows["trial"] == row["trial"])
        return int(same.to_numpy().argmax())

    @property
    def colours(self) -> dict[str, str]:
        """A colour for each bottleneck that some trial has."""
        names = {COMPUTE: GREY, WAITING: WAITS}
        names |= {name: dimension_colour(d) for d, name in enumerate(self.dims)}
        found = set(self.source.data["bottleneck"])
        return {name: colour for name, colour in names.items() if name in found}

    def axis(self, objective: Objective) -> tuple[float, str]:
        """What to multiply an objective's column by to draw it, and the label of its axis."""
        return axis_of(self.report, objective)

    def differs(self, name: str) -> bool:
        """Whether the trials have several values of a column."""
        return len(set(self.source.data[name])) > 1

    def coded(self, name: str) -> tuple[str, list[str]]:
        """A column with the places of a key's values in their order, and these in words."""
        values = list(self.source.data[name])
        ordered = self._in_order(name, set(values))
        texts = ordered
        if self.columns[name].format:
            texts = [words.number(float(value)) for value in ordered]
        coded, place = f"{name}#", {value: i for i, value in enumerate(ordered)}
        self.source.data[coded] = np.array([place[value] for value in values], np.float32)
        return coded, texts

    def _in_order(self, key: str, values: set[Any]) -> list[Any]:
        """Numbers by size, and texts as the study lists them."""
        asked = self.report.study.config.get("space", {}).get("parameters", {}).get(key, {})
        listed = [str(value) for value in asked.get("values") or ()]
        places = {value: listed.index(value) for value in values if value in listed}
        return sorted(values, key=lambda value: (places.get(value, len(listed)), value))

    def take(self, name: str, places: list[int]) -> list[Any]:
        """Some trials' values of a column."""
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
    """What a trial's time is made of, and the columns of it."""
    exposed = {f"exposed in {name}": EXPOSED.at(d) for d, name in enumerate(dims)}
    return {COMPUTE: "compute_s", **exposed, WAITING: "waiting_s"}
