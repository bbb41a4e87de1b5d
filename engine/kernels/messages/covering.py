"""Whether ranks of one colour are alike, checked without any hash.

The *twin* of a rank is the first rank of its colour; every node, flow, line, turn, hop and link has
a twin, too, that belongs to those twins.  All is alike when each has exactly what its twin has, and
each message of a twin crosses a link at most once: the program then covers the one of the twins
alone, as a graph covers another, with as many sheets as a colour has ranks.  So whatever is decided
by what a rank or a link sees goes the same way on every sheet.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.kernels.core.none import NONE
from engine.kernels.messages.orbits import Parts, link_kinds, pick, ragged
from engine.kernels.messages.tables import Tables
from engine.lower.program import Longs, Structure, Table
from engine.network.graph import Link


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


def twins_of(
    parts: Parts, s: Structure, tables: Tables, links: tuple[Link, ...], colour: Longs
) -> Twins | None:
    """The twins of everything; None unless all is as its twin is."""
    first = np.unique(colour, return_index=True)[1]
    twin = first[colour]
    try:
        node = _nodes(parts, s, twin)
        flow = _flows(parts, s, tables, colour, node)
        line = _lines(parts, colour, first)
        turn = _turns(parts, tables, colour, twin)
        link = _links(parts, links, colour, twin)
    except _UnlikeError:
        return None
    return Twins(first, colour, node, flow, line, turn, link)


def _check(*same: bool | np.bool_) -> None:
    if not all(same):
        raise _UnlikeError


def _check_columns(table: Table, names: tuple[str, ...], twin: Longs) -> None:
    _check(*(np.array_equal(table[name], table[name][twin]) for name in names))


def _check_rows(values: NDArray[np.generic], lengths: NDArray[np.integer], twin: Longs) -> None:
    """Check that each row of a ragged table is as its twin's."""
    _check(np.array_equal(lengths, lengths[twin]))
    row, place = ragged(lengths)
    starts = np.cumsum(lengths) - lengths
    _check(np.array_equal(values, values[starts[twin[row]] + place]))


def _nodes(parts: Parts, s: Structure, twin: Longs) -> Longs:
    cls = s.nodes["cls"]
    starts = np.searchsorted(cls, np.arange(s.shape.n_classes + 1))
    lengths = np.diff(starts)
    _check(np.array_equal(lengths, lengths[twin]))
    node = starts[twin[cls]] + parts.place
    _check_columns(s.nodes, ("kind", "key", "tally", "waits", "duration"), node)
    stream = np.where(s.nodes["stream"] < 0, NONE, s.nodes["stream"] - cls * s.shape.n_streams)
    _check(np.array_equal(stream, stream[node]))
    n_following = s.nodes["next_end"] - s.nodes["next_start"]
    row, place = ragged(n_following)
    following = s.following[s.nodes["next_start"][row] + place]
    _check(np.array_equal(cls[following], cls[row]))
    _check_rows(parts.place[following], n_following, node)
    return node


def _flows(parts: Parts, s: Structure, tables: Tables, colour: Longs, node: Longs) -> Longs:
    """Of all flows.  Those of one rank must differ in their keys, by which they go on in turn."""
    cls, flow_of_node = s.nodes["cls"], s.nodes["flow"]
    of_member, _ = ragged(s.flows["member_end"] - s.flows["member_start"])
    members = np.unique(np.stack([of_member, node[s.members["node"]]]), axis=1)
    lengths = np.bincount(members[0], minlength=len(s.flows))
    flow = flow_of_node[members[1][np.cumsum(lengths) - lengths]].astype(np.int64)
    _check_rows(members[1], lengths, flow)
    _check_columns(tables.flows, ("key", "group"), flow)
    receiver = pick(node, s.flows["receiver"])
    _check(
        np.array_equal(s.flows["form"], s.flows["form"][flow]),
        np.array_equal(receiver, receiver[flow]),
    )
    inside = flow_of_node != NONE
    _check(
        np.array_equal(inside, inside[node]),
        np.array_equal(flow[flow_of_node[inside]], flow[flow_of_node[node[inside]]]),
        _are_distinct(members[0], colour[cls[members[1]]]),
        _are_distinct(s.members["cls"], s.flows["key"][of_member]),
    )
    return flow


def _are_distinct(*columns: NDArray[np.integer]) -> bool:
    return np.unique(np.stack(columns), axis=1).shape[1] == len(columns[0])


def _lines(parts: Parts, colour: Longs, first: Longs) -> Longs:
    turns, geometry = parts.turns, parts.geometry
    at = np.full((geometry.max(initial=0) + 1, len(colour)), NONE)
    at[geometry[turns["line"]], turns["rank"]] = turns["line"]
    on = np.unique(np.stack([turns["line"], colour[turns["rank"]]]), axis=1)
    lengths = np.bincount(on[0], minlength=len(geometry))
    used = np.flatnonzero(lengths)
    line = np.arange(len(geometry))
    line[used] = at[geometry[used], first[on[1][(np.cumsum(lengths) - lengths)[used]]]]
    _check((line != NONE).all())
    _check_rows(on[1], lengths, line)
    of_twin = at[geometry[turns["line"]], first[colour[turns["rank"]]]]
    _check((of_twin != NONE).all(), np.array_equal(line[turns["line"]], line[of_twin]))
    line[lengths == 0] = NONE
    return line


def _turns(parts: Parts, tables: Tables, colour: Longs, twin: Longs) -> Longs:
    turns, pairs = parts.turns, parts.pairs
    turn = _twin_rows(turns, twin)
    plans = tables.plans.members[turns["plan"]]
    _check_columns(plans, ("n_strands", "n_slots", "open", "asked"), turn)
    row, place = ragged(plans["n_strands"])
    _check_rows(tables.plans.strands[plans["strands"][row] + place], plans["n_strands"], turn)
    ends = np.stack([colour[pairs["peer"]], pairs["strand"], pairs["slot"]], axis=1)
    _check_rows(ends, turns["n_pairs"], turn)
    return turn


def _links(parts: Parts, links: tuple[Link, ...], colour: Longs, twin: Longs) -> Longs:
    hops = parts.hops
    hop = _twin_rows(hops, twin)
    crossings = np.stack([hops["link"], hop])
    order = np.lexsort(crossings[::-1])
    _check(_are_distinct(*crossings))
    lengths = np.bincount(hops["link"], minlength=len(links))
    used = np.flatnonzero(lengths)
    link = np.arange(len(links))
    link[used] = hops["link"][hop[order][(np.cumsum(lengths) - lengths)[used]]]
    _check_rows(hop[order], lengths, link)
    kinds = link_kinds(links)
    _check(
        np.array_equal(link[hops["link"]], link[hops["link"][hop]]),
        np.array_equal(kinds, kinds[link]),
    )
    link[lengths == 0] = NONE
    return link


def _twin_rows(table: Table, twin: Longs) -> Longs:
    """The row of each row's twin, by rank and label; all ranks have as many as their twins."""
    n = np.bincount(table["rank"], minlength=len(twin))
    _check(np.array_equal(n, n[twin]))
    width = int(table["label"].max(initial=0)) + 1
    keys = table["rank"] * width + table["label"]
    order = np.argsort(keys)
    wanted = twin[table["rank"]] * width + table["label"]
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    rows = order[at]
    _check(np.array_equal(keys[rows], wanted))
    return rows
