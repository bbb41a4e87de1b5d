"""Messages on links, whatever they are for: nothing is lost, nothing is faster than links allow."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    DimsweepError,
    GraphBuilder,
    Group,
    Topology,
    Workload,
    lower,
    run_one,
)
from dimsweep.engine.cluster.network_model import NetworkModel, Switching
from dimsweep.engine.kernels.messages import lower_by_rank
from dimsweep.engine.kernels.network import run_messages
from dimsweep.engine.network.degrade import Change, Selection, degrade_network
from dimsweep.engine.network.fabric import Auto, Clos, Dragonfly, Mesh, build_network
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import Router, Routing
from tests.support.examples import examples
from tests.support.messages import Sending, carry, line_of, nothing_is_lost
from tests.support.programs import topologies
from tests.support.refused import refused

PER_BYTE = 256  # ps
BANDWIDTH = 1e12 / PER_BYTE


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """What the house builds, and graphs that it does not: two rings of another direction each."""
    kind = draw(st.sampled_from(["dims", "mesh", "clos", "clos3", "dragonfly", "one way"]))
    if kind == "dims":
        topology = draw(topologies(max_npus=16, max_dims=3, exact=True))
        if topology.n_npus > 1:
            return build_network(topology)
    if kind == "one way":
        return _one_way(draw(st.integers(3, 6)))
    shape, fabrics = {
        "mesh": ("Ring(4)_Ring(3)", (Mesh(), Auto())),
        "clos": ("Ring(2)_Switch(8)", (Auto(), Clos(2, 4, oversubscription=2.0))),
        "clos3": ("Switch(16)", (Clos(3, 4, 2),)),
        "dragonfly": ("Switch(12)", (Dragonfly(2, 2),)),
        "dims": ("Ring(4)", ()),
    }[kind]
    n = shape.count("(")
    return build_network(
        Topology.build(shape, bandwidth=[BANDWIDTH] * n, latency=[1000] * n), fabrics
    )


def _one_way(n: int) -> Network:
    """A ring of one direction, and a slower one of the other through switches."""
    graph = nx.DiGraph()
    for i in range(n):
        graph.add_edge(i, (i + 1) % n, bandwidth=BANDWIDTH, latency=1000 * i)
        graph.add_edge(i, f"switch {i}", bandwidth=BANDWIDTH / 4, latency=10)
        graph.add_edge(f"switch {i}", (i - 1) % n, bandwidth=BANDWIDTH / 2, latency=0)
    return Network(graph)


@st.composite
def loads(draw: st.DrawFn) -> tuple[Network, list[Sending]]:
    network = draw(networks())
    npus = st.integers(0, network.n_npus - 1)
    size = st.sampled_from([0, 1, 1000, 4096])
    sendings = st.builds(Sending, npus, npus, size, precedence=st.just(0), at=st.just(0))
    drawn = draw(st.lists(sendings, min_size=1, max_size=30))
    return network, [sending for sending in drawn if sending.source != sending.target]


switching = st.builds(
    NetworkModel,
    routing=st.sampled_from([Routing.SHORTEST, Routing.ECMP]),
    switching=st.sampled_from(list(Switching)),
    packet=st.sampled_from([0.0, 300.0]),
    window=st.sampled_from([None, 1, 3]),
    # So much that none is ever full, so there can be no circle; messages still come in parts.
    buffer=st.sampled_from([None, 40 * 4096.0]),
)


@examples(40)
@given(loads(), switching)
def test_every_node_passes_on_what_is_not_for_it(
    load: tuple[Network, list[Sending]], model: NetworkModel
) -> None:
    network, sendings = load
    carried = carry(network, sendings, model)
    assert min(carried.arrivals, default=0) >= 0  # all have arrived
    assert nothing_is_lost(carried, sendings)


@examples(40)
@given(loads(), switching, st.integers(1, 2), st.integers(0, 9), st.booleans())
def test_nothing_is_lost_on_what_is_left_and_nobody_alone_is_faster(
    load: tuple[Network, list[Sending]], model: NetworkModel, draw: int, seed: int, slower: bool
) -> None:
    """Where all links are alike: else a way round may have the faster ones (docs/model)."""
    network, sendings = load
    assume(len({link.bandwidth for link in network.links}) == 1)
    changes = [Change(link=Selection(draw=draw, seed=seed), down=True)]
    if slower:
        changes.append(Change(link=Selection(draw=draw, seed=seed + 10), bandwidth=0.5))
    try:
        rest = degrade_network(network, changes)
    except DimsweepError:  # in parts
        assume(False)
    assert nothing_is_lost(carry(rest, sendings, model), sendings)
    for sending in sendings[:3]:
        before, after = (carry(each, [sending], model).last for each in (network, rest))
        assert before <= after


@examples(40)
@given(loads(), switching)
def test_a_link_carries_one_message_at_a_time(
    load: tuple[Network, list[Sending]], model: NetworkModel
) -> None:
    for wire in carry(*load, model).wires:
        ends = [0, *(span.end for span in wire.spans)]
        starts = [*(span.start for span in wire.spans), ends[-1]]
        assert all(end <= start for end, start in zip(ends, starts, strict=True))
        assert wire.busy == sum(span.end - span.start for span in wire.spans)
        # Transfers are whole picoseconds here, so there is nothing to round.
        assert wire.n_bytes * 1e12 <= wire.link.bandwidth * wire.busy


@examples(40)
@given(loads(), switching)
def test_nobody_arrives_before_it_would_alone(
    load: tuple[Network, list[Sending]], model: NetworkModel
) -> None:
    network, sendings = load
    together = carry(network, sendings, model).arrivals
    alone = [carry(network, [sending], model).last for sending in sendings]
    assert all(a <= b for a, b in zip(alone, together, strict=True))


@examples(40)
@given(loads(), st.sampled_from(list(Switching)))
def test_the_busiest_link_is_a_lower_bound_and_turns_an_upper_one(
    load: tuple[Network, list[Sending]], way: Switching
) -> None:
    network, sendings = load
    router = Router(network, Routing.SHORTEST)
    model = NetworkModel(routing=Routing.SHORTEST, switching=way)
    on_link: Counter[int] = Counter()
    one_by_one = 0
    for source, target, n_bytes, *_ in sendings:
        for number in router.route(source, target):
            transfer = round(n_bytes * 1e12 / network.links[number].bandwidth)
            on_link[number] += transfer
            one_by_one += transfer + network.links[number].latency
    last = max(carry(network, sendings, model).arrivals, default=0)
    assert max(on_link.values(), default=0) <= last <= one_by_one


@examples(40)
@given(loads(), switching)
def test_twice_as_fast_takes_half_as_long(
    load: tuple[Network, list[Sending]], model: NetworkModel
) -> None:
    network, sendings = load
    slow = nx.DiGraph()
    slow.add_nodes_from(range(network.n_npus))
    for link in network.links:
        slow.add_edge(
            link.source, link.target, bandwidth=link.bandwidth / 2, latency=2 * link.latency
        )
    twice = [2 * time for time in carry(network, sendings, model).arrivals]
    assert carry(Network(slow), sendings, model).arrivals == twice


@examples(40)
@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=10),
    st.integers(0, 10_000),
    st.lists(st.floats(1e6, 1e12), min_size=2, max_size=2),
    switching,
)
def test_more_bandwidth_on_the_only_link_never_costs_time(
    sizes: list[int], latency: int, bandwidths: list[float], model: NetworkModel
) -> None:
    sendings = [Sending(0, 1, size) for size in sizes]
    slow, fast = (
        carry(line_of([(bandwidth, latency)]), sendings, model).arrivals
        for bandwidth in sorted(bandwidths)
    )
    assert all(a <= b for a, b in zip(fast, slow, strict=True))


# --- finite buffers ------------------------------------------------------------------------------


TURN = 500 * PER_BYTE  # of a message on a link


def around_a_hot_spot(buffer: float | None) -> list[int]:
    """When four messages from NPU 0 to the slow NPU 2 arrive (in turns), and one from 1 to 3.

    NPUs 0 and 1 are at leaf a, 2 and 3 at leaf b.
    """
    slowness = {(1, "a"): 3.5, ("b", 2): 10}
    graph = nx.DiGraph()
    for ends in ((0, "a"), (1, "a"), (2, "b"), (3, "b"), ("a", "b")):
        for link in (ends, ends[::-1]):
            graph.add_edge(*link, bandwidth=BANDWIDTH / slowness.get(link, 1), latency=0)
    model = NetworkModel(switching=Switching.STORE_AND_FORWARD, buffer=buffer)
    slow = [Sending(0, 2, 500)] * 4
    carried = carry(Network(graph), [*slow, Sending(1, 3, 500)], model)
    assert {w.n_bytes for w in carried.wires if w.link.source == "a"} == {0, 2500}
    return [end // TURN for end in carried.arrivals]


def test_who_stands_behind_a_hot_spot_waits_for_room() -> None:
    assert around_a_hot_spot(None) == [12, 22, 32, 42, 6]
    # Leaf b has room for two messages.  The third goes there at 12, when the first has left for
    # good, and the innocent one behind it at 22, when the second has.
    assert around_a_hot_spot(1000) == [12, 22, 32, 42, 24]
    assert around_a_hot_spot(5000) == [12, 22, 32, 42, 6]  # room for all


@pytest.mark.parametrize(
    ("buffer", "parts"), [(8192, 1), (8191, 2), (4096, 2), (4095, 3), (100, 82)]
)
def test_a_large_message_travels_in_parts_of_half_a_buffer(buffer: float, parts: int) -> None:
    """As a pipeline: the parts one after another on the first link, the last one on all."""
    model = NetworkModel(switching=Switching.STORE_AND_FORWARD, buffer=buffer)
    carried = carry(line_of([(1e12, 0)] * 3), [Sending(0, 1, 4096.0)], model)
    assert [len(wire.spans) for wire in carried.wires if wire.n_bytes] == [parts] * 3
    transfer = round(4096 / parts)
    assert carried.last == (parts + 2) * transfer
    assert sum(wire.n_bytes for wire in carried.wires) == pytest.approx(3 * 4096)


def test_parts_count_as_messages() -> None:
    model = NetworkModel(buffer=2.0, max_messages=1000)
    carry(line_of([(1e12, 0)] * 2), [Sending(0, 1, 1000.0)], model)
    with refused("network.max_messages", "too-many", "1,001"):
        carry(line_of([(1e12, 0)] * 2), [Sending(0, 1, 1001.0)], model)


def test_a_buffer_may_be_smaller_than_a_byte() -> None:
    graph = nx.DiGraph()
    for ends in ((0, "s"), ("s", 0), (1, "s"), ("s", 1)):
        graph.add_edge(*ends, bandwidth=1e12, latency=0, buffer=0.5)
    assert carry(Network(graph), [Sending(0, 1, 10.0)], NetworkModel()).last >= 10


def test_a_link_may_have_a_buffer_of_its_own() -> None:
    network = line_of([(BANDWIDTH, 0)] * 2)
    for link in (("switch 1", 0), (0, "switch 1")):
        network.graph.edges[link]["buffer"] = 100.0
    model = NetworkModel(buffer=1e6)
    carried = carry(Network(network.graph), [Sending(0, 1, 1000.0)], model)
    assert {len(wire.spans) for wire in carried.wires} == {0, 20}


# --- what cannot finish --------------------------------------------------------------------------


def told(run: object, workload: Workload) -> str:
    topology = Topology.build("Switch(3)_Ring(2)", bandwidth=[1e9] * 2, latency=[10, 10])
    program = lower(workload, Cluster(topology), fold=False)
    with pytest.raises(DimsweepError) as caught:
        run(program)
    return str(caught.value)


def test_both_kernels_tell_alike_who_waits_for_whom() -> None:
    """Three collectives on one stream, in an order of its own on each of three ranks."""
    groups = {"a": Group((3, 1), (1, 1)), "b": Group((3, 2), (1, 1))}
    graphs = []
    for turn in range(3):
        builder = GraphBuilder()
        for i in range(3):
            name = "xyz"[(turn + i) % 3]
            work = Collective(CollectiveKind.ALL_REDUCE, 1e3, "ab"[name == "z"], stream=name)
            builder.add(name, work, [i - 1] if i else [])
        graphs.append(builder.build())
    workload = Workload(tuple(graphs), groups, np.array([0, 1, 2, 0, 1, 2]))
    by_phase = told(run_one, workload)
    assert by_phase == told(run_messages, workload)
    assert "deadlock: 0 of 18" in by_phase


@pytest.mark.parametrize("n", [3, 4, 6])
def test_a_circle_of_full_buffers_names_all_its_links(n: int) -> None:
    """Everyone sends to all others round a ring of one direction, with room for an eighth of that
    at each."""
    graph = nx.DiGraph()
    for i in range(n):
        graph.add_edge(i, (i + 1) % n, bandwidth=1e12, latency=0)
    groups = {"all": Group((n,), (1,))}
    builder = GraphBuilder()
    builder.add("exchange", Collective(CollectiveKind.ALL_TO_ALL, 8000.0 * n, "all"))
    one_chunk = CollectiveModel(chunks=1)
    model = NetworkModel(graph=Network(graph), switching=Switching.STORE_AND_FORWARD, buffer=1000.0)
    topology = Topology.build(f"Switch({n})", bandwidth=[1e12], latency=[0])
    with pytest.raises(DimsweepError) as caught:
        run_messages(
            lower_by_rank(
                Workload((builder.build(),), groups),
                Cluster(topology, collectives=one_chunk, network=model),
            )
        )
    message = str(caught.value)
    assert caught.value.where == "network.buffer"
    for i in range(n):
        assert f"NPU {i} -> NPU {(i + 1) % n}: a message of 'exchange'" in message


def test_the_same_circle_goes_on_with_room() -> None:
    """As much room as all that may ever wait there."""
    n = 4
    graph = nx.DiGraph()
    for i in range(n):
        graph.add_edge(i, (i + 1) % n, bandwidth=1e12, latency=0)
    sendings = [Sending(i, (i + j) % n, 1000) for i in range(n) for j in range(1, n)]
    model = NetworkModel(switching=Switching.STORE_AND_FORWARD, buffer=2.0 * n * n * 1000)
    # Every link carries 1 + 2 + 3 messages, and is never idle.
    assert carry(Network(graph), sendings, model).last == 6 * 1000
