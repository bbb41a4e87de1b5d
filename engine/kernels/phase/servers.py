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
from engine.kernels.phase.agenda import next_end, set_class_due
from engine.kernels.phase.phase_time import whole
from engine.kernels.phase.state import SHIFTS, UNSETTLED, State
from engine.lower.program import NO_SERVICE, Structure


@inlined
def is_served(s: Structure, st: State, cls: int, node: int) -> bool:
    """Whether servers that others use, too, move bytes of this access of the class just now."""
    return bool(s.nodes[node]["service"] != NO_SERVICE and st.accesses[cls]["node"] == node)


@kernel
def join_servers(s: Structure, st: State, node: int, now: int) -> None:
    """The access begins; when it ends is settled at the end of the round."""
    access = st.accesses[s.nodes[node]["cls"]]
    access["node"], access["left"], access["lasts"], access["since"] = node, 1.0, -1.0, now
    _shift(s, st, node, 1)


@kernel
def leave_servers(s: Structure, st: State, node: int, now: int) -> int:
    """The access's bytes have moved; returns when its latency has passed."""
    st.accesses[s.nodes[node]["cls"]]["node"] = NONE
    st.left_at[node] = st.counts[SHIFTS]
    _shift(s, st, node, -1)
    return now + s.services[s.nodes[node]["service"]]["latency"]


@kernel
def _shift(s: Structure, st: State, node: int, sign: int) -> None:
    serve(s, st, node, sign)
    shift = st.shifts[st.counts[SHIFTS]]
    shift["node"], shift["sign"], shift["weight"] = node, sign, 0.0
    st.counts[SHIFTS] += 1
    st.counts[UNSETTLED] = 1


@kernel
def serve(s: Structure, st: State, node: int, sign: int) -> None:
    """The servers of the access serve its class, too (1), or no longer (-1)."""
    service = s.services[s.nodes[node]["service"]]
    for use in s.server_uses[service["use_start"] : service["use_end"]]:
        st.servers[use["server"]] += sign * use["npus"]


@kernel
def lasts(s: Structure, st: State, node: int) -> float:
    """Picoseconds that the whole access would take if its servers went on as they are."""
    service = s.services[s.nodes[node]["service"]]
    slowest = service["own"]
    for use in s.server_uses[service["use_start"] : service["use_end"]]:
        slowest = max(slowest, st.servers[use["server"]] * use["alone"])
    return slowest


@kernel
def settle_servers(s: Structure, st: State, now: int) -> None:
    """All accesses go on with their shares of now."""
    st.counts[UNSETTLED] = 0
    for cls in range(s.shape.n_classes):
        access = st.accesses[cls]
        if access["node"] < 0:
            continue
        takes = lasts(s, st, access["node"])
        if takes == access["lasts"]:
            continue
        if access["lasts"] > 0:
            access["left"] -= (now - access["since"]) / access["lasts"]
        access["since"], access["lasts"] = now, takes
        stream = s.nodes[access["node"]]["stream"]
        slot = stream - cls * (s.shape.n_streams - s.shape.n_timed)
        st.stream_due[slot] = now + np.int64(whole(max(access["left"], 0.0) * takes))
        set_class_due(st, cls, next_end(s, st, cls))
