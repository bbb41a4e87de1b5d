"""The message kernel: messages/s, and what a 64-NPU torus costs against the phase kernel."""

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
from engine.kernels.message import lower_by_rank, run_messages


def main() -> None:
    """Print the speed of one core on an all-reduce of 1 GiB in 16 chunks on a 4 x 4 x 4 torus."""
    program = torus_all_reduce()
    ranks = lower_by_rank(program.workload, program.cluster)
    runs = []
    by_message = best_cpu_seconds(lambda: runs.append(run_messages(ranks)), repeats=5)
    by_phase = best_cpu_seconds(lambda: run_one(program))
    n_messages = runs[-1].n_messages
    print(f"64-NPU 3-D torus, all-reduce in 16 chunks: {n_messages:,} messages")
    print(f"message kernel: {n_messages / by_message:,.0f} messages/s, {by_message:.2f} s")
    print(f"phase kernel: {by_phase * 1e6:,.0f} us; ratio {by_message / by_phase:,.0f}x")
    same = int(runs[-1].measures.time[0]), int(run_one(program).measures.time[0])
    print(f"both end at the same picosecond: {same[0] == same[1]} ({same[0]} ps)")


def torus_all_reduce() -> Program:
    """An all-reduce over the whole of Ring(4)_Ring(4)_Ring(4)."""
    topology = Topology.build(
        "Ring(4)_Ring(4)_Ring(4)", bandwidth=[100e9] * 3, latency=[500_000] * 3
    )
    graph = GraphBuilder()
    graph.add("gradients", Collective(CollectiveKind.ALL_REDUCE, 2**30, "data"))
    workload = Workload((graph.build(),), place({"data": "rest"}, topology.sizes))
    return lower(workload, Cluster(topology, collectives=CollectiveModel(chunks=16)))
