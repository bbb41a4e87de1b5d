"""The flow kernel's loop: rates change when a flow starts or has sent its last byte."""

import numpy as np

from engine.kernels.flow.compile import compiled, kernel
from engine.kernels.flow.shares import share
from engine.kernels.flow.tables import (
    ARRIVING,
    ENDED,
    MOVING,
    N_ENDED,
    N_MOVING,
    N_PLANNED,
    NOW,
    WAITING,
    Flows,
)

_NOTHING = 1e-6  # bytes


@compiled
def run(f: Flows) -> bool:
    """Simulate until nothing moves; returns whether every flow has ended."""
    for flow in range(len(f.flows)):
        if f.flows[flow].waits == 0:
            _plan(f, flow, f.flows[flow].after)
    while f.counts[N_PLANNED] + f.counts[N_MOVING] > 0:
        changed = _move_on(f)
        while f.counts[N_PLANNED] > 0 and f.flows[f.planned[0]].due == f.counts[NOW]:
            changed |= _happen(f, _next_planned(f))
        if changed:
            share(f)
    return f.counts[N_ENDED] == len(f.flows)


@kernel
def _move_on(f: Flows) -> bool:
    """Go to the next tick at which something happens; returns whether a flow has left."""
    soonest = np.inf
    for i in range(f.counts[N_MOVING]):
        flow = f.flows[f.moving[i]]
        soonest = min(soonest, flow.left / flow.rate)
    now = f.counts[NOW]
    step = np.int64(np.ceil(soonest - _NOTHING)) if soonest < np.inf else np.int64(0)
    if f.counts[N_PLANNED] > 0:
        due = f.flows[f.planned[0]].due - now
        if soonest == np.inf or due < step:
            step = due
    f.counts[NOW] = now + step
    kept = 0
    for i in range(f.counts[N_MOVING]):
        number = f.moving[i]
        flow = f.flows[number]
        flow.left -= flow.rate * step
        # What is due within this tick is sent in it.
        if flow.left <= max(_NOTHING, flow.rate * _NOTHING):
            flow.state = ARRIVING
            _plan(f, number, f.counts[NOW] + flow.delay)
        else:
            f.moving[kept] = number
            kept += 1
    ended = kept < f.counts[N_MOVING]
    f.counts[N_MOVING] = kept
    return ended


@kernel
def _happen(f: Flows, number: int) -> bool:
    """A planned flow starts, or its last byte arrives; returns whether rates change."""
    flow, now = f.flows[number], f.counts[NOW]
    if flow.state == WAITING:
        flow.state = MOVING
        flow.start = now
        f.moving[f.counts[N_MOVING]] = number
        f.counts[N_MOVING] += 1
        return True
    flow.state = ENDED
    flow.end = now
    f.counts[N_ENDED] += 1
    for i in range(f.follow_from[number], f.follow_from[number + 1]):
        follower = f.followers[i]
        f.flows[follower].waits -= 1
        if f.flows[follower].waits == 0:
            _plan(f, follower, now + f.flows[follower].after)
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
