"""Every algorithm on every block against its textbook time, in both kernels.

The formulas are written with latencies and bytes apart: ``alpha`` is what a hop's latency and an
endpoint delay take in a step, ``beta`` what all of the bytes take through an NPU's port.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest

from dimsweep.engine import (
    Block,
    Cluster,
    CollectiveKind,
    CollectiveModel,
    Dimension,
    FullyConnected,
    Ring,
    Switch,
    Topology,
)
from dimsweep.engine.collective.algorithms import ALGORITHMS as KNOWN
from dimsweep.engine.collective.algorithms import TwoLevelRings, list_all_to_alls
from dimsweep.engine.collective.algorithms.grids import OnGrid
from tests.support.messages import times
from tests.support.programs import ALGORITHMS, one_collective

REDUCE_SCATTER, ALL_GATHER = CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER
ALL_REDUCE, ALL_TO_ALL = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL
LATENCY, DELAY, BANDWIDTH, N_BYTES = 500_000, 20_000, 100e9, 1e8
Cost = tuple[float, float]  # alphas and betas


class Form(NamedTuple):
    """An algorithm of a kind of collective on a block."""

    block: Block
    algorithm: str
    kind: CollectiveKind

    @property
    def name(self) -> str:
        return f"{self.block.name}-{self.algorithm}-{self.kind}"

    def times(self, p: int, chunks: int = 1) -> tuple[float, float]:
        """Seconds by both kernels; members begin with all bytes, or with 1/p to gather."""
        is_all_to_all = self.kind is ALL_TO_ALL
        key = {"all_to_all" if is_all_to_all else "algorithms": (self.algorithm,)}
        model = CollectiveModel(chunks=chunks, endpoint_delay=DELAY, **key)
        topology = Topology((Dimension(self.block, p, BANDWIDTH, LATENCY),))
        held = N_BYTES / p if self.kind is ALL_GATHER else N_BYTES
        both = times(one_collective(self.kind, held, (p,)), Cluster(topology, collectives=model))
        return both[0] / 1e12, both[1] / 1e12


def log2(p: int) -> int:
    return math.ceil(math.log2(p))


def twice(half: Callable[[int], Cost]) -> Callable[[int], Cost]:
    """An all-reduce: a reduce-scatter and an all-gather."""
    return lambda p: (2 * half(p)[0], 2 * half(p)[1])


def ring(p: int) -> Cost:
    return p - 1, (p - 1) / p


def direct(p: int) -> Cost:
    return 1, (p - 1) / p


def halving_doubling(p: int) -> Cost:
    return log2(p), (p - 1) / p


def relay(p: int) -> Cost:
    return p // 2, p**2 // 4 / p


def bruck(p: int) -> Cost:
    shards = sum(j for k in range(log2(p)) for j in [sum(i >> k & 1 for i in range(p))])
    return log2(p), shards / p


def whole(p: int) -> Cost:
    return 1, 1


def tree(p: int) -> Cost:
    return 2 * (1 + math.floor(math.log2(p - 1))), min(2, p / 2)


def rabenseifner(p: int) -> Cost:
    q = 2 ** math.floor(math.log2(p))
    extra = 0 if p == q else 2
    return 2 * math.log2(q) + extra, 2 * (q - 1) / q + extra


FORMULAS: dict[tuple[str, str], Callable[[int], Cost]] = {
    ("ring", "half"): ring,
    ("ring", "all_reduce"): twice(ring),
    ("direct", "half"): direct,
    ("direct", "all_reduce"): twice(direct),
    ("direct", "all_to_all"): direct,
    ("halving_doubling", "half"): halving_doubling,
    ("halving_doubling", "all_reduce"): twice(halving_doubling),
    ("in_switch", "half"): whole,
    ("in_switch", "all_reduce"): whole,
    ("double_binary_tree", "half"): halving_doubling,
    ("double_binary_tree", "all_reduce"): tree,
    ("rabenseifner", "half"): halving_doubling,
    ("rabenseifner", "all_reduce"): rabenseifner,
    ("relay", "all_to_all"): relay,
    ("pairwise", "all_to_all"): ring,
    ("bruck", "all_to_all"): bruck,
}


def expected(form: Form, p: int) -> float:
    """Seconds."""
    kind = "half" if form.kind in (REDUCE_SCATTER, ALL_GATHER) else str(form.kind)
    alphas, betas = FORMULAS[form.algorithm, kind](p)
    alpha = (form.block.hops * LATENCY + DELAY) / 1e12
    return alphas * alpha + betas * N_BYTES / BANDWIDTH


FORMS = [
    Form(block, algorithm, kind)
    for block in (Ring(), FullyConnected(), Switch())
    for algorithm in ALGORITHMS[block]
    for kind in (REDUCE_SCATTER, ALL_GATHER, ALL_REDUCE)
] + [
    Form(block, algorithm, ALL_TO_ALL)
    for block in (Ring(), FullyConnected(), Switch())
    for algorithm in list_all_to_alls(block)
]


def test_no_form_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for those of a grid, whose formulas are in tests/engine/topology/test_grids.py, rings of
    two levels, which a wafer registers when it is simulated, and those that phases do not know."""
    assert len(FORMS) == 29
    rings = TwoLevelRings(5, 4, reversed_half=False)
    monkeypatch.setitem(KNOWN, rings.name, rings)
    own = {
        name
        for name, each in KNOWN.items()
        if not (isinstance(each, OnGrid | TwoLevelRings) or each.by_network)
    }
    assert {form.algorithm for form in FORMS} == own


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_alpha_and_beta(form: Form) -> None:
    for p in (2, 3, 4, 6, 8, 13, 16):
        by_phase, by_message = form.times(p)
        assert by_phase == pytest.approx(expected(form, p), rel=1e-6)
        assert by_message == pytest.approx(expected(form, p), rel=1e-6)


@pytest.mark.parametrize("p", [4, 16, 64, 256])
@pytest.mark.parametrize("chunks", [1, 64, 1024])
@pytest.mark.parametrize("latency", [0, LATENCY])
def test_the_levels_of_a_tree_are_a_pipeline(p: int, chunks: int, latency: int) -> None:
    """1 GB at 100 GB/s takes 2 n/b = 20 ms, however deep the trees and in however many chunks, and
    two hops for each level up and down, once; it took 30, 70, 110 and 150 ms where a port waited
    for each level.  Each chunk's messages are rounded to a picosecond."""
    topology = Topology.build(f"Switch({p})", bandwidth=[100e9], latency=[latency])
    model = CollectiveModel(chunks=chunks, algorithms=("double_binary_tree",))
    cluster = Cluster(topology, collectives=model)
    by_phase, by_message = times(one_collective(ALL_REDUCE, 1e9, (p,)), cluster)
    assert by_phase == by_message
    deep = 2 * (p - 1).bit_length() * 2 * latency
    assert by_phase == pytest.approx(20 * 10**9 + deep, abs=4 * chunks)
