"""Wafers: the closed forms of FRED's paper against the engine, hot spots, placement, refusals."""

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
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
    NetworkModel,
    Send,
    Topology,
    Workload,
    place,
    simulate,
)
from dimsweep.engine.cluster.remote_memory import EdgeIo
from dimsweep.engine.extensions.wafer import (
    FredWafer,
    MeshWafer,
    Remedy,
    UnroutableError,
    plan_trees,
)
from dimsweep.engine.kernels.messages import MessageRun, lower_by_rank
from dimsweep.engine.kernels.reference.links import Turns
from dimsweep.engine.network import Interconnect, compute_busiest_load
from dimsweep.engine.network.routing import Router
from dimsweep.engine.workload.graph import Receive
from tests.support.kernels import run_witnessed

MESH = MeshWafer(latency=0)
A = FredWafer(trunk=1.5e12, reduces=False, latency=0)
B = FredWafer(trunk=1.5e12, latency=0)
C = FredWafer(reduces=False, latency=0)
D = FredWafer(latency=0)
BYTES = 1.2e9
SIZES = (2, 2, 5)  # tensor, pipeline, data


def cluster(wafer: Interconnect, sizes: Sequence[int], **collectives: Any) -> Cluster:
    shape = "_".join(f"Switch({n})" for n in sizes)
    n = len(sizes)
    topology = Topology.build(shape, bandwidth=[3e12] * n, latency=[0] * n)
    model = CollectiveModel(chunks=1, **collectives)
    return Cluster(topology, collectives=model, network=NetworkModel(interconnect=wafer))


def rate(
    wafer: Interconnect,
    group: str,
    sizes: tuple[int, int, int] = SIZES,
    kind: CollectiveKind = CollectiveKind.ALL_REDUCE,
) -> float:
    """GB/s of a collective of all groups along an axis at once: bytes of each member over time."""
    graph = GraphBuilder()
    graph.add("it", Collective(kind, BYTES, group))
    axes = dict(zip(("tensor", "pipeline", "data"), sizes, strict=True))
    workload = Workload((graph.build(),), place(axes, sizes))
    return BYTES / simulate(workload, cluster(wafer, sizes), fidelity="message").time / 1e9


def ring(p: int) -> float:
    """What a ring sends for each byte of an all-reduce."""
    return 2 * (p - 1) / p


# --- effective bandwidth of an NPU (section 8.1 of the paper) ------------------------------------


@pytest.mark.parametrize(("wafer", "expected"), [(C, 3000 / ring(20)), (B, 1500), (D, 3000)])
def test_wafer_wide_all_reduce(wafer: Interconnect, expected: float) -> None:
    """C sends by rings at an NPU's whole bandwidth; in-switch, every byte crosses once: at the
    trunk's bandwidth in B, at the NPU's in D."""
    assert rate(wafer, "data", (1, 1, 20)) == pytest.approx(expected, rel=1e-6)


def test_wafer_wide_on_the_mesh() -> None:
    """Half of the bytes in each order puts 1.0 of all bytes on a row's links, 0.9 on a column's; on
    both alike it would be 0.95, all that the two links of a corner, 1,500 GB/s, can do."""
    found = rate(MESH, "data", (1, 1, 20))
    assert found == pytest.approx(750, rel=1e-6)
    # The block of the same shape, whose parts are in step: neither goes where the other one leaves
    # links idle (see tests/engine/topology/test_grids.py).
    block = Cluster(Topology.build("Mesh2D(5,4)", bandwidth=[3e12], latency=[0]))
    graph = GraphBuilder()
    graph.add("it", Collective(CollectiveKind.ALL_REDUCE, BYTES, "data"))
    by_phase = simulate(Workload((graph.build(),), place({"data": 20}, (20,))), block)
    assert BYTES / by_phase.time / 1e9 == pytest.approx(found / 1.0332, rel=1e-4)


def test_wafer_wide_on_narrow_trunks() -> None:
    """Between L1 switches 0.4 of the bytes cross a lane of 375 GB/s; the rest is hidden but for the
    first and the last of 32 pieces."""
    bound = 375 / 0.4
    assert 0.97 * bound < rate(A, "data", (1, 1, 20)) <= bound


@pytest.mark.parametrize(
    ("wafer", "group", "expected"),
    [
        (MESH, "tensor", 750 / ring(2)),
        (A, "tensor", 3000 / ring(2)),
        (D, "tensor", 3000),
        (MESH, "data", 750 / ring(5)),
        (A, "data", 375 / ring(5)),
        (B, "data", 375),  # 1/1.6 = 0.625 of the ring's traffic: 37.5 % less
        (C, "data", 3000 / ring(5)),
        (D, "data", 3000),
    ],
)
def test_mp2_dp5_pp2(wafer: Interconnect, group: str, expected: float) -> None:
    assert rate(wafer, group) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("wafer", "expected"), [(MESH, 750), (C, 3000), (D, 3000)])
def test_a_message_between_stages(wafer: Interconnect, expected: float) -> None:
    """From rank 0 to rank 2; all others are idle."""
    send, receive, idle = GraphBuilder(), GraphBuilder(), GraphBuilder()
    send.add("send", Send(BYTES, (0, 1, 0)))
    receive.add("receive", Receive((0, 1, 0)))
    graphs = (send.build(), receive.build(), idle.build())
    ranks = np.array([0, 2, 1, *[2] * 17])
    workload = Workload(graphs, graph_of_rank=ranks)
    time = simulate(workload, cluster(wafer, SIZES), fidelity="message").time
    assert BYTES / time / 1e9 == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", [CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER])
def test_in_switch_phases_of_groups_that_share_a_leaf(kind: CollectiveKind) -> None:
    """What goes up, or all that comes down, crosses an NPU's link once."""
    grows = 5 if kind is CollectiveKind.ALL_GATHER else 1
    assert rate(D, "data", kind=kind) == pytest.approx(3000 / grows, rel=1e-2)


def test_in_step_the_phase_kernel_sees_no_congestion_on_fred_d() -> None:
    graph = GraphBuilder()
    graph.add("it", Collective(CollectiveKind.ALL_REDUCE, BYTES, "data"))
    workload = Workload((graph.build(),), place({"data": 20}, (20,)))
    on = cluster(D, (20,))
    by_phase, by_message = (simulate(workload, on, fidelity=f).time for f in ("phase", "message"))
    assert by_phase == pytest.approx(by_message, rel=1e-9)


# --- I/O -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "rows"), [(5, 4), (4, 4), (7, 3), (3, 2)])
def test_the_hot_spot_of_a_mesh(columns: int, rows: int) -> None:
    """(2N - 1) P, N the longer side: 9 * 128 = 1,152 GB/s on a link of 750 at 5 x 4."""
    mesh = MeshWafer(columns=columns, rows=rows)
    assert compute_busiest_load(mesh.streams) == 2 * max(columns, rows) - 1
    assert len(mesh.streams) == 2 * (columns + rows)


def test_io_streams() -> None:
    assert MESH.io_share == pytest.approx(750 / 1152)
    assert (C.io_share, D.io_share) == (1, 1)
    assert D.stream_bandwidth == 18 * 128e9
    # An L1 switch with three controllers gets the streams of the other fifteen over its trunk.
    assert A.io_share == B.io_share == pytest.approx(1500 / (15 * 128))


def through_io(
    wafer: Interconnect, work: Access, *others: Collective, sizes: Any = SIZES
) -> MessageRun:
    """Ranks access memory and run collectives at once."""
    graph = GraphBuilder()
    for number, each in enumerate((work, *others)):
        graph.add(str(number), each)
    axes = dict(zip(("tensor", "pipeline", "data"), sizes, strict=True))
    on = dataclasses.replace(cluster(wafer, sizes), memory=EdgeIo(wafer.stream_bandwidth))
    run = simulate(Workload((graph.build(),), place(axes, sizes)), on, fidelity="message").run
    assert isinstance(run, MessageRun)
    return run


@pytest.mark.long
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("wafer", [MESH, A, B, C, D])
def test_broadcasts_take_what_the_busiest_link_does(wafer: Interconnect, *, store: bool) -> None:
    """Or the controllers at their line rate; but for the first pieces, and lanes that take turns.

    On the mesh nine controllers' bytes cross a link, so that all run at 0.65 of their line rate."""
    run = through_io(wafer, Access(BYTES, store, "data", shared=True), sizes=(1, 1, 20))
    least = BYTES / wafer.stream_bandwidth * 1e12
    assert least < run.measures.time[0] < 1.12 * least
    assert max(link.utilisation for link in run.links) > 0.89
    alone = through_io(wafer, Access(BYTES / 20, store), sizes=(1, 1, 20))
    assert alone.measures.time[0] / 1e3 == pytest.approx(1.01 * BYTES / (18 * 128), rel=0.02)


@pytest.mark.parametrize("wafer", [MESH, A, D])
def test_a_multicast_spares_the_links_of_others(wafer: Interconnect) -> None:
    load = Access(BYTES, group="data", shared=True)
    sent = [
        sum(
            link.n_bytes
            for link in through_io(dataclasses.replace(wafer, multicasts=multicasts), load).links
            if isinstance(link.link.target, int)
        )
        for multicasts in (True, False)
    ]
    assert sent[0] < sent[1]
    assert sent[1] > 0.999 * 4 * 20 * BYTES  # four different parts, each to 20 NPUs
    if wafer is not MESH:  # where NPUs pass nothing on but to those who want it
        assert sent[0] == pytest.approx(20 * BYTES)


def test_what_is_loaded_and_collectives_share_links() -> None:
    """On the mesh an all-reduce and a broadcast take longer together than either alone."""
    load = Access(BYTES, group="data", shared=True)
    reduce = Collective(CollectiveKind.ALL_REDUCE, BYTES / 2, "data")
    together, alone = (
        through_io(MESH, load, *others, sizes=(1, 1, 20)).operators for others in ([reduce], [])
    )
    assert together[0].end > alone[0].end
    assert together[1].end > 1.5 * BYTES / 2 / rate(MESH, "data", (1, 1, 20)) * 1e3


@pytest.mark.parametrize("wafer", [MESH, MeshWafer(columns=3, rows=6), A, D, FredWafer(leaves=3)])
def test_every_stream_reaches_every_npu_once(wafer: Interconnect) -> None:
    for stream in wafer.streams:
        assert all(ends in wafer.network.number for ends in stream)
        into = [0.0] * wafer.n_npus
        for (_, target), share in stream.items():
            if isinstance(target, int):
                into[target] += share
        assert into == [1.0] * wafer.n_npus


@pytest.mark.parametrize(("wafer", "bisection"), [(MESH, 3.75e12), (B, 3.75e12), (D, 30e12)])
def test_bisection(wafer: Interconnect, bisection: float) -> None:
    assert wafer.bisection() == bisection


# --- placement and routes ------------------------------------------------------------------------


def test_groups_that_fill_no_column_lie_along_a_snake() -> None:
    assert list(MESH.places(SIZES)) == list(range(20))
    places = MESH.places((3, 2, 3))
    assert len(places) == 18
    assert all(MESH.network.graph.has_edge(one, other) for one, other in pairwise(places))
    assert rate(MESH, "tensor", (3, 2, 3)) == pytest.approx(750 / ring(3), rel=1e-6)


@given(st.permutations(range(20)))
def test_no_two_messages_of_a_permutation_meet_on_fred(order: list[int]) -> None:
    router = Router(C.network, C.routing)
    links = [link for npu in range(20) for link in router.route(npu, order[npu])]
    assert len(set(links)) == len(links)


@pytest.mark.parametrize("group", ["tensor", "data"])
def test_groups_that_straddle_leaves_have_all_of_fred_d(group: str) -> None:
    assert rate(D, group, (3, 2, 3)) == pytest.approx(3000, rel=1e-6)
    assert rate(C, group, (3, 2, 3)) == pytest.approx(3000 / ring(3), rel=1e-6)


def test_lines_that_cannot_be_routed_are_refused_by_name() -> None:
    """Four NPUs of every leaf in groups that meet pairwise at the L1 switches."""
    lines = [(0, 4, 8), (1, 12, 16), (5, 13, 20), (9, 17, 21)]
    shape = {"leaf": 4, "leaves": 6}
    plan_trees(lines, **shape, middles=4)
    crossed = [(0, 2, 4), (1, 6, 8), (3, 7, 10), (5, 9, 11)]
    with pytest.raises(UnroutableError, match=r"cannot keep them apart: \{0, 2, 4\}"):
        plan_trees(crossed, leaf=12, leaves=1, middles=3)


def test_what_does_not_fit_a_wafer_is_refused() -> None:
    graph = GraphBuilder()
    graph.add("it", Collective(CollectiveKind.ALL_REDUCE, BYTES, "data"))
    workload = Workload((graph.build(),), place({"data": 24}, (24,)))
    with pytest.raises(DimsweepError, match="24 NPUs do not fit a wafer of 20"):
        simulate(workload, cluster(D, (24,)), fidelity="message")


def test_switches_that_do_not_reduce_are_not_asked_to() -> None:
    graph = GraphBuilder()
    graph.add("it", Collective(CollectiveKind.ALL_REDUCE, BYTES, "data"))
    workload = Workload((graph.build(),), place({"data": 20}, (20,)))
    with pytest.raises(DimsweepError, match="do not reduce"):
        simulate(workload, cluster(C, (20,), algorithms=("in_switch",)), fidelity="message")


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: FredWafer(middles=1), "middles"),
        (lambda: FredWafer(leaf=1), "leaf"),
        (lambda: FredWafer(trunk=0.0), "trunk"),
        (lambda: MeshWafer(columns=1), "columns"),
        (lambda: MeshWafer(link=-1.0), "link"),
        (lambda: NetworkModel(interconnect=D, graph=D.network), "wafer"),
    ],
)
def test_senseless_wafers_name_the_key(make: Any, what: str) -> None:
    with pytest.raises(DimsweepError) as error:
        make()
    assert error.value.where == what


# --- what cannot pass at once -------------------------------------------------------------------

NARROW = FredWafer(latency=0, middles=2)  # whose switches pass any permutation, and not any groups


def reduced(remedy: Remedy, sizes: Sequence[int], chunks: int = 1) -> MessageRun:
    """All-reduces of the last of three dimensions, at once; compiled and on SimPy alike."""
    names = ("a", "b", "c")
    graph = GraphBuilder()
    graph.add("it", Collective(CollectiveKind.ALL_REDUCE, BYTES, "c"))
    workload = Workload((graph.build(),), place(dict(zip(names, sizes, strict=True)), sizes))
    on = cluster(dataclasses.replace(NARROW, remedy=remedy), sizes)
    on = dataclasses.replace(on, collectives=CollectiveModel(chunks=chunks))
    return run_witnessed(lower_by_rank(workload, on))


@pytest.mark.parametrize(
    ("remedy", "rounds", "serialised", "decomposed", "moved", "ms"),
    [
        (Remedy.SERIALISE, 2, 2, 0, 0, 0.8),  # one group after another
        (Remedy.DECOMPOSE, 1, 0, 2, 0, 0.8),  # a ring of two sends what two members hold
        (Remedy.PLACE, 1, 0, 0, 16, 0.4),
    ],
)
def test_remedies_are_simulated_and_counted(
    remedy: Remedy, rounds: int, serialised: int, decomposed: int, moved: int, ms: float
) -> None:
    """Pairs ten NPUs apart: five of them meet at microswitches of the L2 switch."""
    run = reduced(remedy, (2, 5, 2))
    plan = run.plan
    assert plan is not None
    found = plan.n_rounds, plan.n_serialised, len(plan.decomposed), plan.n_moved
    assert found == (rounds, serialised, decomposed, moved)
    assert run.measures.time[0] == pytest.approx(ms * 1e9, rel=1e-6)


def test_rounds_take_turns_and_all_of_a_round_go_together() -> None:
    assert reduced(Remedy.SERIALISE, (3, 3, 2), 4).measures.time[0] == pytest.approx(8e8, rel=1e-6)


def test_a_refusal_says_which_key_helps() -> None:
    with pytest.raises(UnroutableError, match=r"\{0, 10\} at L2") as error:
        reduced(Remedy.REFUSE, (2, 5, 2))
    assert "network.wafer.remedy=serialise, decompose or place" in error.value.hint


def test_what_passes_needs_no_remedy() -> None:
    for remedy in Remedy:
        plan = dataclasses.replace(D, remedy=remedy).plan([[(0, 10), (1, 11)]], (2, 5, 2))
        assert (plan.n_rounds, plan.n_serialised, plan.n_moved) == (1, 0, 0)
        assert not plan.decomposed


def test_rounds_are_fair() -> None:
    """A line that asks again and again waits while another round does; none waits for ever."""
    turns, began = Turns(), list[str]()
    one, two = frozenset({1}), frozenset({2})

    def ask(round_: int, line: frozenset[int], name: str) -> None:
        turns.ask(round_, line, lambda: began.append(name))

    for name in ("a", "b"):  # the pieces of an all-gather: together
        ask(0, one, name)
    ask(1, two, "other")
    ask(0, one, "c")
    ask(0, two, "its round's")
    assert began == ["a", "b", "its round's"]
    for _ in range(3):
        turns.leave()
    assert began[3:] == ["other"]
    turns.leave()
    assert began[4:] == ["c"]


def test_groups_that_hold_one_another_up_go_on_with_their_own_phase() -> None:
    """Members of a group end at different times where groups of two dimensions meet on lanes."""
    graph = GraphBuilder()
    for group in ("a", "c"):
        graph.add(group, Collective(CollectiveKind.ALL_GATHER, BYTES, group))
    sizes = (3, 2, 3)
    workload = Workload((graph.build(),), place(dict(zip("abc", sizes, strict=True)), sizes))
    run_witnessed(lower_by_rank(workload, cluster(B, sizes)))
