"""Texts, tables and charts on the effects of what-ifs (single changes of a design)."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dimsweep.sweeper.config.roles import default_role
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.ledger.rows import COMPLETE, parse_changes
from dimsweep.sweeper.objective import (
    COST,
    EFFECTIVE_TIME,
    THROUGHPUT,
    TIME,
    TOKENS,
    Objective,
)
from dimsweep.sweeper.report import sentences
from dimsweep.sweeper.report.charts import Bars, Marks, RowChart
from dimsweep.sweeper.report.colours import BLUE, ORANGE, PALETTE
from dimsweep.sweeper.report.naming import label, labels
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.words import seconds, usd
from dimsweep.sweeper.table import Column, Table, tabulate

_NEED = re.compile(r"must hold ([\d.]+) (\w+) of ([\d.]+) (\w+)")  # engine.check_memory
_SAME = 1e-9  # relative: what differs less is rounding
_TIMES = (TIME, EFFECTIVE_TIME)


@dataclass(frozen=True)
class Design:
    """A design to change: its name in reports, and its row of results."""

    name: str
    row: pd.Series


@dataclass(frozen=True)
class WhatIf:
    """A design with one change, and the results before and after it."""

    name: str
    keys: Mapping[str, Any]  # the changed keys and their values
    of: Design  # the design before the change
    row: pd.Series  # of the changed design, which may have failed

    @property
    def failed(self) -> bool:
        return bool(self.row["state"] != COMPLETE)

    @property
    def error(self) -> str:
        """First line of the error of a change that cannot be simulated; "" if it was simulated."""
        return str(self.row["error"]).splitlines()[0]

    @property
    def need(self) -> str:
        """Text on the memory that the design needs and has, for an error of memory; else ""."""
        found = _NEED.search(self.error)
        if found is None:
            return ""
        need, unit, there, other = found.groups()
        return f"{float(need):.3g} {unit} of {float(there):.3g} {other}"

    @property
    def measure(self) -> Objective:
        """Objective by which the speed before and after the change is compared.

        It is the time, with interruptions if known. It is tokens/s or samples/s for a change of the
        work of an iteration.
        """
        if self._is_same_work:
            return TIME if self._ratio(EFFECTIVE_TIME) is None else EFFECTIVE_TIME
        known = (TOKENS, THROUGHPUT)
        return next((each for each in known if self._ratio(each) is not None), TIME)

    @property
    def speed(self) -> float:
        """Ratio of speeds after and before the change, in its :attr:`measure`; NaN if it failed."""
        ratio = self._ratio(self.measure)
        if ratio is None:
            return math.nan
        return ratio if self.measure.maximised else 1 / ratio

    @property
    def cost(self) -> float:
        """Ratio of costs after and before the change; NaN if unknown."""
        ratio = self._ratio(COST)
        return math.nan if ratio is None else ratio

    @property
    def per_cost(self) -> float:
        """Ratio of speed per USD, after and before the change; NaN if unknown."""
        return self.speed / self.cost

    @property
    def is_idle(self) -> bool:
        """True if the change alters neither speed nor cost."""
        return not self.failed and _effect(self) == (0.0, 0.0)

    @property
    def _is_same_work(self) -> bool:
        if any(_is_of_work(key) for key in self.keys):
            return False
        samples = [row.get(THROUGHPUT.column, math.nan) * row["time_s"] for row in self._rows]
        return not abs(samples[1] / samples[0] - 1) > _SAME if samples[0] else True

    @property
    def _rows(self) -> tuple[pd.Series, pd.Series]:
        return self.of.row, self.row

    def _ratio(self, objective: Objective) -> float | None:
        """Return the value of an objective after the change over the value before.

        It is None if unknown.
        """
        values = [row.get(objective.column) for row in self._rows]
        if any(value is None or not math.isfinite(value) or not value for value in values):
            return None
        return float(values[1] / values[0])


def list_changed_designs(summary: CellSummary) -> list[Design]:
    """Return the designs of a cell that are changed: the best one, and any baseline."""
    best, reference = Design("best", summary.best), summary.reference
    if summary.for_all is not None:
        best = Design("shared", summary.for_all)
    if reference is None or not reference.is_common:
        return [best]
    return [best, Design("baseline", reference.row)]


def list_changes(summary: CellSummary, design: Design) -> list[WhatIf]:
    """Return the changes of a design, the largest effect first and failed changes last."""
    if summary.changed.empty:
        return []
    rows = summary.changed[summary.changed["change_of"] == design.row["key"]]
    named = {row["change"]: row for _, row in rows.iterrows()}  # of one name the last
    found = [
        WhatIf(name, parse_changes(row["changes"]), design, row) for name, row in named.items()
    ]
    return sorted(found, key=lambda each: (each.failed, *(-size for size in _effect(each))))


def group_changes(summary: CellSummary) -> list[list[WhatIf]]:
    """Return the changes of each design of a cell; a change of the baseline is listed once."""
    best, *others = (list_changes(summary, design) for design in list_changed_designs(summary))
    return [best, *filter(None, others)] if best else []


def claim(changes: Sequence[WhatIf]) -> str:
    """Return a sentence on the change that helps most."""
    simulated = [each for each in changes if math.isfinite(each.speed)]
    if not simulated:
        return sentences.NONE_SIMULATES()
    best = max(simulated, key=lambda each: each.speed)
    if not best.speed > 1 + _SAME:
        return sentences.NONE_HELPS(n=len(simulated), design=best.of.name)
    cost = sentences.AT_TIMES_COST(factor=factor(best.cost)) if math.isfinite(best.cost) else ""
    return sentences.HELPS_MOST(
        of=sentences.OF_CHANGES(n=len(simulated)) if len(simulated) > 1 else "",
        change=best.name,
        design=best.of.name,
        factor=factor(best.speed),
        what="as fast" if best.measure in _TIMES else f"the {best.measure.title}",
        cost=sentences.AT_SAME_COST() if best.cost == 1 else cost,
    )


def factor(value: float) -> str:
    """Format a factor with three decimals; a dash for NaN."""
    return "-" if math.isnan(value) else f"{value:.3f}x"


def _is_of_work(key: str) -> bool:
    """Return whether changing a key changes the work of an iteration, such as its batch."""
    return key.startswith("workload") and default_role(key) is Role.SCENARIO


def _effect(change: WhatIf) -> tuple[float, float]:
    """Return the sizes of the relative changes of speed and of cost, without sign."""
    sizes = [abs(math.log(value)) if value > 0 else 0.0 for value in (change.speed, change.cost)]
    return tuple(size if size > _SAME else 0.0 for size in sizes)  # type: ignore[return-value]


_FIXED = "each change alone, the rest of the design as it is (not searched again)"


def tabulate_cell(summary: CellSummary, title: str = "What if") -> list[Table]:
    """Tabulate the effects of changes, the largest first, and the changes that failed."""
    of_designs = group_changes(summary)
    several, priced = len(of_designs) > 1, summary.priced
    columns = [Column("change", lambda name: name)]
    for own in of_designs:
        columns += _columns_of_design(own, several=several, priced=priced)
    names = dict.fromkeys(each.name for own in of_designs for each in own)
    # A change that does not fit the memory says so in its row.
    failed = {e.name: e.error for own in of_designs for e in own if e.failed and not e.need}
    failed_columns = [Column("change", lambda item: item[0]), Column("why", lambda item: item[1])]
    return [
        *tabulate(f"{title}: {_FIXED}", names, columns),
        *tabulate("Changes that cannot be simulated", failed.items(), failed_columns, n_names=2),
    ]


def tabulate_cells(report: Report) -> list[Table]:
    """Tabulate the effects of changes on the best design of each cell."""
    cells = [cell for cell in report.found if group_changes(cell)]
    if len(report.summaries) == 1 or not cells:
        return []
    if len(cells) == 1:
        return tabulate_cell(cells[0], f"What if, of {label(cells[0])}")
    found = [{each.name: each for each in group_changes(cell)[0]} for cell in cells]
    columns = [Column("times as fast", lambda name: name)]
    for cell, own in zip(cells, found, strict=True):
        head = label(cell).replace(", ", ",\n")
        columns.append(
            Column(head, lambda name, own=own: _format_speed(own[name]) if name in own else "")
        )
    of = f", of the one {report.portfolios[0].noun} for all" if report.portfolios else ""
    names = dict.fromkeys(name for own in found for name in own)
    return tabulate(f"What if{of}: {_FIXED}", names, columns)


def _columns_of_design(own: Sequence[WhatIf], *, several: bool, priced: bool) -> list[Column]:
    """Return the columns of a design's values after each change; headers show the value before."""
    before, named = own[0].of, {each.name: each for each in own}
    measure = TIME if before.row.isna().get(EFFECTIVE_TIME.column, True) else EFFECTIVE_TIME
    what = "time" if measure is TIME else "effective time"
    time = f"{what},\nfrom {seconds(measure.value(before.row))}"

    def unless_failed(show: Callable[[WhatIf], str]) -> Callable[[str], str]:
        return lambda name: show(named[name]) if name in named and not named[name].failed else ""

    def value(name: str) -> str:
        change = named.get(name)
        if change is None:
            return ""
        return _why(change) if change.failed else _format_value(change)

    def cost(change: WhatIf) -> str:
        return usd(change.row["cost_usd"]) if change.cost != 1 else "same"

    return [
        Column(f"{before.name}: {time}" if several else time, value),
        Column("times\nas fast", unless_failed(_format_speed)),
        *(
            [Column(f"cost, from\n{usd(before.row['cost_usd'])}", unless_failed(cost))]
            if priced and not several
            else []
        ),
        Column("per\nUSD", unless_failed(lambda change: factor(change.per_cost)), priced),
    ]


def _why(change: WhatIf) -> str:
    return sentences.DOES_NOT_FIT(need=change.need) if change.need else "cannot be"


def _format_value(change: WhatIf) -> str:
    """Format the time after a change; if the work changed, the throughput before and after."""
    measure = change.measure
    if measure in _TIMES:
        return "same" if change.speed == 1 else seconds(measure.value(change.row))
    before, after = (measure.show(measure.value(row)) for row in (change.of.row, change.row))
    return f"{before.split(' ')[0]} -> {after}"


def _format_speed(change: WhatIf) -> str:
    return _why(change) if change.failed else factor(change.speed)


_MOST_CHANGES = 16  # changes, those with the largest effect
_CELLS_SHOWN = 8  # a colour each
_CHANGE_TITLE = "change of throughput (%)"


def chart_changes(cells: Sequence[CellSummary]) -> tuple[str, RowChart] | None:
    """Return a sentence and a chart on the effect of each change.

    It is None if no change has an effect.
    """
    changed = [cell for cell in cells if group_changes(cell)]
    found = {name: group_changes(cell) for name, cell in zip(labels(changed), changed, strict=True)}
    if len(found) > 1:
        return _chart_cells({name: own[0] for name, own in list(found.items())[:_CELLS_SHOWN]})
    for own in found.values():
        if any(not each.failed and not each.is_idle for each in own[0]):
            return chart_designs(own)
    return None


def chart_designs(groups: list[list[WhatIf]]) -> tuple[str, RowChart]:
    """Return a sentence and bars for the best design.

    A second series has the baseline, or else the speed per USD, if known.
    """
    # Changes that only fit the baseline follow changes of the best design.
    simulated = [each for own in groups for each in own if not each.failed and not each.is_idle]
    names = list(dict.fromkeys(each.name for each in simulated))[:_MOST_CHANGES]
    series = []
    for name, own in zip(("the best design", "the baseline"), groups, strict=False):
        speeds = {each.name: each.speed for each in own}
        series.append((name, np.array([speeds.get(each, np.nan) for each in names])))
    shown = simulated[: len(names)]
    if len(groups) == 1 and all(np.isfinite(each.per_cost) for each in shown):
        series[0] = ("throughput", series[0][1])
        series.append(("throughput per USD", np.array([each.per_cost for each in shown])))
    bars = [
        Bars(
            100 * (values - 1),
            [factor(value) if np.isfinite(value) else "" for value in values],
            colour,
            name,
        )
        for (name, values), colour in zip(series, (BLUE, ORANGE), strict=False)
    ]
    least = float(np.nanmin([each.values for each in bars]))
    chart = RowChart(names, _CHANGE_TITLE, bars, start=1.05 * min(0.0, least), has_zero=True)
    return f"{claim(groups[0])}; the rest of the design stays as it is", chart


def _chart_cells(of: dict[str, list[WhatIf]]) -> tuple[str, RowChart] | None:
    """Return a sentence and a chart with a mark for each cell; None without effects."""
    own = [each for changes in of.values() for each in changes if not each.failed]
    sizes: dict[str, float] = {}
    for each in own:
        if each.speed != 1:  # prices alone say nothing here
            sizes[each.name] = max(sizes.get(each.name, 0.0), abs(np.log(each.speed)))
    names = sorted(sizes, key=lambda name: -sizes[name])[:_MOST_CHANGES]
    if not names:
        return None
    parts = [label.split(", ") for label in of]
    common = [part for part in parts[0] if all(part in each for each in parts)]
    own_names = [", ".join(part for part in each if part not in common) for each in parts]
    if not all(own_names):
        common, own_names = [], list(of)
    marks = []
    for cell, changes, colour in zip(own_names, of.values(), PALETTE, strict=False):
        speeds = {each.name: each.speed for each in changes if not each.failed}
        values = np.array([speeds.get(name, np.nan) for name in names])
        texts = [factor(value) for value in values]
        marks.append(Marks(100 * (values - 1), colour, cell, texts=texts))
    all_with = f", all with {', '.join(common)}" if common else ""
    text = f"the best designs of {len(of)} cells{all_with}, the rest of each as it is"
    return text, RowChart(names, _CHANGE_TITLE, marks=marks, has_zero=True)
