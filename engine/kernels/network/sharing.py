"""Messages that share links with others: when they set out, and when they are there."""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.network.clock import now_of
from dimsweep.engine.kernels.network.state import Wires


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
        link.n_bytes += p.n_bytes / w.routes[route].n_ways
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
