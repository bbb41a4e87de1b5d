"""Traces that nobody has: how near synthesised jobs are to real ones that were not learnt from."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine import Cluster, Npu, Topology, Workload
from engine.formats.chakra import read_chakra_workload, write_chakra_workload
from engine.model import Transformer
from engine.plan import DeviceMesh, ParallelPlan, training

KEYS = (
    "layers",
    "hidden",
    "sequence",
    "micro_batch",
    "micro_batches",
    "tensor",
    "pipeline",
    "data",
)
Keys = dict[str, int]


def cluster_of(n: int) -> Cluster:
    """``n`` NPUs on one switch, by roofline: 100 GB/s, 2 us."""
    topology = Topology.build(f"Switch({n})", bandwidth=[100e9], latency=[2_000_000])
    return Cluster(topology, Npu(flops=156e12, memory_bandwidth=1.5e12, launch=3_000_000))


def ranks(keys: Mapping[str, int]) -> int:
    return keys["tensor"] * keys["pipeline"] * keys["data"]


def transformer(keys: Keys) -> Workload:
    """A training iteration of a GPT: tensor, pipeline and data parallel, sequence parallel."""
    model = Transformer(
        hidden=keys["hidden"],
        layers=keys["layers"],
        heads=16,
        sequence=keys["sequence"],
        vocabulary=51200,
    )
    axes = {name: keys[name] for name in ("tensor", "pipeline", "data")}
    mesh = DeviceMesh.place(axes, (ranks(keys),))
    plan = ParallelPlan(
        keys["micro_batches"] * keys["micro_batch"] * keys["data"],
        micro_batch=keys["micro_batch"],
        sequence_parallel=True,
        bucket=1e15,
    )
    return training(model, plan, mesh)


def traced(keys: Keys, folder: Path) -> Workload:
    """The job as its traces say it, which is all that can be learnt from."""
    prefix = folder / "_".join(f"{name}{value}" for name, value in keys.items())
    groups = write_chakra_workload(transformer(keys), cluster_of(ranks(keys)), prefix)
    return read_chakra_workload(prefix, groups, (ranks(keys),), prefix.name)


def draw(n: int, seed: int, **choices: Sequence[int]) -> list[Keys]:
    """``n`` different configurations; ``choices`` in the place of the usual ones."""
    usual: dict[str, Sequence[int]] = {
        "layers": (2, 3, 4, 6),  # of a stage
        "hidden": (1024, 2048, 3072, 4096),
        "sequence": (512, 1024, 2048, 4096),
        "micro_batch": (1, 2, 4),
        "micro_batches": (8, 9, 10, 12),
        "tensor": (2, 4),
        "pipeline": (1, 2, 4, 8),
        "data": (2, 4),
    }
    rng, found = random.Random(seed), dict[tuple[int, ...], Keys]()
    while len(found) < n:
        keys = {name: rng.choice((usual | choices)[name]) for name in KEYS}
        keys["layers"] *= keys["pipeline"]
        found[tuple(keys.values())] = keys
    return list(found.values())
