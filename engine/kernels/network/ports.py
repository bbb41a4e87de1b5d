"""The ports of all ranks into all dimensions, and the queues before them.

See :mod:`engine.kernels.message.ports`.
"""

from engine.kernels.network.accounts import book
from engine.kernels.network.clock import later, now_of, touch
from engine.kernels.network.compile import kernel
from engine.kernels.network.entries import (
    entry_beside,
    is_crossing,
    line_of,
    member_of,
    phase_of,
    put,
    rank_of,
)
from engine.kernels.network.flows import enter, note_through
from engine.kernels.network.links import note_span
from engine.kernels.network.operators import end_part
from engine.kernels.network.sorting import sort_jobs
from engine.kernels.network.state import (
    ARRIVE,
    BEGINNING,
    MOVING,
    N_BEGINNING,
    N_MOVING,
    N_SENDING,
    N_TOUCHED,
    NONE,
    SENDING,
    TOUCHED,
    State,
)
from engine.kinds import QueueOrder

_FIFO, _LIFO, _PRIORITY = int(QueueOrder.FIFO), int(QueueOrder.LIFO), int(QueueOrder.PRIORITY)


@kernel
def settle_ports(st: State) -> None:
    """Queue what moved on, then start what heads all its queues."""
    n_moving = st.wires.clock.counts[N_MOVING]
    st.wires.clock.counts[N_MOVING] = 0
    sort_jobs(st, n_moving)
    for i in range(n_moving):
        _enqueue_all(st, st.jobs[MOVING, i])
    n_touched = st.wires.clock.counts[N_TOUCHED]
    st.wires.clock.counts[N_TOUCHED] = 0
    for i in range(n_touched):
        port = st.wires.ports[st.lists[TOUCHED, i]]
        port.touched = 0
        if port.serving == NONE and port.head != NONE:
            _try_start(st, st.lists[TOUCHED, i])


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
    tail = port.tail + 0
    behind = tail
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
    if behind == NONE:
        st.entries[entry].next = port.head
        port.head = entry
    else:
        st.entries[entry].next = st.entries[behind].next
        st.entries[behind].next = entry
    if behind == tail:
        port.tail = entry


@kernel
def _rank(st: State, entry: int) -> float:
    if st.wires.settings.queue == _PRIORITY:
        return -float(st.flows[st.entries[entry].flow].priority)
    return st.phases[phase_of(st, entry)].n_bytes


@kernel
def _touch_port(st: State, port: int) -> None:
    if st.wires.ports[port].touched == 0:
        st.wires.ports[port].touched = 1
        put(st, TOUCHED, N_TOUCHED, port)


@kernel
def _try_start(st: State, port_number: int) -> None:
    """Start what heads the port's queue if it heads all its queues, and all its ports are free."""
    entry = st.wires.ports[port_number].head + 0
    dim, line_number = port_number % st.wires.settings.n_dims, line_of(st, entry)
    if line_number == NONE:
        _serve(st, port_number, entry)
        put(st, SENDING, N_SENDING, port_number)
        return
    line = st.plans.lines[line_number]
    for i in range(line.start, line.start + line.size):
        rank = st.plans.line_ranks[i]
        port = st.wires.ports[rank * st.wires.settings.n_dims + dim]
        if port.serving != NONE or port.head != entry_beside(st, entry, rank):
            return
    of = st.plans.of[line_number, st.phases[phase_of(st, entry)].kind]
    if of.reductions < of.reductions_end:
        put(st, SENDING, N_SENDING, port_number)
    for i in range(line.start, line.start + line.size):
        rank = st.plans.line_ranks[i]
        number = rank * st.wires.settings.n_dims + dim
        _serve(st, number, entry_beside(st, entry, rank))
        if of.reductions == of.reductions_end:
            put(st, BEGINNING, N_BEGINNING, number)


@kernel
def _serve(st: State, port_number: int, entry: int) -> None:
    """A port serves the first entry of its queue."""
    port, rank = st.wires.ports[port_number], port_number // st.wires.settings.n_dims
    port.serving = entry
    port.head = st.entries[entry].next
    if port.head == NONE:
        port.tail = NONE
    if port.last_message == entry:
        port.last_message = NONE
    port.late = st.entries[entry].late
    port.started = now_of(st.wires.clock)
    book(st.accounts, rank, now_of(st.wires.clock))
    st.accounts.dims[rank, port_number % st.wires.settings.n_dims].serving = 1


@kernel
def finish(st: State, port_number: int, late: int) -> None:
    """A port's bytes have come, gone and been reduced; its entry moves on."""
    port, now = st.wires.ports[port_number], now_of(st.wires.clock)
    rank, dim = port_number // st.wires.settings.n_dims, port_number % st.wires.settings.n_dims
    entry = port.serving + 0
    book(st.accounts, rank, now)
    st.accounts.dims[rank, dim].serving = 0
    port.serving = NONE
    _touch_port(st, port_number)
    if st.wires.settings.record:
        note_span(st.wires, port.started, now, ~port_number, entry)
    touch(st.wires.clock)
    if is_crossing(st, entry) or enter(st, entry, st.entries[entry].phase + 1, late):
        member = member_of(st, entry)
        if note_through(st, member, dim, late):
            _end_in_time(st, member)


@kernel
def _end_in_time(st: State, member: int) -> None:
    """All of a member's chunks are through; its part ends when they have made up for being late."""
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
    """They have."""
    rank = st.parts[member].rank
    book(st.accounts, rank, now_of(st.wires.clock))
    st.accounts.dims[rank, st.parts[member].dim].late -= 1
    end_part(st, member)
