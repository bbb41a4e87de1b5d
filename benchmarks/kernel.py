"""The phase kernel: points/s, phases/s, and its ratio to the same loop in SimPy."""

from collections.abc import Generator
from typing import Any

import simpy

from benchmarks.study import best_cpu_seconds, main_program, n_phases, random_splits
from dimsweep.engine import Program, Runner, run_one

POINTS = 512


def main() -> None:
    """Print the speed of one core on the main study with 64 chunks."""
    program = main_program("collective.chunks=64")
    splits = random_splits(POINTS)
    runner = Runner(program)
    seconds = best_cpu_seconds(lambda: runner.batch(splits)) / POINTS
    phases = n_phases(program)
    print(f"main study, 64 chunks: {1 / seconds:,.0f} points/s a core")
    print(f"phase kernel: {phases / seconds:,.0f} phases/s ({phases} phases a point)")
    ends: list[int] = []
    in_simpy = best_cpu_seconds(lambda: ends.append(simpy_iteration(program)), repeats=3)
    print(f"SimPy, same loop: {phases / in_simpy:,.0f} phases/s")
    print(f"ratio to SimPy: {in_simpy / seconds:,.0f}x")
    ours = int(run_one(program).measures.time[0])
    print(f"both end at the same picosecond: {ends[-1] == ours} ({ours} ps)")


def simpy_iteration(program: Program) -> int:
    """The iteration as SimPy processes: a resource a dimension, a process a chunk."""
    run = run_one(program)
    s, phases = program.structure, run.times.phases
    env = simpy.Environment()
    ports = [simpy.Resource(env) for _ in range(s.shape.n_dims)]

    def chunk(span: Any) -> Generator[Any, Any, None]:
        for phase in phases[span["start"] : span["start"] + span["length"]]:
            with ports[phase["dim"]].request() as turn:
                yield turn
                yield env.timeout(int(phase["hold"]))
        yield env.timeout(int(phase["late"]))

    def iteration() -> Generator[Any, Any, None]:
        for node in s.nodes:
            if node["flow"] < 0:
                yield env.timeout(int(node["duration"]))
                continue
            form = s.flows[node["flow"]]["form"]
            span, chunks = run.times.spans[form], s.forms[form]["chunks"]
            yield env.all_of([env.process(chunk(span)) for _ in range(chunks)])

    env.process(iteration())
    env.run()
    return int(env.now)
