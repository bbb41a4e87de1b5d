"""What is said of phases and messages is what random plans show, and each kind has its bounds."""

import pytest

from benchmarks.between import compared
from dimsweep.engine.rules import SEEN, PlanKind
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.study.rules import fidelity_warnings

STAGES = (
    *("workload=gpt3_13b", "workload.parallel.tensor=2", "workload.parallel.pipeline=2"),
    *("workload.plan.batch=16", "topology.tiers=[]", "topology.bandwidth=[50 GB/s]"),
    *("topology.latency=500 ns", "workload.model.layers=8"),
)
SWITCH, RING = "topology.shape=Switch(8)", "topology.shape=Ring(8)"


@pytest.mark.long
def test_plans_are_no_further_apart_than_is_said() -> None:
    seen = dict.fromkeys(SEEN, 0)
    for number in range(0, 400, 20):
        found = compared(number)
        if found is None:
            continue
        kind, ratio = found
        assert kind is not None
        seen[kind] += 1
        assert SEEN[kind].least <= ratio <= SEEN[kind].most, number
    assert min(seen.values()) > 0, "all kinds are among them"


def told(*overrides: str, searched: bool = False) -> list[str]:
    config = compose(overrides).config
    return fidelity_warnings(config, build_program(config), searched=searched)


def test_a_plan_that_may_be_longer_in_messages_is_told_by_how_much() -> None:
    (on_ring,), (on_switch,) = told(*STAGES, RING), told(*STAGES, SWITCH)
    seen = SEEN[PlanKind(stages=True, shares=True)]
    assert on_ring.startswith("messages between stages, on parts of dimensions whose NPUs share")
    assert f"for {seen.plans - seen.equal} of {seen.plans} random plans" in on_ring
    assert f"{seen.least:+.1%} to {seen.most:+.1%}" in on_ring
    assert "fidelity=message simulates" in on_ring
    assert on_switch.startswith("messages between stages: ")
    (searched,) = told(*STAGES, RING, searched=True)
    assert "recheck.top=3 simulates" in searched


@pytest.mark.parametrize(
    "overrides",
    [
        (*STAGES, RING, "fidelity=message"),
        (*STAGES, RING, "recheck.top=1"),
        (*STAGES, RING, "collective.subgroup_bandwidth=full"),
        (*STAGES, RING, "network.fabric=mesh"),
        (*STAGES, SWITCH, "workload.parallel.pipeline=1"),
    ],
)
def test_nothing_is_said_where_nothing_was_compared_or_all_is_equal(
    overrides: tuple[str, ...],
) -> None:
    assert told(*overrides) == []
