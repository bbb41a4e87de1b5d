"""What a network costs: LIBRA's model on its own two networks."""

import numpy as np
import pytest

from dimsweep.engine import Prices, Topology
from dimsweep.engine.cluster import TierPrice, network_prices
from tests.support.golden import libra

GB = 1e9


def tiers(*, three_dims: bool) -> dict[str, TierPrice]:
    """LIBRA's price list with the 1e-5 by which its inputs break ties."""
    e = 1e-5 if three_dims else 2e-5
    prices = {
        "package": TierPrice((4 + e) / GB, (13 + e) / GB),
        "node": TierPrice((4 + e + 1e-5) / GB, (13 + e + 1e-5) / GB),
        "pod": TierPrice((7.8 + e + 2e-5) / GB, (18 + e + 2e-5) / GB, (31.6 + e + 2e-5) / GB),
    }
    return prices if three_dims else {"chiplet": TierPrice((2 + 1e-5) / GB), **prices}


def topology(*, three_dims: bool) -> Topology:
    if three_dims:
        shape, names = "Ring(16)_FullyConnected(8)_Switch(32)", ["package", "node", "pod"]
    else:
        shape = "Ring(4)_FullyConnected(8)_Ring(4)_Switch(32)"
        names = ["chiplet", "package", "node", "pod"]
    n = len(names)
    return Topology.build(shape, bandwidth=[500 * GB / n] * n, latency=[0] * n, tiers=names)


def prices_of(three_dims: bool, npu_price: float = 0.0) -> Prices:
    prices = network_prices(
        topology(three_dims=three_dims), tiers(three_dims=three_dims), npu_price
    )
    assert prices is not None
    return prices


@pytest.mark.parametrize(("three_dims", "cost"), [(True, 44_646_481.92), (False, 34_508_892.16)])
def test_equal_splits_of_500_gigabytes(three_dims: bool, cost: float) -> None:
    n = 3 if three_dims else 4
    split = np.full(n, 500 * GB / n)
    assert prices_of(three_dims).cost(split) == pytest.approx(cost, rel=1e-12)


@pytest.mark.parametrize("dims", [3, 4])
def test_every_recorded_cost(dims: int) -> None:
    recorded = libra()
    prices = prices_of(dims == 3)
    per_gigabyte = recorded["networks"][f"{dims}D"]["cost_usd_per_GBps"]
    assert np.array(prices.per_bandwidth) * GB == pytest.approx(per_gigabyte, rel=1e-12)
    cases = [case for case in recorded["cases"] if case["dims"] == dims]
    assert cases
    for case in cases:
        bandwidth = np.array(case["best"]["bw"]) * GB
        assert prices.cost(bandwidth) == pytest.approx(case["best"]["cost_usd"], rel=1e-9)


def test_npus_are_a_fixed_cost() -> None:
    with_npus, without = prices_of(True, npu_price=10_000), prices_of(True)
    split = np.full(3, 100 * GB)
    difference = with_npus.cost(split) - without.cost(split)
    assert difference == pytest.approx(4096 * 10_000, rel=1e-9)


def test_ports_and_blocks_are_fixed_costs() -> None:
    network = Topology.build(
        "Ring(4)_Switch(8)_Ring(1)", bandwidth=[GB] * 3, latency=[0] * 3, tiers=["node"] * 3
    )
    bare, equipped = (
        network_prices(network, {"node": TierPrice(4 / GB, **parts)}, npu_price=7.0)
        for parts in ({}, {"port": 100.0, "block": 1000.0})
    )
    assert bare is not None and equipped is not None
    assert equipped.per_bandwidth == bare.per_bandwidth
    # 32 NPUs with two ports each, 8 rings and 4 switches; a dimension of one NPU has nothing.
    assert bare.fixed == 32 * 7.0
    assert equipped.fixed == 32 * 7.0 + 2 * 32 * 100.0 + (8 + 4) * 1000.0


@pytest.mark.parametrize("tier", ["node", "none"])
@pytest.mark.parametrize("block", ["Ring", "Switch", "FullyConnected"])
def test_a_dimension_of_one_npu_costs_nothing(block: str, tier: str) -> None:
    table = {"node": TierPrice(4 / GB, 2 / GB, 3 / GB, port=100.0, block=1000.0)}
    alone, beside = (
        network_prices(
            Topology.build(shape, bandwidth=[GB] * n, latency=[0] * n, tiers=["node", tier][:n]),
            table,
        )
        for n, shape in ((1, "Switch(8)"), (2, f"Switch(8)_{block}(1)"))
    )
    assert alone is not None and beside is not None
    assert beside.per_bandwidth == (*alone.per_bandwidth, 0.0)
    assert beside.fixed == alone.fixed


def test_a_switch_needs_only_the_parts_its_tier_sells() -> None:
    only_links = network_prices(
        Topology.build("Switch(8)", bandwidth=[GB], latency=[0], tiers=["node"]),
        {"node": TierPrice(link=4 / GB)},
    )
    assert only_links is not None and only_links.per_bandwidth == (8 * 4 / GB,)


def test_rings_and_fully_connected_need_no_switches() -> None:
    for block in ("Ring", "FullyConnected"):
        prices = network_prices(
            Topology.build(f"{block}(8)", bandwidth=[GB], latency=[0], tiers=["pod"]),
            tiers(three_dims=True),
        )
        assert prices is not None
        assert prices.per_bandwidth[0] * GB == pytest.approx(8 * 7.80003)


@pytest.mark.parametrize("table", [{}, {"node": TierPrice(switch=1.0)}])
def test_a_dimension_without_a_price_has_no_cost(table: dict[str, TierPrice]) -> None:
    network = Topology.build("Ring(8)", bandwidth=[GB], latency=[0], tiers=["node"])
    assert network_prices(network, table) is None


def test_batches_cost_what_their_rows_do() -> None:
    rows = np.random.default_rng(1).uniform(GB, 1000 * GB, size=(100, 4))
    prices = prices_of(False)
    together = prices.cost(rows)
    assert together.tolist() == [float(prices.cost(row)) for row in rows]
