"""Priorities: several queues a port, each with its own reserve, headroom and pauses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.kernels.flow import simulate_flows
from dimsweep.engine.kernels.packet import Fabric, Flow, PacketRun, Port, Settings, simulate_packets
from tests.support.refused import refused

GBPS = 10**9
US = 10**6  # ticks: picoseconds
LEFT, RIGHT = 100, 101
SETTINGS = Settings()
TWO = Settings(priorities=2)
FULL = (16 * (1000 + SETTINGS.data_header) * 10**12 + 100 * GBPS) // (200 * GBPS)  # ticks a packet
HEADROOM = 37_500
PORTS = 5  # of each switch

Drawn = tuple[int, int, int, int]
flows_of = st.lists(
    st.tuples(st.integers(0, 7), st.integers(1, 7), st.integers(1, 60_000), st.integers(0, 3 * US)),
    min_size=1,
    max_size=10,
)


def dumbbell(buffer: int = 32 << 20) -> Fabric:
    """Hosts 0 to 3 at one switch, 4 to 7 at another, and one link between them."""
    links = [(host, LEFT if host < 4 else RIGHT) for host in range(8)] + [(LEFT, RIGHT)]
    ports = [
        Port(a, b, 100 * GBPS, US, headroom=HEADROOM if a >= LEFT else 0)
        for link in links
        for a, b in (link, link[::-1])
    ]
    return Fabric(ports, {LEFT: buffer, RIGHT: buffer})


def between(source: int, target: int, size: int, start: int = 0, priority: int = 0) -> Flow:
    sides = [LEFT if host < 4 else RIGHT for host in (source, target)]
    way = (source, *dict.fromkeys(sides), target)
    return Flow(size, way, way[::-1], start, priority=priority)


def drawn_flows(drawn: list[Drawn], priority: int = 0) -> list[Flow]:
    return [
        between(source, (source + step) % 8, size, start, priority)
        for source, step, size, start in drawn
    ]


def outcome(run: PacketRun) -> tuple[object, ...]:
    return run.ends.tolist(), run.arrivals.tolist(), run.ports, run.pausings, run.timeouts.tolist()


@given(flows_of, st.integers(0, 2), st.sampled_from([240_000, 32 << 20]))
def test_of_several_priorities_one_alone_is_as_if_there_were_no_others(
    drawn: list[Drawn], priority: int, buffer: int
) -> None:
    """The reserves and headroom of the two others come on top of the buffer."""
    one = simulate_packets(dumbbell(buffer), drawn_flows(drawn), SETTINGS)
    others = 2 * PORTS * (HEADROOM + SETTINGS.reserve)
    flows, settings = drawn_flows(drawn, priority), SETTINGS._replace(priorities=3)
    assert outcome(simulate_packets(dumbbell(buffer + others), flows, settings)) == outcome(one)


@given(flows_of, st.tuples(st.integers(0, 7), st.integers(1, 7), st.integers(1, 200_000)))
def test_lower_priorities_delay_a_flow_by_a_packet_a_hop_at_most(
    drawn: list[Drawn], high: tuple[int, int, int]
) -> None:
    source, step, size = high
    flow = between(source, (source + step) % 8, size, US, priority=1)
    alone = simulate_packets(dumbbell(), [flow], TWO)
    among = simulate_packets(dumbbell(), [*drawn_flows(drawn), flow], TWO)
    hops = len(flow.way) - 1
    assert alone.arrivals[0] <= among.arrivals[-1] <= alone.arrivals[0] + hops * FULL


@given(flows_of, st.lists(st.integers(0, 1), min_size=10, max_size=10), st.sampled_from([-1, 0, 1]))
def test_every_byte_arrives_once_whatever_its_priority(
    drawn: list[Drawn], priorities: list[int], ack_priority: int
) -> None:
    flows = [
        flow._replace(priority=priority)
        for flow, priority in zip(drawn_flows(drawn), priorities, strict=False)
    ]
    settings = TWO._replace(ack_priority=ack_priority)
    run = simulate_packets(dumbbell(450_000), flows, settings)
    packets = [-(-flow.size // SETTINGS.payload) for flow in flows]
    for port in run.ports:
        over = [n for n, flow in zip(packets, flows, strict=True) if _passes(flow, port[:2])]
        assert port.data == (sum(over) if port.node >= LEFT else 0)
        assert port.dropped == 0
    assert (run.ends > run.arrivals).all()
    assert run.pauses == sum(port.resumes for port in run.ports)


def _passes(flow: Flow, hop: tuple[int, ...]) -> bool:
    return any(flow.way[i : i + 2] == hop for i in range(len(flow.way) - 1))


def test_a_priority_that_is_paused_holds_up_no_other() -> None:
    """Three hosts' flows to host 4 are paused; host 0's to host 5 is held up only among them."""
    fabric = dumbbell(600_000)
    incast = [between(host, 4, 2_000_000) for host in range(3)]
    victim = between(0, 5, 100_000, 100 * US)
    alone = simulate_packets(fabric, [victim], TWO)
    for priority in (0, 1):
        run = simulate_packets(fabric, [*incast, victim._replace(priority=priority)], TWO)
        assert run.pauses > 0
        late = run.arrivals[-1] - alone.arrivals[0]
        assert late <= 3 * FULL if priority else late > 50 * FULL


def test_what_is_watched_is_all_that_waits_for_the_link() -> None:
    """The two queues together, and the pauses of either."""
    flows = [between(i, 4, 500_000, priority=i % 2) for i in range(4)]
    run = simulate_packets(dumbbell(450_000), flows, TWO, watch=[(LEFT, RIGHT), (0, LEFT)])
    port = next(port for port in run.ports if (port.node, port.to) == (LEFT, RIGHT))
    queue, sent = run.histories[LEFT, RIGHT].queue, run.histories[LEFT, RIGHT].sent
    assert port.longest_queue < queue.max() <= 2 * port.longest_queue
    assert (queue[-1], sent[-1]) == (0, port.data_bytes)
    assert set(run.histories[0, LEFT].paused.tolist()) == {0, 1}


def test_acks_of_a_higher_priority_do_not_wait_behind_data() -> None:
    """Host 0 sends to 4, and 4 to 0: with all in one queue ACKs wait for data at the switches."""
    both = [between(0, 4, 500_000), between(4, 0, 500_000), between(5, 0, 500_000)]
    ends = [
        simulate_packets(dumbbell(), both, TWO._replace(ack_priority=priority)).ends[0]
        for priority in (-1, 0, 1)
    ]
    assert ends[0] == ends[1] > ends[2]


@pytest.mark.parametrize(
    ("settings", "priority", "where", "names"),
    [
        (SETTINGS, 1, "flow 0", ["priority", "1"]),
        (TWO, -1, "flow 0", ["priority", "2"]),
        (Settings(priorities=9), 0, "priorities", ["9"]),
        (Settings(priorities=0), 0, "priorities", ["0"]),
        (Settings(priorities=2, ack_priority=2), 0, "ack_priority", ["2 of 2"]),
        (Settings(priorities=8), 0, "switch 100", ["500000"]),
    ],
)
def test_priorities_that_there_are_not_are_refused(
    settings: Settings, priority: int, where: str, names: list[str]
) -> None:
    with refused(where, "out-of-range", *names):
        simulate_packets(dumbbell(500_000), [between(0, 4, 1, priority=priority)], settings)


def test_fair_shares_know_no_priorities() -> None:
    with refused("flow 0", "out-of-range", "priority"):
        simulate_flows(dumbbell(), [between(0, 4, 1, priority=1)])
