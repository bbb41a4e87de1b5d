"""What one point makes of chains (see engine.kernels.phase.chains): how long they last, and when
their links begin and end."""

import numpy as np

from engine.compiler import inlined, kernel
from engine.kernels.core.none import NONE
from engine.kernels.phase.phase_time import PhaseTimes
from engine.kernels.phase.state import State
from engine.lower.program import NO_DIM, NO_FORM, NodeKind, Structure


@kernel
def time_chains(s: Structure, times: PhaseTimes, st: State) -> float:
    """Time the chains; returns the picoseconds of all links of all nodes, one after another."""
    st.chain_bytes.fill(0.0)
    for number in range(len(s.chains)):
        first, end = s.chains[number]["start"], s.chains[number]["end"]
        st.chains[number]["longest"] = 0.0
        for i in range(first, end):
            st.chains[number]["longest"] += _time_link(s, times, st, i)
            _mark(st, first, i)
            if s.links[i]["form"] != NO_FORM:
                for d in range(s.shape.n_dims):
                    st.chain_bytes[number, d] += times.bytes_sent[s.links[i]["form"], d]
        st.chains[number]["duration"] = st.links[end - 1]["end"]
        i = end - 1
        while i >= first:
            st.links[i]["on_path"] = 1
            i = st.links[i]["critical"]
    total = 0.0
    if len(s.chains) > 0:
        for node in s.nodes:
            if node["kind"] == NodeKind.CHAIN:
                total += st.chains[node["tally"]]["longest"]
    return total


@kernel
def _time_link(s: Structure, times: PhaseTimes, st: State, i: int) -> float:
    """When link ``i`` starts and ends, and what lets it start; returns its duration."""
    link, out, rank = s.links[i], st.links[i], -1
    out["start"], out["busy"], out["critical"], out["on_path"] = 0, 0, NONE, 0
    for before in s.links_before[link["before_start"] : link["before_end"]]:
        due = st.links[before]["end"]
        its = _rank(s, st, before, i)
        if due > out["start"] or (due == out["start"] and its > rank):
            out["start"], out["critical"], rank = due, before, its
    duration = np.int64(link["duration"])
    if link["form"] != NO_FORM:
        form, span = s.forms[link["form"]], times.spans[link["form"]]
        late = np.int64(0)
        for phase in times.phases[span["start"] : span["start"] + span["length"]]:
            if phase["dim"] != NO_DIM:
                out["busy"] += form["chunks"] * phase["hold"]
                late = phase["late"]  # of the last chunk
        duration += out["busy"] + late
    out["end"] = out["start"] + duration
    return float(duration)


@inlined
def _rank(s: Structure, st: State, before: int, link: int) -> int:
    """Which of several links that end together lets ``link`` start: who frees its port, or else its
    stream, or else the last to end in the kernel's order: computations, then ports."""
    mine, its = s.links[link], s.links[before]
    flies = st.links[before]["busy"] < st.links[before]["end"] - st.links[before]["start"]
    if mine["port"] == its["port"] and not flies:
        return 3 * s.shape.n_ports
    if mine["stream"] == its["stream"]:
        return 2 * s.shape.n_ports
    return its["port"] + s.shape.n_ports * (flies and its["port"] >= 0)


@inlined
def _mark(st: State, first: int, i: int) -> None:
    """Put the beginning and the end of link ``i`` among the marks of its chain."""
    for n in range(2 * i, 2 * i + 2):
        begins = n == 2 * i
        due, at = st.links[i]["start"] if begins else st.links[i]["end"], n
        while at > 2 * first and (
            st.marks[at - 1]["due"] > due
            or (st.marks[at - 1]["due"] == due and not begins and st.marks[at - 1]["begins"])
        ):
            mark = st.marks[at - 1]
            st.marks[at]["due"], st.marks[at]["link"] = mark["due"], mark["link"]
            st.marks[at]["begins"] = mark["begins"]
            at -= 1
        st.marks[at]["due"], st.marks[at]["link"], st.marks[at]["begins"] = due, i, begins
