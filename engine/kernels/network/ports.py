"""The ports of all ranks into all dimensions, and the queues before them.

See :mod:`engine.kernels.reference.ports`.
"""

from engine.compiler import inlined, kernel
from engine.kernels.core.none import NONE
from engine.kernels.core.queue import insert, take_behind
from engine.kernels.network.accounts import book
from engine.kernels.network.clock import later, now_of, touch
from engine.kernels.network.entries import (
    entry_beside,
    is_crossing,
    line_of,
    member_of,
    phase_of,
    put,
    rank_of,
)
from engine.kernels.network.events import ARRIVE
from engine.kernels.network.flows import enter, note_through
from engine.kernels.network.operators import end_part
from engine.kernels.network.parcels import note_span
from engine.kernels.network.sorting import sort_jobs
from engine.kernels.network.state import (
    BEGINNING,
    MOVING,
    PASSED,
    PASSING,
    SENDING,
    TOUCHED,
    State,
)
from engine.kinds import QueueOrder

_FIFO, _LIFO, _PRIORITY = int(QueueOrder.FIFO), int(QueueOrder.LIFO), int(QueueOrder.PRIORITY)


@kernel
def settle_ports(st: State) -> None:
    """Queue what moved on, then start what heads all its queues."""
    n_moving = st.lengths[MOVING]
    st.lengths[MOVING] = 0
    sort_jobs(st, n_moving)
    for i in range(n_moving):
        _enqueue_all(st, st.moving[i])
    n_touched = st.lengths[TOUCHED]
    st.lengths[TOUCHED] = 0
    for i in range(n_touched):
        number = st.lists[TOUCHED, i]
        st.wires.ports[number].touched = 0
        if _is_free(st, number) and st.wires.ports[number].head != NONE:
            entry = st.wires.ports[number].head + 0
            if _heads_all(st, entry) and _are_free(st, entry):
                _start(st, number, entry)
    while _let_pass(st, n_touched):
        pass


@kernel
def _let_pass(st: State, n_touched: int) -> bool:
    """Start jobs that pass others; whether there were any.  All are found before any starts."""
    n = 0
    for i in range(n_touched):
        number = st.lists[TOUCHED, i]
        if _is_free(st, number) and st.wires.ports[number].head != NONE:
            entry = _first_to_pass(st, st.wires.ports[number].head)
            if entry != NONE:
                st.lists[PASSING, n], st.lists[PASSED, n] = entry, number
                n += 1
    for i in range(n):
        if _are_free(st, st.lists[PASSING, i]):  # else it has been found at another port, too
            _start(st, st.lists[PASSED, i], st.lists[PASSING, i])
    return n > 0


@kernel
def _enqueue_all(st: State, first: int) -> None:
    """Queue a job, named by its first entry, at all its ports."""
    dim = st.phases[phase_of(st, first)].dim
    line_number = line_of(st, first)
    if line_number == NONE:
        _enqueue(st, rank_of(st, first) * st.wires.settings.n_dims + dim, first)
        return
    line = st.plans.lines[line_number]
    for i in range(line.start, line.start + line.size):
        rank = st.plans.line_ranks[i]
        _enqueue(st, rank * st.wires.settings.n_dims + dim, entry_beside(st, first, rank))


@kernel
def _enqueue(st: State, port_number: int, entry: int) -> None:
    """Messages from point to point go before chunks, each among their own."""
    port = st.wires.ports[port_number]
    _touch_port(st, port_number)
    behind = port.tail + 0
    if is_crossing(st, entry):
        behind = port.last_message + 0
        port.last_message = entry
    elif st.wires.settings.queue != _FIFO:
        behind = port.last_message + 0
        if st.wires.settings.queue != _LIFO:
            rank = _rank(st, entry)
            after = port.head if behind == NONE else st.entries[behind].next
            while after != NONE and _rank(st, after) <= rank:
                behind = after
                after = st.entries[after].next
    if behind == NONE and port.head != NONE:  # which is first no more
        _touch_all(st, port.head)
    insert(port, st.entries, behind, entry)


@kernel
def _rank(st: State, entry: int) -> float:
    if st.wires.settings.queue == _PRIORITY:
        return -float(st.flows[st.entries[entry].flow].priority)
    return st.phases[phase_of(st, entry)].n_bytes


@kernel
def _touch_port(st: State, port: int) -> None:
    if st.wires.ports[port].touched == 0:
        st.wires.ports[port].touched = 1
        put(st, TOUCHED, port)


@kernel
def _touch_all(st: State, entry: int) -> None:
    """Touch the ports that a job, named by an entry, waits for."""
    line_number = line_of(st, entry)
    if line_number != NONE:
        dim, line = st.phases[phase_of(st, entry)].dim, st.plans.lines[line_number]
        for i in range(line.start, line.start + line.size):
            _touch_port(st, st.plans.line_ranks[i] * st.wires.settings.n_dims + dim)


@inlined
def _is_free(st: State, port: int) -> bool:
    return st.wires.ports[port].newest == NONE and st.wires.ports[port].leaving == 0


@kernel
def _first_to_pass(st: State, head: int) -> int:
    """The entry of a free port's queue with this head that passes others; or NONE."""
    if _heads_all(st, head):
        return NONE
    entry = head + 0
    while entry != NONE:
        if _can_pass(st, entry):
            return entry if _is_first_to_pass(st, entry) else NONE
        entry = st.entries[entry].next + 0
    return NONE


@kernel
def _heads_all(st: State, entry: int) -> bool:
    line_number = line_of(st, entry)
    if line_number == NONE:
        return True  # only messages are before a message
    dim, line = st.phases[phase_of(st, entry)].dim, st.plans.lines[line_number]
    for i in range(line.start, line.start + line.size):
        rank = st.plans.line_ranks[i]
        port = rank * st.wires.settings.n_dims + dim
        if st.wires.ports[port].head != entry_beside(st, entry, rank):
            return False
    return True


@kernel
def _are_free(st: State, entry: int) -> bool:
    """Whether all ports of a job are; the one that is looked at is."""
    line_number = line_of(st, entry)
    if line_number == NONE:
        return True
    dim, line = st.phases[phase_of(st, entry)].dim, st.plans.lines[line_number]
    for i in range(line.start, line.start + line.size):
        if not _is_free(st, st.plans.line_ranks[i] * st.wires.settings.n_dims + dim):
            return False
    return True


@kernel
def _can_pass(st: State, entry: int) -> bool:
    """Whether the job could start, since whatever heads its queues must wait for others."""
    line_number = line_of(st, entry)
    if line_number == NONE or not _are_free(st, entry):
        return False  # a message has been passed over by nobody
    dim, line = st.phases[phase_of(st, entry)].dim, st.plans.lines[line_number]
    for i in range(line.start, line.start + line.size):
        if _heads_all(
            st, st.wires.ports[st.plans.line_ranks[i] * st.wires.settings.n_dims + dim].head
        ):
            return False
    return True


@kernel
def _is_first_to_pass(st: State, entry: int) -> bool:
    """Whether no job that is before it in one of its queues could start as well."""
    dim, line = st.phases[phase_of(st, entry)].dim, st.plans.lines[line_of(st, entry)]
    for i in range(line.start, line.start + line.size):
        rank = st.plans.line_ranks[i]
        other = st.wires.ports[rank * st.wires.settings.n_dims + dim].head + 0
        while other != entry_beside(st, entry, rank):
            if _can_pass(st, other):
                return False
            other = st.entries[other].next + 0
    return True


@kernel
def _start(st: State, port_number: int, entry: int) -> None:
    """Start a job, named by its entry at a port, at all its ports."""
    dim, line_number = port_number % st.wires.settings.n_dims, line_of(st, entry)
    n_ports = n_ports_of(st)
    if line_number == NONE:
        record = port_number + 0
        while st.wires.ports[record].serving != NONE:
            record += n_ports
        _serve(st, record, entry)
        put(st, SENDING, record)
        return
    line = st.plans.lines[line_number]
    of = st.plans.of[line_number, st.phases[phase_of(st, entry)].kind]
    if of.reductions < of.reductions_end:
        put(st, SENDING, port_number)
    first = _free_lane(st, line_number, dim)
    for i in range(line.start, line.start + line.size):
        rank = st.plans.line_ranks[i]
        number = first + rank * st.wires.settings.n_dims + dim
        _serve(st, number, entry_beside(st, entry, rank))
        if of.reductions == of.reductions_end:
            put(st, BEGINNING, number)


@inlined
def n_ports_of(st: State) -> int:
    """How many ports there are; a lane is as many records."""
    return len(st.accounts.ranks) * st.wires.settings.n_dims


@kernel
def _free_lane(st: State, line_number: int, dim: int) -> int:
    """The first record of the first lane that is idle at all ports of a line; the last one is."""
    line, n_dims, first = st.plans.lines[line_number], st.wires.settings.n_dims, 0
    i = line.start + 0
    while i < line.start + line.size:
        if st.wires.ports[first + st.plans.line_ranks[i] * n_dims + dim].serving == NONE:
            i += 1
        else:
            first, i = first + n_ports_of(st), line.start + 0
    return first


@kernel
def _serve(st: State, port_number: int, entry: int) -> None:
    """A port serves an entry of its queue in a lane."""
    lane, n_dims = st.wires.ports[port_number], st.wires.settings.n_dims
    port, rank = st.wires.ports[lane.place], lane.place // n_dims
    lane.serving = entry
    port.newest = port_number
    _leave_queue(st, lane.place, entry)
    lane.late = st.entries[entry].late
    lane.started = now_of(st.wires.clock)
    book(st.accounts, rank, now_of(st.wires.clock))
    st.accounts.dims[rank, lane.place % n_dims].serving += 1
    _count_in_last(st, port_number, 1)


@inlined
def _leave_queue(st: State, port_number: int, entry: int) -> None:
    port = st.wires.ports[port_number]
    before, at = NONE, port.head + 0
    while at != entry:
        before, at = at, st.entries[at].next + 0
    take_behind(port, st.entries, before, entry)
    if port.last_message == entry:
        port.last_message = NONE


@inlined
def _count_in_last(st: State, port_number: int, more: int) -> None:
    """Count what the last of several lanes serves: there must be an idle one beside it."""
    is_last = port_number >= len(st.wires.ports) - n_ports_of(st)
    if is_last and st.wires.settings.lanes:
        st.wires.clock.counts[0].in_last += more


@kernel
def has_left(st: State, place: int) -> None:
    """The last byte of a message has left a port, which may free it."""
    port = st.wires.ports[place]
    port.leaving -= 1
    if port.leaving == 0:
        port.newest = NONE
        _touch_port(st, place)
        touch(st.wires.clock)


@kernel
def finish(st: State, port_number: int, late: int) -> None:
    """The bytes of what a lane of a port serves have come, gone and been reduced; its entry moves
    on."""
    lane, now = st.wires.ports[port_number], now_of(st.wires.clock)
    place, n_dims = lane.place + 0, st.wires.settings.n_dims
    rank, dim = place // n_dims, place % n_dims
    entry = lane.serving + 0
    book(st.accounts, rank, now)
    st.accounts.dims[rank, dim].serving -= 1
    lane.serving = NONE
    _count_in_last(st, port_number, -1)
    if st.wires.ports[place].newest == port_number:
        st.wires.ports[place].newest = NONE
    _touch_port(st, place)
    if st.wires.settings.record:
        note_span(st.wires, lane.started, now, ~place, entry)
    touch(st.wires.clock)
    if is_crossing(st, entry) or enter(st, entry, st.entries[entry].phase + 1, late):
        member = member_of(st, entry)
        if note_through(st, member, dim, late):
            _end_in_time(st, member)


@kernel
def _end_in_time(st: State, member: int) -> None:
    """All of a member's chunks are through; its part ends when their
    latencies, which are counted apart from the bytes, have passed, too."""
    part, now = st.parts[member], now_of(st.wires.clock)
    if part.due == now:
        end_part(st, member)
        return
    rank = st.parts[member].rank
    book(st.accounts, rank, now)
    st.accounts.dims[rank, part.dim].late += 1
    later(st.wires.clock, part.due - now, ARRIVE, member)


@kernel
def arrive(st: State, member: int) -> None:
    """The latencies have passed that a member of a flow was late by; its part ends now."""
    rank = st.parts[member].rank
    book(st.accounts, rank, now_of(st.wires.clock))
    st.accounts.dims[rank, st.parts[member].dim].late -= 1
    end_part(st, member)
