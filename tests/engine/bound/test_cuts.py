"""Bounds from cuts: never above a simulation, and as high as what is known of some networks.

``make test EXAMPLES=40 TESTS=tests/engine/bound/test_cuts.py`` simulates 2,400 networks.
"""

import itertools
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Cluster,
    CollectiveKind,
    CollectiveModel,
    DimsweepError,
    Fidelity,
    NetworkModel,
    Topology,
    simulate,
)
from dimsweep.engine.bound import cut_bound
from dimsweep.engine.network import Network, Routing
from tests.support.examples import examples
from tests.support.graphs import cable, dgx, empty, leaf_spine, random_network, star, torus
from tests.support.programs import one_collective

GATHER, SCATTER = CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER
REDUCE, SPREAD = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL
GB = Fraction(10**9)


def per_byte(network: Network, kind: CollectiveKind, n: int | None = None) -> Fraction:
    """Nanoseconds for a byte of each of the first ``n`` NPUs."""
    return cut_bound(network, range(n or network.n_npus), kind).per_byte * GB


def algorithms_for(kind: CollectiveKind, p: int) -> list[str]:
    """Names of algorithms of collectives of ``p`` members."""
    names = ["ring", "direct", "forest", "forest"]
    if p & (p - 1) == 0:
        names.append("halving_doubling")
    if kind is REDUCE:
        names += ["double_binary_tree", "rabenseifner"]
    return names


@given(st.integers(0, 10**9))
@examples(60)
def test_no_simulation_is_below_its_bound(seed: int) -> None:
    network, _ = random_network(seed)
    draw = random.Random(seed)
    n, kind = network.n_npus, draw.choice(list(CollectiveKind))
    ways = [(p, s) for p in range(2, n + 1) for s in range(1, n) if n % (p * s) == 0]
    p, stride = draw.choice(ways)
    name = draw.choice(algorithms_for(kind, p))
    spread = draw.choice(["direct", "pairwise", "bruck"])
    n_bytes, chunks = draw.choice([1e4, 1e6, 12_345_678.0]), draw.choice([1, 1, 3])
    both_ways = all((link.target, link.source) in network.number for link in network.links)
    fidelity = draw.choice(list(Fidelity)[1:3]) if both_ways else Fidelity.MESSAGE
    topology = Topology.build(f"Switch({n})", bandwidth=[1e9], latency=[0])
    model = CollectiveModel(chunks=chunks, algorithms=(name,), all_to_all=(spread,))
    routing = draw.choice([None, Routing.SPRAY]) if fidelity is Fidelity.FLOW else None
    on = NetworkModel(graph=network, routing=routing)
    cluster = Cluster(topology, collectives=model, network=on)
    workload = one_collective(kind, n_bytes, (p,), (stride,))
    try:
        result = simulate(workload, cluster, fidelity=fidelity)
    except DimsweepError:  # trees cannot always be found where links lead one way
        assert name == "forest" and not both_ways
        return
    groups = [range(a + b, a + b + p * stride, stride) for a in range(0, n, p * stride)
              for b in range(stride)]  # fmt: skip
    least = max(cut_bound(network, group, kind).picoseconds(n_bytes) for group in groups)
    # Each message is rounded to a picosecond.
    assert result.time_ps >= least - chunks * 500, (name, kind, fidelity)


def test_the_bounds_of_a_switch_are_those_of_its_ports() -> None:
    """(p - 1)/p of the bytes through each port, twice for an all-reduce."""
    network = star([2e9] * 8)
    assert per_byte(network, GATHER) == Fraction(7, 2)
    assert per_byte(network, SCATTER) == per_byte(network, SPREAD) == Fraction(7, 16)
    assert per_byte(network, REDUCE) == Fraction(7, 8)
    assert per_byte(network, GATHER, 3) == 1


def test_a_server_that_has_room_for_all_is_a_faster_all_reduce() -> None:
    """Seven send it all they have, and hear of the sum: once each way, not 7/8 twice."""
    assert per_byte(star([7e9, *[1e9] * 7]), REDUCE) == 1
    assert per_byte(star([7e9, *[1e9] * 7]), GATHER) == 7


def test_nodes_with_few_rails_are_bound_by_what_leaves_them() -> None:
    assert per_byte(dgx(4), GATHER) == Fraction(31, 450 + 50)
    slow = dgx(4, rail=5e9)
    assert per_byte(slow, GATHER) == Fraction(24, 8 * 5)
    assert per_byte(slow, REDUCE) == Fraction(2 * 3, 4 * 8 * 5)
    bound = cut_bound(slow, range(32), GATHER)
    assert bound.reason.endswith(
        "every NPU except NPU 24, NPU 25, NPU 26, NPU 27, NPU 28 and 3 more"
    )


def test_what_spreads_is_bound_by_the_middle() -> None:
    """Half of all on a torus of 4 x 4 send half of what they have over 8 of its links; the flow
    knows as much without a cut of halves to look at.  Leaves have 4 spines for 8 NPUs."""
    assert per_byte(torus(4, 4), SPREAD) == pytest.approx(8 * 8 / 16 / 8 / 50)
    assert per_byte(leaf_spine(4, 8, 4), SPREAD) == Fraction(8 * 24, 32) / 200


def test_flows_need_more_than_any_cut_says() -> None:
    """Of two NPUs on one side and three on the other, 6 pairs are a link apart, and 4 pairs two,
    each way, over 12 links; so much lengths of one say, too.  Elsewhere only the flow knows."""
    graph = empty(5)
    for a, b in itertools.product((0, 1), (2, 3, 4)):
        cable(graph, a, b, 1e9)
    assert per_byte(Network(graph), SPREAD) == pytest.approx((2 * 6 + 2 * 2 * 4) / 12 / 5)
    network, ranks = random_network(35, most=6)
    bound = cut_bound(network, ranks, SPREAD)
    assert bound.reason == "what the multi-commodity flow can carry"
    assert bound.per_byte * GB == pytest.approx(15 / 7, rel=1e-4)


def test_a_large_clos_takes_seconds() -> None:
    assert per_byte(leaf_spine(32, 16, 8, up=100e9), GATHER) == Fraction(511, 50)
