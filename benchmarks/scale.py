"""An all-reduce among 4,096 to 1,048,576 NPUs: alike ranks are folded, so the cost stays flat."""

from benchmarks.study import best_cpu_seconds
from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    GraphBuilder,
    Topology,
    Workload,
    place,
    simulate,
)

SHAPES = {
    4_096: "Ring(4)_FullyConnected(8)_Ring(4)_Switch(32)",
    65_536: "Ring(4)_FullyConnected(8)_Ring(4)_Switch(512)",
    1_048_576: "Ring(4)_FullyConnected(8)_Ring(4)_Switch(8192)",
}


def main() -> None:
    """Print milliseconds from workload to result, and the ratio to 4,096 NPUs."""
    base = None
    for n, shape in SHAPES.items():
        topology = Topology.build(shape, bandwidth=[125e9] * 4, latency=[500_000] * 4)
        builder = GraphBuilder()
        builder.add("all-reduce", Collective(CollectiveKind.ALL_REDUCE, 2**30, "data"))
        workload = Workload((builder.build(),), place({"data": "rest"}, topology.sizes))
        cluster = Cluster(topology)
        seconds = best_cpu_seconds(lambda w=workload, c=cluster: simulate(w, c))
        base = base or seconds
        print(f"{n:>9,} NPUs: {seconds * 1e3:.2f} ms ({seconds / base:.2f}x of 4,096)")
