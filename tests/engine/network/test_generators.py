"""Generated networks: parts in closed form, radix kept, diameters, and what is refused."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import DimsweepError, Topology
from dimsweep.engine.errors import Code
from dimsweep.engine.network import Kind, Network, build_network, paths
from dimsweep.engine.network.fabric import is_product
from dimsweep.engine.network.generators import (
    GENERATORS,
    Atop,
    BCube,
    Between,
    DragonflyNetwork,
    DragonflyPlus,
    FatTree,
    Generator,
    HammingMesh,
    Hpn,
    HyperX,
    Jellyfish,
    NvlRacks,
    OcsTorus,
    RailOnly,
    Roft,
    SlimFly,
    Within,
    ZCube,
)
from dimsweep.engine.network.paths import measure_path_lengths
from dimsweep.engine.network.wires import Wires
from dimsweep.engine.testing import check_generator
from tests.support.refused import refused


def cables(network: Network) -> Counter[str]:
    found: Counter[str] = Counter()
    for link in network.cables():
        found[link.medium] += link.lanes
    return found


def switches(network: Network) -> list[str]:
    return [str(node) for node, each in network.devices.items() if each.kind is Kind.SWITCH]


def diameter(network: Network) -> int:
    """Between NPUs, which pass on."""
    npus = range(network.n_npus)
    far = [nx.single_source_shortest_path_length(network.graph, npu) for npu in npus]
    return max(lengths[npu] for lengths in far for npu in npus)


# The generator; NPUs, switches, cables (copper, fibre); diameter.
CASES: list[tuple[Generator, int, int, tuple[int, int], int]] = [
    (FatTree(npus=16, radix=4), 16, 20, (0, 48), 6),
    (FatTree(npus=24, radix=8, oversubscription=(3.0,)), 24, 5, (0, 32), 4),
    (Roft(npus=64, radix=8, rails=4), 64, 40, (0, 192), 6),
    (Roft(npus=16, radix=8, rails=4), 16, 6, (0, 32), 4),
    (RailOnly(npus=16, radix=4, rails=4, server=4), 16, 4, (0, 16), 4),
    (Hpn(npus=16, radix=8, rails=4), 16, 12, (0, 48), 4),
    (DragonflyNetwork(hosts=2), 72, 36, (126, 36), 5),
    (DragonflyPlus(hosts=2, leaves=2, spines=2, groups=4), 16, 16, (16, 22), 5),
    (HyperX(sizes=(2, 2), hosts=2), 8, 4, (10, 2), 4),
    (HammingMesh(a=2, b=2, columns=2, rows=2, radix=4), 16, 8, (0, 32), 4),
    (BCube(n=4), 16, 8, (16, 16), 4),
    (ZCube(n=4), 16, 8, (16, 32), 3),
    (ZCube(n=2, k=3), 8, 12, (8, 32), 4),
    (ZCube(n=4, k=3, partial=True), 64, 40, (64, 192), 5),
    (SlimFly(q=5), 200, 50, (250, 125), 4),
    (Jellyfish(switches=8, radix=6, hosts=2), 16, 8, (16, 16), 4),
    (OcsTorus(shape=(4, 4, 4), cube=2), 64, 0, (96, 96), 6),
    (NvlRacks(racks=2, rack=4, trays=2, radix=8), 8, 5, (0, 8), 2),
    (
        Atop(
            layers=(16, 4, 4),
            between=(
                Between(lower=0, upper=1, blocks=(4, 4)),
                Between(lower=0, upper=2, blocks=(4, 1), links=1),
                Between(lower=1, upper=2, blocks=(1, 1)),
            ),
        ),
        16,
        8,
        (16, 32),
        3,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].kind)
def test_counts_and_diameters(case: tuple[Generator, int, int, tuple[int, int], int]) -> None:
    generator, npus, of_switches, (copper, fibre), far = case
    network = generator.build()  # which checks ports, and that all are joined
    own = [node for node in switches(network) if not node.startswith("NVSwitch")]
    found = cables(network)
    assert (network.n_npus, len(own)) == (npus, of_switches)
    assert (found["copper"], found["fibre"]) == (copper, fibre)
    assert diameter(network) == far


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].kind)
def test_generators_hold_what_they_say(
    case: tuple[Generator, int, int, tuple[int, int], int],
) -> None:
    check_generator(case[0])


@dataclass(frozen=True, kw_only=True)
class Wrong(Generator):
    """A star, with something ``wrong`` in it."""

    kind: ClassVar[str] = "wrong"
    wrong: str

    def lay(self, wires: Wires) -> None:
        for npu in wires.npus(4):
            wires.cable(npu, "star")
        if self.wrong == "stray":
            wires.cable("stray", "star")
        elif self.wrong == "one way":
            wires.graph.edges["star", 2]["bandwidth"] /= 2
        elif self.wrong == "other":
            wires.graph.edges[0, "star"]["latency"] += len(_made)
            wires.graph.edges["star", 0]["latency"] += len(_made)
            _made.append(self)


_made: list[Generator] = []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("stray", "stray has 1 cables, and joins nothing"),
        ("one way", "bandwidth of NPU 2 -> star is 50000000000.0, 25000000000.0 back"),
        ("other", "it builds another network from the same parameters"),
    ],
)
def test_what_a_generator_does_wrong_is_found(wrong: str, says: str) -> None:
    with pytest.raises(DimsweepError, match=says):
        check_generator(Wrong(wrong=wrong))


def cut(network: Network) -> float:
    """Lanes over the narrowest cut between the NPUs' halves."""
    flow = nx.DiGraph()
    for link in network.links:
        flow.add_edge(link.source, link.target, capacity=link.bandwidth / 50e9)
    for npu in range(network.n_npus):
        flow.add_edge(*(("from", npu) if npu < network.n_npus // 2 else (npu, "to")))
    return float(nx.maximum_flow_value(flow, "from", "to"))


@pytest.mark.parametrize(
    ("generator", "lanes"),
    [
        (FatTree(npus=16, radix=4), 8),
        (FatTree(npus=24, radix=8, oversubscription=(3.0,)), 4),
        (Hpn(npus=16, radix=8, rails=4), 16),
        (BCube(n=4), 8),
        (OcsTorus(shape=(4, 4, 4), cube=2), 2 * 16),
        (HyperX(sizes=(2, 4), hosts=4, lanes=2), 8),
    ],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_bisections(generator: Generator, lanes: float) -> None:
    assert cut(generator.build()) == pytest.approx(lanes)


def test_atop_makes_a_zcube() -> None:
    atop, zcube = CASES[-1][0].build(), ZCube(n=4).build()
    assert nx.is_isomorphic(atop.graph, zcube.graph)


def test_atop_joins_switches_within_a_layer() -> None:
    ring = Within(layer=1, sizes=(5,), outward=(1,), a=((1, 1),), c=(0,))
    between = (Between(lower=0, upper=1, blocks=(5, 5)),)
    network = Atop(layers=(5, 5), between=between, within=(ring,)).build()
    names = [f"layer 1 switch {i}" for i in range(5)]
    assert all(network.graph.has_edge(names[i], names[i - 1]) for i in range(5))
    assert len(network.links) == 2 * 10


@given(st.integers(1, 4).map(lambda half: 2 * half), st.integers(1, 3))
def test_fat_trees_of_any_radix_cross_their_bisection(radix: int, tiers: int) -> None:
    npus = radix if tiers == 1 else 2 * (radix // 2) ** tiers
    network = FatTree(npus=npus, radix=radix).build()
    assert max(d for n, d in network.graph.out_degree() if isinstance(n, str)) <= radix
    assert diameter(network) <= 2 * tiers
    if npus > radix:
        assert cut(network) == npus // 2


@given(st.integers(2, 4), st.integers(1, 3))
def test_zcubes_of_any_size(n: int, k: int) -> None:
    network = ZCube(n=n, k=k).build()
    assert (network.n_npus, len(switches(network))) == (n**k, k * n ** (k - 1))
    found = cables(network)
    assert found["copper"] == n**k
    assert found["fibre"] == 2 * (k - 1) * n**k
    assert diameter(network) == k + 1


def test_jellyfish_is_its_seeds() -> None:
    one, again, other = (Jellyfish(switches=8, radix=5, hosts=2, seed=s).build() for s in (1, 1, 2))
    assert one.links == again.links != other.links


def test_a_server_has_a_switch_of_its_own() -> None:
    network = BCube(n=4, server=4, nvlink=1e11, nvlink_latency=7).build()
    (link,) = (each for each in network.links if (each.source, each.target) == (5, "NVSwitch 1"))
    assert (link.bandwidth, link.latency, link.medium) == (1e11, 7, "")


@pytest.mark.parametrize(
    ("generator", "where", "code", "named"),
    [
        (FatTree(npus=0, radix=4), "npus", "out-of-range", "0"),
        (FatTree(npus=17, radix=4), "radix", "mismatch", "17"),
        (FatTree(npus=32, radix=4), "radix", "unsupported", "32"),
        (FatTree(npus=32, radix=8, oversubscription=(2.5,)), "oversubscription", "mismatch", "2.5"),
        (Roft(npus=30, radix=4), "rails", "mismatch", "30 NPUs"),
        (DragonflyNetwork(hosts=10**9), "hosts", "out-of-range", "1000000000"),
        (BCube(n=1000, k=9), "npus", "out-of-range", ""),
        (ZCube(n=4, k=0), "k", "out-of-range", "0"),
        (ZCube(n=4, copies=5), "copies", "out-of-range", "5"),
        (SlimFly(q=9), "q", "out-of-range", "9"),
        (Jellyfish(switches=4, radix=8, hosts=2), "hosts", "out-of-range", "6 ports"),
        (OcsTorus(shape=(8, 8)), "shape", "mismatch", "2"),
        (OcsTorus(shape=(8, 6, 8)), "shape", "mismatch", "6"),
        (BCube(n=3, server=2), "server", "mismatch", "9 NPUs"),
        (Atop(layers=(4, 2), between=()), "", "invalid", "NPU 0 to NPU 1"),
        (
            Atop(layers=(4, 2), between=(Between(lower=0, upper=1, blocks=(3, 1)),)),
            "between[0].blocks",
            "mismatch",
            "4 nodes",
        ),
    ],
)
def test_bad_parameters_are_refused(
    generator: Generator, where: str, code: Code, named: str
) -> None:
    with refused(where, code, named):
        generator.build()


def test_kinds_are_names() -> None:
    assert all(GENERATORS[kind].kind == kind for kind in GENERATORS)
    assert {type(case[0]) for case in CASES} == set(GENERATORS.values())


# Path lengths, and what is a product


def test_path_lengths_by_hand() -> None:
    """Of three NPUs on a switch, and of two such switches in a row."""
    assert measure_path_lengths(FatTree(npus=3, radix=4).build()).mean == 2
    lengths = measure_path_lengths(FatTree(npus=4, radix=4).build(), servers=2)
    assert lengths.mean == pytest.approx((1 + 2 + 2) / 3)
    assert lengths.failed == 1  # of those that are still joined
    lengths = measure_path_lengths(BCube(n=2).build())
    assert lengths.mean == pytest.approx((2 + 2 + 4) / 3)
    assert lengths.failed == pytest.approx((3 * 2 + 2 * 4 + 6) / 6)


@given(st.integers(0, 5))
def test_switches_that_fail_alike_are_found(seed: int) -> None:
    """One for all, and each by itself."""
    network = Jellyfish(switches=8, radix=6, hosts=3, seed=seed).build()
    rest = []
    for gone in switches(network):
        lengths = dict(
            nx.all_pairs_shortest_path_length(nx.restricted_view(network.graph, [gone], []))
        )
        met = [n for a in range(24) for b, n in lengths[a].items() if isinstance(b, int) and b != a]
        rest.append(sum(met) / len(met))
    assert measure_path_lengths(network).failed == pytest.approx(sum(rest) / len(rest))


def test_switches_that_look_alike_and_are_not_fail_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even where all of them look alike: leaves and spines."""
    network = Roft(npus=16, radix=8, rails=2).build()
    known = measure_path_lengths(network)
    monkeypatch.setattr(
        paths, "_refine_colours", lambda edges, graph: np.zeros(graph.nodes, np.int64)
    )
    assert measure_path_lengths(network).failed == pytest.approx(known.failed, rel=1e-12)


def test_products_are_recognised() -> None:
    topology = Topology.build("Ring(4)_Switch(4)", bandwidth=[6e9, 3e9], latency=[5, 7])
    own = build_network(topology)
    renamed = {node: f"rack {node}" for node in own.graph if isinstance(node, str)}
    again = Network(nx.relabel_nodes(own.graph, renamed))
    assert is_product(again, topology)
    slower = again.graph.copy()
    slower.edges[0, 1]["bandwidth"] /= 2
    assert not is_product(Network(slower), topology)
    crossed = again.graph.copy()
    one, other = (node for node in list(renamed.values())[:2])
    for a, b in ((one, other), (other, one)):
        crossed.add_edge(a, b, bandwidth=1e9, latency=1)
    assert not is_product(Network(crossed), topology)
