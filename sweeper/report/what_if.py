"""What one change of a design does, the rest of it as it is."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dimsweep.sweeper.config.roles import default_role
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.ledger.rows import COMPLETE, changes_in
from dimsweep.sweeper.objective import (
    COST,
    EFFECTIVE_TIME,
    THROUGHPUT,
    TIME,
    TOKENS,
    Objective,
)
from dimsweep.sweeper.report.naming import label
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.table import Table
from dimsweep.sweeper.report.words import seconds, usd

_NEED = re.compile(r"must hold ([\d.]+) (\w+) of ([\d.]+) (\w+)")  # engine.check_memory
_SAME = 1e-9  # relative: what differs less is rounding


@dataclass(frozen=True)
class Design:
    """A design that is changed: what it is called, and its row."""

    name: str
    row: pd.Series


@dataclass(frozen=True)
class WhatIf:
    """A design with one change: its ``name``, the keys that it sets, the row of the design that it
    ``changes``, and its own ``row``, which may have failed."""

    name: str
    keys: Mapping[str, Any]
    of: Design
    row: pd.Series

    @property
    def failed(self) -> bool:
        return bool(self.row["state"] != COMPLETE)

    @property
    def error(self) -> str:
        """Why it cannot be simulated, in a line."""
        return str(self.row["error"]).splitlines()[0]

    @property
    def need(self) -> str:
        """The memory that it needs, and what there is, if that is why it cannot be."""
        found = _NEED.search(self.error)
        if found is None:
            return ""
        need, unit, there, other = found.groups()
        return f"{float(need):.3g} {unit} of {float(there):.3g} {other}"

    @property
    def measure(self) -> Objective:
        """What tells how fast it is: the time, with interruptions where they are known; or
        tokens/s, or samples/s, of a change that makes an iteration another piece of work."""
        if self._is_same_work:
            return TIME if self._ratio(EFFECTIVE_TIME) is None else EFFECTIVE_TIME
        known = (TOKENS, THROUGHPUT)
        return next((each for each in known if self._ratio(each) is not None), TIME)

    @property
    def speed(self) -> float:
        """How many times as fast it is in its :attr:`measure`; NaN if it failed."""
        ratio = self._ratio(self.measure)
        if ratio is None:
            return math.nan
        return ratio if self.measure.maximised else 1 / ratio

    @property
    def cost(self) -> float:
        """How many times as much it costs; NaN if that is not known."""
        ratio = self._ratio(COST)
        return math.nan if ratio is None else ratio

    @property
    def per_cost(self) -> float:
        """How many times as fast it is for each USD; NaN if that is not known."""
        return self.speed / self.cost

    @property
    def is_idle(self) -> bool:
        """Whether it changes neither speed nor cost."""
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
        """The value after over that before; None if one of them is not known."""
        values = [row.get(objective.column) for row in self._rows]
        if any(value is None or not math.isfinite(value) or not value for value in values):
            return None
        return float(values[1] / values[0])


def references(summary: CellSummary) -> list[Design]:
    """The designs of a cell that are changed: the best one, or a portfolio's one split for all, and
    the user's own if there is one."""
    best, reference = Design("best", summary.best), summary.reference
    if summary.for_all is not None:
        best = Design("shared", summary.for_all)
    if reference is None or not reference.is_common:
        return [best]
    return [best, Design("baseline", reference.row)]


def what_ifs(summary: CellSummary, of: Design) -> list[WhatIf]:
    """The changes of a design, what does most first; those that cannot be simulated last."""
    if summary.changed.empty:
        return []
    rows = summary.changed[summary.changed["change_of"] == of.row["key"]]
    named = {row["change"]: row for _, row in rows.iterrows()}  # of one name the last
    found = [WhatIf(name, changes_in(row["changes"]), of, row) for name, row in named.items()]
    return sorted(found, key=lambda each: (each.failed, *(-size for size in _effect(each))))


def groups(summary: CellSummary) -> list[list[WhatIf]]:
    """The changes of each design of a cell of which there are some: of the best one, and then of
    the baseline, whose changes are not told again beside decisions that are not asked about."""
    best, *others = (what_ifs(summary, design) for design in references(summary))
    return [best, *filter(None, others)] if best else []


def claim(changes: Sequence[WhatIf]) -> str:
    """What helps most, in a sentence without a full stop."""
    told = [each for each in changes if math.isfinite(each.speed)]
    if not told:
        return "no change of the best design can be simulated"
    best = max(told, key=lambda each: each.speed)
    if not best.speed > 1 + _SAME:
        return f"none of {len(told)} changes, each alone, makes the {best.of.name} design faster"
    alone = f"of {len(told)} changes, each alone, " if len(told) > 1 else ""
    fast = "as fast" if best.measure in (TIME, EFFECTIVE_TIME) else f"the {best.measure.title}"
    cost = f" at {factor(best.cost)} the cost" if math.isfinite(best.cost) else ""
    cost = " at the same cost" if best.cost == 1 else cost
    most = f"{factor(best.speed)} {fast}{cost}"
    return f"{alone}{best.name} helps the {best.of.name} design most: {most}"


def factor(value: float) -> str:
    """How many times, to a thousandth; a dash for NaN."""
    return "-" if math.isnan(value) else f"{value:.3f}x"


def _is_of_work(key: str) -> bool:
    """Whether a key makes an iteration another piece of work."""
    return key.startswith("workload") and default_role(key) is Role.SCENARIO


def _effect(change: WhatIf) -> tuple[float, float]:
    """How far speed and cost are from what they were, either way."""
    sizes = [abs(math.log(value)) if value > 0 else 0.0 for value in (change.speed, change.cost)]
    return tuple(size if size > _SAME else 0.0 for size in sizes)  # type: ignore[return-value]


_FIXED = "each change alone, the rest of the design as it is (not searched again)"


def tabulate(summary: CellSummary, title: str = "What if") -> list[Table]:
    """What each change does, the largest effect first, and what cannot be simulated."""
    of_designs = groups(summary)
    if not of_designs:
        return []
    several = len(of_designs) > 1
    columns, named = ["change"], [{each.name: each for each in own} for own in of_designs]
    for own in of_designs:
        columns += _heads(own[0], several=several, priced=summary.priced)
    names = dict.fromkeys(each.name for own in of_designs for each in own)
    rows = [
        (name, *(text for own in named for text in _texts(own.get(name), several, summary.priced)))
        for name in names
    ]
    sheets = [Table(f"{title}: {_FIXED}", tuple(columns), rows)]
    told = {each.name: each.error for own in of_designs for each in own if _is_told(each)}
    if told:
        sheets.append(Table("What cannot be changed so", ("change", "why"), list(told.items()), 2))
    return sheets


def tabulate_cells(report: Report) -> list[Table]:
    """What each change does to the best design of each cell that was asked; of one cell, all."""
    cells = [cell for cell in report.found if groups(cell)]
    if len(report.summaries) == 1 or not cells:
        return []
    if len(cells) == 1:
        return tabulate(cells[0], f"What if, of {label(cells[0])}")
    found = [{each.name: each for each in groups(cell)[0]} for cell in cells]
    rows = [
        (name, *(_fast(own[name]) if name in own else "" for own in found))
        for name in dict.fromkeys(name for own in found for name in own)
    ]
    columns = ("times as fast", *(label(cell).replace(", ", ",\n") for cell in cells))
    of = f", of the one {report.portfolios[0].noun} for all" if report.portfolios else ""
    return [Table(f"What if{of}: {_FIXED}", columns, rows)]


def _heads(one: WhatIf, *, several: bool, priced: bool) -> list[str]:
    """The heads of a design's columns, with what it has before the change."""
    design = f"{one.of.name}: " if several else ""
    measure = TIME if one.of.row.isna().get(EFFECTIVE_TIME.column, True) else EFFECTIVE_TIME
    time = "time" if measure is TIME else "effective time"
    heads = [f"{design}{time},\nfrom {seconds(measure.of(one.of.row))}", "times\nas fast"]
    if priced and not several:
        heads.append(f"cost, from\n{usd(one.of.row['cost_usd'])}")
    return heads + ["per\nUSD"] * priced


def _texts(change: WhatIf | None, several: bool, priced: bool) -> list[str]:
    if change is None or change.failed:
        why = "" if change is None else _why(change)
        return [why, *[""] * (1 + priced * (2 - several))]
    texts = [_value(change), _fast(change)]
    if priced and not several:
        texts.append(usd(change.row["cost_usd"]) if change.cost != 1 else "same")
    return texts + [factor(change.per_cost)] * priced


def _why(change: WhatIf) -> str:
    return f"does not fit: {change.need}" if change.need else "cannot be"


def _is_told(change: WhatIf) -> bool:
    """Whether it takes a line of its own to say why a change cannot be."""
    return change.failed and not change.need


def _value(change: WhatIf) -> str:
    """The time after the change; of another piece of work the throughput before and after."""
    measure = change.measure
    if measure in (TIME, EFFECTIVE_TIME):
        return "same" if change.speed == 1 else seconds(measure.of(change.row))
    before, after = (measure.show(measure.of(row)) for row in (change.of.row, change.row))
    return f"{before.split(' ')[0]} -> {after}"


def _fast(change: WhatIf) -> str:
    return _why(change) if change.failed else factor(change.speed)
