"""Parcels: how they are made and freed, what links are told of them, and who goes first."""

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core import pool
from dimsweep.engine.kernels.core.none import LONGEST
from dimsweep.engine.kernels.flow.shares import share_at
from dimsweep.engine.kernels.network.clock import now_of
from dimsweep.engine.kernels.network.state import Wires
from dimsweep.engine.kernels.phase.phase_time import whole

CLASS_BITS = 32  # of a parcel's precedence: its messages' class is above them


@inlined
def precedence_of(of: int, began: int) -> int:
    """What a parcel is put in order by: its class, and then a number: whoever began first goes
    first.  Number 0 of a class is what was suspended."""
    return of << CLASS_BITS | began + 1


@kernel
def new_parcel(w: Wires) -> int:
    return pool.pop(w.clock.counts[0].parcels, w.parcels)


@kernel
def free_parcel(w: Wires, parcel: int) -> None:
    pool.push(w.clock.counts[0].parcels, w.parcels, parcel)


@kernel
def let_go(w: Wires, parcel: int) -> None:
    """One of the things has happened to a parcel on one link that somebody waits for: all of it
    has left, it has begun to arrive, or what it feeds needs it no longer."""
    p = w.parcels[parcel]
    p.leaving -= 1
    if p.leaving == 0:
        free_parcel(w, parcel)


@kernel
def whole_ps(picoseconds: float) -> int:
    """Whole picoseconds, or more than a run may last."""
    return int(min(whole(picoseconds), float(LONGEST)))


@kernel
def note_span(w: Wires, start: int, end: int, place: int, entry: int) -> None:
    """Record when something was held, and for what."""
    span = w.spans[w.clock.counts[0].n_spans]
    w.clock.counts[0].n_spans += 1
    span.start, span.end, span.place, span.entry = start, end, place, entry


# --- where several share a link ------------------------------------------------------------------


@kernel
def set_out(w: Wires, parcel: int, route: int) -> int:
    """Note a message, the one that was counted last, on its links; its number."""
    p, number, now = w.parcels[parcel], w.clock.counts[0].n_messages - 1, now_of(w.clock)
    message = w.messages[number]
    message.n_bytes, message.start, message.parcel = p.n_bytes, now, parcel
    message.entry, message.route = p.entry, route
    w.clock.counts[0].under_way += 1
    for hop in range(p.first, p.last + 1):
        link = w.links[w.hops[hop]]
        link.n_bytes += p.n_bytes * share_at(w.flows.shares, hop)
        link.busy -= 0 if link.queue else now
        link.queue += 1
        link.longest = max(link.longest, link.queue - 1)
    return number


@kernel
def end_on_links(w: Wires, parcel: int) -> None:
    """The last byte of a message has left all its links."""
    p, now = w.parcels[parcel], now_of(w.clock)
    w.clock.counts[0].under_way -= 1
    for hop in range(p.first, p.last + 1):
        link = w.links[w.hops[hop]]
        link.queue -= 1
        link.busy += 0 if link.queue else now
