"""dimsweep astra against the CPU time that ASTRA-sim itself was recorded to take."""

from pathlib import Path

import numpy as np

from benchmarks.study import best_cpu_seconds, recorded
from dimsweep.engine import Cluster, run_batch
from dimsweep.engine.extensions.astra_sim import lower_astra, lower_astra_for_sweep
from dimsweep.engine.formats.astra_sim import topology_of
from dimsweep.sweeper.extensions.astra_sim.verify import Case, find_cases, read_case

POINTS = 256
CASES = (
    "B/Conv-3D_all_reduce_1GB_c16_baseline_LIFO",
    "B/Conv-3D_all_reduce_1GB_c64_roundRobin_LIFO",
    "B/Conv-4D_all_reduce_1GB_c64_baseline_LIFO",
    "C/ScaleConv3D-64_all_reduce_1GB_c64_baseline_LIFO",
    "C/ScaleConv3D-128_all_reduce_1GB_c64_baseline_LIFO",
    "C/ScaleConv3D-2048_all_reduce_1GB_c64_baseline_LIFO",
    "C/ScaleConv3D-4096_all_reduce_1GB_c64_baseline_LIFO",
    "C/Async8-1024",
    "C/Async8-4096",
    "D/gpt3_175b_64_tp8_dp8__R4F4S4_c4",
    "D/gpt3_175b_64_tp8_dp4_pp2__R4F4S4_c4",
)


def main() -> None:
    """Print what each case takes, and how many times less that is than recorded.

    ``a point of a sweep``: one of many in one compiled call.  ``run``: lowered before, with the
    cycles of every rank.
    """
    if (folder := recorded("astra", "the recorded runs")) is None:
        return
    lower_astra(*read_case(_case(folder / CASES[0]))).run()  # compiles
    for name in CASES:
        _report(_case(folder / name))


def _case(folder: Path) -> Case:
    (case,) = find_cases([folder])
    return case


def _report(case: Case) -> None:
    inputs, traces = read_case(case)
    points = lower_astra_for_sweep(inputs, traces, Cluster(topology_of(inputs.network)))
    shape = points.structure.shape
    splits = points.bandwidth * np.random.default_rng(0).uniform(0.5, 2.0, (POINTS, shape.n_dims))
    point = best_cpu_seconds(lambda: run_batch(points, splits), repeats=3) / POINTS
    program = lower_astra(inputs, traces)
    recorded = float(case.result.get("cpu_s_min") or case.result["wall_s"])
    run = best_cpu_seconds(program.run)
    lowering = best_cpu_seconds(lambda: lower_astra(inputs, traces), repeats=3)
    reading = best_cpu_seconds(lambda: read_case(case), repeats=2)
    figures = {
        "a point of a sweep": point,
        "run": run,
        "lower and run": lowering + run,
        "read, lower and run": reading + lowering + run,
    }
    print(f"{case.folder.name}: {inputs.network.n_npus:,} NPUs, recorded {recorded:.2f} s")
    print(
        "   ",
        "; ".join(
            f"{name} {seconds * 1e3:.3g} ms ({recorded / seconds:,.0f}x)"
            for name, seconds in figures.items()
        ),
    )
