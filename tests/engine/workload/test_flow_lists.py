"""Lists of flows as a workload: they share their sender's links, and start when they are due."""

import pytest

from dimsweep.engine import (
    Cluster,
    NetworkModel,
    PacketModel,
    Result,
    Topology,
    simulate,
)
from dimsweep.engine.errors import Code
from dimsweep.engine.kernels.messages import lower_by_rank
from dimsweep.engine.kernels.reference import run_on_simpy
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.workload import ListedFlow, flows_workload
from tests.support.refused import refused

US, MB = 10**6, 10**6  # ps, bytes
SIZES = (4,)
ON = Cluster(
    Topology.build("Switch(4)", bandwidth=[12.5e9], latency=[US]),
    network=NetworkModel(packets=PacketModel(transport="static", payload=1000)),
)


def run(fidelity: str, *flows: ListedFlow) -> Result:
    return simulate(flows_workload(flows, SIZES, "flows"), ON, fidelity=fidelity)


def times(result: Result) -> list[float]:
    """The completion times of all flows in us, the shortest first."""
    (of_all,) = result.completion_times.values()
    return [round(each * 1e6, 3) for each in of_all.tolist()]


def test_flows_of_a_host_share_its_link() -> None:
    """1 MB takes 80 us alone; two share the link for 160 us; 2 us of latency pass."""
    result = run("flow", ListedFlow(0, 1, MB), ListedFlow(0, 2, MB))
    assert times(result) == [162, 162]


def test_flows_start_when_they_are_due() -> None:
    """0.1 MB at 40 us has half of the link for 16 us: the first one ends 8 us late."""
    result = run("flow", ListedFlow(0, 1, MB), ListedFlow(0, 2, MB // 10, 40 * US))
    assert times(result) == [18, 90]
    assert result.time_ps == 90 * US


def test_a_flow_may_start_after_another_one() -> None:
    """0 -> 1, then 1 -> 2 when that has arrived, then another of 1 when that has left."""
    chain = ListedFlow(0, 1, MB), ListedFlow(1, 2, MB, after=(0,)), ListedFlow(1, 3, MB, after=(1,))
    result = run("flow", *chain)
    assert times(result) == [82, 82, 82]
    assert result.time_ps == 3 * 82 * US


def test_packets_of_two_flows_take_turns() -> None:
    """1,000 packets of 1,048 bytes each take 83.84 us alone, and twice as long beside another."""
    short, long = times(run("packet", ListedFlow(0, 1, MB), ListedFlow(0, 2, MB)))
    assert long == pytest.approx(2 * 83.84 + 0.08384 + 2, abs=0.2)
    assert short == pytest.approx(long, abs=0.2)


@pytest.mark.parametrize("fidelity", [Fidelity.FLOW, Fidelity.PACKET])
def test_both_kernels_of_messages_agree(fidelity: Fidelity) -> None:
    flows = [
        ListedFlow(i % 4, (i + 1 + i % 3) % 4, 20_000 + 7_000 * (i % 5), (i % 3) * 3 * US)
        for i in range(24)
    ]
    flows.append(ListedFlow(flows[0].target, flows[0].source, 5_000, after=(0,)))
    workload = flows_workload(flows, SIZES, "flows")
    run = simulate(workload, ON, fidelity=fidelity)
    witness = run_on_simpy(lower_by_rank(workload, ON, fidelity), fidelity)
    assert run.time_ps == witness.measures.time[0]
    assert witness.traffic is not None and run.traffic is not None
    assert sorted(run.traffic.completion_times) == sorted(witness.traffic.completion_times)


@pytest.mark.parametrize(
    ("flow", "code", "named"),
    [
        (ListedFlow(0, 4, MB, where="f: line 3"), "out-of-range", "host 4"),
        (ListedFlow(3, 2, MB, after=(0,), where="f: line 3"), "conflict", "host 3"),
        (ListedFlow(1, 2, MB, after=(1,), where="f: line 3"), "invalid", "1"),
    ],
)
def test_bad_flows_are_refused_with_their_line(flow: ListedFlow, code: Code, named: str) -> None:
    with refused("f: line 3", code, named):
        flows_workload([ListedFlow(0, 1, MB), flow], SIZES, "flows")
