"""Running a study: asks the samplers, keeps the executor busy, writes the ledger."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.ledger import Compact, Ledger
from dimsweep.sweeper.ledger.record import WORKLOAD, PrunedCell
from dimsweep.sweeper.ledger.rows import BESIDE, PORTFOLIO, RECHECK
from dimsweep.sweeper.run.best import Best
from dimsweep.sweeper.run.designs import search_designs
from dimsweep.sweeper.run.executor import Executor
from dimsweep.sweeper.run.executor.evaluate import Job
from dimsweep.sweeper.run.shared import search_shared
from dimsweep.sweeper.run.standing import Standing, ended, in_pieces
from dimsweep.sweeper.run.what_if import simulate_what_ifs
from dimsweep.sweeper.search import Sampler, Values
from dimsweep.sweeper.space.setting import Setting
from dimsweep.sweeper.space.trials import Floats, Integers, Trial, Trials
from dimsweep.sweeper.study.baseline import Baselines
from dimsweep.sweeper.study.cell import CellPlan
from dimsweep.sweeper.study.designs import Designs
from dimsweep.sweeper.study.grid import Grid
from dimsweep.sweeper.study.plan import PortfolioPlan, StudyPlan
from dimsweep.sweeper.study.portfolio import Together
from dimsweep.sweeper.study.shared import SharedDesigns

_SHARE = 4  # of workers, that a batch of thousands keeps busy for a few tenths of a second


@dataclass
class Progress:
    """What a sweep has done so far; trials that the ledger already had are ``reused``, and those
    that other cells or studies had are ``borrowed``.

    ``lost`` are those that failed by a fault of the environment, which the next run tries again.
    ``best`` are the best values of cells, of a large grid only of the cell whose turn it is, and
    ``bound`` is that of the cell that was searched last; ``pruned`` counts cells of a large grid
    that cannot be.  ``what_ifs`` are new rows that are not among what is ``done``.
    ``engine_seconds`` are the workers' own; there were ``workers`` on ``nodes`` at last.
    """

    done: int = 0
    reused: int = 0
    borrowed: int = 0
    failed: int = 0
    lost: int = 0
    engine_seconds: float = 0.0
    workers: int = 1
    nodes: int = 1
    best: dict[int, tuple[float, ...]] = field(default_factory=dict)  # by cell
    bound: float | None = None
    pruned: int = 0
    what_ifs: int = 0
    #: new rows that are no trials of a cell's search, by origin, without what-ifs
    beside: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Batch:
    """Trials, and where the ledger has their rows, or will have them."""

    trials: Trials
    places: Integers


def run_sweep(
    plan: StudyPlan, ledger: Ledger, executor: Executor, watch: Callable[[Progress], None]
) -> Progress:
    """Run every cell's search to its budget, and then those of the portfolios.

    What is asked depends on what was told, and results are told batch by batch in the order of
    their trials, so the study is the same however many workers there are, and a resumed one goes
    on as if it had never stopped: it asks again from the start, and what the ledger knows is not
    simulated again.
    """
    driver, study = Driver(ledger, executor, watch, carries=plan.stream is not None), plan.study
    if plan.stream is not None:
        if plan.stream_baselines is not None:
            _stream_baselines(plan.stream_baselines, driver)
        if isinstance(plan.stream, Designs):
            study = study.model_copy(update={"proof": search_designs(plan.stream, driver)})
        elif isinstance(plan.stream, SharedDesigns):
            proof, portfolio = search_shared(plan.stream, driver)
            study = study.model_copy(update={"proof": proof, "portfolios": (portfolio,)})
        else:
            _run_stream(plan.stream, driver)
        simulate_what_ifs(plan, study, driver)
        ledger.describe(study.model_copy(update={"finished": True}))
        return driver.progress
    for baseline in plan.baselines:
        _run_baseline(baseline, driver)
    best = {cell.cell.number: _run_cell(cell, driver) for cell in plan.cells}
    for i, each in enumerate(plan.portfolios):
        own = [best[cell.cell.number] for cell in each.cells]
        found = _run_portfolio(each, own, driver)
        study = study.with_portfolio(i, **found)
        ledger.describe(study)
    simulate_what_ifs(plan, study, driver)
    ledger.describe(study.model_copy(update={"finished": True}))
    return driver.progress


def _run_stream(grid: Grid, driver: "Driver") -> None:
    """Plan and search the cells of a large grid, one after the other; those that an earlier run
    ended are not planned again."""
    progress, ledger = driver.progress, driver.ledger
    for number in range(len(grid)):
        if ledger.pruned(number) is not None:
            progress.pruned += 1
        elif (places := ended(ledger, grid.composed.config, number)) is not None:
            driver.take_up_ended(places)
        elif isinstance(found := grid.plan(number), PrunedCell):
            ledger.prune(number, found)
            progress.pruned += 1
        else:
            ledger.enter(found.record)
            _run_cell(found.plan, driver)
            progress.best.pop(number, None)


def _stream_baselines(baselines: Baselines, driver: "Driver") -> None:
    """Plan and simulate the baseline of a large grid in each combination of its scenarios."""
    for place in range(len(baselines)):
        found = baselines.plan(place)
        if isinstance(found, PrunedCell):
            driver.ledger.prune(baselines.number(place), found)
        else:
            driver.ledger.enter(found.record)
            _run_baseline(found.plan, driver)


def _run_baseline(cell: CellPlan, driver: "Driver") -> None:
    """Simulate the one trial of a baseline."""
    values, _ = driver.collect(driver.submit(cell, Trials.of(cell.first)))
    driver.count(cell, values, searched=False)


def _run_cell(cell: CellPlan, driver: "Driver") -> Best:
    """Search a cell, and look again at its best designs; the best ones."""
    standing = Standing(cell, driver.ledger)
    sampler, best = standing.sampler, standing.best
    driver.take_up(cell, standing)

    def settled() -> bool:
        return cell.is_settled(driver.progress.best.get(cell.cell.number))

    for trials, (batch,) in driver.batches(
        sampler,
        [cell],
        cell.budget,
        settled=settled,
        asked=standing.n_trials,
        ends=standing.ends,
    ):
        values, slopes = driver.collect(batch)
        if sampler.prefetch is not None:
            sampler.tell(trials, told(values), told(slopes))
        best.add(trials, values)
        driver.count(cell, values)
        standing.told(batch.places)
    standing.finish()
    _recheck(cell, best.designs(), driver)
    return best


def _recheck(cell: CellPlan, designs: list[Trial], driver: "Driver") -> None:
    """Look again at the best designs, and in each further fidelity at the best by the one before;
    trials are numbered on from the search's."""
    first, sign = cell.budget, cell.objective[0].sign
    for fidelity, top in cell.config.recheck.rungs:
        again = {"fidelity": fidelity.value}
        trials = [
            Trial(first + i, RECHECK, design.bandwidth, Setting({**design.parameters, **again}))
            for i, design in enumerate(designs[:top])
        ]
        values, _ = driver.collect(driver.submit(cell, Trials.of(trials)))
        driver.count(cell, values, searched=False)
        losses = np.nan_to_num(sign * values[:, 0], nan=np.inf)
        designs = [designs[i] for i in np.argsort(losses, kind="stable").tolist()]
        first += len(trials)


def _run_portfolio(plan: PortfolioPlan, own: "Sequence[Best]", driver: "Driver") -> dict[str, Any]:
    """Search the split for all workloads, each split simulated for all of them; each workload's
    own best, and the proven bound of the measure."""
    together = _together(plan, own)
    one = plan.cells[0]
    proven = together.proven(plan.models, one.space, one.prices) if plan.models else None
    sampler = plan.sampler(_first(plan, own, None if proven is None else proven.bandwidth))
    for trials, batches in driver.batches(sampler, plan.cells, one.budget, PORTFOLIO):
        found = [driver.collect(batch) for batch in batches]
        values = zip(*(told(values) for values, _ in found), strict=True)
        slopes = zip(*(told(slopes) for _, slopes in found), strict=True)
        weighed = [together.combine(*pair) for pair in zip(values, slopes, strict=True)]
        sampler.tell(trials, [value for value, _ in weighed], [slope for _, slope in weighed])
        for cell, (results, _) in zip(plan.cells, found, strict=True):
            driver.count(cell, results, searched=False)
    return {"own": tuple(together.own.tolist()), "bound": None if proven is None else proven.bound}


def _together(plan: PortfolioPlan, own: "Sequence[Best]") -> Together:
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


def _first(plan: PortfolioPlan, own: "Sequence[Best]", least: np.ndarray | None) -> list[Trial]:
    """Splits worth knowing: each workload's own best, where the bound is least, and those that do
    not depend on the workload."""
    one = plan.cells[0]
    found = [best.trial for best in own]
    if least is not None and one.space.split is not None:
        nearest = tuple(one.space.split.nearest(least).tolist())
        found.append(Trial(0, "bound", nearest, found[0].parameters))
    found += [trial for trial in one.first if trial.origin in ("equal", "middle", "known")]
    return [replace(trial, number=i) for i, trial in enumerate(found)]


class Driver:
    """Has trials simulated, writes them down, and keeps the progress."""

    def __init__(
        self,
        ledger: Ledger,
        executor: Executor,
        watch: Callable[[Progress], None],
        *,
        carries: bool = False,
    ) -> None:
        """``carries``: jobs take their cells along, since workers do not know them."""
        self.ledger, self.progress = ledger, Progress()
        self._executor, self._watch, self._carries = executor, watch, carries

    def batches(
        self,
        sampler: Sampler,
        cells: Sequence[CellPlan],
        budget: int,
        origin: str | None = None,
        settled: Callable[[], bool] = lambda: False,
        asked: int = 0,
        ends: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[Trials, list[_Batch]]]:
        """The batches of a search, and each as one of every cell, which are being simulated; the
        next ones are asked for when the caller has told the search of this one.

        With an ``origin`` they are not the cells' own trials, and come after these.  No more are
        asked for once it is ``settled``; so many were ``asked`` for before.  Before the first
        batch that the budget cuts short, or leaves out, it ``ends``.
        """
        size, gap = cells[0].config.search.batch, cells[0].config.budget.gap
        ahead: deque[tuple[Trials, list[_Batch]]] = deque()
        while ahead or (asked < budget and not settled()):
            # Where a gap ends the search, what was asked for by then depends on no worker.
            depth = sampler.prefetch or 2 + (gap is None) * self._executor.n_workers // _SHARE
            while len(ahead) < depth and not settled():
                wanted = sampler.batch or size
                if wanted > budget - asked:
                    ends()
                if asked == budget:
                    break
                trials = Trials.of(sampler.ask(min(wanted, budget - asked)))
                asked += len(trials)
                ahead.append((trials, [self.submit(c, _own(trials, c, origin)) for c in cells]))
            yield ahead.popleft()

    def show(self) -> None:
        """Let whoever watches see the progress."""
        self._watch(self.progress)

    def take_up(self, cell: CellPlan, standing: Standing) -> None:
        """Count the trials of a search that goes on."""
        self.progress.reused += standing.n_trials
        for places in in_pieces(standing.places):
            self.count(cell, self.ledger.known.values(places))
        self.progress.done += standing.n_trials - len(standing.places)

    def take_up_ended(self, places: Compact) -> None:
        """Count the rows of a search that an earlier run ended."""
        self.progress.reused += len(places)
        self.progress.done += len(places)
        for own in in_pieces(places):
            failed = np.isnan(self.ledger.known.values(own)).any(axis=1)
            self.progress.failed += int(failed.sum())

    def submit(self, cell: CellPlan, trials: Trials) -> _Batch:
        """Have simulated what neither the ledger nor a batch before this one knows."""
        batch, new, borrowed = self._submit(cell, trials)
        self.progress.reused += len(trials) - new
        self.progress.borrowed += borrowed
        if len(trials) and (origin := str(trials.origin[0])) in BESIDE:
            self.progress.beside[origin] += new - borrowed
        return batch

    def submit_beside(self, cell: CellPlan, trials: Trials) -> _Batch:
        """Likewise for trials that do not count."""
        return self._submit(cell, trials)[0]

    def _submit(self, cell: CellPlan, trials: Trials) -> tuple[_Batch, int, int]:
        """Have trials simulated; how many were not known, and how many of those others had."""
        keys, number = cell.content.keys(trials), cell.cell.number
        places, new = self.ledger.known.claim(keys, number)
        job = Job(number, trials, keys, cell.cell if self._carries else None)
        job = job.some(np.flatnonzero(new))
        borrowed = self.ledger.borrow(cell.cell, job.trials, job.keys)
        if borrowed.any():
            job = job.some(np.flatnonzero(~borrowed))
        self._executor.submit(job)
        return _Batch(trials, places), int(new.sum()), int(borrowed.sum())

    def collect(self, batch: _Batch) -> tuple[Floats, Floats]:
        """Write down what the executor delivers until the batch is complete; its values (N, K), NaN
        where a trial failed, and slopes (N, D), NaN where they are not known."""
        known, places = self.ledger.known, batch.places
        while not known.landed(places).all():
            outcome = self._executor.collect()
            if outcome is not None:
                for rows in outcome.rows.combine_chunks().to_batches():
                    self.ledger.append(rows)
                self.progress.engine_seconds += outcome.seconds
                self.progress.lost += len(outcome.lost)
            self.progress.workers = self._executor.n_workers
            self.progress.nodes = self._executor.n_nodes
            self._watch(self.progress)
        return known.values(places), known.slopes(places)

    def count(self, cell: CellPlan, values: Floats, *, searched: bool = True) -> None:
        """Add a batch's values to the progress; the best are those of the cell's own search."""
        complete = values[~np.isnan(values).any(axis=1)]
        self.progress.done += len(values)
        self.progress.failed += len(values) - len(complete)
        if searched and len(complete):
            self.progress.bound = cell.bound
            objective, number = cell.objective[0], cell.cell.number
            first = complete[np.argmin(objective.sign * complete[:, 0])]
            best = self.progress.best.get(number)
            if best is None or objective.is_better(first[0], best[0]):
                self.progress.best[number] = tuple(first.tolist())
        self._watch(self.progress)


def _own(trials: Trials, cell: CellPlan, origin: str | None) -> Trials:
    return trials if origin is None else trials.renamed(cell.budget, origin)


def told(rows: Floats) -> list[Values]:
    """Values or slopes as samplers are told them: without what is not known."""
    if not rows.shape[1]:
        return [None] * len(rows)
    known = ~np.isnan(rows)
    if known.all():
        return list(map(tuple, rows.tolist()))
    return [tuple(row[own].tolist()) or None for row, own in zip(rows, known, strict=True)]
