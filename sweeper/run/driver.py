"""Running a study: asks the samplers, keeps the executor busy, writes the ledger."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from engine import DimsweepError, Fidelity
from sweeper.ledger.ledger import Ledger
from sweeper.ledger.rows import PORTFOLIO, RECHECK
from sweeper.run.executor import Executor
from sweeper.run.executor.evaluate import Job
from sweeper.search import Sampler, Values
from sweeper.space.space import Trial
from sweeper.study.cell import CellPlan
from sweeper.study.plan import PortfolioPlan, StudyPlan
from sweeper.study.portfolio import WORKLOAD, Together


@dataclass
class Progress:
    """What a sweep has done so far; trials that the ledger already had are ``reused``.

    ``lost`` are those that failed by a fault of the environment, which the next run tries again.
    """

    done: int = 0
    reused: int = 0
    failed: int = 0
    lost: int = 0
    engine_seconds: float = 0.0
    best: dict[int, tuple[float, ...]] = field(default_factory=dict)  # cell -> best values


@dataclass(frozen=True)
class _Batch:
    trials: list[Trial]
    keys: list[str]


def run_sweep(
    plan: StudyPlan, ledger: Ledger, executor: Executor, watch: Callable[[Progress], None]
) -> Progress:
    """Run every cell's search to its budget, and then those of the portfolios.

    What is asked depends on what was told, and results are told batch by batch in the order of
    their trials, so the study is the same however many workers there are, and a resumed one goes
    on as if it had never stopped: it asks again from the start, and what the ledger knows is not
    simulated again.
    """
    driver, study = _Driver(ledger, executor, watch), plan.study
    best = {cell.cell.number: _run_cell(cell, driver) for cell in plan.cells}
    for i, portfolio in enumerate(plan.portfolios):
        own = [best[cell.cell.number] for cell in portfolio.cells]
        found = _run_portfolio(portfolio, own, driver)
        study = study.with_portfolio(i, **found)
        ledger.describe(study)
    return driver.progress


def _run_cell(cell: CellPlan, driver: _Driver) -> _Best:
    """Search a cell, and look again at its best designs; the best ones."""
    sampler, best = cell.sampler(), _Best(cell)

    def settled() -> bool:
        return cell.is_settled(driver.progress.best.get(cell.cell.number))

    for trials, (batch,) in driver.batches(sampler, [cell], cell.budget, settled=settled):
        values = driver.collect(batch)
        sampler.tell(trials, values, [driver.ledger.slopes.get(key) for key in batch.keys])
        best.add(trials, values)
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
    sampler = plan.sampler(_first(plan, own, None if proven is None else proven.bandwidth))
    for trials, batches in driver.batches(sampler, plan.cells, one.budget, PORTFOLIO):
        values = [driver.collect(batch) for batch in batches]
        slopes = [[driver.ledger.slopes.get(key) for key in batch.keys] for batch in batches]
        told = [
            together.combine(*pair)
            for pair in zip(zip(*values, strict=True), zip(*slopes, strict=True), strict=True)
        ]
        sampler.tell(trials, [value for value, _ in told], [slope for _, slope in told])
        for cell, results in zip(plan.cells, values, strict=True):
            driver.count(cell, results, searched=False)
    return {"own": tuple(together.own.tolist()), "bound": None if proven is None else proven.bound}


def _together(plan: PortfolioPlan, own: Sequence[_Best]) -> Together:
    values = []
    for cell, best in zip(plan.cells, own, strict=True):
        if best.value is None:
            raise DimsweepError(
                f"no trial of {cell.cell.coordinates[WORKLOAD]} is complete, so it has no optimum "
                "of its own",
                where="portfolio.workloads",
                hint="dimsweep report says what failed",
            )
        values.append(best.value)
    if not min(values) > 0:
        raise DimsweepError("a workload that takes no time has no regret", where="portfolio")
    objective = plan.cells[0].objective[0]
    return Together(plan.weighing, objective.loss(np.array(values)), objective)


def _first(plan: PortfolioPlan, own: Sequence[_Best], least: np.ndarray | None) -> list[Trial]:
    """Splits worth knowing: each workload's own best, where the bound is least, and those that do
    not depend on the workload."""
    one = plan.cells[0]
    found = [best.trial for best in own]
    if least is not None and one.space.split is not None:
        nearest = tuple(one.space.split.nearest(least).tolist())
        found.append(Trial(0, "bound", nearest, found[0].parameters))
    found += [trial for trial in one.first if trial.origin in ("equal", "known")]
    return [replace(trial, number=i) for i, trial in enumerate(found)]


class _Driver:
    """Has trials simulated, writes them down, and keeps the progress."""

    def __init__(
        self, ledger: Ledger, executor: Executor, watch: Callable[[Progress], None]
    ) -> None:
        self.ledger, self.progress = ledger, Progress()
        self._executor, self._watch = executor, watch
        self._in_flight: set[str] = set()

    def batches(
        self,
        sampler: Sampler,
        cells: Sequence[CellPlan],
        budget: int,
        origin: str | None = None,
        settled: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[list[Trial], list[_Batch]]]:
        """The batches of a search, and each as one of every cell, which are being simulated; the
        next ones are asked for when the caller has told the search of this one.

        With an ``origin`` they are not the cells' own trials, and come after these.  No more are
        asked for once it is ``settled``.
        """
        size, asked = cells[0].config.search.batch, 0
        ahead: deque[tuple[list[Trial], list[_Batch]]] = deque()
        while ahead or (asked < budget and not settled()):
            while len(ahead) < sampler.prefetch and asked < budget and not settled():
                trials = sampler.ask(min(size, budget - asked))
                asked += len(trials)
                batches = [self.submit(c, _renamed(trials, c.budget, origin)) for c in cells]
                ahead.append((trials, batches))
            yield ahead.popleft()

    def submit(self, cell: CellPlan, trials: list[Trial]) -> _Batch:
        """Have simulated what neither the ledger nor a batch before this one knows."""
        batch = _Batch(trials, cell.keys(trials))
        new: dict[str, Trial] = {}
        for trial, key in zip(batch.trials, batch.keys, strict=True):
            if key in self.ledger.values or key in self._in_flight or key in new:
                self.progress.reused += 1
            else:
                new[key] = trial
        self._in_flight.update(new)
        self._executor.submit(Job(cell.cell.number, list(new.values()), list(new)))
        return batch

    def collect(self, batch: _Batch) -> list[Values]:
        """Write down what the executor delivers until the batch is complete; its values."""
        while any(key in self._in_flight for key in batch.keys):
            outcome = self._executor.collect()
            if outcome is not None:
                for rows in outcome.rows.to_batches():
                    self.ledger.append(rows)
                self.progress.engine_seconds += outcome.seconds
                self.progress.lost += len(outcome.lost)
                self._in_flight.difference_update(outcome.rows.column("key").to_pylist())
            self._watch(self.progress)
        return [self.ledger.values[key] for key in batch.keys]

    def count(self, cell: CellPlan, values: list[Values], *, searched: bool = True) -> None:
        """Add a batch's values to the progress; the best are those of the cell's own search."""
        self.progress.done += len(values)
        self.progress.failed += sum(value is None for value in values)
        for value in values:
            if value is None or not searched:
                continue
            best = self.progress.best.get(cell.cell.number)
            if best is None or cell.objective[0].is_better(value[0], best[0]):
                self.progress.best[cell.cell.number] = tuple(value)
        self._watch(self.progress)


def _renamed(trials: list[Trial], first: int, origin: str | None) -> list[Trial]:
    if origin is None:
        return trials
    return [replace(trial, number=first + trial.number, origin=origin) for trial in trials]


class _Best:
    """The best designs of a cell so far, one or as many as are to be looked at again, each once."""

    def __init__(self, cell: CellPlan) -> None:
        self._again = cell.recheck
        self._sign = cell.objective[0].sign
        self._kept: list[tuple[float, int, Trial]] = []

    @property
    def value(self) -> float | None:
        """The best value of the first objective; ``None`` if no trial is complete."""
        return self._sign * self._kept[0][0] if self._kept else None

    @property
    def trial(self) -> Trial:
        """The best trial; there must be one."""
        return self._kept[0][2]

    def add(self, trials: list[Trial], values: list[Values]) -> None:
        found = [
            (self._sign * value[0], trial.number, trial)
            for trial, value in zip(trials, values, strict=True)
            if value is not None
        ]
        designs: dict[tuple[object, ...], tuple[float, int, Trial]] = {}
        for entry in sorted([*self._kept, *found], key=lambda entry: entry[:2]):
            if len(designs) == max(self._again, 1):
                break
            trial = entry[2]
            design = (trial.bandwidth, *map(str, trial.parameters.values()))
            designs.setdefault(design, entry)
        self._kept = list(designs.values())

    def again(self, first: int) -> list[Trial]:
        """The designs to look at again as trials of the message kernel, numbered from ``first``."""
        return [
            Trial(
                first + i,
                RECHECK,
                trial.bandwidth,
                {**trial.parameters, "fidelity": Fidelity.MESSAGE.value},
            )
            for i, (_, _, trial) in enumerate(self._kept[: self._again])
        ]
