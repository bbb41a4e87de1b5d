"""Servers of memories that several ranks share: each serves all accesses in flight alike.

See :mod:`engine.kernels.reference.servers`.
"""

from engine.compiler import kernel
from engine.kernels.core.none import NONE
from engine.kernels.network.clock import later, now_of, touch
from engine.kernels.network.entries import put
from engine.kernels.network.events import OPERATOR, SERVED
from engine.kernels.network.parcels import whole_ps
from engine.kernels.network.state import SERVING, State


@kernel
def begin_access(st: State, number: int) -> None:
    """Begin a node's access to memory."""
    access = st.accesses[number]
    access.since, access.takes, access.left, access.due = now_of(st.wires.clock), 0.0, 1.0, NONE
    put(st, SERVING, number)
    _serve(st, number, 1)


@kernel
def settle_servers(st: State) -> None:
    """Give every access in flight its share of now."""
    counts, now = st.wires.clock.counts[0], now_of(st.wires.clock)
    if not counts.unsettled:
        return
    counts.unsettled = 0
    for i in range(st.lengths[SERVING]):
        number = st.lists[SERVING, i]
        access, takes = st.accesses[number], _takes(st, number)
        if takes == access.takes:
            continue
        if access.takes > 0.0:
            access.left -= (now - access.since) / access.takes
        access.since, access.takes = now, takes
        delay = whole_ps(max(access.left, 0.0) * takes)
        access.due = now + delay
        later(st.wires.clock, delay, SERVED, number)


@kernel
def _takes(st: State, number: int) -> float:
    """What all of an access takes while its servers serve whom they do (ps)."""
    service = st.services[st.nodes[number].service]
    takes = service.own + 0.0
    for i in range(service.use_start, service.use_end):
        use = st.server_uses[i]
        takes = max(takes, st.servers[use.server] * use.alone)
    return takes


@kernel
def end_service(st: State, number: int) -> bool:
    """An access's bytes have moved, unless its share has changed since that was foreseen.

    Whether its operator ends now, since no latency passes.
    """
    access = st.accesses[number]
    if access.due != now_of(st.wires.clock):
        return False
    access.due = NONE
    kept = 0
    for i in range(st.lengths[SERVING]):
        other = st.lists[SERVING, i]
        if other != number:
            st.lists[SERVING, kept] = other
            kept += 1
    st.lengths[SERVING] = kept
    _serve(st, number, -1)
    latency = st.services[st.nodes[number].service].latency
    if latency > 0:
        later(st.wires.clock, latency, OPERATOR, number)
    return latency == 0


@kernel
def _serve(st: State, number: int, sign: int) -> None:
    service = st.services[st.nodes[number].service]
    for i in range(service.use_start, service.use_end):
        st.servers[st.server_uses[i].server] += sign * st.server_uses[i].npus
    st.wires.clock.counts[0].unsettled = 1
    touch(st.wires.clock)
