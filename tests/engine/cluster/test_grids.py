"""Meshes and tori of two dimensions: links, X-Y routes, rings, and both kernels on them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import Cluster, CollectiveKind, CollectiveModel, DimsweepError, Topology
from engine.cluster import bisection, parse_shape
from engine.cluster.blocks import Grid, Mesh2D, Torus2D
from engine.cluster.blocks.topology import Dimension
from engine.network.fabric import build_network
from engine.network.routing import Router, Routing
from tests.support.messages import times
from tests.support.programs import one_collective

REDUCE_SCATTER, ALL_GATHER = CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER
ALL_REDUCE, ALL_TO_ALL = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL
GRIDS = st.builds(
    lambda kind, x, y: kind(x, y),
    st.sampled_from([Mesh2D, Torus2D]),
    st.integers(2, 6),
    st.integers(2, 6),
)
LINK = 1e12 / 256  # bytes/s: 256 ps a byte


def topology_of(grid: Grid, latency: int = 0) -> Topology:
    n = grid.size
    return Topology((Dimension(grid, n, LINK * grid.links(n), latency),))


def both(
    grid: Grid, kind: CollectiveKind, p: int, stride: int = 1, latency: int = 0
) -> tuple[int, int]:
    """Picoseconds of both kernels; a member's shard divides into halves, rows and columns."""
    cluster = Cluster(topology_of(grid, latency), collectives=CollectiveModel(chunks=1))
    return times(one_collective(kind, 7200.0 * p, (p,), (stride,)), cluster)


# --- links and routes ---------------------------------------------------------------------------


@given(GRIDS)
def test_links_lead_to_neighbours_and_both_ways(grid: Grid) -> None:
    links = Counter(grid.wire(range(grid.size), ""))
    assert set(links.values()) == {1}
    assert all((b, a) in links for a, b in links)
    degree = Counter(a for a, _ in links)
    assert max(degree.values()) == grid.links(grid.size)
    assert all(
        abs(a % grid.columns - b % grid.columns) + abs(a // grid.columns - b // grid.columns) == 1
        for a, b in Mesh2D(grid.columns, grid.rows).wire(range(grid.size), "")
    )
    assert grid.closes is False or len(set(degree.values())) == 1


@given(GRIDS)
def test_the_network_routes_as_the_grid_says(grid: Grid) -> None:
    network = build_network(topology_of(grid))
    router = Router(network, Routing.DIMENSION_ORDER)
    for source in range(grid.size):
        for target in range(grid.size):
            links = [network.links[i] for i in router.route(source, target)]
            assert [(link.source, link.target) for link in links] == grid.route(source, target)


def test_an_edge_is_shared_and_a_torus_closes() -> None:
    assert Mesh2D(5, 4).route(0, 19) == [
        (0, 1), (1, 2), (2, 3), (3, 4), (4, 9), (9, 14), (14, 19),
    ]  # fmt: skip
    assert Torus2D(5, 4).route(0, 19) == [(0, 4), (4, 19)]
    assert [Mesh2D(5, 4).links(20), Mesh2D(2, 4).links(8), Torus2D(2, 2).links(4)] == [4, 3, 2]


def test_a_wafers_bisection_is_freds() -> None:
    """5 x 4 NPUs of 3 TB/s, so links of 750 GB/s: 3.75 TB/s (FRED, ISCA 2025)."""
    wafer = Topology.build("Mesh2D(5,4)", bandwidth=[3e12], latency=[0])
    assert bisection(wafer, np.array([3e12])) == 3.75e12
    assert Torus2D(4, 4).cut(16) == 2.0 and Torus2D(2, 4).cut(8) == pytest.approx(4 / 3)


def test_groups_get_what_x_y_rings_have() -> None:
    mesh = Mesh2D(5, 4)
    assert mesh.use(20, 5, 1) == (1 / 4, 1, 4, 1)  # a row is a line
    assert mesh.use(20, 2, 5) == (1 / 4, 1, 1, 1)  # pairs of a column
    assert mesh.use(20, 2, 10).share == 1 / 8  # two pairs share the links between the middle rows
    assert Torus2D(4, 4).use(16, 4, 4) == (1 / 2, 1, 1, 1)  # both ways round


def test_messages_have_the_way_that_most_npus_have() -> None:
    assert Mesh2D(5, 4).way(20, 5) == (1 / 4, 1)
    assert Mesh2D(5, 4).way(20, 15) == (1 / 4, 1)  # one row back
    assert Mesh2D(5, 4).way(20, 10) == (1 / 4, 2)


# --- collectives --------------------------------------------------------------------------------


@given(GRIDS, st.integers(0, 9_000))
def test_both_kernels_agree_on_a_whole_grid(grid: Grid, latency: int) -> None:
    """A reduce-scatter, up to the rounding of its steps; on a mesh the message that goes back over
    a whole row is on the longest chain of latencies where no column's ring is longer."""
    by_phase, by_message = both(grid, REDUCE_SCATTER, grid.size, latency=latency)
    assert by_message == pytest.approx(by_phase, abs=grid.columns + grid.rows)
    sent = (grid.size - 1) * 7200.0 * 256 / grid.links(grid.size)
    assert by_message >= sent  # no faster than all links of an NPU


@given(GRIDS)
def test_the_halves_of_an_all_gather_meet_on_unequal_sides_only(grid: Grid) -> None:
    """Whose first ring is longer waits for large messages of the other half; the phase kernel
    leaves that out, and is never slower."""
    by_phase, by_message = both(grid, ALL_GATHER, grid.size)
    rounding = grid.size * (grid.columns + grid.rows)
    assert by_phase - rounding <= by_message <= 1.36 * by_phase
    if grid.columns == grid.rows:
        assert by_message == pytest.approx(by_phase, abs=rounding)


@pytest.mark.parametrize("kind", [REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL])
@pytest.mark.parametrize("grid", [Mesh2D(5, 4), Torus2D(5, 4), Mesh2D(2, 6)], ids=repr)
def test_both_kernels_agree_on_rows_and_columns(grid: Grid, kind: CollectiveKind) -> None:
    for p, stride in ((grid.columns, 1), (grid.rows, grid.columns), (2, grid.columns)):
        by_phase, by_message = both(grid, kind, p, stride, latency=700)
        assert by_phase == by_message


@pytest.mark.parametrize("kind", [REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL])
@pytest.mark.parametrize("grid", [Mesh2D(5, 4), Mesh2D(4, 4), Torus2D(4, 4)], ids=repr)
def test_groups_over_several_rows_are_within_an_eighth(grid: Grid, kind: CollectiveKind) -> None:
    """Their rings share links, and messages do not meet there all the time."""
    for p, stride in ((grid.size // 2, 1), (grid.size // 2, 2)):
        by_phase, by_message = both(grid, kind, p, stride, latency=700)
        assert by_message == pytest.approx(by_phase, rel=0.13)


def test_a_wafer_reduces_at_two_links_a_npu() -> None:
    """FRED's mesh: rows and columns are busy at once, 1.5 of 3 TB/s.  5 columns keep their links
    busy for 5/4 of 4/5 of a half, twice: S / (750 GB/s) in all."""
    wafer = Topology.build("Mesh2D(5,4)", bandwidth=[3e12], latency=[0])
    cluster = Cluster(wafer, collectives=CollectiveModel(chunks=1))
    by_phase, _ = times(one_collective(ALL_REDUCE, 75e6, (20,)), cluster)
    assert by_phase == pytest.approx(75e6 / 750e9 * 1e12, abs=20)


# --- shapes -------------------------------------------------------------------------------------


def test_shapes_name_both_sides() -> None:
    assert parse_shape("mesh2d(5,4)_Switch(2)")[0] == (Mesh2D(5, 4), 20)
    topology = Topology.build("Torus2D(4,4)_Ring(2)", bandwidth=[1e9, 1e9], latency=[0, 0])
    assert (topology.name, topology.sizes) == ("Torus2D(4,4)_Ring(2)", (16, 2))
    assert Mesh2D(5, 4) != Mesh2D(4, 5) and Mesh2D(4, 4) != Torus2D(4, 4)


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ("Mesh2D(5)", "'Mesh2D\\(5\\)' is no network dimension"),
        ("Ring(5,4)", "no network dimension"),
        ("Mesh2D(5,1)", "is a line"),
        ("Torus2D(9999,9999)", "10,000,000 NPUs"),
    ],
)
def test_what_is_no_grid_is_named(shape: str, problem: str) -> None:
    with pytest.raises(DimsweepError, match=problem):
        parse_shape(shape)


def test_a_dimension_has_as_many_npus_as_its_grid() -> None:
    with pytest.raises(DimsweepError, match="has not 19 NPUs"):
        Dimension(Mesh2D(5, 4), 19, 1e9, 0)
