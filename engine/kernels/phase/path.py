"""The critical path: the chain of intervals that ends when the run ends.

Every interval (a phase, or a computation) starts at the very instant at which another ended, or at
the beginning.  So the chain back from the last one to end is as long as the run, to the picosecond,
and says what the time is made of:

    T = compute + memory + sum over d of (transfer_d + latency_d + endpoint_d)
    transfer_d = demand_d / b_d (each message rounded to a picosecond),  latency_d = hops_d alpha_d

While the order of events stays, T is a maximum of such sums, one a chain; so with the chain's
counts dT/db_d = -demand_d / b_d^2 and dT/dalpha_d = hops_d are the slopes of T, but for that
rounding.  Where several chains are equally long T has a kink, and these are the slopes of one.

Accesses that share servers (engine.kernels.phase.servers) are slower or faster as others begin and
end, so the end of one depends on several chains.  There the seconds are still those of one chain,
in which an access counts as long as it lasted; the counts are those of all chains that matter, each
as often as T moves when its end does.  That may be a fraction, or less than zero: what makes an
access begin sooner slows others down.
"""

from typing import NamedTuple

import numpy as np

from engine.compiler import compiled, kernel
from engine.kernels.core.by_reference import by_reference
from engine.kernels.core.none import NONE
from engine.kernels.phase.phase_time import Parts, PhaseTimes, parts_of
from engine.kernels.phase.servers import lasts, serve
from engine.kernels.phase.state import BEGINNING, LAST, SHIFTS, State, long, transfer_of
from engine.lower.program import (
    NO_DIM,
    NO_FORM,
    NO_SERVICE,
    Floats,
    Longs,
    NodeKind,
    Structure,
)


class Path(NamedTuple):
    """Critical paths, a row a point: P points, D dimensions.

    The seconds of a point, in picoseconds, add up to its time exactly.  A transfer from point to
    point counts in its narrowest dimension, but for its latencies.
    """

    compute: Longs  # (P,) ps of computations
    memory: Longs  # (P,) ps of those that last as long as memory takes (roofline)
    transfer: Longs  # (P, D) ps in which bytes move
    latency: Longs  # (P, D) ps of latency
    endpoint: Longs  # (P, D) ps of endpoint delays and reductions
    demand: Floats  # (P, D) bytes that the whole bandwidth would carry in the transfer time
    hops: Floats  # (P, D) latencies


def empty_path(s: Structure, n: int) -> Path:
    """Room for the critical paths of ``n`` points."""
    by_dim = (n, s.shape.n_dims)
    return Path(
        compute=np.zeros(n, dtype=np.int64),
        memory=np.zeros(n, dtype=np.int64),
        transfer=np.zeros(by_dim, dtype=np.int64),
        latency=np.zeros(by_dim, dtype=np.int64),
        endpoint=np.zeros(by_dim, dtype=np.int64),
        demand=np.zeros(by_dim),
        hops=np.zeros(by_dim),
    )


@kernel
def walk_back(
    s: Structure,
    bandwidth: Floats,
    latency: Longs,
    times: PhaseTimes,
    st: State,
    out: Path,
    point: int,
) -> None:
    """Write the critical path of the run in ``st`` into row ``point``, all zeros before."""
    _forget(st)
    access = _follow(s, st, st.counts[LAST], 1.0, out, point, True)
    while access != NONE:
        out.memory[point] += st.nodes[access]["end"] - st.nodes[access]["start"]
        access = _follow(s, st, st.node_critical[access], 1.0, out, point, True)
    shared = st.counts[SHIFTS] > 0
    _add_up(s, bandwidth, latency, times, st, out, point, True, not shared)
    if shared:
        _forget(st)
        _weigh_shifts(s, st, out, point)
        _add_up(s, bandwidth, latency, times, st, out, point, False, True)


class Chain(NamedTuple):
    """The intervals of one critical path, the last one first."""

    nodes: Longs  # computations and accesses
    phases: Longs  # numbers of phases among all chunks'
    whole: Longs  # of each phase: 1 with all latencies of its chunk, 0 its transfer only


@compiled
def chain_of(new_state: State) -> Chain:
    """The critical path of the run in ``new_state``."""
    st, n_nodes, n_phases = by_reference(new_state), 0, 0
    interval = long(st.counts[LAST])
    while interval != BEGINNING:
        if interval < len(st.phase_of):
            n_phases += 1
        else:
            n_nodes += 1
        interval = _before(st, interval)
    nodes = np.empty(n_nodes, dtype=np.int64)
    phases, whole = np.empty(n_phases, dtype=np.int64), np.empty(n_phases, dtype=np.int64)
    i, k, interval = 0, 0, long(st.counts[LAST])
    while interval != BEGINNING:
        if interval < len(st.phase_of):
            whole[k] = interval >= 0
            phases[k] = interval if interval >= 0 else transfer_of(interval)
            k += 1
        else:
            nodes[i] = interval - len(st.phase_of)
            i += 1
        interval = _before(st, interval)
    return Chain(nodes, phases, whole)


@kernel
def _before(st: State, interval: int) -> int:
    """What let an interval begin."""
    if interval < 0:
        return long(st.phase_critical[transfer_of(interval)])
    if interval < len(st.phase_of):
        return long(st.phase_critical[interval])
    return long(st.node_critical[interval - len(st.phase_of)])


@compiled
def phases_apart(
    structure: Structure,
    bandwidth: Floats,
    latency: Longs,
    phase_times: PhaseTimes,
    new_state: State,
    chain: Chain,
    labels: Longs,
    new_path: Path,
) -> None:
    """Add the seconds of the phases of the critical path to ``new_path``, all zeros before: each
    phase's to the row that its label says."""
    s, times, st = by_reference(structure), by_reference(phase_times), by_reference(new_state)
    out = by_reference(new_path)
    for label in range(len(out.compute)):
        _forget(st)
        for i in range(len(chain.phases)):
            if labels[i] == label and chain.whole[i]:
                st.visits[st.phase_of[chain.phases[i]]] += 1.0
            elif labels[i] == label:
                st.transfers[st.phase_of[chain.phases[i]]] += 1.0
        _add_up(s, bandwidth, latency, times, st, out, label, True, False)


@kernel
def _forget(st: State) -> None:
    st.visits.fill(0.0)
    st.transfers.fill(0.0)
    for chain in st.chains:
        chain["visits"] = 0.0


@kernel
def _follow(
    s: Structure, st: State, interval: int, weight: float, out: Path, point: int, seconds: bool
) -> int:
    """Visit the chain back from an interval, ``weight`` times, to the beginning or to an access
    that shares servers, whose node it returns; write its ``seconds`` of computing, if asked."""
    while interval != BEGINNING:
        if interval < 0:
            st.transfers[st.phase_of[transfer_of(interval)]] += weight
            interval = st.phase_critical[transfer_of(interval)]
        elif interval < len(st.phase_of):
            st.visits[st.phase_of[interval]] += weight
            interval = st.phase_critical[interval]
        else:
            number = interval - len(st.phase_of)
            node = s.nodes[number]
            if node["service"] != NO_SERVICE:
                return long(number)
            if node["kind"] == NodeKind.CHAIN:
                st.chains[node["tally"]]["visits"] += weight
            if seconds:
                out.memory[point] += node["memory"]
                out.compute[point] += node["duration"] - node["memory"]
            interval = st.node_critical[number]
    return long(NONE)


@kernel
def _weigh_shifts(s: Structure, st: State, out: Path, point: int) -> None:
    """Visit all chains that the run's end depends on, as often as it moves when they do."""
    access = _follow(s, st, st.counts[LAST], 1.0, out, point, False)
    if access != NONE:
        st.shifts[st.left_at[access]]["weight"] += 1.0
    for number in range(st.counts[SHIFTS] - 1, -1, -1):
        shift = st.shifts[number]
        node, weight = shift["node"], shift["weight"]
        serve(s, st, node, -shift["sign"])  # the servers as they were before
        if weight == 0.0:
            continue
        if shift["sign"] < 0:
            _spread(s, st, number)
            continue
        access = _follow(s, st, st.node_critical[node], weight, out, point, False)
        if access != NONE:
            st.shifts[st.left_at[access]]["weight"] += weight


@kernel
def _spread(s: Structure, st: State, last: int) -> None:
    """Spread the weight of the end of an access over the shifts while it was served.

    All of it is moved, so  sum over i of rate_i (t_i+1 - t_i) = 1  where the rate changes at the
    t_i: its end moves by  (rate_i - rate_i-1) / rate_last  as t_i moves, and by rate_0 / rate_last
    as it begins.  The servers are as before its end.
    """
    node, weight = st.shifts[last]["node"], st.shifts[last]["weight"]
    final = lasts(s, st, node)
    takes, i = final, last - 1
    while st.shifts[i]["node"] != node:
        serve(s, st, st.shifts[i]["node"], -st.shifts[i]["sign"])
        before = lasts(s, st, node)
        st.shifts[i]["weight"] += weight * (final / takes - final / before)
        takes, i = before, i - 1
    st.shifts[i]["weight"] += weight * (final / takes)
    for again in range(i + 1, last):
        serve(s, st, st.shifts[again]["node"], st.shifts[again]["sign"])


@kernel
def _add_up(
    s: Structure,
    bandwidth: Floats,
    latency: Longs,
    times: PhaseTimes,
    st: State,
    out: Path,
    point: int,
    seconds: bool,
    slopes: bool,
) -> None:
    """Add what was visited to the ``seconds`` of row ``point``, to its ``slopes``, or to both."""
    _visit_links(s, times, st, out, point, seconds)
    for span in times.spans:
        for variant in range(span["variants"]):
            first = span["start"] + variant * span["length"]
            late = 0.0
            for i in range(first + span["length"] - 1, first - 1, -1):
                moves = st.visits[i] + st.transfers[i]
                # A chunk that ended a flow has the latencies of all its phases.
                late = late * s.shape.latency_after + st.visits[i]
                if moves == 0.0 and late == 0.0:
                    continue
                phase = times.phases[i]
                if phase["steps"] >= 0:
                    steps, d = s.phase_steps[phase["steps"]], phase["dim"]
                    parts = parts_of(s, steps, phase["n_bytes"], bandwidth[d], latency[d])
                    if seconds:
                        _phase_seconds(phase, parts, latency[d], out, point, moves, late)
                    if slopes:
                        out.hops[point, d] += late * parts.hops
                        n_bytes = phase["n_bytes"] * parts.fraction / steps["share"]
                        out.demand[point, d] += moves * n_bytes
                else:
                    if seconds:
                        _transfer_seconds(s, latency, phase, out, point, moves, late)
                    if slopes:
                        _transfer_slopes(s, phase, out, point, moves, late)


@kernel
def _visit_links(
    s: Structure, times: PhaseTimes, st: State, out: Path, point: int, seconds: bool
) -> None:
    """Visit what the path meets inside the chains."""
    for chain in range(len(s.chains)):
        n = st.chains[chain]["visits"]
        for number in range(s.chains[chain]["start"], s.chains[chain]["end"]):
            link = s.links[number]
            if n == 0.0 or not st.links[number]["on_path"]:
                continue
            if seconds:
                out.memory[point] += np.int64(n) * link["memory"]
                out.compute[point] += np.int64(n) * (link["duration"] - link["memory"])
            if link["form"] != NO_FORM:
                span, form = times.spans[link["form"]], s.forms[link["form"]]
                i = span["start"]
                while i < span["start"] + span["length"] and times.phases[i]["dim"] != NO_DIM:
                    st.transfers[i] += n * form["chunks"]
                    i += 1
                # The last chunk's last phase brings its latencies.
                st.transfers[i - 1] -= n
                st.visits[i - 1] += n


@kernel
def _phase_seconds(
    phase: np.void,
    parts: Parts,
    latency: int,
    out: Path,
    point: int,
    visits: float,
    lates: float,
) -> None:
    """A phase: its bytes as often as it was visited, its latencies as often as a chunk was late."""
    d, moves, late = phase["dim"], np.int64(visits), np.int64(lates)
    hops, delay = np.int64(parts.hops), np.int64(parts.delay)
    reduction = np.int64(parts.reduction)
    out.latency[point, d] += late * hops * latency
    out.endpoint[point, d] += late * delay + moves * reduction
    out.transfer[point, d] += moves * (phase["duration"] - hops * latency - delay - reduction)


@kernel
def _transfer_seconds(
    s: Structure,
    latency: Longs,
    phase: np.void,
    out: Path,
    point: int,
    visits: float,
    lates: float,
) -> None:
    """The same of a message from point to point."""
    moves, late = np.int64(visits), np.int64(lates)
    form, left = s.forms[~phase["steps"]], phase["duration"] - s.shape.endpoint_delay
    for use in s.uses[form["use_start"] : form["use_end"]]:
        d = use["dim"]
        hops = s.steps[s.phase_steps[use["scatter"]]["step_start"]]["hops"]
        out.latency[point, d] += late * hops * latency[d]
        left -= hops * latency[d]
    out.endpoint[point, phase["dim"]] += late * s.shape.endpoint_delay
    out.transfer[point, phase["dim"]] += moves * left


@kernel
def _transfer_slopes(
    s: Structure, phase: np.void, out: Path, point: int, moves: float, late: float
) -> None:
    form = s.forms[~phase["steps"]]
    for use in s.uses[form["use_start"] : form["use_end"]]:
        steps = s.phase_steps[use["scatter"]]
        out.hops[point, use["dim"]] += late * s.steps[steps["step_start"]]["hops"]
        if use["dim"] == phase["dim"]:
            out.demand[point, use["dim"]] += moves * phase["n_bytes"] / steps["share"]
