"""A building block from outside of the engine: one class, and every part of the engine knows it."""

import pickle
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine import (
    Block,
    Cluster,
    CollectiveKind,
    CollectiveModel,
    Dimension,
    DimsweepError,
    FullyConnected,
    Ring,
    Switch,
    Topology,
)
from dimsweep.engine.cluster import TierPrice, network_prices
from dimsweep.engine.network import build_network
from dimsweep.engine.topology import (
    BLOCKS,
    LinkUse,
    MessagePath,
    Pair,
    bisection,
    parse_shape,
    register,
)
from tests.support.messages import times
from tests.support.programs import one_collective
from tests.support.refused import refused

ALL_REDUCE = CollectiveKind.ALL_REDUCE


class Hypercube(Block):
    """2^k NPUs, each joined to the k whose coordinates differ from its own in one bit."""

    name = "Hypercube"
    algorithms = ("halving_doubling",)
    all_to_all = "direct"
    hops = 1
    sends_concurrently = False
    parts = ("nic",)

    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        """Partners of halving and doubling are neighbours, and use one link at a time."""
        return LinkUse(1 / self.links(n), 1, 1)

    def message_path(self, n: int, offset: int) -> MessagePath:
        """Over as many links as most NPUs have to theirs."""
        hops = Counter((i ^ (i + offset) % n).bit_count() for i in range(n))
        return MessagePath(1 / self.links(n), hops.most_common(1)[0][0])

    def closes_ring(self, n: int, p: int, stride: int) -> bool:
        return False

    def links(self, n: int) -> int:
        return n.bit_length() - 1

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        for i, npu in enumerate(npus):
            for bit in range(self.links(len(npus))):
                yield npu, npus[i ^ 1 << bit]

    def cut(self, n: int) -> float:
        return n / 2 / self.links(n)


@pytest.fixture
def hypercube() -> Iterator[Block]:
    register(Hypercube())
    yield Hypercube()
    del BLOCKS["Hypercube"]


# On transfers of whole picoseconds both kernels round alike.
BANDWIDTHS = [1e12 / 256, 1e12 / 1024]


@given(
    st.sampled_from([ALL_REDUCE, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER]),
    st.sampled_from([2, 4, 8, 16]),
    st.data(),
)
def test_both_kernels_agree_on_a_block_from_outside(
    kind: CollectiveKind, n: int, data: st.DataObject
) -> None:
    members = data.draw(st.sampled_from([p for p in (2, 4, 8, 16) if p <= n]))
    stride = data.draw(st.sampled_from([s for s in (1, 2, 4, 8) if members * s <= n]))
    links = n.bit_length() - 1
    inner = Dimension(Ring(), 2, 1e12 / 256, 700)
    outer = Dimension(
        Hypercube(), n, links * data.draw(st.sampled_from(BANDWIDTHS)), data.draw(st.integers(0, 9))
    )
    cluster = Cluster(Topology((inner, outer)), collectives=CollectiveModel(chunks=4))
    by_phase, by_message = times(one_collective(kind, 2.0**20, (2, members), (1, stride)), cluster)
    assert by_phase == by_message > 0


def test_an_all_reduce_on_it_lasts_as_long_as_the_paper_says() -> None:
    # Halving and doubling: log2 p steps each way, (p - 1)/p of the bytes, over one of log2 n links.
    topology = Topology((Dimension(Hypercube(), 8, 3e9, 1000),))
    workload = one_collective(ALL_REDUCE, 8e6, (8,))
    cluster = Cluster(topology, collectives=CollectiveModel(chunks=1))
    expected = round(2 * (3 * 1000 + 7e6 / 1e9 * 1e12))
    assert times(workload, cluster) == (expected, expected)


def test_its_bisection_is_that_of_its_links(hypercube: Block) -> None:
    topology = Topology.build("Hypercube(8)_Ring(4)", bandwidth=[3e9, 1e12], latency=[0, 0])
    links = build_network(topology).links
    crossing = sum(
        link.bandwidth
        for link in links
        if link.dim == 0 and int(link.source) % 8 < 4 <= int(link.target) % 8
    )
    assert crossing == bisection(topology, np.array([3e9, 1e12])) == 16e9


def test_it_is_priced_by_its_parts() -> None:
    topology = Topology((Dimension(Hypercube(), 8, 3e9, 0, "node"),))
    tiers = {"node": TierPrice(link=2.0, switch=100.0, nic=3.0)}
    prices = network_prices(topology, tiers)
    assert prices is not None
    assert prices.per_bandwidth == (8 * (2.0 + 3.0),)


def test_shapes_know_it_while_it_is_registered(hypercube: Block) -> None:
    assert parse_shape("hypercube(4)_Ring(2)") == [(hypercube, 4), (Ring(), 2)]
    with refused("shape", "bad-syntax", "Switch(n) or Hypercube(n)"):
        parse_shape("Torus(4)")


def test_its_algorithms_are_its_own(hypercube: Block) -> None:
    topology = Topology((Dimension(hypercube, 8, 3e9, 0),))
    cluster = Cluster(topology, collectives=CollectiveModel(algorithms=("ring",)))
    with pytest.raises(DimsweepError, match="'ring' does not run on a Hypercube"):
        times(one_collective(ALL_REDUCE, 8e6, (8,)), cluster)


@pytest.mark.parametrize(
    "method",
    [name for name, member in vars(Block).items() if getattr(member, "__isabstractmethod__", 0)],
)
def test_a_block_that_forgets_something_cannot_be_made(method: str) -> None:
    parts = {name: part for name, part in vars(Hypercube).items() if name != method}
    parts = {name: part for name, part in parts.items() if name not in ("__dict__", "_abc_impl")}
    forgetful = type("Forgetful", (Block,), parts)
    with pytest.raises(TypeError, match=method):
        forgetful()


def test_blocks_are_equal_by_their_class_also_after_a_journey() -> None:
    blocks = [*BLOCKS.values(), Hypercube()]
    for block in blocks:
        assert pickle.loads(pickle.dumps(block)) == block
        assert hash(pickle.loads(pickle.dumps(block))) == hash(block)
        assert [other for other in blocks if other == block] == [block]
    assert list(BLOCKS.values()) == [Ring(), FullyConnected(), Switch()]


def test_a_name_belongs_to_one_block() -> None:
    class Other(Hypercube):
        name = "ring"

    with refused("blocks", "duplicate", "ring", "Other"):
        register(Other())
    register(Ring())  # again: nothing happens
    assert list(BLOCKS) == ["Ring", "FullyConnected", "Switch"]
