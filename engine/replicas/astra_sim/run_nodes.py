"""ASTRA-sim's event loop over lowered tables, compiled with Numba.

It is the phase-by-phase run of :mod:`npu` and :mod:`workload` in two parts.  A rank has one
collective in flight at a time, and all members of that are alike; so it takes as long whenever it
starts, and each plan is run through its queues once.  Then the nodes are worked off, with the
collectives as nodes that last so long.

Ranks meet only in messages from point to point.  So of the things that happen at one tick only the
order among those of one rank counts, and one of them is the cause of all others: if two would be,
or a message comes at the very tick at which another rank expects it, the outcome is TIE, and single
messages must tell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.replicas.astra_sim.agenda import (
    FINISHED,
    STUCK,
    TIE,
    TOO_LONG,
    Agenda,
    empty_agenda,
    inlined,
    kernel,
    pop,
    push,
)
from engine.replicas.astra_sim.tables import (
    COLLECTIVE,
    INSTANT,
    N_SLOTS,
    NO_SLOT,
    RECEIVE,
    SEND,
    Ints,
    Longs,
    Table,
    Tables,
)

_END = 2**61  # ns, of a run
RANK_STATE = np.dtype(
    [
        ("busy", "i4", (N_SLOTS,)),
        ("n_ready", "i4", (N_SLOTS,)),
        ("left", "i4"),
        ("running", "i4"),
        ("communicating", "i4"),
        ("allocator", "i4"),
        ("plan", "i4"),  # of the collective in flight, or -1
        ("since", "i8"),  # when that began
        ("marked", "i8"),  # the last tick at which something ended that had begun before
        ("talks_since", "i8"),
        ("communication", "i8"),
        ("finished", "i8"),
    ],
    align=True,
)
MATCH_STATE = np.dtype([("come", "i4"), ("head", "i4"), ("tail", "i4"), ("last", "i8")], align=True)
# Fill of the work lists: nodes that were freed; nodes that end at this tick, and how many did.
# Then the outcome.
FREED, ENDING, ENDED, OUTCOME = range(4)
NOTHING = -1


class State(NamedTuple):
    """Everything that a run of the nodes changes."""

    agenda: Agenda
    ranks: Table  # RANK_STATE
    matches: Table  # MATCH_STATE
    waits: Ints  # of each node
    ready: Ints  # heaps of nodes, one a slot of a rank
    next: Ints  # receive that waits behind this one
    issued: Longs  # when a receive was
    freed: Ints
    ending: Ints
    counts: Ints


def empty_state(t: Tables) -> State:
    """Room to run the nodes of ``t`` once."""
    n = len(t.nodes)
    state = State(
        agenda=empty_agenda(n),
        ranks=np.zeros(len(t.ranks), RANK_STATE),
        matches=np.zeros(len(t.apart), MATCH_STATE),
        waits=t.nodes["waits"].copy(),
        ready=np.empty(n, np.int32),
        next=np.empty(n, np.int32),
        issued=np.empty(n, np.int64),
        freed=np.empty(n, np.int32),
        ending=np.empty(n, np.int32),
        counts=np.zeros(4, np.int32),
    )
    state.ranks["plan"] = state.ranks["marked"] = -1
    state.matches["head"] = state.matches["last"] = -1
    return state


@kernel
def run_nodes(
    t: Tables, durations: Longs, ticks: Longs, tick_start: Ints, tick_end: Ints, st: State
) -> int:
    """Work off all nodes into ``st``; returns the outcome.

    The collective of plan p is busy at ``ticks[tick_start[p]:tick_end[p]]`` ns after its start, and
    over at the last of them.
    """
    for r in range(len(t.ranks)):
        st.ranks[r]["left"] = t.ranks[r]["node_end"] - t.ranks[r]["node_start"]
    for node in range(len(t.nodes)):
        if st.waits[node] == 0:
            _make_ready(t, st, node)
    now, node, n_begun = 0, NOTHING, 0
    while True:
        if node != NOTHING:
            _release(t, st, node, now)
            _make_freed_ready(t, st)
            rank = t.nodes[node]["rank"]
        elif n_begun < len(t.ranks):  # at first every rank issues what it can
            rank = n_begun
            n_begun += 1
        elif st.agenda.size[0] == 0:
            break
        else:
            now = st.agenda.times[0]
            if now > _END:
                return TOO_LONG
            node = pop(st.agenda)
            if t.nodes[node]["kind"] == COLLECTIVE:
                st.ranks[t.nodes[node]["rank"]]["plan"] = NOTHING
            _mark(ticks, tick_start, tick_end, st, t.nodes[node]["rank"], now)
            continue
        _fire(t, durations, ticks, tick_end, st, rank, now)
        if st.counts[OUTCOME] != FINISHED:
            return st.counts[OUTCOME]
        node = _ends_now(t, ticks, tick_start, tick_end, st, node, now)
    for r in range(len(t.ranks)):
        if st.ranks[r]["left"] > 0:
            return STUCK
    return FINISHED


@inlined
def _ends_now(
    t: Tables, ticks: Longs, tick_start: Ints, tick_end: Ints, st: State, node: int, now: int
) -> int:
    """What else ends at this tick, after ``node``: its receive, or what takes no time."""
    if node != NOTHING and t.nodes[node]["kind"] == SEND:
        receive = _deliver(t, st, node, now)
        if receive != NOTHING:
            if st.issued[receive] != now:
                _mark(ticks, tick_start, tick_end, st, t.nodes[receive]["rank"], now)
            return receive
    if st.counts[ENDED] < st.counts[ENDING]:
        st.counts[ENDED] += 1
        return int(st.ending[st.counts[ENDED] - 1])
    st.counts[ENDED], st.counts[ENDING] = 0, 0
    return NOTHING


@inlined
def _mark(ticks: Longs, tick_start: Ints, tick_end: Ints, st: State, number: int, now: int) -> None:
    """Something ends at the rank that began at an earlier tick; it must be the only one to."""
    rank = st.ranks[number]
    if rank["marked"] == now:
        st.counts[OUTCOME] = TIE
    rank["marked"] = now
    plan = rank["plan"]
    if plan < 0:
        return
    since = now - rank["since"]
    low, high = tick_start[plan], tick_end[plan]
    while low < high:
        middle = (low + high) // 2
        if ticks[middle] < since:
            low = middle + 1
        else:
            high = middle
    if low < tick_end[plan] and ticks[low] == since:
        st.counts[OUTCOME] = TIE


@inlined
def _deliver(t: Tables, st: State, node: int, now: int) -> int:
    """A message has come: the receive that waits for it, or NOTHING."""
    m = t.nodes[node]["match"]
    match = st.matches[m]
    receive = match["head"]
    if receive == NOTHING:
        match["come"] += 1
        match["last"] = now
        return NOTHING
    match["head"] = st.next[receive]
    if t.apart[m] and st.issued[receive] == now:
        st.counts[OUTCOME] = TIE
    return receive


@inlined
def _fire(
    t: Tables, durations: Longs, ticks: Longs, tick_end: Ints, st: State, number: int, now: int
) -> None:
    """Issue what can be issued."""
    rank = st.ranks[number]
    while True:
        taken = 0
        while True:
            node = _next_ready(t, st, number)
            if node < 0:
                break
            taken += 1
            rank["running"] += 1
            if t.nodes[node]["slot"] != NO_SLOT:
                rank["busy"][t.nodes[node]["slot"]] = 1
            if t.nodes[node]["communicates"]:
                if rank["communicating"] == 0:
                    rank["talks_since"] = now
                rank["communicating"] += 1
            _issue(t, durations, ticks, tick_end, st, node, now)
        _make_freed_ready(t, st)  # not before: what is freed meanwhile waits
        if rank["running"] > 0 or taken == 0:
            break
    if rank["left"] == 0:
        rank["finished"] = now


@inlined
def _next_ready(t: Tables, st: State, number: int) -> int:
    """Take the ready node with the lowest id whose slot is free; -1 if there is none."""
    rank, best, best_slot = st.ranks[number], -1, -1
    for slot in range(N_SLOTS):
        if rank["busy"][slot] or rank["n_ready"][slot] == 0:
            continue
        node = st.ready[t.ranks[number]["ready"][slot]]
        if best < 0 or node < best:
            best, best_slot = node, slot
    if best >= 0:
        heap = t.ranks[number]["ready"][best_slot]
        rank["n_ready"][best_slot] -= 1
        _sink_node(st.ready, heap, rank["n_ready"][best_slot])
    return best


@inlined
def _issue(
    t: Tables, durations: Longs, ticks: Longs, tick_end: Ints, st: State, node: int, now: int
) -> None:
    static = t.nodes[node]
    kind = static["kind"]
    if kind == INSTANT:
        _release(t, st, node, now)
        return
    if kind == RECEIVE:
        _expect(t, st, node, now)
        return
    duration = static["duration"]
    if kind == SEND:
        duration = durations[static["what"]]
        if duration == 0:  # sent and delivered within a tick
            st.counts[OUTCOME] = TIE
    elif kind == COLLECTIVE:
        rank = st.ranks[static["rank"]]
        plan = static["what"] + rank["allocator"]
        rank["allocator"] = t.plans[plan]["next_state"]
        rank["plan"], rank["since"] = plan, now
        duration = ticks[tick_end[plan] - 1]
    if duration == 0:
        _end_now(st, node)
    else:
        push(st.agenda, now + duration, node)


@inlined
def _expect(t: Tables, st: State, node: int, now: int) -> None:
    m = t.nodes[node]["match"]
    match = st.matches[m]
    if match["come"] > 0:
        if t.apart[m] and match["last"] == now:
            st.counts[OUTCOME] = TIE
        match["come"] -= 1
        _end_now(st, node)
        return
    st.issued[node], st.next[node] = now, -1
    if match["head"] < 0:
        match["head"] = node
    else:
        st.next[match["tail"]] = node
    match["tail"] = node


@inlined
def _end_now(st: State, node: int) -> None:
    """Let the node end at this tick, after all else that does."""
    st.ending[st.counts[ENDING]] = node
    st.counts[ENDING] += 1


@inlined
def _release(t: Tables, st: State, node: int, now: int) -> None:
    static = t.nodes[node]
    rank = st.ranks[static["rank"]]
    rank["busy"][static["slot"]] = 0
    rank["running"] -= 1
    rank["left"] -= 1
    if static["communicates"]:
        rank["communicating"] -= 1
        if rank["communicating"] == 0:
            rank["communication"] += now - rank["talks_since"]
    for i in range(static["next_start"], static["next_end"]):
        following = t.following[i]
        st.waits[following] -= 1
        if st.waits[following] == 0:
            st.freed[st.counts[FREED]] = following
            st.counts[FREED] += 1


@inlined
def _make_freed_ready(t: Tables, st: State) -> None:
    for i in range(st.counts[FREED]):
        _make_ready(t, st, st.freed[i])
    st.counts[FREED] = 0


# --- ready nodes: a heap for each slot of a rank ---


@inlined
def _make_ready(t: Tables, st: State, node: int) -> None:
    number, slot = t.nodes[node]["rank"], t.nodes[node]["slot"]
    base, at = t.ranks[number]["ready"][slot], st.ranks[number]["n_ready"][slot]
    st.ranks[number]["n_ready"][slot] += 1
    while at > 0 and st.ready[base + (at - 1) // 2] > node:
        st.ready[base + at] = st.ready[base + (at - 1) // 2]
        at = (at - 1) // 2
    st.ready[base + at] = node


@inlined
def _sink_node(ready: Ints, base: int, size: int) -> None:
    """The first of ``size`` + 1 nodes is taken: the last one moves to where it belongs."""
    node, at = ready[base + size], 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and ready[base + child + 1] < ready[base + child]:
            child += 1
        if ready[base + child] >= node:
            break
        ready[base + at] = ready[base + child]
        at = child
    ready[base + at] = node
