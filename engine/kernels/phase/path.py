"""The critical path: the chain of intervals that ends when the run ends.

Every interval (a phase, or a computation) starts at the very instant at which another ended, or at
the beginning.  So the chain back from the last one to end is as long as the run, to the picosecond,
and says what the time is made of:

    T = compute + memory + sum over d of (transfer_d + latency_d + endpoint_d)
    transfer_d = demand_d / b_d (each message rounded to a picosecond),  latency_d = hops_d alpha_d

While the order of events stays, T is a maximum of such sums, one a chain; so with the chain's
counts dT/db_d = -demand_d / b_d^2 and dT/dalpha_d = hops_d are the slopes of T, but for that
rounding.  Where several chains are equally long T has a kink, and these are the slopes of one.
"""

from typing import NamedTuple

import numpy as np

from engine.kernels.jit import kernel
from engine.kernels.phase.phase_time import PhaseTimes, parts_of
from engine.kernels.phase.state import BEGINNING, LAST, State, long, transfer_of
from engine.lower.program import NO_DIM, NO_FORM, Floats, Longs, NodeKind, Structure


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
    hops: Longs  # (P, D) latencies


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
        hops=np.zeros(by_dim, dtype=np.int64),
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
    st.visits.fill(0)
    st.transfers.fill(0)
    for chain in st.chains:
        chain["visits"] = 0
    interval = st.counts[LAST]
    while interval != BEGINNING:
        if interval < 0:
            st.transfers[st.phase_of[transfer_of(interval)]] += 1
            interval = st.phase_critical[transfer_of(interval)]
        elif interval < len(st.phase_of):
            st.visits[st.phase_of[interval]] += 1
            interval = st.phase_critical[interval]
        else:
            number = interval - len(st.phase_of)
            node = s.nodes[number]
            if node["kind"] == NodeKind.CHAIN:
                st.chains[node["tally"]]["visits"] += 1
            out.memory[point] += node["memory"]
            out.compute[point] += node["duration"] - node["memory"]
            interval = st.node_critical[number]
    _visit_links(s, times, st, out, point)
    for span in times.spans:
        for variant in range(span["variants"]):
            first = span["start"] + variant * span["length"]
            late = long(0)
            for i in range(first + span["length"] - 1, first - 1, -1):
                moves = long(st.visits[i]) + st.transfers[i]
                # A chunk that ended a flow has the latencies of all its phases.
                late = late * s.shape.latency_after + st.visits[i]
                if moves + late == 0:
                    continue
                if times.phases[i]["steps"] >= 0:
                    _add_phase(s, bandwidth, latency, times, out, point, i, moves, late)
                else:
                    _add_transfer(s, latency, times, out, point, i, moves, late)


@kernel
def _visit_links(s: Structure, times: PhaseTimes, st: State, out: Path, point: int) -> None:
    """Add what the path meets inside the chains."""
    for chain in range(len(s.chains)):
        n = np.int64(st.chains[chain]["visits"])
        for number in range(s.chains[chain]["start"], s.chains[chain]["end"]):
            link = s.links[number]
            if n == 0 or not st.links[number]["on_path"]:
                continue
            out.memory[point] += n * link["memory"]
            out.compute[point] += n * (link["duration"] - link["memory"])
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
def _add_phase(
    s: Structure,
    bandwidth: Floats,
    latency: Longs,
    times: PhaseTimes,
    out: Path,
    point: int,
    i: int,
    moves: int,
    late: int,
) -> None:
    """Phase ``i``: its bytes ``moves`` times, its latencies ``late`` times."""
    phase = times.phases[i]
    d, steps = phase["dim"], s.phase_steps[phase["steps"]]
    parts = parts_of(s, steps, phase["n_bytes"], bandwidth[d], latency[d])
    hops = np.int64(parts.hops)
    delay, reduction = np.int64(parts.delay), np.int64(parts.reduction)
    out.hops[point, d] += late * hops
    out.latency[point, d] += late * hops * latency[d]
    out.endpoint[point, d] += late * delay + moves * reduction
    bytes_move = phase["duration"] - hops * latency[d] - delay - reduction
    out.transfer[point, d] += moves * bytes_move
    out.demand[point, d] += moves * phase["n_bytes"] * parts.fraction / steps["share"]


@kernel
def _add_transfer(
    s: Structure,
    latency: Longs,
    times: PhaseTimes,
    out: Path,
    point: int,
    i: int,
    moves: int,
    late: int,
) -> None:
    """The same of a message from point to point."""
    phase = times.phases[i]
    form, narrowest = s.forms[~phase["steps"]], phase["dim"]
    left = phase["duration"] - s.shape.endpoint_delay
    for use in s.uses[form["use_start"] : form["use_end"]]:
        d, steps = use["dim"], s.phase_steps[use["scatter"]]
        hops = s.steps[steps["step_start"]]["hops"]
        out.hops[point, d] += late * hops
        out.latency[point, d] += late * hops * latency[d]
        left -= hops * latency[d]
        if d == narrowest:
            out.demand[point, d] += moves * phase["n_bytes"] / steps["share"]
    out.endpoint[point, narrowest] += late * s.shape.endpoint_delay
    out.transfer[point, narrowest] += moves * left
