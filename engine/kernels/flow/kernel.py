"""The flow kernel's loop: rates change when a flow starts or has sent its last byte."""

from engine.compiler import compiled, kernel
from engine.kernels.flow.heap import plan, take_first
from engine.kernels.flow.shares import join, leave, share
from engine.kernels.flow.tables import (
    ARRIVES,
    MOVES,
    N_ARRIVED,
    N_CHANGED,
    N_EDGES,
    N_ENDED,
    N_FLOWS,
    N_PLANNED,
    NOW,
    STARTS,
    STOP,
    UNTIL,
    Flows,
)
from engine.kernels.packet.following import link
from engine.lower.program import Longs


@compiled
def admit(f: Flows, first: int, at: int, after: Longs, after_from: Longs) -> None:
    """Take in the flows from ``first`` on; those that wait for none start from ``at`` on."""
    f.counts[N_EDGES] = link(f.flows, f.edges, f.counts[N_EDGES], first, after, after_from)
    for number in range(first, f.counts[N_FLOWS]):
        if f.flows[number].waits == 0:
            plan(f, number, at + f.flows[number].after)


@compiled
def share_now(f: Flows) -> None:
    """Give all flows their rates, as if all moved."""
    for number in range(f.counts[N_FLOWS]):
        join(f, number, 0)
    share(f, 0)


@compiled
def run(f: Flows) -> None:
    """Simulate until nothing moves, or what happens next is after UNTIL.

    Rates are found anew when time goes on, so that flows may be added after what has happened.
    """
    counts = f.counts
    while counts[N_PLANNED] + counts[N_CHANGED] > 0:
        if counts[N_PLANNED] == 0 or f.flows[f.planned[0]].due > counts[NOW]:
            if counts[NOW] >= counts[UNTIL]:
                break
            if counts[N_CHANGED] > 0:
                share(f, counts[NOW])
                continue
            if f.flows[f.planned[0]].due > counts[UNTIL]:
                break
        counts[NOW] = f.flows[f.planned[0]].due
        _happen(f, take_first(f), counts[NOW])


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
        plan(f, number, now + _delay(f, number))
        return
    flow.end = now
    flow.done = 1
    f.counts[N_ENDED] += 1
    f.arrived[f.counts[N_ARRIVED]] = number
    f.counts[N_ARRIVED] += 1
    if f.counts[STOP]:
        f.counts[UNTIL] = now
    edge = flow.followers + 0
    while edge >= 0:
        follower = f.edges[edge].follower + 0
        f.flows[follower].waits -= 1
        if f.flows[follower].waits == 0:
            plan(f, follower, now + f.flows[follower].after)
        edge = f.edges[edge].next + 0


@kernel
def _delay(f: Flows, number: int) -> int:
    """Ticks that the last byte of a flow travels."""
    delay = 0
    for k in range(f.flows[number].route, f.flows[number].route_end):
        delay += f.links[f.routes[k]].delay
    return delay
