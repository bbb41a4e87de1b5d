"""A run of ASTRA-sim's simulation in plain Python, which does all that there is."""

from collections.abc import Sequence

from dimsweep.engine.collector import no_collector
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.chunks import Planner
from dimsweep.engine.extensions.astra_sim.clock import Clock
from dimsweep.engine.extensions.astra_sim.cycles import Cycles, Times
from dimsweep.engine.extensions.astra_sim.delays import Aware, Unaware
from dimsweep.engine.extensions.astra_sim.fold import Folding
from dimsweep.engine.extensions.astra_sim.greedy import FLEX, Greedy
from dimsweep.engine.extensions.astra_sim.memory import Memory
from dimsweep.engine.extensions.astra_sim.npu import Npu, Wires
from dimsweep.engine.extensions.astra_sim.workload import Rank
from dimsweep.engine.formats.astra_sim.inputs import Inputs
from dimsweep.engine.formats.chakra.node import Node


def interpret(inputs: Inputs, traces: Sequence[Sequence[Node]], folding: Folding) -> Cycles:
    """Simulate one rank of each kind, message by message.

    Raises :class:`DimsweepError` when ranks wait for one another for ever, naming them.
    """
    clock = Clock()
    network, options = inputs.network, inputs.options
    carrier = Aware(clock, network) if options.aware else Unaware(clock, network)
    wires = Wires(carrier, folding.kind, rendezvous=options.rendezvous)
    memory = Memory(inputs.memory)
    greedy = Greedy(clock, network, flex=inputs.system.inter_dimension == FLEX)
    ranks = []
    for rank in folding.first:
        planner = Planner(rank, inputs.system, network, options.queues_per_dim, greedy)
        npu = Npu(rank, clock, wires, inputs, planner, folding.group_names[rank])
        ranks.append(Rank(npu, traces[rank], inputs, memory))
    with no_collector():
        for rank_ in ranks:
            rank_.fire()
        clock.run()
    stuck = [rank_ for rank_ in ranks if rank_.left]
    if stuck:
        raise _deadlock(stuck, len(ranks))
    return Cycles(
        kind=folding.kind,
        of_kind=tuple(
            Times(rank_.finished, rank_.compute, rank_.communication, rank_.hidden)
            for rank_ in ranks
        ),
        compiled=False,
    )


def _deadlock(stuck: Sequence[Rank], n: int) -> DimsweepError:
    lines = [
        f"rank {rank.npu.rank}: {rank.left} nodes left, at {', '.join(rank.waiting()[:3])}"
        for rank in stuck[:8]
    ]
    more = f"\n  ... and {len(stuck) - 8} more ranks" if len(stuck) > 8 else ""
    return DimsweepError(
        f"deadlock: {len(stuck)} of {n} ranks cannot finish\n  " + "\n  ".join(lines) + more,
        where="workload-configuration",
        hint="an NPU runs one collective, send or memory access at a time; do all members of a "
        "group issue their collectives in the same order?",
    )
