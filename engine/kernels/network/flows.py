"""Flows: collectives as chunks that go from phase to phase, and messages from point to point.

See :mod:`engine.kernels.reference.flows`.
"""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.worklist import put
from dimsweep.engine.kernels.network.clock import now_of, sum_of, touch
from dimsweep.engine.kernels.network.entries import chunk_of, entry_beside, line_of, phase_of
from dimsweep.engine.kernels.network.state import State


@kernel
def start_flow(st: State, number: int) -> None:
    """Start a flow, all of whose members have arrived."""
    flow = st.flows[number]
    for member in range(flow.member_start, flow.member_end):
        part = st.parts[member]
        part.chunks, part.through, part.dim, part.due = flow.chunks, 0, 0, 0
    for place in range(flow.chunks * flow.n_members):
        entry = flow.entry_start + place
        st.entries[entry].flow = number
        st.entries[entry].order = flow.key << 32 | chunk_of(st, entry)
        if flow.group == NONE:
            st.entries[entry].phase = st.entries[entry].late = 0
            _submit(st, entry)
        elif enter(st, entry, 0, 0):
            note_through(st, flow.member_start + place % flow.n_members, 0, 0)


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
    first = entry_beside(st, entry, st.plans.line_ranks[line.start])
    chunk = chunk_of(st, entry)
    place = first - flow.entry_start - chunk * flow.n_members
    gathered = flow.gather + (chunk * flow.n_phases + number) * flow.n_members + place
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
