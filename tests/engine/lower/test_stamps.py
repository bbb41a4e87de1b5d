"""Graphs that repeat themselves are lowered to what the same operators, written out, are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import (
    Cluster,
    Compute,
    DimsweepError,
    Npu,
    Operator,
    Topology,
    Workload,
    lower,
)
from engine.model import Transformer
from engine.plan import DeviceMesh, ParallelPlan, Schedule
from engine.plan import training as train
from engine.workload.graph import Kernel, Stamp, StampedGraph
from tests.support.examples import examples
from tests.support.programs import clusters, pipelines, tangles, training, uneven

WORK = Compute(duration=1)


def assert_same(stamped: Workload, plain: Workload, cluster: Cluster, *, fold: bool = True) -> None:
    mine, its = lower(stamped, cluster, fold=fold), lower(plain, cluster, fold=fold)
    assert mine.structure.shape == its.structure.shape
    for table, expected in zip(mine.structure[1:], its.structure[1:], strict=True):
        assert table.tolist() == expected.tolist()
    assert list(mine.names.node) == list(its.names.node)
    assert [mine.names.node[i] for i in range(len(its.names.node))] == list(its.names.node)
    assert replace(mine.names, node=()) == replace(its.names, node=())


def written_out(workload: Workload) -> Workload:
    return replace(workload, graphs=tuple(tuple(graph) for graph in workload.graphs))


@pytest.mark.parametrize(
    "plan",
    [
        ParallelPlan(batch=32),
        ParallelPlan(batch=32, interleave=2, sequence_parallel=True),
        ParallelPlan(batch=32, schedule=Schedule.GPIPE, zero=3),
        ParallelPlan(batch=32, zero=2, overlap_gradients=False),
    ],
)
def test_a_plan_is_lowered_like_its_operators(plan: ParallelPlan) -> None:
    topology = Topology.build("Switch(2)_Switch(2)_Switch(4)", bandwidth=[1e9] * 3, latency=[0] * 3)
    mesh = DeviceMesh.place({"tensor": 2, "pipeline": 2, "data": 4}, topology.sizes)
    workload = train(Transformer(64, 4, 4, 32, vocabulary=256), plan, mesh)
    stamps = [stamp for graph in workload.graphs for stamp in graph.stamps]
    assert len({id(stamp.operators) for stamp in stamps if len(stamp.operators) > 1}) < 30
    assert_same(workload, written_out(workload), Cluster(topology, Npu(312e12, 2e12)))


@examples(40)
@given(st.data())
def test_a_graph_may_be_cut_anywhere(data: st.DataObject) -> None:
    cluster = data.draw(clusters(max_npus=16))
    kind = data.draw(st.sampled_from([pipelines, training, tangles, uneven]))
    plain = data.draw(kind(cluster.topology.sizes))
    cuts = data.draw(st.sets(st.integers(1, 12)))
    stamped = replace(plain, graphs=tuple(cut(tuple(graph), cuts) for graph in plain.graphs))
    assert_same(stamped, plain, cluster, fold=data.draw(st.booleans()))


def cut(graph: tuple[Operator, ...], at: set[int]) -> StampedGraph:
    starts = [0, *sorted(place for place in at if place < len(graph))]
    stamps = []
    for start, end in zip(starts, [*starts[1:], len(graph)], strict=True):
        inside, outside = [], []
        for number, operator in enumerate(graph[start:end]):
            own = tuple(before - start for before in operator.after if before >= start)
            inside.append(replace(operator, after=own))
            before = tuple(before for before in operator.after if before < start)
            if before:
                outside.append((number, before))
        stamps.append(Stamp(tuple(inside), "", start, tuple(outside)))
    return StampedGraph(stamps)


def test_an_error_names_the_operator_as_the_graph_does() -> None:
    slow = Stamp((Operator("multiply", Compute(flops=1.0)),), "F0 ")
    topology = Topology.build("Ring(4)", bandwidth=[1e9], latency=[0])
    with pytest.raises(DimsweepError, match="'F0 multiply'"):
        lower(Workload((StampedGraph([slow]),)), Cluster(topology))


def test_a_stamp_waits_for_what_stands_before_it() -> None:
    first = Stamp((Operator("one", WORK), Operator("two", WORK, (0,))))
    wrong = Stamp((Operator("three", WORK),), "", 2, ((0, (2,)),))
    with pytest.raises(DimsweepError, match="does not exist"):
        Workload((StampedGraph([first, wrong]),)).check((4,))


def test_a_host_runs_ahead_through_a_pass_and_begins_each_pass_anew() -> None:
    short, long = (Compute(kernels=(Kernel("copy", 0.0, n),)) for n in (1e6, 5e6))  # 1 and 5 us
    operators = (
        Operator("copy", long),
        Operator("copy", short, (0,)),
        Operator("copy", short, (1,)),
    )
    graph = StampedGraph([Stamp(operators), Stamp(operators, start=3, outside=((0, (2,)),))])
    topology = Topology.build("Ring(2)", bandwidth=[1e9], latency=[0])
    npu = Npu(memory_bandwidth=1e12, host=3_000_000)
    nodes = lower(Workload((graph,)), Cluster(topology, npu)).structure.nodes
    # Issued at 3, 6 and 9 us; the NPU is done with the first at 8 us, and with the second at 9.
    assert nodes["duration"].tolist() == [8_000_000, 1_000_000, 1_000_000] * 2
