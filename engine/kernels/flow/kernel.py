"""The flow kernel's loop: rates change when a flow starts or has sent its last byte."""

import numpy as np

from engine.kernels.flow.compile import compiled, kernel
from engine.kernels.flow.shares import share
from engine.kernels.flow.tables import (
    N_ARRIVED,
    N_EDGES,
    N_ENDED,
    N_FLOWS,
    N_MOVING,
    N_PLANNED,
    NOW,
    STOP,
    UNTIL,
    Flows,
)
from engine.kernels.packet.following import link
from engine.lower.program import Longs

_NOTHING = 1e-6  # bytes


@compiled
def admit(f: Flows, first: int, at: int, after: Longs, after_from: Longs) -> None:
    """Take in the flows from ``first`` on; those that wait for none start from ``at`` on."""
    f.counts[N_EDGES] = link(f.flows, f.edges, f.counts[N_EDGES], first, after, after_from)
    for flow in range(first, f.counts[N_FLOWS]):
        if f.flows[flow].waits == 0:
            _plan(f, flow, at + f.flows[flow].after)


@compiled
def run(f: Flows) -> None:
    """Simulate until nothing moves, or what happens next is after UNTIL."""
    while f.counts[N_PLANNED] + f.counts[N_MOVING] > 0:
        tick = _next_tick(f)
        if tick > f.counts[UNTIL]:
            break
        changed = _move(f, tick)
        while f.counts[N_PLANNED] > 0 and f.flows[f.planned[0]].due == tick:
            changed |= _happen(f, _next_planned(f))
        if changed:
            share(f)


@kernel
def _next_tick(f: Flows) -> int:
    """When the next flow starts, arrives, or has sent its last byte."""
    soonest = np.inf
    for i in range(f.counts[N_MOVING]):
        flow = f.flows[f.moving[i]]
        soonest = min(soonest, flow.left / flow.rate)
    tick = np.iinfo(np.int64).max
    if soonest < np.inf:
        tick = f.counts[NOW] + np.int64(np.ceil(soonest - _NOTHING))
    if f.counts[N_PLANNED] > 0:
        tick = min(tick, f.flows[f.planned[0]].due)
    return tick


@kernel
def _move(f: Flows, tick: int) -> bool:
    """Send until ``tick``; returns whether a flow has sent its last byte."""
    step = tick - f.counts[NOW]
    f.counts[NOW] = tick
    kept = 0
    for i in range(f.counts[N_MOVING]):
        number = f.moving[i]
        flow = f.flows[number]
        flow.left -= flow.rate * step
        # What is due within this tick is sent in it.
        if flow.left <= max(_NOTHING, flow.rate * _NOTHING):
            flow.arrives = 1
            _plan(f, number, tick + _delay(f, number))
        else:
            f.moving[kept] = number
            kept += 1
    ended = kept < f.counts[N_MOVING]
    f.counts[N_MOVING] = kept
    return ended


@kernel
def _delay(f: Flows, number: int) -> int:
    """Ticks that the last byte of a flow travels."""
    delay = 0
    for k in range(f.flows[number].route, f.flows[number].route_end):
        delay += f.delays[f.routes[k]]
    return delay


@kernel
def _happen(f: Flows, number: int) -> bool:
    """A planned flow starts, or its last byte arrives; returns whether rates change."""
    flow, now = f.flows[number], f.counts[NOW]
    if not flow.arrives:
        flow.start = now
        f.moving[f.counts[N_MOVING]] = number
        f.counts[N_MOVING] += 1
        return True
    flow.end = now
    flow.done = 1
    f.counts[N_ENDED] += 1
    f.arrived[f.counts[N_ARRIVED]] = number
    f.counts[N_ARRIVED] += 1
    if f.counts[STOP]:
        f.counts[UNTIL] = now
    edge = np.int64(flow.followers)
    while edge >= 0:
        follower = f.edges[edge].follower
        f.flows[follower].waits -= 1
        if f.flows[follower].waits == 0:
            _plan(f, follower, now + f.flows[follower].after)
        edge = np.int64(f.edges[edge].next)
    return False


@kernel
def _plan(f: Flows, number: int, due: int) -> None:
    """Put a flow into the heap of what is planned."""
    f.flows[number].due = due
    at = f.counts[N_PLANNED]
    f.counts[N_PLANNED] = at + 1
    while at > 0:
        above = (at - 1) >> 1
        if not _before(f, number, f.planned[above]):
            break
        f.planned[at] = f.planned[above]
        at = above
    f.planned[at] = number


@kernel
def _next_planned(f: Flows) -> int:
    first = f.planned[0]
    n = f.counts[N_PLANNED] - 1
    f.counts[N_PLANNED] = n
    moved, at = f.planned[n], 0
    while 2 * at + 1 < n:
        below = 2 * at + 1
        if below + 1 < n and _before(f, f.planned[below + 1], f.planned[below]):
            below += 1
        if not _before(f, f.planned[below], moved):
            break
        f.planned[at] = f.planned[below]
        at = below
    f.planned[at] = moved
    return first


@kernel
def _before(f: Flows, one: int, other: int) -> bool:
    if f.flows[one].due != f.flows[other].due:
        return f.flows[one].due < f.flows[other].due
    return one < other
