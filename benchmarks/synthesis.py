"""Traces that nobody has: how near synthesised jobs are to real ones that were not learnt from."""

import math
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dimsweep.engine import (
    Cluster,
    Collective,
    Compute,
    Npu,
    Operator,
    Send,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.extensions.synthesis import (
    Job,
    TraceModel,
    learn,
    membership,
    obfuscate,
    synthesise,
)
from dimsweep.engine.formats.chakra import write_chakra_workload
from dimsweep.engine.workload.graph import Work
from dimsweep.engine.workload.models import Transformer
from dimsweep.engine.workload.plan import DeviceMesh, ParallelPlan, training

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
NOISE = 0.03  # of durations that are learnt from


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


def traced(keys: Keys, noise: float = 0.0, seed: int = 0) -> Job:
    """The job as its traces say it: durations in the place of kernels, each off by ``noise`` (the
    spread of its logarithm)."""
    workload, npu = transformer(keys), cluster_of(ranks(keys)).npu
    rng = np.random.default_rng(seed)

    def seen(work: Work) -> Work:
        if not isinstance(work, Compute):
            return work
        return Compute(duration=round(npu.duration(work) * math.exp(noise * rng.standard_normal())))

    graphs = tuple(
        tuple(Operator(each.name, seen(each.work), each.after) for each in graph)
        for graph in workload.graphs
    )
    used = {getattr(each.work, "group", "") for graph in graphs for each in graph}
    stage_of = np.arange(ranks(keys)) // keys["tensor"] % keys["pipeline"]
    job = Workload(
        graphs,
        {name: group for name, group in workload.groups.items() if name in used},
        stage_of if keys["pipeline"] > 1 else None,
    )
    return Job.from_workload(job, (ranks(keys),), keys, str(keys))


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


def main() -> None:
    """Learns from 200 configurations, and meets 60 others within their ranges and 20 beyond."""
    everything = draw(260, 0)
    learnt, held_out = everything[:200], everything[200:]
    begun = time.process_time()
    jobs = [traced(keys, NOISE, seed) for seed, keys in enumerate(learnt)]
    made = time.process_time()
    model = learn(jobs)
    print(f"{len(jobs)} jobs (made in {made - begun:.0f} s of CPU, durations off by {NOISE:.0%}),")
    learning = time.process_time() - made
    print(f"learnt in {learning:.0f} s: {len(model.parts)} parts", flush=True)
    far = draw(20, 1, layers=(8, 12), data=(8, 16), pipeline=(2, 4, 8))
    for name, asked in (("interpolated", held_out), ("extrapolated", far)):
        errors = [_error(model, keys) for keys in asked]
        plain = [_nearest_error(learnt, keys) for keys in asked]
        print(f"{name}, {len(asked)} jobs: simulated time off by {_spread(errors)}")
        print(f"  scaling the nearest job: {_spread(plain)}", flush=True)
    print(f"distributions, {len(held_out)} jobs: " + _distributions(model, held_out), flush=True)
    hidden = [_hidden_error(keys) for keys in held_out[:40]]
    print(f"obfuscated with privacy 0.05, {len(hidden)} jobs: off by {_spread(hidden)}", flush=True)
    others = [traced(keys, NOISE, 1000 + seed) for seed, keys in enumerate(held_out)]
    told = membership(model, jobs[:60], others)
    print(f"who of two was learnt from: guessed right in {told:.0%} of pairs (50 % by chance)")
    _large(model)


def _error(model: TraceModel, keys: Keys) -> float:
    made = synthesise(model, keys)
    cluster = cluster_of(made.n_ranks)
    return simulate(made.workload, cluster).time / simulate(transformer(keys), cluster).time - 1


def _nearest_error(learnt: Sequence[Keys], keys: Keys) -> float:
    """The plain way: the nearest known job (by the logarithms of its keys), its time scaled by the
    arithmetic of a rank."""

    def work(each: Keys) -> float:
        tokens = each["micro_batches"] * each["micro_batch"] * each["sequence"]
        layers = each["layers"] / each["pipeline"]
        return tokens * layers * each["hidden"] ** 2 / each["tensor"]

    def far(each: Keys) -> float:
        return sum(math.log(each[name] / keys[name]) ** 2 for name in KEYS)

    nearest = min(learnt, key=far)
    times = [simulate(transformer(each), cluster_of(ranks(each))).time for each in (nearest, keys)]
    return times[0] * work(keys) / work(nearest) / times[1] - 1


def _hidden_error(keys: Keys) -> float:
    workload, cluster = transformer(keys), cluster_of(ranks(keys))
    timed = tuple(
        tuple(Operator(each.name, _timed(each.work, cluster.npu), each.after) for each in graph)
        for graph in workload.graphs
    )
    plain = Workload(timed, workload.groups, stages=workload.stages)
    hidden = obfuscate(plain, privacy=0.05, seed=1)
    return simulate(hidden, cluster).time / simulate(plain, cluster).time - 1


def _timed(work: Work, npu: Npu) -> Work:
    return Compute(duration=npu.duration(work)) if isinstance(work, Compute) else work


def _spread(errors: Sequence[float]) -> str:
    sizes = [abs(error) for error in errors]
    return f"{statistics.mean(sizes):.1%} in the mean, {max(sizes):.1%} at most"


def _distributions(model: TraceModel, held_out: Sequence[Keys]) -> str:
    """Distances between synthesised and real jobs: of the operators' kinds (half the sum of the
    differences of their shares), of sizes of communication (Kolmogorov and Smirnov's distance), of
    what operators wait for, and of the longest chain of operators."""
    kinds, sizes, degrees, chains = [], [], [], []
    for keys in held_out:
        mine, theirs = synthesise(model, keys).workload, transformer(keys)
        for one, other in zip(mine.graphs, theirs.graphs, strict=True):
            kinds.append(_differ([type(o.work) for o in one], [type(o.work) for o in other]))
            degrees.append(_differ([len(o.after) for o in one], [len(o.after) for o in other]))
            sizes.append(_kolmogorov(_sizes(one), _sizes(other)))
            chains.append(abs(_chain(one) / _chain(other) - 1))
    named = {"kinds": kinds, "sizes": sizes, "degrees": degrees, "longest chain": chains}
    return ", ".join(f"{name} {statistics.mean(values):.3f}" for name, values in named.items())


def _sizes(graph: Sequence[Operator]) -> list[float]:
    return [each.work.n_bytes for each in graph if isinstance(each.work, (Collective, Send))]


def _differ(one: Sequence[object], other: Sequence[object]) -> float:
    a, b = Counter(one), Counter(other)
    return sum(abs(a[x] / len(one) - b[x] / len(other)) for x in a | b) / 2


def _kolmogorov(one: Sequence[float], other: Sequence[float]) -> float:
    a, b = np.sort(one), np.sort(other)
    # A size that is off by less than a millionth is the same one.
    at = np.concatenate([a, b]) * (1 + 1e-6)
    mine, theirs = (np.searchsorted(each, at, side="right") / len(each) for each in (a, b))
    return float(np.abs(mine - theirs).max())


def _chain(graph: Sequence[Operator]) -> int:
    length: list[int] = []
    for operator in graph:
        length.append(1 + max((length[before] for before in operator.after), default=0))
    return max(length)


def _large(model: TraceModel) -> None:
    """The traces of 1,024 ranks."""
    keys = {"layers": 32, "hidden": 4096, "sequence": 2048, "micro_batch": 1, "micro_batches": 8}
    keys |= {"tensor": 8, "pipeline": 8, "data": 16}
    with tempfile.TemporaryDirectory() as folder:
        cpu, wall = time.process_time(), time.perf_counter()
        made = synthesise(model, keys)
        write_chakra_workload(made.workload, cluster_of(made.n_ranks), Path(folder) / "w")
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
    print(f"{made.n_ranks:,} ranks: {cpu:.1f} s of CPU, {wall:.1f} s, {size:.0f} MB")
