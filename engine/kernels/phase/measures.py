"""What the phase kernel measures of a simulation, point by point."""

from typing import NamedTuple

import numpy as np

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core.none import LONGEST
from dimsweep.engine.kernels.phase.chain_times import time_chains
from dimsweep.engine.kernels.phase.kernel import run
from dimsweep.engine.kernels.phase.path import Path, empty_path, walk_back
from dimsweep.engine.kernels.phase.phase_time import time_all
from dimsweep.engine.kernels.phase.state import FINISHED, TOO_LONG, Sim, lay_out_chunks
from dimsweep.engine.lower.program import Floats, Ints, Longs, NodeKind, Structure


class Measures(NamedTuple):
    """What the kernel measured, a row a point: P points, C classes, D dimensions, L tallies."""

    outcome: Ints  # (P,)
    time: Longs  # (P,) ps
    end: Longs  # (P, C) ps when the class's last operator ended
    compute: Longs  # (P, C) ps
    exposed: Longs  # (P, C) ps of communication that no compute hides
    exposed_by_dim: Floats  # (P, C, D + 1) ps; the last: waiting, no dimension serves
    exposed_by_tally: Floats  # (P, C, L) ps
    busy: Longs  # (P, C, D) ps that the class's port was in use
    bytes_sent: Floats  # (P, C, D) bytes sent by one NPU
    path: Path | None  # the critical path; not known of a run message by message


def empty_measures(s: Structure, n: int) -> Measures:
    """Room for what is measured at ``n`` points."""
    c, d = s.shape.n_classes, s.shape.n_dims
    return Measures(
        outcome=np.zeros(n, dtype=np.int32),
        time=np.zeros(n, dtype=np.int64),
        end=np.zeros((n, c), dtype=np.int64),
        compute=np.zeros((n, c), dtype=np.int64),
        exposed=np.zeros((n, c), dtype=np.int64),
        exposed_by_dim=np.zeros((n, c, d + 1)),
        exposed_by_tally=np.zeros((n, c, s.shape.n_tallies)),
        busy=np.zeros((n, c, d), dtype=np.int64),
        bytes_sent=np.zeros((n, c, d)),
        path=empty_path(s, n),
    )


@kernel
def run_each(sim: Sim, bandwidth: Floats, latency: Longs, out: Measures) -> None:
    """Simulate each point of bandwidths and latencies, (P, D) each, and measure it."""
    lay_out_chunks(sim)
    for point in range(len(bandwidth)):
        longest = time_all(sim, bandwidth[point], latency[point]) + time_chains(sim)
        out.outcome[point] = run(sim) if longest < LONGEST else TOO_LONG
        if out.outcome[point] == FINISHED:
            _measure(sim, out, point)
            walk_back(sim, out.path, point)  # type: ignore[arg-type]  # there is one
        else:
            out.time[point] = -1


@kernel
def _measure(sim: Sim, out: Measures, point: int) -> None:
    s, st, n_dims = sim.s, sim.st, sim.s.shape.n_dims
    for c in range(s.shape.n_classes):
        cls = st.classes[c]
        out.time[point] = max(out.time[point], cls.end)
        out.end[point, c], out.compute[point, c] = cls.end, cls.compute
        out.exposed[point, c] = cls.exposed
        for number in range(s.shape.n_ports):
            d, port = number // (s.shape.n_ports // n_dims), st.ports[c * s.shape.n_ports + number]
            out.busy[point, c, d] += port.busy
            out.exposed_by_dim[point, c, d] += port.exposed
        out.exposed_by_dim[point, c, n_dims] = cls.unserved
        for tally in range(s.shape.n_tallies):
            out.exposed_by_tally[point, c, tally] = st.tally_exposed[c, tally]
    for flow in s.flows:
        for member in s.members[flow.member_start : flow.member_end]:
            for d in range(n_dims):
                out.bytes_sent[point, member.cls, d] += sim.times.bytes_sent[flow.form, d]
    if len(s.chains) > 0:
        for node in s.nodes:
            if node.kind == NodeKind.CHAIN:
                for d in range(n_dims):
                    out.bytes_sent[point, node.cls, d] += st.chain_bytes[node.tally, d]
