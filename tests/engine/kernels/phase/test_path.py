"""The critical path: as long as the run, a real chain of it, and its slopes are the run's."""

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from dimsweep.engine import (
    FINISHED,
    Cluster,
    CollectiveKind,
    CollectiveModel,
    Compute,
    Dimension,
    DimensionOrder,
    GraphBuilder,
    Measures,
    Npu,
    Program,
    Topology,
    Workload,
    lower,
    run_batch,
    run_one,
)
from dimsweep.engine.kernels.phase.path import Path
from dimsweep.engine.topology import BLOCKS
from tests.support.examples import examples
from tests.support.programs import (
    clusters,
    collective_models,
    one_collective,
    pipelines,
    tangles,
    training,
    uneven,
)
from tests.support.reference import Simulator, phases_of, retimed

RING = Topology.build("Ring(4)", bandwidth=[1e9], latency=[0])
KINDS = [training, tangles, uneven, pipelines]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    cluster = draw(clusters(max_npus=64))
    workload = draw(draw(st.sampled_from(KINDS))(cluster.topology.sizes))
    return lower(workload, cluster, fold=draw(st.booleans()))


@st.composite
def coincidences(draw: st.DrawFn) -> Cluster:
    """Equal dimensions without latency, where unrelated phases often end at the same instant."""
    n, d = draw(st.sampled_from([(2, 2), (2, 3), (3, 2), (4, 2)]))
    dim = Dimension(draw(st.sampled_from(list(BLOCKS.values()))), n, 1e12 / 256, 0)
    topology = Topology((dim,) * d)
    orders = (DimensionOrder.BASELINE,)
    return Cluster(topology, collectives=draw(collective_models(topology, orders=orders)))


def generic(data: st.DataObject, n: int, shape: tuple[int, ...]) -> np.ndarray:
    """Bandwidths that are unlikely to let two things happen at the same instant by chance."""
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), "seed"))
    return 10 ** random.uniform(8, 11, size=(n, *shape))


def path_of(measures: Measures) -> Path:
    assert measures.path is not None
    return measures.path


def same_counts(path: Path, rows: list[int]) -> bool:
    """Whether the paths of these points hold the same bytes and latencies."""
    counts = np.concatenate([path.demand, path.hops], axis=1)[rows]
    return np.allclose(counts, counts[0], rtol=1e-12)


def roundings(program: Program, path: Path) -> np.ndarray:
    """How many messages the path may have rounded in each dimension: two a step, and a step has a
    hop at least; transfers without their hops may be on it, as many as the run sends."""
    s = program.structure
    chunks = s.flows["chunk_end"].max(initial=0)
    return 2 * path.hops + 2 * chunks * (s.steps["count"] * s.steps["messages"]).sum()


def length(path: Path) -> np.ndarray:
    return path.compute + path.memory + (path.transfer + path.latency + path.endpoint).sum(axis=1)


@examples(70)
@given(st.data())
def test_the_path_is_as_long_as_the_run(data: st.DataObject) -> None:
    program = data.draw(programs(), "program")
    own = program.bandwidth[None]
    points = np.concatenate([own, own / 3, generic(data, 3, own[0].shape)])
    measures = run_batch(program, points)
    path = path_of(measures)
    assert (measures.outcome == FINISHED).all()
    assert length(path).tolist() == measures.time.tolist()
    assert all((part >= 0).all() for part in path)
    assert (path.latency == path.hops * program.latency).all()
    # A dimension's bytes take the seconds that they say, but for roundings.
    seconds = path.demand / points * 1e12
    limit = roundings(program, path) + 1e-6 * seconds + 1
    assert (np.abs(path.transfer - seconds) <= limit).all()


@examples(70)
@given(st.data())
def test_the_path_is_a_chain_of_the_run(data: st.DataObject) -> None:
    """However else the phases lasted: with the same order of events, the run would never be shorter
    than this chain.  As it is as long as the run here, no chain is longer."""
    cluster = data.draw(coincidences(), "cluster")
    workload = data.draw(data.draw(st.sampled_from([training, tangles]))(cluster.topology.sizes))
    program, model = lower(workload, cluster), cluster.collectives
    rules = model.queue.name.lower(), model.streams
    operators, before = workload.graphs[0], phases_of(program)
    path = path_of(run_one(program).measures)
    trace = Simulator(operators, before, *rules).run()
    assert retimed(operators, trace, before, before, *rules) == length(path)[0]

    for bandwidth in generic(data, 4, program.bandwidth.shape):
        after = phases_of(program.rebind(bandwidth=bandwidth))
        chain = length(path)[0] - path.transfer[0].sum() + (path.demand[0] / bandwidth * 1e12).sum()
        rounding = roundings(program, path)[0].sum() + 1e-9 * chain + 1
        assert retimed(operators, trace, before, after, *rules) >= chain - rounding


@examples(60)
@given(st.data())
def test_slopes_are_those_of_finite_differences(data: st.DataObject) -> None:
    program = data.draw(programs(), "program")
    n_dims = len(program.bandwidth)
    (b,) = generic(data, 1, (n_dims,))
    steps = np.eye(n_dims) * 1e-4 * b
    points = np.concatenate([b[None], b - steps, b + steps])
    measures = run_batch(program, points)
    path, time = path_of(measures), measures.time.astype(float)
    compared = 0
    for d in range(n_dims):
        below, above = 1 + d, 1 + n_dims + d
        if not same_counts(path, [0, below, above]):
            continue
        compared += 1
        slope = -path.demand[0, d] / b[d] ** 2 * 1e12
        difference = (time[above] - time[below]) / (2e-4 * b[d])
        rounding = (2 * roundings(program, path)[0].sum() + 4) / (2e-4 * b[d])
        assert difference == pytest.approx(slope, rel=1e-6, abs=rounding)
    event(f"{compared} of {n_dims} slopes compared")
    assume(compared)


@examples(60)
@given(st.data())
def test_an_extra_picosecond_of_latency_costs_its_hops(data: st.DataObject) -> None:
    program = data.draw(programs(), "program")
    n_dims = len(program.bandwidth)
    points = np.repeat(generic(data, 1, (n_dims,)), 1 + n_dims, axis=0)
    latency = np.concatenate([np.zeros((1, n_dims)), np.eye(n_dims)]) + 1000
    measures = run_batch(program, points, latency)
    path = path_of(measures)
    kept = [d for d in range(n_dims) if same_counts(path, [0, 1 + d])]
    for d in kept:
        assert measures.time[1 + d] - measures.time[0] == path.hops[0, d]
    event(f"{len(kept)} of {n_dims} compared")
    assume(kept)


def test_what_memory_bounds_is_memory() -> None:
    """Of two operators, one after the other, the roofline gives one to each."""
    builder = GraphBuilder()
    first = builder.add("matmul", Compute(flops=3e9, n_bytes=1e6))
    builder.add("softmax", Compute(flops=1e6, n_bytes=2e6), [first])
    npu = Npu(flops=1e12, memory_bandwidth=1e9)
    path = path_of(run_one(lower(Workload((builder.build(),)), Cluster(RING, npu))).measures)
    assert (path.compute[0], path.memory[0]) == (3 * 10**9, 2 * 10**9)


@pytest.mark.parametrize("order", list(DimensionOrder))
def test_one_chunk_is_on_the_path_with_all_its_phases(order: DimensionOrder) -> None:
    topology = Topology.build("Ring(4)_Switch(8)", bandwidth=[2e9, 1e9], latency=[1000, 3000])
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=1, order=order))
    workload = one_collective(CollectiveKind.ALL_REDUCE, 32e6, (4, 8))
    path = path_of(run_one(lower(workload, cluster)).measures)
    assert path.demand[0].tolist() == pytest.approx([2 * 32e6 * 3 / 4, 2 * 8e6 * 7 / 8])
    assert path.hops[0].tolist() == [2 * 3, 2 * 3 * 2]
