"""A real model under a real plan: lowering at a thousand to a million NPUs, and a sweep over it.

GPT-3 175B: tensor 8, pipeline 8 interleaved three times, the rest data parallel.
"""

import dataclasses
import time

import numpy as np

from benchmarks.study import best_cpu_seconds, peak_megabytes
from dimsweep.engine import Cluster, CollectiveModel, Npu, Program, Runner, Topology, lower
from dimsweep.engine.lower.program import Floats, Lookahead
from dimsweep.engine.workload.models import Recompute, Transformer
from dimsweep.engine.workload.plan import DeviceMesh, ParallelPlan, training

MODEL = Transformer(12288, 96, 96, 2048, vocabulary=51200)
NPU = Npu(312e12, 2039e9, efficiency=0.6)
POINTS = 32


def main() -> None:
    """Print seconds and memory of lowering by number of NPUs, and points a second."""
    first = 0.0
    for n in (1024, 16384, 1048576):
        program, seconds = _lowered(n)
        first = first or seconds
        print(f"           {seconds / first:.2f} of the time for 1,024 NPUs")
        _sweep(program)
    _lowered(1024, micro_batches=2048)


def _lowered(n: int, micro_batches: int = 64) -> tuple[Program, float]:
    start = time.process_time()
    program = _program(n, micro_batches)
    seconds = time.process_time() - start
    s = program.structure
    print(
        f"{n:>9,} NPUs, {micro_batches:,} micro-batches: {len(s.nodes):,} operators of "
        f"{s.shape.n_classes} classes, graph and lowering {seconds:.2f} s, "
        f"{peak_megabytes():,.0f} MB at most so far"
    )
    return program, seconds


def _program(n: int, micro_batches: int) -> Program:
    sizes = (8, 8, n // 64)
    topology = Topology.build(
        f"Switch(8)_Switch(8)_Switch({n // 64})",
        bandwidth=[210e9, 50e9, 22.5e9],
        latency=[10**6, 10**6, 2 * 10**6],
    )
    mesh = DeviceMesh.place({"tensor": 8, "pipeline": 8, "data": "rest"}, sizes)
    plan = ParallelPlan(
        batch=micro_batches * mesh.degree("data"),
        interleave=3,
        sequence_parallel=True,
        recompute=Recompute.SELECTIVE,
    )
    model = CollectiveModel(chunks=16, chunks_on_one_dimension=1)
    return lower(training(MODEL, plan, mesh), Cluster(topology, NPU, model))


def _sweep(program: Program) -> None:
    points = program.bandwidth * np.random.default_rng(0).uniform(0.5, 2.0, (POINTS, 3))
    rate, plain = _rate(program, points), _rate(_in_step(program), points)
    per_node = 1e9 / rate / len(program.structure.nodes)
    print(
        f"           a sweep over the bandwidths: {rate:.1f} points/s on one core, "
        f"{per_node:.0f} ns an operator; {rate / plain:.2f}x the kernel with all classes in step"
    )


def _rate(program: Program, points: Floats) -> float:
    runner = Runner(program)
    runner.batch(program.bandwidth)  # compiled, and in memory
    return POINTS / best_cpu_seconds(lambda: runner.batch(points), repeats=3)


def _in_step(program: Program) -> Program:
    """The same program, in which no class ever goes on by itself."""
    nodes = program.structure.nodes.copy()
    nodes["lookahead"] = Lookahead.NONE
    return dataclasses.replace(program, structure=program.structure._replace(nodes=nodes))
