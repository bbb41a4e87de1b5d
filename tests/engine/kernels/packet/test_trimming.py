"""Switches that trim, delivery without order, entropy values, and NSCC's window."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.errors import Code
from dimsweep.engine.kernels.packet import (
    Fabric,
    Flow,
    Marking,
    PacketNetwork,
    PacketRun,
    Port,
    Settings,
    Stop,
    simulate_packets,
)
from dimsweep.engine.kernels.packet.rud import Balance
from dimsweep.engine.kernels.packet.transports import Nscc, Rud
from tests.support.examples import examples
from tests.support.refused import refused

GBPS = 10**9
US = 10**6  # ticks: picoseconds
LEFT, RIGHT, BETWEEN = 100, 101, (102, 103, 104, 105)
RATE, PAYLOAD, HEADER = 100 * GBPS, 4000, 64
FULL = 8 * (PAYLOAD + HEADER) * 10**12 // RATE  # ticks that a packet takes
ACK = 8 * HEADER * 10**12 // RATE
SLOW = (BETWEEN[0], RIGHT)


def fabric(hosts: int, room: int = 80_000, slow: float = 1.0) -> Fabric:
    """The last host is behind a switch of its own, and four others lead there; the link from the
    first of those has a part of the rate."""
    last = hosts - 1
    links = [(host, LEFT) for host in range(last)] + [(last, RIGHT)]
    links += [(end, middle) for middle in BETWEEN for end in (LEFT, RIGHT)]
    ports = []
    for link in links:
        for a, b in (link, link[::-1]):
            rate = int(RATE * slow) if (a, b) == SLOW else RATE
            port = Port(a, b, rate, US, Marking(16_000, 64_000, 1.0), shift=-16, room=room)
            ports.append(port if a >= LEFT else Port(a, b, rate, US))
    return Fabric(ports, dict.fromkeys((LEFT, RIGHT, *BETWEEN), 1 << 30))


def across(source: int, target: int, size: int, start: int = 0) -> Flow:
    ways = [(source, LEFT, middle, RIGHT, target) for middle in BETWEEN]
    first, *others = ((way, way[::-1]) for way in ways)
    trip = 8 * US + 4 * (FULL + ACK)
    window = trip * RATE // (8 * 10**12)
    return Flow(size, *first, start, window=window, round_trip=trip, sprayed=tuple(others))


def settings(transport: Rud | None = None, **changed: object) -> Settings:
    given = Settings(
        transport or Nscc(),
        payload=PAYLOAD,
        data_header=HEADER,
        ack_size=HEADER,
        pauses=False,
        trims=True,
        priorities=2,
        ack_priority=1,
    )
    return given._replace(**changed)  # type: ignore[arg-type]


def port(run: PacketRun, node: int, to: int):  # type: ignore[no-untyped-def]
    return next(port for port in run.ports if (port.node, port.to) == (node, to))


@pytest.mark.parametrize("n", [1, 5, 16, 100])
def test_a_flow_alone_takes_its_packets_and_the_way_of_the_last_one_and_of_its_ack(n: int) -> None:
    run = simulate_packets(fabric(2), [across(0, 1, n * PAYLOAD)], settings())
    assert run.arrivals.tolist() == [(n + 3) * FULL + 4 * US]
    assert run.ends.tolist() == [(n + 3) * FULL + 8 * US + 4 * ACK]
    assert (run.resent.sum(), run.timeouts.sum(), run.dropped) == (0, 0, 0)


def test_an_ack_answers_as_many_bytes_as_the_key_says_and_the_first_and_the_last_packet() -> None:
    """Of 40 packets each, or every fifth, and the first; or the first and the last alone."""
    every = 5 * (PAYLOAD + HEADER)
    flow = across(0, 1, 40 * PAYLOAD)
    for ack_every, n_acks in ((1, 40), (every, 9), (10**6, 2)):
        transport = Nscc(ack_every=ack_every, first_window=10, most_window=10)
        run = simulate_packets(fabric(2), [flow], settings(transport), watch=[(1, RIGHT)])
        assert run.histories[1, RIGHT].sent[-1] == n_acks * HEADER


def test_what_is_trimmed_is_sent_again_without_a_time_out() -> None:
    n, size = 12, 50 * PAYLOAD
    run = simulate_packets(fabric(n + 1), [across(i, n, size) for i in range(n)], settings())
    trimmed = sum(each.trimmed for each in run.ports)
    assert run.resent.sum() == trimmed > 100
    assert (run.timeouts.sum(), run.dropped) == (0, 0)
    last = port(run, RIGHT, n)
    assert last.data == n * 50 and last.data_bytes == n * 50 * (PAYLOAD + HEADER)
    assert max(each.longest_queue for each in run.ports) <= 2 * 80_000
    least = n * 50 * FULL + 3 * FULL + 4 * US
    assert least <= run.arrivals.max() < 1.2 * least, "the receiver's link is nearly always busy"


def test_without_trimming_only_the_timer_finds_what_was_dropped() -> None:
    n, size = 12, 50 * PAYLOAD
    flows = [across(i, n, size) for i in range(n)]
    trimmed = simulate_packets(fabric(n + 1), flows, settings())
    dropped = simulate_packets(fabric(n + 1), flows, settings(trims=False))
    assert dropped.resent.sum() == dropped.timeouts.sum() >= dropped.dropped > 0
    assert dropped.ends.mean() > 1.2 * trimmed.ends.mean()


def test_headers_that_find_no_room_either_are_found_by_the_timer() -> None:
    """Packets are so short that headers of what 60 hosts send fill a link, and their queue."""
    n = 60
    given = settings(Nscc(rto=50 * US), payload=200)
    flows = [across(i, n, 20_000) for i in range(n)]
    run = simulate_packets(fabric(n + 1, room=2_000), flows, given)
    trimmed = sum(each.trimmed for each in run.ports)
    assert 0 < run.dropped <= run.timeouts.sum() and (run.ends > 0).all()
    assert run.resent.sum() == trimmed - run.dropped + run.timeouts.sum()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_timer_has_only_that_sent_again_of_which_nothing_is_known(seed: int) -> None:
    """Whatever comes twice has come by the very slow way once; in the end nothing is under way."""
    transport = Nscc(balance=Balance.OBLIVIOUS, entropies=32, rto=20 * US)
    on = fabric(2, slow=0.02, room=400_000)
    network = PacketNetwork(on, settings(transport), seed=seed)
    network.add([across(0, 1, 300 * PAYLOAD)])
    while not len(network.advance(stop=Stop.ACKNOWLEDGED).acknowledged):
        pass
    run = network.account()
    assert 0 < port(run, RIGHT, 1).data - 300 <= port(run, *SLOW).data
    assert run.resent[0] <= run.timeouts[0] and run.dropped == 0
    assert network._tables.rud["in_flight"].tolist() == [0]


def test_a_window_shrinks_where_packets_are_refused() -> None:
    """So that of two long flows hardly a packet is sent again, once they know of each other."""
    flows = [across(i, 2, 2000 * PAYLOAD) for i in range(2)]
    run = simulate_packets(fabric(3), flows, settings())
    assert 0 < run.resent.sum() < 0.03 * 2 * 2000
    assert run.arrivals.max() < 1.05 * (2 * 2000 * FULL)


@pytest.mark.parametrize("balance", Balance)
def test_those_that_listen_leave_a_slow_way_to_others(balance: Balance) -> None:
    """One of four ways has a tenth of the rate: of a flow that has its line it carries a tenth, and
    a quarter where nobody listens, whom it slows down."""
    transport = Nscc(balance=balance, entropies=32, ack_every=1)
    flow = across(0, 1, 2000 * PAYLOAD)
    run = simulate_packets(fabric(2, slow=0.1), [flow], settings(transport), seed=1)
    share, slowdown = port(run, *SLOW).data / 2000, run.arrivals[0] / (2000 * FULL)
    if balance is Balance.OBLIVIOUS:
        assert share > 0.2 and slowdown > 2
    elif balance is Balance.BITMAP:
        assert 0.11 < share < 0.15 and 1.1 < slowdown < 1.5
    else:
        assert share == pytest.approx(0.1, abs=0.01) and slowdown < 1.05


def test_packets_of_one_entropy_value_take_one_way() -> None:
    run = simulate_packets(fabric(2), [across(0, 1, 64 * PAYLOAD)], settings(Nscc(entropies=1)))
    assert sorted(port(run, LEFT, middle).data for middle in BETWEEN) == [0, 0, 0, 64]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.integers(1, 60 * PAYLOAD),
            st.integers(0, 20 * US),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([8_000, 20_000, 80_000]),
    st.sampled_from(Balance),
    st.integers(0, 99),
)
@examples(20)
def test_every_byte_arrives_and_what_was_lost_is_sent_again(
    drawn: list[tuple[int, int, int]], room: int, balance: Balance, seed: int
) -> None:
    flows = [across(*ends, start) for *ends, start in ((s, 5, n, at) for s, n, at in drawn)]
    given = settings(Nscc(balance=balance, rto=10**9))
    run, again = (simulate_packets(fabric(6, room), flows, given, seed=seed) for _ in range(2))
    assert run.ends.tolist() == again.ends.tolist() and (run.ends >= run.arrivals).all()
    last, n = port(run, RIGHT, 5), sum(math.ceil(flow.size / PAYLOAD) for flow in flows)
    trimmed = sum(each.trimmed for each in run.ports)
    if run.timeouts.sum() == 0:
        assert run.resent.sum() == trimmed
        assert last.data == n
        assert last.data_bytes == sum(flow.size for flow in flows) + n * HEADER
    assert last.data >= n


@pytest.mark.parametrize(
    "changed", [{"pauses": True}, {"ack_priority": -1}, {"ack_priority": 0, "priorities": 1}]
)
def test_headers_need_a_priority_of_their_own(changed: dict[str, object]) -> None:
    with refused("trims", "conflict", "ack_priority"):
        simulate_packets(fabric(2), [across(0, 1, 1)], settings(**changed))


def test_a_port_holds_a_packet_at_least() -> None:
    with refused("link 100 - 0", "out-of-range", "4063", "4064"):
        simulate_packets(fabric(2, room=4063), [across(0, 1, 1)], settings())


@pytest.mark.parametrize(
    ("keys", "code", "names"),
    [
        ({"entropies": 48}, "out-of-range", ["48"]),
        ({"balance": "best"}, "unknown-name", ["best", "reps"]),
        ({"gamma": 2.0}, "out-of-range", ["2.0"]),
        ({"rto": 0}, "out-of-range", ["0"]),
    ],
)
def test_keys_that_there_cannot_be_are_refused(
    keys: dict[str, object], code: Code, names: list[str]
) -> None:
    with refused(*keys, code, *names):
        Nscc(**keys)  # type: ignore[arg-type]
