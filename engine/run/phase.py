"""The phase kernel: an event-driven simulation of a program, compiled with Numba.

Every class of ranks has units (one computes, the others are communication streams) and one server
for each dimension.  A chunk of a collective takes one phase at a time: it queues at the server of
its next dimension on every member class, starts when it heads all those queues and all those
servers are free, and holds them for the phase's duration.

Time goes in rounds: everything that ends at an instant ends together; then the operators that
became ready join their units' queues and the chunks that moved on join their servers' queues, both
in an order that follows from the graphs and never from rank numbers; then idle units and servers
start what they can.  That order is why folding alike ranks into classes changes nothing.

A class need not wait for its turn while nobody else can feel what it does (NODE's ``reach``): no
operator of it waits for other classes, and what ends next lets no such operator start.  It then
goes on by itself, ahead of the others, as in a conservative parallel simulation (Chandy and Misra,
1979).  Each class still does the same things in the same order, so no result changes.

Whatever starts, starts because something ended.  The kernel notes what: ``released[i]`` is the
interval whose end let interval i start.  Intervals are the phases served, by their number among all
chunks' phases, then the computations; -1 is the beginning.  Where several ended at that instant, it
is the one that freed the unit or the server (of a chunk's servers the last member's), then the
operator's last dependency or the chunk's own phase before.  engine.run.path walks them back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.lower.program import (
    ACCESS,
    COMPUTE,
    FIFO,
    INNER,
    LIFO,
    OUTER,
    PRIORITY,
    RECEIVE,
    Floats,
    Ints,
    Longs,
    Structure,
    Table,
)
from engine.run.jit import inlined, kernel
from engine.run.price import Prices

NEVER = int(np.iinfo(np.int64).max)
# Outcomes of a run.
FINISHED, STUCK, TOO_LONG = range(3)
# States of a node.
WAITING, QUEUED, RUNNING, DONE = range(4)

NODE_STATE = np.dtype(
    [
        ("state", "i4"),
        ("waits", "i4"),
        ("next", "i4"),  # in its unit's queue
        ("busy_next", "i4"),  # among the communication in flight on its class
        ("busy_before", "i4"),
        ("start", "i8"),
        ("end", "i8"),
        ("cause", "i4"),  # the interval that made it ready; once it runs, start; then, end
        ("exposed", "f8"),  # ps of exposed communication
    ],
    align=True,
)
UNIT = np.dtype(
    [
        ("head", "i4"),
        ("tail", "i4"),
        ("node", "i4"),  # what runs, or -1
        ("cause", "i4"),  # the interval that freed it last
        ("freed", "i8"),  # when
    ],
    align=True,
)
FLOW_STATE = np.dtype(
    [
        ("arrived", "i4"),  # members
        ("left", "i4"),  # chunks
        ("cause", "i4"),  # the interval that released the last member
    ]
)
CHUNK = np.dtype(
    [
        ("at", "i4"),  # its phases in Prices.phases: current, end, first
        ("end", "i4"),
        ("first", "i4"),
        ("link", "i4"),  # its first queue link; one a member
        ("members", "i4"),
        ("member_start", "i4"),  # as its flow has it
        ("cls", "i4"),  # the first member's class
        ("flow", "i4"),
        ("record", "i4"),  # number of its first phase among all chunks' phases
        ("order", "i8"),  # among chunks that move at the same time: (flow key, number)
    ],
    align=True,
)
SERVER = np.dtype(
    [
        ("head", "i4"),
        ("tail", "i4"),
        ("link", "i4"),  # what it serves, or -1
        ("cause", "i4"),  # the phase that freed it last
        ("freed", "i8"),  # when
        ("busy", "i8"),  # ps
    ],
    align=True,
)
LINK = np.dtype([("next", "i4"), ("chunk", "i4")])
CLASS = np.dtype(
    [
        ("busy", "i4"),  # first communication in flight
        ("outer", "i4"),  # operators ready or begun whose reach is OUTER
        ("clock", "i8"),  # accounted up to here
        ("compute", "i8"),
        ("exposed", "i8"),
        ("end", "i8"),
    ],
    align=True,
)
# Fill of the work lists of a round, the number of nodes done, and the interval that ended last.
READY, OPEN, STARTING, ENDING, MOVING, TOUCHED, N_DONE, LAST = range(8)


class State(NamedTuple):
    """Everything that a run changes; allocated once for a batch, reset for each point."""

    nodes: Table  # NODE_STATE
    units: Table  # UNIT
    flows: Table  # FLOW_STATE
    chunks: Table  # CHUNK
    servers: Table  # SERVER
    links: Table  # LINK
    classes: Table  # CLASS
    dim_exposed: Floats  # (C, D + 1) ps; the last for communication that no dimension serves
    phase_start: Longs  # when each phase of each chunk started; empty unless recorded
    phase_of: Ints  # each phase of each chunk in Prices.phases
    released: Ints  # the interval that let each phase of each chunk, then each node, start
    visits: Ints  # how often each of Prices.phases is on the critical path
    due: Longs  # when the compute unit of each class, each server, each class's memory unit ends
    # Work lists of a round.
    ready: Ints
    open_units: Ints
    starting: Ints
    ending: Ints
    moving: Longs
    touched: Ints
    counts: Ints


def empty_state(s: Structure, prices: Prices, *, record: bool = False) -> State:
    """Room to run ``s``.  With ``record`` the start of every phase is kept (for a timeline)."""
    n, servers = len(s.nodes), s.shape.n_classes * s.shape.n_dims
    chunks, links = _chunks_and_links(s, prices)
    length = chunks["end"] - chunks["first"]
    n_phases = int(length.sum())
    return State(
        nodes=np.zeros(n, dtype=NODE_STATE),
        units=np.zeros(s.shape.n_classes * s.shape.n_units, dtype=UNIT),
        flows=np.zeros(len(s.flows), dtype=FLOW_STATE),
        chunks=chunks,
        servers=np.zeros(servers, dtype=SERVER),
        links=links,
        classes=np.zeros(s.shape.n_classes, dtype=CLASS),
        dim_exposed=np.zeros((s.shape.n_classes, s.shape.n_dims + 1)),
        phase_start=np.zeros(n_phases if record else 0, dtype=np.int64),
        phase_of=np.arange(n_phases, dtype=np.int32)
        + np.repeat(chunks["first"] - chunks["record"], length),
        released=np.zeros(n_phases + n, dtype=np.int32),
        visits=np.zeros(len(prices.phases), dtype=np.int32),
        due=np.zeros(
            s.shape.n_classes * (2 if s.shape.memory_unit else 1) + servers, dtype=np.int64
        ),
        ready=np.zeros(n + 1, dtype=np.uint32),
        open_units=np.zeros(2 * n + 1, dtype=np.uint32),
        starting=np.zeros(n + 1, dtype=np.uint32),
        ending=np.zeros(n + 1, dtype=np.uint32),
        moving=np.zeros(len(chunks) + 1, dtype=np.int64),
        touched=np.zeros(2 * len(links) + servers + 1, dtype=np.uint32),
        counts=np.zeros(8, dtype=np.int32),
    )


def _chunks_and_links(s: Structure, prices: Prices) -> tuple[Table, Table]:
    n_chunks = int(s.flows["chunk_end"].max(initial=0))
    chunks = np.zeros(n_chunks, dtype=CHUNK)
    members = s.flows["member_end"] - s.flows["member_start"]
    chunks["flow"] = np.repeat(
        np.arange(len(s.flows)), s.flows["chunk_end"] - s.flows["chunk_start"]
    )
    flow = chunks["flow"]
    number = np.arange(n_chunks) - s.flows["chunk_start"][flow]
    chunks["link"] = s.flows["link_start"][flow] + number * members[flow]
    chunks["members"] = members[flow]
    chunks["member_start"] = s.flows["member_start"][flow]
    chunks["cls"] = s.members["cls"][s.flows["member_start"]][flow]
    chunks["order"] = (s.flows["key"][flow].astype(np.int64) << 32) | np.arange(n_chunks)
    spans = prices.spans[s.flows["form"][flow]]
    chunks["first"] = spans["start"] + np.where(spans["variants"] > 1, number * spans["length"], 0)
    chunks["end"] = chunks["first"] + spans["length"]
    chunks["record"] = np.cumsum(spans["length"]) - spans["length"]
    links = np.zeros(int(members[flow].sum()), dtype=LINK)
    links["chunk"] = np.repeat(np.arange(n_chunks), members[flow])
    return chunks, links


@kernel
def run(s: Structure, prices: Prices, st: State) -> int:
    """Simulate one priced program into ``st``; returns FINISHED or STUCK."""
    _reset(s, st)
    now, first, last = 0, 0, s.shape.n_classes  # the classes whose turn it is
    while True:
        if st.counts[READY] + st.counts[OPEN] > 0:
            _start_operators(s, st, now)
        if st.counts[MOVING] > 0:
            _queue_chunks(s, prices, st, now)
        if st.counts[TOUCHED] > 0:
            _start_phases(s, prices, st, now)
        if st.counts[ENDING] == 0:
            now, first, last = _next_turn(s, st, first, last)
            if now == NEVER:
                break
        for slot in range(first, last):
            if st.due[slot] == now:
                st.due[slot] = NEVER
                _append(st.ending, st.counts, ENDING, st.units[slot * s.shape.n_units]["node"])
        for number in range(first * s.shape.n_dims, last * s.shape.n_dims):
            slot = s.shape.n_classes + number
            if st.due[slot] == now:
                st.due[slot] = NEVER
                _end_phase(s, prices, st, number, now)
        if s.shape.memory_unit:
            for cls in range(first, last):
                slot = _memory_slot(s, st, cls)
                if st.due[slot] == now:
                    st.due[slot] = NEVER
                    unit = cls * s.shape.n_units + s.shape.memory_unit
                    _append(st.ending, st.counts, ENDING, st.units[unit]["node"])
        for i in range(st.counts[ENDING]):
            _end_node(s, st, st.ending[i], now)
        st.counts[ENDING] = 0
    return FINISHED if st.counts[N_DONE] == len(s.nodes) else STUCK


@inlined
def _next_turn(s: Structure, st: State, first: int, last: int) -> tuple[int, int, int]:
    """When something ends next, and in which classes (from, to).

    All classes take part in a turn, or one whose next ends nobody else can feel: it goes on by
    itself, ahead of the others.  What it does then it would also have done in its turn.
    """
    n = s.shape.n_classes
    if last - first < n:
        now = _earliest(s, st, first)
        if _is_inner(s, st, first, now):
            return now, first, last
    now, next_class = NEVER, 0
    for cls in range(n):
        # A scan beats a heap: there are few slots, and alike classes end together.
        due = _earliest(s, st, cls)
        if due < now:
            now, next_class = due, cls
    if n > 1 and _is_inner(s, st, next_class, now):
        return now, next_class, next_class + 1
    return now, 0, n


@inlined
def _earliest(s: Structure, st: State, cls: int) -> int:
    """When something ends next in a class."""
    now = st.due[cls]
    slot = s.shape.n_classes + cls * s.shape.n_dims
    for d in range(s.shape.n_dims):
        now = min(now, st.due[slot + d])
    if s.shape.memory_unit:
        now = min(now, st.due[_memory_slot(s, st, cls)])
    return now


@inlined
def _memory_slot(s: Structure, st: State, cls: int) -> int:
    """Where a class's memory unit keeps its time."""
    return s.shape.n_classes + len(st.servers) + cls


@kernel
def _is_inner(s: Structure, st: State, cls: int, now: int) -> bool:
    """Whether all that ends in the class at ``now`` is felt in it alone, and nothing that starts
    there is waiting for others."""
    if now == NEVER or st.classes[cls]["outer"] > 0:
        return False
    if st.due[cls] == now:
        node = st.units[cls * s.shape.n_units]["node"]
        if s.nodes[node]["reach"] != INNER:
            return False
    number = cls * s.shape.n_dims
    for d in range(s.shape.n_dims):
        if st.due[s.shape.n_classes + number + d] == now:
            chunk = st.chunks[st.links[st.servers[number + d]["link"]]["chunk"]]
            node = s.members[chunk["member_start"]]["node"]
            if s.nodes[node]["reach"] != INNER:
                return False
    if s.shape.memory_unit and st.due[_memory_slot(s, st, cls)] == now:
        node = st.units[cls * s.shape.n_units + s.shape.memory_unit]["node"]
        if s.nodes[node]["reach"] != INNER:
            return False
    return True


@inlined
def _reset(s: Structure, st: State) -> None:
    for i in range(len(st.nodes)):
        node = st.nodes[i]
        node["state"], node["waits"] = WAITING, s.nodes[i]["waits"]
        node["start"], node["end"], node["exposed"], node["cause"] = -1, -1, 0.0, -1
    for i in range(len(st.units)):
        st.units[i]["head"], st.units[i]["node"], st.units[i]["freed"] = -1, -1, -1
    for i in range(len(st.flows)):
        st.flows[i]["arrived"] = 0
        st.flows[i]["left"] = s.flows[i]["chunk_end"] - s.flows[i]["chunk_start"]
    for i in range(len(st.chunks)):
        st.chunks[i]["at"] = st.chunks[i]["first"]
    for i in range(len(st.servers)):
        server = st.servers[i]
        server["head"], server["link"], server["busy"], server["freed"] = -1, -1, 0, -1
    for i in range(len(st.classes)):
        cls = st.classes[i]
        cls["busy"], cls["clock"], cls["compute"], cls["exposed"], cls["end"] = -1, 0, 0, 0, 0
        cls["outer"] = 0
    st.dim_exposed[:] = 0.0
    st.due[:] = NEVER
    st.counts[:] = 0
    st.counts[LAST] = -1
    for node in range(len(s.nodes)):
        if s.nodes[node]["waits"] == 0:
            _make_ready(s, st, node)


# --- operators ----------------------------------------------------------------------------------


@inlined
def _start_operators(s: Structure, st: State, now: int) -> None:
    """Ready operators join their units' queues in program order; idle units start the first."""
    n_ready = st.counts[READY]
    st.counts[READY] = 0
    for i in range(1, n_ready):  # insertion sort: lists are short
        node, j = st.ready[i], i
        while j > 0 and s.nodes[st.ready[j - 1]]["key"] > s.nodes[node]["key"]:
            st.ready[j] = st.ready[j - 1]
            j -= 1
        st.ready[j] = node
    for i in range(n_ready):
        node = st.ready[i]
        if s.nodes[node]["kind"] == RECEIVE:
            _append(st.starting, st.counts, STARTING, node)
            continue
        unit = st.units[s.nodes[node]["unit"]]
        if unit["node"] < 0 and unit["head"] < 0 and s.nodes[node]["reach"] != OUTER:
            # Nothing is before it, and nobody else can tell in which order such nodes start.
            _take_unit(s, st, unit, node, now)
            continue
        st.nodes[node]["state"], st.nodes[node]["next"] = QUEUED, -1
        if unit["head"] < 0:
            unit["head"] = node
        else:
            st.nodes[unit["tail"]]["next"] = node
        unit["tail"] = node
        _append(st.open_units, st.counts, OPEN, s.nodes[node]["unit"])
    for i in range(st.counts[OPEN]):
        unit = st.units[st.open_units[i]]
        node = unit["head"]
        if unit["node"] < 0 and node >= 0:
            unit["head"] = st.nodes[node]["next"]
            _take_unit(s, st, unit, node, now)
    st.counts[OPEN] = 0
    for i in range(st.counts[STARTING]):
        _start_node(s, st, st.starting[i], now)
    st.counts[STARTING] = 0


@inlined
def _take_unit(s: Structure, st: State, unit: np.void, node: int, now: int) -> None:
    _account(s, st, s.nodes[node]["cls"], now)
    unit["node"] = node
    if unit["freed"] == now:
        st.nodes[node]["cause"] = unit["cause"]
    _append(st.starting, st.counts, STARTING, node)


@inlined
def _start_node(s: Structure, st: State, node: int, now: int) -> None:
    static, dynamic = s.nodes[node], st.nodes[node]
    cls = static["cls"]
    dynamic["state"], dynamic["start"] = RUNNING, now
    if static["kind"] == COMPUTE or static["kind"] == ACCESS:
        memory = static["kind"] == ACCESS
        slot = _memory_slot(s, st, cls) if memory else cls
        st.due[slot] = now + static["duration"]
        st.released[len(st.phase_of) + node] = dynamic["cause"]
        dynamic["cause"] = len(st.phase_of) + node
        if not memory:
            return
    _account(s, st, cls, now)
    head = st.classes[cls]["busy"]
    dynamic["busy_next"], dynamic["busy_before"] = head, -1
    if head >= 0:
        st.nodes[head]["busy_before"] = node
    st.classes[cls]["busy"] = node
    if static["kind"] == ACCESS:
        return
    f = static["flow"]
    flow = s.flows[f]
    if static["kind"] == RECEIVE:
        if st.nodes[s.members[flow["member_start"]]["node"]]["state"] == DONE:
            _append(st.ending, st.counts, ENDING, node)
        return
    st.flows[f]["arrived"] += 1
    if st.flows[f]["arrived"] == flow["member_end"] - flow["member_start"]:
        st.flows[f]["cause"] = dynamic["cause"]
        form = s.forms[flow["form"]]
        if static["reach"] == OUTER and form["use_start"] == form["use_end"]:  # a group of one
            _finish_flow(s, st, f, dynamic["cause"])
        for chunk in range(flow["chunk_start"], flow["chunk_end"]):
            if st.chunks[chunk]["first"] < st.chunks[chunk]["end"]:
                _move(st, chunk)


@kernel
def _finish_flow(s: Structure, st: State, f: int, cause: int) -> None:
    """Its nodes end at this instant, with the interval ``cause``."""
    flow = s.flows[f]
    for member in s.members[flow["member_start"] : flow["member_end"]]:
        _append(st.ending, st.counts, ENDING, member["node"])
        st.nodes[member["node"]]["cause"] = cause
    receiver = flow["receiver"]
    if receiver >= 0 and st.nodes[receiver]["state"] == RUNNING:
        st.nodes[receiver]["cause"] = cause
        _append(st.ending, st.counts, ENDING, receiver)


@inlined
def _end_node(s: Structure, st: State, node: int, now: int) -> None:
    static, dynamic = s.nodes[node], st.nodes[node]
    cls = st.classes[static["cls"]]
    _account(s, st, static["cls"], now)
    dynamic["state"], dynamic["end"] = DONE, now
    cls["end"] = now
    st.counts[N_DONE] += 1
    st.counts[LAST] = dynamic["cause"]
    if static["kind"] != COMPUTE:
        before, after = dynamic["busy_before"], dynamic["busy_next"]
        if before >= 0:
            st.nodes[before]["busy_next"] = after
        else:
            cls["busy"] = after
        if after >= 0:
            st.nodes[after]["busy_before"] = before
    if static["reach"] == OUTER:
        cls["outer"] -= 1
    if static["unit"] >= 0:
        unit = st.units[static["unit"]]
        unit["node"], unit["cause"], unit["freed"] = -1, dynamic["cause"], now
        _append(st.open_units, st.counts, OPEN, static["unit"])
    for following in s.following[static["next_start"] : static["next_end"]]:
        st.nodes[following]["waits"] -= 1
        if st.nodes[following]["waits"] == 0:
            st.nodes[following]["cause"] = dynamic["cause"]
            _make_ready(s, st, following)


@inlined
def _make_ready(s: Structure, st: State, node: int) -> None:
    _append(st.ready, st.counts, READY, node)
    if s.nodes[node]["reach"] == OUTER:
        st.classes[s.nodes[node]["cls"]]["outer"] += 1


# --- chunks and their phases --------------------------------------------------------------------


@inlined
def _queue_chunks(s: Structure, prices: Prices, st: State, now: int) -> None:
    """Chunks that moved on join the queues of their next dimension's servers."""
    n = st.counts[MOVING]
    st.counts[MOVING] = 0
    for i in range(1, n):  # nearly always sorted: a flow's chunks come in order
        entry, j = st.moving[i], i
        while j > 0 and st.moving[j - 1] > entry:
            st.moving[j] = st.moving[j - 1]
            j -= 1
        st.moving[j] = entry
    for i in range(n):
        chunk = st.chunks[st.moving[i] & 0xFFFFFFFF]
        dim = prices.phases[chunk["at"]]["dim"]
        if n == 1 and chunk["members"] == 1:
            server = st.servers[chunk["cls"] * s.shape.n_dims + dim]
            if server["link"] < 0 and server["head"] < 0:  # no need to queue
                st.links[chunk["link"]]["next"] = -1
                _start_phase(s, prices, st, chunk, now)
                return
        for m in range(chunk["members"]):
            port = _class(s, chunk, m) * s.shape.n_dims + dim
            _enqueue(s, prices, st, port, chunk["link"] + m)
            _append(st.touched, st.counts, TOUCHED, port)


@inlined
def _enqueue(s: Structure, prices: Prices, st: State, number: int, link: int) -> None:
    server = st.servers[number]
    before, after = -1, server["head"]
    if after >= 0 and s.shape.queue == FIFO:
        before, after = server["tail"], -1
    elif after >= 0 and s.shape.queue != LIFO:
        # Behind the last one that does not rank after it: equals keep their order of arrival.
        rank = _rank(s, prices, st, link)
        while after >= 0 and _rank(s, prices, st, after) <= rank:
            before, after = after, st.links[after]["next"]
    st.links[link]["next"] = after
    if before < 0:
        server["head"] = link
    else:
        st.links[before]["next"] = link
    if after < 0:
        server["tail"] = link


@kernel
def _rank(s: Structure, prices: Prices, st: State, link: int) -> float:
    chunk = st.chunks[st.links[link]["chunk"]]
    if s.shape.queue == PRIORITY:
        return -float(s.forms[s.flows[chunk["flow"]]["form"]]["priority"])
    return float(prices.phases[chunk["at"]]["n_bytes"])


@inlined
def _start_phases(s: Structure, prices: Prices, st: State, now: int) -> None:
    """Every touched server starts its first chunk if all servers that the chunk needs are free."""
    for i in range(st.counts[TOUCHED]):
        server = st.servers[st.touched[i]]
        if server["link"] >= 0 or server["head"] < 0:
            continue
        chunk = st.chunks[st.links[server["head"]]["chunk"]]
        if chunk["members"] == 1 or _all_free(s, st, chunk, prices.phases[chunk["at"]]["dim"]):
            _start_phase(s, prices, st, chunk, now)
    st.counts[TOUCHED] = 0


@inlined
def _start_phase(s: Structure, prices: Prices, st: State, chunk: np.void, now: int) -> None:
    """All servers that the chunk needs start it."""
    n_dims = s.shape.n_dims
    phase, link = prices.phases[chunk["at"]], chunk["link"]
    number = chunk["record"] + chunk["at"] - chunk["first"]
    cause = number - 1
    if chunk["at"] == chunk["first"]:
        cause = st.flows[chunk["flow"]]["cause"]
    for m in range(chunk["members"]):
        cls = _class(s, chunk, m)
        _account(s, st, cls, now)
        port = st.servers[cls * n_dims + phase["dim"]]
        port["head"], port["link"] = st.links[link + m]["next"], link + m
        port["busy"] += phase["duration"]
        if port["freed"] == now:
            cause = port["cause"]
    st.released[number] = cause
    if len(st.phase_start) > 0:
        st.phase_start[number] = now
    # The first member's server keeps the time for all.
    keeper = chunk["cls"] * n_dims + phase["dim"]
    st.due[s.shape.n_classes + keeper] = now + phase["duration"]


@kernel
def _all_free(s: Structure, st: State, chunk: np.void, dim: int) -> bool:
    """Whether every server that the chunk needs is idle and has it at its queue's head."""
    for m in range(chunk["members"]):
        port = st.servers[_class(s, chunk, m) * s.shape.n_dims + dim]
        if port["link"] >= 0 or port["head"] != chunk["link"] + m:
            return False
    return True


@inlined
def _class(s: Structure, chunk: np.void, member: int) -> int:
    """The class of the chunk's ``member``-th member."""
    if member == 0:
        return int(chunk["cls"])
    return int(s.members[chunk["member_start"] + member]["cls"])


@inlined
def _end_phase(s: Structure, prices: Prices, st: State, number: int, now: int) -> None:
    """Free the servers of the chunk that this one kept time for, and send the chunk on."""
    c = st.links[st.servers[number]["link"]]["chunk"]
    chunk = st.chunks[c]
    n_dims = s.shape.n_dims
    dim = number - chunk["cls"] * n_dims
    cause = chunk["record"] + chunk["at"] - chunk["first"]
    for m in range(chunk["members"]):
        cls = _class(s, chunk, m)
        _account(s, st, cls, now)
        port = st.servers[cls * n_dims + dim]
        port["link"], port["cause"], port["freed"] = -1, cause, now
        if port["head"] >= 0:
            _append(st.touched, st.counts, TOUCHED, cls * n_dims + dim)
    chunk["at"] += 1
    if chunk["at"] < chunk["end"] and prices.phases[chunk["at"]]["dim"] >= 0:
        _move(st, c)
        return
    st.flows[chunk["flow"]]["left"] -= 1
    if st.flows[chunk["flow"]]["left"] == 0:
        _finish_flow(s, st, chunk["flow"], cause)


@inlined
def _move(st: State, chunk: int) -> None:
    """Send a chunk to its next queue at the end of this round."""
    st.moving[st.counts[MOVING]] = st.chunks[chunk]["order"]
    st.counts[MOVING] += 1


# --- bookkeeping --------------------------------------------------------------------------------


@inlined
def _account(s: Structure, st: State, number: int, now: int) -> None:
    """Book the time since the class last changed: compute, or exposed communication.

    Communication is exposed while the class computes nothing; an instant of it is shared equally
    among the operators in flight, and among the dimensions that serve the class.
    """
    cls = st.classes[number]
    span = now - cls["clock"]
    if span == 0:
        return
    cls["clock"] = now
    if st.units[number * s.shape.n_units]["node"] >= 0:
        cls["compute"] += span
    elif cls["busy"] >= 0:
        cls["exposed"] += span
        _share_among_nodes(st.nodes, cls["busy"], span)
        first = number * s.shape.n_dims
        ports = st.servers[first : first + s.shape.n_dims]
        _share_among_dims(ports, st.dim_exposed[number], span)


@inlined
def _share_among_nodes(nodes: Table, head: int, span: int) -> None:
    if nodes[head]["busy_next"] < 0:
        nodes[head]["exposed"] += span
        return
    n, node = 0, head
    while node >= 0:
        n += 1
        node = nodes[node]["busy_next"]
    node = head
    while node >= 0:
        nodes[node]["exposed"] += span / n
        node = nodes[node]["busy_next"]


@inlined
def _share_among_dims(ports: Table, exposed: Floats, span: int) -> None:
    serving = 0
    for d in range(len(ports)):
        serving += ports[d]["link"] >= 0
    share = float(span)
    if serving == 0:
        exposed[len(ports)] += share
    elif serving > 1:
        share /= serving
    for d in range(len(ports)):
        if ports[d]["link"] >= 0:
            exposed[d] += share


@inlined
def _append(entries: Ints, counts: Ints, which: int, value: int) -> None:
    entries[counts[which]] = value
    counts[which] += 1
