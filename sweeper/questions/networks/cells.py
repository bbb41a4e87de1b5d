"""The cells of a space of networks and plans, and what bounds say of them, many at a time.

A cell is a plan, where it lies on a shape, and a network of that shape.  Plans of the same degrees
have the same places and networks, so a cell's number tells all of it, and no cell has an object: a
million of them are one array of bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dimsweep.engine.bound import Reach, Stagings, least_time
from dimsweep.sweeper.questions.networks.placements import (
    UNCHANGED_TIERS,
    Candidates,
    Longs,
    Place,
    Places,
    TierFactors,
)
from dimsweep.sweeper.questions.networks.shapes import Floats, Shape
from dimsweep.sweeper.space.plans import Row


class CellParts(NamedTuple):
    """A cell's parts: its plan, its place, the number of its network among those of its shape, and
    its own number among the cells of the plan."""

    row: Row
    place: Place
    network: int
    number: int


@dataclass
class Cells:
    """The cells of ``rows`` on their ``places``."""

    rows: Sequence[Row]
    places: Places
    stagings: Stagings
    _loads: dict[int, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places.add(self.rows)
        self.first: Longs = np.cumsum([0, *(len(self.candidates(row)) for row in self.rows)])

    def __len__(self) -> int:
        return int(self.first[-1])

    def select(self, rows: Longs) -> "Cells":
        """Return the cells of some of the rows."""
        found = Cells([self.rows[i] for i in rows.tolist()], self.places, self.stagings)
        found.compute_seconds = self.compute_seconds[rows]
        return found

    @property
    def shapes(self) -> Sequence[Shape]:
        return self.places.shapes

    def candidates(self, row: Row) -> Candidates:
        return self.places.candidates(row)

    def locate(self, number: int) -> CellParts:
        """Return the parts of the cell with this number."""
        i = int(np.searchsorted(self.first, number, side="right")) - 1
        row, m = self.rows[i], number - int(self.first[i])
        candidates = self.candidates(row)
        return CellParts(
            row, self.places.all[int(candidates.place[m])], int(candidates.network[m]), m
        )

    @cached_property
    def compute_seconds(self) -> Floats:
        """Level 0: seconds of computation of each row, on any network."""
        found = [
            least_time(
                self.stagings.of(row.plan, row.degrees),
                row.plan,
                row.turns,
                Reach(1),
                self.stagings,
            )
            for row in self.rows
        ]
        return np.array(found).reshape(-1)

    def bound_loads(
        self, i: int, moved: TierFactors = UNCHANGED_TIERS, cells: Longs | None = None
    ) -> Floats:
        """Return level 1: the least seconds of all cells of a row, or of some, on
        ``moved`` tiers."""
        if i in self._loads and moved == UNCHANGED_TIERS:
            return self._loads[i] if cells is None else self._loads[i][cells]
        if cells is not None and not len(cells):
            return np.zeros(0)
        row, reach = self.rows[i], self.places.reach(self.rows[i], moved)
        reach = reach if cells is None else reach.some(cells)
        staging = self.stagings.of(row.plan, row.degrees)
        found = least_time(staging, row.plan, row.turns, reach, self.stagings)
        if cells is None and moved == UNCHANGED_TIERS:
            self._loads[i] = found
        return found
