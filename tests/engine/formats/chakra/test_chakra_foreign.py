"""Traces that others write: host operators, every type of collective, communicators, and faults."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    CollectiveModel,
    Compute,
    DimsweepError,
    Fidelity,
    Group,
    Npu,
    Operator,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.formats.chakra import (
    CollectiveType,
    NodeType,
    Trace,
    TraceNode,
    read_chakra_workload,
    read_trace,
    write_chakra_workload,
    write_trace,
)
from dimsweep.engine.kernels.messages import lower_by_rank
from dimsweep.engine.kernels.reference import run_on_simpy
from tests.support.examples import examples

_B, _ALPHA, _P = 100e9, 500_000, 8  # bytes/s, ps, members
_US = 1_000_000  # ps
RING = Topology.build(f"Ring({_P})", bandwidth=[_B], latency=[_ALPHA])
CLUSTER = Cluster(RING, Npu(1e12, 1e11), CollectiveModel(chunks=1))


def node(number: int, type_: NodeType, *after: int, micros: int = 0, **more: object) -> TraceNode:
    return TraceNode(number, f"node {number}", type_, after, (), 0, micros, more)


def collective(number: int, *after: int, size: int = 2_000_000, **more: object) -> TraceNode:
    attributes = {"comm_type": 0, "comm_size": size, **more}
    return node(number, NodeType.COMM_COLL, *after, **attributes)


def read(
    folder: Path, ranks: Sequence[Sequence[TraceNode]], groups: dict[str, list[int]] | None = None
) -> Workload:
    """One trace for all ranks, or one each."""
    file = folder / "groups.json"
    file.write_text(json.dumps(groups or {}))
    if len(ranks) == 1:
        write_trace(folder / "all.et", Trace(tuple(ranks[0])))
        return read_chakra_workload(folder / "all.et", file, (_P,), "traced")
    for rank, nodes in enumerate(ranks):
        write_trace(folder / f"w.{rank}.et", Trace(tuple(nodes)))
    return read_chakra_workload(folder / "w", file, (_P,), "traced")


def refusal(folder: Path, *nodes: TraceNode, groups: dict[str, list[int]] | None = None) -> str:
    with pytest.raises(DimsweepError) as caught:
        read(folder, [nodes] * _P, groups)
    return str(caught.value)


# --- the host -----------------------------------------------------------------------------------


def launches(n: int, host: int = 60, kernel: int = 50) -> list[TraceNode]:
    """The host issues ``n`` kernels, each after ``host`` us."""
    nodes = []
    for i in range(n):
        before = [2 * i - 2] if i else []
        nodes.append(node(2 * i, NodeType.COMP, *before, micros=host, is_cpu_op=True))
        nodes.append(node(2 * i + 1, NodeType.COMP, 2 * i, micros=kernel, is_cpu_op=False))
    return nodes


@pytest.mark.parametrize("fidelity", [Fidelity.PHASE, Fidelity.MESSAGE])
@pytest.mark.parametrize("fold", [True, False])
def test_the_host_issues_while_the_npu_computes(
    tmp_path: Path, fidelity: Fidelity, fold: bool
) -> None:
    """Fifty kernels of 50 us, each after 60 us of the host: on one stream these were 5.5 ms."""
    workload = read(tmp_path, [launches(50)])
    result = simulate(workload, CLUSTER, fidelity=fidelity, fold=fold)
    assert result.time_ps == (50 * 60 + 50) * _US
    assert result.compute == pytest.approx(50 * 50e-6)
    assert result.exposed == 0
    if fidelity is Fidelity.PHASE:
        path = result.breakdown.path
        assert path is not None and int(path.compute[0]) == result.time_ps


def test_the_host_hides_no_communication(tmp_path: Path) -> None:
    """An all-reduce of 2 MB takes 14 steps of 0.5 us + 250 kB / (100 GB/s), all of it exposed."""
    nodes = [collective(0), node(1, NodeType.COMP, micros=1000, is_cpu_op=True)]
    result = simulate(read(tmp_path, [nodes]), CLUSTER)
    assert result.time_ps == 1000 * _US and result.compute == 0
    assert result.exposed == pytest.approx(14 * (0.5e-6 + 2.5e-6))


def test_accounts_are_those_of_the_rank_that_ends_last(tmp_path: Path) -> None:
    """Rank 0's host is at it for longest, though its NPU computes for the shortest time."""
    slow = [
        node(0, NodeType.COMP, micros=900, is_cpu_op=True),
        node(1, NodeType.COMP, 0, micros=10),
    ]
    others = [node(0, NodeType.COMP, micros=500)]
    result = simulate(read(tmp_path, [slow, *[others] * (_P - 1)]), CLUSTER)
    assert result.time_ps == 910 * _US
    assert result.compute == pytest.approx(10e-6)


def test_nodes_that_do_nothing_wait_for_no_kernel(tmp_path: Path) -> None:
    """A process group's description is the host's; a kernel without a duration takes none."""
    nodes = [
        node(0, NodeType.COMP, micros=500),
        node(1, NodeType.METADATA),
        node(2, NodeType.COMP, 1, micros=20, is_cpu_op=True),
        *(node(i, NodeType.COMP, i - 1) for i in range(3, 1003)),
    ]
    result = simulate(read(tmp_path, [nodes]), CLUSTER)
    assert result.time_ps == 500 * _US  # and not a nanosecond more for each, as in ASTRA-sim


def test_work_of_the_host_is_written_and_read(tmp_path: Path) -> None:
    workload = read(tmp_path, [launches(3)])
    write_chakra_workload(workload, CLUSTER, tmp_path / "again.et")
    again = read_chakra_workload(tmp_path / "again.et", None, (_P,), "again")
    works = [operator.work for operator in again.graphs[0]]
    assert works == [operator.work for operator in workload.graphs[0]]
    assert works[0] == Compute(duration=60 * _US, on_host=True)


def test_the_host_needs_a_duration() -> None:
    idle = Workload(((Operator("idle", Compute(1e9, on_host=True)),),))
    with pytest.raises(DimsweepError, match="work of the host without a duration"):
        simulate(idle, CLUSTER)


# --- communicators ------------------------------------------------------------------------------


@pytest.mark.parametrize("fidelity", [Fidelity.PHASE, Fidelity.MESSAGE])
def test_two_communicators_over_the_same_ranks_are_two_streams(
    tmp_path: Path, fidelity: Fidelity
) -> None:
    """Two exchanges of 20 us of latency and 5 us of bytes each, twice: the bytes take turns at the
    ports and the latencies pass beside, which on one stream they do not."""
    direct = Topology.build(f"FullyConnected({_P})", bandwidth=[70e9], latency=[20 * _US])
    cluster = Cluster(direct, Npu(), CollectiveModel(chunks=1))

    def micros(*names: str) -> float:
        nodes = [collective(i, size=400_000, pg_name=name) for i, name in enumerate(names)]
        members = list(range(_P))
        workload = read(tmp_path, [nodes] * _P, {"1": members, "2": members[::-1]})
        return simulate(workload, cluster, fidelity=fidelity).time_ps / _US

    assert micros("1") == 50
    assert micros("1", "1") == 100
    assert micros("1", "2") == 60
    assert micros("1", "0") == 60  # the communicator of all ranks is another one


def test_alike_communicators_have_one_name(tmp_path: Path) -> None:
    """Ranks 0 to 3 and 4 to 7 have two communicators each: one graph for all, two groups."""
    groups = {"a": [0, 1, 2, 3], "b": [4, 5, 6, 7], "c": [3, 2, 1, 0], "d": [7, 6, 5, 4]}
    ranks = [
        [collective(0, pg_name="ab"[rank // 4]), collective(1, pg_name="cd"[rank // 4])]
        for rank in range(_P)
    ]
    workload = read(tmp_path, ranks, groups)
    assert workload.groups == {"4 (a)": Group((4,), (1,)), "4 (c)": Group((4,), (1,))}
    assert len(workload.graphs) == 1


def test_communicators_meet_in_their_own_order(tmp_path: Path) -> None:
    """Ranks that issue two communicators in different orders each wait for their own partners."""
    members = list(range(_P))
    ranks = [
        [collective(0, size=10, pg_name=first), collective(1, size=10, pg_name=second)]
        for first, second in [("1", "2"), ("2", "1")] * (_P // 2)
    ]
    for rank in ranks:  # of unlike sizes: merged into one, members disagree
        for i, each in enumerate(rank):
            size = 10 if each.attributes["pg_name"] == "1" else 20
            rank[i] = each._replace(attributes={**each.attributes, "comm_size": size})
    assert simulate(read(tmp_path, ranks, {"1": members, "2": members}), CLUSTER).time_ps > 0


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ([2, 3, 4, 5], "places [0, 1, 2, 3] or [4, 5, 6, 7], not [2, 3, 4, 5]"),
        ([1, 2], "places [0, 1] or [2, 3], not [1, 2]"),
        ([2, 4], "places [0, 2] or [4, 6], not [2, 4]"),
        ([3, 5], "places [1, 3] or [5, 7], not [3, 5]"),
    ],
)
def test_a_group_across_two_sub_meshes_is_told(tmp_path: Path, ranks: list[int], told: str) -> None:
    idle = [node(0, NodeType.COMP)]
    each = [[collective(0, pg_name="7")] if rank in ranks else idle for rank in range(_P)]
    with pytest.raises(DimsweepError) as caught:
        read(tmp_path, each, {"7": ranks})
    assert told in str(caught.value) and f"rank {ranks[0]}, node 0" in str(caught.value)


def test_groups_that_begin_inside_a_stride_are_sub_meshes(tmp_path: Path) -> None:
    ranks = [[collective(0, pg_name="ab"[rank % 2])] for rank in range(_P)]
    workload = read(tmp_path, ranks, {"a": [0, 2, 4, 6], "b": [1, 3, 5, 7]})
    assert workload.groups == {"4 stride 2 (a)": Group((4,), (2,))}


# --- types of collectives -----------------------------------------------------------------------

_S = 7_000_000  # bytes: a multiple of the members, and of those but one
# By hand: a ring of p takes p-1 steps of its largest shard, 500 ns and bytes / (100 GB/s) each.
_STEPS = {
    CollectiveType.BROADCAST: (_P - 1, _S / (_P - 1)),
    CollectiveType.REDUCE: (_P - 1, _S / (_P - 1)),
    CollectiveType.GATHER: (_P - 1, _S),
    CollectiveType.SCATTER: (_P - 1, _S / _P),
    CollectiveType.REDUCE_SCATTER_BLOCK: (_P - 1, _S / _P),
    CollectiveType.BARRIER: (2 * (_P - 1), 0),
    CollectiveType.ALL_REDUCE: (2 * (_P - 1), _S / _P),
    CollectiveType.REDUCE_SCATTER: (_P - 1, _S / _P),
    CollectiveType.ALL_GATHER: (_P - 1, _S),
}


@pytest.mark.parametrize("type_", list(CollectiveType))
def test_every_type_of_collective_is_simulated(tmp_path: Path, type_: CollectiveType) -> None:
    workload = read(tmp_path, [[collective(0, size=_S, comm_type=int(type_))]])
    phase, message = (
        simulate(workload, CLUSTER, fidelity=fidelity).time_ps
        for fidelity in (Fidelity.PHASE, Fidelity.MESSAGE)
    )
    assert phase == message
    if type_ in _STEPS:
        n, n_bytes = _STEPS[type_]
        assert phase == pytest.approx(n * (_ALPHA + n_bytes / _B * 1e12), abs=n)


def test_a_broadcast_is_as_long_as_its_bytes_among_any_members(tmp_path: Path) -> None:
    """The root sends every byte once: s/b, also among two, and a reduction takes in every byte."""
    free = Cluster(
        Topology.build(f"Switch({_P})", bandwidth=[_B], latency=[0]), Npu(reduce_bandwidth=_B)
    )
    for p in (2, 4, 8):
        for type_, passes in ((CollectiveType.BROADCAST, 1), (CollectiveType.REDUCE, 2)):
            one = collective(0, size=_S, comm_type=int(type_), pg_name="1")
            idle = node(0, NodeType.COMP)
            ranks = [[one]] * p + [[idle]] * (_P - p)
            workload = read(tmp_path, ranks, {"1": list(range(p))})
            time = simulate(workload, free).time_ps
            assert time == pytest.approx(passes * _S / _B * 1e12, rel=1e-6)


def test_collectives_of_one_rank_take_no_time(tmp_path: Path) -> None:
    for type_ in CollectiveType:
        nodes = [collective(0, comm_type=int(type_), pg_name="1")]
        ranks = [nodes] + [[node(0, NodeType.COMP)]] * (_P - 1)
        assert simulate(read(tmp_path, ranks, {"1": [0]}), CLUSTER).time_ps == 0


# --- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "attributes", "lacks"),
    [
        (NodeType.COMM_COLL, {"comm_size": 8}, "comm_type"),
        (NodeType.COMM_COLL, {"comm_type": 0}, "comm_size"),
        (NodeType.COMM_COLL, {}, "comm_type, comm_size"),
        (NodeType.COMM_SEND, {"comm_size": 8}, "comm_dst"),
        (NodeType.COMM_SEND, {"comm_dst": 1}, "comm_size"),
        (NodeType.COMM_RECV, {"comm_size": 8}, "comm_src"),
    ],
)
def test_an_attribute_that_is_missing_is_told(
    tmp_path: Path, type_: NodeType, attributes: dict[str, object], lacks: str
) -> None:
    message = refusal(tmp_path, node(3, type_, **attributes))
    assert f"a {type_.name}_NODE without {lacks}" in message
    assert "rank 0, node 3 ('node 3')" in message


def test_a_barrier_needs_no_size(tmp_path: Path) -> None:
    barrier = node(0, NodeType.COMM_COLL, comm_type=int(CollectiveType.BARRIER))
    assert simulate(read(tmp_path, [[barrier]]), CLUSTER).time_ps == 14 * _ALPHA


@pytest.mark.parametrize("version", ["0.0.4", "1.0.0", ""])
@pytest.mark.parametrize("name", ["w.et", "w.json"])
def test_the_version_of_the_schema_is_kept(tmp_path: Path, version: str, name: str) -> None:
    trace = Trace((collective(0),), version)
    write_trace(tmp_path / name, trace)
    assert read_trace(tmp_path / name) == trace
    assert simulate(read_chakra_workload(tmp_path / name, None, (_P,), "v"), CLUSTER).time_ps > 0


# --- compiled, and on SimPy ----------------------------------------------------------------------

_NODES = st.lists(
    st.tuples(
        st.sampled_from(["host", "compute", "metadata", "first", "second", "all"]),
        st.integers(0, 4),
        st.integers(0, 9),
        st.sets(st.integers(1, 4), max_size=2),
    ),
    min_size=1,
    max_size=9,
)


def program(drawn: Sequence[tuple[str, int, int, set[int]]]) -> list[TraceNode]:
    nodes = []
    for i, (what, amount, type_, back) in enumerate(drawn):
        after = sorted(i - b for b in back if b <= i)
        if what in ("host", "compute", "metadata"):
            kind = NodeType.METADATA if what == "metadata" else NodeType.COMP
            nodes.append(node(i, kind, *after, micros=amount, is_cpu_op=what == "host"))
        else:
            group = {"first": "1", "second": "2", "all": "0"}[what]
            sized = {"size": 1000 * amount, "comm_type": type_, "pg_name": group}
            nodes.append(collective(i, *after, **sized))
    return nodes


@examples(60)
@given(drawn=_NODES, in_order=st.booleans())
def test_phases_messages_and_simpy_agree_on_hosts_and_communicators(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[str, int, int, set[int]]],
    in_order: bool,
) -> None:
    groups = {"1": list(range(_P)), "2": list(range(_P))}
    workload = read(tmp_path_factory.mktemp("w"), [program(drawn)] * _P, groups)
    workload = replace(workload, in_order=in_order)  # chains are for the other order
    by_rank = lower_by_rank(workload, CLUSTER)
    runs = [
        simulate(workload, CLUSTER, fidelity=fidelity, fold=fold).run.measures
        for fidelity in (Fidelity.PHASE, Fidelity.MESSAGE)
        for fold in (True, False)
    ] + [run_on_simpy(by_rank).measures]
    for name in ("time", "end", "compute", "exposed"):
        assert len({int(getattr(run, name).max()) for run in runs}) == 1, name
