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
from dimsweep.sweeper.report.summary import CellSummary

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
