"""Messages carried by flows or packets, which share links, in step with the clock.

See :mod:`engine.kernels.reference.carried` and :mod:`engine.kernels.flow`.  The flow of a parcel
has the parcel's number.  Packets are another kernel's, with which this one takes turns
(:mod:`engine.kernels.network.packets`).
"""

import numpy as np

from engine.compiler import compiled, kernel
from engine.kernels.carriers.fabric import PARTS
from engine.kernels.core.by_reference import by_reference
from engine.kernels.core.none import LONGEST
from engine.kernels.flow.heap import take_first
from engine.kernels.flow.shares import join, leave, share
from engine.kernels.flow.tables import N_PLANNED
from engine.kernels.network.clock import at_once, later, next_instant, now_of
from engine.kernels.network.state import (
    BY_FLOWS,
    BY_LINKS,
    BY_PACKETS,
    DEPARTED,
    LANDED,
    N_MESSAGES,
    OVERDUE,
    UNDER_WAY,
    Clock,
    Wires,
)
from engine.kernels.packet.agenda import NOW
from engine.lower.program import Ints, Longs


@kernel
def hand_over(w: Wires, parcel: int, route: int) -> None:
    """Hand over a parcel to what carries it; it is the message that was counted last."""
    p, number, now = w.parcels[parcel], w.clock.counts[N_MESSAGES] - 1, now_of(w.clock)
    message = w.messages[number]
    message.n_bytes, message.start, message.parcel = p.n_bytes, now, parcel
    message.entry, message.route = p.entry, route
    w.clock.counts[UNDER_WAY] += 1
    if w.settings.carried == BY_PACKETS:
        w.ports[w.ports[p.port].place].leaving += 1
    if w.settings.carried == BY_FLOWS:
        flow = w.flows.flows[parcel]
        flow.left = max(np.rint(PARTS * p.n_bytes), 1.0)
        flow.route, flow.route_end, flow.number = p.first, p.last + 1, number
        join(w.flows, parcel, now)
    for hop in range(p.first, p.last + 1):
        link = w.links[w.hops[hop]]
        link.n_bytes += p.n_bytes / w.routes[route].n_ways
        link.busy -= 0 if link.queue else now
        link.queue += 1
        link.longest = max(link.longest, link.queue - 1)


@kernel
def end_on_links(w: Wires, parcel: int) -> None:
    """The last byte of a parcel has left all its links."""
    p, now = w.parcels[parcel], now_of(w.clock)
    w.clock.counts[UNDER_WAY] -= 1
    if w.settings.carried == BY_FLOWS:
        w.messages[w.flows.flows[parcel].number].arrival = now + p.way
    for hop in range(p.first, p.last + 1):
        link = w.links[w.hops[hop]]
        link.queue -= 1
        link.busy += 0 if link.queue else now


@kernel
def carry(w: Wires) -> bool:
    """Go to the next instant at which something happens, or a flow ends; whether there is one.

    What has ended is there when all that was planned for the instant before has happened.
    """
    f = w.flows
    share(f, now_of(w.clock))
    if f.counts[N_PLANNED] == 0:
        return next_instant(w.clock, LONGEST)
    tick = f.flows[f.planned[0]].due + 0
    if next_instant(w.clock, tick) and now_of(w.clock) < tick:
        return True
    _go_to(w.clock, tick)
    while f.counts[N_PLANNED] > 0 and f.flows[f.planned[0]].due == tick:
        parcel = take_first(f)
        leave(f, parcel)
        at_once(w.clock, LANDED, parcel)
    return True


@compiled
def land(wires: Wires, time: int, parcels: Ints, departing: Ints, departures: Longs) -> None:
    """Go on to ``time``, at which the messages of some parcels are there, and it is known when
    those of others leave their ports."""
    w = by_reference(wires)
    # What leaves was known before whatever else happens at that time.
    for i in range(len(departing)):
        later(w.clock, departures[i] - now_of(w.clock), DEPARTED, departing[i])
    next_instant(w.clock, time)
    if len(parcels) or len(departing) or time == LONGEST:
        _go_to(w.clock, time)
    for parcel in parcels:
        at_once(w.clock, LANDED, parcel)


@kernel
def _go_to(c: Clock, time: int) -> None:
    """Go on, but not beyond what is planned."""
    c.agenda.counts[NOW] = time
    if time >= LONGEST:
        c.counts[OVERDUE] = 1


@kernel
def events_at_once(w: Wires) -> int:
    """How many events one instant may begin with, and one step plan."""
    carried = 0 if w.settings.carried == BY_LINKS else len(w.parcels)
    return len(w.clock.agenda.events) + w.settings.burst + carried


@kernel
def lacks_messages(w: Wires) -> bool:
    """Whether those of the next step may find no room."""
    if w.settings.carried == BY_LINKS:
        return False
    return w.clock.counts[N_MESSAGES] + w.settings.need > len(w.messages)


@kernel
def departures_to_plan(w: Wires) -> int:
    """How many departures may become known at once."""
    return w.clock.counts[UNDER_WAY] if w.settings.carried == BY_PACKETS else 0
