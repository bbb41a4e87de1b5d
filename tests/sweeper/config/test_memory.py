"""``memory``: what is missing, or too much, is named by its key."""

import pytest

from dimsweep.engine.errors import Code
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.simulation.program import build_cluster
from tests.support.refused import refused


@pytest.mark.parametrize(
    ("overrides", "where", "code", "data"),
    [
        (["memory.capacity=1 TB"], "memory.bandwidth", "missing", "capacity"),
        (["memory.kind=pol", "memory.bandwidth=1 GB/s"], "memory.kind", "unknown-name", "'pol'"),
        (["memory=host", "memory.groups=16"], "memory.groups", "unknown-key", "'npu'"),
        (
            ["memory=hierarchical", "memory.fabric_bandwidth=null"],
            *("memory.fabric_bandwidth", None, ""),
        ),
        (["memory=hierarchical", "memory.switches=512"], "memory.switches", None, "512"),
        (["memory=hierarchical", "memory.groups=null"], "memory.groups", None, "1"),
    ],
)
def test_wrong_keys_are_refused(
    overrides: list[str], where: str, code: Code | None, data: str
) -> None:
    composed = compose(overrides)
    with refused(where, code, data):
        build_cluster(composed.config)


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
