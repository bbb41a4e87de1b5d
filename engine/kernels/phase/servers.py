"""Servers of memories: accesses in flight share them.

A server serves all NPUs that have an access in flight at once, each at an equal share (processor
sharing).  So with n NPUs in flight an access takes n times what it would take alone, or what its
own path takes if that is longer; of several servers the slowest counts.  Whenever somebody begins
or ends to be served, all others go on with the share that is then theirs, from what is left of
their accesses.  An access's latency passes when its bytes have moved, and keeps no server busy.

A class has one access in flight at most, and all ranks of a class at once.
"""

import numpy as np

from engine.compiler import inlined, kernel
from engine.kernels.core.none import NONE
from engine.kernels.phase.agenda import next_end, set_class_due, slot_of
from engine.kernels.phase.phase_time import whole
from engine.kernels.phase.state import Sim


@inlined
def is_served(sim: Sim, cls: int, node: int) -> bool:
    """Whether servers that others use, too, move bytes of this access of the class just now."""
    return bool(sim.s.nodes[node].service != NONE and sim.st.accesses[cls].node == node)


@kernel
def join_servers(sim: Sim, node: int, now: int) -> None:
    """The access begins; when it ends is settled at the end of the round."""
    access = sim.st.accesses[sim.s.nodes[node].cls]
    access.node, access.left, access.lasts, access.since = node, 1.0, -1.0, now
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
    serve(sim, node, sign)
    shift = sim.st.shifts[sim.st.counts[0].shifts]
    shift.node, shift.sign, shift.weight = node, sign, 0.0
    sim.st.counts[0].shifts += 1
    sim.st.counts[0].unsettled = 1


@kernel
def serve(sim: Sim, node: int, sign: int) -> None:
    """The servers of the access serve its class, too (1), or no longer (-1)."""
    service = sim.s.services[sim.s.nodes[node].service]
    for use in sim.s.server_uses[service.use_start : service.use_end]:
        sim.st.servers[use.server] += sign * use.npus


@kernel
def lasts(sim: Sim, node: int) -> float:
    """Picoseconds that the whole access would take if its servers went on as they are."""
    service = sim.s.services[sim.s.nodes[node].service]
    slowest = service.own
    for use in sim.s.server_uses[service.use_start : service.use_end]:
        slowest = max(slowest, sim.st.servers[use.server] * use.alone)
    return slowest


@kernel
def settle_servers(sim: Sim, now: int) -> None:
    """All accesses go on with their shares of now."""
    sim.st.counts[0].unsettled = 0
    for cls in range(sim.s.shape.n_classes):
        access = sim.st.accesses[cls]
        if access.node < 0:
            continue
        takes = lasts(sim, access.node)
        if takes == access.lasts:
            continue
        if access.lasts > 0:
            access.left -= (now - access.since) / access.lasts
        access.since, access.lasts = now, takes
        due = now + np.int64(whole(max(access.left, 0.0) * takes))
        sim.st.due[slot_of(sim, access.node)] = due
        set_class_due(sim, cls, next_end(sim, cls))
