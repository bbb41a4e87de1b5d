"""What a network is counted as, and which parts of a list that is."""

from collections import Counter
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Topology
from dimsweep.engine.network import (
    Amount,
    Auto,
    Cabling,
    Clos,
    Network,
    Part,
    PartKind,
    PriceList,
    build_bill,
    list_needs,
)
from dimsweep.engine.network.bill import list_dimension_needs
from dimsweep.engine.network.generators import Generator, OcsTorus, RailOnly, Roft, ZCube
from dimsweep.engine.network.parts import Need
from tests.support.examples import examples
from tests.support.refused import refused

G = 400 / 8 * 1e9  # 400 Gb/s
FIBRE = Cabling("fibre", 30.0)


def usd(value: float) -> Amount:
    return Amount(value, "2024-08", "a list", "V")


PARTS = PriceList(
    (
        Part("sw64", PartKind.SWITCH, ports=64, bandwidth=G, splits=2, price=usd(30_000)),
        Part("sw8", PartKind.SWITCH, ports=8, bandwidth=G, price=usd(5_000)),
        Part("card", PartKind.NIC, bandwidth=G, splits=2, price=usd(1_000)),
        Part("twin", PartKind.TRANSCEIVER, ports=2, bandwidth=G, at="switch", price=usd(800)),
        Part("module", PartKind.TRANSCEIVER, bandwidth=G, at="nic", price=usd(500)),
        Part("mpo", PartKind.CABLE, medium="fibre", length=50.0, price=usd(100)),
        Part("dac", PartKind.CABLE, medium="copper", length=3.0, price=usd(50)),
    )
)


def graph(*links: tuple[object, object, dict[str, object]]) -> nx.DiGraph:
    """Links there and back."""
    made = nx.DiGraph()
    for one, other, told in links:
        for ends in ((one, other), (other, one)):
            made.add_edge(*ends, **{"bandwidth": G, "latency": 0, **told})
    return made


def counted(needs: Counter[Need]) -> Counter[tuple[str, int]]:
    """How many there are of each kind, by their ports."""
    found = Counter[tuple[str, int]]()
    for need, n in needs.items():
        found[need.kind.value, need.n_ports] += n
    return found


def test_a_cable_is_a_pair_of_links_and_lanes_are_several() -> None:
    fibre = {"medium": "fibre", "length": 20.0}
    copper = {"medium": "copper", "length": 2.0}
    made = graph((0, "leaf", fibre), (1, "leaf", copper), ("leaf", "spine", {**fibre, "lanes": 4}))
    found = counted(list_needs(Network(made)))
    assert found == {
        ("npu", 0): 2,
        ("nic", 1): 2,
        ("switch", 6): 1,
        ("switch", 4): 1,
        ("cable", 1): 6,
        ("transceiver", 1): 2,  # of the NPU, and of the leaf at the speed of that link
        ("transceiver", 4): 2,
    }


def test_nothing_is_bought_on_a_board_and_an_optical_switch_has_no_modules() -> None:
    made = graph(
        (0, "nic", {}), (1, "ocs", {"medium": "fibre"}), ("nic", "ocs", {"medium": "fibre"})
    )
    made.add_node("nic", kind="nic")
    made.add_node("ocs", kind="ocs")
    found = counted(list_needs(Network(made)))
    assert found == {
        ("npu", 0): 2,
        ("nic", 1): 2,  # the one that is told, and that of NPU 1
        ("ocs", 2): 1,
        ("cable", 1): 2,
        ("transceiver", 1): 2,
    }


def test_npus_that_are_cabled_to_one_another_have_no_adapters() -> None:
    found = counted(list_needs(Network(graph((0, 1, {"medium": "copper"})))))
    assert found == {("npu", 0): 2, ("cable", 1): 1}


def test_a_link_that_says_nothing_has_the_medium_of_its_dimension() -> None:
    told = (0, "a", {"dim": 0}), (1, "a", {"dim": 1}), (2, "a", {})
    network = Network(graph(*told))
    needs = list_needs(network, (None, Cabling("copper", 2.0)))
    assert {need.description for need in needs if need.kind is PartKind.CABLE} == {
        "copper, 2 m, 400 Gb/s"
    }
    assert needs[Need(PartKind.CABLE, ((G, 1),), 0, "copper", 2.0)] == 1
    mixed = Network(graph(*told, (3, "a", {"medium": "fibre"})))
    needs = list_needs(mixed, (None, Cabling("copper", 2.0)))
    assert [need.medium for need in needs if need.kind is PartKind.CABLE] == ["fibre"]


def test_a_switch_has_the_ports_that_it_says() -> None:
    made = graph((0, "a", {"medium": "copper"}), (1, "a", {}))
    made.add_node("a", ports=64)
    (switch,) = [need for need in list_needs(Network(made)) if need.kind is PartKind.SWITCH]
    assert (switch.ports, switch.radix) == (((G, 2),), 64)
    assert [i.part for i in build_bill(Counter([switch]), PARTS).items] == ["sw64"]
    assert [i.part for i in build_bill(Counter([replace(switch, radix=8)]), PARTS).items] == ["sw8"]
    assert build_bill(Counter([replace(switch, radix=129)]), PARTS).cost is None


def test_a_switch_without_a_cable_is_in_what_it_is_on() -> None:
    made = graph((0, "nvlink", {}), (1, "nvlink", {}), (0, "leaf", {"medium": "copper"}))
    assert [n.kind for n in list_needs(Network(made))].count(PartKind.SWITCH) == 1


def test_the_network_may_say_what_a_device_is_and_costs() -> None:
    made = graph((0, "a", {}), (1, "b", {}), ("a", "b", {}))
    made.add_node("a", part="sw64")
    made.add_node("b", price=7.0, watts=5.0)
    bill = build_bill(list_needs(Network(made)), PARTS)
    assert [(i.title, i.count, i.cost) for i in bill.items] == [
        ("sw64", 1, 30_000.0),
        ("switch of the network's own", 1, 7.0),
    ]
    assert bill.cost == 30_007.0


@pytest.mark.parametrize(
    ("generator", "switches", "copper", "fibre", "modules"),
    [
        (Roft(npus=64, radix=8), 40, 0, 192, 384),
        (RailOnly(npus=64, radix=8), 8, 0, 64, 128),  # NVLink's switches are in the servers
        (ZCube(n=8, bandwidth=G / 2), 16, 64, 128, 256),
    ],
)
def test_a_generated_network_is_counted_as_it_was_published(
    generator: Generator, switches: int, copper: int, fibre: int, modules: int
) -> None:
    """As ATOP's table 7 (SIGCOMM 2025) counts, of a smaller size: ZCube(n, 2) has 2n switches, n²
    cables of copper and 2n² of fibre."""
    needs = list_needs(generator.build())
    found = Counter[str]()
    for need, n in needs.items():
        found[need.medium or need.kind.value] += n * max(1, need.n_ports * (need.at != ""))
    assert found["switch"] == switches
    assert (found["copper"], found["fibre"], found["transceiver"]) == (copper, fibre, modules)


def test_the_cheapest_part_that_fits_is_bought() -> None:
    def one(kind: PartKind, *ports: tuple[float, int], at: str = "") -> list[tuple[str, float]]:
        return [
            (i.part, i.count) for i in build_bill(Counter([Need(kind, ports, at=at)]), PARTS).items
        ]

    assert one(PartKind.SWITCH, (G, 8)) == [("sw8", 1)]
    assert one(PartKind.SWITCH, (G, 9)) == [("sw64", 1)]
    assert one(PartKind.SWITCH, (G / 2, 128)) == [("sw64", 1)]  # each port split in two
    assert one(PartKind.SWITCH, (G, 62), (G / 2, 4)) == [("sw64", 1)]
    assert one(PartKind.SWITCH, (G, 62), (G / 2, 5)) == []
    assert one(PartKind.SWITCH, (2 * G, 1)) == []
    assert one(PartKind.NIC, (G / 2, 2)) == [("card", 1)]
    assert one(PartKind.NIC, (G, 2)) == [("card", 2)]
    assert one(PartKind.TRANSCEIVER, (G, 5), at="switch") == [("twin", 3)]
    assert one(PartKind.TRANSCEIVER, (G, 5), at="nic") == [("module", 5)]


def test_a_cable_is_long_enough_and_of_the_medium() -> None:
    def of(medium: str, length: float) -> float | None:
        need = Need(PartKind.CABLE, ((G, 1),), 0, medium, length)  # type: ignore[arg-type]
        return build_bill(Counter([need]), PARTS).cost

    assert of("copper", 3.0) == 50.0
    assert of("copper", 3.1) is None
    assert of("fibre", 50.0) == 100.0


def test_what_has_no_price_is_named_and_there_is_no_sum() -> None:
    bill = build_bill(Counter({Need(PartKind.SWITCH, ((2 * G, 128),)): 12}), PARTS)
    assert bill.cost is None and bill.power is None
    (told,) = bill.missing
    assert told.startswith(
        "no price for 12 switches (128 x 800 Gb/s); the list has sw64, sw8, all slower (lanes"
    )
    assert "cost.parts.NAME={kind: switch, ports: 128, bandwidth: 800 Gb/s, price: {" in told


def test_watts_are_those_of_all_parts_and_of_what_cools_them() -> None:
    switch = Counter(
        [Need(PartKind.SWITCH, ((G, 64),)), Need(PartKind.CABLE, ((G, 1),), 0, "fibre")]
    )
    cold = build_bill(switch, PARTS)
    assert cold.cost == 30_100.0 and cold.power is None
    assert cold.unpowered == (
        "sw64 has no watts (cost.parts.sw64.watts={value: 100 W, ...} is one)",
    )
    lit = tuple(replace(part, watts=usd(500)) for part in PARTS.parts if part.name != "mpo")
    warm = PriceList((*lit, PARTS.parts[5]), pue=1.5)
    assert build_bill(switch, warm).power == 1.5 * 500  # a cable draws nothing


def test_a_part_is_there_once() -> None:
    with refused("parts", "duplicate", "sw8"):
        PriceList((PARTS.parts[1], PARTS.parts[1]))


@pytest.mark.parametrize(
    ("size", "ports", "switches", "cables"),
    [
        (8, 8, 1, 8),
        (9, 8, 3 + 2, 18),
        (32, 8, 8 + 4, 64),  # of two tiers the largest: 8 * 8 / 2
        (33, 8, 9 + 9 + 5, 99),
        (128, 8, 32 + 32 + 16, 384),  # of three: 8 ** 3 / 4
        (512, 64, 16 + 8, 1024),
    ],
)
def test_a_switch_that_nobody_sells_is_the_least_fat_tree(
    size: int, ports: int, switches: int, cables: int
) -> None:
    of = PriceList(
        tuple(p for p in PARTS.parts if p.kind is not PartKind.SWITCH or p.ports == ports)
    )
    (dim,) = Topology.build(f"Switch({size})", bandwidth=[G], latency=[0]).dims
    needs, missing = list_dimension_needs(dim, Auto(), FIBRE, of)
    assert not missing
    assert sum(n for need, n in needs.items() if need.kind is PartKind.SWITCH) == switches
    assert sum(n for need, n in needs.items() if need.kind is PartKind.CABLE) == cables
    lit = sum(n * need.n_ports for need, n in needs.items() if need.kind is PartKind.TRANSCEIVER)
    assert lit == 2 * cables


@examples(30)
@given(st.integers(1, 4), st.integers(1, 3))
def test_a_full_fat_tree_is_a_clos(half: int, planes: int) -> None:
    """Of a size that fills its switches, its parts are those of the fabric's wires."""
    radix, size = 2 * half + 2, 2 * (half + 1) ** 2
    part = Part("sw", PartKind.SWITCH, ports=radix, bandwidth=G, price=usd(1))
    of = PriceList((part, *PARTS.parts[2:]))
    (dim,) = Topology.build(f"Switch({size})", bandwidth=[G * planes], latency=[0]).dims
    tree, _ = list_dimension_needs(dim, Auto(), FIBRE, of)
    wired, _ = list_dimension_needs(dim, Clos(2, half + 1), FIBRE, of)
    bare = Counter({replace(need, part=""): n for need, n in tree.items()})
    for kind in (PartKind.CABLE, PartKind.NIC, PartKind.TRANSCEIVER):
        assert {k: n for k, n in bare.items() if k.kind is kind} == {
            k: n for k, n in wired.items() if k.kind is kind
        }
    # A Clos of one link from each leaf to each spine has spines of as many ports as it has leaves.
    ports = [
        sum(n * k.n_ports for k, n in each.items() if k.kind is PartKind.SWITCH)
        for each in (bare, wired)
    ]
    assert ports[0] == ports[1]


def test_a_ring_is_wired_of_cables_alone() -> None:
    (dim,) = Topology.build("Ring(6)", bandwidth=[2 * G], latency=[0]).dims
    needs, _ = list_dimension_needs(dim, Auto(), Cabling("copper", 2.0), PARTS)
    assert counted(needs) == {("cable", 1): 6}
    assert list_dimension_needs(dim, Auto(), Cabling(""), PARTS) == (Counter(), [])


def test_planes_are_bought_side_by_side_and_nvlink_once() -> None:
    one, two = (Roft(npus=16, radix=4, rails=2, server=2, planes=planes) for planes in (1, 2))
    built = two.build()
    assert {link.bandwidth for link in built.links if link.medium} == {2 * two.bandwidth}
    assert {link.bandwidth for link in built.links if not link.medium} == {two.nvlink}
    alone, both = list_needs(one.build()), list_needs(built)
    for need, n in alone.items():
        if need.kind in (PartKind.SWITCH, PartKind.CABLE):
            assert both[need] == 2 * n
    (nic,) = [need for need in both if need.kind is PartKind.NIC]
    assert nic.ports == ((two.bandwidth, 2),) and both[nic] == 16
    with refused("planes", "out-of-range", "0"):
        Roft(npus=16, radix=4, planes=0).build()


def test_optical_switches_are_bought_though_no_link_ends_at_them() -> None:
    needs = list_needs(OcsTorus(shape=(4, 4, 8), planes=3).build())
    found = {need.radix: n for need, n in needs.items() if need.kind is PartKind.OCS}
    assert found == {4: 3 * 3 * 16}
