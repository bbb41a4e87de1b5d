"""Who carries messages: links, one at a time, or flows or packets, which share links.

A carrier is a module with the functions ``hand_over(wires, parcel, route)``: a parcel sets out;
``advance(wires)``: go to the next instant, WENT_ON, AT_END or ELSEWHERE; ``land(wires, parcel)``: a
parcel is there, and whether it has left only now.  All carriers are compiled into one kernel, which
asks at run time whose turn it is: by type there would be three kernels, each of which takes as long
to compile as this one.  One that lacks a function, or for which there is no case here, is an error
on import.
"""

import math
from typing import Any, NamedTuple

from dimsweep.engine.compiler import kernel
from dimsweep.engine.fidelity import Fidelity
from dimsweep.engine.kernels.network import by_flows, by_packets, links
from dimsweep.engine.kernels.network.clock import now_of
from dimsweep.engine.kernels.network.parcels import free_parcel, new_parcel
from dimsweep.engine.kernels.network.state import Wires


class Carrying(NamedTuple):
    """The compiled functions of a carrier."""

    hand_over: Any  # (wires, parcel, route): a parcel sets out
    advance: Any  # (wires) -> to the next instant: WENT_ON, AT_END or ELSEWHERE
    land: Any  # (wires, parcel) -> a parcel is there; whether it has left only now


CARRIERS = {
    Fidelity.MESSAGE: Carrying(links.hand_over, links.advance, links.land),
    Fidelity.FLOW: Carrying(by_flows.hand_over, by_flows.advance, by_flows.land),
    Fidelity.PACKET: Carrying(by_packets.hand_over, by_packets.advance, by_packets.land),
}
BY_LINKS, BY_FLOWS, BY_PACKETS = range(len(CARRIERS))  # Settings.carried


def _chosen(by_link: Any, by_flow: Any, by_packet: Any) -> Any:
    """A function of whichever carrier a run has."""

    @kernel
    def of_carrier(w: Wires, *arguments: int) -> Any:
        if w.settings.carried == BY_LINKS:
            return by_link(w, *arguments)
        if w.settings.carried == BY_FLOWS:
            return by_flow(w, *arguments)
        return by_packet(w, *arguments)

    return of_carrier


hand_over, advance, land = (_chosen(*each) for each in zip(*CARRIERS.values(), strict=True))


@kernel
def send(w: Wires, message: int) -> None:
    """Send a message, which its first parcel describes, over the route that this names, in as many
    parts as fit the smallest room on its way twice."""
    counts, p = w.clock.counts[0], w.parcels[message]
    number = p.first + 0
    route, n_bytes, parts = w.routes[number], p.n_bytes + 0.0, 1
    if route.room >= 0:
        parts = max(1, math.ceil(2 * n_bytes / route.room))
    if not counts.crowded:
        counts.n_messages += parts
        counts.crowded = counts.n_messages > w.settings.max_messages
    if counts.crowded:
        free_parcel(w, message)
        return
    p.n_bytes, p.tail, p.way = n_bytes / parts, now_of(w.clock), route.way
    p.first = p.hop = route.start
    p.last, p.whole = route.end - 1, message
    p.leaving = p.coming = parts
    for part in range(parts):
        parcel = message if part == 0 else new_parcel(w)
        if part > 0:
            w.parcels[parcel] = w.parcels[message]
        hand_over(w, parcel, number)
