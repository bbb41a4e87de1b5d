"""Graphs that repeat themselves are lowered to what the same operators, written out, are."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    Compute,
    Npu,
    Operator,
    Topology,
    Workload,
    lower,
)
from dimsweep.engine.workload.graph import (
    Graph,
    Kernel,
    Receive,
    Section,
    Stamp,
    StampedGraph,
    stamps_of,
)
from dimsweep.engine.workload.models import Transformer
from dimsweep.engine.workload.plan import DeviceMesh, ParallelPlan, Schedule
from dimsweep.engine.workload.plan import training as train
from dimsweep.engine.workload.plan.steps import Item, RankGraph
from tests.support.examples import examples
from tests.support.programs import clusters, pipelines, tangles, training, uneven
from tests.support.refused import refused

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
    stamps = [stamp for graph in workload.graphs for stamp in stamps_of(graph)]
    assert len({id(stamp.operators) for stamp in stamps if len(stamp.operators) > 1}) < 30
    assert_same(workload, written_out(workload), Cluster(topology, Npu(312e12, 2e12)))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"interleave": 2},
        {"schedule": Schedule.GPIPE},
        {"zero": 2, "overlap_gradients": False},
        {"zero": 3},
        {"blocking_messages": True},
    ],
)
def test_more_micro_batches_are_no_more_stamps(options: dict[str, Any]) -> None:
    mesh = DeviceMesh.place({"tensor": 2, "pipeline": 4, "data": 2}, (2, 4, 2))
    model = Transformer(64, 8, 4, 32, vocabulary=256)

    def graphs(micro_batches: int) -> tuple[Graph, ...]:
        plan = ParallelPlan(batch=2 * micro_batches, **options)
        return train(model, plan, mesh).graphs

    few, many = graphs(64), graphs(256)
    for one, other in zip(few, many, strict=True):
        assert len(other) > 3.5 * len(one)
        assert len([*stamps_of(one)]) == len([*stamps_of(other)])
        assert [one[i] for i in range(len(one))] == list(one)


@examples(100)
@given(st.data())
def test_a_part_that_repeats_itself_is_stamped_as_if_it_did_not(data: st.DataObject) -> None:
    """Whatever a part waits for, in whatever order; labels may be waited for, or left until the
    end."""
    labels = st.sampled_from(["", "a", "b"])
    items = st.one_of(
        st.builds(Item, st.just("work"), st.just(WORK), labels, st.sampled_from(["", "a"])),
        st.builds(Item, st.just(""), st.none(), st.sampled_from(["a", "b"])),
    )
    head, *parts = data.draw(st.lists(st.lists(items, max_size=4), min_size=2, max_size=4))
    times, beside = data.draw(st.integers(1, 7)), data.draw(st.booleans())

    def graph(*, at_once: bool) -> RankGraph:
        made = RankGraph(tags=5)
        made.run("head ", head)

        def part(time: int) -> None:
            made.receive("receive {}", Receive((1,), 2), 3 * time)
            runs = [
                partial(made.run, f"{i} {{}} ", items, 3 * time) for i, items in enumerate(parts)
            ]
            if beside:
                made.run_concurrently(*runs)
            else:
                for run in runs:
                    run()

        if at_once:
            made.repeat(part, times, 3)
        else:
            for time in range(times):
                part(time)
        made.run("tail ", [Item("", None, "a"), Item("", None, "b"), Item("end", WORK)])
        return made

    assert list(graph(at_once=True).build()) == list(graph(at_once=False).build())


def test_what_is_waited_for_once_is_not_waited_for_again() -> None:
    graph = RankGraph()
    graph.run("", [Item("labelled", WORK, "a"), Item("before", WORK)])
    graph.repeat(lambda _: graph.run("", [Item("", None, "a"), Item("again", WORK)]), 4, 1)
    assert [each.after for each in graph.build()] == [(), (), (0, 1), (2,), (3,), (4,)]


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
    return StampedGraph([Section(tuple(stamps))])


def test_an_error_names_the_operator_as_the_graph_does() -> None:
    slow = Stamp((Operator("multiply", Compute(flops=1.0)),), "F0 ")
    topology = Topology.build("Ring(4)", bandwidth=[1e9], latency=[0])
    with refused("npu.flops", "missing", "'F0 multiply'"):
        lower(Workload((StampedGraph([Section((slow,))]),)), Cluster(topology))


def test_a_stamp_waits_for_what_stands_before_it() -> None:
    first = Stamp((Operator("one", WORK), Operator("two", WORK, (0,))))
    wrong = Stamp((Operator("three", WORK),), "", 2, ((0, (2,)),))
    with refused("operator 'three'", "out-of-range", "2"):
        Workload((StampedGraph([Section((first, wrong))]),)).check((4,))


def test_a_host_runs_ahead_through_a_pass_and_begins_each_pass_anew() -> None:
    short, long = (Compute(kernels=(Kernel("copy", 0.0, n),)) for n in (1e6, 5e6))  # 1 and 5 us
    operators = (
        Operator("copy", long),
        Operator("copy", short, (0,)),
        Operator("copy", short, (1,)),
    )
    again = Stamp(operators, start=3, outside=((0, (2,)),))
    graph = StampedGraph([Section((Stamp(operators), again))])
    topology = Topology.build("Ring(2)", bandwidth=[1e9], latency=[0])
    npu = Npu(memory_bandwidth=1e12, host=3_000_000)
    nodes = lower(Workload((graph,)), Cluster(topology, npu)).structure.nodes
    # Issued at 3, 6 and 9 us; the NPU is done with the first at 8 us, and with the second at 9.
    assert nodes["duration"].tolist() == [8_000_000, 1_000_000, 1_000_000] * 2
