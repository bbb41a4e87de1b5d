"""Chains: consecutive operators that nothing can interrupt run as one.

Transformers under tensor parallelism alternate computations and collectives: hundreds of thousands
of operators that wait only for one another, on a stream and a port that no other operator needs
meanwhile.  Their total time follows from their durations alone.  The phase kernel therefore runs
such a chain as one computing operator, and examines its links only to book the time of its class.

Links
    A computation, or a collective within one class over one dimension, is *undisturbed* if the
    graph orders it with every other user of its stream and its port in the class.  (A port's queue
    belongs to one class.)  A chain consists of adjacent undisturbed operators: all of them follow
    its first and precede its last one, and only these two have edges to other operators.  No link
    therefore waits for a stream or a port, and no other operator waits for the links' stream or
    port: a link starts when its last predecessor ends.

Ends
    A chain begins and ends with a computation that takes time.  Other events at the instants of
    its begin and end therefore meet the same operator as without chains.

No time changes by a picosecond, nor does any critical path.  Sums of fractions (bytes sent, shares
of exposed time) may be rounded differently in their last bits.

Chains are found once for all points; :func:`time_chains` times them, and their links, at one point.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.compiler import compiled, inlined, kernel
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.tables import NONE, pick, ragged_positions
from dimsweep.engine.kernels.phase.state import Sim
from dimsweep.engine.lower import program
from dimsweep.engine.lower.program import Indices, Longs, NodeKind, StreamOrder, Structure, Table

_MOST_RESOURCES = 63  # bits of an integer
_MOST_LINKS = 2000  # of a chain; so looking for chains takes no longer than the program is long
Bools = NDArray[np.bool_]


def join_chains(s: Structure) -> Structure:
    """Return the structure with each chain merged into a single node, to simulate it faster."""
    if not _is_plain(s):
        return s
    order = np.argsort(s.following, kind="stable")
    before = _Predecessors(_sources(s)[order], np.cumsum(s.nodes["waits"]) - s.nodes["waits"])
    good, ends = _find_undisturbed(s), np.zeros((len(s.nodes), 2), dtype=np.int64)
    n = _find_chains(s.nodes, s.following, before, good, ends)
    return _merge_chains(s, before, ends[:n]) if n else s


class _Predecessors(NamedTuple):
    """The predecessors of all nodes in one array: node i has ``waits`` from ``start[i]`` on."""

    nodes: Longs
    start: Longs


def _sources(s: Structure) -> Longs:
    """Return the node whose successor each entry of ``following`` is."""
    return ragged_positions(s.nodes["next_end"] - s.nodes["next_start"])[0]


def _is_plain(s: Structure) -> bool:
    """Return whether streams and ports follow the default rules, which chains rely on."""
    shape, nodes = s.shape, s.nodes
    rules = (shape.stream_order, shape.places, len(s.listed))
    if rules != (StreamOrder.ARRIVAL, 1, 0) or shape.n_ports != shape.n_dims:
        return False
    if len(nodes) < 2 or shape.n_streams + shape.n_ports > _MOST_RESOURCES:
        return False
    in_order = (s.following > _sources(s)).all()  # each node is behind its predecessors
    return bool(in_order and (np.diff(nodes["cls"]) >= 0).all())


def _find_undisturbed(s: Structure) -> Bools:
    """Return a mask of the nodes that no other user of their stream or port can delay."""
    kind, shape = s.nodes["kind"], s.shape
    ports = np.zeros(len(s.forms), dtype=np.int64)  # of a form, bit by bit
    dims = s.forms["use_end"] - s.forms["use_start"]
    np.bitwise_or.at(ports, np.repeat(np.arange(len(dims)), dims), 1 << s.uses["dim"].astype("i8"))
    sends = (kind == NodeKind.COLLECTIVE) | (kind == NodeKind.SEND)
    form = np.where(sends, np.append(s.flows["form"], 0)[s.nodes["flow"]], program.NO_FORM)
    uses = np.where(sends, np.append(ports, 0)[form] << shape.n_streams, 0)
    stream = s.nodes["stream"] - s.nodes["cls"] * shape.n_streams
    uses |= np.where(kind == NodeKind.RECEIVE, 0, 1 << np.maximum(stream, 0).astype(np.int64))

    in_step = np.zeros(len(s.nodes), dtype=np.int64)
    for resource in range(shape.n_streams + shape.n_ports):
        _note_in_step(s.nodes, s.following, uses, resource, in_step)
    members = np.append(s.flows["member_end"] - s.flows["member_start"], 0)[s.nodes["flow"]]
    linked = (
        (kind == NodeKind.COLLECTIVE)
        & (members == 1)
        & np.append(_find_serial_forms(s), False)[form]
    )
    computes = (kind == NodeKind.COMPUTE) & (s.nodes["duration"] > 0)
    return (linked | computes) & (uses & ~in_step == 0)


def _find_serial_forms(s: Structure) -> Bools:
    """Return a mask of the forms whose chunks occupy one port without gaps."""
    forms, own_ways = s.forms, s.shape.order > 0
    alone = (forms["use_end"] - forms["use_start"] == 1) & (forms["kind"] != program.POINT_TO_POINT)
    return alone & (forms["n_bytes"] > 0) & ((forms["chunks"] == 1) | (not own_ways))


@compiled
def _note_in_step(
    nodes: Table, following: Indices, uses: Longs, resource: int, in_step: Longs
) -> None:
    """Set bit ``resource`` of each node that the graph orders with all its users in the class.

    The function counts along the graph: of the users listed before a node, at least the first
    ``known[node]`` precede it.  Where paths merge, more may precede it: then an undisturbed node is
    treated as disturbed.
    """
    bit, n = 1 << resource, len(nodes)
    known, before = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.bool_)
    seen = 0
    for i in range(n):
        if i > 0 and nodes[i]["cls"] != nodes[i - 1]["cls"]:
            seen = 0
        before[i] = known[i] == seen
        if uses[i] & bit:
            known[i] += before[i]
            seen += 1
        for j in following[nodes[i]["next_start"] : nodes[i]["next_end"]]:
            known[j] = max(known[j], known[i])
    for i in range(n - 1, -1, -1):
        if i == n - 1 or nodes[i]["cls"] != nodes[i + 1]["cls"]:
            seen = 0
        known[i] = 0
        for j in following[nodes[i]["next_start"] : nodes[i]["next_end"]]:
            known[i] = max(known[i], known[j])
        if before[i] and known[i] == seen:
            in_step[i] |= bit
        if uses[i] & bit:
            known[i] += known[i] == seen
            seen += 1


@compiled
def _find_chains(
    nodes: Table, following: Indices, before: _Predecessors, good: Bools, ends: Longs
) -> int:
    """Write the first and last node of every chain into ``ends``; return the number of chains.

    Chains are found from the front, each as long as possible.
    """
    n, count, first = len(nodes), 0, 0
    while first < n:
        last, reach, node = first, first, first
        while node < n and good[node] and node - first < _MOST_LINKS:
            if node > first and _reaches_back(nodes, before, node, first):
                break
            computes = nodes[node]["kind"] == NodeKind.COMPUTE
            if computes and reach <= node:
                last = node
            if nodes[node]["next_start"] == nodes[node]["next_end"] or not (
                computes or node > first
            ):
                break
            for follower in following[nodes[node]["next_start"] : nodes[node]["next_end"]]:
                reach = max(reach, long(follower))
            node += 1
        if last > first:
            ends[count, 0], ends[count, 1] = first, last
            count += 1
        first = last + 1
    return count


@kernel
def _reaches_back(nodes: Table, before: _Predecessors, node: int, first: int) -> bool:
    """Return whether a node waits for no node, or for nodes before ``first``."""
    start = before.start[node]
    for other in before.nodes[start : start + nodes[node]["waits"]]:
        if other < first:
            return True
    return nodes[node]["waits"] == 0 or nodes[node]["cls"] != nodes[first]["cls"]


def _merge_chains(s: Structure, before: _Predecessors, ends: Longs) -> Structure:
    """Return the structure with each chain replaced by its first node."""
    first, last = ends.T
    inside = np.zeros(len(s.nodes) + 1, dtype=np.int64)
    inside[first + 1] += 1
    inside[last + 1] -= 1
    kept = np.cumsum(inside)[:-1] == 0
    chains, links, links_before, number = _list_chains(s, before, ends)

    nodes = s.nodes.copy()
    for field in ("next_start", "next_end", "lookahead"):
        nodes[field][first] = nodes[field][last]
    nodes["kind"][first], nodes["tally"][first] = NodeKind.CHAIN, number
    nodes["duration"][first] = nodes["memory"][first] = 0
    renumbered = np.cumsum(kept) - 1
    flow = s.nodes["flow"][~kept]
    remains = np.ones(len(s.flows), dtype=np.bool_)
    remains[flow[flow >= 0]] = False
    nodes = nodes[kept]
    nodes["flow"] = pick(np.cumsum(remains) - 1, nodes["flow"])
    flows, members = _keep_flows(s, remains, renumbered)
    return s._replace(
        nodes=nodes,
        following=renumbered[s.following].astype(np.uint32),
        chains=chains,
        links=links,
        links_before=links_before,
        flows=flows,
        members=members,
    )


def _list_chains(
    s: Structure, before: _Predecessors, ends: Longs
) -> tuple[Table, Table, Indices, list[int]]:
    """Return the distinct chains, their links, the links' predecessors, and each chain's number."""
    rows = _link_rows(s)
    rows["before_end"][ends[:, 0]] = 0  # the first one waits for nobody in the chain
    numbers: dict[bytes, int] = {}
    chains, links, waits, number = [], [], [], []
    n_links = n_waits = 0
    for first, last in ends.tolist():
        part = rows[first : last + 1]
        a, b = before.start[first + 1], before.start[last] + s.nodes["waits"][last]
        waited = before.nodes[a:b] - first
        key = part.tobytes() + waited.tobytes()
        if key not in numbers:
            numbers[key] = len(numbers)
            chains.append((n_links, n_links + len(part)))
            links.append(part)
            waits.append(waited + n_links)
            part["before_end"] = n_waits + np.cumsum(part["before_end"])
            part["before_start"][1:] = part["before_end"][:-1]
            part["before_start"][0] = n_waits
            n_links, n_waits = n_links + len(part), n_waits + len(waited)
        number.append(numbers[key])
    return (
        np.array(chains, dtype=program.CHAIN),
        np.concatenate(links),
        np.concatenate(waits).astype(np.uint32),
        number,
    )


def _link_rows(s: Structure) -> Table:
    """Return a LINK for every node, with its number of predecessors as ``before_end``."""
    of, rows = s.nodes, np.zeros(len(s.nodes), dtype=program.LINK)
    collective = of["kind"] == NodeKind.COLLECTIVE
    form = s.flows["form"][of["flow"][collective]]
    rows["form"] = rows["port"] = program.NO_FORM
    rows["form"][collective] = form
    rows["port"][collective] = np.append(s.uses["dim"], 0)[s.forms["use_start"][form]]
    rows["stream"] = of["stream"] - of["cls"] * s.shape.n_streams
    rows["before_end"] = of["waits"]
    for field in ("tally", "duration", "memory"):
        rows[field] = of[field]
    return rows


def _keep_flows(s: Structure, kept: Bools, node: Longs) -> tuple[Table, Table]:
    """Return the flows outside chains, and their members, with nodes renumbered."""
    flows = s.flows[kept]
    count = s.flows["member_end"] - s.flows["member_start"]
    members = s.members[np.repeat(kept, count)]
    members["node"] = node[members["node"]]
    flows["receiver"] = pick(node, flows["receiver"])
    chunks = flows["chunk_end"] - flows["chunk_start"]
    program.lay_out(flows, member=count[kept], chunk=chunks, entry=count[kept] * chunks)
    return flows, members


@kernel
def time_chains(sim: Sim) -> float:
    """Time all chains at one point; return the summed duration (ps) of all links of all nodes."""
    sim.st.chain_bytes.fill(0.0)
    for number in range(len(sim.s.chains)):
        first, end = sim.s.chains[number].start, sim.s.chains[number].end
        sim.st.chains[number].longest = 0.0
        for i in range(first, end):
            sim.st.chains[number].longest += _time_link(sim, i)
            _insert_marks(sim, first, i)
            if sim.s.links[i].form != NONE:
                for d in range(sim.s.shape.n_dims):
                    sim.st.chain_bytes[number, d] += sim.times.bytes_sent[sim.s.links[i].form, d]
        sim.st.chains[number].duration = sim.st.links[end - 1].end
        i = end - 1
        while i >= first:
            sim.st.links[i].on_path = 1
            i = sim.st.links[i].critical
    total = 0.0
    if len(sim.s.chains) > 0:
        for node in sim.s.nodes:
            if node.kind == NodeKind.CHAIN:
                total += sim.st.chains[node.tally].longest
    return total


@kernel
def _time_link(sim: Sim, i: int) -> float:
    """Set start, end and critical predecessor of link ``i``; return its duration (ps)."""
    link, out, rank = sim.s.links[i], sim.st.links[i], -1
    out.start, out.busy, out.critical, out.on_path = 0, 0, NONE, 0
    for before in sim.s.links_before[link.before_start : link.before_end]:
        due = sim.st.links[before].end
        its = _critical_rank(sim, before, i)
        if due > out.start or (due == out.start and its > rank):
            out.start, out.critical, rank = due, before, its
    duration = np.int64(link.duration)
    if link.form != NONE:
        form, span = sim.s.forms[link.form], sim.times.spans[link.form]
        late = np.int64(0)
        for phase in sim.times.phases[span.start : span.start + span.length]:
            if phase.dim != NONE:
                out.busy += form.chunks * phase.hold
                late = phase.late  # of the last chunk
        duration += out.busy + late
    out.end = out.start + duration
    return float(duration)


@inlined
def _critical_rank(sim: Sim, before: int, link: int) -> int:
    """Rank link ``before`` among predecessors of equal end: freed port, then stream, then order."""
    mine, its = sim.s.links[link], sim.s.links[before]
    flies = sim.st.links[before].busy < sim.st.links[before].end - sim.st.links[before].start
    if mine.port == its.port and not flies:
        return 3 * sim.s.shape.n_ports
    if mine.stream == its.stream:
        return 2 * sim.s.shape.n_ports
    return its.port + sim.s.shape.n_ports * (flies and its.port >= 0)


@inlined
def _insert_marks(sim: Sim, first: int, i: int) -> None:
    """Insert begin and end of link ``i`` into the time-sorted marks of its chain."""
    for n in range(2 * i, 2 * i + 2):
        begins = n == 2 * i
        due, at = sim.st.links[i].start if begins else sim.st.links[i].end, n
        while at > 2 * first and (
            sim.st.marks[at - 1].due > due
            or (sim.st.marks[at - 1].due == due and not begins and sim.st.marks[at - 1].begins)
        ):
            mark = sim.st.marks[at - 1]
            sim.st.marks[at].due, sim.st.marks[at].link = mark.due, mark.link
            sim.st.marks[at].begins = mark.begins
            at -= 1
        sim.st.marks[at].due, sim.st.marks[at].link, sim.st.marks[at].begins = due, i, begins
