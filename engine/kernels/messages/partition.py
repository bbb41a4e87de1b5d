"""Which ranks are alike: an equitable partition of them, found by hashes and checked without any.

Ranks keep one colour while what they have is the same, in flows, on lines and over links with ranks
of the same colours (:mod:`engine.kernels.messages.parts`): colour refinement.  Colours are sums of
hashes, so what is found is a guess until it is checked.

The *twin* of a rank is the first rank of its colour; every row, flow, line and link has a twin,
too, that belongs to those twins.  All is alike when each has exactly what its twin has, and each
message of a twin crosses a link at most once: the program then covers the one of the twins alone,
as a graph covers another, with as many sheets as a colour has ranks.  So whatever is decided by
what a rank or a link sees goes the same way on every sheet.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.rows import ragged
from dimsweep.engine.kernels.messages.parts import Parts, Rows, Shared
from dimsweep.engine.lower.program import Longs

_Hashes = NDArray[np.uint64]


class Twins(NamedTuple):
    """The number of the twin of each rank's colour, node, flow, line, turn and link."""

    first: Longs  # (colours,) the twin of all ranks of a colour
    colour: Longs  # (R,)
    node: Longs
    flow: Longs
    line: Longs  # NONE for one that runs nothing, likewise a link that nothing crosses
    turn: Longs
    link: Longs


class _UnlikeError(Exception):
    """Something is not as its twin is."""


def refine(parts: Parts, n: int) -> Longs | None:
    """The coarsest colours of ``n`` ranks, numbered in the order of their first ranks.

    None where they do not all have as many ranks, or some have a single one.
    """
    own = [_Sums(rows.rank, n)(_of_rows(rows)) for rows in (parts.nodes, *parts.own)]
    of_messages, messages = _Sums(parts.messages.rank, n), _of_rows(parts.messages)
    shared = [
        (thing, _Sums(thing.rows.rank, n), _Sums(thing.of, len(thing.known)))
        for thing in (parts.flows, parts.lines, parts.links)
    ]
    colour, n_colours = np.zeros(n, np.int64), 1
    while True:
        hashes = [colour, *own, of_messages(_mix(messages, colour[parts.peer]))]
        for thing, of_rank, of_thing in shared:
            together = of_thing(_mix(thing.rows.label, colour[thing.rows.rank]))
            known = _mix(*thing.known.T, together)
            hashes.append(of_rank(_mix(thing.rows.label, known[thing.of])))
        colour = _numbered(_mix(*hashes))
        sizes = np.bincount(colour)
        if sizes.min() == 1:
            return None
        if len(sizes) == n_colours:
            return colour if sizes.min() == sizes.max() else None
        n_colours = len(sizes)


class _Sums:
    """Sums of hashes over the items of each of ``n`` indices."""

    def __init__(self, index: NDArray[np.integer], n: int) -> None:
        self._order, self._n = np.argsort(index, kind="stable"), n
        self._used, self._starts = np.unique(index[self._order], return_index=True)

    def __call__(self, hashes: _Hashes) -> _Hashes:
        sums = np.zeros(self._n, np.uint64)
        if len(hashes):
            sums[self._used] = np.add.reduceat(hashes[self._order], self._starts)
        return sums


def _of_rows(rows: Rows) -> _Hashes:
    return _mix(rows.label, *rows.known.T)


def _mix(*columns: NDArray[np.generic]) -> _Hashes:
    """A hash of each row, by the finaliser of SplitMix64 (Steele et al., OOPSLA 2014)."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes = (hashes ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes ^= hashes >> np.uint64(31)
    return hashes


def _numbered(hashes: _Hashes) -> Longs:
    _, first, colour = np.unique(hashes, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), np.int64)
    numbers[np.argsort(first)] = np.arange(len(first))
    return numbers[colour.reshape(-1)]


# --- the check -----------------------------------------------------------------------------------


def twins_of(parts: Parts, colour: Longs) -> Twins | None:
    """The twins of everything; None unless all is as its twin is."""
    first = np.unique(colour, return_index=True)[1]
    twin = first[colour]
    try:
        node, message = _rows(parts.nodes, twin), _rows(parts.messages, twin)
        for rows in parts.own:
            _rows(rows, twin)
        _check(np.array_equal(colour[parts.peer], colour[parts.peer[message]]))
        flow, of_flow = _things(parts.flows, twin)
        line, turn = _things(parts.lines, twin)
        link, hop = _things(parts.links, twin)
        _check_flows(parts, of_flow, colour)
        _check(_are_distinct(parts.links.of, hop))
    except _UnlikeError:
        return None
    return Twins(first, colour, node, flow, line, turn, link)


def _check(*same: bool | np.bool_) -> None:
    if not all(same):
        raise _UnlikeError


def _rows(rows: Rows, twin: Longs) -> Longs:
    """The row of each row's twin, of which the same is known; all ranks have as many as theirs."""
    n = np.bincount(rows.rank, minlength=len(twin))
    _check(np.array_equal(n, n[twin]))
    width = int(rows.label.max(initial=0)) + 1
    keys = rows.rank * width + rows.label
    order = np.argsort(keys, kind="stable")
    wanted = twin[rows.rank] * width + rows.label
    found = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    _check(np.array_equal(keys[found], wanted), np.array_equal(rows.known, rows.known[found]))
    return found


def _things(shared: Shared, twin: Longs) -> tuple[Longs, Longs]:
    """The twin of each thing, that of the first of its rows' twins, or NONE of what nobody has; and
    its rows' twins."""
    rows = _rows(shared.rows, twin)
    of, row = _distinct_pairs(shared.of, rows)
    lengths = np.bincount(of, minlength=len(shared.known))
    starts = np.cumsum(lengths) - lengths
    used = lengths > 0
    thing = np.arange(len(lengths))
    thing[used] = shared.of[row[starts[used]]]
    which, place = ragged(lengths)
    _check(
        np.array_equal(shared.known, shared.known[thing]),
        np.array_equal(lengths, lengths[thing]),
        np.array_equal(row, row[starts[thing[which]] + place]),
        np.array_equal(thing[shared.of], thing[shared.of[rows]]),
    )
    thing[~used] = NONE
    return thing, rows


def _check_flows(parts: Parts, twin_row: Longs, colour: Longs) -> None:
    """A flow has one node of each colour that sends, and the flows of a rank differ in their keys,
    by which they go on in turn."""
    members = slice(0, parts.n_members)
    of, rank = parts.flows.of[members], parts.flows.rows.rank
    flow, row = _distinct_pairs(of, twin_row[members])
    _check(_are_distinct(flow, colour[rank[row]]), _are_distinct(parts.keys[of], rank[members]))


def _distinct_pairs(one: Longs, other: Longs) -> tuple[Longs, Longs]:
    """The pairs of two columns, each once and in order; none of ``other`` is negative."""
    width = int(other.max(initial=0)) + 1
    return np.divmod(np.unique(one * width + other), width)


def _are_distinct(one: Longs, other: Longs) -> bool:
    return len(_distinct_pairs(one, other)[0]) == len(one)
