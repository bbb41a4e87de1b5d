"""Ports: queues, pause frames, ECN marks, telemetry, and a switch's shared buffer.

**The buffer.**  Packets are charged to the port by which they came in.  Beyond a reserve they take
from the buffer that all ports share, up to a dynamic threshold, the free share / 2^shift (Choudhury
and Hahne, 1998).  Packets that still arrive while the pause frame travels go into the port's
headroom.  A switch that does not pause drops, or trims, packets for a port whose queue is as long
as that threshold; it has no reserves.
"""

from typing import Any

from dimsweep.engine.kernels.core import queues
from dimsweep.engine.kernels.core.agenda import has_passed, next_number, plan_numbered
from dimsweep.engine.kernels.core.compiling import long, prefetch, where_used
from dimsweep.engine.kernels.core.queues import append, take_first
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.packet import state
from dimsweep.engine.kernels.packet.state import Run, inlined, kernel


@inlined
def threshold(r: Run, port: int) -> int:
    """Return the bytes beyond its reserve that a port may hold before it pauses its peer."""
    switch = r.switches[r.ports[port].switch]
    return (switch.shared - switch.used) >> r.ports[port].shift


@inlined
def has_room(r: Run, port: int, size: int) -> bool:
    """Return whether a packet may queue at ``port`` of a switch that drops packets."""
    switch, p = r.switches[r.ports[port].switch], r.ports[port]
    free = switch.shared - switch.used
    if p.egress + size > p.room:
        return False
    return size <= free and p.egress < (free >> p.shift if p.shift >= 0 else free << -p.shift)


@inlined
def _beyond_reserve(r: Run, port: int) -> int:
    return max(r.ports[port].ingress - r.settings.reserve, 0)


@inlined
def can_admit(r: Run, port: int, size: int) -> bool:
    """Return whether the buffer has room for a packet that came in by ``port``."""
    p = r.ports[port]
    return p.over + size <= p.headroom or _beyond_reserve(r, port) + size <= threshold(r, port)


@inlined
def admit(r: Run, port: int, size: int) -> None:
    """Charge a packet to the buffer of ``port``, by which it came in."""
    p = r.ports[port]
    beyond = p.ingress + size - r.settings.reserve
    if beyond <= 0:
        p.ingress += size
    elif beyond > threshold(r, port):
        p.over += size
    else:
        p.ingress += size
        r.switches[p.switch].used += min(size, beyond)


@inlined
def release(r: Run, port: int, size: int) -> None:
    """Release the buffer space of a departing packet that came in by ``port``."""
    p = r.ports[port]
    from_over = min(p.over, size)
    from_shared = min(size - from_over, _beyond_reserve(r, port))
    p.over -= from_over
    p.ingress -= size - from_over
    r.switches[p.switch].used -= from_shared


@inlined
def must_pause(r: Run, port: int) -> bool:
    """Return whether a port must pause its peer."""
    p = r.ports[port]
    return p.pausing == 0 and (p.over > 0 or _beyond_reserve(r, port) >= threshold(r, port))


@inlined
def may_resume(r: Run, port: int) -> bool:
    """Return whether a port may send its paused peer a resume frame."""
    p = r.ports[port]
    if p.pausing == 0 or p.over > 0:
        return False
    beyond = _beyond_reserve(r, port)
    return beyond == 0 or beyond + r.settings.resume_below <= threshold(r, port)


@inlined
def link_of(r: Run, port: int) -> int:
    """Return the first of a port's rows (one per priority), which has the state of its link."""
    n = r.settings.priorities
    return port if n == 1 else port - port % n


@inlined
def new_packet(r: Run, kind: int, flow: int, size: int) -> int:
    """Take a packet from the free list, and return its number."""
    packet = queues.take_free(r.counts[0].packets, r.packets)
    record = r.packets[packet]
    record.kind = kind
    record.flow = flow
    record.size = size
    record.rank = 0
    record.marked = 0
    record.hops = 0
    return packet


@inlined
def free_packet(r: Run, packet: int) -> None:
    """Return a packet to the free list."""
    queues.put_free(r.counts[0].packets, r.packets, packet)


@inlined
def draw(r: Run) -> float:
    """Return the run's next random number."""
    number = r.counts[0].drawn
    r.counts[0].drawn = number + 1
    return r.draws[number]


@inlined
def next_way(r: Run, flow: int) -> int:
    """Return the route (index in Run.ways) of a flow's next packet; routes are used in turn."""
    f = r.flows[flow]
    turn = f.turn
    f.turn = turn + 1 if turn + 1 < f.n_ways else 0
    return f.ways + turn


@inlined
def reply(r: Run, flow: int, packet: int, kind: int) -> int:
    """Turn a packet into an answer to its sender; return the port that sends it."""
    k, f = r.packets[packet], r.flows[flow]
    k.kind = kind
    k.rank = f.ack_rank
    k.size = r.settings.ack_size
    k.hop += 1
    append(r.ports[f.host].queue, r.packets, packet)
    return long(f.host)


@inlined
def time_to_send(r: Run, size: int, rate: int) -> int:
    """Return the ticks to send ``size`` bytes at ``rate``, rounded half up."""
    return (16 * size * r.settings.ticks + rate) // (2 * rate)


@inlined
def time_on_wire(r: Run, port: int, size: int) -> int:
    """Return the ticks that a packet of ``size`` bytes takes on the port's link."""
    p = r.ports[port]
    if size == r.settings.ack_size:
        return p.ack_time
    if size != p.last_size:
        p.last_size = size
        p.last_time = time_to_send(r, size, p.rate)
    return p.last_time


@inlined
def is_busy(r: Run, port: int) -> bool:
    """Return whether the port is sending; if so, it will check its queue at the end."""
    p = r.ports[port]
    if p.number < 0 or has_passed(r.agenda, p.until, p.number):
        return False
    if p.planned == 0:
        p.planned = 1
        plan_numbered(r.agenda, p.until, p.number, state.SENT | port << state.KIND_BITS)
    return True


@inlined
def send(r: Run, port: int, packet: int) -> None:
    """Put ``packet`` on the wire.

    The end of the transmission is an event only if another packet waits for it.
    """
    p = r.ports[port]
    now = r.agenda.counts[0].now
    size = r.packets[packet].size
    p.sent += size
    p.until = now + time_on_wire(r, port, size)
    p.number = next_number(r.agenda)
    p.planned = p.frames.head != NONE or _is_awaited(r, port)
    if p.planned:
        plan_numbered(r.agenda, p.until, p.number, state.SENT | port << state.KIND_BITS)
    k = r.packets[packet]
    k.time = p.until + p.delay
    k.number = next_number(r.agenda)
    k.came = p.back + k.rank
    if p.wire.head == NONE:
        plan_numbered(r.agenda, k.time, k.number, state.ARRIVE | port << state.KIND_BITS)
    append(p.wire, r.packets, packet)
    if p.watched:
        _note_sample(r, port)


@inlined
def _is_awaited(r: Run, port: int) -> bool:
    """Return whether a packet, or a queue pair with data, waits for the port's link."""
    for row in range(port, port + r.settings.priorities):
        if r.ports[row].queue.head != NONE or r.ports[row].pairs > 0:
            return True
    return False


@inlined
def take_from_wire(r: Run, port: int) -> int:
    """Return the packet that arrives, and plan the arrival of the next one on the same link.

    Each link therefore has at most one planned event, however many packets are on it.
    """
    p = r.ports[port]
    packet = take_first(p.wire, r.packets)
    after: Any = long(p.wire.head)
    if after != NONE:
        k = r.packets[after]
        plan_numbered(r.agenda, k.time, k.number, state.ARRIVE | port << state.KIND_BITS)
        prefetch(r.packets, k.next)
        if len(r.telemetry) > 0:  # have what all hops have written ready when the packet comes
            for hop in range(0, state.HOPS, 2):
                prefetch(r.telemetry, after * state.HOPS + hop)
    return packet


@inlined
def take_queued(r: Run, port: int) -> int:
    """Take the first data packet or ACK from the queue of ``port``."""
    p = r.ports[port]
    packet = take_first(p.queue, r.packets)
    prefetch(r.packets, p.queue.head)
    return packet


@inlined
def take_frame(r: Run, port: int) -> int:
    """Take the next pause or resume frame, which precedes all other packets."""
    return take_first(r.ports[port].frames, r.packets)


@inlined
def pick_at_switch(r: Run, port: int) -> int:
    """Take the first packet of a switch port's row (a priority); NONE if empty or paused."""
    p = r.ports[port]
    if p.queue.head == NONE or p.paused:
        return NONE
    packet = take_queued(r, port)
    _leave_switch(r, port, packet)
    return packet


@inlined
def _leave_switch(r: Run, port: int, packet: int) -> None:
    """Release the buffer of a departing packet, and write its ECN mark and telemetry."""
    k, p = r.packets[packet], r.ports[port]
    if r.settings.pauses:
        release(r, k.came, k.size)
    else:
        r.switches[p.switch].used -= k.size
    p.egress -= k.size
    if p.egress > p.mark_from and _draw_mark(r, port) and k.kind == state.DATA:
        k.marked = 1
    if r.settings.pauses and may_resume(r, k.came):
        _send_frame(r, k.came, state.RESUME, NONE)
    if k.kind == state.DATA:
        p.data += 1
        p.data_bytes += k.size
        p.marked += k.marked
        if len(r.telemetry) > 0 and k.hops < state.HOPS:
            hop, link = r.telemetry[packet, k.hops], r.ports[link_of(r, port)]
            hop.time = r.agenda.counts[0].now
            hop.bytes = link.sent
            hop.queue = _queued_bytes(r, link_of(r, port))
            hop.rate = p.rate
            k.hops += 1


@inlined
def _queued_bytes(r: Run, link: int) -> int:
    """Return the bytes that wait for a link, pause frames included."""
    n_bytes, frame = 0, long(r.ports[link].frames.head)
    while frame != NONE:
        n_bytes += r.settings.frame_size
        frame = long(r.packets[frame].next)
    for row in range(link, link + r.settings.priorities):
        n_bytes += r.ports[row].egress
    return n_bytes


@inlined
def _draw_mark(r: Run, port: int) -> bool:
    p = r.ports[port]
    if p.egress > p.mark_all:
        return True
    chance = p.mark_most * (p.egress - p.mark_from) / (p.mark_all - p.mark_from)
    return draw(r) < chance


@inlined
def receive_at_switch(r: Run, port: int, packet: int) -> int:
    """Queue a packet at its output ``port`` if the buffer has room; return the port or NONE."""
    k, p = r.packets[packet], r.ports[port]
    came = long(k.came)
    if r.settings.pauses:
        if not can_admit(r, came, k.size):
            r.ports[came].dropped += 1
            free_packet(r, packet)
            return NONE
        admit(r, came, k.size)
    else:
        if not has_room(r, port, k.size):
            if r.settings.trims and k.kind == state.DATA:
                return _trim(r, port, packet)
            p.dropped += 1
            free_packet(r, packet)
            return NONE
        r.switches[p.switch].used += k.size
    p.egress += k.size
    if p.egress > p.most:
        p.most = p.egress
    if p.watched:
        _note_sample(r, port)
    if r.settings.pauses and must_pause(r, came):
        _send_frame(r, came, state.PAUSE, port)
    append(p.queue, r.packets, packet)
    return port


@kernel
def _trim(r: Run, port: int, packet: int) -> int:
    """Trim the payload of a packet without room, or of the last one queued, with equal chances.

    Random choice keeps synchronised flows from losing packets in step (Handley et al., NDP, SIGCOMM
    2017, section 3.2).  The header continues in the highest priority.  Return the port, or NONE if
    even the header has no room.
    """
    k, p = r.packets[packet], r.ports[port]
    is_last = draw(r) < 0.5
    if p.queue.head != NONE and is_last:
        last = r.packets[p.queue.tail]
        p.egress += k.size - last.size
        r.switches[p.switch].used += k.size - last.size
        _swap_packets(r, packet, p.queue.tail)
    p.trimmed += 1
    k.kind = state.TRIMMED
    k.size = r.settings.ack_size
    k.rank = 0
    k.last_hop = r.routes[k.hop + 1] < 0
    first = link_of(r, port)
    if not has_room(r, first, k.size):
        p.dropped += 1
        free_packet(r, packet)
        return NONE
    r.switches[p.switch].used += k.size
    r.ports[first].egress += k.size
    append(r.ports[first].queue, r.packets, packet)
    return first


@inlined
def _swap_packets(r: Run, one: int, other: int) -> None:
    """Swap the contents of two data packets."""
    a, b = r.packets[one], r.packets[other]
    a.upto, b.upto = b.upto, a.upto
    a.stamp, b.stamp = b.stamp, a.stamp
    a.flow, b.flow = b.flow, a.flow
    a.size, b.size = b.size, a.size
    a.hop, b.hop = b.hop, a.hop
    a.rank, b.rank = b.rank, a.rank
    a.marked, b.marked = b.marked, a.marked
    a.entropy, b.entropy = b.entropy, a.entropy
    a.asks, b.asks = b.asks, a.asks
    a.sendings, b.sendings = b.sendings, a.sendings
    _swap_credits(r, one, other)


@where_used("credits")
@inlined
def _swap_credits(r: Run, one: int, other: int) -> None:
    a, b = r.reports[one], r.reports[other]
    a.credit, b.credit = b.credit, a.credit


@kernel
def _note_sample(r: Run, port: int) -> None:
    link = link_of(r, port)
    sample = r.samples[r.counts[0].n_samples]
    sample.time = r.agenda.counts[0].now
    sample.port = link
    sample.sent = r.ports[link].sent
    sample.queue = 0
    sample.marked = 0
    sample.paused = 0
    for row in range(link, link + r.settings.priorities):
        p = r.ports[row]
        sample.queue += p.egress
        sample.marked += p.marked
        sample.paused |= p.paused
    r.counts[0].n_samples += 1


@kernel
def _send_frame(r: Run, port: int, kind: int, queue: int) -> None:
    """Send a pause frame, due to a packet at ``queue``, or a resume frame to a port's peer."""
    p = r.ports[port]
    pausing = r.pausings[r.counts[0].n_pausings]
    pausing.time = r.agenda.counts[0].now
    pausing.port = p.back
    pausing.queue = queue
    r.counts[0].n_pausings += 1
    p.pausing = kind == state.PAUSE
    r.counts[0].drawn += r.settings.draws_per_frame
    frame, link = new_packet(r, kind, p.back, r.settings.frame_size), link_of(r, port)
    append(r.ports[link].frames, r.packets, frame)
    if not is_busy(r, link):
        # A frame waits for no data, so nothing else can be sent first: no recursion is needed.
        send(r, link, take_frame(r, link))


@inlined
def receive_frame(r: Run, port: int, kind: int) -> None:
    """Handle a pause or resume frame that ``port`` received."""
    p = r.ports[port]
    now = r.agenda.counts[0].now
    if kind == state.PAUSE:
        p.pauses += 1
        if p.paused == 0:
            p.paused_since = now
        p.paused = 1
    else:
        p.resumes += 1
        if p.paused:
            p.paused_ticks += now - p.paused_since
        p.paused = 0
    if p.watched:
        _note_sample(r, port)
