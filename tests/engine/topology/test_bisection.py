"""Bisection bandwidth: against all cuts into halves of small machines."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Topology
from dimsweep.engine.topology import bisection, cuts
from tests.support.examples import examples


def network(shape: str) -> Topology:
    n = shape.count("(")
    return Topology.build(shape, bandwidth=[1e9] * n, latency=[0] * n)


def lines(topology: Topology) -> list[tuple[int, list[int]]]:
    """The NPUs of every block, with its dimension, in the order of their coordinate."""
    ranks = np.arange(topology.n_npus).reshape(topology.sizes[::-1])
    found = []
    for d, size in enumerate(topology.sizes):
        rows = np.moveaxis(ranks, len(topology.sizes) - 1 - d, -1).reshape(-1, size)
        found += [(d, row.tolist()) for row in rows]
    return found


def carried(block: str, here: list[bool], b: float) -> float:
    """What the NPUs of a block that are here can send the others."""
    n, k = len(here), sum(here)
    if block == "Switch":
        return b * min(k, n - k)
    if block == "FullyConnected":
        return k * (n - k) * b / (n - 1) if n > 1 else 0.0
    if n == 2:
        return b * (k == 1)
    return b / 2 * sum(here[i] != here[i - 1] for i in range(n))


def by_brute_force(topology: Topology, bandwidth: np.ndarray) -> float:
    n, blocks = topology.n_npus, lines(topology)
    least = np.inf
    for half in itertools.combinations(range(1, n), n // 2):  # NPU 0 stays on the other side
        here = np.zeros(n, dtype=bool)
        here[list(half)] = True
        cut = sum(
            carried(topology.dims[d].block.name, here[row].tolist(), bandwidth[d])
            for d, row in blocks
        )
        least = min(least, cut)
    return least


SHAPES = [
    "Ring(2)",
    "Ring(5)",
    "Ring(6)",
    "FullyConnected(5)",
    "FullyConnected(6)",
    "Switch(6)",
    "Switch(7)",
    "Ring(4)_Switch(2)",
    "Switch(4)_FullyConnected(3)",
    "Ring(6)_Ring(2)",
    "FullyConnected(4)_Ring(3)",
    "Ring(2)_FullyConnected(2)_Switch(2)",
]


@examples(40)
@given(st.sampled_from(SHAPES), st.lists(st.integers(1, 30), min_size=3, max_size=3))
def test_no_cut_into_halves_is_narrower(shape: str, numbers: list[int]) -> None:
    topology = network(shape)
    bandwidth = np.array(numbers[: len(topology.dims)], dtype=float)
    ours, least = float(bisection(topology, bandwidth)), by_brute_force(topology, bandwidth)
    assert ours <= least * (1 + 1e-12)
    # Among several dimensions, the cut of an odd one is no cut into exact halves.
    if len(topology.dims) == 1 or not any(size % 2 for size in topology.sizes):
        assert ours == pytest.approx(least, rel=1e-12)


def test_a_torus_has_what_textbooks_say() -> None:
    # k-ary n-cube: 2 k^(n-1) channels each way; an NPU's b is two channels (Dally and Towles, 5.2).
    assert bisection(network("Ring(8)_Ring(8)_Ring(8)"), np.full(3, 2.0)) == 2 * 8**2


def test_one_npu_cannot_be_cut() -> None:
    assert cuts(network("Ring(1)_Switch(4)")).tolist() == [np.inf, 2.0]


def test_many_splits_at_once() -> None:
    topology, rows = network("Ring(4)_Switch(4)"), np.array([[1.0, 9.0], [9.0, 1.0]])
    assert bisection(topology, rows).tolist() == [4.0, 8.0]
