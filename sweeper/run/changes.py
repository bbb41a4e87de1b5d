"""What would change the answer of a search: how far a price or a bandwidth may move before another
cell wins, by the bounds that closed the cells and a few simulations.

What the seconds of a cell are not below tells from which change on it could beat the answer at the
earliest, or what its loss is not below when the change is made.  Cells are looked at in that order
until the first one is a cell that was simulated: no other one comes before it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from heapq import heapify, heapreplace
from typing import NamedTuple

import numpy as np

from dimsweep.engine import DimsweepError, InfeasibleError, Program, run_batch, units
from dimsweep.sweeper.build.program import build_program
from dimsweep.sweeper.build.simulate import simulate
from dimsweep.sweeper.ledger.record import Change, End, PrunedCell
from dimsweep.sweeper.networks.cells import GREATEST, Longs
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
_TWICE = " x2"  # what the name of a what-if ends with


def changes_of(designs: Designs, best: int) -> tuple[Change, ...]:
    """How far prices and bandwidths may move before another cell than the ``best`` one wins."""
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
    assert designs.composed.config.space.network is not None
    shape = designs.cells.shapes[known.where.place.shape]
    tiers = designs.composed.config.space.network.tiers if shape.made is None else ()
    for d, tier in enumerate(tiers):
        if shape.sizes[d] > 1:
            ends = _Bandwidth(known, d).ends()
            found.append(Change(name=f"bandwidth of {tier.price or f'dim {d}'}", **ends))
    return tuple(found)


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
    """What the seconds of cells are not below, each tier's bandwidth times its ``scale``: of a plan
    whose loads nobody asked for yet what it computes for; of a cell that was simulated its time."""

    def __init__(self, designs: Designs, scale: tuple[float, ...] = ()) -> None:
        self._cells, self._scale = designs.cells, scale
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
        self._plain[i] = self._known[i] = self._cells.loads_of(i, self._scale)

    def ask_some(self, i: int, floor: Floats, cells: Longs) -> None:
        """Work out the loads of some cells of a plan; the others have their ``floor``."""
        found = floor.copy()
        found[cells] = np.maximum(floor[cells], self._cells.loads_of(i, self._scale, cells))
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

    def seconds(self, number: int, scale: tuple[float, ...] = ()) -> float:
        """The simulated time of a cell; infinite if it cannot be simulated."""
        if number not in self._programs:
            self._programs[number] = _program(self.designs, number)
        program = self._programs[number]
        if program is None:
            return np.inf
        if program.communication.network.graph is not None:  # whose links are no tier's
            _, composed = self.designs.compose(number)
            return simulate(composed.config, program).time
        bandwidth = program.bandwidth * (scale or 1.0)
        return float(run_batch(program, bandwidth[None]).time[0]) / units.PICOSECONDS

    def simulate(self, loads: _Loads, i: int, m: int, scale: tuple[float, ...] = ()) -> None:
        """Know a cell's time, where each bandwidth is times its ``scale``."""
        loads.settle(i, m, self.seconds(int(self.designs.cells.first[i]) + m, scale))

    def end(self, factor: float, number: int | None, *, is_open: bool = False) -> End:
        by = None if number is None else self.designs.compose(number)[0]
        return End(factor=factor, by=by, is_open=is_open)


def _program(designs: Designs, number: int) -> Program | None:
    _, composed = designs.compose(number)
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
        loads = self._known.loads
        if i not in loads:
            loads.ask(i)
            return False
        self._known.simulate(loads, i, m)
        return True

    def is_exact(self, i: int, m: int) -> bool:
        return self._known.loads.is_exact(i, m)


def _price(known: _Known, slopes: Floats, sign: int, margin: float) -> End:
    reach = REACH - 1 if sign > 0 else 1 - 1 / REACH
    found = _Price(known, slopes, sign, margin).first(reach)
    return known.end(1 + sign * found.key, found.number, is_open=found.is_open)


class _Scaled(_Race):
    """The losses of cells below an ``end``, where the bandwidth of each tier is times its
    ``scale``."""

    def __init__(self, known: _Known, scale: tuple[float, ...], end: float) -> None:
        super().__init__(known)
        self._scale, self._loads, self._end = scale, _Loads(known.designs, scale), end

    def key(self, i: int) -> tuple[float, int]:
        loss = self._seconds(i) * self._factor(i)
        m = int(np.argmin(loss))
        return float(loss[m]), m

    def _seconds(self, i: int) -> Floats:
        if i in self._loads:
            return self._loads.of(i)
        # No path is shorter but where its bytes get more bandwidth.
        bounds, least = self._known.loads.bounds(i), self._known.designs.cells.least[i]
        return np.maximum(bounds / max(*self._scale, 1.0), least)

    def _factor(self, i: int) -> Floats:
        return self._known.designs.factor(self._known.designs.cells.rows[i])

    def learn(self, i: int, m: int) -> bool:
        if i in self._loads:
            self._known.simulate(self._loads, i, m, self._scale)
            return True
        if i not in self._known.loads:
            self._known.loads.ask(i)
            return False
        floor = self._seconds(i)
        below = np.flatnonzero(floor * self._factor(i) < self._end)
        self._loads.ask_some(i, floor, below)
        return False

    def is_exact(self, i: int, m: int) -> bool:
        return self._loads.is_exact(i, m)


class _Bandwidth:
    """What wins where the bandwidth of a tier is not what it was thought to be: each network gets
    that share of its own there, at its price."""

    def __init__(self, known: _Known, dim: int) -> None:
        self._known, self._dim = known, dim
        self._n = len(known.designs.cells.shapes[known.where.place.shape].sizes)
        self._found = dict[float, tuple[float, _First]]()

    def ends(self) -> dict[str, End]:
        return {
            f"{prefix}{way}": self._end(far, margin)
            for prefix, margin in (("", 0.0), ("near_", NEAR))
            for way, far in (("down", 1 / REACH), ("up", REACH))
        }

    def _end(self, far: float, margin: float) -> End:
        near, winner = 1.0, self._loses(far, margin)
        if winner is None:
            return self._known.end(far, None)
        for _ in range(_HALVINGS):
            middle = (near * far) ** 0.5
            found = self._loses(middle, margin)
            near, far, winner = (middle, far, winner) if found is None else (near, middle, found)
        return self._known.end(near, winner.number, is_open=winner.is_open)

    def _loses(self, factor: float, margin: float) -> _First | None:
        """To whom the best cell loses by more than a share; None if it does not."""
        if factor not in self._found:
            scale = tuple(factor if d == self._dim else 1.0 for d in range(self._n))
            known = self._known
            own = known.seconds(known.best, scale) * known.factor
            end = own * (1 - _ROUNDING)
            found = _Scaled(known, scale, end).first(end)
            self._found[factor] = own / found.key - 1, found
        lost, winner = self._found[factor]
        is_beaten = winner.is_open or winner.number is not None
        return winner if is_beaten and lost > margin else None
