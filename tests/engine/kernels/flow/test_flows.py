"""The flow kernel: shares are max-min fair, and bytes take the time that they must."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.kernels.flow import FlowNetwork, fair_rates, simulate_flows
from dimsweep.engine.kernels.packet import Fabric, Flow, Port, simulate_packets
from tests.support.refused import refused

GBPS = 10**9
US = 10**6  # ps
SWITCHES = (100, 101)
N_HOSTS = 6


def dumbbell(trunk: int = 100 * GBPS, rates: tuple[int, ...] = (100 * GBPS,) * N_HOSTS) -> Fabric:
    """Hosts 0 to 2 at one switch, 3 to 5 at another, and a trunk between them."""
    ports = []
    for host, rate in enumerate(rates):
        switch = SWITCHES[host // 3]
        ports += [Port(host, switch, rate, US), Port(switch, host, rate, US, headroom=37_500)]
    ports += [Port(a, b, trunk, US, headroom=37_500) for a, b in (SWITCHES, SWITCHES[::-1])]
    return Fabric(ports, dict.fromkeys(SWITCHES, 32 << 20))


def across(source: int, target: int, size: int, **options: object) -> Flow:
    switches = [SWITCHES[source // 3], SWITCHES[target // 3]]
    way = (source, *dict.fromkeys(switches), target)
    return Flow(size, way, way[::-1], **options)  # type: ignore[arg-type]


def test_a_flow_alone_moves_at_its_slowest_link() -> None:
    run = simulate_flows(dumbbell(trunk=25 * GBPS), [across(0, 3, 10**6)])
    assert run.completion_times.tolist() == [10**6 * 8 * 10**12 // (25 * GBPS) + 3 * US]


def test_shares_rise_when_a_flow_has_gone() -> None:
    """Two flows share a port; the shorter one's share goes to the longer one."""
    run = simulate_flows(dumbbell(), [across(0, 2, 10**6), across(1, 2, 2 * 10**6)])
    alone = 10**6 * 8 * 10**12 // (100 * GBPS)
    assert run.completion_times.tolist() == [2 * alone + 2 * US, 3 * alone + 2 * US]


def test_who_is_held_back_elsewhere_leaves_its_share_to_others() -> None:
    """The textbook's case: a flow behind a narrow trunk takes less than half of a port."""
    flows = [across(0, 3, 1), across(1, 4, 1), across(2, 3, 1), across(5, 3, 1)]
    rates = fair_rates(dumbbell(trunk=30 * GBPS), flows)
    assert rates * 8 / GBPS == pytest.approx([10, 10, 10, 80])


def test_a_flow_waits_for_those_it_names() -> None:
    flows = [across(0, 1, 5000), across(1, 2, 5000, after=(0,), start=7 * US), across(2, 0, 100)]
    run = simulate_flows(dumbbell(), flows)
    assert run.starts.tolist() == [0, run.ends[0] + 7 * US, 0]


def test_an_incast_takes_as_long_as_packets_take_but_for_their_headers() -> None:
    flows = [across(source, 2, 10**6) for source in (0, 1, 3, 4, 5)]
    by_flow = simulate_flows(dumbbell(), flows).completion_times.max()
    by_packet = simulate_packets(dumbbell(), flows).completion_times.max()
    assert by_flow < by_packet < by_flow * 1.08


hosts = st.integers(0, N_HOSTS - 1)
pairs = st.lists(
    st.tuples(hosts, hosts, st.integers(1, 10**7), st.integers(0, 100 * US)).filter(
        lambda drawn: drawn[0] != drawn[1]
    ),
    min_size=1,
    max_size=20,
)
speeds = st.sampled_from([10 * GBPS, 25 * GBPS, 100 * GBPS])


@given(pairs, speeds, st.tuples(*[speeds] * N_HOSTS))
def test_every_flow_has_a_full_link_on_which_no_other_is_faster(
    drawn: list[tuple[int, int, int, int]], trunk: int, rates: tuple[int, ...]
) -> None:
    """Which is what max-min fair means (Bertsekas and Gallager, 6.5.2)."""
    fabric = dumbbell(trunk, rates)
    flows = [across(source, target, size) for source, target, size, _ in drawn]
    found = fair_rates(fabric, flows)
    on = {(p.node, p.to): [i for i, f in enumerate(flows) if _uses(f, p)] for p in fabric.ports}
    full = {
        (port.node, port.to)
        for port in fabric.ports
        if math.isclose(sum(found[on[port.node, port.to]]) * 8, port.rate, rel_tol=1e-9)
    }
    for port in fabric.ports:
        assert sum(found[on[port.node, port.to]]) * 8 <= port.rate * (1 + 1e-9)
    for i in range(len(flows)):
        assert any(
            i in on[link] and found[i] >= found[on[link]].max() * (1 - 1e-9) for link in full
        )


def _uses(flow: Flow, port: Port) -> bool:
    return (port.node, port.to) in set(zip(flow.way, flow.way[1:], strict=False))


@given(pairs, speeds)
def test_no_flow_is_faster_than_alone_and_no_link_carries_more_than_it_can(
    drawn: list[tuple[int, int, int, int]], trunk: int
) -> None:
    fabric = dumbbell(trunk)
    flows = [across(source, target, size, start=start) for source, target, size, start in drawn]
    run = simulate_flows(fabric, flows)
    for flow, took in zip(flows, run.completion_times.tolist(), strict=True):
        alone = simulate_flows(fabric, [flow._replace(start=0)]).completion_times[0]
        assert took >= alone - 1
    for port in fabric.ports:
        used = [i for i, flow in enumerate(flows) if _uses(flow, port)]
        if used:
            carried = sum(flows[i].size for i in used) * 8 * 10**12 / port.rate
            assert carried <= run.ends[used].max() - run.starts[used].min()


def test_flows_that_are_added_while_it_runs_change_nothing() -> None:
    """Each is added when what it waits for has arrived, instead of all before the beginning."""
    first = [across(i, 4, 30_000 * (i + 1)) for i in range(4)]
    later = [across(4, i, 50_000, after=(i,), start=US) for i in range(4)]
    known = simulate_flows(dumbbell(), first + later)
    network = FlowNetwork(dumbbell())
    network.add(first)
    assert network.advance(until=US).arrived.tolist() == []
    numbers = {}
    while len((done := network.advance()).arrived):
        for flow in done.arrived.tolist():
            if flow < 4:
                (numbers[flow],) = network.add([later[flow]._replace(after=())], done.time)
    found = network.account()
    order = [0, 1, 2, 3, *(numbers[i] for i in range(4))]
    assert found.starts[order].tolist() == known.starts.tolist()
    assert found.ends[order].tolist() == known.ends.tolist()


def test_flows_that_wait_for_each_other_are_named() -> None:
    flows = [across(0, 1, 10, after=(1,)), across(1, 0, 10, after=(0,))]
    with refused("flows", "stalled", "(0, 1)"):
        simulate_flows(dumbbell(), flows)
    with refused("flow 0", "mismatch", "100 - 3"):
        simulate_flows(dumbbell(), [Flow(1, (0, 100, 3), (3, 100, 0))])
    assert np.all(simulate_flows(dumbbell(), [across(0, 1, 1)]).ends > 0)
