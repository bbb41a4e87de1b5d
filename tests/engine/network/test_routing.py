"""Ways through networks: connected, shortest, and chosen as promised."""

from collections import Counter
from itertools import chain, pairwise, permutations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Block, Dimension, Topology
from dimsweep.engine.network.fabric import Auto, Clos, Dragonfly, Fabric, Mesh, build_network
from dimsweep.engine.network.generators import (
    BCube,
    FatTree,
    Generator,
    Hpn,
    Jellyfish,
    OcsTorus,
    Roft,
    ZCube,
)
from dimsweep.engine.network.graph import Network, Node
from dimsweep.engine.network.routing import Router, Routing, has_equal_paths
from dimsweep.engine.topology import BLOCKS
from tests.support.refused import refused


def build(shape: str, *fabrics: Fabric) -> Network:
    n = len(shape.split("_"))
    return build_network(Topology.build(shape, bandwidth=[1e9] * n, latency=[1] * n), fabrics)


def nodes(network: Network, route: tuple[int, ...]) -> list[Node]:
    """The nodes that a route visits, which must be joined."""
    links = [network.links[number] for number in route]
    for before, after in pairwise(links):
        assert before.target == after.source
    return [links[0].source, *(link.target for link in links)] if links else []


def visits(
    network: Network, source: int, target: int, way: int = 0, routing: Routing = Routing.SHORTEST
) -> list[Node]:
    return nodes(network, Router(network, routing).route(source, target, way))


def test_ring() -> None:
    network = build("Ring(6)")
    assert visits(network, 1, 3) == [1, 2, 3]
    assert visits(network, 1, 5) == [1, 0, 5]
    assert visits(network, 1, 4, way=0) == [1, 2, 3, 4]
    assert visits(network, 1, 4, way=1) == [1, 0, 5, 4]
    assert visits(network, 1, 4, way=2) == [1, 2, 3, 4]


def test_nothing_to_do() -> None:
    network = build("Ring(4)_Switch(3)")
    for routing in Routing:
        assert Router(network, routing).route(5, 5) == ()


def test_dimension_order_turns_corners_and_shortest_goes_by_the_order_of_links() -> None:
    network = build("Ring(4)_Ring(4)", Mesh(), Mesh())
    order = Routing.DIMENSION_ORDER
    assert visits(network, 0, 15, routing=order) == [0, 1, 2, 3, 7, 11, 15]
    assert visits(network, 15, 0, routing=order) == [15, 14, 13, 12, 8, 4, 0]
    assert visits(network, 0, 5, way=0) == [0, 1, 5]
    assert visits(network, 0, 5, way=1) == [0, 4, 5]
    assert visits(network, 0, 5, way=1, routing=order) == [0, 1, 5]


def test_way_breaks_ties_inside_each_dimension() -> None:
    network = build("Ring(2)_Ring(4)")
    order = Routing.DIMENSION_ORDER
    assert visits(network, 0, 5, way=0, routing=order) == [0, 1, 3, 5]
    assert visits(network, 0, 5, way=1, routing=order) == [0, 1, 7, 5]


def test_way_counts_the_spines() -> None:
    network = build("Switch(8)", Clos(2, 4))
    spines = [visits(network, 0, 7, way)[2] for way in range(6)]
    assert spines == [f"spine d0 line 0 no {i}" for i in (0, 1, 2, 3, 0, 1)]
    assert visits(network, 0, 3, way=5) == [0, "leaf d0 line 0 no 0", 3]


DIMENSION = st.tuples(st.sampled_from(list(BLOCKS.values())), st.integers(1, 5))


@given(
    st.lists(DIMENSION, min_size=1, max_size=3), st.sampled_from(list(Routing)), st.integers(0, 5)
)
def test_ways_are_shortest(dims: list[tuple[Block, int]], routing: Routing, way: int) -> None:
    """In a product of blocks, dimension by dimension is as short as any."""
    topology = Topology(tuple(Dimension(block, size, 1e9, 1) for block, size in dims))
    network = build_network(topology)
    router = Router(network, routing)
    for source in range(0, network.n_npus, 3):
        distance = nx.single_source_shortest_path_length(network.graph, source)
        for target in range(0, network.n_npus, 2):
            route = router.route(source, target, way)
            assert len(route) == distance[target]
            if source != target:
                met = nodes(network, route)
                assert (met[0], met[-1]) == (source, target)
            if routing is Routing.DIMENSION_ORDER:
                visited = [network.links[number].dim for number in route]
                assert visited == sorted(visited)


@pytest.mark.parametrize(
    ("shape", "fabrics"),
    [
        ("Switch(24)_Ring(3)", [Clos(3, 2, 3), Mesh()]),
        ("Ring(2)_Switch(24)", [Mesh(), Dragonfly(2, 3)]),
    ],
)
def test_ways_are_shortest_through_switches(shape: str, fabrics: list[Fabric]) -> None:
    network = build(shape, *fabrics)
    for routing in Routing:
        router = Router(network, routing)
        for source in range(0, network.n_npus, 5):
            distance = nx.single_source_shortest_path_length(network.graph, source)
            for target in range(network.n_npus):
                assert len(router.route(source, target, 3)) == distance[target]


@given(st.integers(2, 12), st.integers(0, 2**32))
def test_ways_are_shortest_where_links_lead_one_way(n: int, seed: int) -> None:
    graph = nx.gnp_random_graph(n, 0.2, seed=seed, directed=True)
    graph.add_edges_from((i, (i + 1) % n) for i in range(n))
    for _, _, data in graph.edges(data=True):
        data.update(bandwidth=1e9, latency=1)
    network = Network(graph)
    router = Router(network, Routing.SHORTEST)
    # In both orders: distances found for a near source serve a far one, and the other way round.
    for source in [*range(n), *reversed(range(n))]:
        distance = nx.single_source_shortest_path_length(graph, source)
        for target in range(n):
            route = router.route(source, target, seed % 3)
            assert len(route) == distance[target]
            assert not route or nodes(network, route)[-1] == target


def test_ecmp_spreads_over_all_ways() -> None:
    network = build("Switch(64)", Clos(3, 4, 4))
    router = Router(network, Routing.ECMP)
    used = Counter(
        nodes(network, router.route(source, target, way))[3]
        for source in range(16)
        for target in range(16, 64)
        for way in range(2)
    )
    # 1,536 ways over 4 x 4 cores: 96 each, and a standard deviation of 9.5.
    assert len(used) == 16
    assert max(used.values()) < 96 + 45 and min(used.values()) > 96 - 45


def test_a_fat_tree_of_a_rail_uses_all_its_spines() -> None:
    """The NPUs of a rail have numbers that are equal modulo how many rails there are."""
    router = Router(build("Switch(4)_Switch(16)", Auto(), Clos(2, 4)), Routing.FAT_TREE)
    up = [router.route(4 * i, 4 * (i + 4))[1] for i in range(4)]
    assert len(set(up)) == 4  # each NPU of the leaf has an uplink for itself


def test_ecmp_depends_on_seed_and_way_only() -> None:
    network = build("Switch(64)", Clos(2, 8))

    def routes(seed: int, way: int) -> list[tuple[int, ...]]:
        router = Router(network, Routing.ECMP, seed)
        return [router.route(i, (i + 11) % 64, way) for i in range(64)]

    assert routes(1, 0) == routes(1, 0)
    for other in (routes(2, 0), routes(1, 1)):
        same = sum(a == b for a, b in zip(routes(1, 0), other, strict=True))
        assert same < 24  # 8 by chance


def test_ecmp_is_the_same_on_every_machine() -> None:
    network = build("Switch(64)", Clos(2, 8))
    router = Router(network, Routing.ECMP, seed=3)
    spines = [str(nodes(network, router.route(0, 63, way))[2])[-1] for way in range(12)]
    assert "".join(spines) == "705307002120"


def test_routes_are_kept() -> None:
    router = Router(build("Ring(4)"), Routing.SHORTEST)
    assert router.route(0, 2) is router.route(0, 2)


@pytest.mark.parametrize(
    "generator",
    [Roft(npus=64, radix=8, server=4, rails=4), Hpn(npus=32, radix=16, server=8), BCube(n=4, k=2)],
)
def test_ways_over_several_adapters_are_the_shortest(generator: Generator) -> None:
    """Each is as long as networkx says, and all of them are there, the first links' order first;
    but for those that leave a server for one of its own NPUs."""
    network = generator.build()
    router = Router(network, Routing.SHORTEST)
    for source, target in ((0, 1), (0, 3), (0, 31), (5, 16), (9, 8)):
        source, target = source % network.n_npus, target % network.n_npus
        ways = [tuple(nodes(network, way)) for way in router.routes(source, target)]
        known = [tuple(way) for way in nx.all_shortest_paths(network.graph, source, target)]
        inside = [way for way in known if "NVSwitch" in str(way[1])]
        assert sorted(map(str, ways)) == sorted(map(str, inside or known))
        assert router.route(source, target) == router.routes(source, target)[0]


@pytest.mark.parametrize(
    "generator",
    [
        Roft(npus=64, radix=8, server=4, rails=4),
        Hpn(npus=32, radix=16, server=8),
        BCube(n=4, k=2),
        Jellyfish(switches=12, radix=6, hosts=2, seed=1),
        OcsTorus(shape=(4, 4, 4)),
    ],
)
def test_what_is_sprayed_is_spread_evenly_over_all_ways(generator: Generator) -> None:
    """As counted over the list of all of them."""
    network = generator.build()
    router, last = Router(network, Routing.SPRAY), network.n_npus - 1
    for source, target in ((0, 1), (0, last), (5, last // 2), (last // 3, 2)):
        ways = router.routes(source, target)
        passed = Counter(chain(*ways))
        found = router.spread(source, target)
        assert found == {link: n / len(ways) for link, n in passed.items()}


@pytest.mark.parametrize(
    "generator",
    [
        Roft(npus=32, radix=8, server=4, rails=4),
        Hpn(npus=32, radix=16, server=8),
        BCube(n=4, k=2),
    ],
)
@pytest.mark.parametrize("cards", [False, True])
def test_a_pair_is_spread_alike_whatever_others_were_before(
    generator: Generator, cards: bool
) -> None:
    """So what a router keeps of pairs between the same switches is theirs: to the last bit, and in
    the order of a router that knows no other pair.  Shares are counted over the list of all ways,
    too."""
    network = _with_cards(generator.build()) if cards else generator.build()
    router = Router(network, Routing.SPRAY)
    for source, target in permutations(range(0, network.n_npus, 3), 2):
        found = router.spread(source, target)
        assert [*found.items()] == [*Router(network, Routing.SPRAY).spread(source, target).items()]
        ways = router.routes(source, target)
        passed = Counter(chain(*ways))
        assert found == {link: n / len(ways) for link, n in passed.items()}
    assert len(router._between) < len([*permutations(range(0, network.n_npus, 3), 2)])


def _with_cards(network: Network) -> Network:
    """Every port of an NPU to a leaf is a node of its own, as in files."""
    graph = network.graph.copy()
    for source, target, link in network.graph.edges(data=True):
        npu, switch = (source, target) if isinstance(source, int) else (target, source)
        if not isinstance(npu, int) or str(switch).startswith("NVSwitch"):
            continue
        card = f"card of {npu} at {switch}"
        graph.add_node(card, kind="nic")
        graph.remove_edge(source, target)
        graph.add_edge(source, card, **link)
        graph.add_edge(card, target, **link)
    return Network(graph)


def test_whether_a_network_leaves_a_choice() -> None:
    assert has_equal_paths(FatTree(npus=32, radix=8).build())
    assert not has_equal_paths(FatTree(npus=8, radix=8, server=4).build())
    assert not has_equal_paths(build("Switch(8)"))


def test_near_neighbours_do_not_search_the_whole_network() -> None:
    network = build("Switch(512)")
    router = Router(network, Routing.SHORTEST)
    router.route(0, 1)
    assert router._distances["switch d0 line 0"].layers == [{"switch d0 line 0"}]

    router = Router(build("Ring(6)"), Routing.SHORTEST)
    router.route(3, 0)
    assert router._distances[0].layers == [{0}, {1, 5}, {2, 4}]


def test_dimension_order_needs_dimensions() -> None:
    network = Network(build("Ring(4)").graph)
    with refused("network.routing", "conflict", "shortest", "ecmp"):
        Router(network, Routing.DIMENSION_ORDER)
    assert len(Router(network, Routing.SHORTEST).route(0, 2)) == 2


@pytest.mark.parametrize("ends", [(0, 4), (-1, 2), (4, 4)])
def test_only_npus_send_and_receive(ends: tuple[int, int]) -> None:
    router = Router(build("Ring(4)"), Routing.SHORTEST)
    with refused("route", "out-of-range", "3"):
        router.route(*ends)


def test_nvlink_goes_before_a_leaf_that_is_as_near() -> None:
    network = ZCube(n=4, server=4, bandwidth=25e9).build()
    for routing in (Routing.SHORTEST, Routing.ECMP, Routing.FAT_TREE):
        for way in range(4):
            assert visits(network, 0, 3, way, routing) == [0, "NVSwitch 0", 3]


def test_a_cable_that_has_lost_bandwidth_is_still_one_of_its_equals() -> None:
    whole = BCube(n=4, k=2).build()
    graph = whole.graph.copy()
    (port, *_) = graph.successors(0)
    graph.edges[0, port]["bandwidth"] /= 2
    left = Router(Network(graph), Routing.SHORTEST)
    assert left.routes(0, 5) == Router(whole, Routing.SHORTEST).routes(0, 5)
    assert len(left.routes(0, 5)) > 1
