"""Max-min fair shares, by water filling (Bertsekas and Gallager, Data Networks, section 6.5.2).

All rates rise equally until a link is full; its flows then keep their rate, and the other rates
continue to rise.  Links therefore fill in the order of their fair shares; each pass fills all links
of equal share.

A flow that takes several routes at once puts a share of its rate on each link.  All its routes have
one common rate: a link is full when rates times shares add up to its capacity.

When flows start or end, few others change their rate.  Shares are max-min fair if every flow has a
full link on which no flow is faster.  Rates are therefore recomputed first for the flows limited by
a link where flows started or ended, with all other rates fixed; then for the flows that lost their
full link or must make room; and so on, until every flow has one.

A link that is never full before others can be left out without changing any rate: a constraint that
follows from the rest does not change the feasible rates.  :func:`find_limits` finds these links.
For a message that is sprayed over a hundred links of a full fat tree, only the ports of NPUs
remain.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.agenda import plan_due
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.tables import LONGEST, NONE, ragged_positions
from dimsweep.engine.kernels.flow.tables import MOVES, Flows
from dimsweep.engine.lower.program import Floats, Ints, Longs

_ROUNDING = 1 + 1e-12  # sums that differ by less differ by rounding


class Limits(NamedTuple):
    """Routes reordered so that the links that may limit a flow come first, up to ``ends``."""

    hops: Ints
    shares: Floats
    ends: Longs


class _Hops(NamedTuple):
    """All (route, link) pairs as arrays of shape (hops,), with the share of a flow's rate there."""

    row: Longs  # its route
    link: Ints
    share: Floats
    most: Floats  # rate of a flow that has the link to itself


def find_limits(starts: Longs, ends: Longs, hops: Ints, shares: Floats, capacity: Floats) -> Limits:
    """Find, on each route ``hops[start:end]``, the links that may limit a flow's rate.

    ``shares`` (hops,) are the fractions of a flow's rate, empty if all are one; ``capacity``
    (links,) is in any unit.  Two types of links are left out.  First, links that are never full:
    each of their routes has a narrower link, and these narrower links together deliver no more than
    the capacity. Second, links with the same traffic as a link that is narrower or has a lower
    number.
    """
    row, place = ragged_positions(ends - starts)
    share = shares if len(shares) else np.ones(len(hops))
    every, n = _Hops(row, hops, share, capacity[hops] / share), len(capacity)
    if not len(hops) or len(np.unique(row * n + hops)) < len(hops):  # twins of links, when folded
        return Limits(hops, shares, ends)
    alone = ~_find_duplicates(every, capacity)[hops]
    found = _Hops(row[alone], hops[alone], share[alone], every.most[alone])
    keeps, follows = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    follows[found.link] = False
    for last in (False, True):  # ports of senders, or of receivers, where both are as narrow
        at = _narrowest(found, last=last)
        keeps[found.link[at]] = True
        follows |= _find_implied(found, at, capacity)
    keeps |= ~follows
    kept = keeps[hops]
    order = np.lexsort((place, ~kept, row))
    return Limits(
        hops[order],
        shares[order] if len(shares) else shares,
        starts + np.bincount(row, kept, len(starts)).astype(np.int64),
    )


def _narrowest(found: _Hops, *, last: bool) -> Longs:
    """Return the index of each route's narrowest hop; of equals, the first or the ``last``."""
    least = np.minimum.reduceat(found.most, np.flatnonzero(_mark_starts(found.row)))
    at = np.flatnonzero(found.most <= least[found.row] * _ROUNDING)
    begins = _mark_starts(found.row[at])
    return at[np.roll(begins, -1) if last else begins]


def _mark_starts(numbers: Longs | Ints) -> NDArray[np.bool_]:
    """Return a mask of the positions where ``numbers`` differ from the previous entry."""
    return np.append(True, np.diff(numbers) != 0)


def _find_implied(found: _Hops, at: Longs, capacity: Floats) -> NDArray[np.bool_]:
    """Return a mask of the links that cannot fill before the routes' narrowest hops ``at`` do."""
    n, narrowest = len(capacity), found.link[at][found.row].astype(np.int64)
    part = found.share / found.share[at][found.row]
    pair = found.link * n + narrowest
    order = np.argsort(pair, kind="stable")
    first = np.flatnonzero(_mark_starts(pair[order]))
    most = np.maximum.reduceat(part[order], first)
    link, by = np.divmod(pair[order][first], n)
    return np.bincount(link, most * capacity[by], n) <= capacity * _ROUNDING


def _find_duplicates(found: _Hops, capacity: Floats) -> NDArray[np.bool_]:
    """Return a mask of the links with the same traffic as a narrower or earlier link."""
    doubled = np.zeros(len(capacity), np.bool_)
    lots = np.random.default_rng(0).random(len(found.row))[found.row]  # those of routes, added up
    sums = np.bincount(found.link, lots * found.share, len(capacity))
    _, which, n_alike = np.unique(sums, return_inverse=True, return_counts=True)
    perhaps = np.flatnonzero(n_alike[which][found.link] > 1)
    if not len(perhaps):
        return doubled
    order = perhaps[np.lexsort((found.row[perhaps], found.link[perhaps]))]
    bounds = np.flatnonzero(_mark_starts(found.link[order])).tolist()
    rows, shares, known = found.row[order], found.share[order], dict[tuple[bytes, bytes], int]()
    for start, end in zip(bounds, [*bounds[1:], len(order)], strict=True):
        carries = rows[start:end].tobytes(), shares[start:end].tobytes()
        link = int(found.link[order[start]])
        other = known.setdefault(carries, link)
        if other != link:
            narrower = capacity[link] < capacity[other]
            doubled[other if narrower else link] = True
            known[carries] = link if narrower else other
    return doubled


_EQUAL = 1 + 1e-12  # shares that differ by less differ by rounding
_NONE_LEFT = 1e-11  # of a link, by rounding
_NO_RATE = -1.0
_FRESH, _FOUND, _FULL = range(3)  # marks of links
_PATIENCE = 8  # times that few more are looked at; then all that share a link with them
_NOTHING = 1e-6  # ticks: what is due within the next one's beginning is due now
_LONGEST = float(LONGEST)  # ticks


@inlined
def share_at(shares: Floats, at: int) -> float:
    """Return the fraction of a flow's rate on the hop ``at``; 1 if no flow is sprayed."""
    return shares[at] if len(shares) else 1.0


@inlined
def _share_of(f: Flows, hop: int) -> float:
    flow = f.flows[f.hops[hop].flow]
    return share_at(f.shares, flow.route + hop - flow.hops)


@inlined
def _has_room(f: Flows, number: int) -> bool:
    """Return whether a link has bandwidth left, so that it limits no flow."""
    return f.links[number].room > f.links[number].capacity * _NONE_LEFT


@kernel
def join(f: Flows, number: int, now: int) -> None:
    """Add a flow to its links; the next :func:`update_rates` computes its rate."""
    flow = f.flows[number]
    flow.stage, flow.rate, flow.since = MOVES, 0.0, now
    at = long(flow.hops)
    for k in range(flow.route, flow.route_end):
        link, hop = f.links[f.routes[k]], f.hops[at]
        hop.flow, hop.before, hop.next = number, NONE, link.head
        if link.head != NONE:
            f.hops[link.head].before = at
        link.head = at
        link.n += 1
        at += 1
        _note_change(f, f.routes[k])


@kernel
def leave(f: Flows, number: int) -> None:
    """Remove a flow that has sent its last byte from its links."""
    flow = f.flows[number]
    at = long(flow.hops)
    for k in range(flow.route, flow.route_end):
        link, hop = f.links[f.routes[k]], f.hops[at]
        if hop.before == NONE:
            link.head = hop.next
        else:
            f.hops[hop.before].next = hop.next
        if hop.next != NONE:
            f.hops[hop.next].before = hop.before
        link.n -= 1
        at += 1
        if link.n > 0 and not _has_room(f, f.routes[k]):  # else it has limited nobody else
            _note_change(f, f.routes[k])


@kernel
def _note_change(f: Flows, number: int) -> None:
    if f.links[number].changed == 0:
        f.links[number].changed = 1
        f.changed[f.counts[0].n_changed] = number
        f.counts[0].n_changed += 1


@kernel
def update_rates(f: Flows, now: int) -> None:
    """Recompute the rates affected by the flows that started or ended since the last call."""
    if f.counts[0].n_changed == 0:
        return
    f.counts[0].n_sharings += 1
    for i in range(f.counts[0].n_changed):
        if f.links[f.changed[i]].changed:
            _update_rates_around(f, f.changed[i], now)
    f.counts[0].n_changed = 0


@kernel
def _update_rates_around(f: Flows, changed: int, now: int) -> None:
    """Recompute the rates that depend on link ``changed``.

    Flows that started elsewhere have rate 0 until their links are processed.
    """
    n, end = _take_changed(f, changed, 0, 0)
    at, solved, rounds = 0, 0, 0
    while n > solved:
        while at < end:
            n, end = _take_changed(f, f.used[at], n, end)
            at += 1
        for i in range(n):
            flow = f.flows[f.found[i]]
            flow.rate, flow.most, flow.full = _NO_RATE, flow.alone, flow.alone_on
        _fill(f, _weigh_all(f, end), n)
        solved, rounds = n, rounds + 1
        for i in range(end):  # not on links that come in meanwhile: those have no new rates yet
            if f.links[f.used[i]].looked < f.links[f.used[i]].n:
                n, end = _take_unfair(f, f.used[i], n, end, rounds > _PATIENCE)
    for i in range(end):
        f.links[f.used[i]].mark = _FRESH
    _plan_ends(f, n, now)


@kernel
def _take(f: Flows, number: int, n: int, end: int) -> tuple[int, int]:
    """Add a flow to the ``n`` flows to recompute, and its new links to the ``end`` used links.

    The lowest limit among links that no other flow uses is stored in the flow.  Return the new
    ``n`` and ``end``.
    """
    flow = f.flows[number]
    f.found[n], f.before[n], flow.looked = number, flow.rate, 1
    flow.alone, flow.alone_on = np.inf, NONE
    for k in range(flow.route, flow.route_end):
        link = f.links[f.routes[k]]
        if link.n == 1:
            link.changed = 0
            most = link.capacity / share_at(f.shares, k)
            if most < flow.alone:
                flow.alone, flow.alone_on = most, f.routes[k]
            continue
        if link.mark == _FRESH:
            link.mark, link.looked, link.weighed, f.used[end] = _FOUND, 0, 0, f.routes[k]
            end += 1
        link.looked += 1
    return n + 1, end


@kernel
def _take_changed(f: Flows, number: int, n: int, end: int) -> tuple[int, int]:
    """:func:`_take` the flows of a changed link that are new, or that the link limited."""
    link = f.links[number]
    if link.changed == 0:
        return n, end
    link.changed = 0
    hop = long(link.head)
    while hop != NONE:
        flow = f.flows[f.hops[hop].flow]
        if flow.looked == 0 and (flow.rate == 0.0 or flow.full == number):
            n, end = _take(f, long(f.hops[hop].flow), n, end)
        hop = long(f.hops[hop].next)
    return n, end


@kernel
def _take_unfair(f: Flows, number: int, n: int, end: int, every: bool) -> tuple[int, int]:
    """:func:`_take` the flows whose rate is unfair at a link, or ``every`` flow on it.

    Unfair are flows faster than one that the link limits now, and flows that the link limited and
    that could be faster now.
    """
    link = f.links[number]
    if link.weighed != link.looked:  # since others have been taken
        _weigh(f, number)
    has_room = _has_room(f, number)
    if has_room and link.slowest == np.inf and not every:  # it limits nobody, and did not
        return n, end
    most, limit = link.fastest, np.inf
    hop = link.one if link.looked == 1 else link.head
    while hop != NONE:
        flow = f.flows[f.hops[hop].flow]
        if flow.looked:
            most = max(most, flow.rate)
            limit = min(limit, flow.rate) if flow.full == number else limit
        hop = NONE if link.looked == 1 else f.hops[hop].next
    if has_room:
        most = np.inf
    if not (every or link.slowest * _EQUAL < most or link.fastest > limit * _EQUAL):
        return n, end
    hop = long(link.head)
    while hop != NONE:
        flow = f.flows[f.hops[hop].flow]
        slow = flow.full == number and flow.rate * _EQUAL < most
        if flow.looked == 0 and (every or slow or flow.rate > limit * _EQUAL):
            n, end = _take(f, long(f.hops[hop].flow), n, end)
        hop = long(f.hops[hop].next)
    return n, end


@kernel
def _weigh_all(f: Flows, end: int) -> int:
    """Compute the load of all used links, and move links shared by several flows to the front.

    The other links limit one flow each.  Return the number of shared links.
    """
    shared = 0
    for i in range(end):
        number = long(f.used[i])
        link = f.links[number]
        if link.weighed != link.looked:
            _weigh(f, number)
        link.room, link.sharing, link.weight = link.beside, link.looked, link.load
        if link.looked > 1:
            f.used[i], f.used[shared] = f.used[shared], number
            shared += 1
        elif link.looked == 1:
            flow, most = f.flows[f.hops[link.one].flow], link.room / _share_of(f, link.one)
            if most < flow.most:
                flow.most, flow.full = most, number
    return shared


@inlined
def _weigh(f: Flows, number: int) -> None:
    """Compute a link's bandwidth left by flows of fixed rate, and the load of the other flows."""
    link = f.links[number]
    room, load, one = link.capacity, 0.0, long(link.head)
    fastest, slowest = 0.0, np.inf
    every = link.looked == link.n and len(f.shares) == 0
    hop = NONE if every else one
    while hop != NONE:
        flow = f.flows[f.hops[hop].flow]
        if flow.looked == 0:
            room -= flow.rate * _share_of(f, hop)
            fastest = max(fastest, flow.rate)
            slowest = min(slowest, flow.rate) if flow.full == number else slowest
        else:
            load += _share_of(f, hop)
            one = hop
        hop = long(f.hops[hop].next)
    link.beside, link.one, link.weighed = max(room, 0.0), one, link.looked
    link.load = float(link.looked) if every else load
    link.fastest, link.slowest = fastest, slowest


@kernel
def _fill(f: Flows, end: int, n: int) -> None:
    """Compute the rates of ``n`` flows on the links ``used[:end]`` by water filling."""
    left, most, level = n, 0.0, 0.0
    while left > 0:
        lowest, i = np.inf, 0
        while i < end:
            link = f.links[f.used[i]]
            if link.sharing > 0:
                lowest = min(lowest, link.room / link.weight)
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
        full = 0
        for i in range(end):  # before any rate is fixed, so that all are looked at alike
            link = f.links[f.used[i]]
            if link.room <= link.weight * lowest * _EQUAL:
                link.mark = _FULL
                full += 1
        i = 0
        while full > 0:
            link = f.links[f.used[i]]
            if link.mark == _FULL:
                link.mark = _FOUND
                left -= _fix_on(f, f.used[i], level)
                full -= 1
            i += 1


@kernel
def _lowest_alone(f: Flows, n: int) -> float:
    """Return the lowest rate limit, over ``n`` flows, from links that no other flow uses."""
    lowest = np.inf
    for i in range(n):
        flow = f.flows[f.found[i]]
        if flow.rate == _NO_RATE:
            lowest = min(lowest, flow.most)
    return lowest


@kernel
def _fix_alone(f: Flows, n: int, level: float) -> int:
    """Fix the rate of flows whose own limit is at ``level``; return their number."""
    fixed = 0
    for i in range(n):
        flow = f.flows[f.found[i]]
        if flow.rate == _NO_RATE and flow.most <= level * _EQUAL:
            _fix(f, f.found[i], level)
            fixed += 1
    return fixed


@kernel
def _fix_on(f: Flows, link: int, level: float) -> int:
    """Fix the rate of all flows on a full link at ``level``; return their number."""
    fixed, hop = 0, long(f.links[link].head)
    while hop != NONE:
        number = long(f.hops[hop].flow)
        if f.flows[number].rate == _NO_RATE:
            f.flows[number].full = link
            _fix(f, number, level)
            fixed += 1
        hop = long(f.hops[hop].next)
    return fixed


@kernel
def _fix(f: Flows, number: int, rate: float) -> None:
    flow = f.flows[number]
    flow.rate = rate
    for k in range(flow.route, flow.route_end):
        link, share = f.links[f.routes[k]], share_at(f.shares, k)
        link.room -= rate * share
        link.weight -= share
        link.sharing -= 1


@kernel
def _plan_ends(f: Flows, n: int, now: int) -> None:
    """Plan the end of transfer of each of ``n`` flows whose rate has changed."""
    for i in range(n):
        flow = f.flows[f.found[i]]
        flow.looked = 0
        if flow.rate == f.before[i]:
            continue
        flow.left = max(flow.left - f.before[i] * (now - flow.since), 0.0)
        flow.since = now
        ticks = min(max(np.ceil(flow.left / flow.rate - _NOTHING), 0.0), _LONGEST - now)
        plan_due(f.flows, f.planned, f.found[i], now + int(ticks))
