"""The packet kernel's own rules: what a person can work out by hand, and what must always hold."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.errors import Code, DimsweepError
from dimsweep.engine.kernels.packet import (
    Fabric,
    Flow,
    History,
    Marking,
    PacketNetwork,
    PacketRun,
    Port,
    Settings,
    Stop,
    simulate_packets,
    tables,
)
from dimsweep.engine.kernels.packet.transports import TRANSPORTS
from tests.support.examples import examples
from tests.support.refused import refused

GBPS = 10**9
US = 10**6  # ticks: picoseconds
SWITCH = 100
SETTINGS = Settings()


def star(n: int, rate: int = 100 * GBPS, delay: int = US, buffer: int = 32 << 20) -> Fabric:
    """``n`` hosts around one switch."""
    marking = Marking(400_000, 1_600_000, 0.2)
    ports = []
    for host in range(n):
        ports += [
            Port(host, SWITCH, rate, delay),
            Port(SWITCH, host, rate, delay, marking, headroom=3 * rate * delay // 8 // 10**12),
        ]
    return Fabric(ports, {SWITCH: buffer})


def across(source: int, target: int, size: int, **options: object) -> Flow:
    way = (source, SWITCH, target)
    return Flow(size, way, way[::-1], **options)  # type: ignore[arg-type]


def to_send(n_bytes: int, rate: int = 100 * GBPS) -> int:
    return (16 * n_bytes * 10**12 + rate) // (2 * rate)


@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 65_536, 1_000_000])
def test_a_flow_alone_takes_what_its_packets_take_one_after_another(size: int) -> None:
    run = simulate_packets(star(2), [across(0, 1, size)])
    n = math.ceil(size / 1000)
    data = [1000 + SETTINGS.data_header] * (n - 1) + [size - 1000 * (n - 1) + SETTINGS.data_header]
    arrived = [0] * n
    for sizes in (data, data, [SETTINGS.ack_size] * n, [SETTINGS.ack_size] * n):
        free = 0  # the link sends one packet after another, each when it has come and it is free
        for i, n_bytes in enumerate(sizes):
            free = max(free, arrived[i]) + to_send(n_bytes)
            arrived[i] = free + US
    assert run.completion_times.tolist() == [arrived[-1]]


def test_a_host_passes_on_what_is_not_for_it_before_its_own() -> None:
    """0 - 1 - 2 without a switch: what comes from 0 goes on at once, 1 sends what is between."""
    ports = [Port(*ends, 100 * GBPS, US) for ends in ((0, 1), (1, 0), (1, 2), (2, 1))]
    fabric, tx = Fabric(ports, {}), to_send(1000 + SETTINGS.data_header)
    far, near = Flow(10_000, (0, 1, 2), (2, 1, 0)), Flow(10_000, (1, 2), (2, 1))
    alone = simulate_packets(fabric, [far])
    assert alone.arrivals.tolist() == [11 * tx + 2 * US]
    assert alone.ends.tolist() == [11 * tx + 4 * US + 2 * to_send(SETTINGS.ack_size)]
    both = simulate_packets(fabric, [far, near._replace(start=US + tx)])
    # A packet of its own was on the wire, or none, when each of the other's came.
    assert both.arrivals[0] <= alone.arrivals[0] + 10 * tx
    assert both.arrivals[1] == US + tx + 20 * tx + US


def test_an_incast_leaves_no_gap_at_the_receivers_port() -> None:
    n, size = 8, 1_000_000
    run = simulate_packets(star(n + 1), [across(i, n, size) for i in range(n)])
    tx = to_send(1000 + SETTINGS.data_header)
    back = 2 * (to_send(SETTINGS.ack_size) + US)
    assert run.completion_times.max() == n * 1000 * tx + tx + 2 * US + back


def test_a_window_holds_the_queue_down() -> None:
    def queue(window: int | None) -> int:
        run = simulate_packets(star(9), [across(i, 8, 1_000_000, window=window) for i in range(8)])
        return max(port.longest_queue for port in run.ports)

    assert queue(50_000) < 9 * 50_000 < queue(None)


def test_a_flow_waits_for_those_it_names() -> None:
    flows = [across(0, 1, 5000), across(1, 2, 5000, after=(0,), start=7 * US), across(2, 0, 100)]
    run = simulate_packets(star(3), flows)
    assert run.starts.tolist() == [0, run.arrivals[0] + 7 * US, 0]
    settings = Settings(after_arrival=False)
    run = simulate_packets(star(3), flows, settings)
    assert run.starts.tolist() == [0, run.ends[0] + 7 * US, 0]


def test_small_buffers_pause_the_senders_and_lose_nothing() -> None:
    flows = [across(i, 8, 500_000) for i in range(8)]
    run = simulate_packets(star(9, buffer=1 << 20), flows)
    assert run.pauses > 0
    assert sum(port.resumes for port in run.ports) == run.pauses
    assert sum(port.dropped for port in run.ports) == 0
    assert max(port.longest_queue for port in run.ports) <= 1 << 20


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_transport_finishes_an_incast_and_repeats_itself(transport: str) -> None:
    flows = [across(i, 8, 300_000, window=60_000, round_trip=5 * US) for i in range(8)]
    settings = Settings(transport=transport)
    one, other = (simulate_packets(star(9), flows, settings, seed=3) for _ in range(2))
    assert one.ends.tolist() == other.ends.tolist()
    assert one.completion_times.min() > 0


def test_marks_slow_dcqcn_down_but_not_a_sender_that_does_not_listen() -> None:
    flows = [across(i, 8, 2_000_000) for i in range(8)]

    def slowest(transport: str) -> int:
        run = simulate_packets(star(9), flows, Settings(transport=transport))
        return int(run.completion_times.max())

    assert slowest("dcqcn") > 1.5 * slowest("static")


def test_swift_keeps_the_queue_at_its_target() -> None:
    """Sixteen windows of 100 kB queue for 120 us; Swift's target is 20 us and some."""

    def probe(transport: str) -> float:
        """How long a packet takes that is sent long after the first round trip, in us."""
        flows = [across(i, 16, 3_000_000, window=100_000, round_trip=5 * US) for i in range(16)]
        late = across(17, 16, 1000, start=1000 * US, window=100_000, round_trip=5 * US)
        run = simulate_packets(star(18), [*flows, late], Settings(transport=transport))
        return run.completion_times[-1] / US

    assert 20 < probe("swift") < 40
    assert probe("static") > 100


def test_swift_shares_a_port_evenly_in_time() -> None:
    flows = [across(i, 4, 5_000_000, window=100_000, round_trip=5 * US) for i in range(4)]
    run = simulate_packets(star(5), flows, Settings(transport="swift"))
    ideal = 4 * 5000 * to_send(1000 + SETTINGS.data_header)
    assert ideal < run.completion_times.max() < 1.15 * ideal
    assert run.completion_times.min() > 0.8 * run.completion_times.max()


@pytest.mark.parametrize("transport", ["hpcc", "swift"])
def test_a_transport_without_its_window_is_refused(transport: str) -> None:
    with refused("flow 0", "out-of-range", transport):
        simulate_packets(star(2), [across(0, 1, 10)], Settings(transport=transport))


def test_tables_that_grow_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    flows = [across(i, 8, 400_000, round_trip=5 * US, window=10**6) for i in range(8)]
    settings = Settings(transport="hpcc")
    roomy = simulate_packets(star(9), flows, settings)
    monkeypatch.setattr(tables, "_FIRST_PACKETS", 100)
    tight = simulate_packets(star(9), flows, settings)
    assert tight.ends.tolist() == roomy.ends.tolist()


@pytest.mark.parametrize("payload", [1000, 280_000])
def test_most_events_lie_in_the_buckets_of_the_agenda(payload: int) -> None:
    """They last for a packet of any size, and are no wider than that takes or a nanosecond."""
    settings, fabric = Settings(payload=payload), star(4)
    run = tables.new_run(fabric, settings, TRANSPORTS["static"](), np.zeros)
    last = len(run.agenda.buckets) << int(run.agenda.counts["shift"][0])
    assert to_send(payload) + US <= last <= max(4 * (to_send(payload) + US), 2**13 * 1000)


def test_spraying_uses_all_ways_where_a_hash_would_use_one() -> None:
    """Two flows between two leaves and over two spines: on one spine they collide."""
    rate = 100 * GBPS
    links = [(0, 10), (1, 10), (2, 11), (3, 11), (10, 20), (10, 21), (11, 20), (11, 21)]
    ports = [
        Port(a, b, rate, US, headroom=37_500 if a >= 10 else 0)
        for link in links
        for a, b in (link, link[::-1])
    ]
    fabric = Fabric(ports, dict.fromkeys((10, 11, 20, 21), 32 << 20))

    def ways(source: int, target: int, spine: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        way = (source, 10, spine, 11, target)
        return way, way[::-1]

    def slowest(*, spray: bool) -> int:
        flows = [
            Flow(10**6, *ways(i, i + 2, 20), sprayed=(ways(i, i + 2, 21),) if spray else ())
            for i in (0, 1)
        ]
        return int(simulate_packets(fabric, flows).completion_times.max())

    alone = 1000 * to_send(1000 + SETTINGS.data_header)
    assert slowest(spray=False) > 2 * alone
    assert alone < slowest(spray=True) < 1.1 * alone


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.integers(1, 4),
            st.integers(1, 60_000),
            st.integers(0, 3 * US),
            st.sampled_from([None, 4000, 20_000]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([400_000, 32 << 20]),
    st.sampled_from(list(TRANSPORTS)),
)
def test_every_byte_arrives_once_and_no_link_exceeds_its_rate(
    drawn: list[tuple[int, int, int, int, int | None]], buffer: int, transport: str
) -> None:
    flows = [
        across(source, (source + step) % 5, size, start=start, window=window or 30_000)._replace(
            round_trip=5 * US
        )
        for source, step, size, start, window in drawn
    ]
    run = simulate_packets(star(5, buffer=buffer), flows, Settings(transport=transport))
    for host in range(5):
        arriving = [flow for flow in flows if flow.way[-1] == host]
        packets = sum(math.ceil(flow.size / 1000) for flow in arriving)
        expected = sum(flow.size for flow in arriving) + packets * SETTINGS.data_header
        port = _port(run, SWITCH, host)
        assert (port.data, port.data_bytes) == (packets, expected)
        assert port.dropped == 0
        assert to_send(expected) <= run.ends.max()


def _port(run: PacketRun, node: int, to: int):  # type: ignore[no-untyped-def]
    return next(port for port in run.ports if (port.node, port.to) == (node, to))


def test_a_watched_port_is_noted_at_every_change() -> None:
    """Every packet comes and goes; a host's port only sends, and obeys pause frames."""
    flows = [across(i, 4, 400_000) for i in range(4)]
    fabric = star(5, buffer=350_000)
    marking = Marking(10_000, 40_000, 0.2)
    fabric = fabric._replace(ports=[port._replace(marking=marking) for port in fabric.ports])
    run = simulate_packets(fabric, flows, watch=[(SWITCH, 4), (0, SWITCH)])
    port, history = _port(run, SWITCH, 4), run.histories[SWITCH, 4]
    assert history.queue.max() == port.longest_queue and history.queue[-1] == 0
    assert np.all(np.diff(history.times) >= 0)
    assert len(history.times) == 2 * port.data == 2 * 1600
    assert history.marked[-1] == port.marked > 0
    assert history.sent[-1] == port.data_bytes
    sender, paused = _port(run, 0, SWITCH), run.histories[0, SWITCH]
    assert paused.sent[-1] == 400 * (1000 + SETTINGS.data_header) and not paused.queue.any()
    turns = np.diff(paused.paused, prepend=0)
    assert np.count_nonzero(turns == 1) == sender.pauses > 0
    assert (paused.times[turns == -1] - paused.times[turns == 1]).sum() == sender.paused
    with refused("watch", "unknown-name", "4 - 3"):
        simulate_packets(star(5), flows, watch=[(4, 3)])


@pytest.mark.parametrize("resume_below", [0, 3072, 6000])
def test_who_was_paused_resumes_as_far_below_the_threshold_as_the_settings_say(
    resume_below: int,
) -> None:
    """One host sends ten times as fast as the other receives, so all that waits came by one port.
    The share of S bytes for the x beyond its reserve is (S - x) / 8: x = (S - 8 below) / 9."""
    headroom, buffer = 3 * 100 * GBPS * US // 8 // 10**12, 200_000
    slow = {0: 100 * GBPS, 1: 10 * GBPS}
    ports = [
        Port(*ends, rate, US, headroom=headroom)
        for host, rate in slow.items()
        for ends in ((host, SWITCH), (SWITCH, host))
    ]
    settings = SETTINGS._replace(resume_below=resume_below)
    ways = [(SWITCH, 1), (0, SWITCH)]
    fabric = Fabric(ports, {SWITCH: buffer})
    run = simulate_packets(fabric, [across(0, 1, 300_000)], settings, watch=ways)
    waits, sender = (run.histories[way] for way in ways)
    shared = buffer - 2 * (headroom + SETTINGS.reserve)
    most = SETTINGS.reserve + (shared - 8 * resume_below) / 9
    packet, ack = 1000 + SETTINGS.data_header, to_send(SETTINGS.ack_size)
    heard = sender.times[np.diff(sender.paused, prepend=0) == -1]
    assert len(heard) > 3
    # It is told when a packet begins to leave, and hears of it a frame, perhaps an ACK, and the
    # delay of the link later.
    told = heard - US - to_send(SETTINGS.frame_size)
    left = waits.queue[np.searchsorted(waits.times, told, side="right") - 1]
    assert (most - packet < left).all() and (left <= most).all()
    gone = told - waits.times[np.searchsorted(waits.times, told, side="right") - 1]
    assert gone.max() <= ack


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=20), st.integers(1, 12))
@examples(30)
def test_a_history_by_intervals_is_that_of_all_its_instants(
    changes: list[tuple[int, int]], step: int
) -> None:
    times, queue = np.array(sorted(time for time, _ in changes)), [n for _, n in changes]
    sent = np.cumsum(queue)
    history = History(times, np.array(queue, np.int32), sent, sent, np.zeros(len(queue), np.int32))
    edges = np.arange(0, 36, step)

    def at(tick: float) -> tuple[int, int]:
        n = np.count_nonzero(times <= tick)
        return (queue[n - 1], sent[n - 1]) if n else (0, 0)

    assert history.sent_by(edges).tolist() == [at(edge)[1] for edge in edges]
    for first, end, longest in zip(edges, edges[1:], history.longest_queues(edges), strict=False):
        # Several changes at one tick all count, but those at its first tick before the last one.
        within = [n for time, n in zip(times, queue, strict=True) if first < time < end]
        assert longest == max([at(first)[0], *within])


def test_a_tree_of_pauses_has_its_root_where_packets_wait() -> None:
    """Hosts 0 to 5 send over two switches to host 9, whose port is why all of them pause."""
    rate = 100 * GBPS
    links = [(i, 20) for i in range(6)] + [(20, 21), (9, 21)]
    ports = [
        Port(a, b, 4 * rate if {a, b} == {20, 21} else rate, US, headroom=37_500 * 4)
        for link in links
        for a, b in (link, link[::-1])
    ]
    fabric = Fabric(ports, {20: 2 << 20, 21: 1 << 20})
    way = [(i, 20, 21, 9) for i in range(6)]
    run = simulate_packets(fabric, [Flow(10**6, one, one[::-1]) for one in way])
    told = {pausing.port: pausing for pausing in run.pausings}
    assert told[20, 21].root == (21, 9)
    assert (told[0, 20].queue, told[0, 20].root) == ((20, 21), (21, 9))
    assert len(run.pausings) == run.pauses


_CIRCLE = (
    r"flows: 6 flows never end .*: the ports (1\d - 1\d, ){2}1\d - 1\d are paused .* a deadlock"
)


def test_a_circle_of_full_buffers_is_found_and_named() -> None:
    """Three switches in a ring, each host's flow two switches on: the classic deadlock."""
    rate, delay, buffer = 100 * GBPS, US, 250_000
    ports = []
    for i in range(3):
        for a, b in ((i, 10 + i), (10 + i, 10 + (i + 1) % 3)):
            for end in ((a, b), (b, a)):
                ports.append(Port(*end, rate, delay, headroom=37_500 if end[0] >= 10 else 0))
    flows = []
    for i in range(3):
        way = (i, 10 + i, 10 + (i + 1) % 3, 10 + (i + 2) % 3, (i + 2) % 3)
        # The ACKs go the other way round the ring, so that they wait for no data.
        flows += [Flow(4_000_000, way, way[::-1])] * 2
    with pytest.raises(DimsweepError, match=_CIRCLE):
        simulate_packets(Fabric(ports, dict.fromkeys((10, 11, 12), buffer)), flows)


@pytest.mark.parametrize(
    ("fabric", "flow", "where", "code", "names"),
    [
        (star(2)._replace(ports=star(2).ports[:3]), across(0, 1, 1), "", "missing", []),
        (
            star(2)._replace(ports=star(2).ports * 2),
            across(0, 1, 1),
            "link 0 - 100",
            "duplicate",
            [],
        ),
        (star(2, buffer=10_000), across(0, 1, 1), "switch 100", "out-of-range", ["10000"]),
        (star(2), across(0, 1, 0), "flow 0", "out-of-range", []),
        (star(2), across(0, 5, 10), "flow 0", "mismatch", ["100 - 5"]),
        (star(2), across(0, 1, 10, after=(3,)), "flow 0", "unknown-name", ["flow 3"]),
        (star(2), across(0, 1, 10, window=0), "flow 0", "out-of-range", ["0 bytes"]),
        (star(2, rate=0), across(0, 1, 10), "link 0 - 100", "out-of-range", ["rate=0"]),
        (star(2), Flow(10, (0, SWITCH, 1), (0, SWITCH, 1)), "flow 0", "mismatch", ["ACKs"]),
        (star(2), Flow(10, (0,), (0,)), "flow 0", "mismatch", ["(0,)"]),
        (star(2), Flow(10, (0, SWITCH), (SWITCH, 0)), "flow 0", "mismatch", ["ends", "100"]),
        (star(2), Flow(10, (SWITCH, 0), (0, SWITCH)), "flow 0", "mismatch", ["begins", "100"]),
        (star(2), across(0, 1, 10, window=1 << 40), "flow 0", "out-of-range", ["window"]),
        (star(2), across(0, 1, 1 << 63), "size", "out-of-range", []),
    ],
)
def test_wrong_input_is_named(
    fabric: Fabric, flow: Flow, where: str, code: Code, names: list[str]
) -> None:
    with refused(where, code, *names):
        simulate_packets(fabric, [flow])


def test_a_payload_that_cannot_be_timed_is_refused() -> None:
    with refused("payload", "out-of-range", "300000"):
        simulate_packets(star(2), [across(0, 1, 10)], Settings(payload=300_000))


def test_flows_that_are_added_while_it_runs_change_nothing() -> None:
    """Each is added when what it waits for has arrived, instead of all before the beginning."""
    first = [across(i, 4, 30_000 * (i + 1)) for i in range(4)]
    later = [across(4, i, 50_000, after=(i,), start=US) for i in range(4)]
    known = simulate_packets(star(5), first + later)
    network = PacketNetwork(star(5))
    network.add(first)
    numbers = {}
    while len((done := network.advance()).arrived):
        for flow in done.arrived.tolist():
            if flow not in numbers.values() and flow < 4:
                (numbers[flow],) = network.add([later[flow]._replace(after=())], done.time)
    found = network.account()
    order = [0, 1, 2, 3, *(numbers[i] for i in range(4))]
    for name in ("starts", "arrivals", "ends"):
        assert getattr(found, name)[order].tolist() == getattr(known, name).tolist()


def test_a_run_stops_where_it_is_told() -> None:
    network = PacketNetwork(star(3))
    network.add([across(0, 1, 5000), across(0, 1, 1000, start=50 * US)])
    alone = simulate_packets(star(3), [across(0, 1, 5000)])
    assert network.advance(US).arrived.tolist() == []
    assert network.now == US
    arrived = network.advance()
    assert (arrived.time, arrived.arrived.tolist()) == (alone.arrivals[0], [0])
    known = network.advance(stop=Stop.ACKNOWLEDGED)
    assert (known.time, known.acknowledged.tolist()) == (alone.ends[0], [0])
    with refused("at", "out-of-range", "tick 5"):
        network.add([across(0, 1, 1)], at=5)
    network.add([across(1, 2, 100, after=(0,))], at=network.now)
    rest = [network.advance(), network.advance(), network.advance()]
    assert [done.arrived.tolist() for done in rest] == [[2], [1], []]
    assert network.account().starts[2] == known.time


def test_a_departure_is_known_when_the_last_packet_is_put_on_the_link() -> None:
    """It is told once, at the tick at which that packet begins, for the one at which it ends."""
    network = PacketNetwork(star(3))
    network.add([across(0, 1, 5000), across(0, 2, 1000, start=50 * US)])
    packet = to_send(1048)
    for flow, departure in enumerate((5 * packet, 50 * US + packet)):
        leaves = network.advance(stop=Stop.DEPARTURE)
        assert (leaves.time, leaves.arrived.tolist()) == (departure - packet, [])
        assert (leaves.departing.tolist(), leaves.departures.tolist()) == ([flow], [departure])
        there = network.advance(stop=Stop.DEPARTURE)
        assert (there.arrived.tolist(), there.departing.tolist()) == ([flow], [])
        assert there.time == departure + packet + 2 * US


def test_marking_thresholds_are_checked() -> None:
    ports = [port._replace(marking=Marking(2, 1, 0.5)) for port in star(2).ports]
    with refused("link 0 - 100", "out-of-range", "KMIN"):
        simulate_packets(star(2)._replace(ports=ports), [across(0, 1, 10)])


def test_flows_that_wait_for_each_other_are_named() -> None:
    flows = [across(0, 1, 10, after=(1,)), across(1, 0, 10, after=(0,))]
    with refused("flows", "stalled", "(0, 1)"):
        simulate_packets(star(2), flows)
    assert np.all(simulate_packets(star(2), [flows[0]._replace(after=())]).ends > 0)
