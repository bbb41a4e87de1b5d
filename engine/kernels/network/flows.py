"""Flows: collectives as chunks that go from phase to phase, and messages from point to point; and
where their entries are, and with whom.

See :mod:`engine.kernels.reference.flows`.
"""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.worklist import put
from dimsweep.engine.kernels.network.clock import now_of, sum_of, touch
from dimsweep.engine.kernels.network.state import State


@inlined
def rank_of(st: State, entry: int) -> int:
    """The rank whose entry it is."""
    return st.parts[st.entries[entry].member].rank


@inlined
def phase_of(st: State, entry: int) -> int:
    """The phase that it is in, or queues for, in State.phases."""
    e = st.entries[entry]
    flow = st.flows[e.flow]
    return flow.phase + e.chunk % flow.variants * flow.n_phases + e.phase


@inlined
def is_crossing(st: State, entry: int) -> bool:
    """Whether it is a message from point to point."""
    return st.flows[st.entries[entry].flow].group == NONE


@inlined
def line_of(st: State, entry: int) -> int:
    """The line that runs the phase that it is in; NONE for a message from point to point."""
    group = st.flows[st.entries[entry].flow].group
    if group == NONE:
        return NONE
    return st.plans.places[group, st.phases[phase_of(st, entry)].dim, rank_of(st, entry)].line


@inlined
def entry_at(st: State, entry: int, place: int) -> int:
    """The entry of the same chunk of the rank at a place of Plans.line_ranks."""
    e, rank = st.entries[entry], st.plans.line_ranks[place]
    flow = st.flows[e.flow]
    coordinate = st.plans.places[flow.group, st.wires.settings.n_dims, rank].coordinate
    return entry - (e.member - flow.member_start) + coordinate


@inlined
def port_of(st: State, entry: int) -> int:
    """The port that it queues at, or is served by."""
    return rank_of(st, entry) * st.wires.settings.n_dims + st.phases[phase_of(st, entry)].dim


@kernel
def start_flow(st: State, number: int) -> None:
    """Start a flow, all of whose members have arrived."""
    flow = st.flows[number]
    for member in range(flow.member_start, flow.member_end):
        part = st.parts[member]
        part.chunks, part.through, part.dim, part.due = flow.chunks, 0, 0, 0
    for place in range(flow.chunks * flow.n_members):
        entry, chunk = flow.entry_start + place, place // flow.n_members
        e, member = st.entries[entry], flow.member_start + place % flow.n_members
        e.flow, e.chunk, e.member, e.order = number, chunk, member, flow.key << 32 | chunk
        if flow.group == NONE:
            e.phase = e.late = 0
            _submit(st, entry)
        elif enter(st, entry, 0, 0):
            note_through(st, member, 0, 0)


@kernel
def _submit(st: State, entry: int) -> None:
    """Queue a line's phase, or a message, at the end of this instant."""
    put(st.moving, entry)
    touch(st.wires.clock)


@kernel
def enter(st: State, entry: int, number: int, late: int) -> bool:
    """A member, which is ``late``, is ready for its chunk's phase ``number``; whether the chunk is
    through instead."""
    e = st.entries[entry]
    e.phase, e.late = number, late
    flow = st.flows[e.flow]
    if number == flow.n_phases or st.phases[phase_of(st, entry)].dim < 0:
        return True
    line = st.plans.lines[line_of(st, entry)]
    first = entry_at(st, entry, line.start)
    place = first - flow.entry_start - e.chunk * flow.n_members
    gathered = flow.gather + (e.chunk * flow.n_phases + number) * flow.n_members + place
    st.gathered[gathered] += 1
    if st.gathered[gathered] == line.size:
        _submit(st, first)
    return False


@kernel
def note_through(st: State, member: int, dim: int, late: int) -> bool:
    """A chunk of a member is through, by its port into ``dim``, and ``late``; whether all are."""
    part, now = st.parts[member], now_of(st.wires.clock)
    part.chunks -= 1
    if now > part.through or (now == part.through and dim > part.dim):
        part.through, part.dim = now, dim
    part.due = max(part.due, sum_of(now, late))
    return part.chunks == 0
