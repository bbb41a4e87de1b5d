"""The ports of all ranks into all dimensions, and the queues in front of them.

A *job* is a phase of a chunk on a line, or a point-to-point message; it has one entry per member.
See :mod:`engine.kernels.reference.ports`.
"""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.accounts import BEGINS, ENDS
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.queues import insert, put, sort_by, take_after, take_all
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.network import operators
from dimsweep.engine.kernels.network.clock import (
    ARRIVE,
    add_times,
    current_time,
    plan_later,
    request_settling,
)
from dimsweep.engine.kernels.network.links import note_span
from dimsweep.engine.kernels.network.operators import book_latencies, book_phase, end_part
from dimsweep.engine.kernels.network.state import State
from dimsweep.engine.kinds import QueueOrder


@kernel
def settle_ports(st: State) -> None:
    """Queue the entries that reached a new phase, and start jobs that head all their queues."""
    sort_by(st.moving, st.entries["order"], st.scratch)
    for i in range(take_all(st.moving)):
        _enqueue_all(st, st.moving.numbers[i])
    n_touched = take_all(st.touched)
    for i in range(n_touched):
        number = st.touched.numbers[i]
        st.wires.ports[number].touched = 0
        if st.wires.ports[number].head == NONE:
            continue
        entry = long(st.wires.ports[number].head)
        if _shares_port(st, entry) or (
            _is_free(st, number) and _ports_are_free(st, entry) and _heads_all(st, entry)
        ):
            _start(st, entry)
    while _start_passing_jobs(st, n_touched):
        pass
    if st.wires.settings.shares:
        _touch_again(st, n_touched)


@inlined
def _shares_port(st: State, entry: int) -> bool:
    """Return whether an entry may start although its port serves another message."""
    return st.wires.settings.shares and operators.is_crossing(st, entry)


@kernel
def _touch_again(st: State, n_touched: int) -> None:
    """Mark ports at which another message waits, for the next round of this instant.

    A round starts at most one message at each port, in an idle lane.
    """
    for i in range(n_touched):
        number = st.touched.numbers[i]
        head = long(st.wires.ports[number].head)
        if head != NONE and operators.is_crossing(st, head):
            _touch_port(st, number)
            request_settling(st.wires.clock)


@kernel
def _start_passing_jobs(st: State, n_touched: int) -> bool:
    """Start jobs that overtake blocked ones; return whether there were any.

    All are found before any starts.
    """
    for i in range(n_touched):
        number = st.touched.numbers[i]
        if _is_free(st, number) and st.wires.ports[number].head != NONE:
            entry = _find_passing(st, st.wires.ports[number].head)
            if entry != NONE:
                put(st.passing, entry)
    n = take_all(st.passing)
    for i in range(n):
        if _ports_are_free(
            st, st.passing.numbers[i]
        ):  # else it has been found at another port, too
            _start(st, st.passing.numbers[i])
    return n > 0


@kernel
def _enqueue_all(st: State, first: int) -> None:
    """Queue a job, named by its first entry, at all its ports."""
    number = operators.line_of(st, first)
    if number == NONE:
        _enqueue(st, operators.port_of(st, first), first)
        return
    line = st.plans.lines[number]
    for i in range(line.start, line.start + line.size):
        _enqueue(st, st.line_ports[i], operators.entry_at(st, first, i))


@kernel
def _enqueue(st: State, port_number: int, entry: int) -> None:
    """Queue an entry at a port; point-to-point messages go before chunks."""
    port = st.wires.ports[port_number]
    _touch_port(st, port_number)
    behind = long(port.tail)
    if operators.is_crossing(st, entry):
        behind = long(port.last_message)
        port.last_message = entry
    elif st.wires.settings.queue != QueueOrder.FIFO:
        behind = long(port.last_message)
        if st.wires.settings.queue != QueueOrder.LIFO:
            value = _queue_key(st, entry)
            after = port.head if behind == NONE else st.entries[behind].next
            while after != NONE and _queue_key(st, after) <= value:
                behind = after
                after = st.entries[after].next
    if behind == NONE and port.head != NONE:  # which is first no more
        _touch_all(st, port.head)
    insert(port, st.entries, behind, entry)


@kernel
def _queue_key(st: State, entry: int) -> float:
    """Return an entry's sort key at a port whose queue is not first-in first-out."""
    if st.wires.settings.queue == QueueOrder.PRIORITY:
        return -float(st.flows[st.entries[entry].flow].priority)
    return float(st.phases[operators.phase_of(st, entry)].size)


@kernel
def _touch_port(st: State, port: int) -> None:
    if st.wires.ports[port].touched == 0:
        st.wires.ports[port].touched = 1
        put(st.touched, port)


@kernel
def _touch_all(st: State, entry: int) -> None:
    """Mark the ports at which a job, named by one entry, waits."""
    number = operators.line_of(st, entry)
    if number != NONE:
        line = st.plans.lines[number]
        for i in range(line.start, line.start + line.size):
            _touch_port(st, st.line_ports[i])


@inlined
def _is_free(st: State, port: int) -> bool:
    return st.wires.ports[port].newest == NONE and st.wires.ports[port].leaving == 0


@kernel
def _find_passing(st: State, head: int) -> int:
    """Return the first entry behind ``head`` that may overtake the blocked ones, or NONE."""
    entry, busy = long(head), NONE  # and the line that was last seen to be busy
    while entry != NONE:
        number = operators.line_of(st, entry)
        if number != busy and _ports_are_free(st, entry):
            break
        busy, entry = number, long(st.entries[entry].next)
    if entry == NONE or _heads_all(st, head):  # in this order: busy ports are found sooner
        return NONE
    while entry != NONE:
        if _can_pass(st, entry):
            return entry if _is_first_to_pass(st, entry) else NONE
        entry = long(st.entries[entry].next)
    return NONE


@kernel
def _heads_all(st: State, entry: int) -> bool:
    """Return whether a job is first at all its ports."""
    number = operators.line_of(st, entry)
    if number == NONE:
        return True
    line = st.plans.lines[number]
    for i in range(line.start, line.start + line.size):
        if st.wires.ports[st.line_ports[i]].head != operators.entry_at(st, entry, i):
            return False
    return True


@kernel
def _ports_are_free(st: State, entry: int) -> bool:
    """Return whether all ports of a job are free."""
    number = operators.line_of(st, entry)
    if number == NONE:
        return True
    line = st.plans.lines[number]
    for i in range(line.start, line.start + line.size):
        port = st.line_ports[i]
        if not _is_free(st, port):
            return False
    return True


@kernel
def _can_pass(st: State, entry: int) -> bool:
    """Return whether a job is free to start and every head of its queues is blocked elsewhere."""
    number = operators.line_of(st, entry)
    if number == NONE or not _ports_are_free(st, entry):
        return False
    line = st.plans.lines[number]
    for i in range(line.start, line.start + line.size):
        if _heads_all(st, st.wires.ports[st.line_ports[i]].head):
            return False
    return True


@kernel
def _is_first_to_pass(st: State, entry: int) -> bool:
    """Return whether no earlier job in any queue of this job could overtake as well."""
    line = st.plans.lines[operators.line_of(st, entry)]
    for i in range(line.start, line.start + line.size):
        other = long(st.wires.ports[st.line_ports[i]].head)
        while other != operators.entry_at(st, entry, i):
            if _can_pass(st, other):
                return False
            other = long(st.entries[other].next)
    return True


@kernel
def _start(st: State, entry: int) -> None:
    """Start a job, named by one of its entries, at all its ports."""
    number, port = operators.line_of(st, entry), operators.port_of(st, entry)
    if number == NONE:
        lane = long(port)
        while st.wires.ports[lane].serving != NONE:
            lane += count_ports(st)
        _serve(st, lane, entry)
        put(st.sending, lane)
        return
    line = st.plans.lines[number]
    of = st.plans.line_plans[number, st.phases[operators.phase_of(st, entry)].kind]
    if of.reductions < of.reductions_end:
        put(st.sending, port)
    first = _free_lane(st, number)
    for i in range(line.start, line.start + line.size):
        lane = first + st.line_ports[i]
        _serve(st, lane, operators.entry_at(st, entry, i))
        if of.reductions == of.reductions_end:
            put(st.beginning, lane)


@inlined
def count_ports(st: State) -> int:
    """Return the number of ports, which is the number of records of each lane."""
    return len(st.accounts.ranks) * st.wires.settings.n_dims


@kernel
def _free_lane(st: State, number: int) -> int:
    """Return the first record of a lane that is idle at all ports of a line, or NONE."""
    line, first = st.plans.lines[number], 0
    i = long(line.start)
    while i < line.start + line.size:
        if st.wires.ports[first + st.line_ports[i]].serving == NONE:
            i += 1
        else:
            first, i = first + count_ports(st), long(line.start)
    return first


@kernel
def _serve(st: State, number: int, entry: int) -> None:
    """Let a port serve an entry of its queue in the lane whose record is ``number``."""
    lane, n_dims, now = (
        st.wires.ports[number],
        st.wires.settings.n_dims,
        current_time(st.wires.clock),
    )
    place = long(lane.place)
    lane.serving, lane.late, lane.started = entry, st.entries[entry].late, now
    st.wires.ports[place].newest = number
    _leave_queue(st, place, entry)
    book_phase(st.accounts, place // n_dims, place % n_dims, BEGINS, now)
    _count_in_last(st, number, 1)


@inlined
def _leave_queue(st: State, port_number: int, entry: int) -> None:
    port = st.wires.ports[port_number]
    before, at = NONE, long(port.head)
    while at != entry:
        before, at = at, long(st.entries[at].next)
    take_after(port, st.entries, before, entry)
    if port.last_message == entry:
        port.last_message = NONE


@inlined
def _count_in_last(st: State, port_number: int, more: int) -> None:
    """Count phases in the last lane; when it is in use, the state needs another idle lane."""
    is_last = port_number >= len(st.wires.ports) - count_ports(st)
    if is_last and st.wires.settings.lanes:
        st.wires.clock.counts[0].in_last += more


@kernel
def note_departure(st: State, place: int) -> None:
    """Count a message whose last byte has left a port; the last such message frees the port."""
    port = st.wires.ports[place]
    port.leaving -= 1
    if port.leaving == 0:
        port.newest = NONE
        _touch_port(st, place)
        request_settling(st.wires.clock)


@kernel
def count_down(st: State, port_number: int, late: int, delay: int) -> None:
    """Count one completed task of a member's phase; the task was ``late`` by some ps.

    A task is a strand that ended, or a message that left or, from a switch, arrived.  The last task
    finishes the phase, ``delay`` ps after the latest.
    """
    port = st.wires.ports[port_number]
    port.late = max(port.late, late)
    port.open -= 1
    if port.open == 0:
        finish(st, port_number, add_times(port.late, delay))


@kernel
def finish(st: State, port_number: int, late: int) -> None:
    """Finish the phase in a port's lane, and move its entry to its next phase."""
    lane, now = st.wires.ports[port_number], current_time(st.wires.clock)
    place, n_dims = long(lane.place), st.wires.settings.n_dims
    rank, dim = place // n_dims, place % n_dims
    entry = long(lane.serving)
    book_phase(st.accounts, rank, dim, ENDS, now)
    lane.serving = NONE
    _count_in_last(st, port_number, -1)
    if st.wires.ports[place].newest == port_number:
        st.wires.ports[place].newest = NONE
    _touch_port(st, place)
    if st.wires.settings.record:
        note_span(st.wires, lane.started, now, ~place, entry)
    request_settling(st.wires.clock)
    if operators.is_crossing(st, entry) or operators.enter_phase(
        st, entry, st.entries[entry].phase + 1, late
    ):
        member = long(st.entries[entry].member)
        if operators.note_through(st, member, dim, late):
            _end_in_time(st, member)


@kernel
def _end_in_time(st: State, member: int) -> None:
    """Plan the end of a member's part in a flow, after the latencies of its chunks."""
    part, now = st.parts[member], current_time(st.wires.clock)
    if part.due == now:
        end_part(st, member)
    else:
        book_latencies(st.accounts, part.rank, part.dim, BEGINS, now)
        plan_later(st.wires.clock, part.due - now, ARRIVE, member)


@kernel
def end_latencies(st: State, member: int) -> None:
    """End a member's part of a flow after its latencies."""
    part = st.parts[member]
    book_latencies(st.accounts, part.rank, part.dim, ENDS, current_time(st.wires.clock))
    end_part(st, member)
