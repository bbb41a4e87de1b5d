"""Cascades: messages over one link each that trigger each other at gates.

They are messages of reductions by switches, and pieces from and to the I/O controllers at an
interconnect's edge (:mod:`engine.kernels.messages.routes`).  When all messages that a gate expects
have begun to arrive, it sends its launches.  Loads and stores are sent piece by piece
(:mod:`engine.kernels.reference.operators`).
"""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.messages import phases
from dimsweep.engine.kernels.network.clock import OPERATOR, current_time, plan_later
from dimsweep.engine.kernels.network.links import (
    cross,
    drop_reference,
    feed_gate,
    feeds_of_gate,
    free_parcel,
    leave_gate,
    new_parcel,
    precedence_of,
)
from dimsweep.engine.kernels.network.state import PIECE, SWITCHED, State

_OF_PIECES = phases.precedence_of("data")  # behind tensor parallelism and pipelines


@kernel
def send_launches(st: State, start: int, end: int, tail: int, begun: int) -> None:
    """Send the messages of the launches ``start`` to ``end``, which begin together.

    ``tail`` is the time at which the last bytes to forward arrive.  Where messages may be
    suspended, the FEEDs from ``begun`` on name the parcels that supply the bytes.
    """
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
    p.kind, p.precedence = PIECE, precedence_of(_OF_PIECES, 0)


@kernel
def _describe_switched(st: State, number: int, parcel: int) -> None:
    p, launch = st.wires.parcels[parcel], st.launches[number]
    reduction = st.reductions[launch.reduction]
    p.n_bytes = _launch_bytes(st, number, st.phases[reduction.phase].n_bytes)
    p.late, p.way, p.entry = reduction.risen, launch.way, reduction.entry
    p.kind = SWITCHED
    p.precedence = precedence_of(st.flows[st.entries[reduction.entry].flow].precedence, 0)


@kernel
def _launch_bytes(st: State, number: int, n_bytes: float) -> float:
    """Return a launch's bytes: a source's, its targets', or the smaller of both."""
    launch = st.launches[number]
    if launch.copies == 0:
        return launch.up * n_bytes / launch.parts
    if launch.up == 0.0:
        return launch.down * n_bytes
    return min(launch.up * n_bytes, launch.down * n_bytes * launch.copies) / launch.parts


@kernel
def reach_gate(st: State, parcel: int) -> None:
    """Register, at its gate, a message that has begun to arrive there."""
    p = st.wires.parcels[parcel]
    number, tail = long(st.launches[p.slot].gate), long(p.tail)
    feed_gate(st.wires, number, parcel)
    drop_reference(st.wires, parcel)
    pass_gate(st, number, tail)


@kernel
def pass_gate(st: State, number: int, tail: int) -> None:
    """Count a message at gate ``number``; the last expected one starts the gate's launches.

    ``tail`` is the arrival of the message's last byte.  The launches may end when the last bytes of
    all messages have arrived.
    """
    gate = st.gates[number]
    gate.arrived += 1
    gate.tail = max(gate.tail, tail)
    if gate.arrived < gate.expected:
        return
    tail = long(gate.tail)
    gate.arrived = gate.tail = 0
    send_launches(st, gate.launch, gate.launch_end, tail, feeds_of_gate(st.wires, number))
    leave_gate(st.wires, number)


@kernel
def arrive_at_edge(st: State, member: int) -> None:
    """Register a rank at the load or store that it shares; the last rank starts the transfer."""
    number = long(st.io.members[member].transfer)
    transfer, counts = st.io.transfers[number], st.wires.clock.counts[0]
    transfer.arrived += 1
    if transfer.arrived < transfer.member_end - transfer.member or counts.crowded:
        return
    counts.n_messages += transfer.n_messages
    if counts.n_messages > st.wires.settings.max_messages:
        counts.crowded = 1
        return
    transfer.missing = transfer.n_pieces
    for i in range(transfer.member, transfer.member_end):
        st.io.members[i].missing = transfer.n_pieces
    for i in range(transfer.train, transfer.train_end):
        st.io.trains[i].transfer, st.io.trains[i].left = number, st.io.trains[i].pieces
        _send_next_piece(st, i)


@kernel
def _send_next_piece(st: State, number: int) -> None:
    """Send the next piece of a train."""
    train = st.io.trains[number]
    train.left -= 1
    train.missing = train.ends
    send_launches(st, train.launch, train.launch_end, current_time(st.wires.clock), NONE)


@kernel
def finish_hop(st: State, parcel: int) -> None:
    """Handle the last bytes of a piece on a hop; its first bytes were forwarded before."""
    number = long(st.wires.parcels[parcel].slot)
    drop_reference(st.wires, parcel)
    _reach_end(st, number)


@kernel
def arrive_stored(st: State, parcel: int) -> None:
    """Handle the full arrival of a stored piece: forward it, or count it at its end."""
    number, tail = long(st.wires.parcels[parcel].slot), long(st.wires.parcels[parcel].tail)
    free_parcel(st.wires, parcel)
    _reach_end(st, number)
    if st.launches[number].gate != NONE:
        pass_gate(st, st.launches[number].gate, tail)


@kernel
def _reach_end(st: State, number: int) -> None:
    """Count a piece at an end of its tree; the last end starts the train's next piece.

    The end may be an NPU that does not need the piece.
    """
    launch = st.launches[number]
    if launch.target == NONE:
        return
    train = st.io.trains[launch.train]
    transfer = st.io.transfers[train.transfer]
    train.missing -= 1
    if transfer.store:
        transfer.missing -= 1
        if transfer.missing == 0:
            for i in range(transfer.member, transfer.member_end):
                _end_in_time(st, i)
    elif transfer.member + launch.target < transfer.member_end:
        member = st.io.members[transfer.member + launch.target]
        member.missing -= 1
        if member.missing == 0:
            _end_in_time(st, transfer.member + launch.target)
    if train.missing == 0 and train.left > 0:
        _send_next_piece(st, launch.train)


@kernel
def _end_in_time(st: State, member: int) -> None:
    """Plan the end of a rank's load or store, after the latencies of its route."""
    plan_later(st.wires.clock, st.io.members[member].late, OPERATOR, st.io.members[member].node)
