"""The phase kernel by ASTRA-sim's rules, where they differ from the model's.

A message takes a whole number of ticks.  A phase keeps its port until its latencies have passed.  A
message from point to point holds its operator's stream instead of a port.  Two ends at one instant
in a class are handled one by one, and an end starts its dependents before the next one; where the
order is not known, the run is TIED.

The order follows a simulation of single messages, in which the events of an instant run in the
order in which they were scheduled.  A class waits for a chain in a phase: an endpoint delay, then
for each message the message itself, another endpoint delay, and perhaps a reduction.  So of two
phases that end together the one comes first whose last wait began earlier; if both began together,
the one whose wait before that began earlier, and so on; and if they were in step from the
beginning, the one that started first.

Two waits of different kinds that end together (a message that arrives, a delay that is over) are
handled by different queues of such a simulation; the order is then not known, nor is it where one
of the two begins at the very instant of an event of the other.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.compiler import compiled, inlined, kernel
from dimsweep.engine.extensions.astra_sim.plans import PS
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.queues import put
from dimsweep.engine.kernels.core.tables import NEVER, NONE, RUNNING
from dimsweep.engine.kernels.phase.batch import build_entrances
from dimsweep.engine.kernels.phase.classes import (
    begin_on_stream,
    class_due,
    next_end,
    set_class_due,
    slots_of,
    stream_of,
)
from dimsweep.engine.kernels.phase.kernel import send_off
from dimsweep.engine.kernels.phase.orders import themis
from dimsweep.engine.kernels.phase.phase_time import round_half_up
from dimsweep.engine.kernels.phase.ports import end_phase, finish_flow
from dimsweep.engine.kernels.phase.state import Rules, Sim
from dimsweep.engine.lower.program import Longs, NodeKind
from dimsweep.engine.units import PICOSECONDS

Bools = NDArray[np.bool_]

UNKNOWN = -2
# Parts of a step, in order, and the state of a chain before its first part.
MESSAGE, DELAY, REDUCTION, NO_WAIT = range(4)


class Notes(NamedTuple):
    """Notes of the phase kernel on a run's events, by which it orders simultaneous ends."""

    serial: Longs  # of each slot of a place: how many phases started before the one that it serves
    marked: Longs  # of each class: when something that had begun before ended last
    started: Longs  # (1,) phases
    tied: Bools  # (1,): whether things have happened at one instant in an order that is not known


class Chain(NamedTuple):
    """A chain of an activity's waits, read backwards; next is part ``part`` of step ``step``."""

    phase: int  # in PhaseTimes.phases, or NONE for one wait of ``single`` ps
    step: int
    left: int  # repetitions of the step
    part: int
    single: int


@kernel
def first_to_end(sim: Sim, cls: int, now: int) -> int:
    """Return the slot of the class that ends first at ``now``; UNKNOWN if undecidable."""
    best, slots = long(NONE), slots_of(sim, cls)
    for slot in range(slots[0], slots[1]):
        if sim.st.due[slot] == now:
            best = _earlier_phase(sim, cls, best, slot)
    return best


@inlined
def is_stream(sim: Sim, cls: int, slot: int) -> bool:
    """Return whether ``slot`` is a timed stream of the class, not a place at a port."""
    return slot - slots_of(sim, cls)[0] < sim.s.shape.n_timed


@kernel
def _earlier_phase(sim: Sim, cls: int, one: int, other: int) -> int:
    if one < 0:
        return other if one == NONE else UNKNOWN
    a, b = _chain(sim, cls, one), _chain(sim, cls, other)
    in_order = _started_first(sim, cls, one, other)
    while True:
        if a.phase >= 0 and a == b:  # the same from here on: so both started together
            return in_order
        kind_a, wait_a, a = _last_wait(sim, a)
        kind_b, wait_b, b = _last_wait(sim, b)
        if kind_a == NO_WAIT and kind_b == NO_WAIT:
            return in_order
        if kind_a == NO_WAIT or kind_b == NO_WAIT or (kind_a == MESSAGE) != (kind_b == MESSAGE):
            return UNKNOWN
        if wait_a != wait_b:
            return one if wait_a > wait_b else other


@kernel
def _started_first(sim: Sim, cls: int, one: int, other: int) -> int:
    """Return which of two phases of a class started first.

    UNKNOWN for computations and messages, and for a collective that began when another one ended,
    which keeps its last place until the next has begun.
    """
    if is_stream(sim, cls, one) or is_stream(sim, cls, other):
        return UNKNOWN
    st, serial = sim.st, sim.own.serial
    chunk, that = st.chunks[st.served[one]], st.chunks[st.served[other]]
    same_port = sim.times.phases[chunk.at].port == sim.times.phases[that.at].port
    critical = st.flows[chunk.flow].critical
    if not same_port and chunk.at == chunk.first and 0 <= critical < len(st.phase_of):
        return UNKNOWN
    return one if serial[one] < serial[other] else other


@kernel
def _chain(sim: Sim, cls: int, slot: int) -> Chain:
    s, st = sim.s, sim.st
    if not is_stream(sim, cls, slot):
        return _chain_of_phase(sim, st.chunks[st.served[slot]].at)
    node = st.streams[stream_of(sim, cls, slot)].node
    if s.nodes[node].kind == NodeKind.SEND:
        chunk = s.flows[s.nodes[node].flow].chunk_start
        return _chain_of_phase(sim, st.chunks[chunk].first)
    return _chain_of_wait(1, s.nodes[node].duration)


@kernel
def _chain_of_wait(left: int, wait: int) -> Chain:
    return Chain(NONE, 0, long(left), 0, long(wait))


@kernel
def _chain_of_phase(sim: Sim, at: int) -> Chain:
    step = sim.s.phase_steps[sim.times.phases[at].steps].step_end - 1
    return Chain(long(at), long(step), long(sim.s.steps[step].count), REDUCTION, 0)


@kernel
def _last_wait(sim: Sim, chain: Chain) -> tuple[int, float, Chain]:
    """Return the kind and picoseconds of a chain's last wait, and the chain before that wait."""
    if chain.phase < 0:
        if chain.left == 0:
            return NO_WAIT, 0.0, chain
        return DELAY, float(chain.single), _chain_of_wait(0, chain.single)
    phase = sim.times.phases[chain.phase]
    steps = sim.s.phase_steps[phase.steps]
    i, left, part = chain.step, chain.left, chain.part
    while i >= steps.step_start:
        step = sim.s.steps[i]
        kind, wait = part, 0.0
        if part == REDUCTION:
            wait = round_half_up(step.reduce * phase.n_bytes * sim.s.shape.reduce_time)
        elif part == DELAY:
            wait = float(sim.s.shape.endpoint_delay + step.fixed)
        elif step.messages > 0:
            wait = sim.rules.message_time(sim, steps, step, phase.n_bytes, phase.dim)
        part -= 1
        if part < MESSAGE:
            part, left = REDUCTION, left - 1
            if left == 0:
                i -= 1
                left = long(sim.s.steps[max(i, 0)].count)
        if wait > 0 or (kind == MESSAGE and step.messages > 0):
            return kind, wait, Chain(chain.phase, i, left, part, chain.single)
    return NO_WAIT, 0.0, Chain(chain.phase, i, left, part, chain.single)


# --- the rules -----------------------------------------------------------------------------------


_TIED = -1


@inlined
def _message_time(sim: Sim, steps: Any, step: Any, held: float, d: int) -> float:
    """Return the ps of a message, rounded once, bit by bit as on the link itself."""
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
    """Set the end of message ``f``, which holds its operator's stream until then."""
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
    """Mark the run as tied: another class's message may arrive before or after its receive."""
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
    """End the class's first due activity; return 1 if a node ends by it, else 0, or _TIED.

    A receive whose message has already arrived ends last; it is among ``ending``.
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
    """End the node or message that runs on a timed stream."""
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
    """Mark the run as tied if message ``f`` arrives at another class at an event's instant."""
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
    """The entry points of the phase kernel, compiled with ASTRA-sim's rules."""

    run_points, time_phases, add_phases = map(staticmethod, build_entrances(_RULES, _new_notes))
