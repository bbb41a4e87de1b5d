"""Messages that are suspended for those of a lower precedence: by hand, and what always holds."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Access,
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    DimsweepError,
    GraphBuilder,
    Topology,
    Workload,
    place,
)
from dimsweep.engine.cluster.network_model import NetworkModel, Switching
from dimsweep.engine.cluster.remote_memory import EdgeIo
from dimsweep.engine.extensions.wafer import FredWafer, MeshWafer
from dimsweep.engine.kernels.messages import MessageRun, lower_by_rank
from dimsweep.engine.kernels.network import run_messages
from dimsweep.engine.kernels.reference import run_on_simpy
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.kernels.reference.links import LinkTransport, Wire
from dimsweep.engine.kernels.reference.transport import Message, Switched
from dimsweep.engine.kernels.reference.transport import Sending as Sent
from dimsweep.engine.network import Interconnect
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import Routing
from dimsweep.engine.topology import Node
from tests.support.examples import examples
from tests.support.messages import Carried, Sending, carry, nothing_is_lost

# Messages of tests travel on any network; the wafer only says that they preempt.
ON = NetworkModel(interconnect=MeshWafer(preempts=True), routing=Routing.SHORTEST)
OFF = dataclasses.replace(ON, interconnect=MeshWafer())


def star(slowness: dict[tuple[Node, Node], int] | None = None) -> Network:
    """NPUs 0 to 3 at a switch; links take 1 ps a byte, or as many as ``slowness`` says."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(4))
    for npu in range(4):
        for ends in ((npu, "s"), ("s", npu)):
            graph.add_edge(*ends, bandwidth=1e12 / (slowness or {}).get(ends, 1), latency=0)
    return Network(graph)


def held(carried: Carried, source: Node, target: Node) -> list[tuple[int, int, str]]:
    """When which message held a link."""
    (wire,) = (w for w in carried.wires if (w.link.source, w.link.target) == (source, target))
    return [tuple(span) for span in wire.spans]


# --- one link ------------------------------------------------------------------------------------


def on_one_link(*messages: tuple[int, int, int]) -> list[tuple[int, int, str]]:
    """When (precedence, bytes, time of sending) of each held the link from NPU 0."""
    sendings = [Sending(0, 1, size, precedence, at) for precedence, size, at in messages]
    carried = carry(star(), sendings, ON)
    spans = held(carried, 0, "s")
    for number, arrival in enumerate(carried.arrivals):
        assert arrival == max(end for _, end, name in spans if name == str(number))
    return spans


def test_a_message_makes_way_at_once_and_then_goes_on() -> None:
    assert on_one_link((2, 100, 0), (0, 30, 40)) == [(0, 40, "0"), (40, 70, "1"), (70, 130, "0")]


def test_three_precedences_are_nested() -> None:
    assert on_one_link((2, 100, 0), (1, 50, 10), (0, 20, 30)) == [
        (0, 10, "0"),
        (10, 30, "1"),
        (30, 50, "2"),
        (50, 80, "1"),
        (80, 170, "0"),
    ]


def test_equal_precedences_never_preempt() -> None:
    assert on_one_link((1, 100, 0), (1, 50, 10)) == [(0, 100, "0"), (100, 150, "1")]
    assert on_one_link((0, 100, 0), (1, 50, 10)) == [(0, 100, "0"), (100, 150, "1")]


@pytest.mark.parametrize("first", [0, 1])
def test_what_comes_exactly_when_another_ends_finds_it_gone(first: int) -> None:
    """Whoever was planned first."""
    ends_then = (2, 100, 0), (0, 30, 100)
    spans = on_one_link(*(ends_then if first else ends_then[::-1]))
    assert [span[:2] for span in spans] == [(0, 100), (100, 130)]


def test_what_comes_at_the_same_instant_goes_first() -> None:
    assert on_one_link((2, 100, 0), (0, 30, 0)) == [(0, 30, "1"), (30, 130, "0")]
    assert on_one_link((2, 9, 0), (1, 9, 0), (0, 9, 0))[-1] == (18, 27, "0")


def test_what_was_suspended_goes_on_before_its_equals_and_after_all_others() -> None:
    spans = on_one_link((2, 100, 0), (2, 10, 5), (0, 20, 10), (1, 20, 15))
    assert spans == [
        (0, 10, "0"),
        (10, 30, "2"),
        (30, 50, "3"),
        (50, 140, "0"),
        (140, 150, "1"),
    ]


# --- two links -----------------------------------------------------------------------------------


def test_what_is_suspended_on_the_first_link_comes_later_on_the_second() -> None:
    carried = carry(star(), [Sending(0, 1, 100, 2), Sending(0, 2, 30, 0, 40)], ON)
    assert carried.arrivals == [130, 70]
    assert held(carried, "s", 1) == [(0, 130, "0")]


def test_what_is_suspended_on_the_second_link_goes_on_over_the_first() -> None:
    carried = carry(star(), [Sending(0, 1, 100, 2), Sending(2, 1, 30, 0, 40)], ON)
    assert carried.arrivals == [130, 70]
    assert held(carried, 0, "s") == [(0, 100, "0")]
    assert held(carried, "s", 1) == [(0, 40, "0"), (40, 70, "1"), (70, 130, "0")]


def test_a_slow_link_cannot_make_up_for_bytes_that_came_late() -> None:
    """Ten bytes come by 10, and are on the slow link by 100; the others come from 1010 on."""
    slow = {("s", 1): 10}
    carried = carry(star(slow), [Sending(0, 1, 100, 2), Sending(0, 2, 1000, 0, 10)], ON)
    assert held(carried, 0, "s")[-1] == (1010, 1100, "0")
    assert carried.arrivals[0] == 1010 + 900


def test_a_fast_link_has_not_sent_what_had_not_come() -> None:
    """By 500 half of the message has come; the other half is there, or comes, when it goes on."""
    slow = {(0, "s"): 10}
    sendings = [Sending(0, 1, 100, 2), Sending(2, 1, 600, 0, 500)]
    assert carry(star(slow), sendings, ON).arrivals == [1100 + 50, 1100]
    sendings[1] = Sending(2, 1, 100, 0, 500)
    assert carry(star(slow), sendings, ON).arrivals == [1000, 600]  # with bytes to spare


@pytest.mark.parametrize(
    ("switching", "packet", "arrival"),
    [(Switching.CUT_THROUGH, 10.0, 140), (Switching.STORE_AND_FORWARD, 0.0, 230)],
)
def test_packets_wait_for_what_is_suspended(
    switching: Switching, packet: float, arrival: int
) -> None:
    model = dataclasses.replace(ON, switching=switching, packet=packet)
    carried = carry(star(), [Sending(0, 1, 100, 2), Sending(0, 2, 30, 0, 40)], model)
    assert carried.arrivals[0] == arrival


def test_the_last_packet_is_sent_when_it_has_come() -> None:
    """All but ten of a hundred bytes had come by 1000; five of these are sent by 1005."""
    model = dataclasses.replace(ON, packet=10.0)
    sendings = [Sending(0, 1, 100, 2), Sending(2, 1, 30, 0, 995)]
    carried = carry(star({(0, "s"): 10}), sendings, model)
    assert carried.arrivals == [1040, 1035]


def test_a_reduction_waits_for_the_member_that_is_suspended() -> None:
    clock = Clock()
    reduces = dataclasses.replace(ON, interconnect=FredWafer(preempts=True))
    transport = LinkTransport(clock, star(), reduces, record=True)
    came: dict[int, int] = {}
    message = Message(100, "sum", (2, 0))
    told = {"left": lambda _: None, "arrived": lambda npu, _: came.setdefault(npu, clock.ps)}
    transport.send_through_switch(Switched([0, 1], message, [0, 1], message, **told))
    told = {"left": lambda: None, "arrived": lambda late: came.setdefault(2, clock.ps + late)}
    first = Sent(Message(30, "first"), 0, 2, dim=0, way=0, **told)
    clock.call_later(40, partial(transport.send, first))
    clock.run()
    assert came == {0: 130, 1: 130, 2: 70}


# --- what always holds ---------------------------------------------------------------------------

PER_BYTE = 256  # ps, so that transfers are whole
GRID = MeshWafer(columns=3, rows=2, link=1e12 / PER_BYTE, latency=70).network


@st.composite
def loads(draw: st.DrawFn, n_precedences: int = 3) -> tuple[Network, list[Sending]]:
    if draw(st.booleans()):
        speed = st.sampled_from([128, 256, 1024])
        network = star({(a, b): draw(speed) for n in range(4) for a, b in ((n, "s"), ("s", n))})
    else:
        network = GRID
    npus = st.integers(0, network.n_npus - 1)
    size, at = st.sampled_from([0, 1, 1000, 4096]), st.integers(0, 8).map((500 * PER_BYTE).__mul__)
    precedence = st.integers(0, n_precedences - 1)
    some = st.builds(Sending, npus, npus, size, precedence, at | st.integers(0, 9))
    drawn = draw(st.lists(some, min_size=1, max_size=20))
    return network, [sending for sending in drawn if sending.source != sending.target]


Holds = Sequence[tuple[int, int]]
cut = st.sampled_from(
    [
        ON,
        dataclasses.replace(ON, packet=300.0),
        dataclasses.replace(ON, switching=Switching.STORE_AND_FORWARD),
    ]
)


def of_messages(wire: Wire) -> Counter[str]:
    """How long each message held a link."""
    found: Counter[str] = Counter()
    for start, end, name in wire.spans:
        found[name] += end - start
    return found


@examples(60)
@given(loads(), cut)
def test_links_carry_everything_once_and_one_at_a_time(
    load: tuple[Network, list[Sending]], model: NetworkModel
) -> None:
    network, sendings = load
    carried = carry(network, sendings, model)
    assert nothing_is_lost(carried, sendings)
    for wire in carried.wires:
        ends = [0, *(span.end for span in wire.spans)]
        assert all(end <= span.start for end, span in zip(ends, wire.spans, strict=False))
        assert wire.busy == sum(of_messages(wire).values())
        for name, ps in of_messages(wire).items():
            assert ps >= wire.transfer(sendings[int(name)].n_bytes)
            if wire.link.source == sendings[int(name)].source:  # where all bytes are there
                assert ps == wire.transfer(sendings[int(name)].n_bytes)
    alone = (carry(network, [sending], model).last for sending in sendings)
    assert all(a <= b for a, b in zip(alone, carried.arrivals, strict=True))
    assert [w.spans for w in carry(network, sendings, model).wires] == [
        wire.spans for wire in carried.wires
    ]


@examples(60)
@given(loads(), cut)
def test_nobody_notices_those_who_go_later(
    load: tuple[Network, list[Sending]], model: NetworkModel
) -> None:
    network, sendings = load
    arrivals = carry(network, sendings, model).arrivals
    for precedence in range(2):
        own = [i for i, sending in enumerate(sendings) if sending.precedence <= precedence]
        alone = carry(network, [sendings[i] for i in own], model).arrivals
        assert alone == [arrivals[i] for i in own]


@examples(40)
@given(loads(1), cut)
def test_one_precedence_alone_sees_no_difference(
    load: tuple[Network, list[Sending]], model: NetworkModel
) -> None:
    on = carry(*load, model)
    off = carry(*load, dataclasses.replace(model, interconnect=OFF.interconnect))
    assert on.arrivals == off.arrivals
    assert [wire.spans for wire in on.wires] == [wire.spans for wire in off.wires]


def sent(time: int, holds: Sequence[Holds], transfers: Sequence[int]) -> Fraction:
    """The share of a fluid that is on the last of some links by a time, if each sends as fast as
    it can while it holds the link: of what had come by any earlier time, and what it could send
    from then on, the least.  (min-plus convolution; slopes change where holds do.)"""
    times = sorted({0, time, *(t for hold in holds for span in hold for t in span if t <= time)})
    come = dict.fromkeys(times, Fraction(1))
    for hold, transfer in zip(holds, transfers, strict=True):
        least, on_link = Fraction(0), {}
        for t in times:
            could = Fraction(sum(max(0, min(end, t) - start) for start, end in hold), transfer)
            least = min(least, come[t] - could)
            on_link[t] = least + could
        come = on_link
    return come[time]


@examples(60)
@given(
    st.lists(st.sampled_from([64, 256, 1024]), min_size=2, max_size=4),
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2_000_000), st.integers(1, 2000)), max_size=8
    ),
)
def test_a_suspended_message_flows_as_a_fluid(
    slowness: list[int], others: list[tuple[int, int, int]]
) -> None:
    """One message goes along a line of NPUs, and others over a link of it each; it leaves each
    link just when all that could have come can have been sent."""
    n = len(slowness)
    graph = nx.DiGraph()
    for i, slow in enumerate(slowness):
        graph.add_edge(i, i + 1, bandwidth=1e12 / slow, latency=0)
        graph.add_edge(i + 1, i, bandwidth=1e12, latency=0)
    short = [Sending(i % n, i % n + 1, size, 0, at) for i, at, size in others]
    carried = carry(Network(graph), [Sending(0, n, 1000, 2), *short], ON)
    holds: dict[Node, list[tuple[int, int]]] = defaultdict(list)
    for wire in carried.wires:
        spans = [(span.start, span.end) for span in wire.spans if span.name == "0"]
        holds[wire.link.source] += spans
    transfers = [1000 * slow for slow in slowness]
    for last in range(n):
        until = holds[last][-1][1]
        before = [holds[i] for i in range(last + 1)], transfers[: last + 1]
        # What is counted on a link is rounded to its picoseconds, once a suspension and a link.
        slack = (len(others) + 1) * (last + 1)
        assert sent(until + slack, *before) > 1 - Fraction(slack, min(transfers))
        assert sent(until - slack - 1, *before) < 1


# --- on wafers -----------------------------------------------------------------------------------

WAFERS = (
    MeshWafer(columns=3, rows=2, latency=100, pieces=8, preempts=True),
    FredWafer(3, 2, latency=100, controllers=4, pieces=8, preempts=True),
    FredWafer(3, 2, trunk=3e12, reduces=False, controllers=4, pieces=8, preempts=True),
)


def on_wafer(wafer: Interconnect, *works: Collective | Access, chunks: int = 2) -> MessageRun:
    """Ranks of two tensor-parallel halves, with three replicas, do all of it at once."""
    graph = GraphBuilder()
    for number, work in enumerate(works):
        graph.add(str(number), work)
    sizes = (2, 3)
    topology = Topology.build("Switch(2)_Switch(3)", bandwidth=[3e12] * 2, latency=[0, 0])
    cluster = Cluster(
        topology,
        collectives=CollectiveModel(chunks=chunks),
        network=NetworkModel(interconnect=wafer),
        memory=EdgeIo(wafer.stream_bandwidth),
    )
    workload = Workload((graph.build(),), place({"tensor": 2, "data": 3}, sizes))
    return run_messages(lower_by_rank(workload, cluster))


TENSOR = Collective(CollectiveKind.ALL_REDUCE, 1e7, "tensor", stream="tensor")
DATA = Collective(CollectiveKind.ALL_REDUCE, 3e8, "data", stream="data")
LOAD = Access(2e7, group="data", shared=True)


@pytest.mark.parametrize("wafer", WAFERS)
def test_tensor_parallelism_does_not_notice_what_else_there_is(wafer: Interconnect) -> None:
    alone, together = on_wafer(wafer, TENSOR), on_wafer(wafer, TENSOR, DATA, LOAD)
    other = on_wafer(dataclasses.replace(wafer, preempts=False), TENSOR, DATA, LOAD)  # type: ignore[type-var]
    end, preempted, waited = (
        max(span.end for span in run.operators[:: len(run.operators) // 6])
        for run in (alone, together, other)
    )
    assert end == preempted <= waited
    assert sum(link.n_bytes for link in together.links) == pytest.approx(
        sum(link.n_bytes for link in other.links)
    )


@pytest.mark.parametrize("wafer", WAFERS)
def test_without_two_priorities_nothing_is_suspended(wafer: Interconnect) -> None:
    """What DATA and LOAD send is of one precedence; the witness suspends nothing of it."""
    run = on_wafer(wafer, DATA, LOAD)
    witness, without = (
        run_on_simpy(run.program),
        on_wafer(dataclasses.replace(wafer, preempts=False), DATA, LOAD),  # type: ignore[type-var]
    )
    assert run.operators == witness.operators == without.operators
    assert run.links == witness.links == without.links


def test_finite_buffers_are_refused() -> None:
    with pytest.raises(DimsweepError, match="keep its buffer") as error:
        NetworkModel(interconnect=MeshWafer(preempts=True), buffer=1e6)
    assert error.value.where == "buffer"
    assert "network.wafer.preempts=false" in error.value.hint
