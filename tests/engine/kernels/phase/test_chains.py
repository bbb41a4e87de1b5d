"""Operators that run as one chain: the same times and paths as one by one."""

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
    GraphBuilder,
    Group,
    Measures,
    Npu,
    Program,
    QueueOrder,
    Receive,
    Send,
    Topology,
    Workload,
    lower,
    run_batch,
    run_one,
)
from dimsweep.engine.kernels.phase.chains import join_chains
from dimsweep.engine.workload.models import Recompute, TensorOverlap, Transformer
from dimsweep.engine.workload.plan import DeviceMesh, ParallelPlan, training
from tests.support.examples import examples
from tests.support.programs import BANDWIDTHS, LATENCIES

ALL_REDUCE = CollectiveKind.ALL_REDUCE
GROUPS = {"row": Group((4, 1), (1, 1)), "column": Group((1, 2), (1, 1))}
CLUSTER = Cluster(
    Topology.build("Ring(4)_Ring(2)", bandwidth=[1e9, 2e9], latency=[1000, 0]),
    collectives=CollectiveModel(chunks=2),
)
AHEAD, BACK = (0, 1), (0, -1)


def columns(measures: Measures) -> dict[str, np.ndarray]:
    assert measures.path is not None
    return {**measures._asdict(), "path": np.zeros(0), **measures.path._asdict()}


def assert_same(program: Program) -> None:
    """A batch runs chains, a single run every operator by itself."""
    own = columns(run_one(program).measures)
    for name, values in columns(run_batch(program, program.bandwidth)).items():
        if values.dtype == np.float64:  # of sums, perhaps in another order
            assert values == pytest.approx(own[name], rel=1e-12, abs=1e-3), name
        else:
            assert values.tolist() == own[name].tolist(), name


# --- at random ----------------------------------------------------------------------------------


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    model = CollectiveModel(
        chunks=draw(st.integers(1, 3)),
        streams=draw(st.integers(1, 2)),
        queue=draw(st.sampled_from(list(QueueOrder))),
    )
    bandwidth = [draw(st.sampled_from(BANDWIDTHS)) for _ in range(2)]
    latency = [draw(st.sampled_from(LATENCIES)) for _ in range(2)]
    names = draw(st.sampled_from(["Ring(4)_Ring(2)", "FullyConnected(4)_Switch(2)"]))
    return Cluster(Topology.build(names, bandwidth=bandwidth, latency=latency), collectives=model)


@st.composite
def main_lines(draw: st.DrawFn) -> Workload:
    """Computations and collectives one after another, some of them two and two side by side, with
    operators beside them that are waited for late, or never, and messages."""
    builder, last, beside = GraphBuilder(), tuple[int, ...](), list[int]()
    groups = draw(st.sampled_from([["row"], ["row", "row", "row", "column"]]))
    durations, sizes = st.sampled_from([0, 1, 1000, 5_096_000]), st.sampled_from([0.0, 1.0, 4096.0])

    def compute() -> Compute:
        return Compute(duration=draw(durations))

    def exchange() -> Collective:
        kind = draw(st.sampled_from(list(CollectiveKind)))
        return Collective(kind, draw(sizes), draw(st.sampled_from(groups)))

    for i in range(draw(st.integers(4, 16))):
        match draw(st.sampled_from("mmmmccccffb.s")):
            case "m":
                last = (builder.add("compute", compute(), last),)
            case "c":
                last = (builder.add("exchange", exchange(), last),)
            case "f":
                fork = [builder.add("side by side", w, last) for w in (exchange(), compute())]
                last = (builder.add("join", compute(), fork),)
            case "b":
                beside.append(builder.add("beside", exchange(), last))
            case "." if beside:
                last = (*last, beside.pop())
            case "s":
                builder.add("send", Send(draw(sizes), AHEAD, i), last)
                last = (*last, builder.add("receive", Receive(BACK, i), last))
    return Workload((builder.build(),), GROUPS)


@examples(80)
@given(main_lines(), clusters(), st.booleans())
def test_chains_change_nothing(workload: Workload, cluster: Cluster, fold: bool) -> None:
    assert_same(lower(workload, cluster, fold=fold))


# --- of a transformer ---------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [TensorOverlap.NONE, TensorOverlap.BACKWARD])
def test_a_transformer_is_mostly_chains(overlap: TensorOverlap) -> None:
    topology = Topology.build(
        "Switch(4)_Switch(4)_Switch(2)", bandwidth=[200e9, 50e9, 20e9], latency=[1000, 1000, 2000]
    )
    model = CollectiveModel(chunks=4, chunks_on_one_dimension=1)
    mesh = DeviceMesh.place({"tensor": 4, "pipeline": 4, "data": 2}, topology.sizes)
    plan = ParallelPlan(
        batch=16,
        interleave=2,
        sequence_parallel=True,
        overlap_tensor=overlap,
        recompute=Recompute.SELECTIVE,
    )
    workload = training(Transformer(512, 8, 16, 256, vocabulary=1024), plan, mesh)
    program = lower(workload, Cluster(topology, Npu(312e12, 2e12), model))
    s = join_chains(program.structure)
    assert len(s.nodes) < len(program.structure.nodes) / 2
    assert len(s.links) < len(s.nodes)  # micro-batches share chains
    assert_same(program)
    points = program.bandwidth * np.array([[0.3, 1, 1], [3, 1, 0.1], [1, 100, 1]])
    for point, time in zip(points, run_batch(program, points).time, strict=True):
        assert run_one(program.rebind(bandwidth=point)).measures.time[0] == time


# --- one by one ---------------------------------------------------------------------------------


def links(*operators: tuple[Compute | Collective | Send | Receive, list[int]]) -> list[int]:
    """How many links each chain of a program of these operators has."""
    builder = GraphBuilder()
    for number, (work, after) in enumerate(operators):
        builder.add(f"operator {number}", work, after)
    program = lower(Workload((builder.build(),), GROUPS), CLUSTER)
    assert_same(program)
    return [end - start for start, end in join_chains(program.structure).chains.tolist()]


WORK = Compute(duration=1000)
ROW, COLUMN = Collective(ALL_REDUCE, 4096.0, "row"), Collective(ALL_REDUCE, 4096.0, "column")


def test_what_follows_one_another_is_a_chain() -> None:
    assert links((WORK, []), (ROW, [0]), (WORK, [1])) == [3]


def test_a_chain_begins_and_ends_with_a_computation_that_takes_time() -> None:
    none = Compute(duration=0)
    assert links((ROW, []), (WORK, [0]), (ROW, [1]), (WORK, [2]), (ROW, [3])) == [3]
    assert links((none, []), (ROW, [0]), (WORK, [1])) == []


def test_what_runs_side_by_side_is_a_part() -> None:
    assert links((WORK, []), (ROW, [0]), (WORK, [0]), (WORK, [1, 2])) == [4]
    assert links((WORK, []), (ROW, [0]), (COLUMN, [0]), (WORK, [1, 2])) == [4]


def test_others_on_the_port_undo_a_chain() -> None:
    """Whether they come in between cannot be told before the run."""
    assert links((ROW, []), (WORK, []), (ROW, [1]), (WORK, [2])) == []
    assert links((COLUMN, []), (WORK, []), (ROW, [1]), (WORK, [2])) == [3]
    message = Send(4096.0, (1, 0), 0), Receive((-1, 0), 0)
    assert links((message[0], []), (message[1], []), (WORK, []), (ROW, [2]), (WORK, [3])) == []


def test_others_on_the_stream_undo_a_chain() -> None:
    assert links((WORK, []), (WORK, []), (ROW, [1]), (WORK, [2])) == []


def test_a_link_that_others_wait_for_ends_a_chain() -> None:
    chain = (WORK, []), (ROW, [0]), (WORK, [1]), (ROW, [2]), (WORK, [3])
    assert links(*chain) == [5]
    assert links(*chain, (COLUMN, [2])) == [3]
    assert links(*chain, (COLUMN, [1])) == [3]


def test_a_collective_over_two_dimensions_is_no_link() -> None:
    """How its chunks queue depends on bandwidths."""
    both = Collective(ALL_REDUCE, 4096.0, "both")
    builder, last = GraphBuilder(), list[int]()
    for work in (WORK, both, WORK):
        last = [builder.add("operator", work, last)]
    workload = Workload((builder.build(),), {"both": Group((4, 2), (1, 1))})
    program = lower(workload, CLUSTER)
    assert join_chains(program.structure) is program.structure
