"""Lowering: what does not fit is an error that names it; what is alike is folded."""

from itertools import product

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
    Operator,
    Prices,
    Program,
    Receive,
    Send,
    Topology,
    Workload,
    lower,
    run_batch,
)
from dimsweep.engine.errors import Code
from dimsweep.engine.lower.fold import fold_ranks
from tests.support.programs import axes, one_collective, pipelines, topologies, training, uneven
from tests.support.refused import refused

ALL_REDUCE = CollectiveKind.ALL_REDUCE
CLUSTER = Cluster(Topology.build("Ring(4)_Switch(2)", bandwidth=[1e9, 2e9], latency=[10, 20]))
EVERYONE = Group((4, 2), (1, 1))
PAIRS = Group((1, 2), (1, 1))  # along dimension 1: ranks 0 and 4, 1 and 5, ...
# Ranks 0-3 (coordinate 0 in dimension 1) run one graph, ranks 4-7 another.
HALVES = np.array([0, 0, 0, 0, 1, 1, 1, 1])


def graph(**works: object) -> tuple[Operator, ...]:
    """Operators one after the other, called as the keywords."""
    builder, last = GraphBuilder(), []
    for name, work in works.items():
        last = [builder.add(name, work, last)]
    return builder.build()


def collective(n_bytes: float = 8.0, group: str = "g", **options: object) -> Collective:
    return Collective(ALL_REDUCE, n_bytes, group, **options)


def check_refused(workload: Workload, where: str, code: Code, *names: str) -> None:
    with refused(where, code, *names):
        lower(workload, CLUSTER)


# --- what does not fit --------------------------------------------------------------------------


def test_an_unknown_group_is_named_with_the_known_ones() -> None:
    workload = Workload((graph(sum_up=collective(group="tensr")),), {"tensor": EVERYONE})
    check_refused(workload, "operator 'sum_up'", "unknown-name", "'tensr'", "groups: tensor")


def test_operators_in_a_circle_are_named() -> None:
    circle = (
        Operator("start", Compute(duration=1)),
        Operator("a", Compute(duration=1), (2,)),
        Operator("b", Compute(duration=1), (0, 1)),
        Operator("behind", Compute(duration=1), (2,)),
    )
    with refused("graph 0", "invalid", "a, b") as error:
        lower(Workload((circle,)), CLUSTER)
    assert "start" not in str(error.value)


def test_an_operator_cannot_wait_for_itself() -> None:
    workload = Workload(((Operator("a", Compute(duration=1), (0,)),),))
    check_refused(workload, "graph 0", "invalid", ": a")


def test_an_operator_cannot_wait_for_one_that_is_not_there() -> None:
    workload = Workload(((Operator("a", Compute(duration=1), (7,)),),))
    check_refused(workload, "operator 'a'", "out-of-range", "7")


@pytest.mark.parametrize(
    ("group", "names"),
    [
        (Group((3, 1), (1, 1)), ("3 members", "stride 1", "dimension 0", "4 NPUs")),
        (Group((4, 1), (2, 1)), ("4 members", "stride 2", "dimension 0", "4 NPUs")),
        (Group((1, 4), (1, 1)), ("4 members", "stride 1", "dimension 1", "2 NPUs")),
        (Group((0, 1), (1, 1)), ("0 members",)),
        (Group((2, 1), (0, 1)), ("stride 0",)),
    ],
)
def test_a_group_must_tile_the_dimensions(group: Group, names: tuple[str, ...]) -> None:
    workload = Workload((graph(a=collective()),), {"g": group})
    check_refused(workload, "group 'g'", "mismatch", *names)


def test_the_error_offers_group_sizes_that_fit() -> None:
    workload = Workload((graph(a=collective()),), {"g": Group((3, 1), (1, 1))})
    check_refused(workload, "group 'g'", "mismatch", "1, 2, 4")


def test_a_group_has_all_dimensions() -> None:
    workload = Workload((graph(a=collective()),), {"g": Group((4,), (1,))})
    check_refused(workload, "group 'g'", "mismatch", "1", "2")


@pytest.mark.parametrize("n_bytes", [-1.0, float("nan"), float("inf"), 2.0**63])
def test_impossible_message_sizes_are_refused(n_bytes: float) -> None:
    workload = Workload((graph(a=collective(n_bytes)),), {"g": EVERYONE})
    check_refused(workload, "operator 'a'", "out-of-range", str(n_bytes))


@pytest.mark.parametrize("work", [Compute(duration=-1), Compute(flops=-1.0), Compute(n_bytes=-1.0)])
def test_negative_work_is_refused(work: Compute) -> None:
    check_refused(Workload((graph(a=work),)), "operator 'a'", "out-of-range", "-1")


@pytest.mark.parametrize("offset", [(0, 0), (4, 0), (-4, 2)])
@pytest.mark.parametrize("kind", [lambda offset: Send(8.0, offset), Receive])
def test_a_message_to_itself_is_refused(kind: type, offset: tuple[int, ...]) -> None:
    check_refused(Workload((graph(a=kind(offset)),)), "operator 'a'", "invalid")


def test_an_offset_has_all_coordinates() -> None:
    workload = Workload((graph(a=Send(8.0, (1,))),))
    check_refused(workload, "operator 'a'", "mismatch", "1", "2")


def test_every_rank_needs_a_graph() -> None:
    workload = Workload((graph(a=Compute(duration=1)),), {}, np.zeros(7, dtype=np.int64))
    check_refused(workload, "graph_of_rank", "mismatch", "7", "8")


def test_every_rank_needs_a_graph_that_exists() -> None:
    two = (graph(a=Compute(duration=1)), graph(b=Compute(duration=1)))
    for wrong in (2, -1):
        workload = Workload(two, {}, np.array([0, 1, 0, wrong, 0, 0, 0, 0]))
        check_refused(workload, "graph_of_rank", "out-of-range", "rank 3", f"graph {wrong}")


def test_there_is_an_algorithm_for_every_dimension() -> None:
    cluster = Cluster(CLUSTER.topology, collectives=CollectiveModel(algorithms=("ring",)))
    with pytest.raises(DimsweepError) as error:
        lower(Workload((graph(a=collective()),), {"g": EVERYONE}), cluster)
    assert error.value.code == "mismatch"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (collective(8.0), collective(16.0)),
        (collective(priority=0), collective(priority=1)),
        (collective(), Collective(CollectiveKind.ALL_GATHER, 8.0, "g")),
    ],
)
def test_members_must_agree_on_a_collective(ours: Collective, theirs: Collective) -> None:
    both = (graph(warm_up=collective(1.0), ours=ours), graph(first=collective(1.0), theirs=theirs))
    workload = Workload(both, {"g": EVERYONE}, HALVES)
    names = "collective number 1", "rank 0 runs 'ours'", "rank 4 runs 'theirs'"
    check_refused(workload, "workload", "mismatch", *names)


def test_a_member_that_never_joins_is_named() -> None:
    both = (graph(a=collective(), b=collective()), graph(c=collective()))
    workload = Workload(both, {"g": EVERYONE}, HALVES)
    check_refused(workload, "workload", "stalled", "rank 0", "'b'", "rank 4", "collective number 1")


def test_groups_that_do_not_meet_need_not_agree() -> None:
    """Along dimension 0 the halves never meet, so each may do as it likes."""
    rows = Group((4, 1), (1, 1))
    both = (graph(a=collective(8.0), b=collective(9.0)), graph(c=collective(16.0)))
    program = lower(Workload(both, {"g": rows}, HALVES), CLUSTER)
    assert program.names.class_count == (4, 4)


def test_a_send_without_a_receive_is_named() -> None:
    both = (graph(hello=Send(8.0, (0, 1), tag=3)), graph(idle=Compute(duration=1)))
    names = "rank 0", "tag 3", "'hello'", "rank 4"
    check_refused(Workload(both, {}, HALVES), "workload", "mismatch", *names)


def test_a_receive_without_a_send_is_named() -> None:
    both = (graph(idle=Compute(duration=1)), graph(listen=Receive((0, 1), tag=5)))
    names = "rank 4", "'listen'", "tag 5"
    check_refused(Workload(both, {}, HALVES), "workload", "stalled", *names)


def test_tags_tell_messages_apart() -> None:
    both = (graph(hello=Send(8.0, (0, 1), tag=1)), graph(listen=Receive((0, 1), tag=2)))
    check_refused(Workload(both, {}, HALVES), "workload", "mismatch", "tag 1")


def test_messages_of_one_tag_are_matched_in_order() -> None:
    builder = GraphBuilder()
    small = builder.add("small", Send(1000.0, (0, 1)))
    builder.add("big", Send(9000.0, (0, 1)), [small])
    receiver = GraphBuilder()
    for name in ("one", "two"):
        receiver.add(name, Receive((0, 1)))
    program = lower(Workload((builder.build(), receiver.build()), {}, HALVES), CLUSTER)
    flow = program.structure.nodes["flow"]
    assert flow.tolist() == [0, 1, 0, 1]


# --- rebinding ----------------------------------------------------------------------------------


def program_of_all_reduce() -> Program:
    return lower(one_collective(ALL_REDUCE, 8e6, (4, 2)), CLUSTER)


def test_scalars_are_plain_numbers() -> None:
    """Of a member of an enumeration Numba would work out the type at every call of a kernel."""
    work = Workload((graph(a=collective()),), {"g": EVERYONE})
    scalars = lower(work, CLUSTER).structure.shape
    assert {type(scalar) for scalar in scalars} == {int, float}


def test_rebind_changes_only_the_point() -> None:
    program = program_of_all_reduce()
    prices = Prices((1.0, 2.0))
    other = program.rebind(bandwidth=[3e9, 4e9], latency=[30, 40], prices=prices)
    assert other.structure is program.structure and other.names is program.names
    assert other.bandwidth.tolist() == [3e9, 4e9]
    assert other.latency.tolist() == [30, 40]
    assert other.prices is prices
    assert program.bandwidth.tolist() == [1e9, 2e9] and program.prices is None


def test_rebind_keeps_what_is_not_given() -> None:
    other = program_of_all_reduce().rebind(latency=[30, 40])
    assert other.bandwidth.tolist() == [1e9, 2e9]


@pytest.mark.parametrize(
    ("point", "where"),
    [
        ({"bandwidth": [1e9]}, "bandwidth"),
        ({"bandwidth": [1e9, 0.0]}, "bandwidth"),
        ({"bandwidth": [1e9, float("nan")]}, "bandwidth"),
        ({"bandwidth": [1e9, float("inf")]}, "bandwidth"),
        ({"latency": [1, 2, 3]}, "latency"),
        ({"latency": [1, -2]}, "latency"),
    ],
)
def test_rebind_refuses_impossible_points(point: dict[str, list[float]], where: str) -> None:
    code: Code = "mismatch" if len(point[where]) != 2 else "out-of-range"
    with refused(where, code):
        program_of_all_reduce().rebind(**point)


# --- folding ------------------------------------------------------------------------------------


def test_ranks_of_one_graph_are_one_class() -> None:
    for workload in (
        one_collective(ALL_REDUCE, 8.0, (4, 2)),
        one_collective(ALL_REDUCE, 8.0, (2, 1), (2, 1)),
        Workload((graph(send=Send(8.0, (1, 0)), receive=Receive((-1, 0))),)),
    ):
        assert lower(workload, CLUSTER).names.class_count == (8,)
        # The same when the graph is assigned rank by rank: nothing tells the ranks apart.
        assigned = Workload(workload.graphs, workload.groups, np.zeros(8, dtype=np.int64))
        assert lower(assigned, CLUSTER).names.class_count == (8,)


def test_a_million_npus_are_one_class() -> None:
    topology = Topology.build("Ring(1024)_Switch(1024)", bandwidth=[1e9] * 2, latency=[0] * 2)
    names = lower(one_collective(ALL_REDUCE, 8.0, (1024, 1024)), Cluster(topology)).names
    assert names.class_count == (2**20,)


def test_stages_of_a_pipeline_are_classes() -> None:
    both = (graph(send=Send(8.0, (0, 1))), graph(receive=Receive((0, 1))))
    names = lower(Workload(both, {}, HALVES), CLUSTER).names
    assert names.class_count == (4, 4) and names.class_first == (0, 4)


def test_ranks_differ_when_their_partners_do() -> None:
    """Rank 0 computes more, so its partner in the pair is a class of its own as well."""
    slow, fast = (
        graph(compute=Compute(duration=d), sum_up=collective(group="pair")) for d in (2, 1)
    )
    only_rank_0 = np.array([1, 0, 0, 0, 0, 0, 0, 0])
    names = lower(Workload((fast, slow), {"pair": PAIRS}, only_rank_0), CLUSTER).names
    assert sorted(zip(names.class_first, names.class_count, strict=True)) == [
        (0, 1),
        (1, 6),
        (4, 1),
    ]


def test_partners_do_not_matter_when_nothing_is_said_to_them() -> None:
    slow, fast = graph(compute=Compute(duration=2)), graph(compute=Compute(duration=1))
    only_rank_0 = np.array([1, 0, 0, 0, 0, 0, 0, 0])
    names = lower(Workload((fast, slow), {"pair": PAIRS}, only_rank_0), CLUSTER).names
    assert sorted(names.class_count) == [1, 7]


def test_without_folding_every_rank_is_a_class() -> None:
    names = lower(one_collective(ALL_REDUCE, 8.0, (4, 2)), CLUSTER, fold=False).names
    assert names.class_first == tuple(range(8)) and set(names.class_count) == {1}


def coordinates(rank: int, sizes: tuple[int, ...]) -> list[int]:
    """Mixed radix, dimension 0 fastest."""
    digits = []
    for n in sizes:
        digits.append(rank % n)
        rank //= n
    return digits


def rank_at(place: list[int], sizes: tuple[int, ...]) -> int:
    rank, weight = 0, 1
    for x, n in zip(place, sizes, strict=True):
        rank, weight = rank + x % n * weight, weight * n
    return rank


def mates(rank: int, group: Group, sizes: tuple[int, ...]) -> list[int]:
    choices = []
    for x, p, stride in zip(coordinates(rank, sizes), group.sizes, group.strides, strict=True):
        without = x - (x // stride % p) * stride
        choices.append([without + digit * stride for digit in range(p)])
    return [rank_at(list(place), sizes) for place in product(*choices)]


@given(st.data())
def test_classes_see_the_partners_that_their_ranks_have(data: st.DataObject) -> None:
    """Unfolded, class = rank: groups and peers against coordinates in plain Python."""
    sizes = data.draw(topologies(max_npus=32)).sizes
    groups = data.draw(axes(sizes))
    offset = tuple(data.draw(st.integers(-3, 3)) for _ in sizes)
    if all(o % n == 0 for o, n in zip(offset, sizes, strict=True)):
        offset = ()
    works = {name: collective(group=name) for name in groups}
    if offset:
        works["send"] = Send(8.0, offset)
    folding = fold_ranks(Workload((graph(**works),), groups), sizes, fold=False)
    for rank in range(int(np.prod(sizes))):
        for name, group in groups.items():
            assert folding.members[rank][name] == tuple(sorted(mates(rank, group, sizes)))
        for reduced, peer in folding.peers[rank].items():
            there = [x + o for x, o in zip(coordinates(rank, sizes), offset, strict=True)]
            assert peer == rank_at(there, sizes)
            assert all(0 <= o < n for o, n in zip(reduced, sizes, strict=True))


@given(st.data())
def test_the_counts_of_the_classes_add_up(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_npus=32))
    kind = data.draw(st.sampled_from([training, uneven, pipelines]))
    workload = data.draw(kind(topology.sizes))
    program = lower(workload, Cluster(topology, collectives=CollectiveModel(chunks=1)))
    names = program.names
    assert sum(names.class_count) == program.n_npus == topology.n_npus
    # A class runs one graph, its first rank's, and no lower rank is in it.
    assert len(set(names.class_first)) == len(names.class_first) == len(names.class_count)


def test_nothing_to_do_takes_no_time() -> None:
    program = lower(Workload(((),)), CLUSTER)
    assert run_batch(program, [[1e9, 1e9]]).time.tolist() == [0]
