"""Networks and plans, searched by bounds: the same answer as by simulating every one of them."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dimsweep import load
from dimsweep.engine import DimsweepError, run_batch
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.record import Proof, PrunedCell, read_study
from dimsweep.sweeper.questions.findings import read_report
from dimsweep.sweeper.questions.networks import findings as proof_module
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.networks.findings import sentence
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.run.loop import Progress, StudyPlan
from tests.support.refused import refused
from tests.support.studies import Workers, run

STUDY = """
defaults:
  - override /workload: gpt3_13b
  - override /topology: dgx_h100
  - override /npu: h100
  - override /cost: dgx_h100
  - override /collective: whole
  - _self_
workload:
  model: {hidden: 1024, layers: 4, heads: 16, sequence: 512}
  plan: {batch: 32}
objective: time
what_if: null
space:
  network:
    npus: 16
    tiers:
      - {blocks: [FullyConnected], sizes: [2, 4], bandwidth: [200 GB/s], price: package}
      - {blocks: [Ring, Switch], sizes: [4, 8], bandwidth: [12.5 GB/s, 50 GB/s], price: pod}
  plan: {tensor: [1, 4], pipeline: [1, 2], zero: [0, 1]}
"""


@pytest.fixture
def which(tmp_path: Path) -> Callable[..., StudyPlan]:
    """Plans a small study, under more overrides."""
    file = tmp_path / "which.yaml"
    file.write_text(STUDY)

    def plan(*words: str, results: str = "results") -> StudyPlan:
        return plan_study(compose([f"study={file}", *words, f"results={tmp_path / results}"]))

    return plan


def test_plans_are_compared_for_one_batch(which: Callable[..., StudyPlan]) -> None:
    with refused("workload.plan.batch", "missing", "micro_batches"):
        which("workload.plan={batch: null, micro_batches: 4}")


def test_limits_that_no_network_is_within_are_told_with_the_least(
    which: Callable[..., StudyPlan],
) -> None:
    with pytest.raises(DimsweepError, match="cost more than there is") as told:
        which("space.network.cost=1 USD")
    least = re.search(r"(\S+) k USD", told.value.hint)
    assert least is not None
    assert which(f"space.network.cost={float(least[1]) * 1.001} k USD").cells


def test_who_asks_for_time_under_interruptions_says_how_many(
    which: Callable[..., StudyPlan],
) -> None:
    with pytest.raises(DimsweepError, match="effective_time is not known") as told:
        which("objective=effective_time")
    assert "reliability=" in told.value.hint


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["objective=cost_per_token", "cost.lifetime=null"], "cost.lifetime"),
        (["objective=perf_per_cost", "space.network.tiers.1.price=lan"], "prices: cost.tiers"),
        (["objective=energy", "space.network.tiers.1.price=lan"], "watts: cost.power"),
    ],
)
def test_what_an_objective_lacks_is_named(
    which: Callable[..., StudyPlan], words: list[str], hint: str
) -> None:
    with pytest.raises(DimsweepError, match="is not known") as told:
        which(*words)
    assert told.value.hint.startswith(hint)


def proof_of(plan: StudyPlan) -> Proof:
    found = read_study(plan.folder).proof
    assert found is not None
    return found


@pytest.fixture(scope="module")
def levels() -> dict[int, tuple[float, float]]:
    """Seconds of all cells, by number: the bound of the program, and the simulation; known when
    the first test has simulated them."""
    return {}


def simulate_all(designs: Designs) -> dict[int, tuple[float, float]]:
    found = {}
    for number in range(len(designs)):
        cell = designs.plan(number)
        assert not isinstance(cell, PrunedCell)
        assert cell.plan.bound is not None
        program = cell.program
        simulated = float(run_batch(program, program.bandwidth[None]).time[0]) / 1e12
        found[number] = cell.plan.bound, simulated
    return found


OFTEN = ("reliability=rsc1", "reliability.npu_time=2 day")


@pytest.mark.parametrize(
    "words",
    [
        ["objective=time"],
        pytest.param(["objective=perf_per_cost"], marks=pytest.mark.long),
        pytest.param(["objective=cost_per_token"], marks=pytest.mark.long),
        pytest.param(["objective=effective_time", *OFTEN], marks=pytest.mark.long),
        ["objective=cost_per_token", *OFTEN],
    ],
    ids=" ".join,
)
def test_the_best_is_that_of_all_cells_simulated(
    which: Callable[..., StudyPlan], levels: dict[int, tuple[float, float]], words: list[str]
) -> None:
    plan = which(*words)
    designs, own = plan.stream, plan.cells[0].objective[0]
    assert isinstance(designs, Designs)
    assert 60 <= len(designs) <= 100
    levels.update(levels or simulate_all(which(results="all").stream))
    values = []
    for i, first in enumerate(designs.cells.first[:-1].tolist()):
        bounds, loads = designs.bounds(i), designs.cells.bound_loads(i)
        assert (designs.floors[i] <= bounds * (1 + 1e-12)).all()
        assert (designs.cells.compute_seconds[i] <= loads * (1 + 1e-12)).all()
        for m, least in enumerate(loads.tolist()):
            bound, simulated = levels[first + m]
            assert least <= bound * (1 + 1e-12) <= simulated * (1 + 1e-9)
            values.append(own.loss(simulated * float(bounds[m]) / least))
    run(plan)
    proof = proof_of(plan)
    best = min(values, key=lambda value: own.sign * value)
    assert proof.best == pytest.approx(best, rel=1e-12)
    assert proof.bound == proof.best
    assert proof.cells == len(values) == sum(proof.excluded) + proof.simulated
    assert proof.simulated < len(values) / 3


def test_one_program_bounds_all_networks_of_a_shape(which: Callable[..., StudyPlan]) -> None:
    designs = which("objective=perf_per_cost").stream
    assert isinstance(designs, Designs)
    own = designs.same_program_cells(len(designs) // 2)
    assert len(own) == 2
    bounds = designs.program_bounds(own[1])
    assert (bounds == designs.program_bounds(own[0])).all()
    for number, bound in zip(own, bounds.tolist(), strict=True):
        assert designs.cells.locate(number)[:2] == designs.cells.locate(own[0])[:2]
        found = designs.plan(number)
        assert not isinstance(found, PrunedCell)
        assert found.plan.bound is not None
        exact = found.plan.objective[0].loss(found.plan.bound)
        assert exact * (1 - 0.01) <= bound <= exact * (1 + 1e-9)


@pytest.mark.long
def test_a_stopped_search_goes_on_to_the_same_rows_and_proof(
    which: Callable[..., StudyPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = which(results="whole")
    run(whole)
    looked_at, plan_of, programs_of = list[int](), Designs.plan, Designs.program_bounds

    def noted(self: Designs, number: int) -> object:
        looked_at.append(number)
        return plan_of(self, number)

    def bounded(self: Designs, number: int) -> object:
        looked_at.append(-1 - number)
        return programs_of(self, number)

    def watch(progress: Progress) -> None:
        if progress.done >= 3:
            raise KeyboardInterrupt

    part = which(results="part")
    with pytest.raises(KeyboardInterrupt):
        run(part, watch=watch)
    monkeypatch.setattr(Designs, "plan", noted)
    monkeypatch.setattr(Designs, "program_bounds", bounded)
    again = which(results="part")
    looked_at.clear()
    run(again)
    assert load(again.folder).equals(load(whole.folder))
    assert proof_of(again) == proof_of(whole)
    assert len(looked_at) == len(set(looked_at)) < proof_of(whole).bounded
    looked_at.clear()
    assert run(again).done == proof_of(whole).simulated
    assert proof_of(again) == proof_of(whole)
    assert not looked_at, "what is closed is not looked at again"


def test_four_workers_give_the_same_rows_and_proof(which: Callable[..., StudyPlan]) -> None:
    """As one does, where several batches are simulated, each in any order."""
    words = ["objective=[time, cost]", "space.plan.pipeline=[1]"]
    whole, shared = which(*words, results="1"), which(*words, results="4")
    run(whole)
    run(shared, Workers(shared, 4))
    assert len(load(whole.folder)) > 8
    assert load(shared.folder).equals(load(whole.folder))
    assert proof_of(shared) == proof_of(whole)


def test_a_budget_leaves_a_gap_that_is_told(which: Callable[..., StudyPlan]) -> None:
    plan = which("budget.trials=1", "objective=perf_per_cost")
    run(plan)
    proof, record = proof_of(plan), read_study(plan.folder)
    assert proof.simulated == 1
    assert proof.best is not None
    assert proof.bound is not None
    assert proof.best < proof.bound, "performance per cost is to be large"
    assert sentence(record).startswith("Within ")
    report = read_report(plan.folder)
    (sure,) = [each for each in answers(report) if "search" in each.question]
    assert sure.short.startswith("Within ")
    assert f"of the best of all {proof.cells} networks x plans: 1 was simulated" in report.proof


@pytest.mark.long
def test_no_design_lies_below_the_front_of_time_and_cost(
    which: Callable[..., StudyPlan], levels: dict[int, tuple[float, float]]
) -> None:
    plan = which("objective=[time, cost]")
    designs = plan.stream
    assert isinstance(designs, Designs)
    levels.update(levels or simulate_all(which(results="all").stream))
    costs = designs.costs
    times = np.array([levels[number][1] for number in range(len(designs))])
    run(plan)
    proof = proof_of(plan)
    assert len(proof.front) > 3
    assert proof.simulated < len(times) / 2
    assert proof.cells == sum(proof.excluded) + proof.simulated
    for one, other in zip(proof.front, proof.front[1:], strict=False):
        assert one.cost > other.cost
        assert one.time < other.time
    for step in proof.front:
        least = times[costs <= step.cost * (1 + 1e-9)].min()
        assert step.time == pytest.approx(least, rel=1e-9)
        assert step.bound == pytest.approx(least, rel=1e-9)
    # What costs less than the cheapest step by more than the front's fineness is not there.
    assert costs.min() > proof.front[-1].cost / 1.002
    report = read_report(plan.folder)
    assert "No design is faster" in report.proof
    told = f"in {len(proof.front)} steps"
    assert told in answers(report)[0].rest
    assert not report.ties


@pytest.mark.long
def test_a_gap_makes_a_front_of_fewer_steps_below_which_no_design_lies(
    which: Callable[..., StudyPlan], levels: dict[int, tuple[float, float]]
) -> None:
    words = "objective=[time, cost]", "space.plan.zero=[1]"
    plan, exact = which(*words, "budget.gap=0.1"), which(*words, results="exact")
    designs = plan.stream
    assert isinstance(designs, Designs)
    times = np.array([simulated for _, simulated in simulate_all(designs).values()])
    run(plan)
    run(exact)
    proof = proof_of(plan)
    assert 1 < len(proof.front) < len(proof_of(exact).front)
    most = np.inf
    for step in proof.front:
        assert step.bound <= times[designs.costs <= most].min() * (1 + 1e-9)
        assert step.time <= step.bound * 1.1 * (1 + 1e-9)
        assert np.isclose(times[np.isclose(designs.costs, step.cost)], step.time).any()
        most = step.cost / 1.002


def test_what_is_as_good_in_practice_is_a_tie(which: Callable[..., StudyPlan]) -> None:
    plan = which("objective=perf_per_cost")
    run(plan)
    report = read_report(plan.folder)
    values = sorted((cell.best["perf_per_cost"] for cell in report.found), reverse=True)
    n = sum(values[0] / value - 1 <= 0.01 for value in values[1:])
    told = f"{n} other simulated designs are" if n > 1 else "1 other simulated design is"
    assert report.ties.startswith(told) if n else not report.ties
    one = proof_module.ties(report.study.objectives[0], [report.ordered[0]] * 3)
    assert one.startswith("2 other simulated designs are within 1% of it, the next one 0% behind")
    assert one.endswith("no measured run covers such networks")


@pytest.mark.long
def test_a_gap_ends_the_search_sooner(which: Callable[..., StudyPlan]) -> None:
    exact, near = which(results="exact"), which("budget.gap=0.5", results="near")
    run(exact)
    run(near)
    one, other = proof_of(exact), proof_of(near)
    assert other.bounded <= one.bounded
    assert one.best is not None
    assert other.best is not None
    assert other.bound is not None
    assert one.best <= other.best <= other.bound * 1.5


@pytest.mark.parametrize(
    ("word", "where"),
    [
        ("+grid={collective.chunks: [1, 2]}", "grid"),
        ("space.bandwidth.total=200 GB/s", "space.bandwidth"),
        ("fidelity=message", "fidelity"),
        ("objective=[cost, time]", "objective"),
        ("objective=accuracy", "objective"),
        ("space.network=null", "space.plan"),
        ("space.network.npus=17", "space.network"),
        ("space.plan.tensor=[3]", "space.plan"),
        ("workload.plan.weight_streaming=true", "workload.plan.weight_streaming"),
    ],
)
def test_what_bounds_do_not_know_is_refused(
    which: Callable[..., StudyPlan], word: str, where: str
) -> None:
    with pytest.raises(DimsweepError) as error:
        which(word)
    assert error.value.where.split(" ")[0] == where


def test_what_is_alike_counts_once_and_what_cannot_be_is_told(
    which: Callable[..., StudyPlan],
) -> None:
    designs = which().stream
    assert isinstance(designs, Designs)
    designs.bounds(0)
    found = set()
    for number in range(len(designs)):
        row, place, network, _ = designs.cells.locate(number)
        groups = tuple(sorted((axis, g.sizes, g.strides) for axis, g in place.groups.items()))
        found.add((row.plan, groups, place.shape, network))
    assert len(found) == len(designs)
    costs = sorted(cost for shape in designs.cells.shapes for cost in shape.cost.tolist())
    limit = costs[len(costs) // 2]
    fewer = which(f"space.network.cost={limit} USD", results="fewer").stream
    assert isinstance(fewer, Designs)
    dear = sum(cost > limit for cost in costs)
    assert fewer.refused == {**designs.refused, "networks cost more than there is": dear}
    assert len(fewer) < len(designs)
    room = which("npu.memory=1.4 GB", "npu.headroom=0.5", results="room").stream
    small = which("npu.memory=0.7 GB", results="small").stream
    assert isinstance(room, Designs)
    assert room.refused == small.refused, "half of the memory is left free"
    assert isinstance(small, Designs)
    assert small.refused["plans do not fit the memory"] > 0
    assert len(small.cells.rows) < len(designs.cells.rows)


def test_networks_that_draw_too_much_are_counted(which: Callable[..., StudyPlan]) -> None:
    designs = which().stream
    assert isinstance(designs, Designs)
    cost, power = (
        np.concatenate([getattr(shape, name) for shape in designs.cells.shapes])
        for name in ("cost", "power")
    )
    most, dearest = np.sort(power)[4], np.sort(cost)[-2]
    limits = f"space.network.power={most} W", f"space.network.cost={dearest} USD"
    fewer = which(*limits, results="fewer").stream
    assert isinstance(fewer, Designs)
    found = np.concatenate([shape.power for shape in fewer.cells.shapes])
    kept = (power <= most) & (cost <= dearest)
    assert sorted(found) == sorted(power[kept])
    assert fewer.refused["networks cost more than there is"] == (cost > dearest).sum() == 1
    assert fewer.refused["networks draw more than there is"] == len(cost) - kept.sum() - 1 > 0
    with pytest.raises(DimsweepError) as error:
        which(limits[0], "cost.power.tiers.pod.link=null")
    assert error.value.code == "missing"
    assert error.value.where.startswith("space.network.power")


@pytest.mark.parametrize(
    ("npus", "tiers", "place"),
    [
        ("2048000000", 1, "space.network.npus"),
        ("{at_least: 1, at_most: 1000000000000}", 1, "space.network.npus.at_most"),
        ("{at_least: 1, at_most: 10000000}", 2, "space.network.tiers"),
        ("7207200", 8, "space.network.tiers"),
    ],
)
def test_spaces_too_large_to_be_listed_are_refused(
    npus: str, tiers: int, place: str, which: Callable[..., StudyPlan]
) -> None:
    tier = "{blocks: [Switch, Ring], bandwidth: [1 GB/s, 2 GB/s], price: pod}"
    listed = ", ".join([tier] * tiers)
    with pytest.raises(DimsweepError) as told:
        which(f"space.network={{npus: {npus}, tiers: [{listed}]}}")
    assert told.value.where.partition(" ")[0] == place
