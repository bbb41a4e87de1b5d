"""What would change the answer of a search: how far a price, a bandwidth, a latency or the model's
size may move before another cell wins, by the bounds that closed the cells and a few simulations.

What the seconds of a cell are not below tells from which change on it could beat the answer at the
earliest, or what its loss is not below when the change is made.  Cells are looked at in that order
until the first one is a cell that was simulated: no other one comes before it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from heapq import heapify, heapreplace
from typing import NamedTuple

import numpy as np

from dimsweep.engine import (
    DimensionOrder,
    DimsweepError,
    InfeasibleError,
    Program,
    run_batch,
    units,
)
from dimsweep.engine.model import Transformer
from dimsweep.engine.workload import AXES
from dimsweep.sweeper.build.evidence import sure_elsewhere, surely
from dimsweep.sweeper.build.program import build_program
from dimsweep.sweeper.build.simulate import simulate
from dimsweep.sweeper.config.compose import Composed
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.ledger.record import Change, End, PrunedCell, Rival
from dimsweep.sweeper.networks.cells import AS_IS, GREATEST, PIPELINE, Longs, Moved
from dimsweep.sweeper.networks.networks import Floats
from dimsweep.sweeper.networks.plans import Row
from dimsweep.sweeper.study.change import resolve
from dimsweep.sweeper.study.designs import Designs
from dimsweep.sweeper.study.ranking import NEAR
from dimsweep.sweeper.study.what_if import Asked

REACH = GREATEST  # times what it is, or that part of it, that are looked at
_LOOKS = 24  # cells that are simulated for one end, at most
_HALVINGS = 3  # of the part of the reach in which another bandwidth makes another cell win
_ROUNDING = 1e-9
LAYERS = "workload.model.layers"
_TWICE = " x2"  # what the name of a what-if ends with


class Changes(NamedTuple):
    """What would change an answer: how far each thing may move, and the error of the model, before
    another cell than the best one wins."""

    changes: tuple[Change, ...] = ()
    rival: Rival | None = None


def changes_of(designs: Designs, best: int) -> Changes:
    """What makes another cell than the ``best`` one win."""
    known = _Known(designs, best)
    found = [
        Change(
            name=name,
            down=_price(known, slopes, -1, 0.0),
            up=_price(known, slopes, 1, 0.0),
            near_down=_price(known, slopes, -1, NEAR),
            near_up=_price(known, slopes, 1, NEAR),
        )
        for name, slopes in _prices(designs, best)
    ]
    found += [Change(name=move.name, **move.ends()) for move in _moves(known)]
    return Changes(tuple(found), _rival(known))


def _moves(known: "_Known") -> Iterator["_Move"]:
    """What is a search of its own: the tiers of the best network that messages go through, and the
    size of a model of layers."""
    config = known.designs.composed.config
    assert config.space.network is not None
    shape = known.designs.cells.shapes[known.where.place.shape]
    tiers = config.space.network.tiers if shape.made is None else ()
    used = [(d, tier) for d, tier in enumerate(tiers) if shape.sizes[d] > 1]
    for d, tier in used:
        yield _OfTier(known, f"bandwidth of {tier.price or f'dim {d}'}", d)
    # Where chunks choose their orders by themselves, no bound says what latencies they have.
    is_known = config.collective.order is DimensionOrder.BASELINE
    for d, tier in used if is_known else ():
        if tier.latency:
            yield _OfTier(known, f"latency of {tier.price or f'dim {d}'}", d, is_latency=True)
    workload = config.workload
    assert isinstance(workload, Model)
    if isinstance(workload.model, Transformer) and not workload.plan.stage_layers:
        yield _OfLayers(known, workload.model.layers)


def _prices(designs: Designs, best: int) -> Iterator[tuple[str, Floats]]:
    """The prices that what-ifs double, each with what twice as much adds to what seconds are
    multiplied by, for all networks; but for those of whole parts, by which fabrics are chosen."""
    planned, config = designs.plan(best), designs.composed.config
    if isinstance(planned, PrunedCell) or config.cost.parts:
        return
    for name, changes in Asked(planned.plan.config, planned.plan.space).changes():
        if all(key.startswith("cost.") for key in changes):
            slopes = designs.slopes(config.changed(resolve(config, changes)))
            if slopes.any():
                yield name.removesuffix(_TWICE), slopes


class _Loads:
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


class _Known:
    """What is known of the cells of some designs, of which one is the ``best``."""

    def __init__(self, designs: Designs, best: int) -> None:
        self.designs, self.best, self.loads = designs, best, _Loads(designs)
        self.where = designs.cells.where(best)
        self._programs = dict[int, Program | None]()

    @cached_property
    def factor(self) -> float:
        """What the best cell's seconds are multiplied by in the loss."""
        return float(self.designs.factor(self.where.row)[self.where.number])

    def seconds(self, number: int, moved: Moved = AS_IS) -> float:
        """The simulated time of a cell; infinite if it cannot be simulated."""
        if number not in self._programs:
            self._programs[number] = _program(self.designs.compose(number)[1])
        program = self._programs[number]
        if program is None:
            return np.inf
        if program.communication.network.graph is not None:  # whose links are no tier's
            return simulate(self.designs.compose(number)[1].config, program).time
        shape = self.designs.cells.shapes[self.designs.cells.where(number).place.shape]
        bandwidth = program.bandwidth * (moved.bandwidth or 1.0)
        program = program.rebind(latency=shape.later(moved.latency))
        return float(run_batch(program, bandwidth[None]).time[0]) / units.PICOSECONDS

    def simulate(self, loads: _Loads, i: int, m: int, moved: Moved = AS_IS) -> None:
        """Know a cell's time, where tiers are ``moved``."""
        loads.settle(i, m, self.seconds(int(self.designs.cells.first[i]) + m, moved))

    def look(self, i: int, m: int) -> bool:
        """Know the loads of a plan, or the time of its cell ``m``; whether that was simulated."""
        if i not in self.loads:
            self.loads.ask(i)
            return False
        self.simulate(self.loads, i, m)
        return True

    def end(self, factor: float, number: int | None, *, is_open: bool = False) -> End:
        by = None if number is None else self.designs.compose(number)[0]
        return End(factor=factor, by=by, is_open=is_open)


def _program(composed: Composed) -> Program | None:
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


class _Race(ABC):
    """An order of cells, of which more may become known."""

    def __init__(self, known: _Known) -> None:
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
            looks += self.learn(i, m)
            heapreplace(heap, (*self.key(i), i))
        return _First(end)


class _Price(_Race):
    """By how much a price must change, upwards (``sign`` 1) or downwards (-1), until a cell is
    better than the best by more than the share ``margin``."""

    def __init__(self, known: _Known, slopes: Floats, sign: int, margin: float) -> None:
        super().__init__(known)
        self._slopes, self._sign, self._share = slopes, sign, (1 + margin) * (1 + _ROUNDING)
        slope = float(self._of(known.where.row)[known.where.number])
        seconds = known.seconds(known.best)
        self._own = seconds * known.factor, seconds * slope

    def _of(self, row: Row) -> Floats:
        cells = self._known.designs.cells
        return cells.of_networks(self._slopes, cells.spot(row))

    def key(self, i: int) -> tuple[float, int]:
        row, (loss, slope) = self._known.designs.cells.rows[i], self._own
        seconds = self._known.loads.of(i) * self._share
        # Behind by so much, of which each unit of change takes off so much.
        with np.errstate(invalid="ignore", divide="ignore"):
            behind = seconds * self._known.designs.factor(row) - loss
            less = self._sign * (slope - seconds * self._of(row))
            where = np.where(behind <= 0, 0.0, np.where(less > 0, behind / less, np.inf))
        where = np.where(np.isfinite(seconds), where, np.inf)
        m = int(np.argmin(where))
        return float(where[m]), m

    def learn(self, i: int, m: int) -> bool:
        return self._known.look(i, m)

    def is_exact(self, i: int, m: int) -> bool:
        return self._known.loads.is_exact(i, m)


def _price(known: _Known, slopes: Floats, sign: int, margin: float) -> End:
    reach = REACH - 1 if sign > 0 else 1 - 1 / REACH
    found = _Price(known, slopes, sign, margin).first(reach)
    return known.end(1 + sign * found.key, found.number, is_open=found.is_open)


class _Next(_Race):
    """The losses of all cells but the best one."""

    def key(self, i: int) -> tuple[float, int]:
        known, cells = self._known, self._known.designs.cells
        loss = known.loads.of(i) * known.designs.factor(cells.rows[i])
        if cells.first[i] <= known.best < cells.first[i + 1]:
            loss[known.best - int(cells.first[i])] = np.inf
        m = int(np.argmin(loss))
        return float(loss[m]), m

    def learn(self, i: int, m: int) -> bool:
        return self._known.look(i, m)

    def is_exact(self, i: int, m: int) -> bool:
        return self._known.loads.is_exact(i, m)


def _rival(known: _Known) -> Rival:
    """Who comes next, and how sure it is that measurements would say so: two designs share most of
    the model's error."""
    own = known.seconds(known.best) * known.factor
    found = _Next(known).first(own * REACH)
    factor = found.key / own
    end = known.end(factor, found.number, is_open=found.is_open)
    if found.number is None:
        return Rival(**dict(end))
    both = [known.designs.compose(number)[1].config for number in (known.best, found.number)]
    sure = surely(np.log(factor), *both)
    if sure is not None:
        return Rival(**dict(end), sure=sure)
    return Rival(**dict(end), sure=sure_elsewhere(np.log(factor), *both), elsewhere=True)


class _Scaled(_Race):
    """The losses of cells below an ``end``, where tiers are ``moved``."""

    def __init__(self, known: _Known, moved: Moved, end: float) -> None:
        super().__init__(known)
        self._moved, self._loads, self._end = moved, _Loads(known.designs, moved), end

    def key(self, i: int) -> tuple[float, int]:
        loss = self._seconds(i) * self._factor(i)
        m = int(np.argmin(loss))
        return float(loss[m]), m

    def _seconds(self, i: int) -> Floats:
        if i in self._loads:
            return self._loads.of(i)
        bounds, least = self._known.loads.bounds(i), self._known.designs.cells.least[i]
        return np.maximum(bounds * self._moved.slowdown, least)

    def _factor(self, i: int) -> Floats:
        return self._known.designs.factor(self._known.designs.cells.rows[i])

    def learn(self, i: int, m: int) -> bool:
        if i in self._loads:
            self._known.simulate(self._loads, i, m, self._moved)
            return True
        if i not in self._known.loads and self._moved != AS_IS:
            self._known.loads.ask(i)  # which is known at all factors then
            return False
        floor = self._seconds(i) * np.ones(len(self._factor(i)))
        below = np.flatnonzero(floor * self._factor(i) < self._end)
        self._loads.ask_some(i, floor, below)
        return False

    def is_exact(self, i: int, m: int) -> bool:
        return self._loads.is_exact(i, m)


class _Moment(NamedTuple):
    """What is ``known`` of cells (None where there are none that may win), the loss of the one that
    was the best, and where tiers are ``moved`` to."""

    known: _Known | None
    own: float
    moved: Moved = AS_IS


class _Move(ABC):
    """What wins where something of a ``name`` is not what it was thought to be."""

    def __init__(self, known: _Known, name: str) -> None:
        self._known, self.name = known, name
        self._found = dict[float, tuple[float, End]]()

    @abstractmethod
    def at(self, factor: float) -> "_Moment":
        """What it is times a ``factor``."""

    def whole(self, factor: float) -> float:
        """The next factor that there is on the way to this one."""
        return factor

    def ends(self) -> dict[str, End]:
        return {
            f"{prefix}{way}": self._end(self.whole(far), margin)
            for prefix, margin in (("", 0.0), ("near_", NEAR))
            for way, far in (("down", 1 / REACH), ("up", REACH))
        }

    def _end(self, far: float, margin: float) -> End:
        near, winner = 1.0, None if far == 1 else self._loses(far, margin)
        if winner is None:
            return End(factor=far)
        for _ in range(_HALVINGS):
            middle = self.whole((near * far) ** 0.5)
            if not min(near, far) < middle < max(near, far):
                break
            found = self._loses(middle, margin)
            near, far, winner = (middle, far, winner) if found is None else (near, middle, found)
        return winner.model_copy(update={"factor": near})

    def _loses(self, factor: float, margin: float) -> End | None:
        """To whom the best cell loses by more than a share; None if it does not."""
        if factor not in self._found:
            self._found[factor] = self._race(factor)
        lost, winner = self._found[factor]
        return None if winner.is_far or not lost > margin else winner

    def _race(self, factor: float) -> tuple[float, End]:
        known, own, moved = self.at(factor)
        if known is None:
            return 0.0, End(factor=factor)
        end = own * (1 - _ROUNDING)
        found = _Scaled(known, moved, end).first(end)
        lost = own / found.key - 1 if np.isfinite(found.key) else 0.0
        return lost, known.end(factor, found.number, is_open=found.is_open)


class _OfTier(_Move):
    """Each network gets that share of its own bandwidth in a tier at its price, or has so many
    times the latency."""

    def __init__(self, known: _Known, name: str, dim: int, *, is_latency: bool = False) -> None:
        super().__init__(known, name)
        self._dim, self._is_latency = dim, is_latency

    def at(self, factor: float) -> _Moment:
        known = self._known
        n = len(known.designs.cells.shapes[known.where.place.shape].sizes)
        scale = tuple(factor if d == self._dim else 1.0 for d in range(n))
        moved = Moved(latency=scale) if self._is_latency else Moved(bandwidth=scale)
        return _Moment(known, known.seconds(known.best, moved) * known.factor, moved)


class _OfLayers(_Move):
    """The model has more or fewer ``layers``, by as many as the best plan can divide among its
    stages as it does now."""

    def __init__(self, known: _Known, layers: int) -> None:
        super().__init__(known, f"layers of the model ({layers})")
        self._layers, row = layers, known.where.row
        self._step = row.degrees[AXES.index(PIPELINE)] * row.plan.interleave

    def whole(self, factor: float) -> float:
        steps = int(self._layers * (factor - 1) / self._step)
        return 1 + self._step * steps / self._layers

    def at(self, factor: float) -> _Moment:
        known, changes = self._known, {LAYERS: round(factor * self._layers)}
        _, composed = known.designs.compose(known.best)
        composed = replace(composed, config=composed.config.changed(changes))
        program = _program(composed)
        own = np.inf if program is None else simulate(composed.config, program).time * known.factor
        try:
            return _Moment(_Known(known.designs.changed(changes, own), 0), own)
        except InfeasibleError:
            return _Moment(None, own)
