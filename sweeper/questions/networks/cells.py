"""Cells of a search among networks and plans, with lower bounds computed for many cells at a time.

A cell is a parallel plan, its placement on the tiers of a network, and that network. Plans of equal
degrees have equal placements and networks, so the number of a cell determines all three. A million
cells are one array of bounds, not a million objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dimsweep.engine.bound import CellCommunication, Stagings, bound_time
from dimsweep.sweeper.questions.networks.placements import (
    UNCHANGED_TIERS,
    Candidates,
    Longs,
    Place,
    Places,
    TierFactors,
)
from dimsweep.sweeper.questions.networks.shapes import Floats, Shape
from dimsweep.sweeper.space.plans import PlanRow


class CellParts(NamedTuple):
    """The plan, the placement and the network of a cell."""

    #: the plan
    row: PlanRow
    place: Place
    #: number of the network among networks of its shape
    network: int
    #: number of the cell among the cells of its plan
    number: int


@dataclass
class Cells:
    """The cells of the plans ``rows`` on their ``places``, numbered plan by plan.

    A cell is one plan, in one placement, on one network.
    """

    rows: Sequence[PlanRow]
    places: Places
    stagings: Stagings
    _loads: dict[int, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places.add(self.rows)
        self.first: Longs = np.cumsum([0, *(len(self.candidates(row)) for row in self.rows)])

    def __len__(self) -> int:
        return int(self.first[-1])

    def select(self, rows: Longs) -> "Cells":
        """Return the cells of the plans with the numbers ``rows``."""
        found = Cells([self.rows[i] for i in rows.tolist()], self.places, self.stagings)
        found.compute_seconds = self.compute_seconds[rows]
        return found

    @property
    def shapes(self) -> Sequence[Shape]:
        return self.places.shapes

    def candidates(self, row: PlanRow) -> Candidates:
        return self.places.candidates(row)

    def locate(self, number: int) -> CellParts:
        """Return the plan, the placement and the network of the cell with this number."""
        i = int(np.searchsorted(self.first, number, side="right")) - 1
        row, m = self.rows[i], number - int(self.first[i])
        candidates = self.candidates(row)
        return CellParts(
            row, self.places.all[int(candidates.place[m])], int(candidates.network[m]), m
        )

    @cached_property
    def compute_seconds(self) -> Floats:
        """Level 0, a lower bound on all networks: each plan's seconds of computation (plans,)."""
        found = [
            bound_time(
                self.stagings.build_staging(row.plan, row.degrees),
                row.plan,
                row.turns,
                CellCommunication(1),
                self.stagings,
            )
            for row in self.rows
        ]
        return np.array(found).reshape(-1)

    def bound_loads(
        self, i: int, moved: TierFactors = UNCHANGED_TIERS, cells: Longs | None = None
    ) -> Floats:
        """Return level 1: a lower bound in seconds on an iteration, for each cell of plan ``i``.

        The bound adds the bytes that each tier carries to the computation. ``moved`` multiplies the
        bandwidths and latencies of tiers. ``cells`` are numbers among the plan's cells (None: all).
        """
        if i in self._loads and moved == UNCHANGED_TIERS:
            return self._loads[i] if cells is None else self._loads[i][cells]
        if cells is not None and not len(cells):
            return np.zeros(0)
        row, reach = self.rows[i], self.places.reach(self.rows[i], moved)
        reach = reach if cells is None else reach.select(cells)
        staging = self.stagings.build_staging(row.plan, row.degrees)
        found = bound_time(staging, row.plan, row.turns, reach, self.stagings)
        if cells is None and moved == UNCHANGED_TIERS:
            self._loads[i] = found
        return found
