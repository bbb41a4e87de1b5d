"""NCCL's choice by size, and what it makes of a phase."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    DimensionOrder,
    DimsweepError,
    GraphBuilder,
    Group,
    Program,
    Receive,
    Result,
    Send,
    Switch,
    Topology,
    Workload,
    lower,
    run_one,
    simulate,
)
from dimsweep.engine.bound import EventBound, LinearSpace, time_of
from dimsweep.engine.cluster import Nccl, RailShares
from dimsweep.engine.collective.library import Request
from dimsweep.engine.collective.library.nccl import nvls
from dimsweep.engine.collective.library.nccl.gpus import (
    DIRECT,
    DIRECT_LL,
    LL,
    LL128,
    SIMPLE,
    SWITCH,
    Algorithm,
    Choice,
    Limits,
    Protocol,
    gpu_called,
)
from dimsweep.engine.collective.library.nccl.phases import answer
from dimsweep.engine.collective.library.nccl.tuning import choices, choose, predictions
from dimsweep.engine.collective.steps import Setting
from dimsweep.engine.kernels.messages import lower_by_rank
from dimsweep.engine.kernels.network import run_messages
from tests.support.refused import refused

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL = CollectiveKind
TREE = {protocol: Choice(Algorithm.TREE, protocol) for protocol in Protocol}
KB, MB = 2**10, 2**20


def asked(
    kind: CollectiveKind, n_bytes: float, ranks: int, nodes: int, *bandwidth: float
) -> Request:
    """A collective of ``ranks`` GPUs a node, with GB/s of link and rail."""
    sizes = [size for size in (ranks, nodes) if size > 1]
    held = n_bytes / (ranks * nodes if kind is ALL_GATHER else 1)
    settings = tuple(Setting(Switch(), size, size, 1) for size in sizes)
    return Request(kind, held, settings, int(ranks > 1), tuple(b * 1e9 for b in bandwidth))


def chosen(gpu: str, kind: CollectiveKind, n_bytes: float, ranks: int) -> Choice:
    known = gpu_called(gpu)
    return choose(known, asked(kind, n_bytes, ranks, 1, known.link))


def test_protocols_follow_one_another_with_size() -> None:
    sizes = [512, 2 * MB, 8 * MB, 64 * MB]
    found = [chosen("a100", ALL_GATHER, size, 8) for size in sizes]
    assert found == [LL, LL, LL128, SIMPLE]
    assert [chosen("a100", ALL_GATHER, size, 2) for size in sizes] == [LL, SIMPLE, SIMPLE, SIMPLE]


EFA = RailShares(all_reduce=((2, 0.9), (4, 0.4)), all_gather=((2, 0.46), (4, 0.3)))


def test_shares_of_rails_follow_the_nodes() -> None:
    assert [EFA.find(ALL_REDUCE, n) for n in (2, 4, 64)] == [0.9, 0.4, 0.4]
    assert EFA.find(ALL_REDUCE, 3) == pytest.approx(0.9 - 0.5 * math.log2(1.5))
    found = [EFA.find(ALL_GATHER, n) for n in (2, 4, 8, 16)]
    assert found == pytest.approx([0.46, 0.3, 0.3**2 / 0.46, 0.3**3 / 0.46**2])
    assert EFA.find(ALL_TO_ALL, 8) == EFA.find(REDUCE_SCATTER, 8) == found[2]


def test_a_slow_network_slows_collectives_between_nodes_only() -> None:
    def took(kind: CollectiveKind, nodes: int, rails: RailShares | None) -> float:
        shape, bandwidth = (
            ("Switch(8)_Switch(4)", [450e9, 50e9])
            if nodes > 1
            else (
                "Switch(8)",
                [450e9],
            )
        )
        topology = Topology.build(shape, bandwidth=bandwidth, latency=[0] * len(bandwidth))
        model = CollectiveModel(library=Nccl("h100", rails=rails))
        group = Group(topology.sizes, (1,) * len(bandwidth))
        work = Workload.of_one(Collective(kind, 256e6, "all"), group)
        return simulate(work, Cluster(topology, collectives=model)).time

    for kind in (ALL_REDUCE, ALL_GATHER):
        assert took(kind, 4, EFA) > 1.5 * took(kind, 4, None)
        assert took(kind, 1, EFA) == took(kind, 1, None)


@pytest.mark.parametrize(
    ("knots", "place"),
    [((), "all_gather"), (((4, 0.4), (2, 0.9)), "all_gather"), (((0, 0.4),), "all_gather")],
)
def test_shares_of_rails_rise_with_the_nodes(
    knots: tuple[tuple[float, float], ...], place: str
) -> None:
    with refused(place, "invalid"):
        RailShares(all_reduce=((2, 0.9),), all_gather=knots)


def test_shares_of_rails_are_shares() -> None:
    with refused("all_reduce", "out-of-range", "1.5"):
        RailShares(all_reduce=((2, 1.5),), all_gather=((2, 1),))


def test_ll128_needs_nvlink() -> None:
    found = {chosen("l40s", ALL_REDUCE, 2.0**i, 8) for i in range(9, 30)}
    assert found == {LL, SIMPLE}


def test_pcie_leaves_sends_another_share_than_rings() -> None:
    known = gpu_called("l40s")
    ring, sends = (
        [known.crowded(n, algorithm) for n in (2, 4, 6, 8)]
        for algorithm in (Algorithm.RING, Algorithm.DIRECT)
    )
    assert ring[0] == sends[0] == 1.0
    assert ring[1] == ring[2] > sends[1] > ring[3] and sends[3] > ring[3]
    assert gpu_called("h100").crowded(8, Algorithm.DIRECT) == 1.0


def test_the_switch_reduces_large_all_reduces_of_hopper_and_blackwell() -> None:
    for gpu, expected in (("h100", SWITCH), ("b200", SWITCH), ("a100", SIMPLE)):
        assert chosen(gpu, ALL_REDUCE, 256 * MB, 8) == expected
        assert chosen(gpu, ALL_REDUCE, 64 * KB, 8) == LL
    assert chosen("h100", ALL_REDUCE, 256 * MB, 2) == SIMPLE  # nobody to multicast to
    assert chosen("h100", ALL_GATHER, 256 * MB, 8) == SIMPLE


@pytest.mark.parametrize(
    ("gpu", "ranks", "nodes", "busbw"),
    [
        ("h100", 8, 1, 8 * 2 * 40 * 0.85 * 7 / 8),  # 9 x 40 GB/s of a GPU's 370.8
        ("h100", 4, 1, 4 * 60),  # 60 is the fastest channel
        ("b200", 8, 1, 8 * 90),
        ("h100", 8, 2, 8 * 57.7),  # what a channel of the trees is limited to
        ("h100", 8, 8, 8 * 45.5),
        ("gb200", 72, 2, 32 * 2 * 20 * 0.74 * 31 / 32),  # 32 GPUs pull, whatever a rack has
    ],
)
def test_what_nccl_finds_of_a_switch(gpu: str, ranks: int, nodes: int, busbw: float) -> None:
    request = asked(ALL_REDUCE, MB, ranks, nodes, 450, 50)
    n = ranks * nodes
    assert nvls.believed(gpu_called(gpu), request) == pytest.approx(busbw * n / (2 * (n - 1)))


def test_four_blackwells_do_without_the_switch() -> None:
    """NCCL finds 360 GB/s of the switch for four of them, and 720 of their rings."""
    sizes = [2 * MB, 4 * MB, 8 * MB, 512 * MB]
    assert [chosen("b200", ALL_REDUCE, n, 4) for n in sizes] == [LL, LL, SIMPLE, SIMPLE]
    assert chosen("b200", ALL_GATHER, 32 * MB, 8) == SIMPLE  # LL128 has 34.5 of a channel's 45 GB/s


@pytest.mark.parametrize(
    ("size", "loop"), [(1, 1), (4, 2), (8, 4), (63, 4), (64, 8), (1023, 8), (1024, 16)]
)
def test_bytes_wait_for_two_loops_of_the_switch(size: int, loop: int) -> None:
    """NCCL's chunks: 16 to 128 KiB for each of 16 blocks of threads and 8 heads."""
    ours = seconds(ALL_REDUCE, size * MB, on("h100", 8, 1))
    if size > 1:
        assert ours == pytest.approx(25e-6 + (size + 2 * loop) * MB / 272e9, rel=1e-6)
    request = asked(ALL_REDUCE, size * MB, 8, 1, 450)
    assert nvls.waiting(gpu_called("h100"), request) == pytest.approx(2 * min(1, loop / size))


@given(
    ranks=st.sampled_from([2, 4, 8, 36, 72]),
    nodes=st.sampled_from([1, 2, 3, 4, 20]),
    size=st.floats(1, 1e11),
    more=st.floats(1, 4),
)
def test_more_bytes_never_wait_longer_in_all_and_no_more_bandwidth_is_believed_slower(
    ranks: int, nodes: int, size: float, more: float
) -> None:
    gpu = gpu_called("gb200")
    few, many = (asked(ALL_REDUCE, n, ranks, nodes, 900, 50) for n in (size, size * more))
    passed = [(1 + nvls.waiting(gpu, each)) * each.n_bytes for each in (few, many)]
    assert passed[1] >= passed[0] * (1 - 1e-9)
    n_dims = len(few.settings)
    if few.nodes > 1 and ranks * nodes > 1:
        links = np.array([[9e11, 5e10], [9e11 * more, 5e10], [9e11, 5e10 * more]])[:, :n_dims]
        slow, inside, between = predictions(gpu, few, links).T
        assert (inside <= slow).all() and (between <= slow).all()


def test_sends_and_receives_change_over_at_16_kib_a_peer() -> None:
    assert chosen("h100", ALL_TO_ALL, 8 * 16 * KB, 8) == DIRECT_LL
    assert chosen("h100", ALL_TO_ALL, 8 * 16 * KB + 8, 8) == DIRECT


def test_trees_between_nodes_while_latency_counts() -> None:
    """Four nodes of eight GPUs: six hops of a tree, or six and fifty-six of a ring."""
    gpu = gpu_called("a100")
    sizes = [KB, MB, 32 * MB, 1024 * MB]
    found = [choose(gpu, asked(ALL_REDUCE, n, 8, 4, 300, 12.5)) for n in sizes]
    assert found == [TREE[Protocol.LL], TREE[Protocol.LL128], LL128, SIMPLE]


def test_one_gpu_a_node_gathers_in_logarithmic_time() -> None:
    gpu = gpu_called("h100")
    many = choose(gpu, asked(ALL_GATHER, 32 * MB, 1, 64, 50))
    assert many.algorithm is Algorithm.PAT
    assert choose(gpu, asked(ALL_GATHER, 4096 * MB, 1, 4, 50)) == SIMPLE


def on(gpu: str, ranks: int, nodes: int, rail: float = 50, **told: object) -> Cluster:
    link = gpu_called(gpu).link
    shape, bandwidth = f"Switch({ranks})_Switch({nodes})", [link * 1e9, rail * 1e9]
    topology = Topology.build(shape, bandwidth=bandwidth, latency=[0, 0])
    model = CollectiveModel(chunks=16, library=Nccl(gpu), **told)  # type: ignore[arg-type]
    return Cluster(topology, collectives=model)


def collective(kind: CollectiveKind, n_bytes: float, cluster: Cluster) -> Workload:
    builder, sizes = GraphBuilder(), cluster.topology.sizes
    held = n_bytes / (math.prod(sizes) if kind is ALL_GATHER else 1)
    builder.add("c", Collective(kind, held, "all"))
    return Workload((builder.build(),), {"all": Group(sizes, (1,) * len(sizes))})


def program(kind: CollectiveKind, n_bytes: float, cluster: Cluster) -> Program:
    return lower(collective(kind, n_bytes, cluster), cluster)


def seconds(kind: CollectiveKind, n_bytes: float, cluster: Cluster) -> float:
    return Result(run_one(program(kind, n_bytes, cluster))).time


def test_a_ring_takes_its_base_its_hops_and_its_bytes() -> None:
    gpu, n_bytes = gpu_called("a100"), 256 * MB
    cost = gpu.costs[SIMPLE]
    by_hand = cost.base + 14 * cost.hop + n_bytes * (14 + gpu.own_copy) / 8 / cost.bandwidth / 1e3
    assert seconds(ALL_REDUCE, n_bytes, on("a100", 8, 1)) == pytest.approx(by_hand / 1e6, rel=1e-6)


def test_two_nodes_of_a_kilobyte() -> None:
    """A public log of nccl-tests on two DGX H100 nodes with two GPUs each: 17.51 us."""
    ours = seconds(ALL_REDUCE, KB, on("h100", 2, 2))
    assert ours == pytest.approx(17.51e-6, rel=0.25)


def test_small_messages_cross_nodes_in_one_chunk_and_large_ones_in_sixteen() -> None:
    cluster = on("h100", 8, 8)
    chunks = [program(ALL_REDUCE, n, cluster).structure.forms["chunks"][0] for n in (KB, 1024 * MB)]
    assert chunks == [1, 16]
    alone = program(ALL_REDUCE, 1024 * MB, on("h100", 8, 1)).structure
    assert alone.forms["chunks"].tolist() == [1]


@pytest.mark.parametrize("nodes", [2, 4, 8, 16])
def test_a_rail_carries_what_the_double_binary_tree_sends_through_one_port(nodes: int) -> None:
    """The message kernel's tree says it link by link: the fullest link of its switch."""
    topology = Topology.build(f"Switch({nodes})", bandwidth=[50e9], latency=[0])
    tree = CollectiveModel(chunks=1, algorithms=("double_binary_tree",))
    cluster = Cluster(topology, collectives=tree)
    run = run_messages(lower_by_rank(collective(ALL_REDUCE, 64 * MB, cluster), cluster))
    fullest = max(link.n_bytes for link in run.links)
    request = asked(ALL_REDUCE, 64 * MB, 8, nodes, 450, 50)
    assert choose(gpu_called("h100"), request) == SWITCH  # with trees between nodes
    rail = answer(gpu_called("h100"), request, CollectiveModel(chunks=1)).phases[1].fused
    assert rail is not None
    sent = sum(step.count * step.bytes_fraction for step in rail.steps)
    assert sent * 64 * MB == pytest.approx(fullest)


def test_an_all_to_all_pays_for_each_peer_on_another_node() -> None:
    times = [seconds(ALL_TO_ALL, KB, on("h100", 8, nodes)) for nodes in (2, 4, 8)]
    assert times[2] - times[1] == pytest.approx(32e-6, rel=0.01)  # a microsecond each
    assert times[1] - times[0] == pytest.approx(16e-6, rel=0.01)


def test_chunks_pay_the_latencies_once() -> None:
    """On links without end what is left of the time is NCCL's latency: in 16 chunks as in one."""
    left = []
    for chunks in (1, 16):
        cluster = on("h100", 8, 8)
        model = replace(cluster.collectives, chunks=chunks)
        here = program(ALL_REDUCE, 1024 * MB, replace(cluster, collectives=model))
        left.append(Result(run_one(here.rebind(bandwidth=here.bandwidth * 1e9))).time)
    assert left[1] == pytest.approx(left[0], rel=1e-6)


def test_chunks_of_one_gpu_a_node_take_no_longer() -> None:
    cluster = replace(on("h100", 1, 8), collectives=CollectiveModel(library=Nccl("h100"), chunks=1))
    cut = replace(cluster, collectives=replace(cluster.collectives, chunks=16))
    one, many = (program(ALL_REDUCE, 1024 * MB, each) for each in (cluster, cut))
    assert many.structure.forms["chunks"][0] == 16
    assert Result(run_one(many)).time == pytest.approx(Result(run_one(one)).time, rel=1e-6)


def test_messages_get_what_a_send_reaches() -> None:
    def times(cluster: Cluster) -> list[float]:
        found = []
        for offset in ((1, 0), (0, 1)):
            builder = GraphBuilder()
            builder.add("send", Send(100 * MB, offset))
            builder.add("receive", Receive(tuple(-each for each in offset)))
            found.append(simulate(Workload((builder.build(),)), cluster).time)
        return found

    cluster = on("h100", 8, 8)
    plain = replace(cluster, collectives=CollectiveModel())
    inside, between = (a / b for a, b in zip(times(plain), times(cluster), strict=True))
    assert inside == pytest.approx(gpu_called("h100").costs[DIRECT].bandwidth / 450, rel=1e-6)
    assert between == pytest.approx(0.96, rel=1e-6)


@pytest.mark.parametrize("kind", list(CollectiveKind))
def test_folding_changes_nothing(kind: CollectiveKind) -> None:
    cluster = on("h100", 4, 2)
    workload = collective(kind, 64 * MB, cluster)
    assert simulate(workload, cluster, fold=False).time == simulate(workload, cluster).time


@pytest.mark.parametrize("kind", list(CollectiveKind))
@pytest.mark.parametrize("n_bytes", [64 * KB, 8 * MB, 512 * MB])
def test_slopes_and_the_bound_hold(kind: CollectiveKind, n_bytes: int) -> None:
    here = program(kind, n_bytes, on("b200", 8, 4))
    result = Result(run_one(here))
    assert result.per_bandwidth is not None
    for d, name in enumerate(here.names.dims):
        times = []
        for factor in (0.999, 1.001):
            bandwidth = here.bandwidth.copy()
            bandwidth[d] *= factor
            times.append(Result(run_one(here.rebind(bandwidth=bandwidth))).time)
        slope = (times[1] - times[0]) / (0.002 * here.bandwidth[d])
        assert result.per_bandwidth[name] == pytest.approx(slope, rel=0.01)
    space = LinearSpace.build(here.bandwidth / 2, here.bandwidth * 2)
    assert 0 < time_of(EventBound(here, space), here.bandwidth) <= result.time


def test_more_bandwidth_is_faster_and_half_of_it_slower() -> None:
    here = program(ALL_REDUCE, 512 * MB, on("a100", 8, 4, 25))
    times = [
        Result(run_one(here.rebind(bandwidth=here.bandwidth * factor))).time
        for factor in (0.5, 1, 2)
    ]
    assert times[0] > times[1] > times[2]
    assert times[0] / times[1] == pytest.approx(2, rel=0.1)


def test_a_gpu_of_which_nothing_is_known_is_refused() -> None:
    with refused("collective.gpu", "unknown-name", "'h10'", "h100"):
        gpu_called("h10")


def test_nothing_else_is_told_to_do_what_nccl_does() -> None:
    with pytest.raises(DimsweepError, match="order"):
        CollectiveModel(library=Nccl("h100"), order=DimensionOrder.THEMIS)
    with pytest.raises(DimsweepError, match="algorithms"):
        CollectiveModel(library=Nccl("h100"), algorithms=("ring", "auto"))


def test_single_messages_are_not_known() -> None:
    cluster = on("h100", 4, 2)
    with pytest.raises(DimsweepError, match="fidelity"):
        simulate(collective(ALL_REDUCE, MB, cluster), cluster, fidelity="message")


@pytest.mark.parametrize(
    ("limits", "kind", "nodes", "left"),
    [
        (Limits("ring"), ALL_REDUCE, 2, {LL, LL128, SIMPLE}),
        (Limits("^nvlstree,Tree"), ALL_REDUCE, 2, {LL, LL128, SIMPLE}),
        (Limits("allreduce:tree", "^ll"), ALL_REDUCE, 2, {*TREE.values()} - {TREE[Protocol.LL]}),
        (Limits("allreduce:tree"), ALL_GATHER, 2, {LL, LL128, SIMPLE}),
        (Limits("tree;AllGather:ring", "simple"), ALL_GATHER, 2, {SIMPLE}),
        (Limits("tree"), ALL_REDUCE, 1, {*TREE.values()}),
        (Limits(uses_switch=False), ALL_REDUCE, 1, {LL, LL128, SIMPLE}),
        (Limits("nvls"), ALL_REDUCE, 1, {SWITCH}),
        (Limits("NVLS_TREE"), ALL_REDUCE, 2, {SWITCH}),
        (Limits("tree", "ll"), ALL_TO_ALL, 2, {DIRECT}),
        (Limits("broadcast:ring"), ALL_REDUCE, 1, {LL, LL128, SIMPLE, SWITCH}),
    ],
)
def test_the_users_limits_leave_these_choices(
    limits: Limits, kind: CollectiveKind, nodes: int, left: set[Choice]
) -> None:
    gpu = replace(gpu_called("h100"), limits=limits)
    request = asked(kind, 64 * MB, 8, nodes, *(450, 50)[:nodes])
    assert set(choices(gpu, request)) == left
    assert len(predictions(gpu, request, np.array([request.bandwidth]))) == len(left)


@pytest.mark.parametrize(
    ("algo", "proto", "key"),
    [("tree", "", "nccl_algo"), ("collnetdirect", "", "nccl_algo"), ("nvls", "ll", "nccl_algo")],
)
def test_limits_that_leave_no_choice_are_an_error(algo: str, proto: str, key: str) -> None:
    gpu = replace(gpu_called("h100"), limits=Limits(algo, proto))
    with refused(f"collective.{key}", "conflict"):
        choices(gpu, asked(ALL_GATHER, 64 * MB, 8, 2, 450, 50))


@pytest.mark.parametrize("text", ["rings", "ring,", "allreduces:ring", "^", "allreduce:"])
def test_limits_have_known_words_only(text: str) -> None:
    with refused("collective.nccl_algo", "unknown-name", repr(text)):
        Limits(text)


def test_a_chain_of_one_node_has_the_share_of_a_ring_that_nccl_expects() -> None:
    """All bytes go up and down a chain at 0.92 of the rate; 7/8 of them go twice round a ring."""
    times = []
    for algo in ("ring", "tree"):
        library = Nccl("b200", algo=algo)
        topology = Topology.build("Switch(8)", bandwidth=[900e9], latency=[0])
        model = CollectiveModel(library=library, chunks=1)
        builder = GraphBuilder()
        builder.add("all-reduce", Collective(ALL_REDUCE, 32 * 2.0**30, "all"))
        workload = Workload((builder.build(),), {"all": Group((8,), (1,))})
        times.append(simulate(workload, Cluster(topology, collectives=model)).time)
    assert times[0] / times[1] == pytest.approx(0.92 * 7 / 8, rel=0.03)
    assert times[0] / times[1] == pytest.approx(556 / 698, rel=0.04)  # measured
