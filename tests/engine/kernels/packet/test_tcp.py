"""TCP over switches that drop: nothing is lost in the end, and windows do what the RFCs say."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.kernels.packet import (
    Fabric,
    Flow,
    PacketNetwork,
    PacketRun,
    Port,
    Settings,
    Stop,
    simulate_packets,
)
from dimsweep.engine.kernels.packet.transports import TRANSPORTS, Cubic
from tests.support.refused import refused

GBPS = 10**9
US = 10**6  # ticks: picoseconds
MS = 1000 * US
SECOND = 1000 * MS
SWITCH, SINK = 100, 99
PACKET = 1048
QUICK = {"least_rto": MS, "first_rto": 10 * MS}
BOTH = ("reno", "cubic")


def bottleneck(n: int, rate: int, delay: int, buffer: int) -> Fabric:
    """``n`` fast hosts, and a slow port behind which nearly all of ``buffer`` may wait."""
    ports = []
    for host in range(n):
        ports += [Port(host, SWITCH, 10 * rate, delay), Port(SWITCH, host, 10 * rate, delay)]
    ports += [Port(SINK, SWITCH, rate, delay), Port(SWITCH, SINK, rate, delay, shift=-16)]
    return Fabric(ports, {SWITCH: buffer})


def upload(host: int, size: int, **options: object) -> Flow:
    return Flow(size, (host, SWITCH, SINK), (SINK, SWITCH, host), **options)  # type: ignore[arg-type]


def lossy(transport: str, **keys: Any) -> Settings:
    return Settings(transport=TRANSPORTS[transport](**(keys or QUICK)), pauses=False)


def dropped(run: PacketRun) -> int:
    return sum(port.dropped for port in run.ports)


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(1, 60_000)),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([2_500, 8_000, 30_000]),
    st.sampled_from(BOTH),
)
def test_every_byte_arrives_although_packets_and_acks_are_dropped(
    drawn: list[tuple[int, int, int]], buffer: int, transport: str
) -> None:
    ports = [
        Port(*ends, 10 * GBPS, US, shift=1)
        for host in range(5)
        for ends in ((host, SWITCH), (SWITCH, host))
    ]
    flows = []
    for source, step, size in drawn:
        way = (source, SWITCH, (source + step) % 5)
        flows.append(Flow(size, way, way[::-1]))
    network = PacketNetwork(Fabric(ports, {SWITCH: buffer}), lossy(transport))
    network.add(flows)
    network.advance(stop=Stop.NEVER)
    tables, run = network._tables, network.account()
    assert tables.flows["received"][: len(flows)].tolist() == [flow.size for flow in flows]
    assert (run.arrivals > 0).all()
    assert (run.ends >= run.arrivals).all()
    packets = sum(math.ceil(flow.size / 1000) for flow in flows)
    delivered = sum(port.data for port in run.ports if port.node == SWITCH)
    assert packets <= delivered
    # In the end nothing is under way, and nobody holds a byte of the buffer.
    of = tables.tcp[: len(flows)]
    assert not of["pipe"].any()
    assert not of["n_lost"].any()
    assert not tables.switches["used"].any()
    assert max(port.longest_queue for port in run.ports) <= buffer


@pytest.mark.parametrize("transport", BOTH)
def test_an_incast_into_a_shallow_buffer_drops_and_completes(transport: str) -> None:
    fabric = bottleneck(16, 10 * GBPS, 2 * US, 30_000)
    flows = [upload(host, 200_000) for host in range(16)]
    run = simulate_packets(fabric, flows, lossy(transport))
    assert dropped(run) > 100
    assert run.ends.min() > 0
    with refused("flows", "stalled", "dropped"):
        simulate_packets(fabric, flows, Settings(pauses=False))


def test_reno_takes_three_quarters_of_a_link_without_a_buffer() -> None:
    """Its window swings between all and half of what the link holds, evenly in time."""
    rate, delay = 10 * GBPS, 25 * US
    holds = rate * 4 * delay // 8 // SECOND
    run = simulate_packets(
        bottleneck(1, rate, delay, holds // 40), [upload(0, 200_000_000)], lossy("reno")
    )
    ideal = 200_000 * PACKET * 8 * SECOND // rate
    assert 0.72 < ideal / run.ends[0] < 0.78


def test_reno_fills_a_link_with_a_buffer_of_as_much_as_it_holds() -> None:
    """The queue swings between nothing and the buffer: 5/9 of it is full, averaged over time."""
    rate, delay = 10 * GBPS, 25 * US
    holds = rate * 4 * delay // 8 // SECOND
    run = simulate_packets(
        bottleneck(1, rate, delay, holds),
        [upload(0, 300_000_000)],
        lossy("reno"),
        watch=[(SWITCH, SINK)],
    )
    assert 300_000 * PACKET * 8 * SECOND // rate > 0.985 * run.ends[0]
    times, queue, *_ = run.histories[SWITCH, SINK]
    steady = times > 20 * MS  # after slow start
    spans = np.diff(times[steady])
    average = (queue[steady][:-1] * spans).sum() / spans.sum()
    assert average == pytest.approx(5 / 9 * holds, rel=0.05)


def test_cubics_window_is_its_cubic() -> None:
    """W(t) = C (t - K)^3 + W_max, on a way so long that Reno's window would be smaller."""
    fabric = bottleneck(1, GBPS // 50, 25 * MS, 250_000)
    network = PacketNetwork(fabric, Settings(transport="cubic", pauses=False))
    network.add([upload(0, 10**9)])
    tcp, own = network._tables.tcp[0], network._tables.flows[0]["cubic"]
    # Fast convergence aims below what there is after every second loss: no other follows soon.
    while own["epoch"] < 0 or not 1 < own["k"] < 6:
        network.advance(network.now + 100 * MS)
    keys, began, w_max = Cubic(), int(own["epoch"]), own["w_max"].item()
    k = math.cbrt((w_max - tcp["threshold"]) / keys.c)  # seconds
    assert own["k"] == pytest.approx(k, rel=0.01)
    for share in (0.25, 0.5, 0.9, 1.1, 1.4, 1.8):
        network.advance(int(began + share * k * SECOND))
        assert own["epoch"] == began
        seconds = (network.now - began) / SECOND
        assert tcp["cwnd"] == pytest.approx(keys.c * (seconds - k) ** 3 + w_max, rel=0.02)


def test_each_time_out_doubles_the_next() -> None:
    """The first ACK comes after 100 ms: a segment goes again after 1, 3, 7, 15, 31 and 63 ms."""
    run = simulate_packets(
        bottleneck(1, GBPS, 25 * MS, 30_000),
        [upload(0, 1)],
        lossy("reno", first_rto=MS, least_rto=MS),
    )
    (port,) = (port for port in run.ports if port.to == SINK)
    assert port.data == 7
    assert run.timeouts.tolist() == [6]
    assert run.ends[0] // MS == 100


@pytest.mark.parametrize(("round_trip", "timeouts"), [(20 * MS, 1), (40 * MS, 0), (1, 6)])
def test_a_known_round_trip_sets_the_first_time_out(round_trip: int, timeouts: int) -> None:
    """Three times as long (RFC 6298, 2.2), but no less than the least; the ACK comes after 100."""
    flow = upload(0, 1, round_trip=round_trip)
    run = simulate_packets(bottleneck(1, GBPS, 25 * MS, 30_000), [flow], lossy("reno"))
    assert run.timeouts.tolist() == [timeouts]


@pytest.mark.parametrize(
    ("settings", "where", "names"),
    [
        (lossy("reno")._replace(payload=40_000), "", ["40048"]),
        (lossy("reno")._replace(pauses=True), "", ["shift"]),
    ],
)
def test_wrong_settings_are_named(settings: Settings, where: str, names: list[str]) -> None:
    with refused(where, "out-of-range", *names):
        simulate_packets(bottleneck(1, GBPS, US, 30_000), [upload(0, 10)], settings)
