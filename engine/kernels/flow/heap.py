"""What is due next: a binary heap of flows that know their place in it."""

from engine.compiler import kernel
from engine.kernels.core.none import NONE
from engine.kernels.flow.tables import N_PLANNED, Flows


@kernel
def plan(f: Flows, number: int, due: int) -> None:
    """Something is due for a flow at a tick; instead of what was, if anything was."""
    flow = f.flows[number]
    flow.due = due
    at = flow.at + 0
    if at == NONE:
        at = f.counts[N_PLANNED]
        f.counts[N_PLANNED] = at + 1
    _sink(f, _rise(f, at, number), number)


@kernel
def take_first(f: Flows) -> int:
    """The flow for which something is due next."""
    first = f.planned[0] + 0
    f.flows[first].at = NONE
    n = f.counts[N_PLANNED] - 1
    f.counts[N_PLANNED] = n
    if n > 0:
        _sink(f, 0, f.planned[n] + 0)
    return first


@kernel
def _rise(f: Flows, at: int, number: int) -> int:
    """The place that a flow finds above ``at``."""
    while at > 0:
        above = (at - 1) >> 1
        if not _before(f, number, f.planned[above]):
            break
        _put(f, at, f.planned[above])
        at = above
    return at


@kernel
def _sink(f: Flows, at: int, number: int) -> None:
    """Put a flow at ``at``, or below."""
    n = f.counts[N_PLANNED]
    while 2 * at + 1 < n:
        below = 2 * at + 1
        if below + 1 < n and _before(f, f.planned[below + 1], f.planned[below]):
            below += 1
        if not _before(f, f.planned[below], number):
            break
        _put(f, at, f.planned[below])
        at = below
    _put(f, at, number)


@kernel
def _put(f: Flows, at: int, number: int) -> None:
    f.planned[at] = number
    f.flows[number].at = at


@kernel
def _before(f: Flows, one: int, other: int) -> bool:
    if f.flows[one].due != f.flows[other].due:
        return f.flows[one].due < f.flows[other].due
    return f.flows[one].number < f.flows[other].number
