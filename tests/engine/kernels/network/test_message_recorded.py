"""The message kernel against times that another simulator's maintainers recorded.

That simulator stores and forwards and counts whole nanoseconds, rounding every transfer down.  Its
numbers are reproduced to the nanosecond on bandwidths at which transfers are whole nanoseconds, and
within that rounding on its own.
"""

import pytest

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    GraphBuilder,
    Group,
    Npu,
    Topology,
    Workload,
)
from dimsweep.engine.cluster.network_model import NetworkModel, Switching
from dimsweep.engine.network.fabric import build_network
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import Routing
from tests.support.golden import astra_case
from tests.support.messages import Sending, carry_over, time_of
from tests.support.programs import one_collective

NS = 1000
MIB, GIB = 2**20, 2**30
BANDWIDTH, LATENCY = 50 * GIB, 500 * NS  # of a link
STORING = NetworkModel(switching=Switching.STORE_AND_FORWARD)
CUTTING = NetworkModel()


def topology(shape: str, bandwidth: float = BANDWIDTH) -> Topology:
    """One dimension whose links have ``bandwidth`` each."""
    block, n = shape.rstrip(")").split("(")
    links = {"Ring": 2, "Switch": 1, "FullyConnected": int(n) - 1}[block]
    return Topology.build(shape, bandwidth=[links * bandwidth], latency=[LATENCY])


# --- single messages -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "cutting", "storing"),
    [
        ("Ring(16)", 21_031, 60_093),  # three hops
        ("FullyConnected(16)", 20_031, 20_031),
        ("Switch(16)", 20_531, 40_062),
    ],
)
def test_one_mebibyte_from_1_to_4(shape: str, cutting: int, storing: int) -> None:
    message = [Sending(1, 4, MIB)]
    assert carry_over(topology(shape), message, CUTTING).last // NS == cutting
    assert carry_over(topology(shape), message, STORING).last // NS == storing


@pytest.mark.parametrize(("case", "model"), [("unaware", CUTTING), ("aware", STORING)])
def test_over_three_hops(case: str, model: NetworkModel) -> None:
    recorded = cycles(f"p2p_ring_multihop_{case}")
    assert carry_over(topology("Ring(8)"), [Sending(0, 5, MIB)], model).last // NS == max(recorded)


def cycles(case: str) -> list[int]:
    """When each rank of a recorded case finished (ns)."""
    return astra_case(f"E/{case}").expected()[0]


# --- everyone to everyone on a ring --------------------------------------------------------------

# The link up from an NPU carries the messages of the eight NPUs up to it to the eight beyond it
# (to the opposite NPU all go up), 36 in all.
RECORDED_GATHER = 704_116  # = 36 * 19,531 + 2 * 500
# The last one recorded has met two idle latencies, and the others while it waited in queues.  Here
# latencies are counted apart from bytes, so nothing hides those of its eight hops.
HIDDEN = 6 * LATENCY


def naive_ring(kind: CollectiveKind, transfer_ns: float) -> int:
    """Every NPU sends 1 MiB to all others by the shortest path, which takes ``transfer_ns`` a link.

    The algorithm is that of a switch, which sends all at once; the links are those of a ring.
    """
    ring = build_network(topology("Ring(16)", MIB / (transfer_ns * 1e-9)))
    model = NetworkModel(
        # Without coordinates; routes are shortest ones either way.
        graph=Network(ring.graph),
        routing=Routing.SHORTEST,
        switching=Switching.STORE_AND_FORWARD,
    )
    n_bytes = 16 * MIB if kind is CollectiveKind.ALL_TO_ALL else MIB
    collectives = CollectiveModel(chunks=1, algorithms=("direct",))
    cluster = Cluster(topology("Switch(16)"), collectives=collectives, network=model)
    return time_of(one_collective(kind, n_bytes, (16,)), cluster)


def test_naive_gather_on_a_ring() -> None:
    # An all-to-all's messages go to the next NPU first, then to the one after it, ...
    time = naive_ring(CollectiveKind.ALL_TO_ALL, 19_531)
    assert time == RECORDED_GATHER * NS + HIDDEN
    # ... an all-gather, which is a reduce-scatter backwards, from the nearest below to that above.
    assert naive_ring(CollectiveKind.ALL_GATHER, 19_531) == time
    # At 50 GiB/s a transfer takes 19,531.25 ns, of which the recorded one lacks the quarters.
    assert naive_ring(CollectiveKind.ALL_TO_ALL, 19_531.25) == time + 36 * 0.25 * NS


@pytest.mark.parametrize(
    "order",
    [
        # Each NPU's own messages in order of their targets, ...
        [(i, j) for i in range(16) for j in range(16) if i != j],
        # ... the nearest above it first, ...
        [(i, (i + j) % 16) for i in range(16) for j in range(1, 16)],
        # ... or all NPUs' by turns.
        [(i, (i + j) % 16) for j in range(1, 16) for i in range(16)],
        [(i, j) for j in range(16) for i in range(16) if i != j],
    ],
)
def test_the_order_of_the_messages_hardly_matters(order: list[tuple[int, int]]) -> None:
    ring = topology("Ring(16)", MIB / 19_531e-9)
    sendings = [Sending(i, j, MIB) for i, j in order]
    assert carry_over(ring, sendings, STORING).last == RECORDED_GATHER * NS + HIDDEN


# --- collectives ---------------------------------------------------------------------------------

CHUNKS, ENDPOINT = 4, 10  # ns


def all_reduce(cluster_topology: Topology, n_bytes: int, npu: Npu, model: NetworkModel) -> float:
    """Nanoseconds of an all-reduce among all; ``direct`` unless it is a ring.

    A dimension of the recorded simulator waits for a chunk's latencies before it serves the next;
    so do all-reduces one after another.
    """
    (dim,) = cluster_topology.dims
    collectives = CollectiveModel(
        chunks=1,
        endpoint_delay=ENDPOINT * NS,
        algorithms=("ring" if dim.block.name == "Ring" else "direct",),
    )
    cluster = Cluster(cluster_topology, npu, collectives, model)
    builder, last = GraphBuilder(), []
    for i in range(CHUNKS):
        work = Collective(CollectiveKind.ALL_REDUCE, n_bytes / CHUNKS, "all")
        last = [builder.add(f"chunk {i}", work, last)]
    groups = {"all": Group((dim.size,), (1,))}
    return time_of(Workload((builder.build(),), groups), cluster) / NS


# The recorded runs charge one endpoint delay more a chunk, 24 ns a chunk for reductions that are
# not otherwise simulated, and start at 1 ns.
CHARGES = CHUNKS * (ENDPOINT + 24) + 1


def test_direct_all_reduce_where_every_message_has_its_own_link() -> None:
    assert CHUNKS * (3 * ENDPOINT + 2 * (78_125 + 2 * 500) + 24) + 1 == 633_217
    own_links = Topology.build(
        "FullyConnected(64)", bandwidth=[63 * BANDWIDTH], latency=[1000 * NS]
    )
    assert all_reduce(own_links, GIB, Npu(), CUTTING) + CHARGES == 633_217


def test_direct_all_reduce_through_one_switch() -> None:
    time = all_reduce(topology("Switch(64)"), GIB, Npu(), STORING) + CHARGES
    assert time == 40_008_217
    # Each of the two halves now takes a turn of 63 messages more.
    assert time - 633_217 == 2 * 63 * (GIB / 64 / BANDWIDTH) * 1e9 == 39_375_000


RING_ALL_REDUCE = 117_780  # on eight NPUs; only one direction of the links is used


def test_ring_all_reduce() -> None:
    transfer, reduction = 610, 1965  # ns of a step, which is of 32 KiB
    assert CHUNKS * (ENDPOINT + 14 * (transfer + 500 + ENDPOINT) + 7 * reduction) == RING_ALL_REDUCE
    # Half of the bytes each way at half the bandwidth take as long as all of them one way.
    ring = Topology.build("Ring(8)", bandwidth=[32 * 2**10 / (transfer * 1e-9)], latency=[LATENCY])
    npu = Npu(reduce_bandwidth=32 * 2**10 / (reduction * 1e-9))
    for model in (CUTTING, STORING):
        assert all_reduce(ring, MIB, npu, model) + CHUNKS * ENDPOINT == RING_ALL_REDUCE


def test_ring_all_reduce_at_its_own_bandwidth() -> None:
    # 610.4 ns and 3 * 655.4 ns, of which the recorded run lacks the fractions.
    ring = Topology.build("Ring(8)", bandwidth=[BANDWIDTH], latency=[LATENCY])
    time = all_reduce(ring, MIB, Npu(reduce_bandwidth=50e9 / 3), STORING) + CHUNKS * ENDPOINT
    assert 0 < time - RING_ALL_REDUCE < CHUNKS * (14 * 1 + 7 * 3)


def test_ring_all_reduce_is_the_recorded_case() -> None:
    assert set(cycles("upstream_ci_ring8_1MB")) == {RING_ALL_REDUCE}


# --- incast: seven NPUs send 4 MiB to the eighth -------------------------------------------------

TRANSFER = 78_125 * NS
INCAST = [Sending(i, 0, 4 * MIB) for i in range(1, 8)]


@pytest.mark.parametrize(
    ("shape", "cutting", "storing"),
    [
        # The opposite NPU's goes up, as the ones above it: four messages pass the last link, one
        # after another, and the last one has come over four.
        ("Ring(8)", 4 * (TRANSFER + LATENCY), 4 * (TRANSFER + LATENCY)),
        # All are at the switch at once (stored: after a transfer) and go down one by one.
        ("Switch(8)", 7 * TRANSFER + 2 * LATENCY, 8 * TRANSFER + 2 * LATENCY),
        ("FullyConnected(8)", TRANSFER + LATENCY, TRANSFER + LATENCY),
    ],
)
def test_incast(shape: str, cutting: int, storing: int) -> None:
    assert carry_over(topology(shape), INCAST, CUTTING).last == cutting
    assert carry_over(topology(shape), INCAST, STORING).last == storing


def test_recorded_incast_on_own_links() -> None:
    arrivals = carry_over(topology("FullyConnected(8)"), INCAST, STORING).arrivals
    assert {time // NS for time in arrivals} == set(cycles("incast_fc_aware"))


def test_recorded_incast_without_congestion() -> None:
    # As if every message were alone: so is each of ours here.
    alone = [carry_over(topology("Ring(8)"), [sending], CUTTING).last // NS for sending in INCAST]
    recorded = cycles("incast_ring_unaware")
    assert alone == recorded[1:] and max(alone) == recorded[0]
