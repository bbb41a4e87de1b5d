"""The critical path: the chain of intervals that ends when the run ends.

Every interval (a phase, or a computation) starts at the instant at which another ends, or at the
beginning.  The chain back from the last interval is therefore as long as the run, to the
picosecond, and decomposes its time:

    T = compute + memory + sum over d of (transfer_d + latency_d + endpoint_d)
    transfer_d = demand_d / b_d (each message rounded to a picosecond),  latency_d = hops_d alpha_d

While the order of events is constant, T is a maximum of such sums, one per chain.  Except for the
rounding, the chain's counts therefore give the derivatives of T:  dT/db_d = -demand_d / b_d^2  and
dT/dalpha_d = hops_d.  Where several chains are equally long T has a kink, and these are the
derivatives along one of them.

Accesses that share servers (:mod:`engine.kernels.core.accounts`) slow each other down, so the end
of one depends on several chains.  The times are still those of one chain, in which an access counts
with its duration.  The counts (``demand``, ``hops``) are those of all chains that matter, each
weighted by the derivative of T with respect to its end.  A weight may be a fraction or negative: an
access that begins sooner slows others down.
"""

from typing import NamedTuple

import numpy as np

from dimsweep.engine.compiler import compiled, kernel
from dimsweep.engine.kernels.core.accounts import access_time, serve
from dimsweep.engine.kernels.core.compiling import by_reference, long
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.phase.phase_time import phase_parts
from dimsweep.engine.kernels.phase.state import BEGINNING, Sim, State, transfer_of
from dimsweep.engine.lower.program import Floats, Longs, NodeKind, Structure


class Path(NamedTuple):
    """The critical paths of P points in D dimensions, one row per point.

    The times of a point, in picoseconds, add up to its simulated time exactly.  A point-to-point
    message counts in its narrowest dimension, except for its latencies.
    """

    compute: Longs  # (P,) ps of computations
    memory: Longs  # (P,) ps of those that last as long as memory takes (roofline)
    transfer: Longs  # (P, D) ps in which bytes move
    latency: Longs  # (P, D) ps of latency
    endpoint: Longs  # (P, D) ps of endpoint delays and reductions
    demand: Floats  # (P, D) bytes that the whole bandwidth would carry in the transfer time
    hops: Floats  # (P, D) latencies


def empty_path(s: Structure, n: int) -> Path:
    """Allocate critical paths for ``n`` points."""
    by_dim = (n, s.shape.n_dims)
    compute, memory = np.zeros((2, n), np.int64)
    transfer, latency, endpoint = np.zeros((3, *by_dim), np.int64)
    demand, hops = np.zeros((2, *by_dim))
    return Path(compute, memory, transfer, latency, endpoint, demand, hops)


class Row(NamedTuple):
    """The row of :class:`Path` to write; if ``seconds`` is false, only ``hops`` and ``demand``."""

    path: Path
    number: int
    seconds: bool


@kernel
def walk_back(sim: Sim, path: Path, point: int) -> None:
    """Write the critical path of a finished run into row ``point``, which must be all zeros."""
    st, last, out = sim.st, long(sim.st.counts[0].last), by_reference(Row(path, point, True))
    _reset_visits(st)
    access = _visit_back(sim, out, last, 1.0)
    while access != NONE:
        path.memory[point] += st.nodes[access].end - st.nodes[access].start
        access = _visit_back(sim, out, long(st.node_critical[access]), 1.0)
    _add_visits(sim, out)
    if st.counts[0].shifts > 0:
        for d in range(sim.s.shape.n_dims):
            path.hops[point, d] = path.demand[point, d] = 0.0
        _reset_visits(st)
        slopes = by_reference(Row(path, point, False))
        _weigh_shifts(sim, slopes)
        _add_visits(sim, slopes)


class Chain(NamedTuple):
    """The intervals on one critical path, last interval first."""

    nodes: Longs  # computations and accesses
    phases: Longs  # numbers of phases among all chunks'
    with_latencies: Longs  # of each phase: 1 with all latencies of its chunk, 0 its transfer only


@compiled
def read_chain(new_state: State) -> Chain:
    """Return the intervals on the critical path of a finished run."""
    st, n = by_reference(new_state), 0
    interval = long(st.counts[0].last)
    while interval != BEGINNING:
        n += 1
        interval = _critical_predecessor(st, interval)
    nodes, phases, with_latencies = (
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )
    i, k, interval = 0, 0, long(st.counts[0].last)
    while interval != BEGINNING:
        if interval < len(st.phase_of):
            with_latencies[k] = interval >= 0
            phases[k] = interval if interval >= 0 else transfer_of(interval)
            k += 1
        else:
            nodes[i] = interval - len(st.phase_of)
            i += 1
        interval = _critical_predecessor(st, interval)
    return Chain(nodes[:i], phases[:k], with_latencies[:k])


@kernel
def _critical_predecessor(st: State, interval: int) -> int:
    """Return the interval whose end allowed ``interval`` to begin."""
    if interval < 0:
        return long(st.phase_critical[transfer_of(interval)])
    if interval < len(st.phase_of):
        return long(st.phase_critical[interval])
    return long(st.node_critical[interval - len(st.phase_of)])


@kernel
def add_labelled_phases(sim: Sim, chain: Chain, labels: Longs, path: Path) -> None:
    """Add each phase of a critical path to the row of ``path`` with the number of its label."""
    for label in range(len(path.compute)):
        _reset_visits(sim.st)
        for i in range(len(chain.phases)):
            if labels[i] == label:
                visited = sim.st.visits if chain.with_latencies[i] else sim.st.transfers
                visited[sim.st.phase_of[chain.phases[i]]] += 1.0
        _add_visits(sim, by_reference(Row(path, label, True)))


@kernel
def _reset_visits(st: State) -> None:
    st.visits.fill(0.0)
    st.transfers.fill(0.0)
    for chain in st.chains:
        chain.visits = 0.0


@kernel
def _visit_back(sim: Sim, out: Row, interval: int, weight: float) -> int:
    """Add ``weight`` to each interval on the critical path that ends with ``interval``.

    Stop at the beginning (return NONE), or at an access that shares servers (return its node).  If
    ``out.seconds`` is set, also add the time of computations to the row.
    """
    s, st = sim.s, sim.st
    while interval != BEGINNING:
        if interval < 0:
            st.transfers[st.phase_of[transfer_of(interval)]] += weight
        elif interval < len(st.phase_of):
            st.visits[st.phase_of[interval]] += weight
        else:
            number = interval - len(st.phase_of)
            node = s.nodes[number]
            if node.service != NONE:
                return long(number)
            if node.kind == NodeKind.CHAIN:
                st.chains[node.tally].visits += weight
            if out.seconds:
                out.path.memory[out.number] += node.memory
                out.path.compute[out.number] += node.duration - node.memory
        interval = _critical_predecessor(st, interval)
    return long(NONE)


@kernel
def _weigh_shifts(sim: Sim, out: Row) -> None:
    """Visit all paths that the run's end depends on, weighted by its derivative to each."""
    st = sim.st
    access = _visit_back(sim, out, long(st.counts[0].last), 1.0)
    if access != NONE:
        st.shifts[st.left_at[access]].weight += 1.0
    for number in range(st.counts[0].shifts - 1, -1, -1):
        shift = st.shifts[number]
        _serve_shift(sim, number, -1)  # the servers as they were before
        if shift.weight == 0.0:
            continue
        if shift.sign < 0:
            _spread_weight(sim, number)
            continue
        access = _visit_back(sim, out, long(st.node_critical[shift.node]), shift.weight)
        if access != NONE:
            st.shifts[st.left_at[access]].weight += shift.weight


@kernel
def _spread_weight(sim: Sim, last: int) -> None:
    """Distribute the weight of a memory access's end over the load changes while it was served.

    The whole weight is distributed.  The access ends when  sum over i of rate_i (t_i+1 - t_i) = 1,
    where its rate changes at the times t_i.  Its end therefore moves by  (rate_i - rate_i-1) /
    rate_last  per unit of t_i, and by  rate_0 / rate_last  per unit of its begin.  On entry, the
    servers' load is that before its end.
    """
    shifts = sim.st.shifts
    node, weight = shifts[last].node, shifts[last].weight
    service = sim.s.nodes[node].service
    final = access_time(sim.st.servers, service)
    takes, i = final, last - 1
    while shifts[i].node != node:
        _serve_shift(sim, i, -1)
        before = access_time(sim.st.servers, service)
        shifts[i].weight += weight * (final / takes - final / before)
        takes, i = before, i - 1
    shifts[i].weight += weight * (final / takes)
    for again in range(i + 1, last):
        _serve_shift(sim, again, 1)


@kernel
def _serve_shift(sim: Sim, number: int, sign: int) -> None:
    """Apply a change of the servers' load (``sign`` 1), or undo it (-1)."""
    shift = sim.st.shifts[number]
    serve(sim.st.servers, sim.s.nodes[shift.node].service, sign * shift.sign)


@kernel
def _add_visits(sim: Sim, out: Row) -> None:
    """Add all visited phases, and all links of visited chains, to the row."""
    st, times = sim.st, sim.times
    _visit_links(sim, out)
    for span in times.spans:
        for variant in range(span.variants):
            first = span.start + variant * span.length
            late = 0.0
            for i in range(first + span.length - 1, first - 1, -1):
                moves = st.visits[i] + st.transfers[i]
                # A chunk that ended a flow has the latencies of all its phases.
                late = late * sim.rules.latency_after() + st.visits[i]
                if moves == 0.0 and late == 0.0:
                    continue
                if times.phases[i].steps >= 0:
                    _add_phase(sim, out, i, moves, late)
                else:
                    _add_transfer(sim, out, i, moves, late)


@kernel
def _visit_links(sim: Sim, out: Row) -> None:
    """Visit the critical links inside the chains on the path."""
    s, st, times = sim.s, sim.st, sim.times
    for chain in range(len(s.chains)):
        n = st.chains[chain].visits
        for number in range(s.chains[chain].start, s.chains[chain].end):
            link = s.links[number]
            if n == 0.0 or not st.links[number].on_path:
                continue
            if out.seconds:
                out.path.memory[out.number] += np.int64(n) * link.memory
                out.path.compute[out.number] += np.int64(n) * (link.duration - link.memory)
            if link.form != NONE:
                span = times.spans[link.form]
                i = long(span.start)
                while i < span.start + span.length and times.phases[i].dim != NONE:
                    st.transfers[i] += n * s.forms[link.form].chunks
                    i += 1
                # The last chunk's last phase brings its latencies.
                st.transfers[i - 1] -= n
                st.visits[i - 1] += n


@kernel
def _add_phase(sim: Sim, out: Row, i: int, moves: float, late: float) -> None:
    """Add to the row a phase's transfer ``moves`` times, and its latencies ``late`` times."""
    phase, path = sim.times.phases[i], out.path
    d, steps = phase.dim, sim.s.phase_steps[phase.steps]
    parts = phase_parts(sim, steps, phase.n_bytes, d)
    path.hops[out.number, d] += late * parts.hops
    n_bytes = phase.n_bytes * parts.fraction / steps.share
    path.demand[out.number, d] += moves * n_bytes
    if out.seconds:
        n, behind = np.int64(moves), np.int64(late)
        hops, delay = np.int64(parts.hops) * sim.times.latency[d], np.int64(parts.delay)
        reduction = np.int64(parts.reduction)
        path.latency[out.number, d] += behind * hops
        path.endpoint[out.number, d] += behind * delay + n * reduction
        path.transfer[out.number, d] += n * (phase.duration - hops - delay - reduction)


@kernel
def _add_transfer(sim: Sim, out: Row, i: int, moves: float, late: float) -> None:
    """Add a point-to-point message's transfer ``moves`` times, its latencies ``late`` times."""
    s, phase, path = sim.s, sim.times.phases[i], out.path
    n, behind, delay = np.int64(moves), np.int64(late), s.shape.endpoint_delay
    form, left = s.forms[~phase.steps], phase.duration - delay
    for use in s.uses[form.use_start : form.use_end]:
        d, steps = use.dim, s.phase_steps[use.scatter]
        hops = s.steps[steps.step_start].hops
        path.hops[out.number, d] += late * hops
        if d == phase.dim:
            path.demand[out.number, d] += moves * phase.n_bytes / steps.share
        left -= hops * sim.times.latency[d]
        if out.seconds:
            path.latency[out.number, d] += behind * (hops * sim.times.latency[d])
    if out.seconds:
        path.endpoint[out.number, phase.dim] += behind * delay
        path.transfer[out.number, phase.dim] += n * left
