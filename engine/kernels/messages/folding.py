"""Folding: simulate one rank for all provably equivalent ranks, and one link for theirs.

**Parts** are tables of everything that a rank takes part in.  Every row belongs to a rank; its
*label* distinguishes it from the rank's other rows and has the same meaning for every rank.  Some
rows belong to one rank only; others refer to a shared flow, line or link (hops of messages).

**An equitable partition** groups equal ranks.  Ranks keep a common colour while their parts are
equal, in flows, on lines and over links with ranks of equal colours: colour refinement.  Colours
are sums of hashes, so the partition is a guess until it is checked.

The *twin* of a rank is the first rank of its colour; every row, flow, line and link also has a
twin, which belongs to the twins of its ranks.  The check requires that each item has exactly the
properties of its twin, and that each message of a twin crosses a link at most once.  The program
then covers the program of the twins, as a graph covers another, with as many sheets as a colour has
ranks.  Every decision that depends on the state of a rank or a link is therefore equal on every
sheet.

**The smaller program** has one rank for each colour, and the links that their messages cross, each
crossed by as many messages as any of the links it represents.  A phase waits for all members of its
line; equal members arrive together, so it waits for one of each colour.
"""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.kernels.core.tables import NONE, pick, ragged_positions
from dimsweep.engine.kernels.messages.records import LINE, WAY, Plans
from dimsweep.engine.kernels.messages.tables import N_KINDS, Tables, first_indices, join_forms
from dimsweep.engine.lower.program import (
    POINT_TO_POINT,
    Ints,
    Longs,
    Program,
    Structure,
    Table,
    lay_out,
)
from dimsweep.engine.network.graph import Link, Network
from dimsweep.engine.records import record

TURN = record(  # what a rank does in the phases of a kind on one of its lines
    rank="i8",
    label="i8",
    line="i8",
    plan="i8",  # a MEMBER_PLAN
    n_pairs="i8",
)
PAIR = record(  # the messages that it then sends to one peer by one way
    turn="i8",
    number="i8",  # in the turn
    peer="i8",
    strand="i8",  # of the peer's port
    slot="i8",  # of the peer's port
    route="i8",
)


class Rows(NamedTuple):
    """A table of ranks' parts; ``known`` (rows, columns) are the values that twins must share."""

    rank: Longs
    label: Longs
    known: Longs


class Shared(NamedTuple):
    """Flows, lines or links that several ranks share: row ``i`` belongs to item ``of[i]``.

    ``known`` holds the values of each item that its twin must share.
    """

    rows: Rows
    of: Longs
    known: Longs


class Parts(NamedTuple):
    """All parts of each rank of a program, as tables."""

    nodes: Rows
    own: tuple[Rows, ...]  # all else that is a rank's alone: what follows a node, turns, strands
    messages: Rows  # those to one peer by one way are one row
    peer: Longs  # to whom they are
    flows: Shared  # rows are members, and then receivers of messages from point to point
    n_members: int  # of those rows
    keys: Longs  # of flows
    lines: Shared  # rows are turns
    links: Shared  # rows are hops of messages
    turns: Table  # TURN
    pairs: Table  # PAIR, turn by turn


def list_parts(s: Structure, tables: Tables, links: tuple[Link, ...]) -> Parts:
    """Return the tables of everything that each rank of a program takes part in."""
    place = np.arange(len(s.nodes)) - np.searchsorted(s.nodes["cls"], s.nodes["cls"])
    geometry = _geometries(tables, s.shape.n_dims)
    turns = _turns(tables, geometry)
    pairs = _pairs(s, tables, turns)
    members = tables.plans.members[turns["plan"]]
    turn, number = ragged_positions(members["n_strands"])
    strands = tables.plans.strands[members["strands"][turn] + number]
    turn_rows = Rows(
        turns["rank"],
        turns["label"],
        _columns(members, "n_strands", "n_slots", "open", "asked"),
    )
    of_strand = _nest_rows(turn_rows, turn, number, _columns(strands, "start", "end"))
    of_pair = _nest_rows(
        turn_rows, pairs["turn"], pairs["number"], _columns(pairs, "strand", "slot")
    )
    return Parts(
        _nodes(s, place),
        (_following(s, place), turn_rows, of_strand),
        of_pair,
        pairs["peer"],
        _flows(s, tables, place),
        len(s.members),
        s.flows["key"].astype(np.int64),
        Shared(turn_rows, turns["line"], geometry[:, None]),
        Shared(*_hops(s, tables, of_pair, pairs, place), _kinds(links)[:, None]),
        turns,
        pairs,
    )


def _columns(table: Table, *names: str) -> Longs:
    return np.stack([table[name].astype(np.int64) for name in names], axis=1)


def _nest_rows(rows: Rows, of: Longs, number: Longs, known: Longs) -> Rows:
    """Return rows that belong to outer rows ``of``, labelled by outer row and ``number``."""
    width = int(number.max(initial=0)) + 1
    return Rows(rows.rank[of], rows.label[of] * width + number, known)


def _nodes(s: Structure, place: Longs) -> Rows:
    """Return a row per node, labelled by the node's position within its rank."""
    rank = s.nodes["cls"].astype(np.int64)
    stream = np.where(s.nodes["stream"] < 0, NONE, s.nodes["stream"] - rank * s.shape.n_streams)
    known = _columns(s.nodes, "kind", "key", "tally", "waits", "duration")
    return Rows(rank, place, np.column_stack([known, stream]))


def _following(s: Structure, place: Longs) -> Rows:
    """Return a row per (node, successor); both belong to one rank."""
    node, number = ragged_positions(s.nodes["next_end"] - s.nodes["next_start"])
    following = s.following[s.nodes["next_start"][node] + number]
    known = np.stack([place[following], s.nodes["cls"][following] - s.nodes["cls"][node]], axis=1)
    rows = Rows(s.nodes["cls"].astype(np.int64), place, known)
    return _nest_rows(rows, node, number, known)


def _flows(s: Structure, tables: Tables, place: Longs) -> Shared:
    receives = np.flatnonzero(s.flows["receiver"] != NONE)
    node = np.append(s.members["node"], s.flows["receiver"][receives])
    of_member, _ = ragged_positions(s.flows["member_end"] - s.flows["member_start"])
    rows = Rows(s.nodes["cls"][node].astype(np.int64), place[node], np.zeros((len(node), 0), int))
    known = np.column_stack([s.flows["form"], s.flows["key"], tables.flows["group"]])
    return Shared(rows, np.append(of_member, receives), known.astype(np.int64))


def _hops(
    s: Structure, tables: Tables, of_pair: Rows, pairs: Table, place: Longs
) -> tuple[Rows, Longs]:
    """Return a row per hop of each message, and the link of each hop."""
    crossing = np.flatnonzero(s.forms["kind"][s.flows["form"]] == POINT_TO_POINT)
    sender = s.members[s.flows["member_start"][crossing]]
    others = of_pair.label.max(initial=0) + 1 + place[sender["node"]]
    messages = Rows(
        np.append(of_pair.rank, sender["cls"]), np.append(of_pair.label, others), of_pair.known
    )
    route = tables.routes[np.append(pairs["route"], tables.flows["route"][crossing])]
    message, hop = ragged_positions(route["end"] - route["start"])
    rows = _nest_rows(messages, message, hop, np.zeros((len(hop), 0), int))
    return rows, tables.hops[route["start"][message] + hop].astype(np.int64)


def _geometries(tables: Tables, n_dims: int) -> Longs:
    """Return a number per line; lines of equal spacing in one dimension share a number."""
    geometry = np.zeros(len(tables.plans.lines), np.int64)
    for g, places in enumerate(tables.plans.places["line"]):
        for d, lines in enumerate(places[:n_dims]):
            geometry[lines[lines != NONE]] = g * n_dims + d
    return geometry


def _turns(tables: Tables, geometry: Longs) -> Table:
    """Return a TURN (one rank's part in one kind of phase) each, in the order of ``Plans.ways``."""
    plans = tables.plans
    line, kind = np.nonzero(plans.line_plans["members"] != NONE)
    of = plans.line_plans[line, kind]
    order = np.argsort(of["ways"])
    line, kind, of = line[order], kind[order], of[order]
    which, member = ragged_positions(plans.lines["size"][line])
    turns = np.zeros(len(which), TURN)
    turns["rank"] = plans.line_ranks[plans.lines["start"][line[which]] + member]
    turns["label"] = geometry[line[which]] * N_KINDS + kind[which]
    turns["line"] = line[which]
    turns["plan"] = of["members"][which] + member
    first = of["ways"][which] + plans.members["pairs"][turns["plan"]]
    turns["n_pairs"] = np.diff(np.append(first, len(plans.ways)))
    return turns


def _pairs(s: Structure, tables: Tables, turns: Table) -> Table:
    turn, number = ragged_positions(turns["n_pairs"])
    way = tables.plans.ways  # which lie turn by turn
    strands = first_indices(tables.n_strands, s.shape.n_classes).ravel()
    slots = first_indices(tables.n_slots, s.shape.n_classes).ravel()
    port = np.searchsorted(strands, way["strand"], side="right") - 1
    pairs = np.zeros(len(turn), PAIR)
    pairs["turn"], pairs["number"] = turn, number
    pairs["peer"] = port // s.shape.n_dims
    pairs["strand"] = way["strand"] - strands[port]
    pairs["slot"] = way["slot"] - slots[port]
    pairs["route"] = way["route"]
    return pairs


def _kinds(links: tuple[Link, ...]) -> Longs:
    """Return a number per link; links of equal dimension, bandwidth, latency, buffer share it."""
    kinds = [(link.dim, link.bandwidth, link.latency, link.buffer or 0.0) for link in links]
    return np.unique(np.array(kinds), axis=0, return_inverse=True)[1].reshape(-1)


_Hashes = NDArray[np.uint64]


class Twins(NamedTuple):
    """The twin of each node, flow, line, turn and link, by number, and each rank's colour."""

    first: Longs  # (colours,) the twin of all ranks of a colour
    colour: Longs  # (R,)
    node: Longs
    flow: Longs
    line: Longs  # NONE for an unused line; links also
    turn: Longs
    link: Longs


class _MismatchError(Exception):
    """Raised when an item differs from its twin, so that the program does not fold."""


def refine(parts: Parts, n: int) -> Longs | None:
    """Return the colour of each of ``n`` ranks by the coarsest equitable partition.

    Colours are numbered by their first ranks.  Return None if colours have unequal numbers of
    ranks, or if a colour has a single rank.
    """
    own = [_Sums(rows.rank, n)(_hash_rows(rows)) for rows in (parts.nodes, *parts.own)]
    of_messages, messages = _Sums(parts.messages.rank, n), _hash_rows(parts.messages)
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
        colour = _number_hashes(_mix(*hashes))
        sizes = np.bincount(colour)
        if sizes.min() == 1:
            return None
        if len(sizes) == n_colours:
            return colour if sizes.min() == sizes.max() else None
        n_colours = len(sizes)


class _Sums:
    """Adds up hashes by index: the sum over all items of each of ``n`` indices."""

    def __init__(self, index: NDArray[np.integer], n: int) -> None:
        self._order, self._n = np.argsort(index, kind="stable"), n
        self._used, self._starts = np.unique(index[self._order], return_index=True)

    def __call__(self, hashes: _Hashes) -> _Hashes:
        sums = np.zeros(self._n, np.uint64)
        if len(hashes):
            sums[self._used] = np.add.reduceat(hashes[self._order], self._starts)
        return sums


def _hash_rows(rows: Rows) -> _Hashes:
    return _mix(rows.label, *rows.known.T)


def _mix(*columns: NDArray[np.generic]) -> _Hashes:
    """Hash each row with the finaliser of SplitMix64 (Steele et al., OOPSLA 2014)."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes = (hashes ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes ^= hashes >> np.uint64(31)
    return hashes


def _number_hashes(hashes: _Hashes) -> Longs:
    _, first, colour = np.unique(hashes, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), np.int64)
    numbers[np.argsort(first)] = np.arange(len(first))
    return numbers[colour.reshape(-1)]


# --- the check -----------------------------------------------------------------------------------


def find_twins(parts: Parts, colour: Longs) -> Twins | None:
    """Return the twins for a colouring of ranks, or None if any item differs from its twin."""
    first = np.unique(colour, return_index=True)[1]
    twin = first[colour]
    try:
        node, message = _find_row_twins(parts.nodes, twin), _find_row_twins(parts.messages, twin)
        for rows in parts.own:
            _find_row_twins(rows, twin)
        _require(np.array_equal(colour[parts.peer], colour[parts.peer[message]]))
        flow, of_flow = _find_shared_twins(parts.flows, twin)
        line, turn = _find_shared_twins(parts.lines, twin)
        link, hop = _find_shared_twins(parts.links, twin)
        _check_flows(parts, of_flow, colour)
        _require(_are_distinct(parts.links.of, hop))
    except _MismatchError:
        return None
    return Twins(first, colour, node, flow, line, turn, link)


def _require(*same: bool | np.bool_) -> None:
    if not all(same):
        raise _MismatchError


def _find_row_twins(rows: Rows, twin: Longs) -> Longs:
    """Return the twin of each row; raise an error unless both have equal known values."""
    n = np.bincount(rows.rank, minlength=len(twin))
    _require(np.array_equal(n, n[twin]))
    width = int(rows.label.max(initial=0)) + 1
    keys = rows.rank * width + rows.label
    order = np.argsort(keys, kind="stable")
    wanted = twin[rows.rank] * width + rows.label
    found = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    _require(np.array_equal(keys[found], wanted), np.array_equal(rows.known, rows.known[found]))
    return found


def _find_shared_twins(shared: Shared, twin: Longs) -> tuple[Longs, Longs]:
    """Return the twin of each shared item, and the twin of each of its rows.

    The twin of an item is the item of its first row's twin, or NONE if the item is unused.
    """
    rows = _find_row_twins(shared.rows, twin)
    of, row = _distinct_pairs(shared.of, rows)
    lengths = np.bincount(of, minlength=len(shared.known))
    starts = np.cumsum(lengths) - lengths
    used = lengths > 0
    thing = np.arange(len(lengths))
    thing[used] = shared.of[row[starts[used]]]
    which, place = ragged_positions(lengths)
    _require(
        np.array_equal(shared.known, shared.known[thing]),
        np.array_equal(lengths, lengths[thing]),
        np.array_equal(row, row[starts[thing[which]] + place]),
        np.array_equal(thing[shared.of], thing[shared.of[rows]]),
    )
    thing[~used] = NONE
    return thing, rows


def _check_flows(parts: Parts, twin_row: Longs, colour: Longs) -> None:
    """Require one sender of each colour per flow, and distinct flow keys within a rank."""
    members = slice(0, parts.n_members)
    of, rank = parts.flows.of[members], parts.flows.rows.rank
    flow, row = _distinct_pairs(of, twin_row[members])
    _require(_are_distinct(flow, colour[rank[row]]), _are_distinct(parts.keys[of], rank[members]))


def _distinct_pairs(one: Longs, other: Longs) -> tuple[Longs, Longs]:
    """Return the distinct pairs of two columns, sorted; ``other`` is not negative."""
    width = int(other.max(initial=0)) + 1
    return np.divmod(np.unique(one * width + other), width)


def _are_distinct(one: Longs, other: Longs) -> bool:
    return len(_distinct_pairs(one, other)[0]) == len(one)


@dataclass(frozen=True)
class Folding:
    """The folded program, with one rank per colour, and maps from the original items to it."""

    program: Program
    tables: Tables
    n_ranks: int
    n_sheets: int  # ranks for which each of them stands
    links: Longs  # those that stand for others
    rank_of: Longs  # (R,) the rank in ``program`` that stands for each
    node_of: Longs  # (N,) the node in ``program``
    link_of: Longs  # (links,) the link in ``links``, or NONE if unused


def find_folding(program: Program, network: Network, tables: Tables) -> Folding | None:
    """Return the folding of a program, valid at all its bandwidths, or None.

    None if no two ranks are equivalent, if switches reduce, or if accesses share memory servers.
    """
    s = program.structure
    if tables.interconnect or len(tables.reductions) or len(s.services):
        return None
    parts = list_parts(s, tables, network.links)
    colour = refine(parts, s.shape.n_classes)
    twins = None if colour is None else find_twins(parts, colour)
    if twins is None:
        return None
    structure, small = _quotient(s, tables, parts, twins)
    return Folding(
        program=dataclasses.replace(program, structure=structure),
        tables=small,
        n_ranks=len(twins.first),
        n_sheets=len(twins.colour) // len(twins.first),
        links=np.unique(twins.link[twins.link != NONE]),
        rank_of=twins.colour,
        node_of=_number_twins(twins.node),
        link_of=_number_twins(twins.link),
    )


def _quotient(s: Structure, tables: Tables, parts: Parts, twins: Twins) -> tuple[Structure, Tables]:
    """Return the structure and the tables of the folded program, with one rank per colour."""
    structure = _structure(s, twins)
    flows, n_gathered = join_forms(structure, tables.flows[np.unique(twins.flow)])
    turns = np.flatnonzero(twins.turn == np.arange(len(twins.turn)))
    pairs = parts.pairs[np.isin(parts.pairs["turn"], turns)]
    crossing = flows["route"][flows["group"] == NONE]
    used = np.unique(np.append(pairs["route"], crossing))
    routes, hops = _routes(tables, used, twins.link)
    flows["route"] = np.searchsorted(used, flows["route"])
    pairs["route"] = np.searchsorted(used, pairs["route"])
    small = dataclasses.replace(
        tables,
        plans=_plans(structure, tables, parts, twins, turns, pairs),
        flows=flows,
        routes=routes,
        hops=hops,
        n_gathered=n_gathered,
    )
    return structure, small


def _number_twins(twin: Longs) -> Longs:
    """Return the position of each item's twin among all twins; NONE for items without one."""
    return np.where(twin == NONE, NONE, np.searchsorted(np.unique(twin[twin != NONE]), twin))


def _structure(s: Structure, twins: Twins) -> Structure:
    kept = np.unique(twins.node)
    node_of, flow_of = _number_twins(twins.node), _number_twins(twins.flow)
    nodes = s.nodes[kept]
    n_following = nodes["next_end"] - nodes["next_start"]
    row, place = ragged_positions(n_following)
    following = node_of[s.following[nodes["next_start"][row] + place]].astype(s.following.dtype)
    lay_out(nodes, next=n_following)
    moved = (nodes["cls"] - twins.colour[nodes["cls"]]) * s.shape.n_streams
    nodes["stream"] -= np.where(nodes["stream"] < 0, 0, moved)
    nodes["cls"] = twins.colour[nodes["cls"]]
    nodes["flow"] = pick(flow_of, nodes["flow"])
    flows = s.flows[np.unique(twins.flow)]
    members, lengths = _members(s, flows, node_of)
    members["cls"] = nodes["cls"][members["node"]]
    lay_out(flows, member=lengths, entry=lengths * s.forms["chunks"][flows["form"]])
    flows["receiver"] = pick(node_of, flows["receiver"])
    return s._replace(
        shape=s.shape._replace(n_classes=len(twins.first)),
        nodes=nodes,
        following=following,
        flows=flows,
        members=members,
    )


def _members(s: Structure, flows: Table, node_of: Longs) -> tuple[Table, Longs]:
    """Return the folded members of ``flows``, one per colour, and their number per flow."""
    flow, place = ragged_positions(flows["member_end"] - flows["member_start"])
    node = node_of[s.members["node"][flows["member_start"][flow] + place]]
    flow, node = np.unique(np.stack([flow, node]), axis=1)
    members = np.zeros(len(flow), s.members.dtype)
    members["node"] = node
    return members, np.bincount(flow, minlength=len(flows))


def _routes(tables: Tables, used: Longs, link: Longs) -> tuple[Table, Ints]:
    """Return the routes ``used``, with each link replaced by its twin, and their hops."""
    routes = tables.routes[used]
    lengths = routes["end"] - routes["start"]
    row, place = ragged_positions(lengths)
    hops = _number_twins(link)[tables.hops[routes["start"][row] + place]]
    routes["end"] = np.cumsum(lengths)
    routes["start"] = routes["end"] - lengths
    return routes, hops.astype(np.int32)


def _plans(
    s: Structure, tables: Tables, parts: Parts, twins: Twins, turns: Longs, pairs: Table
) -> Plans:
    """Return the plans of the folded program, on lines with one rank per colour.

    Each twin's turn has a separate MEMBER_PLAN; the plans of a line and a kind are in rank order.
    """
    whole, line_of = tables.plans, _number_twins(twins.line)
    own = parts.turns[turns]
    line, rank = line_of[own["line"]], twins.colour[own["rank"]]
    n_kinds = whole.line_plans.shape[1]
    kind = own["label"] % n_kinds
    order = np.lexsort((rank, kind, line))
    own, line, rank, kind = own[order], line[order], rank[order], kind[order]
    members = whole.members[own["plan"]]
    # WAYs lie turn by turn; a MEMBER_PLAN's pairs count from the beginning of all.
    turn_at = np.full(len(parts.turns), NONE)
    turn_at[turns[order]] = np.arange(len(order))
    pairs = pairs[np.argsort(turn_at[pairs["turn"]], kind="stable")]
    n_pairs = own["n_pairs"]
    members["pairs"] = np.cumsum(n_pairs) - n_pairs
    line_plans = np.zeros((line_of.max(initial=NONE) + 1, n_kinds), whole.line_plans.dtype)
    line_plans["members"] = NONE
    first = np.unique(np.stack([line, kind]), axis=1, return_index=True)[1]
    line_plans["members"][line[first], kind[first]] = first
    places, lines, line_ranks = _places(s, tables, twins, line, rank)
    return whole._replace(
        members=members,
        line_plans=line_plans,
        ways=_ways(s, tables, parts, twins, pairs),
        places=places,
        lines=lines,
        line_ranks=line_ranks,
    )


def _ways(s: Structure, tables: Tables, parts: Parts, twins: Twins, pairs: Table) -> Table:
    n_ranks = s.shape.n_classes
    dim = parts.lines.known[parts.turns["line"][pairs["turn"]], 0] % s.shape.n_dims
    peer = twins.colour[pairs["peer"]]
    ways = np.zeros(len(pairs), WAY)
    ways["route"] = pairs["route"]
    ways["strand"] = first_indices(tables.n_strands, n_ranks)[peer, dim] + pairs["strand"]
    ways["slot"] = first_indices(tables.n_slots, n_ranks)[peer, dim] + pairs["slot"]
    return ways


def _places(
    s: Structure, tables: Tables, twins: Twins, line: Longs, rank: Longs
) -> tuple[Table, Table, Ints]:
    """Return the folded ranks' places on lines and in groups, the lines, and the lines' ranks."""
    on = np.unique(np.stack([line, rank]), axis=1)
    lengths = np.bincount(on[0])
    starts = np.cumsum(lengths) - lengths
    lines = np.zeros(len(lengths), LINE)
    lines["start"], lines["size"] = starts, lengths
    place_on = np.full((len(lengths), s.shape.n_classes), NONE)
    place_on[on[0], on[1]] = np.arange(on.shape[1]) - starts[on[0]]
    # An index instead would give another memory layout, for which all would be compiled anew.
    places = np.take(tables.plans.places, twins.first, axis=2)
    places["line"] = pick(_number_twins(twins.line), places["line"])
    if len(lines):
        places["coordinate"] = place_on[places["line"], np.arange(s.shape.n_classes)]
    # In the whole group, a rank's place is that among the members of the group's flows.
    flow, place = ragged_positions(s.flows["member_end"] - s.flows["member_start"])
    group = tables.flows["group"][np.unique(twins.flow)][flow]
    collective = group != NONE
    places["coordinate"][group[collective], -1, s.members["cls"][collective]] = place[collective]
    return places, lines, on[1].astype(np.int32)
