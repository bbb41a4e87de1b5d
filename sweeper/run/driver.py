"""Running a study: asks the searches, keeps the pool busy, writes the ledger."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from engine import DimsweepError, Fidelity
from sweeper.ledger.ledger import Ledger
from sweeper.ledger.rows import PORTFOLIO, RECHECK
from sweeper.run.evaluate import Job
from sweeper.run.pool import Pool
from sweeper.search import Search, Values
from sweeper.space.space import Point
from sweeper.study.cell import CellPlan
from sweeper.study.plan import Plan, PortfolioPlan
from sweeper.study.portfolio import WORKLOAD, Together


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
    """Run every cell's search to its budget, and then those of the portfolios.

    What is asked depends on what was told, and results are told wave by wave in the order of their
    points, so the study is the same however many workers there are, and a resumed one goes on as
    if it had never stopped: it asks again from the start, and what the ledger knows is not
    simulated again.
    """
    driver = _Driver(ledger, pool, watch)
    best = {cell.cell.number: _run_cell(cell, driver) for cell in plan.cells}
    for i, portfolio in enumerate(plan.portfolios):
        own = [best[cell.cell.number] for cell in portfolio.cells]
        found = _run_portfolio(portfolio, own, driver)
        plan.study["portfolios"][i] |= found
        ledger.describe(plan.study)
    return driver.tally


def _run_cell(cell: CellPlan, driver: _Driver) -> _Best:
    """Search a cell, and look again at its best designs; the best ones."""
    search, best = cell.search(), _Best(cell)

    def settled() -> bool:
        return cell.is_settled(driver.tally.best.get(cell.cell.number))

    for points, (wave,) in driver.waves(search, [cell], cell.budget, settled=settled):
        values = driver.collect(wave)
        search.tell(points, values, [driver.ledger.slopes.get(key) for key in wave.keys])
        best.add(points, values)
        driver.count(cell, values)
    values = driver.collect(driver.submit(cell, best.again(first=cell.budget)))
    driver.count(cell, values, searched=False)
    return best


def _run_portfolio(plan: PortfolioPlan, own: Sequence[_Best], driver: _Driver) -> dict[str, Any]:
    """Search the split for all workloads, each split simulated for all of them; each workload's
    own best, and the proven bound of the measure."""
    together = _together(plan, own)
    one = plan.cells[0]
    proven = together.proven(plan.models, one.space, one.prices) if plan.models else None
    search = plan.search(_first(plan, own, None if proven is None else proven.bandwidth))
    for points, waves in driver.waves(search, plan.cells, one.budget, PORTFOLIO):
        values = [driver.collect(wave) for wave in waves]
        slopes = [[driver.ledger.slopes.get(key) for key in wave.keys] for wave in waves]
        told = [
            together.combine(*pair)
            for pair in zip(zip(*values, strict=True), zip(*slopes, strict=True), strict=True)
        ]
        search.tell(points, [value for value, _ in told], [slope for _, slope in told])
        for cell, results in zip(plan.cells, values, strict=True):
            driver.count(cell, results, searched=False)
    return {
        "own": together.own.tolist(),
        "bound": None if proven is None else proven.bound,
    }


def _together(plan: PortfolioPlan, own: Sequence[_Best]) -> Together:
    values = []
    for cell, best in zip(plan.cells, own, strict=True):
        if best.value is None:
            raise DimsweepError(
                f"no point of {cell.cell.coordinates[WORKLOAD]} is complete, so it has no optimum "
                "of its own",
                where="portfolio.workloads",
                hint="dimsweep report says what failed",
            )
        values.append(best.value)
    maximised = plan.cells[0].directions[0] == "maximize"
    if not min(values) > 0:
        raise DimsweepError("a workload that takes no time has no regret", where="portfolio")
    array = np.array(values)
    return Together(plan.weighing, 1 / array if maximised else array, maximised)


def _first(plan: PortfolioPlan, own: Sequence[_Best], least: np.ndarray | None) -> list[Point]:
    """Splits worth knowing: each workload's own best, where the bound is least, and those that do
    not depend on the workload."""
    one = plan.cells[0]
    found = [best.point for best in own]
    if least is not None and one.space.split is not None:
        nearest = tuple(one.space.split.nearest(least).tolist())
        found.append(Point(0, "bound", nearest, found[0].parameters))
    found += [point for point in one.first if point.origin in ("equal", "known")]
    return [replace(point, number=i) for i, point in enumerate(found)]


class _Driver:
    """Has points simulated, writes them down, and keeps the tally."""

    def __init__(self, ledger: Ledger, pool: Pool, watch: Callable[[Tally], None]) -> None:
        self.ledger, self.tally = ledger, Tally()
        self._pool, self._watch = pool, watch
        self._in_flight: set[str] = set()

    def waves(
        self,
        search: Search,
        cells: Sequence[CellPlan],
        budget: int,
        origin: str | None = None,
        settled: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[list[Point], list[_Wave]]]:
        """The waves of a search, and each as one of every cell, which are being simulated; the
        next ones are asked for when the caller has told the search of this one.

        With an ``origin`` they are not the cells' own points, and come after these.  No more are
        asked for once it is ``settled``.
        """
        size, asked = cells[0].cell.config["search"]["wave"], 0
        ahead: deque[tuple[list[Point], list[_Wave]]] = deque()
        while ahead or (asked < budget and not settled()):
            while len(ahead) < search.waves_ahead and asked < budget and not settled():
                points = search.ask(min(size, budget - asked))
                asked += len(points)
                waves = [self.submit(c, _renamed(points, c.budget, origin)) for c in cells]
                ahead.append((points, waves))
            yield ahead.popleft()

    def submit(self, cell: CellPlan, points: list[Point]) -> _Wave:
        """Have simulated what neither the ledger nor a wave before this one knows."""
        wave = _Wave(points, cell.keys(points))
        new: dict[str, Point] = {}
        for point, key in zip(wave.points, wave.keys, strict=True):
            if key in self.ledger.values or key in self._in_flight or key in new:
                self.tally.reused += 1
            else:
                new[key] = point
        self._in_flight.update(new)
        self._pool.submit(Job(cell.cell.number, list(new.values()), list(new)))
        return wave

    def collect(self, wave: _Wave) -> list[Values]:
        """Write down what the pool delivers until the wave is complete; its values."""
        while any(key in self._in_flight for key in wave.keys):
            outcome = self._pool.collect()
            if outcome is not None:
                for batch in outcome.rows.to_batches():
                    self.ledger.append(batch)
                self.tally.engine_seconds += outcome.seconds
                self._in_flight.difference_update(outcome.rows.column("key").to_pylist())
            self._watch(self.tally)
        return [self.ledger.values[key] for key in wave.keys]

    def count(self, cell: CellPlan, values: list[Values], *, searched: bool = True) -> None:
        """Add a wave's values to the tally; the best are those of the cell's own search."""
        self.tally.done += len(values)
        self.tally.failed += sum(value is None for value in values)
        better = min if cell.directions[0] == "minimize" else max
        for value in values:
            if value is None or not searched:
                continue
            best = self.tally.best.get(cell.cell.number)
            if best is None or better(value[0], best[0]) != best[0]:
                self.tally.best[cell.cell.number] = tuple(value)
        self._watch(self.tally)


def _renamed(points: list[Point], first: int, origin: str | None) -> list[Point]:
    if origin is None:
        return points
    return [replace(point, number=first + point.number, origin=origin) for point in points]


class _Best:
    """The best designs of a cell so far, one or as many as are to be looked at again, each once."""

    def __init__(self, cell: CellPlan) -> None:
        self._again = cell.recheck
        self._sign = 1 if cell.directions[0] == "minimize" else -1
        self._kept: list[tuple[float, int, Point]] = []

    @property
    def value(self) -> float | None:
        """The best value of the first objective; ``None`` if no point is complete."""
        return self._sign * self._kept[0][0] if self._kept else None

    @property
    def point(self) -> Point:
        """The best point; there must be one."""
        return self._kept[0][2]

    def add(self, points: list[Point], values: list[Values]) -> None:
        found = [
            (self._sign * value[0], point.number, point)
            for point, value in zip(points, values, strict=True)
            if value is not None
        ]
        designs: dict[tuple[object, ...], tuple[float, int, Point]] = {}
        for entry in sorted([*self._kept, *found], key=lambda entry: entry[:2]):
            if len(designs) == max(self._again, 1):
                break
            point = entry[2]
            design = (point.bandwidth, *map(str, point.parameters.values()))
            designs.setdefault(design, entry)
        self._kept = list(designs.values())

    def again(self, first: int) -> list[Point]:
        """The designs to look at again as points of the message kernel, numbered from ``first``."""
        return [
            Point(
                first + i,
                RECHECK,
                point.bandwidth,
                {**point.parameters, "fidelity": Fidelity.MESSAGE.value},
            )
            for i, (_, _, point) in enumerate(self._kept[: self._again])
        ]
