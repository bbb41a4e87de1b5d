"""The packet kernel: store-and-forward of every packet, event by event.

The first part is the network card of a host: which queue pair (flow) sends next, when the card
looks again, and the functions that transports call (set a flow's rate, start its timers).  The
second part handles the events of a run.
"""

from dimsweep.engine.kernels.core.agenda import (
    EMPTY,
    has_passed,
    peek_event,
    plan,
    plan_timer,
    take,
)
from dimsweep.engine.kernels.core.compiling import by_reference, long, prefetch
from dimsweep.engine.kernels.core.queues import append, link_followers
from dimsweep.engine.kernels.core.tables import NEVER, NONE
from dimsweep.engine.kernels.packet import credits, hooks, ports, rud, state, tcp
from dimsweep.engine.kernels.packet.inputs import Stop, Wake
from dimsweep.engine.kernels.packet.ports import time_on_wire, time_to_send
from dimsweep.engine.kernels.packet.state import Run, compiled, inlined, kernel
from dimsweep.engine.lower.program import Longs


@inlined
def _window_full(r: Run, flow: int) -> bool:
    f = r.flows[flow]
    return f.sent - f.acked >= f.allowed


@inlined
def _may_send(r: Run, flow: int) -> bool:
    """Return whether the queue pair has something to send that its window allows."""
    if r.speaks_tcp:
        return tcp.may_send(r, flow)
    if rud.is_used(r):
        return rud.may_send(r, flow)
    return r.flows[flow].sent < r.flows[flow].size and not _window_full(r, flow)


@inlined
def pick_at_host(r: Run, port: int) -> int:
    """Return the next packet that a host's port sends: an ACK, or data of a queue pair, or NONE."""
    p = r.ports[port]
    if p.paused == 0 and p.queue.head != NONE:
        return ports.take_queued(r, port)
    if p.pairs == 0:
        return NONE
    pair = _next_pair(r, port)
    if pair < 0:
        _wake_later(r, port)
        return NONE
    p.served = pair
    flow = r.pairs[p.first_pair + pair]
    f = r.flows[flow]
    segment = tcp.next_segment(r, flow) if r.speaks_tcp else rud.next_packet(r, flow)
    in_segments = r.speaks_tcp or rud.is_used(r)
    start = segment * r.settings.payload if in_segments else f.sent
    payload = min(r.settings.payload, f.size - start)
    packet = ports.new_packet(r, state.DATA, flow, payload + r.settings.data_header)
    k = r.packets[packet]
    k.upto = segment
    departs = f.sent < f.size and start + payload == f.size
    f.sent = max(f.sent, start + payload)
    if rud.is_used(r):
        k.hop = r.ways[f.ways + rud.send(r, flow, packet)].data
    else:
        k.hop = r.ways[ports.next_way(r, flow)].data
    k.rank = f.rank
    now = r.agenda.counts[0].now
    k.stamp = now
    f.last_size = k.size
    if f.rate == p.rate:
        f.next_at = now + time_on_wire(r, port, k.size)
    else:
        f.next_at = now + time_to_send(r, k.size, f.rate)
    hooks.on_send(r, flow, packet)
    if departs:
        _depart(r, flow, now + time_on_wire(r, port, k.size))
    return packet


@kernel
def _depart(r: Run, flow: int, at: int) -> None:
    """Record that a flow's last packet is sent first; its last bit leaves at tick ``at``."""
    r.flows[flow].departure = at
    r.departing[r.counts[0].n_departing] = flow
    r.counts[0].n_departing += 1
    stop_if(r, Stop.DEPARTURE)


@inlined
def stop_if(r: Run, what: int) -> None:
    """Stop the run after this tick if event ``what`` (see :class:`Stop`) is to stop it."""
    if r.counts[0].stop & what == what:
        r.agenda.counts[0].until = r.agenda.counts[0].now


@inlined
def _next_pair(r: Run, port: int) -> int:
    """Return the index of the port's next queue pair that may send, or NONE; drop ended ones."""
    p = r.ports[port]
    n, now = p.pairs, r.agenda.counts[0].now
    turn, ended = NONE, n
    for i in range(1, n + 1):
        at = i + p.served
        if at >= n:
            at = at - n if at < 2 * n else at % n
        flow = r.pairs[p.first_pair + at]
        f = r.flows[flow]
        if p.paused == 0 and _may_send(r, flow):
            if f.next_at <= now:
                turn = at
                break
        elif f.acked >= f.size:
            ended = min(ended, at)
    if ended < n:
        kept = ended
        for at in range(ended, n):
            flow = r.pairs[p.first_pair + at]
            if r.flows[flow].acked < r.flows[flow].size:
                if at == turn:
                    turn = kept
                r.pairs[p.first_pair + kept] = flow
                kept += 1
        p.pairs = kept
    return turn


@inlined
def _wake_later(r: Run, port: int) -> None:
    """Plan another look at a port's queue pairs when the first of them may send by its rate."""
    p = r.ports[port]
    now = r.agenda.counts[0].now
    if p.wake_number >= 0 and not has_passed(r.agenda, p.wake_time, p.wake_number):
        return
    first = NEVER
    for at in range(p.pairs):
        flow = r.pairs[p.first_pair + at]
        f = r.flows[flow]
        if r.settings.wake != Wake.ALL:
            if f.sent == f.size:
                continue
            if r.settings.wake == Wake.ABLE and _window_full(r, flow):
                continue
        first = min(first, f.next_at)
    if now < first < NEVER:
        p.wake_time = first
        p.wake_number = plan(r.agenda, first, state.WAKE | port << state.KIND_BITS)


@inlined
def set_rate(r: Run, flow: int, rate: int) -> None:
    """Set a flow's rate, at most its link's, and its window if windows follow rates."""
    f = r.flows[flow]
    f.rate = min(rate, f.line_rate)
    if f.window > 0 and r.settings.vary_window:
        f.allowed = max(f.window * f.rate // f.line_rate, 1)


@inlined
def change_rate(r: Run, flow: int, rate: int) -> None:
    """Change a flow's rate during a run, and the tick at which it may send again."""
    f = r.flows[flow]
    f.next_at += time_to_send(r, f.last_size, rate) - time_to_send(r, f.last_size, f.rate)
    set_rate(r, flow, rate)
    p = r.ports[f.port]
    waits = p.wake_number >= 0 and not has_passed(r.agenda, p.wake_time, p.wake_number)
    if waits and f.next_at < p.wake_time:
        p.wake_time = max(f.next_at, r.agenda.counts[0].now)
        p.wake_number = plan(r.agenda, p.wake_time, state.WAKE | f.port << state.KIND_BITS)


@inlined
def start_timer(r: Run, flow: int, timer: int, at: int) -> None:
    """Start a flow's timer (0, 1 or 2), which expires at tick ``at``."""
    number = plan_timer(r.agenda, at, state.TIMER + timer | flow << state.KIND_BITS)
    r.timers[state.TIMERS * flow + timer] = number


# Packets, events, notes and random numbers that one event may need, each, beside the flows that it
# starts.
ROOM = 32
_KIND = (1 << state.KIND_BITS) - 1


@compiled
def admit(tables: Run, first: int, at: int, after: Longs, after_from: Longs) -> None:
    """Schedule the flows from ``first`` on; those without predecessors start after tick ``at``."""
    r = by_reference(tables)
    c = r.counts[0]
    c.n_edges = link_followers(r.flows, r.edges, c.n_edges, first, after, after_from)
    for flow in range(first, c.n_flows):
        if r.flows[flow].waits == 0:
            plan(r.agenda, at + r.flows[flow].after, state.START | flow << state.KIND_BITS)


@compiled
def run(tables: Run) -> int:
    """Simulate until no event is left (EMPTY), all are after ``until`` (LATER), or tables are FULL.

    Each event lets at most one port send.
    """
    r = by_reference(tables)
    a = r.agenda
    while True:
        n_events = _free_room(r) // ROOM
        if n_events <= 0:
            return state.FULL
        for _ in range(n_events):
            what = take(a)
            if what < 0:
                return what
            _prefetch_next(r, peek_event(a))
            kind, which = what & _KIND, what >> state.KIND_BITS
            port = NONE
            if kind == state.ARRIVE:
                port = _arrive(r, which)
            elif kind == state.SENT:
                port = which
            elif kind == state.WAKE:
                if r.ports[which].wake_number == a.counts[0].current or credits.give_credit(
                    r, which
                ):
                    port = which
            elif kind == state.START:
                port = _start(r, which)
            elif kind == state.RETRANSMIT and rud.is_used(r):
                port = rud.on_timer(r, which)
            elif kind == state.RETRANSMIT:
                if r.tcp[which].timer == a.counts[0].current:
                    port = tcp.on_timer(r, which)
            elif _is_idle_after(r, which, kind - state.TIMER):
                return EMPTY
            if port >= 0:
                _send_next(r, ports.link_of(r, port))


@kernel
def _free_room(r: Run) -> int:
    """Return the minimum of the free rows in the tables of packets, events and notes."""
    a, c = r.agenda, r.counts[0]
    notes = min(len(r.samples) - c.n_samples, len(r.pausings) - c.n_pausings)
    left = min(long(c.packets.left), a.counts[0].free.left - c.n_flows)
    return min(left, min(notes, len(r.draws) - c.drawn))


@kernel
def _is_idle_after(r: Run, flow: int, timer: int) -> bool:
    """Handle a flow's timer; return True if only timers are left that make nobody send."""
    a = r.agenda
    a.counts[0].timers -= 1
    if r.timers[state.TIMERS * flow + timer] == a.counts[0].current:
        hooks.on_timer(r, flow, timer)
    return len(a.events) - a.counts[0].free.left == a.counts[0].timers


@inlined
def _send_next(r: Run, port: int) -> None:
    """Send the next packet of a port unless it is busy."""
    if not ports.is_busy(r, port):
        packet = _pick(r, port)
        if packet >= 0:
            ports.send(r, port, packet)


@inlined
def _prefetch_next(r: Run, what: int) -> None:
    """Load the packet of the next event into the CPU cache."""
    if what < 0:
        return
    kind, which = what & _KIND, what >> state.KIND_BITS
    if kind == state.ARRIVE:
        prefetch(r.packets, r.ports[which].wire.head)
    elif kind == state.SENT:
        prefetch(r.packets, r.ports[which].queue.head)


@inlined
def _pick(r: Run, port: int) -> int:
    """Return a port's next packet: a pause frame, or of the first priority that may send."""
    if r.ports[port].frames.head != NONE:
        return ports.take_frame(r, port)
    at_host = r.ports[port].switch < 0
    for row in range(port, port + r.settings.priorities):
        packet = pick_at_host(r, row) if at_host else ports.pick_at_switch(r, row)
        if packet >= 0:
            return packet
    return NONE


@inlined
def _arrive(r: Run, port: int) -> int:
    """Handle a packet at the end of a port's link; return a port that may now send, or NONE."""
    packet = ports.take_from_wire(r, port)
    k = r.packets[packet]
    if k.kind >= state.PAUSE:
        paused, kind = k.flow, k.kind
        ports.free_packet(r, packet)
        ports.receive_frame(r, paused, kind)
        return paused if kind == state.RESUME else NONE
    k.hop += 1
    after = r.routes[k.hop]
    if after >= 0:
        after += k.rank
        if r.ports[after].switch >= 0:
            return ports.receive_at_switch(r, after, packet)
        # A host that passes it on, and has room for whatever comes.
        append(r.ports[after].queue, r.packets, packet)
        return after
    if k.kind < state.ACK:
        return _receive_data(r, packet)
    return _receive_ack(r, packet)


@inlined
def _receive_data(r: Run, packet: int) -> int:
    """Handle a data packet at its receiver; return the port that sends the ACK.

    The ACK carries the ECN mark and the telemetry, and the number of received bytes or TCP's
    report.
    """
    k = r.packets[packet]
    f = r.flows[k.flow]
    payload = k.size - r.settings.data_header
    if rud.is_used(r):
        flow = long(k.flow)
        port = rud.receive(r, flow, packet)
        if f.received == f.size and f.arrival < 0:
            _note_arrival(r, flow)
        return port
    if r.speaks_tcp:
        tcp.receive(r, k.flow, packet, payload)
    else:
        f.received += payload
        k.upto = f.received
    if f.received == f.size and f.arrival < 0:
        _note_arrival(r, k.flow)
    return ports.reply(r, long(k.flow), packet, state.ACK)


@inlined
def _receive_ack(r: Run, packet: int) -> int:
    """Handle an ACK at its sender; return the port of the sender."""
    k = r.packets[packet]
    flow = k.flow
    f = r.flows[flow]
    if rud.is_used(r) and k.kind != state.ACK:
        if k.kind == state.NACK:
            rud.on_nack(r, flow, packet)
        else:
            credits.receive_credit(r, flow, packet)
        ports.free_packet(r, packet)
        return f.port
    if rud.is_used(r):
        rud.on_ack(r, flow, packet)
    elif r.speaks_tcp:
        tcp.on_ack(r, flow, packet)
    else:
        f.acked = max(f.acked, k.upto)
    if f.acked >= f.size and f.end < 0:
        _note_end(r, flow)
    if k.marked:
        hooks.on_mark(r, flow, packet)
    hooks.on_ack(r, flow, packet)
    ports.free_packet(r, packet)
    return f.port


@kernel
def _note_arrival(r: Run, flow: int) -> None:
    """Record that the receiver has the last byte of a flow."""
    r.flows[flow].arrival = r.agenda.counts[0].now
    r.arrived[r.counts[0].n_arrived] = flow
    r.counts[0].n_arrived += 1
    stop_if(r, Stop.ARRIVAL)
    if r.settings.after_arrival:
        _release(r, flow)


@kernel
def _note_end(r: Run, flow: int) -> None:
    """Record that the sender of a flow knows that all its bytes have arrived."""
    c = r.counts[0]
    r.flows[flow].end = r.agenda.counts[0].now
    for timer in range(state.TIMERS):
        r.timers[state.TIMERS * flow + timer] = NONE
    hooks.on_end(r, flow, 0)
    c.n_ended += 1
    r.acknowledged[c.n_acknowledged] = flow
    c.n_acknowledged += 1
    if c.n_ended == c.n_flows:
        stop_if(r, Stop.ARRIVAL)  # the remaining events, such as timers, have no effect
    stop_if(r, Stop.ACKNOWLEDGED)
    if not r.settings.after_arrival:
        _release(r, flow)


@kernel
def _release(r: Run, flow: int) -> None:
    """Plan the start of the flows that waited for this flow and for no other unfinished one."""
    f, now = r.flows[flow], r.agenda.counts[0].now
    f.done = 1
    edge = long(f.followers)
    while edge >= 0:
        follower = r.edges[edge].follower
        r.flows[follower].waits -= 1
        if r.flows[follower].waits == 0:
            plan(r.agenda, now + r.flows[follower].after, state.START | follower << state.KIND_BITS)
        edge = long(r.edges[edge].next)


@inlined
def _start(r: Run, flow: int) -> int:
    f, now = r.flows[flow], r.agenda.counts[0].now
    f.start = now
    f.next_at = now
    rud.start(r, flow)
    hooks.on_start(r, flow, 0)
    p = r.ports[f.port]
    r.pairs[p.first_pair + p.pairs] = flow
    p.pairs += 1
    return f.port
