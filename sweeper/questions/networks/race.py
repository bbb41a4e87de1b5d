"""Races: which of some cells comes first in an order, by what is known of them at least.

Cells are looked at in their order until the first one is a cell that was simulated: no other one
comes before it.  What the seconds of cells are not below is their plan's computation, then their
loads, then their time.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from heapq import heapify, heapreplace
from typing import NamedTuple

import numpy as np

from dimsweep.engine import DimsweepError, InfeasibleError, Program, Runner, units
from dimsweep.sweeper.config.compose import Composed
from dimsweep.sweeper.ledger.record import End
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.networks.places import AS_IS, GREATEST, Longs, Moved
from dimsweep.sweeper.questions.networks.shapes import Floats
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.simulation.simulate import simulate

REACH = GREATEST  # times what it is, or that part of it, that are looked at
ROUNDING = 1e-9
_LOOKS = 24  # cells that are simulated for one end, at most
# So many programs are kept, of up to 100 MB each: races look at much the same cells.
_RUNNERS = _LOOKS


class Loads:
    """What the seconds of cells are not below, where tiers are ``moved``: of a plan whose loads
    nobody asked for yet what it computes for; of a cell that was simulated its time."""

    def __init__(self, designs: Designs, moved: Moved = AS_IS) -> None:
        self._cells, self._moved = designs.cells, moved
        self._plain, self._known = dict[int, Floats](), dict[int, Floats]()
        self._exact = set[tuple[int, int]]()

    def __contains__(self, i: int) -> bool:
        return i in self._plain

    def of(self, i: int) -> Floats:
        """Those of plan ``i``: one number, or each cell's."""
        return self._known.get(i, self._cells.least[i : i + 1])

    def bounds(self, i: int) -> Floats:
        """The same by the bounds alone."""
        return self._plain.get(i, self._cells.least[i : i + 1])

    def ask(self, i: int) -> None:
        """Work out the loads of a plan."""
        self._plain[i] = self._known[i] = self._cells.loads_of(i, self._moved)

    def ask_some(self, i: int, floor: Floats, cells: Longs) -> None:
        """Work out the loads of some cells of a plan; the others have their ``floor``."""
        found = floor.copy()
        found[cells] = np.maximum(floor[cells], self._cells.loads_of(i, self._moved, cells))
        self._plain[i] = self._known[i] = found

    def settle(self, i: int, m: int, seconds: float) -> None:
        """Cell ``m`` of a plan was simulated."""
        if self._known[i] is self._plain[i]:
            self._known[i] = self._plain[i].copy()
        self._known[i][m] = seconds
        self._exact.add((i, m))

    def is_exact(self, i: int, m: int) -> bool:
        return (i, m) in self._exact

    def exact(self) -> Iterator[tuple[int, int, float]]:
        """Yield the plan, the place in it and the time of each cell that was simulated."""
        yield from ((i, m, float(self._known[i][m])) for i, m in self._exact)


class Known:
    """What is known of the cells of some designs, of which one is the ``best``."""

    def __init__(
        self, designs: Designs, best: int, losses: Mapping[int, float] | None = None
    ) -> None:
        """``losses`` are the losses of the cells that a search has simulated, by number."""
        self.designs, self.best, self.loads = designs, best, Loads(designs)
        self.losses = losses or {}
        self.where = designs.cells.where(best)
        self._runners = dict[int, Runner | None]()  # the one asked last comes last

    @cached_property
    def factor(self) -> float:
        """What the best cell's seconds are multiplied by in the loss."""
        return float(self.designs.factor(self.where.row)[self.where.number])

    def seconds(self, number: int, moved: Moved = AS_IS) -> float:
        """The simulated time of a cell; infinite if it cannot be simulated."""
        where = self.designs.cells.where(number)
        shape = self.designs.cells.shapes[where.place.shape]
        runner = self._runner(number if shape.made is not None else number - where.network, number)
        if runner is None:
            return np.inf
        if shape.made is not None:
            return simulate(self.designs.compose(number)[1].config, runner.program).time
        bandwidth = shape.scaled(moved.bandwidth)[where.network]
        measures = runner.batch(bandwidth, shape.later(moved.latency))
        return float(measures.time[0]) / units.PICOSECONDS

    def _runner(self, program: int, number: int) -> Runner | None:
        """That of a cell's program, which serves all bandwidths unless links are no tier's."""
        if program in self._runners:
            runner = self._runners.pop(program)
        else:
            made = program_of(self.designs.compose(number)[1])
            runner = None if made is None else Runner(made)
        self._runners[program] = runner
        if len(self._runners) > _RUNNERS:
            del self._runners[next(iter(self._runners))]
        return runner

    def simulate(self, loads: Loads, i: int, m: int, moved: Moved = AS_IS) -> None:
        """Know a cell's time, where tiers are ``moved``."""
        loads.settle(i, m, self.seconds(int(self.designs.cells.first[i]) + m, moved))

    def look(self, i: int, m: int) -> bool:
        """Know the loads of a plan, or the time of its cell ``m``; whether that was simulated."""
        if i not in self.loads:
            self.loads.ask(i)
            return False
        self.simulate(self.loads, i, m)
        return True

    def own(self, factors: Floats) -> float:
        """That of the best cell's network, of ``factors`` of all networks."""
        cells, where = self.designs.cells, self.where
        return float(cells.places.of_networks(factors, cells.spot(where.row))[where.number])

    def end(self, factor: float, number: int | None, *, is_open: bool = False) -> End:
        by = None if number is None else self.designs.compose(number)[0]
        return End(factor=factor, by=by, is_open=is_open)


def program_of(composed: Composed) -> Program | None:
    try:
        return build_program(composed.config)
    except InfeasibleError:
        return None
    except DimsweepError as error:
        raise composed.blame(error) from error.__cause__


class _First(NamedTuple):
    """Before ``key`` no cell comes, and there the one of this ``number``; None at the end, unless
    ``is_open``: nobody knows who comes."""

    key: float
    number: int | None = None
    is_open: bool = False


class Race(ABC):
    """An order of cells, of which more may become known."""

    def __init__(self, known: Known) -> None:
        self._known = known

    @abstractmethod
    def key(self, i: int) -> tuple[float, int]:
        """Where the first cell of plan ``i`` comes at the earliest, and its place in the plan."""

    @abstractmethod
    def learn(self, i: int, m: int) -> bool:
        """Know more of cell ``m`` of plan ``i``; whether it was simulated."""

    @abstractmethod
    def is_exact(self, i: int, m: int) -> bool:
        """Whether no more can be known of a cell."""

    def first(self, end: float) -> _First:
        """Who comes first before an ``end``."""
        cells = self._known.designs.cells
        heap = [(*self.key(i), i) for i in range(len(cells.rows))]
        heapify(heap)
        looks = 0
        while heap[0][0] < end:
            key, m, i = heap[0]
            if self.is_exact(i, m):
                return _First(key, int(cells.first[i]) + m)
            if looks == _LOOKS:
                return _First(key, is_open=True)
            was_simulated = self.learn(i, m)
            looks += was_simulated and int(cells.first[i]) + m not in self._known.losses
            heapreplace(heap, (*self.key(i), i))
        return _First(end)
