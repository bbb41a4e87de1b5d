"""A collective library chooses at every point of a program as if it were lowered there."""

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
    Compute,
    GraphBuilder,
    Group,
    Topology,
    Workload,
    lower,
    run_batch,
    run_one,
)
from dimsweep.engine.bound import EventBound, LinearSpace, lower_bound, time_of
from dimsweep.engine.cluster import Nccl
from dimsweep.engine.collective.library import Library, library_of, request_for
from tests.support.examples import examples

KINDS = list(CollectiveKind)
GPUS = ("a100", "h100", "b200", "l40s")
MIB = 2**20
speeds = st.floats(1e9, 1e12)


def cluster(gpu: str, nodes: int, bandwidth: tuple[float, float] = (450e9, 50e9)) -> Cluster:
    shape = f"Switch(4)_Switch({nodes})"
    topology = Topology.build(shape, bandwidth=bandwidth, latency=[0, 10**6])
    return Cluster(topology, collectives=CollectiveModel(chunks=4, library=Nccl(gpu)))


def workload(asked: list[tuple[CollectiveKind, float, str]], nodes: int) -> Workload:
    """Collectives one after another, and one beside the last."""
    builder = GraphBuilder()
    builder.add("compute", Compute(duration=10**6))
    for i, (kind, n_bytes, group) in enumerate(asked):
        builder.add(f"c{i}", Collective(kind, n_bytes, group))
    builder.add("beside", Collective(CollectiveKind.ALL_REDUCE, 8 * MIB, "rail"), after=())
    groups = {"all": (4, nodes), "node": (4, 1), "rail": (1, nodes)}
    return Workload(
        (builder.build(),), {name: Group(sizes, (1, 1)) for name, sizes in groups.items()}
    )


asked_of = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.floats(10, 29).map(lambda power: float(round(2**power))),
        st.sampled_from(["all", "node", "rail"]),
    ),
    min_size=1,
    max_size=4,
)


@examples(20)
@given(
    st.sampled_from(GPUS),
    st.sampled_from([2, 8]),
    asked_of,
    st.lists(st.tuples(speeds, speeds), min_size=1, max_size=5),
)
def test_a_point_is_what_lowering_there_gives(
    gpu: str,
    nodes: int,
    asked: list[tuple[CollectiveKind, float, str]],
    points: list[tuple[float, float]],
) -> None:
    """In a batch and by itself, to the bit, and no bound exceeds it."""
    work = workload(asked, nodes)
    program = lower(work, cluster(gpu, nodes))
    together = run_batch(program, points)
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    bounds = [
        EventBound(at, LinearSpace.build(*box))
        for at in (program, program.rebind(bandwidth=points[0]))
        for box in ((low, high), ([0, 0], [1e12, np.inf]))
    ]
    for i, point in enumerate(points):
        here = run_one(lower(work, cluster(gpu, nodes, point))).measures
        moved = run_one(program.rebind(bandwidth=point)).measures
        assert here.path is not None and moved.path is not None and together.path is not None
        for name in here._fields[:-1]:
            expected = getattr(here, name)[0]
            np.testing.assert_array_equal(getattr(moved, name)[0], expected)
            np.testing.assert_array_equal(getattr(together, name)[i], expected)
        for one, other, many in zip(here.path, moved.path, together.path, strict=True):
            np.testing.assert_array_equal(other[0], one[0])
            np.testing.assert_array_equal(many[i], one[0])
        assert all(time_of(bound, np.array(point)) <= here.time[0] / 1e12 for bound in bounds)


@examples(60)
@given(
    st.sampled_from(GPUS),
    st.sampled_from(KINDS),
    st.floats(512, 2**31),
    st.sampled_from([(4, 1), (1, 8), (4, 8), (4, 2)]),
    st.tuples(speeds, speeds),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_more_bandwidth_makes_no_prediction_longer_and_no_choice_is_left_out(
    gpu: str,
    kind: CollectiveKind,
    n_bytes: float,
    sizes: tuple[int, int],
    most: tuple[float, float],
    part: tuple[float, float],
) -> None:
    here = cluster(gpu, 8)
    library = library_of(here.collectives)
    assert isinstance(library, Library)
    request = request_for(kind, n_bytes, Group(sizes, (1, 1)), here)
    used = [d for d, members in enumerate(sizes) if members > 1]
    high = np.array(most)[used]
    low = high * np.array(part)[used]
    some = high * np.sqrt(np.array(part)[used])
    worst, between, best = library.predictions(request, np.array([low, some, high])).T
    (chosen,) = library.chosen(request, some[None])
    assert (worst >= between).all() and (between >= best).all()
    assert chosen in library.possible(request, low, high)


def all_reduce(n_bytes: float) -> Workload:
    builder = GraphBuilder()
    builder.add("c", Collective(CollectiveKind.ALL_REDUCE, n_bytes, "all"))
    return Workload((builder.build(),), {"all": Group((4, 8), (1, 1))})


def test_an_eighth_of_the_bandwidth_inside_a_node_is_another_choice() -> None:
    """Times of NCCL's choice for the whole bandwidth were those of any other bandwidth, too."""
    work = all_reduce(4 * MIB)
    program = lower(work, cluster("h100", 8))
    slower = program.bandwidth * [1 / 8, 1]
    kept = run_one(replace(program, bandwidth=slower, chooser=None)).measures.time[0]
    anew = run_batch(program, slower).time[0]
    assert kept / anew == pytest.approx(0.87, abs=0.01)
    assert anew == run_one(lower(work, cluster("h100", 8, tuple(slower)))).measures.time[0]
    assert run_one(program.rebind(latency=[0, 5])).program.chosen.tolist() == [*program.chosen]


def test_a_bound_on_one_choice_alone_would_not_hold() -> None:
    """The least bound of the choice at one split is beaten by another choice at another split."""
    space = LinearSpace.build([1e9, 1e9], [900e9, 100e9])
    beaten = 0
    for size in 2.0 ** np.arange(14, 28):
        program = lower(all_reduce(size), cluster("h100", 8, (10e9, 100e9)))
        fast = run_batch(program, [900e9, 100e9]).time[0] / 1e12
        alone = lower_bound(replace(program, chooser=None), space).bound
        assert 0 < lower_bound(program, space).bound <= fast
        beaten += alone > fast
    assert beaten > 0


@pytest.mark.parametrize("n_points", [0, 1, 5])
def test_batches_of_any_size(n_points: int) -> None:
    program = lower(all_reduce(MIB), cluster("h100", 8))
    points = program.bandwidth * np.geomspace(1 / 64, 1, n_points)[:, None]
    measures = run_batch(program, points.reshape(-1, 2))
    assert measures.time.shape == (n_points,)
    if n_points > 1:
        assert len(program.group_by_choice(points)) > 1
