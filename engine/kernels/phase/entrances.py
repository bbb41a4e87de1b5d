"""What Python calls of the phase kernel, compiled for a set of rules: those of the model, with an
order of dimensions that a plug-in brings or without, or those of a simulator that is reproduced."""

from functools import cache
from typing import Any, NamedTuple

from dimsweep.engine.compiler import compiled
from dimsweep.engine.kernels.core.by_reference import by_reference
from dimsweep.engine.kernels.phase import orders
from dimsweep.engine.kernels.phase.kernel import MODEL
from dimsweep.engine.kernels.phase.measures import Measures, run_each
from dimsweep.engine.kernels.phase.path import Chain, Path, add_apart
from dimsweep.engine.kernels.phase.phase_time import PhaseTimes, empty_phase_times, time_all
from dimsweep.engine.kernels.phase.state import Rules, Sim, State
from dimsweep.engine.lower.program import Entrances, Floats, Longs, Program, Structure


class _Compiled(NamedTuple):
    """See :class:`Entrances`."""

    run_points: Any
    time_phases: Any
    phases_apart: Any


@compiled
def _nothing(n_slots: int, n_classes: int) -> None:
    """The model notes nothing of its own."""


def entrances_by(rules: Rules, new_own: Any = _nothing) -> _Compiled:
    """The entrances by some rules; ``new_own``, compiled, makes what these note, for so many slots
    (:mod:`engine.kernels.phase.agenda`) and classes."""

    @compiled
    def run_points(
        s: Structure,
        bandwidth: Floats,
        latency: Longs,
        times: PhaseTimes,
        state: State,
        measures: Measures,
    ) -> None:
        own = new_own(len(state.due), len(state.classes))
        sim = by_reference(Sim(s, times, state, rules, own))
        run_each(sim, bandwidth, latency, by_reference(measures))

    @compiled
    def time_phases(s: Structure, bandwidth: Floats, latency: Longs, out: PhaseTimes) -> float:
        no_state: Any = None  # a phase's time asks for none
        return time_all(by_reference(Sim(s, out, no_state, rules, None)), bandwidth, latency)

    @compiled
    def phases_apart(
        s: Structure, times: PhaseTimes, state: State, chain: Chain, labels: Longs, path: Path
    ) -> None:
        add_apart(by_reference(Sim(s, times, state, rules, None)), chain, labels, path)

    return _Compiled(run_points, time_phases, phases_apart)


@cache
def of_order(choose: Any) -> _Compiled:
    """The model's entrances where ``choose`` says in which order chunks visit dimensions."""
    return entrances_by(MODEL._replace(choose=choose))


def entrances_of(program: Program) -> Entrances:
    """Those by whose rules the program runs."""
    if program.replica is not None:
        return program.replica
    return of_order(orders.chooser(program.structure.shape.order))


def times_of(program: Program) -> PhaseTimes:
    """The times of a program's phases at its own point."""
    times = empty_phase_times(program.structure)
    point = program.bandwidth, program.latency
    entrances_of(program).time_phases(program.structure, *point, times)
    return times
