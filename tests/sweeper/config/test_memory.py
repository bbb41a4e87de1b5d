"""``memory``: what is missing, or too much, is named by its key."""

import pytest

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_cluster
from tests.support.refused import refused


@pytest.mark.parametrize(
    ("overrides", "where", "what"),
    [
        (["memory.capacity=1 TB"], "memory.bandwidth", "has capacity, but no bandwidth"),
        (["memory.kind=pol", "memory.bandwidth=1 GB/s"], "memory.kind", "there is no memory 'pol'"),
        (["memory=host", "memory.groups=16"], "memory.groups", "of kind 'npu' has no groups"),
        (
            ["memory=hierarchical", "memory.fabric_bandwidth=null"],
            "memory.fabric_bandwidth",
            "remote memory has no path from a node's fabric to its NPUs",
        ),
        (
            ["memory=hierarchical", "memory.switches=512"],
            "memory.switches",
            "512; it must be 1 to 256",
        ),
        (["memory=hierarchical", "memory.groups=null"], "memory.groups", "1 or more"),
    ],
)
def test_what_is_wrong_with_a_memory_is_named(overrides: list[str], where: str, what: str) -> None:
    composed = compose(overrides)
    with pytest.raises(DimsweepError) as error:
        build_cluster(composed.config)
    assert error.value.where == where
    assert what in error.value.problem


@pytest.mark.parametrize("name", ["none", "host", "nvme", "local", "node", "pool", "cxl"])
def test_every_memory_that_comes_along_can_be_built(name: str) -> None:
    memory = build_cluster(compose([f"memory={name}"]).config).memory
    assert (memory is None) == (name == "none")


def test_nodes_that_are_larger_than_the_cluster_are_named() -> None:
    overrides = ["memory=zero_infinity", "memory.npus_per_node=8192"]
    cluster = build_cluster(compose(overrides).config)
    assert cluster.memory is not None
    with refused("memory.npus_per_node", "out-of-range", "8192", "1 to 4096"):
        cluster.memory.node_shape(cluster.topology.sizes)
