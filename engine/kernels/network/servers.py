"""Accesses to memories whose servers ranks share (:mod:`engine.kernels.core.servers`)."""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.servers import begin, go_on, lasts, serve
from dimsweep.engine.kernels.core.worklist import put, take_out
from dimsweep.engine.kernels.network.clock import later, now_of, touch
from dimsweep.engine.kernels.network.events import OPERATOR, SERVED
from dimsweep.engine.kernels.network.parcels import whole_ps
from dimsweep.engine.kernels.network.state import State


@kernel
def begin_access(st: State, number: int) -> None:
    """Begin a node's access to memory."""
    begin(st.accesses[number], now_of(st.wires.clock))
    st.accesses[number].due = NONE
    put(st.served, number)
    _serve(st, number, 1)


@kernel
def settle_servers(st: State) -> None:
    """Give every access in flight its share of now."""
    clock, now = st.wires.clock, now_of(st.wires.clock)
    if not clock.counts[0].unsettled:
        return
    clock.counts[0].unsettled = 0
    for i in range(st.served.filled[0]):
        number = st.served.numbers[i]
        access, takes = st.accesses[number], lasts(st.servers, st.nodes[number].service)
        if takes != access.lasts:
            delay = whole_ps(go_on(access, takes, now))
            access.due = now + delay
            later(clock, delay, SERVED, number)


@kernel
def end_service(st: State, number: int) -> bool:
    """An access's bytes have moved, unless its share has changed since that was foreseen.

    Whether its operator ends now, since no latency passes.
    """
    access = st.accesses[number]
    if access.due != now_of(st.wires.clock):
        return False
    access.due = NONE
    take_out(st.served, number)
    _serve(st, number, -1)
    latency = st.servers.services[st.nodes[number].service].latency
    if latency > 0:
        later(st.wires.clock, latency, OPERATOR, number)
    return latency == 0


@kernel
def _serve(st: State, number: int, sign: int) -> None:
    serve(st.servers, st.nodes[number].service, sign)
    st.wires.clock.counts[0].unsettled = 1
    touch(st.wires.clock)
