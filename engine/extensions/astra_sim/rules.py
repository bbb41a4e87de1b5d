"""The phase kernel by ASTRA-sim's rules, where they differ from the model's.

A message takes a whole number of ticks.  A phase keeps its port until its latencies have passed.  A
message from point to point holds its operator's stream in the place of a port.  What ends at one
instant in a class ends one by one, in the order of
:mod:`engine.extensions.astra_sim.ties`, and what an end lets start starts before the next; where
that order is not known, the run is TIED.
"""

from typing import Any

import numpy as np

from dimsweep.engine.compiler import compiled, inlined, kernel
from dimsweep.engine.extensions.astra_sim.plans import PS
from dimsweep.engine.extensions.astra_sim.ties import Notes, first_to_end, is_stream
from dimsweep.engine.kernels.core.queues import put
from dimsweep.engine.kernels.core.tables import NEVER, NONE, RUNNING
from dimsweep.engine.kernels.phase.batch import entrances_by
from dimsweep.engine.kernels.phase.classes import (
    begin_on_stream,
    class_due,
    next_end,
    set_class_due,
    stream_of,
)
from dimsweep.engine.kernels.phase.kernel import send_off
from dimsweep.engine.kernels.phase.orders import themis
from dimsweep.engine.kernels.phase.ports import end_phase, finish_flow
from dimsweep.engine.kernels.phase.state import Rules, Sim
from dimsweep.engine.units import PICOSECONDS

_TIED = -1


@inlined
def _message_time(sim: Sim, steps: Any, step: Any, held: float, d: int) -> float:
    """One rounding of it all, and the link's own bandwidth: to the same bit."""
    ticks = PICOSECONDS / PS
    link = sim.times.bandwidth[d] / np.rint(1.0 / steps.share)
    hops = float(step.hops) * sim.times.latency[d]
    return np.floor(hops / PS + step.n_bytes * held / (link / ticks)) * PS


@inlined
def _latency_after() -> bool:
    return False


@inlined
def _begin(sim: Sim) -> None:
    notes = sim.own
    notes.marked.fill(-1)
    notes.started[0], notes.tied[0] = 0, False


@inlined
def _send_off(sim: Sim, node: int, f: int, now: int) -> None:
    """A message that holds its operator's stream is timed there."""
    chunk = sim.st.chunks[sim.s.flows[f].chunk_start]
    phase = sim.times.phases[chunk.first]
    if phase.port != NONE:
        send_off(sim, node, f, now)
        return
    begin_on_stream(sim, node, now + phase.duration)
    sim.st.phase_critical[chunk.record] = sim.st.flows[f].critical
    sim.own.tied[0] |= phase.duration == 0


@inlined
def _expect(sim: Sim, node: int, send: int, now: int) -> None:
    """Which comes first, the message of another class or its receive, is not known."""
    if sim.st.nodes[send].end == now and sim.s.nodes[send].cls != sim.s.nodes[node].cls:
        sim.own.tied[0] = True


@inlined
def _occupy(sim: Sim, slot: int) -> None:
    notes = sim.own
    notes.serial[slot] = notes.started[0]
    notes.started[0] += 1


@inlined
def _in_turn(sim: Sim, cls: int, now: int) -> bool:
    return True


@kernel
def _end_due(sim: Sim, cls: int, last: int, now: int) -> int:
    """What ends first of all in the class that ends at this instant.

    A receive whose message has come already ends after all else; it is among ``ending``.
    """
    st, notes = sim.st, sim.own
    if st.ending.filled[0] > 0:
        if class_due(sim, sim.s.nodes[st.ending.numbers[0]].cls) == now:
            return _TIED
    else:
        what = first_to_end(sim, cls, now)
        if what < 0:
            return _TIED
        notes.marked[cls] = now
        if is_stream(sim, cls, what):
            _end_on_stream(sim, cls, what, now)
        else:
            end_phase(sim, what, now)
        set_class_due(sim, cls, next_end(sim, cls))
    return _TIED if notes.tied[0] else min(1, st.ending.filled[0])


@inlined
def _end_on_stream(sim: Sim, cls: int, slot: int, now: int) -> None:
    """What a timed stream runs ends: a node, or a message."""
    sim.st.due[slot] = NEVER
    node = sim.st.streams[stream_of(sim, cls, slot)].node
    f = sim.s.nodes[node].flow
    if f == NONE:
        put(sim.st.ending, node)
    else:
        _check_receiver(sim, f, now)
        finish_flow(sim, f, sim.st.chunks[sim.s.flows[f].chunk_start].record)


@inlined
def _check_receiver(sim: Sim, f: int, now: int) -> None:
    """A message that comes to another class just when something else happens there is a tie."""
    s, st, notes, receiver = sim.s, sim.st, sim.own, sim.s.flows[f].receiver
    if receiver == NONE or st.nodes[receiver].state != RUNNING:
        return
    cls = s.nodes[receiver].cls
    if cls == s.nodes[s.members[s.flows[f].member_start].node].cls:
        return
    busy = notes.marked[cls] == now or class_due(sim, cls) == now
    notes.tied[0] |= busy or st.nodes[receiver].start == now
    notes.marked[cls] = now


_RULES = Rules(
    _message_time,
    _latency_after,
    themis,  # its phases are listed in the order that each chunk takes
    _begin,
    _send_off,
    _expect,
    _occupy,
    in_turn=_in_turn,
    end_due=_end_due,
)


@compiled
def _new_notes(n_slots: int, n_classes: int) -> Notes:
    longs = np.zeros(n_slots, np.int64), np.zeros(n_classes, np.int64)
    return Notes(longs[0], longs[1], np.zeros(1, np.int64), np.zeros(1, np.bool_))


class ItsRules:
    """The phase kernel's entrances by these rules."""

    run_points, time_phases, phases_apart = map(staticmethod, entrances_by(_RULES, _new_notes))
