"""Searches among networks and plans of which something is down now and then: the same answer as by
simulating all of them, each with what that costs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dimsweep.engine import DimsweepError, InfeasibleError, Program
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.ledger.record import PrunedCell
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.simulation.outages import Outages
from dimsweep.sweeper.simulation.simulate import simulate
from tests.support.studies import run
from tests.sweeper.questions.networks.test_designs import STUDY, proof_of

ZCUBE = "{kind: zcube, n: 4, k: 2, bandwidth: 25 GB/s, latency: 1 us}"
TREE = "{kind: fat_tree, npus: 16, radix: 8, bandwidth: 50 GB/s, latency: 1 us}"
LINKS = "reliability.outages=[{link: '*', down: 2 %, draw: 1}]"


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., StudyPlan]:
    file = tmp_path / "which.yaml"
    file.write_text(STUDY)
    words = ("objective=effective_time", "reliability=llama3", "space.plan.zero=[0]")
    less = ("space.plan.tensor=[4]", "workload.model.layers=2", f"results={tmp_path}")
    return lambda *own: plan_study(compose([f"study={file}", *words, *less, *own]))


def designs_of(study: StudyPlan) -> Designs:
    assert isinstance(study.stream, Designs)
    return study.stream


@pytest.mark.long
def test_the_best_with_outages_is_that_of_all_simulated(plan: Callable[..., StudyPlan]) -> None:
    study = plan(LINKS, f"space.network.generators=[{ZCUBE}]", "what_if=default")
    designs, times, slower = designs_of(study), list[float](), list[float]()
    for number in range(len(designs)):
        found = designs.plan(number)
        assert not isinstance(found, PrunedCell)
        assert found.plan.bound is not None
        result = simulate(found.plan.config, found.program)
        times.append(result.merits["effective_time_s"])
        slower.append(times[-1] * result.merits["ettr"] / result.time - 1)
        assert found.plan.bound <= times[-1] * (1 + 1e-9)
    assert sum(each > 1e-3 for each in slower) > len(slower) / 2, "it costs something"
    run(study)
    proof = proof_of(study)
    assert proof.best == pytest.approx(min(times), rel=1e-12)
    assert proof.bound == proof.best
    assert proof.simulated < len(times)
    assert not proof.changes, "these would not count what is down"


def test_phases_tell_the_time_and_flows_how_much_longer_it_takes(
    plan: Callable[..., StudyPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = designs_of(plan(LINKS)).plan(0)
    assert not isinstance(found, PrunedCell)
    config = found.plan.config
    result = simulate(config, found.program)
    assert result.time == simulate(config.with_values({"reliability.outages": []})).time
    assert result.outages == simulate(config.with_values({"fidelity": "flow"})).outages
    own = Outages._time
    monkeypatch.setattr(Outages, "_time", lambda *args: 2 * own(*args))  # were flows as slow
    assert simulate(config, found.program).outages == result.outages


def test_what_a_network_has_not_is_not_down_there_but_one_has_it(
    plan: Callable[..., StudyPlan],
) -> None:
    switches = "reliability.outages=[{switch: switch d1 line *, down: 1 %}]"
    designs, kinds = designs_of(plan(switches)), dict[str, int]()
    for number in range(len(designs)):
        _, cell = designs.compose(number)
        if cell.config.topology.shape in kinds:
            continue
        found = designs.plan(number)
        assert not isinstance(found, PrunedCell)
        kinds[cell.config.topology.shape] = len(
            Outages.from_config(cell.config, found.program).kinds
        )
    assert {len_ for shape, len_ in kinds.items() if "Switch" in shape} == {1}
    assert {len_ for shape, len_ in kinds.items() if "Switch" not in shape} == {0}
    with pytest.raises(DimsweepError, match=r"reliability\.outages\[0\]\.switch"):
        plan("reliability.outages=[{switch: leef *, down: 1 %}]")


def test_networks_that_cannot_do_without_it_are_counted(plan: Callable[..., StudyPlan]) -> None:
    """Each NPU of a fat tree hangs on one cable, those of a ZCube on two."""
    words = LINKS, "space.network.tiers=[]"
    designs = designs_of(plan(*words, f"space.network.generators=[{TREE},{ZCUBE}]"))
    assert len(designs.cells.shapes) == 1
    assert designs.refused["networks cannot do without one of reliability.outages"] == 1
    with pytest.raises(InfeasibleError, match="1 networks cannot do without"):
        plan(*words, f"space.network.generators=[{TREE}]")


@pytest.mark.parametrize("words", [(LINKS,), (f"space.network.generators=[{ZCUBE}]",)])
def test_what_is_simulated_by_flows_has_no_library(
    plan: Callable[..., StudyPlan], words: tuple[str, ...]
) -> None:
    with pytest.raises(DimsweepError, match="nccl") as told:
        plan(*words, "collective=nccl")
    assert told.value.code == "unsupported"
    assert told.value.where.startswith("collective.library")


def test_what_sends_too_many_messages_is_left_out(plan: Callable[..., StudyPlan]) -> None:
    with pytest.raises(InfeasibleError, match=r"network\.max_messages: 8,064 messages"):
        plan(LINKS, "network.max_messages=1000")


def test_nothing_gains_by_what_is_down(
    plan: Callable[..., StudyPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = designs_of(plan(LINKS)).plan(0)
    assert not isinstance(found, PrunedCell)
    monkeypatch.setattr(Outages, "_without", lambda *_: 1)
    (one, *_) = _told(found.plan.config, found.program)
    assert one == 1.0


def _told(config: Config, program: Program) -> tuple[float, ...]:
    return tuple(v for each in simulate(config, program).outages for v in each.speeds)
