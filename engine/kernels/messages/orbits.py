"""Which ranks do the same: colour refinement over ranks, flows, lines and links.

Two ranks keep one colour while they run the same operators, in flows and on lines with ranks of the
same colours, and send the same messages to ranks of the same colours over links of the same
colours; two links while the same messages cross them.  Colours are sums of hashes, so what is found
is a guess until :mod:`engine.kernels.network.folding` has checked it.
"""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.kernels.core.none import NONE
from engine.kernels.messages.tables import N_KINDS, Tables, firsts
from engine.lower.program import POINT_TO_POINT, Longs, Structure, Table
from engine.network.graph import Link

_Hashes = NDArray[np.uint64]
_Number = TypeVar("_Number", bound=np.integer)

# A label tells the turns, or the hops, of one rank apart, and means the same for every rank.
TURN = np.dtype(  # what a rank does in the phases of a kind on one of its lines
    [
        ("rank", "i8"),
        ("label", "i8"),
        ("line", "i8"),
        ("plan", "i8"),  # a MEMBER_PLAN
        ("n_pairs", "i8"),
    ]
)
PAIR = np.dtype(  # the messages that it then sends to one peer by one way
    [
        ("turn", "i8"),
        ("number", "i8"),  # in the turn
        ("peer", "i8"),
        ("strand", "i8"),  # of the peer's port
        ("slot", "i8"),  # likewise
        ("route", "i8"),
    ]
)
HOP = np.dtype([("rank", "i8"), ("label", "i8"), ("link", "i8")])  # of a message from the rank


class Parts(NamedTuple):
    """What each rank has a part in: what colours are made of, and what is compared with twins."""

    place: Longs  # (N,) of each node, among those of its rank
    geometry: Longs  # (lines,) lines of one geometry are disjoint, and alike
    turns: Table  # TURN
    pairs: Table  # PAIR, turn by turn
    hops: Table  # HOP


def parts_of(s: Structure, tables: Tables) -> Parts:
    """What each rank of a program has a part in."""
    place = np.arange(len(s.nodes)) - np.searchsorted(s.nodes["cls"], s.nodes["cls"])
    geometry = _geometries(tables, s.shape.n_dims)
    turns, first = _turns(tables, geometry)
    pairs = _pairs(s, tables, turns, first)
    crossing = np.flatnonzero(s.forms["kind"][s.flows["form"]] == POINT_TO_POINT)
    sender = s.members[s.flows["member_start"][crossing]]
    turn = turns[pairs["turn"]]
    labels = turn["label"] * (turns["n_pairs"].max(initial=0) + 1) + pairs["number"]
    labels = np.append(labels, labels.max(initial=0) + 1 + place[sender["node"]])
    ranks = np.append(turn["rank"], sender["cls"])
    route = tables.routes[np.append(pairs["route"], tables.flows["route"][crossing])]
    message, hop = ragged(route["end"] - route["start"])
    hops = np.zeros(len(hop), HOP)
    hops["rank"] = ranks[message]
    hops["label"] = labels[message] * (hop.max(initial=0) + 1) + hop
    hops["link"] = tables.hops[route["start"][message] + hop]
    return Parts(place, geometry, turns, pairs, hops)


def ragged(lengths: NDArray[np.integer]) -> tuple[Longs, Longs]:
    """For rows of these lengths: the row of each item, and its place in it."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]


def pick(
    values: NDArray[_Number], index: NDArray[np.integer], nothing: int = NONE
) -> NDArray[_Number]:
    """The values at each index, ``nothing`` where it is NONE."""
    return np.append(values, values.dtype.type(nothing))[index]


def _geometries(tables: Tables, n_dims: int) -> Longs:
    """A number for all lines that join ranks equally far apart in the same dimension."""
    geometry = np.zeros(len(tables.plans.lines), np.int64)
    for g, places in enumerate(tables.plans.places["line"]):
        for d, lines in enumerate(places[:n_dims]):
            geometry[lines[lines != NONE]] = g * n_dims + d
    return geometry


def _turns(tables: Tables, geometry: Longs) -> tuple[Table, Longs]:
    """The turns of all ranks, and the first of each one's pairs in Plans.ways."""
    plans = tables.plans
    line, kind = np.nonzero(plans.of["members"] != NONE)
    of = plans.of[line, kind]
    order = np.argsort(of["ways"])
    line, kind, of = line[order], kind[order], of[order]
    which, member = ragged(plans.lines["size"][line])
    turns = np.zeros(len(which), TURN)
    turns["rank"] = plans.line_ranks[plans.lines["start"][line[which]] + member]
    turns["label"] = geometry[line[which]] * N_KINDS + kind[which]
    turns["line"] = line[which]
    turns["plan"] = of["members"][which] + member
    first = of["ways"][which] + plans.members["pairs"][turns["plan"]]
    turns["n_pairs"] = np.diff(np.append(first, len(plans.ways)))
    return turns, first


def _pairs(s: Structure, tables: Tables, turns: Table, first: Longs) -> Table:
    turn, number = ragged(turns["n_pairs"])
    way = tables.plans.ways[first[turn] + number]
    strands = firsts(tables.n_strands, s.shape.n_classes).ravel()
    slots = firsts(tables.n_slots, s.shape.n_classes).ravel()
    port = np.searchsorted(strands, way["strand"], side="right") - 1
    pairs = np.zeros(len(turn), PAIR)
    pairs["turn"], pairs["number"] = turn, number
    pairs["peer"] = port // s.shape.n_dims
    pairs["strand"] = way["strand"] - strands[port]
    pairs["slot"] = way["slot"] - slots[port]
    pairs["route"] = way["route"]
    return pairs


def refine(parts: Parts, s: Structure, tables: Tables, links: tuple[Link, ...]) -> Longs | None:
    """The coarsest colours of ranks, numbered in the order of their first ranks.

    None where they do not all have as many ranks, or some have a single one.
    """
    n, turns, pairs, hops = s.shape.n_classes, parts.turns, parts.pairs, parts.hops
    of_node, of_turn = _Sums(s.nodes["cls"], n), _Sums(turns["rank"], n)
    of_pair, of_hop = _Sums(turns["rank"][pairs["turn"]], n), _Sums(hops["rank"], n)
    flow_of = ragged(s.flows["member_end"] - s.flows["member_start"])[0]
    of_member = _Sums(flow_of, len(s.flows))
    on_line, on_link = _Sums(turns["line"], len(parts.geometry)), _Sums(hops["link"], len(links))
    # What there is to know beside colours.
    receiver, peers = s.flows["receiver"], pairs["peer"]
    flows = _mix(s.flows["form"], s.flows["key"], tables.flows["group"])
    turn = _mix(turns["label"], _plan_hashes(turns, tables))
    pair = _mix(turn[pairs["turn"]], pairs["number"], pairs["strand"], pairs["slot"])
    nodes = _mix(parts.place, s.nodes["kind"], s.nodes["key"])
    wires = link_kinds(links)
    colour, n_colours = np.zeros(n, np.int64), 1
    while True:
        member = _mix(colour[s.members["cls"]], parts.place[s.members["node"]])
        far = pick(colour[s.nodes["cls"]], receiver, NONE)
        flow = _mix(flows, of_member(member), far)
        known = pick(flow, s.nodes["flow"], 0)
        line = on_line(_mix(turns["label"], colour[turns["rank"]]))
        link = _mix(wires, on_link(_mix(hops["label"], colour[hops["rank"]])))
        colour = _numbered(
            _mix(
                colour,
                of_node(_mix(nodes, known)),
                of_turn(_mix(turn, line[turns["line"]])),
                of_pair(_mix(pair, colour[peers])),
                of_hop(_mix(hops["label"], link[hops["link"]])),
            )
        )
        sizes = np.bincount(colour)
        if sizes.min() == 1:
            return None
        if len(sizes) == n_colours:
            return colour if sizes.min() == sizes.max() else None
        n_colours = len(sizes)


def _plan_hashes(turns: Table, tables: Tables) -> _Hashes:
    """Hashes of the strands of each turn."""
    plans = tables.plans.members[turns["plan"]]
    turn, number = ragged(plans["n_strands"])
    strand = tables.plans.strands[plans["strands"][turn] + number]
    return _Sums(turn, len(turns))(_mix(number, strand["start"], strand["end"]))


def link_kinds(links: tuple[Link, ...]) -> Longs:
    """A number for all links of one kind; at other points of a program, too, since the links of a
    dimension change together."""
    kinds = [(link.dim, link.bandwidth, link.latency, link.buffer or 0.0) for link in links]
    return np.unique(np.array(kinds), axis=0, return_inverse=True)[1].reshape(-1)


def _numbered(hashes: _Hashes) -> Longs:
    _, first, colour = np.unique(hashes, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), np.int64)
    numbers[np.argsort(first)] = np.arange(len(first))
    return numbers[colour.reshape(-1)]


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


def _mix(*columns: NDArray[np.generic]) -> _Hashes:
    """A hash of each row, by the finaliser of SplitMix64 (Steele et al., OOPSLA 2014)."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes = (hashes ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes ^= hashes >> np.uint64(31)
    return hashes
