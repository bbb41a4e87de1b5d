"""LIBRA's workloads and networks, built by our own generators."""

from functools import cache
from pathlib import Path

import pytest
import yaml

from dimsweep.engine import (
    Cluster,
    CollectiveModel,
    Program,
    SubgroupBandwidth,
    Topology,
    Workload,
    lower,
    place,
    units,
)
from dimsweep.engine.workload import (
    Convolution,
    Layer,
    TrainingLoop,
    TransformerSlice,
    data_parallel,
    training_iteration,
)

ROOT = Path(__file__).resolve().parents[2]
GB = 1e9
NETWORKS = {
    3: "Ring(16)_FullyConnected(8)_Switch(32)",
    4: "Ring(4)_FullyConnected(8)_Ring(4)_Switch(32)",
}
TENSOR = {"ResNet_50": 1, "Turing_NLG": 1, "GPT_3": 16, "MSFT_1T": 128}
TRANSFORMERS = {
    "Turing_NLG": TransformerSlice(4256, 2, 16, 512, tensor=1, flops=60 * 2**40),
    "GPT_3": TransformerSlice(12288, 2, 16, 2048, tensor=16, flops=60 * 2**40),
    "MSFT_1T": TransformerSlice(24576, 2, 8, 2048, tensor=128, flops=60 * 2**40),
}

WORKLOADS = pytest.mark.parametrize("name", sorted(TENSOR))
DIMS = pytest.mark.parametrize("dims", [3, 4])


@cache
def layers_of(name: str) -> tuple[Layer, ...]:
    """Our own generators' layers."""
    if name in TRANSFORMERS:
        return tuple(TRANSFORMERS[name].build())
    config = yaml.safe_load((ROOT / "conf/workload/resnet50_libra.yaml").read_text())
    passes = ("forward", "input_grad", "weight_grad")
    convolutions = [
        Convolution(**{k: units.parse_time(v) if k in passes else v for k, v in layer.items()})
        for layer in config["layers"]
    ]
    return tuple(data_parallel(convolutions, config["bytes_per_value"]))


@cache
def program_of(name: str, dims: int, chunks: int = 64) -> Program:
    """The workload on LIBRA's network, under LIBRA's assumptions: no latency, all links for all."""
    topology = Topology.build(NETWORKS[dims], bandwidth=[GB] * dims, latency=[0] * dims)
    groups = place({"tensor": TENSOR[name], "data": "rest"}, topology.sizes)
    graph = training_iteration(layers_of(name), TrainingLoop.NO_OVERLAP)
    model = CollectiveModel(chunks=chunks, subgroup_bandwidth=SubgroupBandwidth.FULL)
    return lower(Workload((graph,), groups, name=name), Cluster(topology, collectives=model))
