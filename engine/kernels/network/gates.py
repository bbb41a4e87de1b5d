"""Messages that set each other off, one link each (:mod:`engine.kernels.messages.cascades`): those
of reductions by switches, and pieces from and to a wafer's I/O controllers.

When all that a gate expects has begun to arrive, it launches what goes on from there.
"""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.messages import precedence
from dimsweep.engine.kernels.network.links import cross
from dimsweep.engine.kernels.network.parcels import let_go, new_parcel, precedence_of
from dimsweep.engine.kernels.network.state import PIECE, SWITCHED, State
from dimsweep.engine.kernels.network.suspension import feed_gate, feeds_of_gate, leave_gate

_OF_PIECES = precedence.precedence_of("data")  # behind tensor parallelism and pipelines


@kernel
def set_off(st: State, start: int, end: int, tail: int, begun: int) -> None:
    """Send messages that are launched together, whose last bytes arrive at ``tail``, fed by the
    FEEDs from ``begun`` on where messages are suspended."""
    for i in range(start, end):
        launch, number = st.launches[i], new_parcel(st.wires)
        if launch.train == NONE:
            _describe_switched(st, i, number)
        else:
            _describe_piece(st, i, number)
        p = st.wires.parcels[number]
        p.slot, p.port, p.tail = i, launch.port, tail
        p.leaving = 2  # until all of it has left, and it has begun to arrive
        p.first = p.hop = launch.hop
        p.last = launch.hop if launch.stored or launch.gate == NONE else NONE
        cross(st.wires, number, begun)


@kernel
def _describe_piece(st: State, number: int, parcel: int) -> None:
    p, transfer = st.wires.parcels[parcel], st.io.trains[st.launches[number].train].transfer
    p.n_bytes = st.io.transfers[transfer].n_bytes
    p.entry = ~st.io.members[st.io.transfers[transfer].member].node
    p.what, p.precedence = PIECE, precedence_of(_OF_PIECES, 0)


@kernel
def _describe_switched(st: State, number: int, parcel: int) -> None:
    p, launch = st.wires.parcels[parcel], st.launches[number]
    reduction = st.reductions[launch.reduction]
    p.n_bytes = _n_bytes(st, number, st.phases[reduction.phase].n_bytes)
    p.late, p.way, p.entry = reduction.risen, launch.way, reduction.entry
    p.what = SWITCHED
    p.precedence = precedence_of(st.flows[st.entries[reduction.entry].flow].precedence, 0)


@kernel
def _n_bytes(st: State, number: int, n_bytes: float) -> float:
    """What goes up; what comes down; of both, what is less: shards, or one copy of them all."""
    launch = st.launches[number]
    if launch.copies == 0:
        return launch.up * n_bytes / launch.parts
    if launch.up == 0.0:
        return launch.down * n_bytes
    return min(launch.up * n_bytes, launch.down * n_bytes * launch.copies) / launch.parts


@kernel
def reach_gate(st: State, parcel: int) -> None:
    """A message has begun to arrive at its gate; what is stored has arrived, and feeds nothing."""
    p = st.wires.parcels[parcel]
    number, tail = st.launches[p.slot].gate + 0, p.tail + 0
    feed_gate(st.wires, number, parcel)
    let_go(st.wires, parcel)
    pass_gate(st, number, tail)


@kernel
def pass_gate(st: State, number: int, tail: int) -> None:
    """A message whose last byte arrives at ``tail`` has reached a gate: if it was the last one that
    the gate expects, what it launches goes on when the last byte of all of them arrives."""
    gate = st.gates[number]
    gate.come += 1
    gate.tail = max(gate.tail, tail)
    if gate.come < gate.expected:
        return
    tail = gate.tail + 0
    gate.come = gate.tail = 0
    set_off(st, gate.launch, gate.launch_end, tail, feeds_of_gate(st.wires, number))
    leave_gate(st.wires, number)
