"""A run of ASTRA-sim's simulation: every rank's cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.collector import no_collector
from engine.errors import DimsweepError
from engine.formats.astra_sim.chunks import Planner
from engine.formats.astra_sim.clock import Clock
from engine.formats.astra_sim.delays import Aware, Unaware, ways
from engine.formats.astra_sim.fold import Folding, fold
from engine.formats.astra_sim.greedy import FLEX, Greedy
from engine.formats.astra_sim.inputs import Inputs
from engine.formats.astra_sim.memory import Memory
from engine.formats.astra_sim.nodes import Node
from engine.formats.astra_sim.npu import Npu, Wires
from engine.formats.astra_sim.profile import Profiles, TieError
from engine.formats.astra_sim.workload import Rank


@dataclass(frozen=True)
class Cycles:
    """Of each rank: when it finished (ns), and that minus what its GPU computed."""

    cycles: tuple[int, ...]
    exposed: tuple[int, ...]
    gpu: tuple[int, ...]  # ns in which the GPU computed
    communication: tuple[int, ...]  # ns in which anything was communicated
    n_kinds: int  # of ranks, one of each was simulated
    by_phase: bool  # phases of alike ranks as one event each, or every message

    @property
    def how(self) -> str:
        """What was simulated."""
        ranks = "one rank of each kind" if self.n_kinds < len(self.cycles) else "every rank"
        return f"{ranks}, {'phase by phase' if self.by_phase else 'message by message'}"


def simulate(inputs: Inputs, traces: Sequence[Sequence[Node]], *, folded: bool = True) -> Cycles:
    """Simulate ``traces``, one a rank; when ``folded``, one rank of each kind.

    Raises :class:`DimsweepError` when ranks wait for one another for ever, naming them.
    """
    network = inputs.network
    if len(traces) != network.n_npus:
        raise DimsweepError(
            f"{len(traces)} traces for {network.n_npus} NPUs", where="workload-configuration"
        )
    folding = fold(inputs, traces, enabled=folded)
    options = inputs.options
    if folded and not (options.aware or options.rendezvous):
        try:
            return _run(inputs, traces, folding, Profiles(ways(network), folding.kind))
        except TieError:
            pass  # the order of two events depends on their messages
    return _run(inputs, traces, folding, None)


def _run(
    inputs: Inputs,
    traces: Sequence[Sequence[Node]],
    folding: Folding,
    profiles: Profiles | None,
) -> Cycles:
    clock = Clock()
    network, options = inputs.network, inputs.options
    carrier = Aware(clock, network) if options.aware else Unaware(clock, network)
    wires = Wires(carrier, folding.kind, rendezvous=options.rendezvous)
    memory = Memory(inputs.memory)
    greedy = Greedy(clock, network, flex=inputs.system.inter_dimension == FLEX)
    ranks = []
    for rank in folding.first:
        planner = Planner(rank, inputs.system, network, options.queues_per_dim, greedy)
        names = folding.group_names[rank]
        npu = Npu(rank, clock, wires, inputs, planner, names, profiles)
        ranks.append(Rank(npu, traces[rank], inputs, memory))
    with no_collector():
        for rank_ in ranks:
            rank_.fire()
        clock.run()
    stuck = [rank_ for rank_ in ranks if rank_.left]
    if stuck:
        raise _deadlock(stuck, len(ranks))
    everyone = [ranks[kind] for kind in folding.kind]
    return Cycles(
        cycles=tuple(rank_.finished for rank_ in everyone),
        exposed=tuple(rank_.finished - rank_.compute for rank_ in everyone),
        gpu=tuple(rank_.compute for rank_ in everyone),
        communication=tuple(rank_.communication for rank_ in everyone),
        n_kinds=len(ranks),
        by_phase=profiles is not None,
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
