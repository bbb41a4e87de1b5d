"""What each rank of a program has a part in: what makes it like another, or tells it from one.

Every row is a rank's, and its *label* tells it from the rank's other rows and means the same for
every rank.  Some rows are a rank's alone; in others ranks have a part together, in a flow, on a
line, or, by the hops of their messages, on a link.
"""

from typing import NamedTuple

import numpy as np

from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.rows import ragged
from dimsweep.engine.kernels.messages.tables import N_KINDS, Tables, firsts
from dimsweep.engine.lower.program import POINT_TO_POINT, Longs, Structure, Table
from dimsweep.engine.network.graph import Link
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
    slot="i8",  # likewise
    route="i8",
)


class Rows(NamedTuple):
    """Rows of ranks, and what is known of each, (rows, columns), which holds for its twin, too."""

    rank: Longs
    label: Longs
    known: Longs


class Shared(NamedTuple):
    """Things in which ranks have a part: row ``i`` in number ``of[i]``; ``known`` is of things."""

    rows: Rows
    of: Longs
    known: Longs


class Parts(NamedTuple):
    """What each rank has a part in."""

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


def parts_of(s: Structure, tables: Tables, links: tuple[Link, ...]) -> Parts:
    """What each rank of a program has a part in."""
    place = np.arange(len(s.nodes)) - np.searchsorted(s.nodes["cls"], s.nodes["cls"])
    geometry = _geometries(tables, s.shape.n_dims)
    turns = _turns(tables, geometry)
    pairs = _pairs(s, tables, turns)
    members = tables.plans.members[turns["plan"]]
    turn, number = ragged(members["n_strands"])
    strands = tables.plans.strands[members["strands"][turn] + number]
    turn_rows = Rows(
        turns["rank"],
        turns["label"],
        _columns(members, "n_strands", "n_slots", "open", "asked"),
    )
    of_strand = _nested(turn_rows, turn, number, _columns(strands, "start", "end"))
    of_pair = _nested(turn_rows, pairs["turn"], pairs["number"], _columns(pairs, "strand", "slot"))
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


def _nested(rows: Rows, of: Longs, number: Longs, known: Longs) -> Rows:
    """Rows of rows: the label is theirs and the number among those of the same."""
    width = int(number.max(initial=0)) + 1
    return Rows(rows.rank[of], rows.label[of] * width + number, known)


def _nodes(s: Structure, place: Longs) -> Rows:
    """Nodes by their places among those of their rank."""
    rank = s.nodes["cls"].astype(np.int64)
    stream = np.where(s.nodes["stream"] < 0, NONE, s.nodes["stream"] - rank * s.shape.n_streams)
    known = _columns(s.nodes, "kind", "key", "tally", "waits", "duration")
    return Rows(rank, place, np.column_stack([known, stream]))


def _following(s: Structure, place: Longs) -> Rows:
    """The nodes that wait for each, which are of the same rank."""
    node, number = ragged(s.nodes["next_end"] - s.nodes["next_start"])
    following = s.following[s.nodes["next_start"][node] + number]
    known = np.stack([place[following], s.nodes["cls"][following] - s.nodes["cls"][node]], axis=1)
    rows = Rows(s.nodes["cls"].astype(np.int64), place, known)
    return _nested(rows, node, number, known)


def _flows(s: Structure, tables: Tables, place: Longs) -> Shared:
    receives = np.flatnonzero(s.flows["receiver"] != NONE)
    node = np.append(s.members["node"], s.flows["receiver"][receives])
    of_member, _ = ragged(s.flows["member_end"] - s.flows["member_start"])
    rows = Rows(s.nodes["cls"][node].astype(np.int64), place[node], np.zeros((len(node), 0), int))
    known = np.column_stack([s.flows["form"], s.flows["key"], tables.flows["group"]])
    return Shared(rows, np.append(of_member, receives), known.astype(np.int64))


def _hops(
    s: Structure, tables: Tables, of_pair: Rows, pairs: Table, place: Longs
) -> tuple[Rows, Longs]:
    """The hops of all messages, and their links."""
    crossing = np.flatnonzero(s.forms["kind"][s.flows["form"]] == POINT_TO_POINT)
    sender = s.members[s.flows["member_start"][crossing]]
    others = of_pair.label.max(initial=0) + 1 + place[sender["node"]]
    messages = Rows(
        np.append(of_pair.rank, sender["cls"]), np.append(of_pair.label, others), of_pair.known
    )
    route = tables.routes[np.append(pairs["route"], tables.flows["route"][crossing])]
    message, hop = ragged(route["end"] - route["start"])
    rows = _nested(messages, message, hop, np.zeros((len(hop), 0), int))
    return rows, tables.hops[route["start"][message] + hop].astype(np.int64)


def _geometries(tables: Tables, n_dims: int) -> Longs:
    """A number for all lines that join ranks equally far apart in the same dimension."""
    geometry = np.zeros(len(tables.plans.lines), np.int64)
    for g, places in enumerate(tables.plans.places["line"]):
        for d, lines in enumerate(places[:n_dims]):
            geometry[lines[lines != NONE]] = g * n_dims + d
    return geometry


def _turns(tables: Tables, geometry: Longs) -> Table:
    """The turns of all ranks, in the order of their pairs in Plans.ways."""
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
    return turns


def _pairs(s: Structure, tables: Tables, turns: Table) -> Table:
    turn, number = ragged(turns["n_pairs"])
    way = tables.plans.ways  # which lie turn by turn
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


def _kinds(links: tuple[Link, ...]) -> Longs:
    """A number for all links of one kind; at other points of a program, too, since the links of a
    dimension change together."""
    kinds = [(link.dim, link.bandwidth, link.latency, link.buffer or 0.0) for link in links]
    return np.unique(np.array(kinds), axis=0, return_inverse=True)[1].reshape(-1)
