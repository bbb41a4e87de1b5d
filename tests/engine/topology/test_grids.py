"""Meshes and tori of two dimensions: links, X-Y routes, rings, and both kernels on them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    CollectiveKind,
    CollectiveModel,
    Dimension,
    Mesh2D,
    Npu,
    Topology,
    Torus2D,
    simulate,
)
from dimsweep.engine.collective.algorithms import algorithm_of_phase
from dimsweep.engine.collective.steps import Setting
from dimsweep.engine.errors import Code
from dimsweep.engine.network.fabric import build_network
from dimsweep.engine.network.routing import Router, Routing
from dimsweep.engine.topology import Grid, bisection, parse_shape
from tests.support.messages import times
from tests.support.programs import one_collective
from tests.support.refused import refused

REDUCE_SCATTER, ALL_GATHER = CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER
ALL_REDUCE, ALL_TO_ALL = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL
KINDS = [REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL]
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
    grid: Grid,
    kind: CollectiveKind,
    p: int,
    stride: int = 1,
    latency: int = 0,
    reduce_bandwidth: float | None = None,
) -> tuple[int, int]:
    """Picoseconds of both kernels; a member's shard divides into halves, rows and columns."""
    npu, model = Npu(reduce_bandwidth=reduce_bandwidth), CollectiveModel(chunks=1)
    cluster = Cluster(topology_of(grid, latency), npu, model)
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
    assert Torus2D(4, 5).route(0, 2) == [(0, 1), (1, 2)]
    assert Torus2D(4, 5).route(1, 3) == [(1, 0), (0, 3)], "odd places go the other way round"
    assert [Mesh2D(5, 4).links(20), Mesh2D(2, 4).links(8), Torus2D(2, 2).links(4)] == [4, 3, 2]


def test_a_wafers_bisection_is_freds() -> None:
    """5 x 4 NPUs of 3 TB/s, so links of 750 GB/s: 3.75 TB/s (FRED, ISCA 2025)."""
    wafer = Topology.build("Mesh2D(5,4)", bandwidth=[3e12], latency=[0])
    assert bisection(wafer, np.array([3e12])) == 3.75e12
    assert Torus2D(4, 4).cut(16) == 2.0 and Torus2D(2, 4).cut(8) == pytest.approx(4 / 3)


def test_groups_get_what_x_y_rings_have() -> None:
    mesh = Mesh2D(5, 4)
    assert mesh.link_use(20, 5, 1) == (1 / 4, 1, 4, 1)  # a row is a line
    assert mesh.link_use(20, 2, 5) == (1 / 4, 1, 1, 1)  # pairs of a column
    assert mesh.link_use(20, 2, 10).share == 1 / 8  # two pairs share the middle links
    assert Torus2D(4, 4).link_use(16, 4, 4) == (1 / 2, 1, 1, 1)  # both ways round


def test_messages_have_the_way_that_most_npus_have() -> None:
    assert Mesh2D(5, 4).message_path(20, 5) == (1 / 4, 1)
    assert Mesh2D(5, 4).message_path(20, 15) == (1 / 4, 1)  # one row back
    assert Mesh2D(5, 4).message_path(20, 10) == (1 / 4, 2)


# --- collectives --------------------------------------------------------------------------------


@given(
    GRIDS, st.sampled_from(KINDS), st.integers(0, 9_000), st.sampled_from([None, LINK, 4 * LINK])
)
def test_both_kernels_agree_on_a_whole_grid(
    grid: Grid, kind: CollectiveKind, latency: int, reduce_bandwidth: float | None
) -> None:
    """Up to the rounding of messages.  On a mesh the message that goes back over a whole row is on
    the longest chain of latencies where no column's ring is longer."""
    if grid.closes and 2 in (grid.columns, grid.rows) and grid.columns != grid.rows:
        reduce_bandwidth = None  # see the next test
    by_phase, by_message = both(grid, kind, grid.size, 1, latency, reduce_bandwidth)
    assert by_message == pytest.approx(by_phase, abs=2 * grid.size * (grid.columns + grid.rows))
    sent = (grid.size - 1) * 7200.0 * 256 / grid.links(grid.size)
    assert by_message >= sent  # no faster than all links of an NPU


@pytest.mark.parametrize("kind", [REDUCE_SCATTER, ALL_REDUCE])
@pytest.mark.parametrize("grid", [Torus2D(2, 4), Torus2D(6, 2), Torus2D(2, 9)], ids=repr)
def test_a_torus_with_a_side_of_two_reduces_in_the_part_that_sends_less(
    grid: Grid, kind: CollectiveKind
) -> None:
    """Rings of two have one link, the others two: with reductions, which take no less for that, the
    parts are not done with their first sides at once, and one meets the other on its way.  Messages
    took up to 33 % longer than phases that only knew the part that sends for longer."""
    for reduce_bandwidth in (LINK / 64, LINK / 16, LINK / 4, LINK, 4 * LINK):
        by_phase, by_message = both(grid, kind, grid.size, reduce_bandwidth=reduce_bandwidth)
        assert by_message == pytest.approx(by_phase, rel=0.06)
    by_phase, by_message = both(grid, REDUCE_SCATTER, grid.size, reduce_bandwidth=LINK / 10**4)
    assert by_message == pytest.approx(by_phase, rel=1e-3), "reductions alone"


@pytest.mark.parametrize(("side", "milliseconds"), [(3, 2 / 3), (4, 1), (5, 6 / 5), (8, 2)])
def test_an_all_to_all_goes_half_each_way_round_a_torus(side: int, milliseconds: float) -> None:
    """As on two rings of half the bandwidth each: s side / 4 for even sides.  4 x 4 took 50 %
    longer and 8 x 8 25 %, as opposite NPUs all went one way, and 3 x 3 33 % in messages."""
    topology = Topology.build(f"Torus2D({side},{side})", bandwidth=[200e9], latency=[0])
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=1))
    for time in times(one_collective(ALL_TO_ALL, 100e6, (side * side,)), cluster):
        assert time == pytest.approx(milliseconds * 1e9, rel=1e-6)
    rings = Topology.build(f"Ring({side})_Ring({side})", bandwidth=[100e9] * 2, latency=[0, 0])
    cluster = Cluster(rings, collectives=CollectiveModel(chunks=64))
    for time in times(one_collective(ALL_TO_ALL, 100e6, (side, side)), cluster):
        assert time == pytest.approx(
            milliseconds * 1e9, rel=0.016
        )  # and a chunk fills the pipeline


def test_the_sides_of_a_torus_are_busy_to_the_end() -> None:
    """The longer one's links: nobody can do it in less."""
    for grid in (Torus2D(4, 6), Torus2D(5, 3), Torus2D(2, 5), Torus2D(6, 2)):
        hops = max(
            side // 2 * ((side + 1) // 2) / side / min(side - 1, 2)
            for side in (grid.columns, grid.rows)
        )
        least = hops * grid.size * 7200.0 * 256
        for time in both(grid, ALL_TO_ALL, grid.size):
            assert time == pytest.approx(least, abs=100)


@pytest.mark.parametrize("kind", [REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL])
@pytest.mark.parametrize("grid", [Mesh2D(5, 4), Torus2D(5, 4), Mesh2D(2, 6)], ids=repr)
def test_both_kernels_agree_on_rows_and_columns(grid: Grid, kind: CollectiveKind) -> None:
    for p, stride in ((grid.columns, 1), (grid.rows, grid.columns), (2, grid.columns)):
        by_phase, by_message = both(grid, kind, p, stride, latency=700)
        assert by_phase == by_message


@pytest.mark.parametrize(
    ("p", "stride", "messages"), [(2, 2, 1), (2, 8, 1), (4, 2, 2), (8, 1, 4), (8, 2, 4)]
)
def test_opposite_npus_of_a_torus_use_both_ways_round(p: int, stride: int, messages: int) -> None:
    """All-to-alls of parts of Torus2D(4,4), by messages over the busiest link: where all NPUs went
    upwards to the opposite one it carried 2, 2, 4, 6 and 8 of them."""
    pairs = [(i, j) for i in range(p) for j in range(p) if i != j]
    assert Torus2D(4, 4).busiest_link_load(p, stride, pairs) == messages
    both_ways = both(Torus2D(4, 4), ALL_TO_ALL, p, stride)
    assert both_ways[0] == messages * 7200 * 256


@pytest.mark.long
@pytest.mark.parametrize("kind", [REDUCE_SCATTER, ALL_GATHER])
@pytest.mark.parametrize(
    "grid", [Mesh2D(5, 4), Mesh2D(4, 4), Torus2D(4, 4), Torus2D(6, 4)], ids=repr
)
def test_rings_over_several_rows_go_once_round(grid: Grid, kind: CollectiveKind) -> None:
    """Whatever the latency: ten NPUs of two rows of a mesh meet 8 hops within the rows and two of
    5 hops to the other row, less one; each step was taken to be the longest one."""
    for p, stride in ((grid.size // 2, 1), (grid.size // 2, 2), (4, 1), (2, 2)):
        for latency in (0, 700, 10**7):
            by_phase, by_message = both(grid, kind, p, stride, latency=latency)
            assert by_phase == by_message


def test_ten_of_two_rows_have_seventeen_hops() -> None:
    steps = algorithm_of_phase(REDUCE_SCATTER, grid := Mesh2D(5, 4), "auto").steps(
        REDUCE_SCATTER, Setting(grid, 20, 10, 1)
    )
    assert sum(step.count for step in steps.steps) == 9
    assert sum(step.count * step.hops for step in steps.steps) == 7 + 2 * 5


@pytest.mark.long
@pytest.mark.parametrize(
    "grid", [Mesh2D(5, 4), Mesh2D(4, 4), Mesh2D(4, 5), Torus2D(4, 4), Torus2D(6, 5)], ids=repr
)
def test_all_to_alls_over_several_rows_keep_the_busiest_link_busy_where_links_are_shared(
    grid: Grid,
) -> None:
    """A flow gets no less than its part of the most crowded link on its way, so all are through
    when the busiest link is, as phases say.  Whole messages wait for one another at other links
    first, those of some rings too: up to half as long again."""
    n, longest = grid.size, 0.0
    for p in (p for p in range(2, n + 1) if n % p == 0):
        for stride in (stride for stride in {1, 2, n // p} if n % (p * stride) == 0):
            cluster = Cluster(topology_of(grid), collectives=CollectiveModel(chunks=1))
            workload = one_collective(ALL_TO_ALL, 7200.0 * p, (p,), (stride,))
            by_phase, by_message = times(workload, cluster)
            by_flow = simulate(workload, cluster, fidelity="flow").time_ps
            assert by_flow == pytest.approx(by_phase, abs=4 * n)
            assert by_phase - 4 * n <= by_message <= 1.5 * by_phase + 4 * n
            longest = max(longest, by_message / by_phase)
            by_phase, by_message = both(grid, REDUCE_SCATTER, p, stride)
            assert by_phase <= by_message <= 1.5 * by_phase
    assert (longest > 1.05) == (grid != Torus2D(4, 4))


def test_a_wafer_reduces_at_nearly_two_links_an_npu() -> None:
    """FRED's mesh: rows and columns are busy at once, 1.5 of 3 TB/s.  Of the reduce-scatter's 4/5
    and 3/4 of a row and a column the parts of both are done at once, and then the larger one's
    second side; the all-gather's 4 and 3 likewise."""
    wafer = Topology.build("Mesh2D(5,4)", bandwidth=[3e12], latency=[0])
    cluster = Cluster(wafer, collectives=CollectiveModel(chunks=1))
    x, y = 4 / 5, 3 / 4
    scatter = (x * y + max(y * y / 5, x * x / 4)) / (x + y)
    gather = (4 * 3 + max(3 * 3 * 5, 4 * 4 * 4)) / (4 + 3) / 20
    for time in times(one_collective(ALL_REDUCE, 75e6, (20,)), cluster):
        assert time == pytest.approx((scatter + gather) * 75e6 / 750e9 * 1e12, abs=40)
    assert scatter + gather == pytest.approx(1.033, abs=1e-3)


# --- shapes -------------------------------------------------------------------------------------


def test_shapes_name_both_sides() -> None:
    assert parse_shape("mesh2d(5,4)_Switch(2)")[0] == (Mesh2D(5, 4), 20)
    topology = Topology.build("Torus2D(4,4)_Ring(2)", bandwidth=[1e9, 1e9], latency=[0, 0])
    assert (topology.name, topology.sizes) == ("Torus2D(4,4)_Ring(2)", (16, 2))
    assert Mesh2D(5, 4) != Mesh2D(4, 5) and Mesh2D(4, 4) != Torus2D(4, 4)


@pytest.mark.parametrize(
    ("shape", "code", "named"),
    [
        ("Mesh2D(5)", "bad-syntax", "'Mesh2D(5)'"),
        ("Ring(5,4)", "bad-syntax", "'Ring(5,4)'"),
        ("Mesh2D(5,1)", "out-of-range", "Mesh2D(5,1)"),
        ("Torus2D(9999,9999)", "out-of-range", "10,000,000"),
    ],
)
def test_bad_grids_are_refused(shape: str, code: Code, named: str) -> None:
    with refused("shape", code, named):
        parse_shape(shape)


def test_a_dimension_has_as_many_npus_as_its_grid() -> None:
    with refused("size", "mismatch", "19", "20"):
        Dimension(Mesh2D(5, 4), 19, 1e9, 0)
