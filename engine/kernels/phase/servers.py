"""Accesses of classes to memories whose servers they share (:mod:`engine.kernels.core.servers`).

A class has one access in flight at most, and all ranks of a class at once.
"""

import numpy as np

from dimsweep.engine.compiler import inlined, kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.servers import begin, go_on, lasts, serve
from dimsweep.engine.kernels.phase.agenda import next_end, set_class_due, slot_of
from dimsweep.engine.kernels.phase.phase_time import whole
from dimsweep.engine.kernels.phase.state import Sim


@inlined
def is_served(sim: Sim, cls: int, node: int) -> bool:
    """Whether servers that others use, too, move bytes of this access of the class just now."""
    return bool(sim.s.nodes[node].service != NONE and sim.st.accesses[cls].node == node)


@kernel
def join_servers(sim: Sim, node: int, now: int) -> None:
    """The access begins; when it ends is settled at the end of the round."""
    access = sim.st.accesses[sim.s.nodes[node].cls]
    access.node = node
    begin(access, now)
    _shift(sim, node, 1)


@kernel
def leave_servers(sim: Sim, node: int, now: int) -> int:
    """The access's bytes have moved; returns when its latency has passed."""
    sim.st.accesses[sim.s.nodes[node].cls].node = NONE
    sim.st.left_at[node] = sim.st.counts[0].shifts
    _shift(sim, node, -1)
    return now + sim.s.services[sim.s.nodes[node].service].latency


@kernel
def _shift(sim: Sim, node: int, sign: int) -> None:
    serve(sim.st.servers, sim.s.nodes[node].service, sign)
    shift = sim.st.shifts[sim.st.counts[0].shifts]
    shift.node, shift.sign, shift.weight = node, sign, 0.0
    sim.st.counts[0].shifts += 1
    sim.st.counts[0].unsettled = 1


@kernel
def settle_servers(sim: Sim, now: int) -> None:
    """All accesses go on with their shares of now."""
    sim.st.counts[0].unsettled = 0
    for cls in range(sim.s.shape.n_classes):
        access = sim.st.accesses[cls]
        if access.node < 0:
            continue
        takes = lasts(sim.st.servers, sim.s.nodes[access.node].service)
        if takes != access.lasts:
            due = now + np.int64(whole(go_on(access, takes, now)))
            sim.st.due[slot_of(sim, access.node)] = due
            set_class_due(sim, cls, next_end(sim, cls))
