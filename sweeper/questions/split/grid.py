"""The cells of a study's grid: compose and plan a cell from its number."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dimsweep.engine import DimsweepError, InfeasibleError
from dimsweep.sweeper.config.compose import ComposedConfig, compose
from dimsweep.sweeper.config.explain import refuse_unknown_key
from dimsweep.sweeper.config.overrides import format_choice, is_group
from dimsweep.sweeper.config.roles import format_value as value_label
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.record import WORKLOAD, PrunedCell
from dimsweep.sweeper.part import naming_key
from dimsweep.sweeper.study.cell import CellSource, PlannedCell, plan_cell, record_cell

MOST_CELLS = 1_000_000
MAX_CHECKED_CELLS = 64  # cells whose keys are checked for an effect


def build_grid(config: Config) -> dict[str, tuple[Any, ...]]:
    """Return the values of each axis of the study's grid.

    The workloads of a portfolio are the last axis, which varies fastest. Raises
    :class:`DimsweepError` for an axis that is not a key of the configuration.
    """
    workloads = tuple(config.portfolio.workloads)
    if workloads and WORKLOAD in config.grid:
        raise DimsweepError(
            "portfolio.workloads gives the workloads",
            where=f"grid.{WORKLOAD}",
            hint="leave it out",
            code="conflict",
        )
    with naming_key("grid"):
        for axis in (name for name in config.grid if not is_group(name)):
            refuse_unknown_key(axis, {k: v for k, v in config.text.items() if k != "grid"})
    return {**config.grid, **({WORKLOAD: workloads} if workloads else {})}


class Grid(CellSource):
    """The cells of ``composed`` at all combinations of the values of ``axes``.

    The last varies fastest. With ``may_prune``, infeasible cells are left out. A cell is composed
    only when it is planned.
    """

    def __init__(
        self, composed: ComposedConfig, axes: Mapping[str, tuple[Any, ...]], *, may_prune: bool
    ) -> None:
        self.composed, self.axes, self._may_prune = composed, axes, may_prune
        self._shape = tuple(map(len, axes.values()))
        # Keys that made no difference to the first cell, and in how many they are yet looked at.
        self._idle: list[str] | None = None
        self._looks = MAX_CHECKED_CELLS
        # Those of several values say what the grid is, which cells know.
        self._kept = [w.text for w in composed.words if w.is_sweep or w.key not in axes]

    def __len__(self) -> int:
        return math.prod(self._shape)

    def corners(self, most: int) -> list[int]:
        """Return the numbers of up to ``most`` cells that together have each value of each axis.

        The other axes of such a cell have their first values.
        """
        found = {0}
        for axis, n in enumerate(self._shape):
            stride = math.prod(self._shape[axis + 1 :])
            found.update(range(0, min(n, most) * stride, stride))
        return sorted(found)[:most]

    def infeasible_error(self, pruned: Sequence[PrunedCell]) -> InfeasibleError:
        return InfeasibleError(f"no cell of the grid is feasible; the first: {pruned[0].error}")

    def check_size(self) -> None:
        """Raise :class:`DimsweepError` for a grid with too many cells."""
        if len(self) > MOST_CELLS:
            hint = "space.parameters has a search draw from as many values, within a budget"
            what = f"the grid has {len(self):,} cells; at most {MOST_CELLS:,} are allowed"
            raise DimsweepError(what, where="grid", hint=hint, code="too-many")

    def compose(self, number: int) -> tuple[dict[str, str], ComposedConfig]:
        """Return the values that name a cell, by axis, and the cell's configuration.

        Options of config groups are applied first, then the values of other keys.
        """
        if not self.axes:
            return {}, self.composed
        places = np.unravel_index(number, self._shape)
        ours = {name: self.axes[name][i] for name, i in zip(self.axes, places, strict=True)}
        chosen = {k for k, v in ours.items() if is_group(k) and not isinstance(v, Mapping)}
        options = [format_choice(k, str(value)) for k, value in ours.items() if k in chosen]
        values = {k: value for k, value in ours.items() if k not in chosen}
        label = {k: value_label(value) for k, value in ours.items()}
        state = self.composed.state
        return label, compose([*self._kept, *options], values, may_sweep=True, state=state)

    def plan(self, number: int) -> PlannedCell | PrunedCell:
        """Return the plan of a cell, or the reason why it is infeasible.

        Raises :class:`DimsweepError` for mistakes, and for an infeasible cell without
        ``may_prune``.
        """
        coordinates, cell = self.compose(number)
        whole = self.composed
        varied = [*whole.config.grid, *cell.config.space.parameters]
        turned = [*whole.overridden, *whole.set_in_study, *varied]
        try:
            looks_at = self._idle if self._looks else ()
            plan, program = plan_cell(number, coordinates, cell, turned, looks_at)
        except DimsweepError as error:
            if isinstance(error, InfeasibleError) and coordinates and self._may_prune:
                return PrunedCell(coordinates=coordinates, error=str(error))
            raise cell.add_source(error) from error.__cause__
        self._idle = list(plan.idle) if self._idle is None else self._idle
        self._looks = max(self._looks - 1, 0)
        return PlannedCell(plan, record_cell(plan, program, whole.config), program)
