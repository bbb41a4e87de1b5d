"""Flows as carriers (:mod:`engine.kernels.flow`): they share links, in step with the clock.

See :mod:`engine.kernels.reference.carried`.  The flow of a parcel has the parcel's number.
"""

import numpy as np

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.carriers.fabric import PARTS
from dimsweep.engine.kernels.core.heap import take_first
from dimsweep.engine.kernels.flow.shares import join, leave, share
from dimsweep.engine.kernels.network.clock import at_once, go_to, go_to_next, next_instant, now_of
from dimsweep.engine.kernels.network.events import LANDED, WENT_ON
from dimsweep.engine.kernels.network.parcels import end_on_links, set_out
from dimsweep.engine.kernels.network.state import Wires


@kernel
def hand_over(w: Wires, parcel: int, route: int) -> None:
    """A parcel's flow begins; its rate is found when time goes on."""
    p, flow = w.parcels[parcel], w.flows.flows[parcel]
    flow.left = max(np.rint(PARTS * p.n_bytes), 1.0)
    flow.route, flow.route_end = p.first, w.routes[route].limits
    flow.number = set_out(w, parcel, route)
    join(w.flows, parcel, now_of(w.clock))


@kernel
def advance(w: Wires) -> int:
    """Go to the next instant at which something happens, or a flow ends.

    What has ended is there when all that was planned for the instant before has happened.
    """
    f = w.flows
    share(f, now_of(w.clock))
    if f.planned[0] == 0:
        return go_to_next(w.clock)
    tick = f.flows[f.planned[1]].due + 0
    if next_instant(w.clock, tick) and now_of(w.clock) < tick:
        return WENT_ON
    go_to(w.clock, tick)
    while f.planned[0] > 0 and f.flows[f.planned[1]].due == tick:
        parcel = take_first(f.flows, f.planned)
        leave(f, parcel)
        at_once(w.clock, LANDED, parcel)
    return WENT_ON


@kernel
def land(w: Wires, parcel: int) -> bool:
    """The last byte of a flow is there, but for its latencies, and has left only now."""
    end_on_links(w, parcel)
    arrival = now_of(w.clock) + w.parcels[parcel].way
    w.messages[w.flows.flows[parcel].number].arrival = arrival
    return True
