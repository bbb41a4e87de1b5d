"""Running a study: asks the searches, keeps the pool busy, writes the ledger."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from engine import Fidelity
from sweeper.evaluate import Job
from sweeper.ledger import Ledger
from sweeper.plan import CellPlan, Plan
from sweeper.pool import Pool
from sweeper.rows import RECHECK
from sweeper.search import Values
from sweeper.space import Point


@dataclass
class Tally:
    """What a sweep has done so far; points that the ledger already had are ``reused``."""

    done: int = 0
    reused: int = 0
    failed: int = 0
    engine_seconds: float = 0.0
    best: dict[int, tuple[float, ...]] = field(default_factory=dict)  # cell -> best values


@dataclass(frozen=True)
class _Wave:
    points: list[Point]
    keys: list[str]


def run_sweep(plan: Plan, ledger: Ledger, pool: Pool, watch: Callable[[Tally], None]) -> Tally:
    """Run every cell's search to its budget.

    What is asked depends on what was told, and results are told wave by wave in the order of their
    points, so the study is the same however many workers there are, and a resumed one goes on as
    if it had never stopped: it asks again from the start, and what the ledger knows is not
    simulated again.
    """
    tally = Tally()
    for cell in plan.cells:
        _run_cell(cell, ledger, pool, tally, watch)
    return tally


def _run_cell(
    cell: CellPlan, ledger: Ledger, pool: Pool, tally: Tally, watch: Callable[[Tally], None]
) -> None:
    search, size = cell.search(), cell.cell.config["search"]["wave"]
    asked, budget = 0, cell.budget
    waves: deque[_Wave] = deque()
    in_flight: set[str] = set()
    best = _Best(cell)
    while waves or asked < budget:
        while len(waves) < search.waves_ahead and asked < budget:
            points = search.ask(min(size, budget - asked))
            asked += len(points)
            waves.append(_Wave(points, cell.keys(points)))
            _submit(cell, waves[-1], ledger, pool, in_flight, tally)
        wave = waves.popleft()
        values = _collect(wave, ledger, pool, in_flight, tally, watch)
        search.tell(wave.points, values, [ledger.slopes.get(key) for key in wave.keys])
        best.add(wave.points, values)
        _count(cell, values, tally)
        if cell.is_settled(tally.best.get(cell.cell.number)):
            budget = asked
        watch(tally)
    again = best.again(first=cell.budget)
    wave = _Wave(again, cell.keys(again))
    _submit(cell, wave, ledger, pool, in_flight, tally)
    values = _collect(wave, ledger, pool, in_flight, tally, watch)
    tally.done += len(values)
    tally.failed += sum(value is None for value in values)
    watch(tally)


class _Best:
    """The best designs of a cell so far, as many as are to be looked at again, each once."""

    def __init__(self, cell: CellPlan) -> None:
        self._count = cell.recheck
        self._sign = 1 if cell.directions[0] == "minimize" else -1
        self._kept: list[tuple[float, int, Point]] = []

    def add(self, points: list[Point], values: list[Values]) -> None:
        if not self._count:
            return
        found = [
            (self._sign * value[0], point.number, point)
            for point, value in zip(points, values, strict=True)
            if value is not None
        ]
        designs: dict[tuple[object, ...], tuple[float, int, Point]] = {}
        for entry in sorted([*self._kept, *found], key=lambda entry: entry[:2]):
            point = entry[2]
            design = (point.bandwidth, *map(str, point.parameters.values()))
            designs.setdefault(design, entry)
        self._kept = list(designs.values())[: self._count]

    def again(self, first: int) -> list[Point]:
        """The same designs as points of the message kernel, numbered from ``first``."""
        return [
            Point(
                first + i,
                RECHECK,
                point.bandwidth,
                {**point.parameters, "fidelity": Fidelity.MESSAGE.value},
            )
            for i, (_, _, point) in enumerate(self._kept)
        ]


def _collect(
    wave: _Wave,
    ledger: Ledger,
    pool: Pool,
    in_flight: set[str],
    tally: Tally,
    watch: Callable[[Tally], None],
) -> list[Values]:
    """Write down what the pool delivers until the wave is complete; its values."""
    while any(key in in_flight for key in wave.keys):
        outcome = pool.collect()
        if outcome is not None:
            for batch in outcome.rows.to_batches():
                ledger.append(batch)
            tally.engine_seconds += outcome.seconds
            in_flight.difference_update(outcome.rows.column("key").to_pylist())
        watch(tally)
    return [ledger.values[key] for key in wave.keys]


def _submit(
    cell: CellPlan,
    wave: _Wave,
    ledger: Ledger,
    pool: Pool,
    in_flight: set[str],
    tally: Tally,
) -> None:
    """Have simulated what neither the ledger nor a wave before this one knows."""
    new: dict[str, Point] = {}
    for point, key in zip(wave.points, wave.keys, strict=True):
        if key in ledger.values or key in in_flight or key in new:
            tally.reused += 1
        else:
            new[key] = point
    in_flight.update(new)
    pool.submit(Job(cell.cell.number, list(new.values()), list(new)))


def _count(cell: CellPlan, values: list[Values], tally: Tally) -> None:
    tally.done += len(values)
    tally.failed += sum(value is None for value in values)
    for value in values:
        if value is None:
            continue
        best = tally.best.get(cell.cell.number)
        better = min if cell.directions[0] == "minimize" else max
        if best is None or better(value[0], best[0]) != best[0]:
            tally.best[cell.cell.number] = tuple(value)
