"""Which of two things that end at the same instant in one class ends first.

A program whose ends come ONE_BY_ONE stands for a simulation of single messages in which the events
of an instant run in the order in which they were scheduled.  What a class waits for in a phase is a
chain: an endpoint delay, then for each message the message itself, another endpoint delay, and
perhaps a reduction.  So of two phases that end together the one comes first whose last wait began
earlier; if both began together, the one whose wait before that began earlier, and so on; and if
they were in step from the beginning, the one that started first.

Two waits of different kinds that end together (a message that comes, a delay that is over) are
handled by different queues of such a simulation; the order is then not known, nor is it where one
of the two begins at the very instant of an event of the other.
"""

from typing import NamedTuple

from engine.compiler import kernel
from engine.kernels.core.none import NONE
from engine.kernels.phase.agenda import places_of
from engine.kernels.phase.phase_time import PhaseTimes, message_time, whole
from engine.kernels.phase.state import State, long
from engine.lower.program import NodeKind, Structure

UNKNOWN = -2
# Parts of a step, in their order, and what a chain is at before its first.
MESSAGE, DELAY, REDUCTION, NO_WAIT = range(4)


class Chain(NamedTuple):
    """Waits of one thing, backwards; the next one to look at is part ``part`` of step ``step``."""

    phase: int  # in PhaseTimes.phases, or NONE for one wait of ``single`` ps
    step: int
    left: int  # repetitions of the step
    part: int
    single: int


@kernel
def first_to_end(s: Structure, times: PhaseTimes, st: State, cls: int, now: int) -> int:
    """What ends first at ``now``: a stream's slot, or a place behind all streams' slots.

    UNKNOWN where that cannot be told.
    """
    best = long(NONE)
    for slot in range(cls * s.shape.n_timed, (cls + 1) * s.shape.n_timed):
        if st.stream_due[slot] == now:
            best = _first(s, times, st, best, slot)
    places = places_of(s, cls)
    for place in range(places[0], places[1]):
        if st.place_due[place] == now:
            best = _first(s, times, st, best, len(st.stream_due) + place)
    return best


@kernel
def _first(
    s: Structure,
    times: PhaseTimes,
    st: State,
    one: int,
    other: int,
) -> int:
    if one < 0:
        return other if one == NONE else UNKNOWN
    a, b = _chain(s, times, st, one), _chain(s, times, st, other)
    in_order = _started_first(s, st, one, other)
    while True:
        if a.phase >= 0 and a == b:  # the same from here on: so both started together
            return in_order
        kind_a, wait_a, a = _last_wait(s, times, a)
        kind_b, wait_b, b = _last_wait(s, times, b)
        if kind_a == NO_WAIT and kind_b == NO_WAIT:
            return in_order
        if kind_a == NO_WAIT or kind_b == NO_WAIT or (kind_a == MESSAGE) != (kind_b == MESSAGE):
            return UNKNOWN
        if wait_a != wait_b:
            return one if wait_a > wait_b else other


@kernel
def _started_first(s: Structure, st: State, one: int, other: int) -> int:
    """Which of two phases started first; UNKNOWN for computations and messages, and where a
    collective began as another one ended, which holds its last place until the next has begun."""
    n_slots = len(st.stream_due)
    if one < n_slots or other < n_slots:
        return UNKNOWN
    a, b = st.places[one - n_slots], st.places[other - n_slots]
    chunk = st.chunks[a["chunk"]]
    same_port = (one - n_slots) // s.shape.places == (other - n_slots) // s.shape.places
    critical = st.flows[chunk["flow"]]["critical"]
    if not same_port and chunk["at"] == chunk["first"] and 0 <= critical < len(st.phase_of):
        return UNKNOWN
    return one if a["serial"] < b["serial"] else other


@kernel
def _chain(s: Structure, times: PhaseTimes, st: State, what: int) -> Chain:
    n_slots = len(st.stream_due)
    if what >= n_slots:
        at = st.chunks[st.places[what - n_slots]["chunk"]]["at"]
        return _chain_of_phase(s, times, at)
    cls = what // s.shape.n_timed
    node = st.streams[what + cls * (s.shape.n_streams - s.shape.n_timed)]["node"]
    if s.nodes[node]["kind"] == NodeKind.SEND:
        return _chain_of_phase(
            s, times, st.chunks[s.flows[s.nodes[node]["flow"]]["chunk_start"]]["first"]
        )
    return _chain_of_wait(1, s.nodes[node]["duration"])


@kernel
def _chain_of_wait(left: int, wait: int) -> Chain:
    return Chain(NONE, 0, long(left), 0, long(wait))


@kernel
def _chain_of_phase(s: Structure, times: PhaseTimes, at: int) -> Chain:
    step = s.phase_steps[times.phases[at]["steps"]]["step_end"] - 1
    return Chain(long(at), long(step), long(s.steps[step]["count"]), REDUCTION, 0)


@kernel
def _last_wait(s: Structure, times: PhaseTimes, chain: Chain) -> tuple[int, float, Chain]:
    """The last wait of the chain: its kind and picoseconds, and the chain before it."""
    if chain.phase < 0:
        if chain.left == 0:
            return NO_WAIT, 0.0, chain
        return DELAY, float(chain.single), _chain_of_wait(0, chain.single)
    phase = times.phases[chain.phase]
    steps = s.phase_steps[phase["steps"]]
    i, left, part = chain.step, chain.left, chain.part
    while i >= steps["step_start"]:
        step = s.steps[i]
        kind, wait = part, 0.0
        if part == REDUCTION:
            wait = whole(step["reduce"] * phase["n_bytes"] * s.shape.reduce_time)
        elif part == DELAY:
            wait = float(s.shape.endpoint_delay + step["fixed"])
        elif step["messages"] > 0:
            d = phase["dim"]
            wait = message_time(
                s, steps, step, phase["n_bytes"], times.bandwidth[d], times.latency[d]
            )
        part -= 1
        if part < MESSAGE:
            part, left = REDUCTION, left - 1
            if left == 0:
                i -= 1
                left = long(s.steps[max(i, 0)]["count"])
        if wait > 0 or (kind == MESSAGE and step["messages"] > 0):
            return kind, wait, Chain(chain.phase, i, left, part, chain.single)
    return NO_WAIT, 0.0, Chain(chain.phase, i, left, part, chain.single)
