"""Which links may limit flows: leaving out the others changes nobody's rate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.kernels.flow.shares import Limits, find_limits
from dimsweep.engine.network.generators import FatTree, Hpn
from dimsweep.engine.network.generators.generator import Generator
from dimsweep.engine.network.routing import Router, Routing

Routes = list[dict[int, float]]  # the links of each route, and their shares of a flow's rate


def limits(routes: Routes, capacity: list[float]) -> Limits:
    ends = np.cumsum([len(route) for route in routes])
    hops = np.array([link for route in routes for link in route], np.int32)
    shares = np.array([share for route in routes for share in route.values()])
    starts = ends - [len(route) for route in routes]
    return find_limits(starts, ends, hops, shares, np.array(capacity))


def kept(routes: Routes, capacity: list[float]) -> Routes:
    """The routes over the links that may limit flows."""
    found, start, left = limits(routes, capacity), 0, []
    for route, end in zip(routes, found.ends.tolist(), strict=True):
        left.append({int(link): route[int(link)] for link in found.hops[start:end]})
        start += len(route)
        assert {int(link) for link in found.hops[start - len(route) : start]} == set(route)
    return left


def fair(routes: Routes, capacity: list[float], flows: list[int]) -> list[float]:
    """Max-min fair rates of ``flows``, each on a route: all rise until a link is full."""
    loads = np.zeros((len(capacity), len(flows)))
    for i, flow in enumerate(flows):
        for link, share in routes[flow].items():
            loads[link, i] = share
    rates, rising = np.zeros(len(flows)), np.ones(len(flows), bool)
    while rising.any():
        weights = loads[:, rising].sum(axis=1)
        room = np.array(capacity) - loads @ rates
        steps = np.where(weights > 0, room / np.where(weights > 0, weights, 1), np.inf)
        rates[rising] += max(steps.min(), 0.0)
        full = loads[steps <= steps.min() + 1e-9].any(axis=0)
        rising &= ~full
    return rates.tolist()


@st.composite
def problems(draw: st.DrawFn) -> tuple[Routes, list[float], list[int]]:
    n = draw(st.integers(1, 7))
    capacity = [draw(st.sampled_from([1.0, 2.0, 3.0, 8.0])) for _ in range(n)]
    links = st.dictionaries(
        st.integers(0, n - 1), st.sampled_from([0.25, 0.5, 1.0]), min_size=1, max_size=n
    )
    routes = draw(st.lists(links, min_size=1, max_size=5))
    return routes, capacity, draw(st.lists(st.integers(0, len(routes) - 1), min_size=1, max_size=8))


@given(problems())
def test_nobodys_rate_is_another(problem: tuple[Routes, list[float], list[int]]) -> None:
    routes, capacity, flows = problem
    left = kept(routes, capacity)
    assert all(left)
    assert fair(left, capacity, flows) == pytest.approx(fair(routes, capacity, flows), rel=1e-6)


def named(generator: Generator, targets: int) -> set[str]:
    """The links that may limit messages from each NPU to some others, sprayed."""
    network = generator.build()
    router, n = Router(network, Routing.SPRAY), network.n_npus
    ends = [(i, (i + k) % n) for i in range(n) for k in range(1, targets + 1)]
    routes = [router.spread(*pair) for pair in ends]
    left = kept(routes, [link.bandwidth for link in network.links])
    return {network.links[link].name for route in left for link in route}


def test_of_a_full_tree_only_the_ports_of_npus_are_left() -> None:
    assert all("NPU" in name for name in named(FatTree(npus=16, radix=4), targets=15))
    assert all("NPU" in name for name in named(Hpn(npus=16, radix=8, server=1), targets=15))


def test_of_links_that_carry_the_same_one_is_left() -> None:
    routes: Routes = [{i: 1.0, 4: 0.5, 5: 0.5} for i in range(3)]  # a trunk of two, for three ports
    assert kept(routes, [2.0, 2.0, 2.0, 1.0, 2.0, 2.0]) == [{i: 1.0, 4: 0.5} for i in range(3)]
    assert kept(routes, [2.0, 2.0, 2.0, 1.0, 2.0, 1.5]) == [{i: 1.0, 5: 0.5} for i in range(3)]
    assert kept(routes, [2.0, 2.0, 2.0, 1.0, 3.0, 3.0]) == [{i: 1.0} for i in range(3)]
