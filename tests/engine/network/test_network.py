"""Networks of links: each block and fabric by hand, what always holds, and what is refused."""

import math
from collections import Counter, defaultdict

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Block, Dimension, Topology
from dimsweep.engine.errors import Code
from dimsweep.engine.network import fabric as fabric_module
from dimsweep.engine.network.fabric import Auto, Clos, Dragonfly, Fabric, Mesh, build_network
from dimsweep.engine.network.graph import Device, Kind, Link, Network, Node
from dimsweep.engine.topology import BLOCKS
from dimsweep.engine.units import MAX_PICOSECONDS
from tests.support.refused import refused

B = 12e9  # divided by 2, 3 and 4 without rounding


def build(shape: str, *fabrics: Fabric, buffer: float | None = None) -> Network:
    """Dimension d has (d + 1) * B bytes/s and 100 * (d + 1) ps."""
    n = len(shape.split("_"))
    topology = Topology.build(
        shape,
        bandwidth=[B * (d + 1) for d in range(n)],
        latency=[100 * (d + 1) for d in range(n)],
    )
    return build_network(topology, fabrics, buffer)


def ends(network: Network) -> list[tuple[Node, Node]]:
    return [(link.source, link.target) for link in network.links]


def both_ways(pairs: list[tuple[Node, Node]]) -> set[tuple[Node, Node]]:
    return {*pairs, *((target, source) for source, target in pairs)}


def chain(n: int) -> nx.DiGraph:
    """NPUs 0 - 1 - ... - n-1, links both ways."""
    graph = nx.path_graph(n, create_using=nx.DiGraph)
    graph.add_edges_from([(i + 1, i) for i in range(n - 1)])
    for _, _, data in graph.edges(data=True):
        data.update(bandwidth=1e9, latency=5)
    return graph


# The blocks


def test_ring() -> None:
    network = build("Ring(4)", buffer=1e6)
    assert ends(network) == [(0, 1), (0, 3), (1, 2), (1, 0), (2, 3), (2, 1), (3, 0), (3, 2)]
    assert set(network.links) == {
        Link(source, target, B / 2, 100, 1e6, 0) for source, target in ends(network)
    }
    assert network.number == {pair: i for i, pair in enumerate(ends(network))}
    assert (network.n_npus, network.sizes) == (4, (4,))


def test_a_ring_of_two_has_one_link_each_way() -> None:
    assert build("Ring(2)").links == (Link(0, 1, B, 100, None, 0), Link(1, 0, B, 100, None, 0))


def test_fully_connected() -> None:
    network = build("FullyConnected(4)")
    assert set(ends(network)) == {(i, j) for i in range(4) for j in range(4) if i != j}
    assert {link.bandwidth for link in network.links} == {B / 3}


def test_switch() -> None:
    network = build("Switch(3)")
    name = "switch d0 line 0"
    assert set(ends(network)) == both_ways([(0, name), (1, name), (2, name)])
    assert len(network.links) == 6
    assert {(link.bandwidth, link.latency) for link in network.links} == {(B, 100)}


def test_mesh() -> None:
    network = build("Ring(4)", Mesh())
    assert ends(network) == [(0, 1), (1, 2), (1, 0), (2, 3), (2, 1), (3, 2)]
    assert {link.bandwidth for link in network.links} == {B / 2}
    assert [link.bandwidth for link in build("Ring(2)", Mesh()).links] == [B / 2, B / 2]


def test_a_dimension_of_one_npu_has_no_links() -> None:
    assert build("Ring(1)_Switch(1)_FullyConnected(1)", Mesh(), Clos(2, 1), Auto()).links == ()
    assert build("Switch(1)_Ring(2)").links == (
        Link(0, 1, 2 * B, 200, None, 1),
        Link(1, 0, 2 * B, 200, None, 1),
    )


def test_composition() -> None:
    network = build("Ring(2)_Switch(2)_FullyConnected(3)")
    dims: list[set[tuple[Node, Node]]] = [
        {(link.source, link.target) for link in network.links if link.dim == d} for d in range(3)
    ]
    assert dims[0] == both_ways([(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)])
    lines = [(0, 2), (1, 3), (4, 6), (5, 7), (8, 10), (9, 11)]
    names = [f"switch d1 line {i}" for i in range(6)]
    assert dims[1] == both_ways(
        [(npu, name) for line, name in zip(lines, names, strict=True) for npu in line]
    )
    lines = [(i, i + 4, i + 8) for i in range(4)]
    assert dims[2] == {(a, b) for line in lines for a in line for b in line if a != b}
    assert {(link.dim, link.bandwidth, link.latency) for link in network.links} == {
        (0, B, 100),
        (1, 2 * B, 200),
        (2, 3 * B / 2, 300),
    }
    assert network.sizes == (2, 2, 3)
    # Dimension 0 comes first among the links of an NPU.
    assert [link.target for link in network.links if link.source == 0] == [1, names[0], 4, 8]


@given(
    st.lists(
        st.tuples(st.sampled_from(list(BLOCKS.values())), st.integers(1, 5), st.floats(1e6, 1e12)),
        min_size=1,
        max_size=4,
    )
)
def test_an_npu_sends_the_bandwidth_of_its_dimensions(
    dims: list[tuple[Block, int, float]],
) -> None:
    topology = Topology(tuple(Dimension(block, size, b, 7) for block, size, b in dims))
    network = build_network(topology)
    assert sum(isinstance(node, int) for node in network.graph) == topology.n_npus
    for way in ("source", "target"):
        total: defaultdict[tuple[Node, int], float] = defaultdict(float)
        for link in network.links:
            total[getattr(link, way), link.dim] += link.bandwidth
        for d, dim in enumerate(topology.dims):
            for npu in range(topology.n_npus):
                expected = dim.bandwidth if dim.size > 1 else 0
                assert total[npu, d] == pytest.approx(expected)


def test_a_large_network_is_quick_to_build_and_complete() -> None:
    network = build("Ring(4)_FullyConnected(8)_Ring(4)_Switch(32)")
    assert len(network.links) == 4096 * (2 + 7 + 2 + 2)


# Clos and dragonfly


def kinds(network: Network) -> Counter[str]:
    """How many nodes of each kind there are."""
    return Counter("NPU" if isinstance(node, int) else node.split()[0] for node in network.graph)


def bisection(network: Network, half: set[int]) -> float:
    """What ``half`` of the NPUs can send to the others, in links: a minimum cut."""
    flow = nx.DiGraph()
    for link in network.links:
        flow.add_edge(link.source, link.target, capacity=link.bandwidth / B)
    for npu in range(network.n_npus):
        flow.add_edge(*(("from", npu) if npu in half else (npu, "to")))
    return float(nx.maximum_flow_value(flow, "from", "to"))


def test_clos_of_two_levels() -> None:
    network = build("Switch(6)", Clos(2, 3, oversubscription=1.5))
    npus = [(i, f"leaf d0 line 0 no {i // 3}") for i in range(6)]
    spines = [(f"leaf d0 line 0 no {i}", f"spine d0 line 0 no {j}") for i in (0, 1) for j in (0, 1)]
    assert set(ends(network)) == both_ways([*npus, *spines])
    assert {(link.bandwidth, link.latency) for link in network.links} == {(B, 100)}


@pytest.mark.parametrize(("oversubscription", "spines"), [(0.5, 8), (1, 4), (2, 2), (4, 1)])
def test_oversubscription_narrows_the_bisection(oversubscription: float, spines: int) -> None:
    network = build("Switch(16)", Clos(2, 4, oversubscription=oversubscription))
    assert kinds(network) == {"NPU": 16, "leaf": 4, "spine": spines}
    assert bisection(network, set(range(8))) == min(8, 2 * spines)


def test_clos_of_three_levels() -> None:
    network = build("Switch(16)", Clos(3, 2, 4))
    assert kinds(network) == {"NPU": 16, "leaf": 8, "aggregation": 4, "core": 8}
    assert bisection(network, set(range(8))) == 8
    successors = network.graph.successors
    assert set(successors("leaf d0 line 0 no 5")) == {
        10,
        11,
        "aggregation d0 line 0 pod 1 no 0",
        "aggregation d0 line 0 pod 1 no 1",
    }
    assert set(successors("aggregation d0 line 0 pod 1 no 1")) == {
        *(f"leaf d0 line 0 no {i}" for i in (4, 5, 6, 7)),
        *(f"core d0 line 0 group 1 no {i}" for i in range(4)),
    }
    assert set(successors("core d0 line 0 group 1 no 3")) == {
        f"aggregation d0 line 0 pod {i} no 1" for i in (0, 1)
    }


def test_three_levels_are_oversubscribed_at_each_of_the_two_below_the_top() -> None:
    network = build("Switch(32)", Clos(3, 4, 4, oversubscription=2))
    assert kinds(network) == {"NPU": 32, "leaf": 8, "aggregation": 4, "core": 4}
    assert bisection(network, set(range(16))) == 4
    assert bisection(network, {i for i in range(32) if i % 8 < 4}) == 8


def test_dragonfly() -> None:
    network = build("Switch(9)", Dragonfly(routers=1, npus=3))

    def name(group: int, router: int = 0) -> str:
        return f"router d0 line 0 group {group} no {router}"

    npus = [(i, name(i // 3)) for i in range(9)]
    groups = [(name(0), name(1)), (name(1), name(2)), (name(2), name(0))]
    assert set(ends(network)) == both_ways([*npus, *groups])

    network = build("Switch(10)", Dragonfly(routers=2, npus=1))  # 5 groups, 2 links a router
    crossing = {
        (source, target)
        for source, target in ends(network)
        if isinstance(source, str) and isinstance(target, str)
    }
    local = [(name(i, 0), name(i, 1)) for i in range(5)]
    # Offsets 1 and 2 leave from router 0, and come back as offsets 4 and 3, of router 1.
    far = [(name(i, 0), name((i + o) % 5, 1)) for i in range(5) for o in (1, 2)]
    assert crossing == both_ways([*local, *far])


@pytest.mark.parametrize(
    ("routers", "npus", "groups"), [(4, 2, 9), (4, 2, 3), (3, 1, 8), (2, 3, 1)]
)
def test_dragonfly_joins_each_pair_of_groups_once(routers: int, npus: int, groups: int) -> None:
    network = build(f"Switch({routers * npus * groups})", Dragonfly(routers, npus))
    assert kinds(network) == {"NPU": routers * npus * groups, "router": routers * groups}
    links, joined = Counter[str](), Counter[tuple[str, str]]()
    for source, target in ends(network):
        if isinstance(source, str) and isinstance(target, str):
            here, there = source.split()[5], target.split()[5]
            joined[here, there] += 1
            links[source] += here != there
    names = [str(group) for group in range(groups)]
    for a in names:
        for b in names:
            assert joined[a, b] == (1 if a != b else routers * (routers - 1))
    assert max(links.values()) <= math.ceil((groups - 1) / routers)


def test_fabrics_have_their_own_switches_in_each_line() -> None:
    network = build("Switch(2)_Switch(4)_Switch(4)", Auto(), Clos(2, 2), Dragonfly(2, 1))
    assert kinds(network) == {
        "NPU": 32,
        "switch": 16,
        "leaf": 8 * 2,
        "spine": 8 * 2,
        "router": 8 * 4,
    }
    npus = {link.source for link in network.links if link.target == "leaf d1 line 5 no 1"}
    assert npus - {"spine d1 line 5 no 0", "spine d1 line 5 no 1"} == {21, 23}


# What is refused


@pytest.mark.parametrize(
    ("shape", "fabrics", "where", "code", "named"),
    [
        ("Ring(4)_Ring(4)", [Mesh()], "", "mismatch", "2 dimensions"),
        ("Ring(4)_Switch(4)", [Auto(), Mesh()], "[1]", "conflict", "Ring"),
        ("Ring(4)", [Clos(2, 2)], "[0]", "conflict", "Switch"),
        ("FullyConnected(4)", [Dragonfly(2, 2)], "[0]", "conflict", "Switch"),
        ("Switch(6)", [Clos(2, 4)], "[0].leaf", "mismatch", "1, 2, 3, 6"),
        ("Switch(12)", [Clos(3, 2, 4)], "[0].pod", "mismatch", "1, 2, 3, 6"),
        ("Switch(6)", [Dragonfly(2, 4)], "[0].npus", "mismatch", "1, 2, 3, 6"),
        ("Switch(6)", [Dragonfly(2, 2)], "[0].routers", "mismatch", "1, 3"),
    ],
)
def test_a_fabric_suits_its_dimension(
    shape: str, fabrics: list[Fabric], where: str, code: Code, named: str
) -> None:
    with refused(f"network.fabric{where}", code, named):
        build(shape, *fabrics)


@pytest.mark.parametrize(
    ("arguments", "where", "code", "named"),
    [
        ((4, 2), "levels", "out-of-range", "4"),
        ((2, 2, 2), "pod", "conflict", "2"),
        ((3, 2), "pod", "missing", "3"),
        ((2, 0), "leaf", "out-of-range", "0"),
        ((3, 2, -1), "pod", "out-of-range", "-1"),
        ((2, 10**400), "leaf", "out-of-range", ""),
        ((2, 4, None, 0), "oversubscription", "out-of-range", "0"),
        ((2, 4, None, math.nan), "oversubscription", "out-of-range", "nan"),
        ((2, 4, None, math.inf), "oversubscription", "out-of-range", "inf"),
        ((2, 4, None, 3), "oversubscription", "mismatch", "1.33333"),
        ((2, 4, None, 8), "oversubscription", "mismatch", "0.5"),
        ((2, 4, None, 5e-324), "oversubscription", "mismatch", "inf"),
        ((3, 4, 3, 2), "oversubscription", "mismatch", "pod 3"),
    ],
)
def test_a_clos_has_whole_numbers_of_switches(
    arguments: tuple[int, int, int | None, float], where: str, code: Code, named: str
) -> None:
    with refused(where, code, named):
        Clos(*arguments)


@pytest.mark.parametrize(("routers", "npus", "where"), [(0, 1, "routers"), (1, 0, "npus")])
def test_a_dragonfly_has_routers_and_npus(routers: int, npus: int, where: str) -> None:
    with refused(where, "out-of-range", "0"):
        Dragonfly(routers, npus)


def test_a_network_too_large_is_refused_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_module, "MAX_LINKS", 56)
    assert len(build("FullyConnected(8)").links) == 56
    for shape in ("FullyConnected(9)", "Ring(10000000)", "Ring(1)_Switch(29)"):
        with refused("network", "too-many", "56"):
            build(shape)


def test_a_network_of_one_npu() -> None:
    graph = nx.DiGraph()
    graph.add_node(0)
    assert Network(graph).n_npus == 1


def test_switches_may_lead_nowhere() -> None:
    graph = chain(2)
    graph.add_edge(0, "sink", bandwidth=1.0, latency=0)
    assert Network(graph).links[1] == Link(0, "sink", 1.0, 0, None, -1)


@pytest.mark.parametrize(
    ("nodes", "code", "named"),
    [
        ([], "missing", "NPU"),
        (["a", "b"], "missing", "NPU"),
        ([1, 2], "mismatch", "NPU 2"),
        ([0, 1, 5, 9], "mismatch", "NPU 5, 9"),
        ([0, -1], "mismatch", "NPU -1"),
        ([*range(2, 9)], "mismatch", "NPU 7, 8"),
        ([*range(100, 109)], "mismatch", "NPU 0, 1, 2, 3, 4 and 4 more"),
        ([0, 1.5, (2, 3)], "wrong-type", "1.5, (2, 3)"),
        ([True], "wrong-type", "True"),
    ],
)
def test_npus_are_numbered(nodes: list[Node], code: Code, named: str) -> None:
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    with refused("", code, named):
        Network(graph)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        *(("bandwidth", bad) for bad in (0.0, -1.0, math.inf, math.nan, "1 GB/s", None, 10**400)),
        *(("latency", bad) for bad in (-1, 1.0, MAX_PICOSECONDS + 1, None, "1 ns")),
        *(("buffer", bad) for bad in (0.0, -5.0, math.nan, math.inf, "1 MB")),
    ],
)
def test_numbers_of_a_link(attribute: str, value: object) -> None:
    graph = chain(3)
    graph.edges[1, 2][attribute] = value
    with refused("[1 -> 2]", "invalid", attribute):
        Network(graph)


def test_attributes_of_a_link() -> None:
    graph = chain(3)
    del graph.edges[2, 1]["latency"]
    with refused("[2 -> 1]", "missing", "'latency'"):
        Network(graph)
    graph.edges[2, 1].update(latency=1, weight=2)
    with refused("[2 -> 1]", "unknown-key", "'weight'"):
        Network(graph)


def test_no_link_from_a_node_to_itself() -> None:
    graph = chain(2)
    graph.add_edge(1, 1, bandwidth=1e9, latency=0)
    with refused("[1 -> 1]", "invalid"):
        Network(graph)


@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiDiGraph])
def test_links_lead_one_way(kind: type[nx.Graph]) -> None:
    with refused("", "wrong-type", kind.__name__):
        Network(kind([(0, 1)]))


@pytest.mark.parametrize(
    ("cut", "ends"),
    [
        ([(3, 2)], "NPU 3 to NPU 0: NPU 3"),
        ([(2, 3)], "NPU 0 to NPU 3: NPU 3"),
        ([(1, 2)], "NPU 0 to NPU 2"),
        ([(2, 1)], "NPU 2 to NPU 0"),
        ([(0, 1)], "NPU 0 to NPU 1: NPU 0"),
        ([(1, 0)], "NPU 1 to NPU 0: NPU 0"),
        ([(1, 2), (2, 1)], "NPU 0 to NPU 2"),
    ],
)
def test_every_npu_reaches_every_other(cut: list[tuple[int, int]], ends: str) -> None:
    graph = chain(4)
    graph.remove_edges_from(cut)
    with refused("", "invalid", ends) as error:
        Network(graph)
    assert ("one direction only" in error.value.hint) == (len(cut) == 1)


def test_sizes_are_those_of_the_npus() -> None:
    with refused("sizes", "mismatch", "(2, 3)", "6", "4"):
        Network(chain(4), (2, 3))


# What stands at a node, and what a link is made of


def test_devices_have_a_kind_and_what_is_bought() -> None:
    graph = chain(2)
    leaf = {"ports": 4, "part": "QM9700", "price": 30_000, "watts": 1_500.0}
    graph.add_node("leaf", **leaf, fails=0.1, repair=3600)
    graph.add_node("card", kind="nic")
    devices = Network(graph).devices
    assert devices[0] == Device(Kind.NPU)
    assert devices["leaf"] == Device(Kind.SWITCH, **leaf, fails=0.1, repair=3600)  # type: ignore[arg-type]
    assert devices["card"] == Device(Kind.NIC)


@pytest.mark.parametrize(
    ("node", "attributes", "code", "named"),
    [
        ("leaf", {"kind": "npu"}, "conflict", "'leaf'"),
        (0, {"kind": "nic"}, "conflict", "nic"),
        ("leaf", {"kind": "gpu"}, "invalid", "npu, nic, switch"),
        ("leaf", {"kind": ["nic"]}, "invalid", "npu, nic, switch"),
        ("leaf", {"ports": 0}, "invalid", "ports 0"),
        ("leaf", {"ports": True}, "invalid", "ports True"),
        ("leaf", {"price": -1}, "invalid", "price -1"),
        ("leaf", {"watts": math.nan}, "invalid", "nan"),
        ("leaf", {"fails": "often"}, "invalid", "'often'"),
        ("leaf", {"part": 7}, "invalid", "part 7"),
        ("leaf", {"prot": 7}, "unknown-key", "'prot'"),
    ],
)
def test_attributes_of_a_device(
    node: Node, attributes: dict[str, object], code: Code, named: str
) -> None:
    graph = chain(2)
    graph.add_node(node, **attributes)
    with refused(f"[{node}]", code, named):
        Network(graph)


def test_no_device_is_called_as_an_npu_is() -> None:
    graph = chain(2)
    graph.add_node("NPU 2")
    Network(graph)
    graph.add_node("NPU 1")
    with refused("", "duplicate", "'NPU 1'"):
        Network(graph)


def test_a_cable_is_a_link_each_way_and_lanes_take_ports() -> None:
    graph = chain(3)
    for _, _, data in graph.edges(data=True):
        data.update(medium="fibre", length=30.0, lanes=2, part="MTP")
    graph.add_edge(0, 2, bandwidth=1e9, latency=0)
    cables = list(Network(graph).cables())
    assert [(each.source, each.target, each.lanes) for each in cables] == [
        (0, 1, 2),
        (0, 2, 1),
        (1, 2, 2),
    ]
    graph.nodes[1]["ports"] = 4
    assert Network(graph).devices[1].ports == 4
    graph.nodes[1]["ports"] = 3
    with refused("[1].ports", "mismatch", "NPU 1", "4", "3"):
        Network(graph)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        *(("medium", bad) for bad in ("glass", None, 3)),
        *(("length", bad) for bad in (-1.0, math.nan, "3 m")),
        *(("lanes", bad) for bad in (0, -2, 1.5, True)),
        ("part", None),
    ],
)
def test_what_a_link_is_made_of(attribute: str, value: object) -> None:
    graph = chain(3)
    graph.edges[1, 2][attribute] = value
    with refused("[1 -> 2]", "invalid", attribute):
        Network(graph)
