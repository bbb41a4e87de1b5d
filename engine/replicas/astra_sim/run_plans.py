"""Compiled: how long phases last, and the chunks of each planned collective in their queues."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.replicas.astra_sim.agenda import (
    FINISHED,
    TOO_LONG,
    Agenda,
    empty_agenda,
    inlined,
    kernel,
    pop,
    push,
)
from engine.replicas.astra_sim.tables import LONGEST, Floats, Ints, Longs, Tables


class Queues(NamedTuple):
    """Chunks of one plan at a time."""

    agenda: Agenda
    at: Ints  # step of each chunk
    next: Ints  # chunk that waits behind it
    first: Ints  # chunks that wait in each queue: the first, or -1, and the last
    last: Ints
    running: Ints  # in each queue


def empty_queues(t: Tables) -> Queues:
    """Room to run any plan of ``t``."""
    chunks = int((t.plans["chunk_end"] - t.plans["chunk_start"]).max(initial=0))
    return Queues(
        agenda=empty_agenda(chunks),
        at=np.empty(chunks, np.int32),
        next=np.empty(chunks, np.int32),
        first=np.empty(t.n_queues, np.int32),
        last=np.empty(t.n_queues, np.int32),
        running=np.empty(t.n_queues, np.int32),
    )


@kernel
def price(t: Tables, latency: Floats, bandwidth: Floats, durations: Longs) -> int:
    """Fill in the ``durations`` (ns) of all recipes that have terms; FINISHED or TOO_LONG.

    ``latency`` (D,) in ns, ``bandwidth`` (D,) in bytes/ns: a message takes hops * latency +
    bytes / bandwidth, rounded down.
    """
    for r in range(len(t.recipes)):
        recipe = t.recipes[r]
        if recipe["term_start"] < 0:
            continue
        total = recipe["fixed"]
        for i in range(recipe["term_start"], recipe["term_end"]):
            term = t.terms[i]
            dim = term["dim"]
            one = term["hops"] * latency[dim] + term["n_bytes"] / bandwidth[dim]
            if not one * term["count"] < LONGEST:
                return TOO_LONG
            total += term["count"] * np.int64(one)
        if total > LONGEST:
            return TOO_LONG
        durations[r] = total
    return FINISHED


@kernel
def run_plans(t: Tables, durations: Longs, q: Queues, ticks: Longs, tied: Ints) -> int:
    """Of each plan, when its phases end (ns after its start) in ``ticks``, in order.

    ``tied`` is 1 where two end at the same tick; returns how many plans that are.
    """
    n_tied = 0
    for p in range(len(t.plans)):
        tied[p] = 0 if _run_plan(t, durations, q, ticks, t.plans[p]) else 1
        n_tied += tied[p]
    return n_tied


@kernel
def _run_plan(t: Tables, durations: Longs, q: Queues, ticks: Longs, plan: np.void) -> bool:
    q.first[:] = -1
    q.running[:] = 0
    q.agenda.size[0] = 0
    first = plan["chunk_start"]
    for c in range(plan["chunk_end"] - first):
        q.at[c] = t.chunks[first + c]["step_start"]
        _join(t, q, first, c)
        _fill(t, durations, q, t.steps[q.at[c]]["queue"], 0)
    now, n = 0, plan["tick_start"]
    while q.agenda.size[0] > 0:
        before = now
        now = q.agenda.times[0]
        if now == before or now > LONGEST:
            return False
        ticks[n] = now
        n += 1
        c = pop(q.agenda)
        old = t.steps[q.at[c]]["queue"]
        q.at[c] += 1
        more = q.at[c] < t.chunks[first + c]["step_end"]
        if more:
            _join(t, q, first, c)
        q.running[old] -= 1
        _fill(t, durations, q, old, now)
        if more:
            _fill(t, durations, q, t.steps[q.at[c]]["queue"], now)
    return True


@inlined
def _join(t: Tables, q: Queues, first: int, c: int) -> None:
    """Queue chunk ``c`` for its next step: last, or before those as large where sizes count."""
    step = t.steps[q.at[c]]
    queue = step["queue"]
    before, after = -1, q.first[queue]
    if after >= 0 and not step["sorts"]:
        before, after = q.last[queue], -1
    while after >= 0 and t.steps[q.at[after]]["largest"] < step["largest"]:
        before, after = after, q.next[after]
    q.next[c] = after
    if before < 0:
        q.first[queue] = c
    else:
        q.next[before] = c
    if after < 0:
        q.last[queue] = c


@inlined
def _fill(t: Tables, durations: Longs, q: Queues, queue: int, now: int) -> None:
    while q.running[queue] < t.limit and q.first[queue] >= 0:
        c = q.first[queue]
        q.first[queue] = q.next[c]
        q.running[queue] += 1
        push(q.agenda, now + durations[t.steps[q.at[c]]["recipe"]], c)
