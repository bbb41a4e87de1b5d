"""The flow kernel's loop: rates change when a flow starts or has sent its last byte."""

import numpy as np

from dimsweep.engine.compiler import compiled, kernel
from dimsweep.engine.kernels.core.following import link
from dimsweep.engine.kernels.core.heap import plan, take_first
from dimsweep.engine.kernels.flow.shares import join, leave, share
from dimsweep.engine.kernels.flow.tables import ARRIVES, MOVES, STARTS, Flows
from dimsweep.engine.lower.program import Longs


@compiled
def admit(f: Flows, first: int, at: int, after: Longs, after_from: Longs) -> None:
    """Take in the flows from ``first`` on; those that wait for none start from ``at`` on."""
    f.counts[0].n_edges = link(f.flows, f.edges, f.counts[0].n_edges, first, after, after_from)
    for number in range(first, f.counts[0].n_flows):
        if f.flows[number].waits == 0:
            plan(f.flows, f.planned, number, at + f.flows[number].after)


@compiled
def share_now(f: Flows) -> None:
    """Give all flows their rates, as if all moved."""
    for number in range(f.counts[0].n_flows):
        join(f, number, 0)
    share(f, 0)


@compiled
def run(f: Flows) -> None:
    """Simulate until nothing moves, or what happens next is after UNTIL.

    Rates are found anew when time goes on, so that flows may be added after what has happened.
    """
    counts = f.counts[0]
    while f.planned[0] + counts.n_changed > 0:
        if f.planned[0] == 0 or f.flows[f.planned[1]].due > counts.now:
            if counts.now >= counts.until:
                break
            if counts.n_changed > 0:
                share(f, counts.now)
                continue
            if f.flows[f.planned[1]].due > counts.until:
                break
        counts.now = f.flows[f.planned[1]].due
        _happen(f, take_first(f.flows, f.planned), counts.now)


@kernel
def _happen(f: Flows, number: int, now: int) -> None:
    """A planned flow starts, has sent its last byte, or this arrives."""
    flow = f.flows[number]
    if flow.stage == STARTS:
        flow.start = now
        join(f, number, now)
        return
    if flow.stage == MOVES:
        leave(f, number)
        flow.stage = ARRIVES
        plan(f.flows, f.planned, number, now + _delay(f, number))
        return
    flow.end = now
    flow.done = 1
    f.counts[0].n_ended += 1
    f.arrived[f.counts[0].n_arrived] = number
    f.counts[0].n_arrived += 1
    if f.counts[0].stop:
        f.counts[0].until = now
    edge = flow.followers + 0
    while edge >= 0:
        follower = f.edges[edge].follower + 0
        f.flows[follower].waits -= 1
        if f.flows[follower].waits == 0:
            plan(f.flows, f.planned, follower, now + f.flows[follower].after)
        edge = f.edges[edge].next + 0


@kernel
def _delay(f: Flows, number: int) -> int:
    """Ticks that the last byte of a flow travels, in the mean over its ways."""
    delay, of_shares = 0, 0.0
    for k in range(f.flows[number].route, f.flows[number].route_end):
        if len(f.shares):
            of_shares += f.links[f.routes[k]].delay * f.shares[k]
        else:
            delay += f.links[f.routes[k]].delay
    return delay + int(np.rint(of_shares))
