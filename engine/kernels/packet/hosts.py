"""A host's network card: which queue pair sends next, when it looks again, and what a transport may
do to it: set a flow's rate, and start its timers."""

from dimsweep.engine.kernels.core.agenda import passed, plan, plan_timer
from dimsweep.engine.kernels.core.none import NEVER, NONE
from dimsweep.engine.kernels.packet import hooks, rud, tcp
from dimsweep.engine.kernels.packet.compile import inlined, kernel
from dimsweep.engine.kernels.packet.inputs import Stop, Wake
from dimsweep.engine.kernels.packet.ports import first_of, new_packet, time_on_wire, time_to_send
from dimsweep.engine.kernels.packet.state import DATA, KIND_BITS, TIMER, TIMERS, WAKE, Run


@inlined
def _window_full(r: Run, flow: int) -> bool:
    f = r.flows[flow]
    return f.sent - f.acked >= f.allowed


@inlined
def _may_send(r: Run, flow: int) -> bool:
    """Whether the queue pair has something to send that its window allows."""
    if r.speaks_tcp:
        return tcp.may_send(r, flow)
    if rud.spoken(r):
        return rud.may_send(r, flow)
    return r.flows[flow].sent < r.flows[flow].size and not _window_full(r, flow)


@inlined
def pick_at_host(r: Run, port: int) -> int:
    """What a host sends next: an ACK, or else a packet of the queue pair whose turn it is."""
    p = r.ports[port]
    if p.paused == 0 and p.queue.head != NONE:
        return first_of(r, port)
    if p.pairs == 0:
        return NONE
    pair = _whose_turn(r, port)
    if pair < 0:
        _wake_later(r, port)
        return NONE
    p.served = pair
    flow = r.pairs[p.first_pair + pair]
    f = r.flows[flow]
    segment = tcp.next_segment(r, flow) if r.speaks_tcp else rud.next_packet(r, flow)
    in_segments = r.speaks_tcp or rud.spoken(r)
    start = segment * r.settings.payload if in_segments else f.sent + 0
    payload = min(r.settings.payload, f.size - start)
    packet = new_packet(r, DATA, flow, payload + r.settings.data_header)
    k = r.packets[packet]
    k.upto = segment
    departs = f.sent < f.size and start + payload == f.size
    f.sent = max(f.sent, start + payload)
    if rud.spoken(r):
        k.hop = r.ways[f.ways + rud.send(r, flow, packet)].data
    else:
        k.hop = r.ways[f.ways + f.turn].data
        f.turn = f.turn + 1 if f.turn + 1 < f.n_ways else 0
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
    """The last packet of a flow is sent for the first time; its last bit leaves then."""
    r.flows[flow].departure = at
    r.departing[r.counts[0].n_departing] = flow
    r.counts[0].n_departing += 1
    stop_at(r, Stop.DEPARTURE)


@inlined
def stop_at(r: Run, what: int) -> None:
    """No later events are taken, if that is to stop the run."""
    if r.counts[0].stop & what == what:
        r.agenda.counts[0].until = r.agenda.counts[0].now


@inlined
def _whose_turn(r: Run, port: int) -> int:
    """The place of the next queue pair that may send, or NONE; forgets those that have ended."""
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
    """Look again when the first queue pair may send by its rate."""
    p = r.ports[port]
    now = r.agenda.counts[0].now
    if p.wake_number >= 0 and not passed(r.agenda, p.wake_time, p.wake_number):
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
        p.wake_number = plan(r.agenda, first, WAKE | port << KIND_BITS)


@inlined
def set_rate(r: Run, flow: int, rate: int) -> None:
    """A queue pair's rate, at most its link's, and with it what its window allows."""
    f = r.flows[flow]
    f.rate = min(rate, f.line_rate)
    if f.window > 0 and r.settings.vary_window:
        f.allowed = max(f.window * f.rate // f.line_rate, 1)


@inlined
def change_rate(r: Run, flow: int, rate: int) -> None:
    """A new rate moves the time at which the queue pair may send again, and the card's alarm."""
    f = r.flows[flow]
    f.next_at += time_to_send(r, f.last_size, rate) - time_to_send(r, f.last_size, f.rate)
    set_rate(r, flow, rate)
    p = r.ports[f.port]
    waits = p.wake_number >= 0 and not passed(r.agenda, p.wake_time, p.wake_number)
    if waits and f.next_at < p.wake_time:
        p.wake_time = max(f.next_at, r.agenda.counts[0].now)
        p.wake_number = plan(r.agenda, p.wake_time, WAKE | f.port << KIND_BITS)


@inlined
def start_timer(r: Run, flow: int, timer: int, at: int) -> None:
    """Have a flow's timer run out at a tick, and no earlier; ``timer`` is 0, 1 or 2."""
    number = plan_timer(r.agenda, at, TIMER + timer | flow << KIND_BITS)
    r.timers[TIMERS * flow + timer] = number
