"""The network kernel: messages/s against SimPy and the phase kernel, folded, and in flows."""

from functools import partial
from time import process_time

import numpy as np

from benchmarks.study import best_cpu_seconds
from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    GraphBuilder,
    NetworkModel,
    Program,
    Topology,
    Workload,
    lower,
    place,
    run_one,
)
from dimsweep.engine.extensions.wafer import MeshWafer
from dimsweep.engine.kernels.messages import lower_by_rank
from dimsweep.engine.kernels.network import MessageRunner
from dimsweep.engine.kernels.reference import run_on_simpy
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.network import Clos, Routing


def main() -> None:
    """Print the speed of one core on an all-reduce of 1 GiB in 16 chunks on a 4 x 4 x 4 torus."""
    program = torus_all_reduce()
    ranks = lower_by_rank(program.workload, program.cluster)
    runner, runs = MessageRunner(ranks), []
    by_message = best_cpu_seconds(lambda: runs.append(runner.run(fold=False)), repeats=5)
    on_simpy = best_cpu_seconds(lambda: runs.append(run_on_simpy(ranks)), repeats=1)
    by_phase = best_cpu_seconds(lambda: run_one(program))
    n = runs[-1].n_messages
    print(f"64-NPU 3-D torus, all-reduce in 16 chunks: {n:,} messages")
    print(f"network kernel: {n / by_message:,.0f} messages/s, {by_message * 1e3:.1f} ms")
    print(f"on SimPy: {n / on_simpy:,.0f} messages/s; ratio {on_simpy / by_message:,.0f}x")
    print(f"phase kernel: {by_phase * 1e6:,.0f} us; ratio {by_message / by_phase:,.0f}x")
    same = {int(run.measures.time[0]) for run in runs}
    same.add(int(run_one(program).measures.time[0]))
    print(f"all end at the same picosecond: {len(same) == 1} ({min(same)} ps)")
    folded()
    suspended()
    large_clos()


def suspended() -> None:
    """Print what it takes where tensor parallelism suspends the messages of all else."""
    graph = GraphBuilder()
    for group, size in (("tensor", 3e6), ("data", 3e7)):
        graph.add(group, Collective(CollectiveKind.ALL_REDUCE, size, group, stream=group))
    topology = Topology.build("Switch(4)_Switch(3)", bandwidth=[3e12] * 2, latency=[0] * 2)
    network = NetworkModel(interconnect=MeshWafer(4, 3, preempts=True), packet=4096.0)
    model = CollectiveModel(chunks=40)
    workload = Workload((graph.build(),), place({"tensor": 4, "data": 3}, topology.sizes))
    program = lower_by_rank(workload, Cluster(topology, collectives=model, network=network))
    runner = MessageRunner(program)
    runs = [runner.run()]
    compiled = best_cpu_seconds(lambda: runs.append(runner.run()), repeats=5)
    on_simpy = best_cpu_seconds(lambda: runs.append(run_on_simpy(program)), repeats=1)
    same = len({int(run.measures.time[0]) for run in runs}) == 1
    print(
        f"4 x 3 mesh of a wafer that suspends messages, {runs[0].n_messages:,} of them: "
        f"{compiled * 1e3:.1f} ms, on SimPy {on_simpy * 1e3:.0f} ms; "
        f"ratio {on_simpy / compiled:,.0f}x; same picosecond: {same}"
    )


def folded() -> None:
    """Print what one rank takes in the place of all, in the same all-reduce on larger networks."""
    for shape in ("Ring(4)_Ring(4)_Ring(4)", "Ring(8)_Ring(8)_Ring(8)", "Ring(256)"):
        program = torus_all_reduce(shape)
        ranks = lower_by_rank(program.workload, program.cluster)
        seconds, runs, runner = {}, [], MessageRunner(ranks)
        for fold in (True, False):
            simulate = partial(runner.run, fold=fold)
            runs.append(simulate())
            seconds[fold] = best_cpu_seconds(simulate, repeats=3)
        ends = {int(run.measures.time[0]) for run in runs}
        print(
            f"{shape}, {runs[0].n_messages:,} messages: {runs[0].n_simulated} rank "
            f"simulated in {seconds[True] * 1e3:.1f} ms, all of them in "
            f"{seconds[False] * 1e3:.1f} ms; ratio {seconds[False] / seconds[True]:.1f}x; "
            f"same picosecond: {len(ends) == 1}"
        )


def large_clos() -> None:
    """Print what an all-reduce of 1 GiB over 1,024 NPUs takes on a Clos of three levels, 2:1."""
    for chunks, fidelity in ((16, Fidelity.MESSAGE), (1, Fidelity.FLOW), (16, Fidelity.FLOW)):
        start = process_time()
        runner = MessageRunner(lower_by_rank(*clos_all_reduce(chunks)), fidelity)
        run = runner.run()
        first = process_time() - start
        again = best_cpu_seconds(partial(runner.run, np.array([40e9])), repeats=3)
        print(
            f"1,024 NPUs on a Clos, all-reduce of 1 GiB, {chunks} chunks, fidelity={fidelity}: "
            f"{run.n_messages:,} messages; from workload to result {first:.2f} s, at another "
            f"bandwidth {again:.2f} s"
        )


def clos_all_reduce(chunks: int) -> tuple[Workload, Cluster]:
    """An all-reduce of 1 GiB over 1,024 NPUs on a Clos of three levels, 2:1."""
    topology = Topology.build("Switch(1024)", bandwidth=[50e9], latency=[500_000])
    network = NetworkModel(
        fabrics=(Clos(3, leaf=16, pod=8, oversubscription=2.0),), routing=Routing.ECMP
    )
    model = CollectiveModel(chunks=chunks)
    return all_reduce(topology), Cluster(topology, collectives=model, network=network)


def torus_all_reduce(shape: str = "Ring(4)_Ring(4)_Ring(4)") -> Program:
    """An all-reduce over the whole of a torus."""
    n_dims = len(shape.split("_"))
    topology = Topology.build(shape, bandwidth=[100e9] * n_dims, latency=[500_000] * n_dims)
    return lower(all_reduce(topology), Cluster(topology, collectives=CollectiveModel(chunks=16)))


def all_reduce(topology: Topology) -> Workload:
    """One of 1 GiB over all NPUs."""
    graph = GraphBuilder()
    graph.add("gradients", Collective(CollectiveKind.ALL_REDUCE, 2**30, "data"))
    return Workload((graph.build(),), place({"data": "rest"}, topology.sizes))
