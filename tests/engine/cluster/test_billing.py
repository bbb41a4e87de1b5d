"""Bills of clusters: products and graphs cost the same, and whole parts cost in steps."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Topology
from dimsweep.engine.cluster import (
    OtherPart,
    TierPrice,
    WholePrices,
    add_npus,
    linear_bill,
    network_bill,
    network_prices,
    product_bill,
)
from dimsweep.engine.network import (
    Amount,
    Cabling,
    Clos,
    Mesh,
    Network,
    Part,
    PartKind,
    PriceList,
    build_network,
)
from dimsweep.engine.network.generators import RailOnly
from tests.support.examples import examples
from tests.support.refused import refused

G = 400 / 8 * 1e9
NPU = Part("npu", PartKind.NPU, price=Amount(5.0), watts=Amount(1.0))
TIERS = {
    "pod": TierPrice(link=7e-9, switch=11e-9, nic=30e-9, port=5.0, block=1000.0),
    "node": TierPrice(link=3e-9, switch=2e-9, port=1.0),
}
LIST = PriceList(
    (
        Part("sw", PartKind.SWITCH, "", 64, G, 2, price=Amount(36_000), watts=Amount(783)),
        Part("card", PartKind.NIC, bandwidth=G, splits=2, price=Amount(1000), watts=Amount(50)),
        Part("dac", PartKind.CABLE, medium="copper", length=3.0, price=Amount(100)),
    ),
    (("pod", Cabling("copper", 3.0)), ("node", Cabling(""))),
)


def topology(shape: str, bandwidth: list[float], tiers: list[str]) -> Topology:
    return Topology.build(shape, bandwidth=bandwidth, latency=[0] * len(tiers), tiers=tiers)


@examples(40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Ring", "Switch", "FullyConnected"]),
            st.integers(1, 5),
            st.floats(1e9, 900e9),
            st.sampled_from(["pod", "node"]),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_product_and_its_graph_cost_the_same(dims: list[tuple[str, int, float, str]]) -> None:
    """By bandwidth, in dollars and in the amounts of every tier."""
    if math.prod(size for _, size, _, _ in dims) < 2:
        return
    made = topology(
        "_".join(f"{block}({size})" for block, size, _, _ in dims),
        [bandwidth for _, _, bandwidth, _ in dims],
        [tier for _, _, _, tier in dims],
    )
    prices = network_prices(made, TIERS, 5.0)
    assert prices is not None
    own = add_npus(linear_bill(made, TIERS), [(NPU, made.n_npus)])
    graph = linear_bill(made, TIERS, network=build_network(made))
    graph = add_npus(graph, [(NPU, made.n_npus)])
    cost = float(prices.cost(np.array([dim.bandwidth for dim in made.dims])))
    assert own.cost == pytest.approx(cost, rel=1e-12)
    assert graph.cost == pytest.approx(cost, rel=1e-12)
    assert {i.part: i.count for i in graph.items} == pytest.approx(
        {i.part: i.count for i in own.items}
    )


@pytest.mark.parametrize(
    ("shape", "fabric"), [("Switch(16)", Clos(2, 4, None, 2.0)), ("Ring(6)", Mesh())]
)
def test_a_fabric_and_its_graph_have_the_same_links(shape: str, fabric: Clos | Mesh) -> None:
    made = topology(shape, [G], ["pod"])
    own, graph = (
        {item.part: item.count for item in linear_bill(made, TIERS, [fabric], of).items}
        for of in (None, build_network(made, [fabric]))
    )
    for part in ("pod.link", "pod.switch", "pod.nic", "pod.port"):
        assert graph.get(part) == pytest.approx(own.get(part))


def test_links_of_no_dimension_have_a_price_where_all_dimensions_have_the_same() -> None:
    graph = build_network(topology("Switch(4)", [G], ["pod"]))
    for link in graph.graph.edges:
        graph.graph.edges[link]["dim"] = -1
    bare = type(graph)(graph.graph)
    one, both = (
        topology("Switch(4)", [G], ["pod"]),
        topology("Ring(2)_Ring(2)", [G] * 2, ["pod", "node"]),
    )
    assert linear_bill(one, TIERS, network=bare).cost == linear_bill(one, TIERS, network=graph).cost
    refused = linear_bill(both, TIERS, network=bare)
    assert refused.cost is None
    assert refused.missing[0].startswith("links of the network belong to no dimension")


def test_what_lies_on_a_board_in_a_server_is_the_servers() -> None:
    """A generated network says which links are cables; NVLink's have no price of bandwidth."""
    made = topology("Switch(64)", [G], ["pod"])
    bill = linear_bill(made, TIERS, network=RailOnly(npus=64, radix=8).build())
    assert {i.part: i.count for i in bill.items} == {
        **dict.fromkeys(("pod.link", "pod.switch", "pod.nic"), 64 * G / 1e9),
        **{"pod.port": 64, "pod.block": 8},
    }


def test_a_tier_without_a_price_is_named() -> None:
    (told,) = linear_bill(topology("Ring(4)", [G], ["moon"]), TIERS).missing
    assert told.startswith("no price for links of tier moon (cost.tiers.moon.link=")


# The switches, their price and that of connectors and cables, of a public spreadsheet of H100
# clusters (August 2024), by nodes of eight; its first row joins two nodes without a switch.
CLUSTERS = [
    (64, 8, 288_000, 675_840),
    (128, 48, 1_728_000, 2_621_440),
    (256, 96, 3_456_000, 5_242_880),
    (512, 192, 6_912_000, 10_485_760),
    (1024, 384, 13_824_000, 20_971_520),
    (2048, 768, 27_648_000, 41_943_040),
    (4096, 2560, 92_160_000, 124_518_400),
    (8192, 5120, 184_320_000, 249_036_800),
    (16384, 10240, 368_640_000, 498_073_600),
    (32768, 20480, 737_280_000, 996_147_200),
    (65536, 40960, 1_474_560_000, 1_992_294_400),
]
H100 = PriceList(
    (
        Part("sw", PartKind.SWITCH, ports=64, bandwidth=G, splits=2, price=Amount(36_000)),
        Part("card", PartKind.NIC, bandwidth=G, price=Amount(0)),
        Part("twin", PartKind.TRANSCEIVER, ports=2, bandwidth=G, at="switch", price=Amount(1120)),
        Part("module", PartKind.TRANSCEIVER, bandwidth=G, at="nic", price=Amount(640)),
        Part("mpo", PartKind.CABLE, medium="fibre", price=Amount(120)),
    ),
    (("node", Cabling("")), ("pod", Cabling("fibre", 30.0))),
)


@pytest.mark.parametrize(("nodes", "switches", "usd", "links"), CLUSTERS)
def test_rails_of_64_ports_are_what_was_priced(
    nodes: int, switches: int, usd: int, links: int
) -> None:
    """Eight rails, each the least fat tree: one tier to 64 nodes, two to 2,048, three beyond."""
    made = topology(f"Switch(8)_Switch({nodes})", [9 * G, G], ["node", "pod"])
    bill = product_bill(made, (), H100)
    assert bill.count(PartKind.SWITCH) == switches
    of = {kind: sum(i.cost for i in bill.items if i.kind == kind) for kind in PartKind}
    assert of[PartKind.SWITCH] == usd
    assert of[PartKind.CABLE] + of[PartKind.TRANSCEIVER] == links
    assert bill.cost == usd + links


def test_two_nodes_need_no_switch_and_a_fraction_of_a_node_is_a_node() -> None:
    """The rows that do not fit: 1,620 USD a cable between two nodes, of which we say 1,400; and
    13,107.2 nodes, whose 8,192 switches are 8,200 whole ones."""
    two = product_bill(
        topology("Switch(8)_FullyConnected(2)", [9 * G, G], ["node", "pod"]), (), H100
    )
    assert (two.count(PartKind.SWITCH), two.cost) == (0, 8 * 1400)
    odd = product_bill(topology("Switch(8)_Switch(13107)", [9 * G, G], ["node", "pod"]), (), H100)
    assert odd.count(PartKind.SWITCH) == 8200


def whole(shape: str, bandwidth: float, *, watts: bool = False) -> WholePrices:
    made = topology(shape, [bandwidth], ["pod"])
    return WholePrices((0.0,), topology=made, fabrics=(), parts=LIST, watts=watts)


def test_whole_parts_cost_in_steps() -> None:
    prices = whole("Switch(64)", G)
    one, half = 36_000 + 64 * 1100, 36_000 + 64 * 1100
    points = np.array([[G / 4], [G / 2], [0.99 * G], [G], [1.01 * G], [2 * G], [2.5 * G]])
    assert prices.cost(points).tolist() == [half, half, one, one, 2 * one, 2 * one, 3 * one]
    assert not prices.is_linear
    assert whole("Switch(64)", G, watts=True).cost(points[3]) == 783 + 64 * 50
    assert prices.cost(points).tolist() == [float(prices.cost(each)) for each in points]


@examples(30)
@given(st.floats(1e9, 1e12), st.floats(1.0, 10.0), st.integers(2, 300))
def test_more_bandwidth_never_costs_less(bandwidth: float, factor: float, size: int) -> None:
    prices = whole(f"Switch({size})", G)
    less, more = prices.cost(np.array([[bandwidth], [bandwidth * factor]]))
    assert less <= more


@pytest.mark.parametrize("of_graph", [False, True])
def test_npus_of_another_kind_are_another_line(of_graph: bool) -> None:
    """Ten of 64 are bought in servers of four, three of them, and the rest one by one."""
    server = Part("old", PartKind.NPU, "old server", 4, price=Amount(100.0), watts=Amount(9.0))
    made, prices = topology("Switch(64)", [G], ["pod"]), replace(LIST, parts=(*LIST.parts, NPU))
    others = (OtherPart(server, tuple(range(10))),)
    alike, mixed = (
        network_bill(build_network(made), made, prices, each)
        if of_graph
        else product_bill(made, (), prices, each)
        for each in ((), others)
    )
    assert [(i.part, i.count) for i in mixed.items[:2]] == [("npu", 54), ("old", 3)]
    assert alike.cost is not None and alike.power is not None
    assert mixed.cost == alike.cost - 10 * 5 + 3 * 100
    assert mixed.power == alike.power - 10 + 3 * 9
    unknown = replace(server, price=None, watts=None)
    told = add_npus(mixed, [(unknown, 7), (unknown, 0)])
    assert told.cost is None and told.power is None
    assert told.missing == ("no price for the 7 NPUs of old (cost: {price: 20 kUSD} there is one)",)


def test_an_npu_that_says_what_it_is_is_no_other() -> None:
    graph = build_network(topology("Switch(4)", [G], ["pod"])).graph
    graph.nodes[1]["price"] = 7.0
    prices, other = replace(LIST, parts=(*LIST.parts, NPU)), replace(NPU, name="old")
    made = topology("Switch(4)", [G], ["pod"])
    bill = network_bill(Network(graph), made, prices, [OtherPart(other, (0, 1))])
    assert {(i.part, i.count) for i in bill.items[:3]} == {("", 1), ("npu", 2), ("old", 1)}


def test_what_cannot_be_bought_is_infeasible() -> None:
    made = topology("Switch(4)", [G], ["moon"])
    prices = WholePrices((0.0,), topology=made, fabrics=(), parts=LIST)
    with refused("", "infeasible", "Switch(4)", "moon"):
        prices.cost(np.array([G]))


def test_a_graph_that_says_no_medium_has_no_bill() -> None:
    made = topology("Switch(4)", [G], ["moon"])
    bill = network_bill(build_network(made), made, LIST)
    assert bill.missing[0].startswith("no link of the network says its medium")
    pod = topology("Switch(4)", [G], ["pod"])
    assert network_bill(build_network(pod), pod, LIST).cost == 36_000 + 4 * 1100
