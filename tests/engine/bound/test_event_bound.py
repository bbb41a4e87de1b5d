"""The lower bound on event-driven times, against the event-driven kernel itself."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

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
    DimensionOrder,
    GraphBuilder,
    Group,
    Npu,
    Prices,
    Program,
    Topology,
    Workload,
    lower,
    place,
    run_batch,
)
from dimsweep.engine.bound import (
    EventBound,
    LinearSpace,
    closed_form,
    lower_bound,
    optimum,
    overlap_form,
    time_of,
)
from dimsweep.engine.bound.event import items_of
from dimsweep.engine.workload import Communication, Layer, Pass, TrainingLoop, training_iteration
from tests.support.examples import examples
from tests.support.libra import DIMS, program_of
from tests.support.libra import WORKLOADS as WORKLOAD_NAMES
from tests.support.programs import clusters, one_collective, pipelines, tangles, training, uneven

PICOSECONDS = 1e12
WORKLOADS = pytest.mark.parametrize("workloads", [training, tangles, uneven, pipelines])


def space_around(program: Program, spread: float) -> LinearSpace:
    return LinearSpace.build(program.bandwidth / spread, program.bandwidth * spread)


def splits(space: LinearSpace, seed: int, n: int = 6) -> Any:
    """Random points of a box, its corners among them."""
    random = np.random.default_rng(seed)
    share = random.random((n, space.n_dims))
    share[:2] = np.round(share[:2])
    return space.low ** (1 - share) * space.high**share


def assert_bound_holds(program: Program, space: LinearSpace, points: Any) -> None:
    bound = EventBound(program, space)
    times = run_batch(program, points).time
    for point, time in zip(points, times.tolist(), strict=True):
        assert time_of(bound, point) * PICOSECONDS <= time, point


@examples(50)
@WORKLOADS
@given(st.data(), st.sampled_from([1.0, 2.0, 30.0]), st.integers(0, 2**32))
def test_no_run_beats_it(
    workloads: Callable[..., st.SearchStrategy[Workload]],
    data: st.DataObject,
    spread: float,
    seed: int,
) -> None:
    """Any queue, order, algorithm, streams, classes and messages; every point of the space."""
    cluster = data.draw(clusters(max_npus=4096 if workloads is training else 32))
    program = lower(data.draw(workloads(cluster.topology.sizes)), cluster)
    space = space_around(program, spread)
    assert_bound_holds(program, space, splits(space, seed))


@examples(50)
@given(st.data(), st.integers(0, 2**32))
def test_no_dimension_order_beats_it(data: st.DataObject, seed: int) -> None:
    """Themis, and many chunks, so that orders differ."""
    cluster = data.draw(clusters(max_npus=512, orders=(DimensionOrder.THEMIS,)))
    chunks = data.draw(st.sampled_from([2, 16, 64]))
    cluster = replace(cluster, collectives=replace(cluster.collectives, chunks=chunks))
    program = lower(data.draw(training(cluster.topology.sizes)), cluster)
    space = space_around(program, 10.0)
    assert_bound_holds(program, space, splits(space, seed))


@examples(30)
@given(st.data(), st.booleans(), st.integers(0, 2**32))
def test_the_least_bound_is_below_every_run(data: st.DataObject, priced: bool, seed: int) -> None:
    cluster = data.draw(clusters(max_npus=64))
    program = lower(data.draw(tangles(cluster.topology.sizes)), cluster)
    space = space_around(program, 4.0)
    prices = Prices((1e-9,) * space.n_dims, fixed=3.0) if priced else None
    found = lower_bound(program, space, prices)
    points = splits(space, seed)
    values = run_batch(program, points).time / PICOSECONDS
    if prices:
        values = values * prices.cost(points)
    assert found.bound <= values.min()
    assert found.gap < 1e-6 or found.value < 1e-12


# --- how tight ----------------------------------------------------------------------------------


@examples(30)
@given(
    st.data(),
    st.sampled_from(
        [CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL]
    ),
)
def test_it_is_exact_where_chunks_visit_each_dimension_once(
    data: st.DataObject, kind: CollectiveKind
) -> None:
    """But for rounding, by half a picosecond a transfer: some thousands of them here."""
    cluster = data.draw(clusters(orders=(DimensionOrder.BASELINE,)))
    cluster = replace(cluster, npu=Npu())
    workload = one_collective(kind, 1e9, cluster.topology.sizes)
    program = lower(workload, cluster)
    bound = time_of(EventBound(program, space_around(program, 1.0)), program.bandwidth)
    time = int(run_batch(program, program.bandwidth).time[0])
    assert bound * PICOSECONDS == pytest.approx(time, rel=1e-5)


def test_a_blocking_loop_of_all_reduces() -> None:
    """Within a hundredth: only the way back of the first chunks is not in the bound."""
    topology = Topology.build(
        "Ring(4)_FullyConnected(4)_Switch(8)", bandwidth=[100e9, 50e9, 20e9], latency=[10**6] * 3
    )
    model = CollectiveModel(chunks=64)
    workload = one_collective(CollectiveKind.ALL_REDUCE, 1e9, topology.sizes)
    program = lower(workload, Cluster(topology, collectives=model))
    found = lower_bound(program, LinearSpace.budget(3, 170e9, 1e9))
    time = run_batch(program, found.bandwidth).time[0] / PICOSECONDS
    assert found.bound <= time <= 1.05 * found.bound


def test_gradients_that_overlap_count_what_their_dimension_must_carry() -> None:
    """Two streams on one port: the path of either is half of what the port is busy for."""
    builder = GraphBuilder()
    for stream in ("a", "b"):
        work = Collective(CollectiveKind.ALL_REDUCE, 1e9, "all", stream=stream)
        builder.add(stream, work)
    topology = Topology.build("Ring(4)", bandwidth=[1e9], latency=[0])
    workload = Workload((builder.build(),), {"all": Group((4,), (1,))})
    program = lower(workload, Cluster(topology, collectives=CollectiveModel(chunks=4)))
    bound = time_of(EventBound(program, space_around(program, 1.0)), program.bandwidth)
    assert bound == pytest.approx(3.0, rel=1e-9)
    assert run_batch(program, program.bandwidth).time[0] == 3 * 10**12


def test_themis_pools_the_dimensions() -> None:
    """A reduce-scatter of 3/4 GB over two dimensions of 1 GB/s, taken in any order: 0.375 s."""
    topology = Topology.build(
        "FullyConnected(2)_FullyConnected(2)", bandwidth=[1e9, 1e9], latency=[0, 0]
    )
    for order, least in (("baseline", 0.5), ("themis", 0.375)):
        model = CollectiveModel(chunks=64, order=DimensionOrder(order))
        workload = one_collective(CollectiveKind.REDUCE_SCATTER, 1e9, (2, 2))
        program = lower(workload, Cluster(topology, collectives=model))
        bound = time_of(EventBound(program, space_around(program, 1.0)), program.bandwidth)
        time = run_batch(program, program.bandwidth).time[0] / PICOSECONDS
        assert bound == pytest.approx(least, rel=0.02)
        assert bound <= time <= 1.05 * bound


@WORKLOAD_NAMES
@DIMS
def test_libras_studies(name: str, dims: int) -> None:
    """In 256 chunks: the split where the bound is least is within 0.1 % of it."""
    program = program_of(name, dims, 256)
    found = lower_bound(program, LinearSpace.budget(dims, 500e9, 1e9))
    time = run_batch(program, found.bandwidth).time[0] / PICOSECONDS
    assert found.bound <= time <= 1.001 * found.bound


# --- LIBRA's overlap ----------------------------------------------------------------------------


@examples(30)
@given(st.data())
def test_without_overlap_the_longest_path_is_the_closed_form(data: st.DataObject) -> None:
    cluster = data.draw(clusters())
    loops = (TrainingLoop.NO_OVERLAP,)
    program = lower(data.draw(training(cluster.topology.sizes, loops=loops)), cluster)
    expected = float(closed_form(program).time(program.bandwidth))
    assert time_of(overlap_form(program), program.bandwidth) == pytest.approx(expected, rel=1e-12)


def test_gradients_that_overlap_hide_behind_compute() -> None:
    """max(compute, communication), least where the budget makes each collective short enough."""
    reduce = Communication(CollectiveKind.ALL_REDUCE, 1e9, "data")
    first = Layer("first", Pass(), Pass(Compute(duration=10**12)), Pass())
    last = Layer("last", Pass(), Pass(), Pass(Compute(duration=0), reduce))
    graph = training_iteration([first, last], TrainingLoop.OVERLAP_GRADIENTS)
    topology = Topology.build("Ring(4)_Switch(8)", bandwidth=[1e9, 1e9], latency=[0, 0])
    program = lower(Workload((graph,), place({"data": "rest"}, topology.sizes)), Cluster(topology))
    form = overlap_form(program)
    # 2 * 3/4 GB and 2 * 1/4 * 7/8 GB, in all 1.9375 GB.
    for total, seconds in ((1.9375 / 3, 3.0), (1.9375, 1.0), (10.0, 1.0)):
        found = optimum(form, LinearSpace.budget(2, total * 1e9))
        assert found.value == pytest.approx(seconds, rel=1e-8)
        assert found.gap < 1e-8


# --- the graph ----------------------------------------------------------------------------------


@examples(30)
@given(st.data())
def test_barriers_are_before_or_after_all_others(data: st.DataObject) -> None:
    cluster = data.draw(clusters(max_npus=16))
    sizes = cluster.topology.sizes
    workload = data.draw(st.one_of(tangles(sizes), training(sizes), pipelines(sizes)))
    items = items_of(lower(workload, cluster).structure)
    n = len(items.kind)
    ancestors = np.eye(n, dtype=bool)
    for i in range(n):
        for j in items.before[items.start[i] : items.start[i + 1]]:
            assert j < i
            ancestors[i] |= ancestors[j]
    comparable = (ancestors | ancestors.T).all(axis=1)
    assert items.barriers().tolist() == comparable.tolist()


def test_one_walk_over_a_long_graph() -> None:
    """Five thousand layers: a handful of cuts, whatever the length."""
    topology = Topology.build("Ring(4)_Switch(8)", bandwidth=[1e9, 1e9], latency=[0, 0])
    reduce = Communication(CollectiveKind.ALL_REDUCE, 1e6, "data")
    one = Pass(Compute(duration=10**6), None)
    layer = Layer("layer", one, one, Pass(Compute(duration=10**6), reduce))
    graph = training_iteration([layer] * 5_000, TrainingLoop.OVERLAP_GRADIENTS)
    workload = Workload((graph,), place({"data": "rest"}, topology.sizes))
    program = lower(workload, Cluster(topology))
    found = lower_bound(program, LinearSpace.budget(2, 2e9))
    assert found.gap < 1e-8
    assert found.rounds < 20
    assert found.bound <= run_batch(program, found.bandwidth).time[0] / PICOSECONDS
