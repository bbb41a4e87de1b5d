"""One network for several workloads, searched by bounds: as by simulating every plan on each."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from dimsweep import load
from dimsweep.engine import DimsweepError, run_batch
from dimsweep.sweeper.api.results import Results
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.draw.design import design_of_answer
from dimsweep.sweeper.draw.found import draw_found
from dimsweep.sweeper.draw.terminal import print_report
from dimsweep.sweeper.ledger.record import PortfolioRecord, PrunedCell, read_study
from dimsweep.sweeper.questions.findings import read_report, tabulate_study
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.questions.portfolio.networks import SharedDesigns
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.run.loop import Progress, StudyPlan
from dimsweep.sweeper.run.reproduce import reproduce
from tests.support.studies import Workers, run
from tests.sweeper.questions.networks.test_designs import STUDY, proof_of

# NPUs are cheap, so that networks of few ports suit one model, and of more the other one.
TEXT = STUDY.replace("plan: {batch: 32}", "plan: {batch: 32, interleave: 1}")
TEXT = TEXT.replace("tensor: [1, 4]", "tensor: [1, 4], expert: [1, 4]").replace("[0, 1]", "[0]")
TEXT += """
cost: {npu: 600 USD}
portfolio:
  workloads: {gpt3_13b: 2, mixtral_8x22b: 1}
"""
Plan = Callable[..., StudyPlan]


@pytest.fixture
def shared(tmp_path: Path) -> Plan:
    """Plans a small study of two workloads, under more overrides."""
    file = tmp_path / "shared.yaml"
    file.write_text(TEXT)

    def plan(*words: str, results: str = "results") -> StudyPlan:
        return plan_study(compose([f"study={file}", *words, f"results={tmp_path / results}"]))

    return plan


def found_in(plan: StudyPlan) -> PortfolioRecord:
    (found,) = read_study(plan.folder).portfolios
    return found


@pytest.fixture(scope="module")
def seconds() -> dict[int, float]:
    """The simulated seconds of all cells, once the first test has simulated them."""
    return {}


def losses_of(shared: SharedDesigns, seconds: dict[int, float]) -> np.ndarray:
    """The least loss of each workload on each network (N, K), of all plans simulated."""
    losses = np.full((shared.n_networks, len(shared.designs)), np.inf)
    for k, designs in enumerate(shared.designs):
        for number in range(len(designs)):
            at = designs.part.first + number
            if at not in seconds:
                cell = designs.plan(number)
                assert not isinstance(cell, PrunedCell)
                time = run_batch(cell.program, cell.program.bandwidth[None]).time[0]
                seconds[at] = float(time) / 1e12
            row = designs.cells.locate(number).row
            factor = designs.loss_factors(row)[designs.cells.locate(number).number]
            (network,) = designs.networks(range(number, number + 1))
            losses[network, k] = min(losses[network, k], seconds[at] * factor)
    return losses


@pytest.mark.long
@pytest.mark.parametrize(
    ("objective", "measure"),
    [
        ("time", "worst_regret"),
        ("perf_per_cost", "worst_regret"),
        ("cost_per_token", "weighted_time"),
        ("perf_per_watt", "cvar"),
    ],
)
def test_it_is_the_best_of_all_plans_on_all_networks(
    shared: Plan, seconds: dict[int, float], objective: str, measure: str
) -> None:
    plan = shared(f"objective={objective}", f"portfolio.measure={measure}", "portfolio.level=0.5")
    assert isinstance(plan.stream, SharedDesigns)
    losses = losses_of(plan.stream, seconds)
    run(plan)
    proof, found = proof_of(plan), found_in(plan)
    own = losses.min(axis=0)
    assert found.own == pytest.approx(own, rel=1e-9)
    means = plan.stream.weighing.mean(losses / (1 if measure == "weighted_time" else own))
    assert proof.best == pytest.approx(means.min(), rel=1e-9)
    assert proof.bound == pytest.approx(means.min(), rel=1e-9)
    assert proof.cells == len(seconds) == sum(proof.excluded) + proof.simulated
    assert proof.simulated < len(seconds) / 3
    # Each has its best plan there, and on the networks that are best for one of them alone.
    report = read_report(plan.folder)
    (one,) = report.portfolios
    assert all(sheet.rows for sheet in tabulate_study(report))
    assert np.isclose(one.losses[-1], losses, rtol=1e-9).all(axis=1).any()
    for k, row in enumerate(one.losses[:-1]):
        assert row[k] == pytest.approx(own[k], rel=1e-9)
        assert np.isclose(row, losses, rtol=1e-9).all(axis=1).any()


@pytest.mark.long
def test_what_generators_make_is_bought_for_all(shared: Plan) -> None:
    plan = shared("space.network.generators=[{kind: zcube, n: 4, k: 2, bandwidth: 900 GB/s}]")
    run(plan)
    (one,) = read_report(plan.folder).portfolios
    assert one.split == "zcube(bandwidth 900 GB/s, n 4)"


@pytest.mark.long
def test_networks_that_cost_too_much_are_bought_for_none(shared: Plan) -> None:
    free = shared().stream
    assert isinstance(free, SharedDesigns)
    costs = np.concatenate([shape.cost for shape in free.designs[0].part.shapes])
    limit = float(np.sort(costs)[3])
    plan = shared(f"space.network.cost={limit} USD", "objective=time", results="limited")
    assert isinstance(plan.stream, SharedDesigns)
    assert plan.stream.n_networks == 4
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert rows["cost_usd"].max() <= limit
    assert proof_of(plan).refused["networks cost more than there is"] == len(costs) - 4


@pytest.mark.long
def test_a_stopped_search_goes_on_to_the_same_rows_and_proof(shared: Plan) -> None:
    words = "objective=perf_per_cost", "budget.gap=0.02"
    whole, part = shared(*words, results="whole"), shared(*words, results="part")
    run(whole)
    n = len(load(whole.folder))
    for stop in (2, n // 2, n - 1):

        def watch(progress: Progress, stop: int = stop) -> None:
            if progress.done >= stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(part, watch=watch)
    assert not read_study(part.folder).portfolios
    run(part)
    assert load(part.folder).equals(load(whole.folder))
    assert proof_of(part) == proof_of(whole)
    assert found_in(part) == found_in(whole)
    assert run(part).engine_seconds == 0


@pytest.mark.long
def test_four_workers_give_the_same_rows_and_proof(shared: Plan) -> None:
    whole, other = shared(results="1"), shared(results="4")
    run(whole)
    run(other, Workers(other, 4))
    assert load(other.folder).equals(load(whole.folder))
    assert proof_of(other) == proof_of(whole)
    assert found_in(other) == found_in(whole)


def test_a_budget_leaves_a_gap_that_is_told(shared: Plan) -> None:
    plan = shared("budget.trials=1", "objective=cost_per_token")
    run(plan)
    proof = proof_of(plan)
    assert proof.best is not None
    assert proof.bound is not None
    assert proof.bound < proof.best
    told = read_report(plan.folder).proof
    assert told.startswith("Within ")
    assert f"of the best of all {proof.cells} networks x plans of 2 workloads" in told


@pytest.mark.long
def test_its_report_tells_the_network_each_plan_and_what_is_lost(shared: Plan) -> None:
    plan = shared("objective=perf_per_cost", "what_if={twice: {cost.npu: x2}}")
    assert run(plan).what_ifs == 2
    results = Results(plan.folder)
    report = results.report
    (one,) = report.portfolios
    assert f"One network of 16 NPUs for 2 workloads, {one.split}: worst loss" in report.headline
    assert "(proven: no network has less than" in report.headline
    build, search, *_ = answers(report)
    assert build.short == one.split
    assert all(f"{name} (" in build.rest for name in one.names)
    assert "behind its own best network" in build.rest
    assert search.short.startswith("The best of all")
    assert [cell.cell.cell for cell, _ in report.chosen] == list(found_in(plan).cells)
    design = design_of_answer(report)
    assert design is not None
    assert design.name == "one network for all, with the plan of gpt3_13b"
    assert draw_found(report)
    text = io.StringIO()
    print_report(report, Console(file=text, width=160))
    for told in ("One network for all: ", "network alone", "What a workload loses on a network"):
        assert told in text.getvalue()
    assert "The best of the simulated designs" not in text.getvalue(), (
        "those of one workload do not beat others'"
    )
    assert set(results.what_if["design"]) == {"shared"}
    assert reproduce(plan.folder).differ == {}
    results.write_page()


@pytest.mark.long
@pytest.mark.parametrize(
    ("word", "where", "told"),
    [
        ("portfolio.workloads={nope: 1}", "portfolio.workloads.nope", "unknown workload 'nope'"),
        ("portfolio.workloads={gpt3_13b: -1}", "portfolio.workloads.gpt3_13b", "zero or more"),
        (
            "portfolio.workloads={gpt3_13b: 0, mixtral_8x22b: 0}",
            "portfolio.workloads",
            "all weights are zero",
        ),
        (
            "workload.plan={batch: null, micro_batches: 4}",
            "workload.plan.batch",
            "gpt3_13b: with micro_batches",
        ),
        ("objective=[time, cost]", "objective", "does not support"),
        ("objective=cost", "objective", "cost"),
        ("recheck.top=1", "recheck.top", "cannot be rechecked"),
        ("npu.memory=0.1 GB", "space.plan", "gpt3_13b: no plan is possible"),
        ("+grid={collective.chunks: [1, 2]}", "grid", "does not support"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(
    shared: Plan, word: str, where: str, told: str
) -> None:
    with pytest.raises(DimsweepError, match=told) as error:
        shared(word)
    assert error.value.where.split(" ")[0] == where
