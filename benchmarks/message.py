"""The network kernel: messages/s against its witness on SimPy, and against the phase kernel."""

from benchmarks.study import best_cpu_seconds
from engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    GraphBuilder,
    Program,
    Topology,
    Workload,
    lower,
    place,
    run_one,
)
from engine.kernels.message import lower_by_rank, run_messages, run_on_simpy


def main() -> None:
    """Print the speed of one core on an all-reduce of 1 GiB in 16 chunks on a 4 x 4 x 4 torus."""
    program = torus_all_reduce()
    ranks = lower_by_rank(program.workload, program.cluster)
    runs = []
    by_message = best_cpu_seconds(lambda: runs.append(run_messages(ranks)), repeats=5)
    on_simpy = best_cpu_seconds(lambda: runs.append(run_on_simpy(ranks)), repeats=1)
    by_phase = best_cpu_seconds(lambda: run_one(program))
    n = runs[-1].n_messages
    print(f"64-NPU 3-D torus, all-reduce in 16 chunks: {n:,} messages")
    print(f"network kernel: {n / by_message:,.0f} messages/s, {by_message * 1e3:.1f} ms")
    print(f"on SimPy: {n / on_simpy:,.0f} messages/s; ratio {on_simpy / by_message:,.0f}x")
    print(f"phase kernel: {by_phase * 1e6:,.0f} us; ratio {by_message / by_phase:,.0f}x")
    same = {int(run.measures.time[0]) for run in (*runs, run_one(program))}
    print(f"all end at the same picosecond: {len(same) == 1} ({min(same)} ps)")


def torus_all_reduce() -> Program:
    """An all-reduce over the whole of Ring(4)_Ring(4)_Ring(4)."""
    topology = Topology.build(
        "Ring(4)_Ring(4)_Ring(4)", bandwidth=[100e9] * 3, latency=[500_000] * 3
    )
    graph = GraphBuilder()
    graph.add("gradients", Collective(CollectiveKind.ALL_REDUCE, 2**30, "data"))
    workload = Workload((graph.build(),), place({"data": "rest"}, topology.sizes))
    return lower(workload, Cluster(topology, collectives=CollectiveModel(chunks=16)))
