"""Folding: one rank is simulated for all that are provably alike, with one link for all of theirs.

:mod:`engine.kernels.messages.partition` finds ranks that are provably alike.  What is left of a
program then is the one of the twins alone: as many ranks as colours, and the links that their
messages cross, each crossed by as many messages as any of those that it stands for.  A phase waits
for all members of its line; alike ones come together, so it waits for one of each colour.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.rows import pick, ragged
from dimsweep.engine.kernels.messages.partition import Twins, refine, twins_of
from dimsweep.engine.kernels.messages.parts import Parts, parts_of
from dimsweep.engine.kernels.messages.records import LINE, WAY, Plans
from dimsweep.engine.kernels.messages.tables import Tables, firsts, joined_flows
from dimsweep.engine.lower.program import Ints, Longs, Program, Structure, Table, lay_out
from dimsweep.engine.network.graph import Network


@dataclass(frozen=True)
class Folding:
    """A program of the ranks that stand for others, and who stands for whom."""

    program: Program
    tables: Tables
    n_ranks: int
    n_sheets: int  # ranks for which each of them stands
    links: Longs  # those that stand for others
    rank_of: Longs  # (R,) the rank in ``program`` that stands for each
    node_of: Longs  # (N,) likewise
    link_of: Longs  # (links,) likewise, in ``links``; NONE: nothing crosses it


def folding_of(program: Program, network: Network, tables: Tables) -> Folding | None:
    """How the program folds, at all its points; None if no rank is like another one, switches
    reduce, or accesses share servers."""
    s = program.structure
    if tables.wafer or len(tables.reductions) or len(s.services):
        return None
    parts = parts_of(s, tables, network.links)
    colour = refine(parts, s.shape.n_classes)
    twins = None if colour is None else twins_of(parts, colour)
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
        node_of=_numbers(twins.node),
        link_of=_numbers(twins.link),
    )


def _quotient(s: Structure, tables: Tables, parts: Parts, twins: Twins) -> tuple[Structure, Tables]:
    """The structure and the tables in which each colour is a rank, and each twin itself."""
    structure = _structure(s, twins)
    flows, n_gathered = joined_flows(structure, tables.flows[np.unique(twins.flow)])
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


def _numbers(twin: Longs) -> Longs:
    """The number of each one's twin among the twins; NONE where there is none."""
    return np.where(twin == NONE, NONE, np.searchsorted(np.unique(twin[twin != NONE]), twin))


def _structure(s: Structure, twins: Twins) -> Structure:
    kept = np.unique(twins.node)
    node_of, flow_of = _numbers(twins.node), _numbers(twins.flow)
    nodes = s.nodes[kept]
    n_following = nodes["next_end"] - nodes["next_start"]
    row, place = ragged(n_following)
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
    """One member of each colour of each flow, and how many of them there are."""
    flow, place = ragged(flows["member_end"] - flows["member_start"])
    node = node_of[s.members["node"][flows["member_start"][flow] + place]]
    flow, node = np.unique(np.stack([flow, node]), axis=1)
    members = np.zeros(len(flow), s.members.dtype)
    members["node"] = node
    return members, np.bincount(flow, minlength=len(flows))


def _routes(tables: Tables, used: Longs, link: Longs) -> tuple[Table, Ints]:
    """The routes that are used, over the twins of their links."""
    routes = tables.routes[used]
    lengths = routes["end"] - routes["start"]
    row, place = ragged(lengths)
    hops = _numbers(link)[tables.hops[routes["start"][row] + place]]
    routes["end"] = np.cumsum(lengths)
    routes["start"] = routes["end"] - lengths
    return routes, hops.astype(np.int32)


def _plans(
    s: Structure, tables: Tables, parts: Parts, twins: Twins, turns: Longs, pairs: Table
) -> Plans:
    """What the twins do on lines of one rank a colour.

    Each twin's turn has a MEMBER_PLAN of its own, a line's and a kind's in the order of its ranks.
    """
    whole, line_of = tables.plans, _numbers(twins.line)
    own = parts.turns[turns]
    line, rank = line_of[own["line"]], twins.colour[own["rank"]]
    n_kinds = whole.of.shape[1]
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
    of = np.zeros((line_of.max(initial=NONE) + 1, n_kinds), whole.of.dtype)
    of["members"] = NONE
    first = np.unique(np.stack([line, kind]), axis=1, return_index=True)[1]
    of["members"][line[first], kind[first]] = first
    places, lines, line_ranks = _places(s, tables, twins, line, rank)
    return whole._replace(
        members=members,
        of=of,
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
    ways["strand"] = firsts(tables.n_strands, n_ranks)[peer, dim] + pairs["strand"]
    ways["slot"] = firsts(tables.n_slots, n_ranks)[peer, dim] + pairs["slot"]
    return ways


def _places(
    s: Structure, tables: Tables, twins: Twins, line: Longs, rank: Longs
) -> tuple[Table, Table, Ints]:
    """Where each rank is on its lines and in its groups; the lines, and their ranks."""
    on = np.unique(np.stack([line, rank]), axis=1)
    lengths = np.bincount(on[0])
    starts = np.cumsum(lengths) - lengths
    lines = np.zeros(len(lengths), LINE)
    lines["start"], lines["size"] = starts, lengths
    place_on = np.full((len(lengths), s.shape.n_classes), NONE)
    place_on[on[0], on[1]] = np.arange(on.shape[1]) - starts[on[0]]
    # An index instead would give another memory layout, for which all would be compiled anew.
    places = np.take(tables.plans.places, twins.first, axis=2)
    places["line"] = pick(_numbers(twins.line), places["line"])
    if len(lines):
        places["coordinate"] = place_on[places["line"], np.arange(s.shape.n_classes)]
    # In the whole group, a rank's place is that among the members of the group's flows.
    flow, place = ragged(s.flows["member_end"] - s.flows["member_start"])
    group = tables.flows["group"][np.unique(twins.flow)][flow]
    collective = group != NONE
    places["coordinate"][group[collective], -1, s.members["cls"][collective]] = place[collective]
    return places, lines, on[1].astype(np.int32)
