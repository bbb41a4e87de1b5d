"""A family of small pipelined jobs, whose times and sizes follow laws that a test knows."""

import itertools
import random
from collections.abc import Mapping

import numpy as np

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    Compute,
    GraphBuilder,
    Group,
    Npu,
    Operator,
    Receive,
    Send,
    Topology,
    Workload,
)
from dimsweep.engine.extensions.synthesis import Job

Keys = dict[str, int]


def cluster_of(n: int) -> Cluster:
    return Cluster(Topology.build(f"Switch({n})", bandwidth=[10e9], latency=[1_000_000]), Npu())


def n_ranks(keys: Mapping[str, int]) -> int:
    return keys["tensor"] * keys["pipeline"] * keys["data"]


def forward_time(keys: Mapping[str, float]) -> float:
    """Picoseconds of a layer's forward pass: a product, attention, and a launch."""
    h, s, t = keys["hidden"], keys["sequence"], keys["tensor"]
    return 900.0 * s * h * h / 1024 / t + 40.0 * s * s * h / 1024 / t + 5e6


def pipelined(keys: Keys, noise: float = 0.0, seed: int = 0) -> Workload:
    """1F1B over stages of layers, a gradient sum over replicas at the end; ``noise`` is the spread
    of the logarithm of durations."""
    t, stages = keys["tensor"], keys["pipeline"]
    n = n_ranks(keys)
    rng = np.random.default_rng(seed)
    groups = {"tensor": Group((t,), (1,)), "replicas": Group((keys["data"],), (t * stages,))}
    graphs = tuple(_stage(keys, stage, rng, noise) for stage in range(stages))
    used = {name: group for name, group in groups.items() if group.n_members > 1}
    return Workload(graphs, used, np.arange(n) // t % stages if stages > 1 else None, name="toy")


def _stage(keys: Keys, stage: int, rng: np.random.Generator, noise: float) -> tuple[Operator, ...]:
    graph, t, stages = GraphBuilder(), keys["tensor"], keys["pipeline"]
    layers, m = keys["layers"] // stages, keys["micro_batches"]
    activation = 2.0 * keys["sequence"] * keys["hidden"]
    last: tuple[int, ...] = ()

    def compute(name: str, picoseconds: float) -> None:
        nonlocal last
        time = picoseconds * np.exp(noise * rng.standard_normal() - noise**2 / 2)
        last = (graph.add(name, Compute(duration=round(time)), last),)

    def direction(name: str, i: int, times: float, source: int, target: int) -> None:
        nonlocal last
        tag = 2 * i + (name == "B")
        if 0 <= source < stages:
            got = graph.add(f"receive {i}", Receive(((source - stage) * t,), tag), last)
            last = (*last, got)
        for layer in range(layers):
            compute(f"{name}{i} layer {layer}", times * forward_time(keys))
            if t > 1:
                work = Collective(CollectiveKind.ALL_REDUCE, activation, "tensor")
                last = (graph.add(f"{name}{i} all-reduce", work, last),)
        if 0 <= target < stages:
            offset = ((target - stage) * t,)
            graph.add(f"send {i}", Send(activation, offset, tag), last)

    first = min(stages - stage - 1, m)
    steps = [("F", i) for i in range(first)]
    for i in range(m - first):
        steps += [("F", first + i), ("B", i)]
    steps += [("B", i) for i in range(m - first, m)]
    for name, i in steps:
        if name == "F":
            direction(name, i, 1.0, stage - 1, stage + 1)
        else:
            direction(name, i, 2.0, stage + 1, stage - 1)
    if keys["data"] > 1:
        size = 24.0 * layers * keys["hidden"] ** 2 / t
        gradients = Collective(CollectiveKind.ALL_REDUCE, size, "replicas")
        last = (graph.add("gradients", gradients, last),)
    compute("optimizer", 1000.0 * layers * keys["hidden"] ** 2 / t + 3e6)
    return graph.build()


def draw(n: int, seed: int, **choices: tuple[int, ...]) -> list[Keys]:
    """``n`` different configurations; layers are those of a stage times the stages."""
    usual = {
        "layers": (2, 3, 5),
        "hidden": (512, 1024, 1536, 2048),
        "sequence": (256, 512, 1024, 2048),
        "micro_batches": (5, 6, 8),
        "tensor": (2, 4),
        "pipeline": (1, 3, 4),
        "data": (2, 4),
    } | choices
    rng = random.Random(seed)
    found: dict[tuple[int, ...], Keys] = {}
    while len(found) < n:
        keys = {name: rng.choice(values) for name, values in usual.items()}
        keys["layers"] *= keys["pipeline"]
        found[tuple(keys.values())] = keys
    return list(found.values())


def jobs(configurations: list[Keys], noise: float = 0.0) -> list[Job]:
    numbers = itertools.count()
    return [
        Job.from_workload(pipelined(keys, noise, seed=i), (n_ranks(keys),), keys, f"job{i}")
        for keys, i in zip(configurations, numbers, strict=False)
    ]
