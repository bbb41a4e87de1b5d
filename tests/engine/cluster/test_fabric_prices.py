"""A fabric costs what its links and switches do: counted on its wires."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Topology
from dimsweep.engine.cluster import TierPrice, network_prices
from dimsweep.engine.network import Auto, Clos, Dragonfly, Fabric, Mesh
from tests.support.examples import examples
from tests.support.refused import refused

TIERS = {"pod": TierPrice(link=7e-9, switch=11e-9, nic=30e-9, port=5.0, block=1000.0)}


def one(shape: str) -> Topology:
    return Topology.build(shape, bandwidth=[50e9], latency=[0], tiers=["pod"])


def counted(topology: Topology, fabric: Fabric) -> tuple[float, float]:
    """Links and ports of switches for an NPU, by the fabric's own wires."""
    (dim,) = topology.dims
    pairs = list(fabric.wire(dim, range(dim.size), ""))
    ports = sum(isinstance(end, str) for pair in pairs for end in pair) / 2
    return len(pairs) / 2 / dim.size, ports / dim.size


@st.composite
def closes(draw: st.DrawFn) -> tuple[Topology, Clos]:
    ratio, up = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    leaves = draw(st.integers(1, 4))
    if draw(st.booleans()):
        return one(f"Switch({ratio * up * leaves})"), Clos(2, ratio * up, None, float(ratio))
    pod = ratio * draw(st.integers(1, 2))
    size = ratio * up * pod * leaves
    return one(f"Switch({size})"), Clos(3, ratio * up, pod, float(ratio))


@examples(50)
@given(closes())
def test_a_clos_has_the_links_and_ports_of_its_wires(made: tuple[Topology, Clos]) -> None:
    topology, clos = made
    assert tuple(clos.bill(topology.dims[0])) == pytest.approx(counted(topology, clos))


@examples(30)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
def test_a_dragonfly_has_the_links_and_ports_of_its_wires(npus: int, routers: int, n: int) -> None:
    topology, fabric = one(f"Switch({npus * routers * n})"), Dragonfly(routers, npus)
    assert tuple(fabric.bill(topology.dims[0])) == pytest.approx(counted(topology, fabric))


def test_a_mesh_is_a_ring_without_a_link() -> None:
    ring = one("Ring(5)")
    links = [counted(ring, fabric)[0] for fabric in (Auto(), Mesh())]
    assert Mesh().bill(ring.dims[0]).links == pytest.approx(links[1] / links[0]) == 0.8


def test_an_oversubscribed_clos_is_cheaper_than_a_full_one() -> None:
    """Before, all four cost the same."""
    topology = one("Switch(64)")

    def usd(*fabrics: Fabric) -> float:
        prices = network_prices(topology, TIERS, 0.0, fabrics)
        assert prices is not None
        return prices.per_bandwidth[0] * 1e9 / 64

    full, half, quarter = (usd(Clos(2, 8, None, ratio)) for ratio in (1.0, 2.0, 4.0))
    assert usd() == usd(Auto()) == pytest.approx(30 + 7 + 11)
    assert full == pytest.approx(30 + 2 * 7 + 3 * 11)
    assert half == pytest.approx(30 + 1.5 * 7 + 2 * 11)
    assert quarter == pytest.approx(30 + 1.25 * 7 + 1.5 * 11)
    fixed = network_prices(topology, TIERS, 0.0, [Clos(2, 8, None, 2.0)])
    assert fixed is not None
    assert math.isclose(fixed.fixed, 64 * 5 + 1000 * 2), "a chassis for as many ports"


def test_a_fabric_that_cannot_be_has_no_price() -> None:
    with refused("network.fabric[0].leaf", "mismatch", "6 NPUs", "4"):
        network_prices(one("Switch(6)"), TIERS, 0.0, [Clos(2, 4)])
