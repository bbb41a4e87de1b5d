"""What one point makes of chains (see engine.kernels.phase.chains): how long they last, and when
their links begin and end."""

import numpy as np

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.phase.state import Sim
from dimsweep.engine.lower.program import NodeKind


@kernel
def time_chains(sim: Sim) -> float:
    """Time the chains; returns the picoseconds of all links of all nodes, one after another."""
    sim.st.chain_bytes.fill(0.0)
    for number in range(len(sim.s.chains)):
        first, end = sim.s.chains[number].start, sim.s.chains[number].end
        sim.st.chains[number].longest = 0.0
        for i in range(first, end):
            sim.st.chains[number].longest += _time_link(sim, i)
            _mark(sim, first, i)
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
    """When link ``i`` starts and ends, and what lets it start; returns its duration."""
    link, out, rank = sim.s.links[i], sim.st.links[i], -1
    out.start, out.busy, out.critical, out.on_path = 0, 0, NONE, 0
    for before in sim.s.links_before[link.before_start : link.before_end]:
        due = sim.st.links[before].end
        its = _rank(sim, before, i)
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
def _rank(sim: Sim, before: int, link: int) -> int:
    """Which of several links that end together lets ``link`` start: who frees its port, or else its
    stream, or else the last to end in the kernel's order: computations, then ports."""
    mine, its = sim.s.links[link], sim.s.links[before]
    flies = sim.st.links[before].busy < sim.st.links[before].end - sim.st.links[before].start
    if mine.port == its.port and not flies:
        return 3 * sim.s.shape.n_ports
    if mine.stream == its.stream:
        return 2 * sim.s.shape.n_ports
    return its.port + sim.s.shape.n_ports * (flies and its.port >= 0)


@inlined
def _mark(sim: Sim, first: int, i: int) -> None:
    """Put the beginning and the end of link ``i`` among the marks of its chain."""
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
