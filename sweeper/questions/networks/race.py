"""Find the first cell in an order, from lower bounds that are refined as needed (a race).

A race keeps refining the cell with the lowest key until that cell is simulated; then no other cell
comes before it. A cell's seconds are bounded by its plan's computation, then by the bytes that its
tiers carry (its loads), and finally given by its simulation.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from heapq import heapify, heapreplace
from math import prod
from typing import NamedTuple

import numpy as np

from dimsweep.engine import DimensionOrder, DimsweepError, InfeasibleError, Program, Runner, units
from dimsweep.engine.workload import AXES
from dimsweep.engine.workload.models import Transformer
from dimsweep.sweeper.config.compose import ComposedConfig
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.ledger.record import End
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.networks.placements import (
    MAX_TIER_FACTOR,
    PIPELINE,
    UNCHANGED_TIERS,
    Longs,
    TierFactors,
)
from dimsweep.sweeper.questions.networks.shapes import Floats
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.simulation.simulate import simulate
from dimsweep.sweeper.study.ranking import NEAR

REACH = MAX_TIER_FACTOR  # quantities are varied from 1 / REACH to REACH times their value
ROUNDING = 1e-9
_MAX_SIMULATIONS = 24  # cells of one race
# Programs kept in memory, of up to 100 MB each: races simulate similar cells.
_RUNNERS = _MAX_SIMULATIONS


class Loads:
    """Lower bounds on the iteration time of cells, with tiers changed by the factors ``moved``.

    The bound of a plan is its seconds of computation until its loads (bytes per tier) are computed.
    The bound of a simulated cell is its simulated time.
    """

    def __init__(self, designs: Designs, moved: TierFactors = UNCHANGED_TIERS) -> None:
        self._cells, self._moved = designs.cells, moved
        self._plain, self._known = dict[int, Floats](), dict[int, Floats]()
        self._exact = set[tuple[int, int]]()

    def __contains__(self, i: int) -> bool:
        return i in self._plain

    def seconds(self, i: int) -> Floats:
        """Return the bounds of plan ``i``'s cells, in seconds: one for all, or one per cell."""
        return self._known.get(i, self._cells.compute_seconds[i : i + 1])

    def bounds(self, i: int) -> Floats:
        """Return the bounds of :meth:`seconds`, but without simulated times."""
        return self._plain.get(i, self._cells.compute_seconds[i : i + 1])

    def compute(self, i: int) -> None:
        """Compute the bounds of all cells of plan ``i`` from the bytes that their tiers carry."""
        self._plain[i] = self._known[i] = self._cells.bound_loads(i, self._moved)

    def compute_cells(self, i: int, floor: Floats, cells: Longs) -> None:
        """Compute the bounds of some ``cells`` of plan ``i``; the others keep their ``floor``.

        ``floor`` has a known lower bound of each cell of the plan, in seconds.
        """
        found = floor.copy()
        found[cells] = np.maximum(floor[cells], self._cells.bound_loads(i, self._moved, cells))
        self._plain[i] = self._known[i] = found

    def record_time(self, i: int, m: int, seconds: float) -> None:
        """Record the simulated time of cell ``m`` of plan ``i``."""
        if self._known[i] is self._plain[i]:
            self._known[i] = self._plain[i].copy()
        self._known[i][m] = seconds
        self._exact.add((i, m))

    def is_exact(self, i: int, m: int) -> bool:
        return (i, m) in self._exact

    def simulated_times(self) -> Iterator[tuple[int, int, float]]:
        """Yield plan number, number among the plan's cells, and seconds of each simulated cell."""
        yield from ((i, m, float(self._known[i][m])) for i, m in self._exact)


class KnownCells:
    """Lower bounds and simulated times of the cells of ``designs``; ``best`` is a cell number."""

    def __init__(
        self, designs: Designs, best: int, losses: Mapping[int, float] | None = None
    ) -> None:
        """Take the ``losses`` of cells simulated before, by the number of the cell."""
        self.designs, self.best, self.loads = designs, best, Loads(designs)
        self.losses = losses or {}
        self.where = designs.cells.locate(best)
        self._runners = dict[int, Runner | None]()  # the most recently used last

    @cached_property
    def factor(self) -> float:
        """Loss per second of iteration time of the best cell."""
        return float(self.designs.loss_factors(self.where.row)[self.where.number])

    def simulate_seconds(self, number: int, moved: TierFactors = UNCHANGED_TIERS) -> float:
        """Simulate a cell with tiers changed by ``moved``.

        Return its iteration time in seconds, or infinity if it is infeasible.
        """
        where = self.designs.cells.locate(number)
        shape = self.designs.cells.shapes[where.place.shape]
        runner = self._runner(
            number if shape.generator is not None else number - where.network, number
        )
        if runner is None:
            return np.inf
        if shape.generator is not None:
            return simulate(self.designs.compose(number)[1].config, runner.program).time
        bandwidth = shape.scale_bandwidths(moved.bandwidth)[where.network]
        measures = runner.batch(bandwidth, shape.scale_latencies(moved.latency))
        return float(measures.time[0]) / units.PICOSECONDS

    def _runner(self, program: int, number: int) -> Runner | None:
        """Return the simulator of a cell's ``program`` at any bandwidths; None if infeasible."""
        if program in self._runners:
            runner = self._runners.pop(program)
        else:
            made = build_feasible_program(self.designs.compose(number)[1])
            runner = None if made is None else Runner(made)
        self._runners[program] = runner
        if len(self._runners) > _RUNNERS:
            del self._runners[next(iter(self._runners))]
        return runner

    def simulate(self, loads: Loads, i: int, m: int, moved: TierFactors = UNCHANGED_TIERS) -> None:
        """Simulate cell ``m`` of plan ``i`` with tiers changed by ``moved``.

        Record its time in ``loads``.
        """
        loads.record_time(i, m, self.simulate_seconds(int(self.designs.cells.first[i]) + m, moved))

    def refine(self, i: int, m: int) -> bool:
        """Compute the loads of plan ``i``, or if they are known, simulate its cell ``m``.

        Return whether the cell was simulated.
        """
        if i not in self.loads:
            self.loads.compute(i)
            return False
        self.simulate(self.loads, i, m)
        return True

    def best_cell_factor(self, factors: Floats) -> float:
        """Return the entry of ``factors`` (networks,) for the best cell's network."""
        cells, where = self.designs.cells, self.where
        return float(
            cells.places.select_networks(factors, cells.candidates(where.row))[where.number]
        )

    def build_end(self, factor: float, number: int | None, *, is_open: bool = False) -> End:
        by = None if number is None else self.designs.compose(number)[0]
        return End(factor=factor, by=by, is_open=is_open)


def build_feasible_program(composed: ComposedConfig) -> Program | None:
    """Build the program of a configuration; return None if it is infeasible."""
    try:
        return build_program(composed.config)
    except InfeasibleError:
        return None
    except DimsweepError as error:
        raise composed.add_source(error) from error.__cause__


class _RaceEnd(NamedTuple):
    """The result of a race: the first cell and its key."""

    #: no cell comes before it
    key: float
    #: the first cell; None if no cell comes before the end, or if the race ``is_open``
    number: int | None = None
    #: whether the race stopped before the first cell was known
    is_open: bool = False


class Race(ABC):
    """A priority queue of cells that is refined until its first cell is exact.

    Subclasses define the key that orders the cells.
    """

    def __init__(self, known: KnownCells) -> None:
        self._known = known

    @abstractmethod
    def key(self, i: int) -> tuple[float, int]:
        """Return the lowest key of plan ``i``'s cells, and the cell's number in the plan."""

    @abstractmethod
    def refine(self, i: int, m: int) -> bool:
        """Refine the bound of cell ``m`` of plan ``i``; return whether the cell was simulated."""

    @abstractmethod
    def is_exact(self, i: int, m: int) -> bool:
        """Return whether the bound of cell ``m`` of plan ``i`` is its simulated time."""

    def find_first(self, end: float) -> _RaceEnd:
        """Return the cell with the lowest key, if its key is below ``end``.

        The result is open if the race stopped at its maximum number of simulations.
        """
        cells = self._known.designs.cells
        heap = [(*self.key(i), i) for i in range(len(cells.rows))]
        heapify(heap)
        n_simulated = 0
        while heap[0][0] < end:
            key, m, i = heap[0]
            if self.is_exact(i, m):
                return _RaceEnd(key, int(cells.first[i]) + m)
            if n_simulated == _MAX_SIMULATIONS:
                return _RaceEnd(key, is_open=True)
            was_simulated = self.refine(i, m)
            n_simulated += was_simulated and int(cells.first[i]) + m not in self._known.losses
            heapreplace(heap, (*self.key(i), i))
        return _RaceEnd(end)


# Quantities whose change needs a search: the bandwidth or the latency of a tier, the size of the
# model, and the interruptions of a cluster whose size is searched.


LAYERS = "workload.model.layers"
INTERRUPTIONS = "reliability.npu_time"
_SHARP = 1.005  # ratio of the factors between which the answer starts to lose


class ScaledRace(Race):
    """A race for the cell with the least loss below ``end``, after a quantity has changed."""

    def __init__(self, known: KnownCells, space: "MovedSpace", end: float) -> None:
        super().__init__(known)
        self._moved, self._faster, self._end = space.tiers, space.faster, end
        self._loads = Loads(known.designs, space.tiers)

    @property
    def loads(self) -> Loads:
        return self._loads

    def key(self, i: int) -> tuple[float, int]:
        loss = self._seconds(i) * self._factor(i)
        m = int(np.argmin(loss))
        return float(loss[m]), m

    def _seconds(self, i: int) -> Floats:
        if i in self._loads:
            return self._loads.seconds(i)
        bounds, least = self._known.loads.bounds(i), self._known.designs.cells.compute_seconds[i]
        floor = np.maximum(bounds * self._moved.slowdown, least)
        for other in self._faster:
            floor = np.maximum(floor, other.bounds(i))
        return floor

    def _factor(self, i: int) -> Floats:
        return self._known.designs.loss_factors(self._known.designs.cells.rows[i])

    def refine(self, i: int, m: int) -> bool:
        if i in self._loads:
            self._known.simulate(self._loads, i, m, self._moved)
            return True
        if i not in self._known.loads and self._moved != UNCHANGED_TIERS:
            self._known.loads.compute(i)  # which serves all factors
            return False
        floor = self._seconds(i) * np.ones(len(self._factor(i)))
        self._loads.compute_cells(i, floor, self._find_below(i, floor))
        return False

    def _find_below(self, i: int, floor: Floats) -> Longs:
        """Return the cells of plan ``i`` whose loss may be below the end.

        ``floor`` is a lower bound on the seconds of each cell.
        """
        return np.flatnonzero(floor * self._factor(i) < self._end)

    def is_exact(self, i: int, m: int) -> bool:
        return self._loads.is_exact(i, m)


class MovedSpace(NamedTuple):
    """The cells after a quantity has changed."""

    #: the cells; None if no other cell may win
    known: KnownCells | None
    #: loss of the former best cell
    best_loss: float
    #: factors of the tiers
    tiers: TierFactors = UNCHANGED_TIERS
    #: loads of the cells with faster tiers, which are lower bounds
    faster: Sequence[Loads] = ()


class Move(ABC):
    """A change of the quantity ``name`` by factors, and the cell that wins at each factor."""

    def __init__(self, known: KnownCells, name: str) -> None:
        self._known, self.name = known, name
        self._found = dict[float, tuple[float, End]]()
        self._loads = dict[float, Loads]()

    @abstractmethod
    def apply(self, factor: float) -> MovedSpace:
        """Return the cells with the quantity multiplied by ``factor``.

        They include all cells whose loss may be below REACH times the loss of the best cell.
        """

    def round_factor(self, factor: float) -> float:
        """Return the nearest factor between 1 and ``factor`` that the quantity can have."""
        return factor

    def find_ends(self) -> dict[str, End]:
        return {
            f"{prefix}{way}": self._find_end(self.round_factor(far), margin)
            for prefix, margin in (("", 0.0), ("near_", NEAR))
            for way, far in (("down", 1 / REACH), ("up", REACH))
        }

    def _find_end(self, far: float, margin: float) -> End:
        near, winner = 1.0, None if far == 1 else self._find_winner(far, margin)
        if winner is None:
            return End(factor=far)
        while max(near / far, far / near) > _SHARP:
            middle = self.round_factor((near * far) ** 0.5)
            if not min(near, far) < middle < max(near, far):  # no factor is between them
                return winner.model_copy(update={"factor": near})
            found = self._find_winner(middle, margin)
            near, far, winner = (middle, far, winner) if found is None else (near, middle, found)
        return winner.model_copy(update={"factor": near, "lost_at": far})

    def _find_winner(self, factor: float, margin: float) -> End | None:
        """Return the cell that beats the best one by more than ``margin`` (a share), or None."""
        if factor not in self._found:
            self._found[factor] = self._race(factor)
        lost, winner = self._found[factor]
        return None if winner.is_far or not lost > margin else winner

    def _race(self, factor: float) -> tuple[float, End]:
        space = self.apply(factor)
        if space.known is None:
            return 0.0, End(factor=factor)
        end = space.best_loss * (1 - ROUNDING)
        race = ScaledRace(space.known, space, end)
        found, self._loads[factor] = race.find_first(end), race.loads
        lost = space.best_loss / found.key - 1 if np.isfinite(found.key) else 0.0
        return lost, space.known.build_end(factor, found.number, is_open=found.is_open)


class TierMove(Move):
    """A change of a tier's bandwidth at a constant price, or of the tier's latency."""

    def __init__(self, known: KnownCells, name: str, dim: int, *, is_latency: bool = False) -> None:
        super().__init__(known, name)
        self._dim, self._is_latency = dim, is_latency

    def apply(self, factor: float) -> MovedSpace:
        known = self._known
        n = len(known.designs.cells.shapes[known.where.place.shape].sizes)
        scale = tuple(factor if d == self._dim else 1.0 for d in range(n))
        moved = TierFactors(latency=scale) if self._is_latency else TierFactors(bandwidth=scale)
        sign = -1 if self._is_latency else 1
        faster = [each for f, each in self._loads.items() if sign * (f - factor) > 0]
        return MovedSpace(
            known, known.simulate_seconds(known.best, moved) * known.factor, moved, faster
        )


class LayersMove(Move):
    """A change of the model's number of ``layers``, in steps that the stages share evenly."""

    def __init__(self, known: KnownCells, layers: int) -> None:
        super().__init__(known, f"layers of the model ({layers})")
        self._layers, row, self._moments = layers, known.where.row, dict[float, MovedSpace]()
        self._step = row.degrees[AXES.index(PIPELINE)] * row.plan.interleave

    def round_factor(self, factor: float) -> float:
        steps = int(self._layers * (factor - 1) / self._step)
        return 1 + self._step * steps / self._layers

    def apply(self, factor: float) -> MovedSpace:
        if factor not in self._moments:
            self._moments[factor] = self._apply_layers(round(factor * self._layers))
        return self._moments[factor]

    def _apply_layers(self, layers: int) -> MovedSpace:
        known, changes = self._known, {LAYERS: layers}
        if layers == self._layers:
            return MovedSpace(known, known.simulate_seconds(known.best) * known.factor)
        _, composed = known.designs.compose(known.best)
        composed = replace(composed, config=composed.config.with_values(changes))
        program = build_feasible_program(composed)
        own = np.inf if program is None else simulate(composed.config, program).time * known.factor
        try:
            return MovedSpace(KnownCells(known.designs.with_changes(changes, own * REACH), 0), own)
        except InfeasibleError:
            return MovedSpace(None, own)


class InterruptionsMove(Move):
    """A change of the rate of interruptions, which affect larger clusters more."""

    def __init__(self, known: KnownCells) -> None:
        super().__init__(known, "interruptions")

    def apply(self, factor: float) -> MovedSpace:
        known, config = self._known, self._known.designs.composed.config
        if factor == 1:
            return MovedSpace(known, known.simulate_seconds(known.best) * known.factor)
        assert config.reliability.npu_time is not None
        changes = {INTERRUPTIONS: f"{config.reliability.npu_time / factor} s"}
        try:
            slope = known.best_cell_factor(known.designs.slopes(config.with_values(changes)))
            own = known.simulate_seconds(known.best) * (known.factor + slope)
            return MovedSpace(KnownCells(known.designs.with_changes(changes, own * REACH), 0), own)
        except InfeasibleError:
            return MovedSpace(None, np.inf)


def iterate_moves(known: KnownCells) -> Iterator[Move]:
    """Yield the quantities whose changes need a search, with their changes.

    They are bandwidths and latencies of the tiers that the best network uses, the layers of the
    model, and the rate of interruptions if the networks have several sizes.
    """
    config = known.designs.composed.config
    assert config.space.network is not None
    shape = known.designs.cells.shapes[known.where.place.shape]
    tiers = config.space.network.tiers if shape.generator is None else ()
    used = [(d, tier) for d, tier in enumerate(tiers) if shape.sizes[d] > 1]
    for d, tier in used:
        yield TierMove(known, f"bandwidth of {tier.price or f'dim {d}'}", d)
    # If chunks choose their order of dimensions, no bound covers their latencies.
    is_known = config.collective.order is DimensionOrder.BASELINE
    for d, tier in used if is_known else ():
        if tier.latency:
            yield TierMove(known, f"latency of {tier.price or f'dim {d}'}", d, is_latency=True)
    workload = config.workload
    assert isinstance(workload, Model)
    if isinstance(workload.model, Transformer) and not workload.plan.stage_layers:
        yield LayersMove(known, workload.model.layers)
    sizes = {prod(shape.sizes) for shape in known.designs.cells.shapes}
    if config.reliability.npu_time is not None and len(sizes) > 1:
        yield InterruptionsMove(known)
