"""Running a study: every cell's search, then its portfolios and what-ifs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.record import WORKLOAD, PrunedCell
from dimsweep.sweeper.ledger.rows import PORTFOLIO, RECHECK
from dimsweep.sweeper.questions.baseline import Baselines
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.networks.search import search_designs
from dimsweep.sweeper.questions.plan import PortfolioPlan, StudyPlan
from dimsweep.sweeper.questions.portfolio.designs import SharedDesigns
from dimsweep.sweeper.questions.portfolio.portfolio import Together
from dimsweep.sweeper.questions.portfolio.search import search_shared
from dimsweep.sweeper.questions.split.grid import Grid
from dimsweep.sweeper.questions.what_ifs import simulate_what_ifs
from dimsweep.sweeper.run.best import Best
from dimsweep.sweeper.run.driver import Driver, Progress, told
from dimsweep.sweeper.run.executor import Executor
from dimsweep.sweeper.run.session import working
from dimsweep.sweeper.run.standing import Standing, ended
from dimsweep.sweeper.space.setting import Setting
from dimsweep.sweeper.space.trials import Trial, Trials
from dimsweep.sweeper.study.cell import CellPlan


def run_in(
    ledger: Ledger,
    plan: StudyPlan,
    watch: Callable[[Progress], None],
    tell: Callable[[str], None],
) -> Progress:
    """Run ``plan``, or continue it, with its rows in ``ledger``, and return its progress.

    ``watch`` sees the progress, and ``tell`` is given messages about the workers, who are released
    whatever ends the run.
    """
    with working(ledger, plan.config, plan.simulated, plan.schema, watch, tell) as (executor, seen):
        return run_sweep(plan, ledger, executor, seen)


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


def _run_stream(grid: Grid, driver: Driver) -> None:
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


def _stream_baselines(baselines: Baselines, driver: Driver) -> None:
    """Plan and simulate the baseline of a large grid in each combination of its scenarios."""
    for place in range(len(baselines)):
        found = baselines.plan(place)
        if isinstance(found, PrunedCell):
            driver.ledger.prune(baselines.number(place), found)
        else:
            driver.ledger.enter(found.record)
            _run_baseline(found.plan, driver)


def _run_baseline(cell: CellPlan, driver: Driver) -> None:
    """Simulate the one trial of a baseline."""
    values, _ = driver.collect(driver.submit(cell, Trials.of(cell.first)))
    driver.count(cell, values, searched=False)


def _run_cell(cell: CellPlan, driver: Driver) -> Best:
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


def _recheck(cell: CellPlan, designs: list[Trial], driver: Driver) -> None:
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


def _run_portfolio(plan: PortfolioPlan, own: Sequence[Best], driver: Driver) -> dict[str, Any]:
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


def _together(plan: PortfolioPlan, own: Sequence[Best]) -> Together:
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


def _first(plan: PortfolioPlan, own: Sequence[Best], least: np.ndarray | None) -> list[Trial]:
    """Splits worth knowing: each workload's own best, where the bound is least, and those that do
    not depend on the workload."""
    one = plan.cells[0]
    found = [best.trial for best in own]
    if least is not None and one.space.split is not None:
        nearest = tuple(one.space.split.nearest(least).tolist())
        found.append(Trial(0, "bound", nearest, found[0].parameters))
    found += [trial for trial in one.first if trial.origin in ("equal", "middle", "known")]
    return [replace(trial, number=i) for i, trial in enumerate(found)]
