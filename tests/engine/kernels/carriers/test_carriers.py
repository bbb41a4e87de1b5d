"""Workloads whose messages are carried by flows or packets: what a person can work out by hand."""

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    Compute,
    DimsweepError,
    GraphBuilder,
    Group,
    NetworkModel,
    PacketModel,
    Receive,
    Result,
    Send,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.bound.cuts import cut_bound
from dimsweep.engine.cluster.packet_model import Mark
from dimsweep.engine.errors import Code
from dimsweep.engine.kernels.carriers.carrier import buffers_of
from dimsweep.engine.kernels.packet.transports import TRANSPORTS, Reno
from dimsweep.engine.network import Auto, Clos, Kind, Mesh, Network, Routing, build_network
from dimsweep.engine.network.generators import FatTree, HyperX, Jellyfish, ZCube
from dimsweep.engine.network.routing import Router
from dimsweep.engine.topology.coordinates import coordinates_of
from tests.support.examples import examples
from tests.support.programs import one_collective
from tests.support.refused import refused

ALL_REDUCE, ALL_TO_ALL = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL
US = 1_000_000  # ps
GB = 1e9
STATIC = PacketModel(transport="static")
PACKET = 1048  # bytes, of which 1000 are payload


def topology(shape: str, bandwidth: float = 50 * GB, latency: int = US) -> Topology:
    n = shape.count("(")
    return Topology.build(shape, bandwidth=[bandwidth] * n, latency=[latency] * n)


def cluster(
    shape: str, algorithm: str = "auto", chunks: int = 1, latency: int = US, **network: object
) -> Cluster:
    on = topology(shape, latency=latency)
    model = CollectiveModel(chunks=chunks, algorithms=(algorithm,) * len(on.dims))
    return Cluster(on, collectives=model, network=NetworkModel(**network))


def run(kind: CollectiveKind, n_bytes: float, on: Cluster, fidelity: str) -> Result:
    return simulate(one_collective(kind, n_bytes, on.topology.sizes), on, fidelity=fidelity)


def messages(sizes: tuple[int, ...], *sent: tuple[float, int, int]) -> Workload:
    """Messages of some bytes from rank to rank, and nothing else."""
    ranks = [GraphBuilder() for _ in range(math.prod(sizes))]
    for tag, (n_bytes, source, target) in enumerate(sent):
        here, there = coordinates_of(source, sizes), coordinates_of(target, sizes)
        offset = tuple(b - a for a, b in zip(here, there, strict=True))
        ranks[source].add(f"send {tag}", Send(n_bytes, offset, tag))
        ranks[target].add(f"receive {tag}", Receive(tuple(-o for o in offset), tag))
    graphs = tuple(rank.build() for rank in ranks)
    return Workload(graphs, graph_of_rank=np.arange(len(ranks)))


def sending(n_bytes: int, rate: float = 50 * GB) -> int:
    """Picoseconds."""
    return math.floor(n_bytes * 1e12 / rate + 0.5)


# --- where nothing stands in the way, flows last as long as messages -----------------------------


@given(
    shape=st.sampled_from(["Switch(8)", "Ring(6)", "FullyConnected(5)", "Ring(4)_Switch(4)"]),
    algorithm=st.sampled_from(["auto", "ring", "direct", "halving_doubling", "rabenseifner"]),
    kind=st.sampled_from(CollectiveKind),
    n_bytes=st.sampled_from([1.0, 4096.0, 777_777.0, 1e8 / 3]),
    chunks=st.integers(1, 3),
)
@examples(20)
def test_flows_last_as_long_as_messages(
    shape: str, algorithm: str, kind: CollectiveKind, n_bytes: float, chunks: int
) -> None:
    on = cluster(shape, algorithm if shape == "Switch(8)" else "auto", chunks)
    by_message, by_flow = (run(kind, n_bytes, on, f) for f in ("message", "flow"))
    # Times are whole picoseconds: a message of a round is rounded, and so is its share.
    assert by_flow.time_ps == pytest.approx(by_message.time_ps, abs=20 * 8 * chunks)
    carried = [[link.n_bytes for link in result.links] for result in (by_message, by_flow)]
    assert carried[0] == pytest.approx(carried[1])
    assert by_flow.bytes_by_dim == by_message.bytes_by_dim


def test_two_flows_share_a_link_and_two_messages_take_turns() -> None:
    """A Mesh's middle link is on the way of two messages; the short one is done in twice its time,
    and then the other has the link alone."""
    on = cluster("Ring(4)", fabrics=(Mesh(),), latency=0)
    both = messages((4,), (1e6, 0, 2), (3e6, 1, 3))
    link = 25 * GB  # a neighbour's
    by_flow = simulate(both, on, fidelity="flow")
    assert by_flow.time_ps == pytest.approx(4e6 / link * 1e12, abs=2)
    (middle,) = (a for a in by_flow.links if (a.link.source, a.link.target) == (1, 2))
    assert middle.n_bytes == 4e6 and middle.longest_queue == 1
    assert middle.utilisation == pytest.approx(1.0) and middle.busy == by_flow.time_ps
    assert by_flow.completion_times["send"] == pytest.approx([2e6 / link, 4e6 / link])


# --- packets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["Switch(4)", "Ring(4)", "Switch(2)_Switch(2)_Switch(2)"])
def test_a_message_alone_takes_its_packets_and_store_and_forward(shape: str) -> None:
    """n packets on the first of k equal links, and the last on each further one; NPUs on the way
    pass packets on, as switches do."""
    on = cluster(shape, packets=STATIC)
    source, target = 0, (2 if on.topology.n_npus == 4 else 7)
    work = messages(on.topology.sizes, (10_000, source, target))
    time = simulate(work, on, fidelity="packet").time_ps
    network = build_network(on.topology)
    route = Router(network, Routing.DIMENSION_ORDER).route(source, target)
    rate = network.links[route[0]].bandwidth
    assert time == (10 + len(route) - 1) * sending(PACKET, rate) + len(route) * US


def test_packets_last_as_long_as_messages_but_for_headers_acks_and_latencies() -> None:
    """Each of 3 steps of halving-doubling sends data against the ACKs of what comes.  Without
    latencies the time is that of the bytes and, each step, of a packet that is stored on its way
    and of one that waits for an ACK."""
    on = cluster("Switch(8)", "halving_doubling", packets=STATIC, latency=0)
    kind = CollectiveKind.REDUCE_SCATTER
    by_message, by_packet = (run(kind, 8e6, on, f).time_ps for f in ("message", "packet"))
    step = 2 * sending(PACKET) + sending(60)
    assert by_message * 1.048 < by_packet <= by_message * 1.108 + 3 * step
    late = cluster("Switch(8)", "halving_doubling", packets=STATIC)
    assert run(kind, 8e6, late, "packet").time_ps == pytest.approx(by_packet + 3 * 2 * US, rel=5e-3)


def test_latencies_of_chunks_pass_side_by_side() -> None:
    """Headers and ACKs are 108 bytes to 1,000, and each of 2 * 3 steps of each of 8 chunks stores a
    packet on its way and lets one wait for an ACK.  One chunk after another would pay 8 * 6 steps'
    latencies, most of 2 ms."""
    late, prompt = (
        cluster("Switch(4)", "ring", chunks=8, latency=latency, packets=STATIC)
        for latency in (20 * US, 0)
    )
    by_message, by_packet = (run(ALL_REDUCE, 8e6, late, f).time_ps for f in ("message", "packet"))
    moving = run(ALL_REDUCE, 8e6, prompt, "message").time_ps
    step = 2 * sending(PACKET) + sending(60)
    assert 1.048 * moving < by_packet <= by_message + 0.108 * moving + 8 * 6 * step


def test_a_timeline_has_a_thread_for_each_phase_under_way() -> None:
    on = cluster("Switch(4)", "ring", chunks=4, latency=20 * US, packets=STATIC)
    reduced = one_collective(ALL_REDUCE, 1e6, on.topology.sizes)
    result = simulate(reduced, on, fidelity="packet", record=True)
    events = result.timeline()["traceEvents"]
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    ends = dict.fromkeys(named, 0.0)
    phases = [e for e in events if e["ph"] == "X" and named[e["pid"], e["tid"]].startswith("dim")]
    assert len(phases) == 2 * 4 * 4 and len({e["tid"] for e in phases}) > 1
    for event in sorted(phases, key=lambda e: e["ts"]):
        assert event["ts"] >= ends[event["pid"], event["tid"]] - 1e-6
        ends[event["pid"], event["tid"]] = event["ts"] + event["dur"]


def test_packets_carry_what_messages_do_and_the_same_every_time() -> None:
    on = cluster("Switch(16)", "direct", fabrics=(Clos(2, 4, oversubscription=2.0),))
    on_messages = run(ALL_TO_ALL, 1e6, on, "message")
    once, again = (run(ALL_TO_ALL, 1e6, on, "packet") for _ in range(2))
    assert once.time_ps == again.time_ps and once.links == again.links
    assert [link.n_bytes for link in once.links] == [link.n_bytes for link in on_messages.links]
    assert all(link.utilisation <= 1 for link in once.links)


def test_spraying_takes_all_ways_where_hashes_collide() -> None:
    def time(routing: Routing) -> int:
        on = cluster("Switch(16)", "direct", fabrics=(Clos(2, 4),), routing=routing)
        return run(ALL_TO_ALL, 2e6, on, "packet").time_ps

    assert time(Routing.SPRAY) < 0.9 * time(Routing.ECMP)


def test_sprayed_flows_have_all_that_the_cuts_of_a_full_clos_allow() -> None:
    """Each NPU sends at its own link's rate all the time, whatever the switches are called; flows
    that take one way each collide."""
    on = cluster("Switch(16)", "direct", fabrics=(Clos(2, 4),), latency=0, routing=Routing.SPRAY)
    hashed = replace(on, network=replace(on.network, routing=Routing.ECMP))
    sprayed, collided = (run(ALL_TO_ALL, 2e6, each, "flow").time_ps for each in (on, hashed))
    bound = cut_bound(build_network(on.topology, on.network.fabrics), range(16), ALL_TO_ALL)
    assert bound.picoseconds(2e6) <= sprayed <= bound.picoseconds(2e6) + 16
    assert collided > 1.2 * sprayed


def two_cards(n_switches: int) -> Network:
    """Six NPUs with two cards each, on one switch or on two."""
    graph = nx.DiGraph()
    for npu, k in product(range(6), range(2)):
        ends = (npu, f"card {k} of {npu}", f"switch {k % n_switches}")
        graph.add_node(ends[1], kind="nic")
        for (one, other), latency in zip(pairwise(ends), (0, US), strict=True):
            graph.add_edge(one, other, bandwidth=25 * GB, latency=latency)
            graph.add_edge(other, one, bandwidth=25 * GB, latency=latency)
    return Network(graph)


@pytest.mark.long
@pytest.mark.parametrize(
    "network",
    [
        FatTree(npus=16, radix=4, oversubscription=(1.0,)).build(),
        FatTree(npus=24, radix=8, oversubscription=(3.0,), server=2).build(),
        Jellyfish(switches=8, radix=5, hosts=2, seed=3).build(),
        HyperX(sizes=(2, 4), hosts=2).build(),
        ZCube(n=4, k=2).build(),
        two_cards(1),
        two_cards(2),
    ],
)
def test_packets_that_are_sprayed_last_as_long_as_flows(network: Network) -> None:
    """Over all cards of their NPUs, but for their headers, 1,048 bytes for 1,000, and for what
    packets of one link wait for; with two cards, for the later half of each message, too."""
    on = cluster(
        f"Switch({network.n_npus})",
        "direct",
        graph=network,
        routing=Routing.SPRAY,
        packets=PacketModel(transport="static", window=False),
    )
    by_flow, by_packet = (run(ALL_TO_ALL, 1e7, on, each) for each in ("flow", "packet"))
    most = 1.2 if any(device.kind is Kind.NIC for device in network.devices.values()) else 1.15
    assert 1.03 * by_flow.time_ps < by_packet.time_ps < most * by_flow.time_ps
    for one, other in zip(by_flow.links, by_packet.links, strict=True):
        assert one.n_bytes == pytest.approx(other.n_bytes)
    bound = cut_bound(network, range(network.n_npus), ALL_TO_ALL)
    assert bound.picoseconds(1e7) <= by_flow.time_ps


@pytest.mark.parametrize("n_switches", [1, 2])
def test_a_message_leaves_by_all_cards_of_its_npu_where_it_is_sprayed(n_switches: int) -> None:
    """By flows as by packets: half on each, in half the time; by ECMP it takes one of them."""
    network, size = two_cards(n_switches), 1e6
    alone = size / (25 * GB) * 1e12
    for fidelity, headers in (("flow", 1.0), ("packet", PACKET / 1000)):
        for routing, cards in ((Routing.SPRAY, 2), (Routing.ECMP, 1)):
            packets = PacketModel(transport="static", window=False)
            on = cluster("Switch(6)", graph=network, routing=routing, packets=packets)
            result = simulate(messages((6,), (size, 0, 3), (size, 1, 4)), on, fidelity=fidelity)
            loads = [link.n_bytes for link in result.links if link.link.source == 0]
            assert sorted(loads)[-cards:] == pytest.approx([size / cards] * cards)
            passing = 2 * US + headers * alone / cards
            assert result.time_ps == pytest.approx(passing, rel=0.02)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_transport_carries_an_iteration(transport: str) -> None:
    on = cluster("Ring(2)_Switch(4)", chunks=2, packets=PacketModel(transport=transport))
    by_packet = run(ALL_REDUCE, 1e6, on, "packet")
    latest = 200 * US  # TCP starts slowly
    assert run(ALL_REDUCE, 1e6, on, "message").time_ps < by_packet.time_ps < latest


def test_a_compute_operator_runs_beside_what_is_carried() -> None:
    builder = GraphBuilder()
    builder.add("compute", Compute(duration=10 * US))
    builder.add("collective", Collective(ALL_REDUCE, 1e6, "all"))
    work = Workload((builder.build(),), {"all": Group((4,), (1,))})
    for fidelity in ("flow", "packet"):
        result = simulate(work, cluster("Ring(4)"), fidelity=fidelity)
        assert result.compute == pytest.approx(1e-5)
        assert result.exposed == pytest.approx(result.time - 1e-5)


@pytest.mark.parametrize("fidelity", ["flow", "packet"])
def test_tensor_parallelism_passes_what_else_waits_at_a_port_if_it_has_a_priority(
    fidelity: str,
) -> None:
    """NPUs 0 and 4 reduce 100 kB, NPUs 1 to 3 with 5 to 7 gradients of 2 MB, over one uplink of 50
    GB/s in each direction.  Flows know no priorities."""

    def longest(priorities: int, *groups: str) -> float:
        graphs = []
        for name, size in (("tensor", 1e5), ("data", 2e6)):
            builder = GraphBuilder()
            if name in groups:
                builder.add(name, Collective(ALL_REDUCE, size, name))
            graphs.append(builder.build())
        across = dict.fromkeys(("tensor", "data"), Group((2,), (4,)))
        work = Workload(tuple(graphs), across, graph_of_rank=np.array([0, 1, 1, 1] * 2))
        packets = replace(STATIC, priorities=priorities)
        fabrics = (Clos(2, 4, oversubscription=4.0),)
        on = cluster("Switch(8)", "ring", fabrics=fabrics, packets=packets)
        took = simulate(work, on, fidelity=fidelity).completion_times
        return float(took["all_reduce tensor"].max())

    alone = longest(1, "tensor")
    in_line, before = (longest(n, "tensor", "data") for n in (1, 2))
    # On each of three links data, and an ACK that frees the window, wait for a packet under way.
    a_packet = sending(PACKET) / 1e12
    if fidelity == "flow":
        assert before == in_line > alone
    else:
        assert in_line > 3 * alone
        assert alone < before <= alone + 2 * 3 * a_packet


# --- what a person looks at ----------------------------------------------------------------------


def test_links_are_paused_because_of_the_port_at_which_an_incast_waits() -> None:
    """Seven NPUs send to one through a switch with a small buffer.  All of them are paused, in
    trees whose root is the port to that one, which is never idle while they are."""
    on = cluster("Switch(8)", latency=US // 10, packets=replace(STATIC, buffer=300e3, window=False))
    work = messages((8,), *((300_000, source, 0) for source in range(1, 8)))
    switch = "switch d0 line 0"
    out, into = f"{switch} -> NPU 0", [f"NPU {source} -> {switch}" for source in range(1, 8)]
    watched = [out, "NPU 3"]
    result = simulate(work, on, fidelity="packet", watch=watched, record=True)
    name = [account.link.name for account in result.links]
    traffic = result.traffic
    assert {name[link] for link in traffic.roots} == set(into)
    assert {name[root] for roots in traffic.roots.values() for root in roots} == {out}
    assert len(traffic.arrivals) == 7 and traffic.arrivals.max() == result.time_ps
    latency = 2 * US // 10
    assert (traffic.completion_times > sending(300 * PACKET) + latency).all()
    port, sender = (traffic.histories[name.index(link)] for link in (out, into[2]))
    assert port.sent[-1] == 7 * 300 * PACKET and sender.paused.any()
    assert port.queue.max() == result.packets.ports[name.index(out)].longest_queue
    recorded = [event for event in result.timeline()["traceEvents"] if event["ph"] == "C"]
    assert {event["name"].split(": ")[0] for event in recorded} == {out, into[2]}
    rates = [e for e in recorded if e["name"] == f"{out}: rate (GB/s)"]
    ends = [*(e["ts"] for e in rates[1:]), result.time_ps / US]
    sent = sum(
        e["args"]["value"] * 1e3 * (end - e["ts"]) for e, end in zip(rates, ends, strict=True)
    )
    assert sent == pytest.approx(7 * 300 * PACKET, rel=2e-3)


@pytest.mark.parametrize(
    ("watch", "fidelity", "names"),
    [
        ("NPU 3 -> NPU 0", "packet", ["watch[0]", "NPU 3 -> NPU 0", "did you mean 'NPU 3"]),
        ("NPU 3", "flow", ["watch: ", "fidelity=packet"]),
        ("NPU 3", "phase", ["watch: "]),
    ],
)
def test_links_that_nobody_can_watch_are_refused(
    watch: str, fidelity: str, names: list[str]
) -> None:
    work = messages((4,), (1000, 0, 1))
    with pytest.raises(DimsweepError) as error:
        simulate(work, cluster("Switch(4)"), fidelity=fidelity, watch=[watch])
    assert all(name in str(error.value) for name in names)


# --- what cannot be simulated --------------------------------------------------------------------


def test_tcp_sends_again_what_shallow_switches_drop() -> None:
    def result(buffer: float, rto_min: int = 200 * 1000 * US) -> Result:
        reno = PacketModel("reno", buffer=buffer, rto_min=rto_min)
        clos = (Clos(2, 4, oversubscription=2.0),)
        on = cluster("Switch(16)", "direct", fabrics=clos, packets=reno)
        return run(ALL_TO_ALL, 2e6, on, "packet")

    ample, shallow, tuned = result(32e6), result(50e3), result(50e3, rto_min=1000 * US)
    assert ample.packets.dropped == ample.packets.timeouts.sum() == 0
    assert len(ample.packets.timeouts) == 16 * 15 and len(ample.packets.ports) == len(ample.links)
    assert shallow.packets.dropped > 0 and shallow.packets.timeouts.sum() > 0
    # A time-out costs what it lasts at least, and all else is done in milliseconds.
    assert ample.time < tuned.time < 0.02 < 0.2 < shallow.time
    assert run(ALL_TO_ALL, 2e6, cluster("Switch(16)", "direct"), "message").packets is None


def test_a_transports_keys_reach_the_kernel() -> None:
    """A window of one segment at first takes some round trips more."""

    def time(reno: Reno) -> float:
        on = cluster("Switch(4)", "direct", packets=PacketModel(reno, rto_min=1000 * US))
        return run(ALL_TO_ALL, 2e5, on, "packet").time

    assert time(Reno(first_window=1.0)) > time(Reno()) == time(Reno(duplicates=9))
    with refused("least_rto", "conflict", "rto_min"):
        time(Reno(least_rto=1000 * US))


def test_buffers_are_told_by_dimension_and_by_level() -> None:
    """Only what crosses a spine finds no room, if the spines alone are shallow."""
    reno = partial(PacketModel, "reno", rto_min=1000 * US)
    ample, shallow = 32e6, 5e3

    def dropped_by(buffer: object) -> set[str]:
        fabrics = (Auto(), Clos(2, 4, oversubscription=2.0))
        on = cluster("Switch(2)_Switch(8)", "direct", fabrics=fabrics, packets=reno(buffer=buffer))
        result = run(ALL_TO_ALL, 1e6, on, "packet")
        packets = zip(result.links, result.packets.ports, strict=True)
        return {str(link.link.source).split()[0] for link, port in packets if port.dropped}

    assert dropped_by((ample, ample)) == dropped_by(ample) == set()
    assert dropped_by((ample, (ample, shallow))) == {"spine"}
    assert dropped_by((ample, (shallow, ample))) == {"leaf"}
    assert dropped_by((ample, shallow)) == dropped_by((ample, (shallow, shallow))) != set()


def test_a_graph_without_dimensions_has_levels_only() -> None:
    clos = build_network(topology("Switch(4)"), (Clos(2, 2),)).graph
    for _, _, link in clos.edges(data=True):
        del link["dim"]
    packets = PacketModel(buffer=((1e6, 2e6),))
    found = buffers_of(Network(clos), packets)
    assert {name.split()[0]: size for name, size in found.items()} == {
        "leaf": 10**6,
        "spine": 2 * 10**6,
    }


@pytest.mark.parametrize(
    ("buffer", "where", "names"),
    [
        ((1e6,), "network.packets.buffer", ["1 values", "2"]),
        ((), "network.packets.buffer", ["0 values", "2"]),
        ((1e6, (1e6, 1e6)), "network.packets.buffer[1]", ["2 values", "1"]),
    ],
)
def test_buffers_of_other_dimensions_are_refused(
    buffer: tuple[object, ...], where: str, names: list[str]
) -> None:
    on = cluster("Ring(2)_Switch(2)", packets=PacketModel(buffer=buffer))
    with refused(where, "mismatch", *names):
        run(ALL_REDUCE, 1e3, on, "packet")


@pytest.mark.parametrize("fidelity", ["flow", "packet"])
def test_switches_that_reduce_are_refused(fidelity: str) -> None:
    with refused("fidelity", "unsupported", "fidelity=message"):
        run(ALL_REDUCE, 1e6, cluster("Switch(4)", "in_switch"), fidelity)


@pytest.mark.parametrize(
    ("packets", "told"),
    [
        ({"kmin": 2e6, "kmax": 1e6}, "kmin: 2e.06 bytes; it must be less than kmax, 1e.06"),
        ({"kmin": 1e5}, "kmax: give both"),
        ({"pmax": 2.0}, "pmax"),
        ({"pauses": False}, "pauses: dcqcn does not retransmit"),
        ({"trim": True}, "trim: dcqcn does not request"),
        ({"trim": True, "transport": "nscc", "pauses": True}, "trim: switches that pause"),
        ({"transport": "nscc", "window": False}, "window: nscc needs"),
        ({"buffer": 1000}, "buffer: 1000 bytes; it must hold a packet of 1048"),
        (
            {"buffer": (1e6, (1e6, 1000))},
            r"buffer\[1\]\[1\]: 1000 bytes",
        ),
        ({"payload": 0.5}, "payload"),
        ({"priorities": 0}, "priorities: 0; it must be from 1 to 3"),
        ({"priorities": 4}, "priorities: 4; it must be from 1 to 3"),
        ({"rto_min": 0}, "rto_min: 0 s; it must be more than 0 s and at most 60 s"),
        ({"rto_min": 61_000_000 * US}, "rto_min: 61 s; it must be more than 0 s"),
        ({"header": 1 << 30}, "header"),
        ({"transport": "hpcc", "window": False}, "window: hpcc needs"),
    ],
)
def test_numbers_that_are_no_packets_are_named(packets: dict[str, object], told: str) -> None:
    with pytest.raises(DimsweepError, match=told):
        PacketModel(**packets)


@pytest.mark.parametrize(
    ("network", "where", "code", "names"),
    [
        (
            {"packets": PacketModel(buffer=60_000)},
            "network.packets.buffer",
            "out-of-range",
            ["8 ports", "1,200,000"],
        ),
        (
            {"packets": PacketModel(buffer=2_000_000, priorities=2)},
            "network.packets.buffer",
            "out-of-range",
            ["8 ports", "2,400,000", "2 priorities"],
        ),
        ({"max_packets": 10_000}, "network.max_packets", "too-many", ["14 MB", "112"]),
    ],
)
def test_what_a_run_cannot_be_is_said_before_it_starts(
    network: dict[str, object], where: str, code: Code, names: list[str]
) -> None:
    with refused(where, code, *names):
        run(ALL_REDUCE, 1e6, cluster("Switch(8)", "ring", **network), "packet")


def test_marks_follow_the_rate_as_published() -> None:
    model = PacketModel()
    published = {25: (100, 400), 100: (400, 1600), 200: (600, 2400), 400: (800, 3200)}
    for rate, (kmin, kmax) in (published | {2400: (800, 3200)}).items():
        assert model.thresholds(rate * 1e9) == (kmin * 1000, kmax * 1000, 0.2)
    assert PacketModel(kmin=1e3, kmax=2e3, pmax=0.1).thresholds(1e9) == (1000, 2000, 0.1)


def test_marks_may_be_told_of_each_rate() -> None:
    model = PacketModel(marks=(Mark(25 * 10**9, 1e5, 4e5), Mark(10**11, 2e5, 3e5, 0.8)))
    assert model.thresholds(1e11) == (200_000, 300_000, 0.8)
    with pytest.raises(DimsweepError, match="no marks of a port of 50,000,000,000 bit/s"):
        model.thresholds(5e10)
    with pytest.raises(DimsweepError, match="not both"):
        PacketModel(kmin=1e3, kmax=2e3, marks=model.marks)
