"""The cells of a study's grid, each composed and planned by its number."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dimsweep.engine import DimsweepError, InfeasibleError
from dimsweep.sweeper.config.compose import Composed, compose
from dimsweep.sweeper.config.overrides import choice_of, is_group
from dimsweep.sweeper.config.roles import label as value_label
from dimsweep.sweeper.ledger.record import PrunedCell
from dimsweep.sweeper.study.cell import PlannedCell, describe, plan_cell

LOOKED_AT = 64  # cells, of which it is asked whether keys make a difference


class Grid:
    """The cells of ``composed`` over the values of ``axes``, the last axis' fastest; cells that
    cannot be may be left out, if it ``may_prune``.  Nothing is made before it is asked for."""

    def __init__(
        self, composed: Composed, axes: Mapping[str, tuple[Any, ...]], *, may_prune: bool
    ) -> None:
        self.composed, self.axes, self._may_prune = composed, axes, may_prune
        self._shape = tuple(map(len, axes.values()))
        # Keys that made no difference to the first cell, and in how many they are yet looked at.
        self._idle: list[str] | None = None
        self._looks = LOOKED_AT
        # Those of several values say what the grid is, which cells know.
        self._kept = [w.text for w in composed.words if w.sweeps or w.key not in axes]

    def __len__(self) -> int:
        return math.prod(self._shape)

    def corners(self, most: int) -> list[int]:
        """Cells in which each value of each axis occurs, with the first ones of the other axes; no
        more than ``most`` of them."""
        found = {0}
        for axis, n in enumerate(self._shape):
            stride = math.prod(self._shape[axis + 1 :])
            found.update(range(0, min(n, most) * stride, stride))
        return sorted(found)[:most]

    def compose(self, number: int) -> tuple[dict[str, str], Composed]:
        """A cell's coordinates, and its configuration: options of config groups as overrides, and
        then the values of other keys."""
        if not self.axes:
            return {}, self.composed
        places = np.unravel_index(number, self._shape)
        ours = {name: self.axes[name][i] for name, i in zip(self.axes, places, strict=True)}
        chosen = {k for k, v in ours.items() if is_group(k) and not isinstance(v, Mapping)}
        options = [choice_of(key, str(value)) for key, value in ours.items() if key in chosen]
        values = {key: value for key, value in ours.items() if key not in chosen}
        label = {key: value_label(value) for key, value in ours.items()}
        return label, compose([*self._kept, *options], values, may_sweep=True)

    def plan(self, number: int) -> PlannedCell | PrunedCell:
        """The plan of a cell, or why it cannot be; raises :class:`DimsweepError` if it may not be
        left out, and for what else is wrong with it."""
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
            raise cell.blame(error) from error.__cause__
        self._idle = list(plan.idle) if self._idle is None else self._idle
        self._looks = max(self._looks - 1, 0)
        return PlannedCell(plan, describe(plan, program, whole.config), program)
