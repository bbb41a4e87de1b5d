"""Max-min fair shares, by water filling (Bertsekas and Gallager, Data Networks, section 6.5.2).

Every flow's rate rises alike until a link is full; its flows then keep their rate, and the others'
rise on.  So links fill in the order of their shares: a pass for each, and one for all that are
equal.

When flows come or go, few others may have another rate.  Until all rates have risen to a *level*
at which the first of those came or went that have, no link on their ways is full, with them or
without; so whatever is slower keeps its rate.  Of the rest, only those are looked at that share a
link with one that came or went, or with one that is looked at.
"""

import numpy as np

from engine.kernels.flow.compile import kernel
from engine.kernels.flow.heap import plan
from engine.kernels.flow.tables import MOVES, N_CHANGED, N_SHARINGS, NONE, Flows

_EQUAL = 1 + 1e-12  # shares that differ by less differ by rounding
_SLOWER = 1 - 1e-9  # who is slower by less than this factor may be so by rounding
_NO_RATE = -1.0
_FRESH, _FOUND, _FULL = range(3)  # marks of links
_NOTHING = 1e-6  # ticks: what is due within the next one's beginning is due now
_FOR_EVER = 2.0**62  # ticks


@kernel
def join(f: Flows, number: int, now: int) -> None:
    """A flow begins to move; its rate is found by the next :func:`share`."""
    flow = f.flows[number]
    flow.stage, flow.rate, flow.since = MOVES, 0.0, now
    at = flow.hops + 0
    for k in range(flow.route, flow.route_end):
        link, hop = f.links[f.routes[k]], f.hops[at]
        hop.flow, hop.before, hop.next = number, NONE, link.head
        if link.head != NONE:
            f.hops[link.head].before = at
        link.head = at
        link.n_flows += 1
        link.comes = 1
        at += 1
        _change(f, f.routes[k])


@kernel
def leave(f: Flows, number: int) -> None:
    """A flow has sent its last byte."""
    flow = f.flows[number]
    at = flow.hops + 0
    for k in range(flow.route, flow.route_end):
        link, hop = f.links[f.routes[k]], f.hops[at]
        if hop.before == NONE:
            link.head = hop.next
        else:
            f.hops[hop.before].next = hop.next
        if hop.next != NONE:
            f.hops[hop.next].before = hop.before
        link.n_flows -= 1
        link.left = min(link.left, flow.rate)
        at += 1
        _change(f, f.routes[k])


@kernel
def _change(f: Flows, number: int) -> None:
    if f.links[number].changed == 0:
        f.links[number].changed = 1
        f.changed[f.counts[N_CHANGED]] = number
        f.counts[N_CHANGED] += 1


@kernel
def share(f: Flows, now: int) -> None:
    """Give the flows that move their rates, where any have come or gone."""
    if f.counts[N_CHANGED] == 0:
        return
    f.counts[N_SHARINGS] += 1
    level = _level(f) * _SLOWER
    n_used = 0
    for i in range(f.counts[N_CHANGED]):
        link = f.links[f.changed[i]]
        if link.mark == _FRESH and link.n_flows > 0:
            link.mark = _FOUND
            f.used[n_used] = f.changed[i]
            first = n_used
            n_used, n = _find(f, first, level)
            _fill(f, first, _shared(f, first, n_used), n, level)
            _foresee(f, n, now)
    f.counts[N_CHANGED] = 0
    for i in range(n_used):
        f.links[f.used[i]].mark = _FRESH


@kernel
def _level(f: Flows) -> float:
    """The rate to which all have risen at least before the first of those that come or go."""
    level = np.inf
    for i in range(f.counts[N_CHANGED]):
        link = f.links[f.changed[i]]
        level = min(level, link.left)
        if link.comes:
            level = min(level, link.capacity / link.n_flows)
        link.changed, link.comes, link.left = 0, 0, np.inf
    return level


@kernel
def _find(f: Flows, first: int, level: float) -> tuple[int, int]:
    """All flows of at least the rate ``level`` that are connected to the link ``used[first]``: up
    to which place in ``used`` their links are, and how many they are."""
    at, end, n = first, first + 1, 0
    while at < end:
        link = f.links[f.used[at]]
        link.room, link.sharing = link.capacity, 0
        hop = link.head + 0
        while hop != NONE:
            number = f.hops[hop].flow + 0
            hop = f.hops[hop].next + 0
            flow = f.flows[number]
            if 0.0 < flow.rate < level:
                link.room -= flow.rate
                continue
            link.sharing += 1
            if flow.rate == _NO_RATE:
                continue
            f.found[n], f.before[n] = number, flow.rate
            flow.rate, flow.most = _NO_RATE, np.inf
            n += 1
            for k in range(flow.route, flow.route_end):
                other = f.links[f.routes[k]]
                if other.mark == _FRESH:
                    other.mark = _FOUND
                    f.used[end] = f.routes[k]
                    end += 1
        at += 1
    return end, n


@kernel
def _shared(f: Flows, first: int, end: int) -> int:
    """Put links that several of the flows share before the others, which limit one flow each;
    returns where the others begin."""
    shared = first
    for i in range(first, end):
        link = f.links[f.used[i]]
        if link.sharing > 1:
            f.used[i], f.used[shared] = f.used[shared], f.used[i]
            shared += 1
        elif link.sharing == 1:
            hop = link.head + 0
            while f.flows[f.hops[hop].flow].rate != _NO_RATE:
                hop = f.hops[hop].next + 0
            flow = f.flows[f.hops[hop].flow]
            flow.most = min(flow.most, link.room)
    return shared


@kernel
def _fill(f: Flows, first: int, end: int, n: int, level: float) -> None:
    """Give ``n`` flows that share the links ``used[first:end]`` their rates, above ``level``."""
    left, most = n, 0.0
    while left > 0:
        lowest, i = np.inf, first
        while i < end:
            link = f.links[f.used[i]]
            if link.sharing > 0:
                lowest = min(lowest, link.room / link.sharing)
                i += 1
            else:  # all its flows have their rates
                end -= 1
                f.used[i], f.used[end] = f.used[end], f.used[i]
        if most < lowest:
            most = _lowest_alone(f, n)
        level = max(level, min(lowest, most))
        if most < lowest:
            left -= _fix_alone(f, n, level)
            continue
        for i in range(first, end):  # before any rate is fixed, so that all are looked at alike
            link = f.links[f.used[i]]
            if link.room <= link.sharing * lowest * _EQUAL:
                link.mark = _FULL
        for i in range(first, end):
            link = f.links[f.used[i]]
            if link.mark == _FULL:
                link.mark = _FOUND
                left -= _fix_on(f, link.head, level)


@kernel
def _lowest_alone(f: Flows, n: int) -> float:
    """The least that links which it has to itself allow a flow."""
    lowest = np.inf
    for i in range(n):
        flow = f.flows[f.found[i]]
        if flow.rate == _NO_RATE:
            lowest = min(lowest, flow.most)
    return lowest


@kernel
def _fix_alone(f: Flows, n: int, level: float) -> int:
    """Flows that no more is allowed keep the rate; returns how many they are."""
    fixed = 0
    for i in range(n):
        flow = f.flows[f.found[i]]
        if flow.rate == _NO_RATE and flow.most <= level * _EQUAL:
            _fix(f, f.found[i], level)
            fixed += 1
    return fixed


@kernel
def _fix_on(f: Flows, hop: int, level: float) -> int:
    """Flows on a link that is full keep the rate; returns how many they are."""
    fixed = 0
    while hop != NONE:
        number = f.hops[hop].flow + 0
        if f.flows[number].rate == _NO_RATE:
            _fix(f, number, level)
            fixed += 1
        hop = f.hops[hop].next + 0
    return fixed


@kernel
def _fix(f: Flows, number: int, rate: float) -> None:
    flow = f.flows[number]
    flow.rate = rate
    for k in range(flow.route, flow.route_end):
        link = f.links[f.routes[k]]
        link.room -= rate
        link.sharing -= 1


@kernel
def _foresee(f: Flows, n: int, now: int) -> None:
    """Plan when those that were found will have sent their last bytes."""
    for i in range(n):
        flow = f.flows[f.found[i]]
        if flow.rate == f.before[i]:
            continue
        flow.left = max(flow.left - f.before[i] * (now - flow.since), 0.0)
        flow.since = now
        ticks = min(max(np.ceil(flow.left / flow.rate - _NOTHING), 0.0), _FOR_EVER - now)
        plan(f, f.found[i], now + int(ticks))
