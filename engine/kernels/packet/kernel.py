"""The packet kernel: store-and-forward of every packet, event by event, compiled with Numba."""

from engine.kernels.packet.agenda import CURRENT, LEFT, NOW, TIMERS, plan, take
from engine.kernels.packet.compile import compiled, inlined, kernel
from engine.kernels.packet.dcqcn import on_end
from engine.kernels.packet.hosts import pick_at_host
from engine.kernels.packet.ports import (
    append,
    busy,
    free_packet,
    hear,
    pick_at_switch,
    receive_at_switch,
    send,
)
from engine.kernels.packet.state import (
    ACK,
    ARRIVE,
    DATA,
    DRAWN,
    ENDED,
    FINISHED,
    FREE_LEFT,
    FULL,
    KIND_BITS,
    N_PAUSINGS,
    N_SAMPLES,
    NONE,
    RESUME,
    SENT,
    START,
    STOPPED,
    STUCK,
    WAKE,
    Run,
)
from engine.kernels.packet.transports import on_ack, on_timer

_ROOM = 64  # packets and events that one event may need, beside the flows that it starts
_KIND = (1 << KIND_BITS) - 1


@compiled
def begin(r: Run) -> None:
    """Plan the flows that wait for no other."""
    for flow in range(len(r.flows)):
        if r.flows[flow].waits == 0:
            plan(r.agenda, r.flows[flow].after, START | flow << KIND_BITS)


@compiled
def run(r: Run) -> int:
    """Simulate until no event is left; returns the outcome.

    Whatever happens, happens so that one port may have something to send.
    """
    a = r.agenda
    while True:
        if (
            r.counts[FREE_LEFT] < _ROOM
            or a.counts[LEFT] < _ROOM + len(r.flows)
            or r.counts[DRAWN] + _ROOM > len(r.draws)
            or r.counts[N_SAMPLES] + _ROOM > len(r.samples)
            or r.counts[N_PAUSINGS] + _ROOM > len(r.pausings)
        ):
            return FULL
        what = take(a)
        if what < 0:
            break
        if a.counts[NOW] > r.settings.until:
            return STOPPED
        kind, which = what & _KIND, what >> KIND_BITS
        port = NONE
        if kind == ARRIVE:
            port = _arrive(r, which)
        elif kind == SENT:
            port = which
        elif kind == WAKE:
            if r.ports[which].wake_number == a.counts[CURRENT]:
                port = which
        elif kind == START:
            port = _start(r, which)
        else:
            a.counts[TIMERS] -= 1
            on_timer(r, which, kind)
            if len(a.events) - a.counts[LEFT] == a.counts[TIMERS]:
                break
        if port >= 0 and not busy(r, port):
            packet = pick_at_host(r, port) if r.ports[port].switch < 0 else pick_at_switch(r, port)
            if packet >= 0:
                send(r, port, packet)
    return FINISHED if r.counts[ENDED] == len(r.flows) else STUCK


@inlined
def _arrive(r: Run, packet: int) -> int:
    """The last bit of a packet has come to the end of a link."""
    k = r.packets[packet]
    if k.kind > ACK:
        port, kind = k.flow, k.kind
        free_packet(r, packet)
        hear(r, port, kind)
        return port if kind == RESUME else NONE
    came = r.ports[r.routes[k.hop]].back
    if r.ports[came].switch >= 0:
        k.hop += 1
        return receive_at_switch(r, r.routes[k.hop], came, packet)
    if k.kind == DATA:
        return _acknowledge(r, packet)
    return _acknowledged(r, packet)


@inlined
def _acknowledge(r: Run, packet: int) -> int:
    """The receiver sends the packet back as an ACK, with its mark and its telemetry.

    It says how many bytes have come, in whatever order.
    """
    k = r.packets[packet]
    f = r.flows[k.flow]
    f.received += k.size - r.settings.data_header
    k.kind = ACK
    k.size = r.settings.ack_size
    k.upto = f.received
    k.hop = k.back
    append(r, f.host, packet)
    return f.host


@inlined
def _acknowledged(r: Run, packet: int) -> int:
    """The sender learns of it, changes its rate, and may send more."""
    k = r.packets[packet]
    flow = k.flow
    f = r.flows[flow]
    f.acked = max(f.acked, k.upto)
    if f.acked >= f.size:
        _end(r, flow)
    on_ack(r, flow, packet)
    free_packet(r, packet)
    return f.port


@kernel
def _end(r: Run, flow: int) -> None:
    """A flow has ended; what waited for it and nothing else may start."""
    f, now = r.flows[flow], r.agenda.counts[NOW]
    f.end = now
    on_end(r, flow)
    r.counts[ENDED] += 1
    for i in range(r.follow_from[flow], r.follow_from[flow + 1]):
        follower = r.followers[i]
        r.flows[follower].waits -= 1
        if r.flows[follower].waits == 0:
            plan(r.agenda, now + r.flows[follower].after, START | follower << KIND_BITS)


@inlined
def _start(r: Run, flow: int) -> int:
    f, now = r.flows[flow], r.agenda.counts[NOW]
    f.start = now
    f.next_at = now
    p = r.ports[f.port]
    r.pairs[p.first_pair + p.pairs] = flow
    p.pairs += 1
    return f.port
