"""Which links of routes can limit a flow, so that no rate is looked for on the others.

Rates are max-min fair among all that fit every link, so a link that is never full before others are
may be left out without any rate becoming another: leaving out a constraint that follows from the
rest leaves the rates that are possible as they are.  On a full fat tree only the ports of NPUs are
left of a message that is sprayed over a hundred links.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.kernels.core.rows import ragged
from dimsweep.engine.lower.program import Floats, Ints, Longs

_ROUNDING = 1 + 1e-12  # sums that differ by less differ by rounding


class Limits(NamedTuple):
    """Routes with the links first that may limit a flow, and where those of each route end."""

    hops: Ints
    shares: Floats
    ends: Longs


class _Hops(NamedTuple):
    """What a flow has of its rate on each hop, as arrays of shape (hops,)."""

    row: Longs  # its route
    link: Ints
    share: Floats
    most: Floats  # rate of a flow that has the link to itself


def limits_of(starts: Longs, ends: Longs, hops: Ints, shares: Floats, capacity: Floats) -> Limits:
    """The links of routes ``hops[start:end]``, which lie one after another, by what they carry.

    ``shares`` (hops,) are those of a flow's rate, empty where all are one; ``capacity`` (links,) in
    any unit.  Two kinds of links are left out.  One is never full: each of its routes has a
    narrower link, and all that these narrower links can bring to it is no more than its capacity.
    The other carries the same as another link, which is narrower or comes first.
    """
    row, place = ragged(ends - starts)
    share = shares if len(shares) else np.ones(len(hops))
    every, n = _Hops(row, hops, share, capacity[hops] / share), len(capacity)
    if not len(hops) or len(np.unique(row * n + hops)) < len(hops):  # twins of links, when folded
        return Limits(hops, shares, ends)
    alone = ~_doubled(every, capacity)[hops]
    found = _Hops(row[alone], hops[alone], share[alone], every.most[alone])
    keeps, follows = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    follows[found.link] = False
    for last in (False, True):  # ports of senders, or of receivers, where both are as narrow
        at = _narrowest(found, last=last)
        keeps[found.link[at]] = True
        follows |= _follow(found, at, capacity)
    keeps |= ~follows
    kept = keeps[hops]
    order = np.lexsort((place, ~kept, row))
    return Limits(
        hops[order],
        shares[order] if len(shares) else shares,
        starts + np.bincount(row, kept, len(starts)).astype(np.int64),
    )


def _narrowest(found: _Hops, *, last: bool) -> Longs:
    """The first, or the last, narrowest hop of each route."""
    least = np.minimum.reduceat(found.most, np.flatnonzero(_begins(found.row)))
    at = np.flatnonzero(found.most <= least[found.row] * _ROUNDING)
    begins = _begins(found.row[at])
    return at[np.roll(begins, -1) if last else begins]


def _begins(numbers: Longs | Ints) -> NDArray[np.bool_]:
    """Where another number begins; the first one does."""
    return np.append(True, np.diff(numbers) != 0)


def _follow(found: _Hops, at: Longs, capacity: Floats) -> NDArray[np.bool_]:
    """The links that are not full before those at the hops ``at`` are, one of each route."""
    n, narrowest = len(capacity), found.link[at][found.row].astype(np.int64)
    part = found.share / found.share[at][found.row]
    pair = found.link * n + narrowest
    order = np.argsort(pair, kind="stable")
    first = np.flatnonzero(_begins(pair[order]))
    most = np.maximum.reduceat(part[order], first)
    link, by = np.divmod(pair[order][first], n)
    return np.bincount(link, most * capacity[by], n) <= capacity * _ROUNDING


def _doubled(found: _Hops, capacity: Floats) -> NDArray[np.bool_]:
    """The links beside which there is one that carries the same, and is narrower or comes first."""
    doubled = np.zeros(len(capacity), np.bool_)
    lots = np.random.default_rng(0).random(len(found.row))[found.row]  # those of routes, added up
    sums = np.bincount(found.link, lots * found.share, len(capacity))
    _, which, n_alike = np.unique(sums, return_inverse=True, return_counts=True)
    perhaps = np.flatnonzero(n_alike[which][found.link] > 1)
    if not len(perhaps):
        return doubled
    order = perhaps[np.lexsort((found.row[perhaps], found.link[perhaps]))]
    bounds = np.flatnonzero(_begins(found.link[order])).tolist()
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
