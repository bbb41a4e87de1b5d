"""A lowered run: simulated again and again, and at other bandwidths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from engine.errors import DimsweepError
from engine.formats.astra_sim.inputs import Inputs
from engine.formats.chakra.node import Node
from engine.kernels.jit import is_cached
from engine.replicas.astra_sim.agenda import FINISHED
from engine.replicas.astra_sim.alone import busy_ticks
from engine.replicas.astra_sim.cycles import Cycles, Times
from engine.replicas.astra_sim.delays import ways
from engine.replicas.astra_sim.fold import Folding, fold, keeps_kinds
from engine.replicas.astra_sim.greedy import GREEDY
from engine.replicas.astra_sim.interpret import interpret
from engine.replicas.astra_sim.lower import Lowered, lower_tables
from engine.replicas.astra_sim.npu import costs_of
from engine.replicas.astra_sim.plans import NotLoweredError
from engine.replicas.astra_sim.profile import Profiles
from engine.replicas.astra_sim.run_nodes import empty_state, run_nodes
from engine.replicas.astra_sim.run_plans import empty_queues, price, run_plans
from engine.replicas.astra_sim.tables import Floats, Longs


@dataclass(frozen=True)
class Program:
    """Inputs and traces, folded and, where the compiled kernel can run them, lowered.

    ``interpreted`` says why it cannot, or nothing.  :meth:`run` always gives the same answer as
    the plain Python of :func:`interpret`, which it falls back to.
    """

    inputs: Inputs
    traces: Sequence[Sequence[Node]]
    folding: Folding
    folded: bool
    lowered: Lowered | None
    interpreted: str
    _answers: Longs  # durations (ns) of the recipes that Profiles answer
    _alone: dict[int, Longs | None] = field(default_factory=dict, compare=False)

    def run(self) -> Cycles:
        """Simulate.

        Raises :class:`DimsweepError` when ranks wait for one another for ever, naming them.
        """
        result = None if self.lowered is None else self._run_compiled(self.lowered)
        if result is not None:
            return result
        options, bus = self.inputs.options, self.inputs.system.bus
        by_phase = self.folded and not (options.aware or options.rendezvous or bus)
        return interpret(self.inputs, self.traces, self.folding, by_phase=by_phase)

    def rebind(self, gigabytes: Sequence[float], latency: Sequence[float]) -> Program:
        """The same at other bandwidths, as in ``network.yml``: GB/s of 2^30 bytes of a link, and
        ns of a hop, for each dimension.

        Raises :class:`DimsweepError` for another number of them, or such as are not positive.
        """
        old = self.inputs.network
        right = {
            "bandwidth": len(gigabytes) == len(old.sizes) and all(b > 0 for b in gigabytes),
            "latency": len(latency) == len(old.sizes) and all(x >= 0 for x in latency),
        }
        for name, ok in right.items():
            if not ok:
                raise DimsweepError(
                    f"{len(old.sizes)} numbers are wanted, bandwidths above 0, latencies from 0",
                    where=name,
                )
        network = replace(
            old, gigabytes=tuple(map(float, gigabytes)), latency=tuple(map(float, latency))
        )
        inputs = replace(self.inputs, network=network)
        themis = inputs.system.inter_dimension in GREEDY  # whose orders depend on bandwidths
        if self.lowered is None or themis or not keeps_kinds(old, network):
            return lower(inputs, self.traces, folded=self.folded)
        answers = _answers(inputs, self.folding, self.lowered)
        return replace(self, inputs=inputs, _answers=answers, _alone={})

    def _run_compiled(self, lowered: Lowered) -> Cycles | None:
        """Nothing if it must be interpreted."""
        tables, network = lowered.tables, self.inputs.network
        durations = self._answers.copy()
        latency, bandwidth = _array(network.latency), _array(network.bandwidth)
        if price(tables, latency, bandwidth, durations) != FINISHED:
            return None
        ticks = np.empty(tables.n_ticks, np.int64)
        tied = np.empty(len(tables.plans), np.int32)
        start = tables.plans["tick_start"].astype(np.int32)
        end = np.append(start[1:], np.int32(tables.n_ticks))
        queues = empty_queues(tables)
        by_phase = run_plans(tables, durations, queues, ticks, tied) == 0
        for plan in np.flatnonzero(tied):
            busy = self._busy_alone(lowered, int(plan))
            if busy is None:
                return None
            start[plan], end[plan] = len(ticks), len(ticks) + len(busy)
            ticks = np.concatenate([ticks, busy])
        state = empty_state(tables)
        if run_nodes(tables, durations, ticks, start, end, state) != FINISHED:
            return None
        ranks = state.ranks
        times = zip(
            ranks["finished"].tolist(), lowered.gpu, ranks["communication"].tolist(), strict=True
        )
        return Cycles(self.folding.kind, tuple(Times(*of) for of in times), by_phase, True)

    def _busy_alone(self, lowered: Lowered, plan: int) -> Longs | None:
        """When anything happens in a plan whose phases tie, message by message."""
        origin = lowered.origins[plan]
        if origin.in_order:
            return None
        if plan not in self._alone:
            self._alone[plan] = busy_ticks(self.inputs, self.folding, origin)
        return self._alone[plan]


def is_compiled() -> bool:
    """Whether the kernel's compiled code is likely to be on disk already; else the first run that
    is compiled takes about ten seconds longer."""
    return is_cached(run_nodes)


def lower(inputs: Inputs, traces: Sequence[Sequence[Node]], *, folded: bool = True) -> Program:
    """Prepare ``traces``, one a rank; when not ``folded``, every rank and message is simulated.

    Raises :class:`DimsweepError` for another number of traces than NPUs.
    """
    network = inputs.network
    if len(traces) != network.n_npus:
        raise DimsweepError(
            f"{len(traces)} traces for {network.n_npus} NPUs", where="workload-configuration"
        )
    folding = fold(inputs, traces, enabled=folded)
    nothing = np.zeros(0, np.int64)
    if not folded:
        reason = "every message was asked for"
        return Program(inputs, traces, folding, folded, None, reason, nothing)
    try:
        lowered = lower_tables(inputs, traces, folding)
    except NotLoweredError as error:
        return Program(inputs, traces, folding, folded, None, str(error), nothing)
    answers = _answers(inputs, folding, lowered)
    return Program(inputs, traces, folding, folded, lowered, "", answers)


def _answers(inputs: Inputs, folding: Folding, lowered: Lowered) -> Longs:
    profiles = Profiles(ways(inputs.network), folding.kind)
    durations = np.zeros(len(lowered.tables.recipes), np.int64)
    for number, phase, ranks, rank, flat in lowered.questions:
        costs = costs_of(inputs, flat=flat)
        durations[number] = profiles.duration(phase, ranks, rank, costs)
    return durations


def _array(values: Sequence[float]) -> Floats:
    return np.array(values, np.float64)
