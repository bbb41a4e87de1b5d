"""Entries: a member's part of a chunk; where it is, and with whom."""

from dimsweep.engine.compiler import inlined
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.network.state import State


@inlined
def chunk_of(st: State, entry: int) -> int:
    """Which chunk of its flow it is of."""
    flow = st.flows[st.entries[entry].flow]
    return (entry - flow.entry_start) // flow.n_members


@inlined
def member_of(st: State, entry: int) -> int:
    """The member of its flow that it is of, in State.parts."""
    flow = st.flows[st.entries[entry].flow]
    return flow.member_start + (entry - flow.entry_start) % flow.n_members


@inlined
def rank_of(st: State, entry: int) -> int:
    """The rank whose entry it is."""
    return st.parts[member_of(st, entry)].rank


@inlined
def phase_of(st: State, entry: int) -> int:
    """The phase that it is in, or queues for, in State.phases."""
    flow = st.flows[st.entries[entry].flow]
    variant = chunk_of(st, entry) % flow.variants
    return flow.phase + variant * flow.n_phases + st.entries[entry].phase


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
def entry_beside(st: State, entry: int, rank: int) -> int:
    """Another rank's entry of the same chunk."""
    flow = st.flows[st.entries[entry].flow]
    first = entry - (entry - flow.entry_start) % flow.n_members
    return first + st.plans.places[flow.group, st.wires.settings.n_dims, rank].coordinate


@inlined
def entry_at(st: State, entry: int, place: int) -> int:
    """The entry of the same chunk of the rank at a place of Plans.line_ranks."""
    return entry_beside(st, entry, st.plans.line_ranks[place])


@inlined
def port_of(st: State, entry: int) -> int:
    """The port that it queues at, or is served by."""
    return rank_of(st, entry) * st.wires.settings.n_dims + st.phases[phase_of(st, entry)].dim
