"""Where the message kernel says something else than the phase kernel, and by how much exactly."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Block,
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    Dimension,
    GraphBuilder,
    Group,
    Npu,
    Ring,
    Switch,
    Topology,
    Workload,
)
from dimsweep.engine.cluster.network_model import NetworkModel, Switching
from tests.support.examples import examples
from tests.support.messages import Sending, both, carry, line_of, time_of, times
from tests.support.programs import one_collective

ALL_TO_ALL, ALL_GATHER = CollectiveKind.ALL_TO_ALL, CollectiveKind.ALL_GATHER
REDUCE_SCATTER, ALL_REDUCE = CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_REDUCE
SWITCHING = [
    NetworkModel(),
    NetworkModel(packet=4096.0),
    NetworkModel(switching=Switching.STORE_AND_FORWARD),
]
PER_BYTE = 256  # ps; transfers of whole bytes last whole picoseconds
BANDWIDTH = 1e12 / PER_BYTE


def one_dimension(
    block: Block,
    n: int,
    latency: int,
    *,
    bandwidth: float = BANDWIDTH,
    algorithm: str = "auto",
    endpoint_delay: int = 0,
    reduce_bandwidth: float | None = None,
    network: NetworkModel | None = None,
) -> Cluster:
    """A dimension whose collectives go in one chunk."""
    return Cluster(
        Topology((Dimension(block, n, bandwidth, latency),)),
        Npu(reduce_bandwidth=reduce_bandwidth),
        CollectiveModel(chunks=1, endpoint_delay=endpoint_delay, algorithms=(algorithm,)),
        network or NetworkModel(),
    )


# --- single messages -----------------------------------------------------------------------------


@pytest.mark.parametrize("hops", [1, 2, 3, 7])
@pytest.mark.parametrize("packet", [0.0, 1.0, 1000.0, 4096.0, 5000.0])
def test_over_equal_links(hops: int, packet: float) -> None:
    n_bytes, latency = 4096.0, 777
    network = line_of([(BANDWIDTH, latency)] * hops)
    end = carry(network, [Sending(0, 1, n_bytes)], NetworkModel(packet=packet)).last
    bytes_sent = n_bytes + (hops - 1) * min(packet, n_bytes)
    assert end == hops * latency + bytes_sent * PER_BYTE


links = st.lists(
    st.tuples(st.sampled_from([16, 64, 256, 1024]), st.integers(0, 10**6)), min_size=1, max_size=6
)


@examples(50)
@given(links, st.integers(0, 10_000), st.integers(0, 12_000))
def test_over_unequal_links(links: list[tuple[int, int]], n_bytes: int, packet: int) -> None:
    """A pipeline: on the slowest link all bytes, on every other one a packet."""
    network = line_of([(1e12 / per_byte, latency) for per_byte, latency in links])
    end = carry(network, [Sending(0, 1, n_bytes)], NetworkModel(packet=packet)).last
    head = min(packet, n_bytes)
    per_byte = [rate for rate, _ in links]
    transfer = head * (sum(per_byte) - max(per_byte)) + n_bytes * max(per_byte)
    assert end == sum(latency for _, latency in links) + transfer


@examples(50)
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=8), st.integers(0, 10**7))
def test_one_after_another(sizes: list[int], latency: int) -> None:
    """First in first out: the last byte of each has waited for all before it."""
    network = line_of([(BANDWIDTH, latency)] * 3)
    carried = carry(network, [Sending(0, 1, size) for size in sizes], NetworkModel())
    assert carried.arrivals == [PER_BYTE * end + 3 * latency for end in accumulate(sizes)]


# --- interleaved groups and lines -----------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", list(CollectiveKind))
@pytest.mark.parametrize(("p", "stride"), [(2, 2), (2, 4), (4, 2), (3, 2), (2, 3), (5, 3)])
@pytest.mark.parametrize("network", SWITCHING)
@pytest.mark.parametrize("latency", [0, 500, 2_000_000, 10**9])
def test_interleaved_groups_take_turns(
    kind: CollectiveKind, p: int, stride: int, network: NetworkModel, latency: int
) -> None:
    """However their messages are switched: a link is never idle, and no turn of another group
    hides a latency.  Delays and reductions between steps change nothing."""
    n_bytes = 2.0**15 * p
    cluster = one_dimension(
        Ring(),
        p * stride,
        latency,
        bandwidth=2 * BANDWIDTH,
        endpoint_delay=12_345,
        reduce_bandwidth=3e9,
        network=network,
    )
    by_phase, by_message = times(one_collective(kind, n_bytes, (p,), (stride,)), cluster)
    assert by_phase == by_message


@pytest.mark.parametrize("p", range(2, 13))
def test_all_to_all_on_a_line(p: int) -> None:
    """The middle link is never idle, and the farthest piece has come p - 1 hops."""
    piece, turns = 1000, p * p // 4
    workload = one_collective(ALL_TO_ALL, float(p * piece), (p,))
    transfer = piece * PER_BYTE

    def pair(latency: int) -> tuple[int, int]:
        return times(workload, one_dimension(Ring(), 2 * p, latency, bandwidth=2 * BANDWIDTH))

    for latency in (0, 1, transfer // 3, transfer, 100 * transfer):
        assert pair(latency) == (turns * transfer + (p - 1) * latency,) * 2


@examples(40)
@given(st.data())
def test_on_a_ring_the_phase_kernel_is_never_too_quick(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 12))
    p = data.draw(st.sampled_from([p for p in range(2, n + 1) if n % p == 0]))
    stride = data.draw(st.sampled_from([k for k in range(1, n) if n % (p * k) == 0]))
    cluster = one_dimension(
        Ring(), n, data.draw(st.sampled_from([0, 1000, 10**6, 10**9])), bandwidth=3.7e9
    )
    kind = data.draw(st.sampled_from(list(CollectiveKind)))
    by_phase, by_message = times(one_collective(kind, 777_777.0, (p,), (stride,)), cluster)
    assert by_message <= by_phase


# --- members that run ahead ----------------------------------------------------------------------


@pytest.mark.parametrize("reduction", [0.0, 0.25, 1.0, 8.0])
@pytest.mark.parametrize("latency", [0, 10**8])
def test_a_member_that_is_ahead_waits_until_it_is_asked(latency: int, reduction: float) -> None:
    """Nine members, eight of which halve and double; one of them starts late, as it also reduces
    for the ninth.  What the others would send it meanwhile held up what is sent to it later, by
    three times the last halving's message, if reducing takes long."""
    n_bytes, per_byte = 2.0**20, 1024
    cluster = one_dimension(
        Switch(),
        9,
        latency,
        bandwidth=1e12 / per_byte,
        algorithm="rabenseifner",
        reduce_bandwidth=1e12 / per_byte / reduction if reduction else None,
    )
    by_phase, by_message = times(one_collective(ALL_REDUCE, n_bytes, (9,)), cluster)
    assert by_message == by_phase


# --- packets and stored messages on a switch -----------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("network", SWITCHING)
@pytest.mark.parametrize("p", [2, 3, 5, 8])
@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        (REDUCE_SCATTER, "ring"),
        (REDUCE_SCATTER, "direct"),
        (REDUCE_SCATTER, "halving_doubling"),
        (REDUCE_SCATTER, "in_switch"),
        (ALL_GATHER, "ring"),
        (ALL_GATHER, "direct"),
        (ALL_GATHER, "halving_doubling"),
        (ALL_REDUCE, "in_switch"),
        (ALL_REDUCE, "ring"),
        (ALL_TO_ALL, "direct"),
    ],
)
def test_a_step_through_a_switch_waits_for_one_packet(
    kind: CollectiveKind, algorithm: str, p: int, network: NetworkModel
) -> None:
    """One packet a step, the last message's: before it, others keep the link to the target busy."""
    shard = 8192.0  # bytes
    n_bytes = shard if kind is ALL_GATHER else shard * p
    cluster = one_dimension(Switch(), p, 5000, algorithm=algorithm, network=network)
    by_phase, by_message = times(one_collective(kind, n_bytes, (p,)), cluster)
    messages = [s * shard for s in last_messages(kind, algorithm, p)]
    waits = sum(min(network.packet_limit, message) * PER_BYTE for message in messages)
    assert by_message - by_phase == waits


def last_messages(kind: CollectiveKind, algorithm: str, p: int) -> list[int]:
    """The shards of a step's last message, step by step."""
    if kind is ALL_REDUCE and algorithm != "in_switch":
        return 2 * last_messages(REDUCE_SCATTER, algorithm, p)
    if algorithm == "in_switch":
        return [p if kind is ALL_REDUCE else 1]  # what comes down to each
    if algorithm == "direct":
        return [1]
    if algorithm == "ring":
        return [1] * (p - 1)
    return [min(2**k, p - 2**k) for k in range((p - 1).bit_length())]


# --- windows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 3, 4, 6, 100])
@pytest.mark.parametrize("latency", [0, 100, 300_000, 5_000_000])
def test_a_window_on_a_switch(window: int, latency: int) -> None:
    """A message starts once the one before has left, and the ``window``-th before has arrived."""
    p, piece = 7, 1000
    transfer = piece * PER_BYTE
    cluster = one_dimension(
        Switch(), p, latency, algorithm="direct", network=NetworkModel(window=window)
    )
    starts: list[int] = []
    for number in range(p - 1):
        start = starts[-1] + transfer if starts else 0
        if number >= window:
            start = max(start, starts[number - window] + transfer + 2 * latency)
        starts.append(start)
    time = time_of(one_collective(ALL_TO_ALL, float(p * piece), (p,)), cluster)
    assert time == starts[-1] + transfer + 2 * latency


# --- members that are done before the others -----------------------------------------------------


def lasts(kind: CollectiveKind, cluster: Cluster, p: int) -> tuple[list[int], list[int]]:
    """How long it lasts on each NPU, by the phase kernel and by the message kernel."""
    phases, run = both(one_collective(kind, 12_000.0, (p,)), cluster)
    return phases.exposed[0].tolist(), run.measures.exposed[0].tolist()


@pytest.mark.parametrize(("kind", "early"), [(REDUCE_SCATTER, -1), (ALL_GATHER, 0)])
def test_one_end_of_a_line_does_not_meet_the_way_back(kind: CollectiveKind, early: int) -> None:
    """Of the chains of p - 1 steps all but one go over the end of the line."""
    p, latency = 5, 1000
    by_phase, by_message = lasts(kind, one_dimension(Ring(), 2 * p, latency), p)
    for member in range(p):
        back = (p - 2) * latency if member == early % p else 0
        for line in (0, p):
            assert by_phase[line + member] - by_message[line + member] == back


@pytest.mark.parametrize("algorithm", ["double_binary_tree", "rabenseifner"])
@pytest.mark.parametrize("p", [3, 5, 6, 7, 12])
def test_not_all_are_done_together_in_trees_and_with_partners(algorithm: str, p: int) -> None:
    by_phase, by_message = lasts(
        ALL_REDUCE, one_dimension(Switch(), p, 1000, algorithm=algorithm), p
    )
    assert min(by_message) < max(by_message) == max(by_phase) == min(by_phase)


def test_the_ends_of_a_line_exchange_less() -> None:
    by_phase, by_message = lasts(ALL_TO_ALL, one_dimension(Ring(), 8, 0), 4)
    assert min(by_message) < max(by_message) == max(by_phase)


# --- difference 2: lines by themselves -----------------------------------------------------------


def test_a_line_does_not_wait_for_the_others() -> None:
    """NPUs 0 and 1 exchange something between themselves before they come to an all-to-all among
    2 x 2.  NPUs 2 and 3, which are ready for it, do their part of its first phase at once, and then
    have all the time for an exchange of their own; the phase kernel has that one wait as well."""
    unit = 1000 * PER_BYTE  # half of what goes is for the other
    busy, ready = GraphBuilder(), GraphBuilder()
    busy.add("before", Collective(ALL_TO_ALL, 8000, "pair"))
    tick = busy.add("tick", Compute(duration=1))
    busy.add("all", Collective(ALL_TO_ALL, 2000, "all"), [tick])
    tick = ready.add("tick", Compute(duration=1))
    ready.add("all", Collective(ALL_TO_ALL, 2000, "all"), [tick])
    tock = ready.add("tock", Compute(duration=1), [tick])
    ready.add("after", Collective(ALL_TO_ALL, 20_000, "pair"), [tock])
    workload = Workload(
        (busy.build(), ready.build()),
        {"all": Group((2, 2), (1, 1)), "pair": Group((2, 1), (1, 1))},
        np.array([0, 0, 1, 1]),
    )
    topology = Topology.build("Switch(2)_Switch(2)", bandwidth=[BANDWIDTH] * 2, latency=[0, 0])
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=1))
    assert times(workload, cluster) == ((4 + 1 + 10) * unit, 1 + (1 + 10) * unit)
