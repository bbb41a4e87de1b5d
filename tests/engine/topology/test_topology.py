"""Network dimensions: their notation, their numbers, and what is wrong with bad ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import Block, Dimension, DimsweepError, FullyConnected, Ring, Switch, Topology
from dimsweep.engine.topology import BLOCKS, parse_shape
from tests.support.refused import refused

SHAPE = "Ring(4)_FullyConnected(8)_Switch(32)"


def build(shape: str = SHAPE, bandwidth: object = (3e9, 2e9, 1e9), latency: object = (1, 2, 3)):
    return Topology.build(shape, bandwidth=bandwidth, latency=latency, tiers=())


def test_build() -> None:
    topology = Topology.build(
        SHAPE, bandwidth=[3e9, 2e9, 1e9], latency=[1, 2, 3], tiers=["a", "b", "c"]
    )
    assert topology.sizes == (4, 8, 32)
    assert topology.n_npus == 1024
    assert topology.name == SHAPE
    assert topology.dims[1] == Dimension(FullyConnected(), 8, 2e9, 2, "b")


def test_notation_is_lenient_about_case_and_spaces() -> None:
    blocks = [(Ring(), 4), (Switch(), 8)]
    assert parse_shape("ring(4) _ SWITCH(8)") == blocks


@given(
    st.lists(
        st.tuples(st.sampled_from(list(BLOCKS.values())), st.integers(1, 10**7)),
        min_size=1,
        max_size=6,
    )
)
def test_notation_round_trips(blocks: list[tuple[Block, int]]) -> None:
    shape = "_".join(f"{block.name}({size})" for block, size in blocks)
    assert parse_shape(shape) == blocks


@pytest.mark.parametrize(
    "shape",
    ["", "Ring", "Ring()", "Ring(4)_", "Ring(4)Switch(2)", "Torus(4)", "Ring(-4)", "Ring(4.0)"],
)
def test_bad_notation_says_what_is_right(shape: str) -> None:
    with refused("shape", "bad-syntax", "Ring(n), FullyConnected(n) or Switch(n)"):
        parse_shape(shape)


@pytest.mark.parametrize("shape", ["Ring(0)", "Switch(10000001)"])
def test_sizes_have_limits(shape: str) -> None:
    with refused("shape", "out-of-range", shape, "10,000,000"):
        parse_shape(shape)


@given(st.text(max_size=30))
def test_any_text_is_a_shape_or_an_error(text: str) -> None:
    try:
        blocks = parse_shape(text)
    except DimsweepError:
        return
    assert blocks


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("inf"), float("nan")])
def test_bandwidth_is_positive_and_finite(bandwidth: float) -> None:
    with refused("dimension 1.bandwidth", "out-of-range", f"{bandwidth:g}"):
        build(bandwidth=[3e9, bandwidth, 1e9])


def test_latency_is_not_negative() -> None:
    with refused("dimension 2.latency", "out-of-range", "-1"):
        build(latency=[0, 0, -1])


@pytest.mark.parametrize("key", ["bandwidth", "latency"])
def test_lists_have_one_value_a_dimension(key: str) -> None:
    with refused(key, "mismatch", "2", "3"):
        build(**{key: [1, 2]})


def test_a_topology_has_a_dimension() -> None:
    with refused("dims", "missing"):
        Topology(())


def test_a_dimension_has_an_npu() -> None:
    with refused("size", "out-of-range", "0"):
        Dimension(Ring(), 0, 1e9, 0)
