"""The I/O controllers at a wafer's edge: what ranks load and store, piece by piece over its links.

See :mod:`engine.kernels.reference.edge_io`.
"""

from engine.compiler import kernel
from engine.kernels.core.none import NONE
from engine.kernels.messages import precedence
from engine.kernels.network.clock import later, now_of
from engine.kernels.network.events import OPERATOR
from engine.kernels.network.links import cross
from engine.kernels.network.parcels import free_parcel, let_go, new_parcel, precedence_of
from engine.kernels.network.state import PIECE, State
from engine.kernels.network.suspension import begun_at, come_to, go_on_from

_CLASS = precedence.precedence_of("data")  # behind tensor parallelism and pipelines


@kernel
def arrive_at_edge(st: State, member: int) -> None:
    """A rank has come to its access; if all have, their transfer starts."""
    number = st.io.members[member].transfer + 0
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
        _go(st, i)


@kernel
def _go(st: State, number: int) -> None:
    """Let a train send its next piece."""
    train = st.io.trains[number]
    train.left -= 1
    train.missing = train.ends
    _send(st, train.first, train.first_end, now_of(st.wires.clock), NONE)


@kernel
def _send(st: State, start: int, end: int, tail: int, begun: int) -> None:
    """Send a piece, whose last byte comes at ``tail``, over some hops, from all that has ``begun``
    to come where messages are suspended."""
    for i in range(start, end):
        hop, number = st.io.hops[i], new_parcel(st.wires)
        transfer = st.io.transfers[st.io.trains[hop.train].transfer]
        p = st.wires.parcels[number]
        p.n_bytes, p.tail = transfer.n_bytes, tail
        p.what, p.precedence, p.slot = PIECE, precedence_of(_CLASS, 0), i
        p.entry = ~st.io.members[transfer.member].node
        p.first = p.hop = hop.hop
        p.last = NONE
        if hop.stored or hop.gate == NONE:
            p.last = hop.hop
        p.leaving = 2
        cross(st.wires, number, begun)


@kernel
def begin_at_far_end(st: State, parcel: int) -> None:
    """The first bytes of a piece have come over a hop: its next hops may begin."""
    number, tail = st.wires.parcels[parcel].slot + 0, st.wires.parcels[parcel].tail + 0
    # What is stored is all there, and feeds nothing.
    come_to(st.wires, len(st.gates) + st.io.hops[number].gate, parcel)
    let_go(st.wires, parcel)
    _reach_gate(st, number, tail)


@kernel
def _reach_gate(st: State, number: int, tail: int) -> None:
    of = len(st.gates) + st.io.hops[number].gate
    gate = st.io.gates[of - len(st.gates)]
    gate.come += 1
    gate.tail = max(gate.tail, tail)
    if gate.come == gate.expected:
        tail = gate.tail + 0
        gate.come = gate.tail = 0
        _send(st, gate.launch, gate.launch_end, tail, begun_at(st.wires, of))
        go_on_from(st.wires, of)


@kernel
def end_at_far_end(st: State, parcel: int) -> None:
    """The last bytes of a piece, whose first have gone on before, have come over a hop."""
    number = st.wires.parcels[parcel].slot + 0
    let_go(st.wires, parcel)
    _get(st, number)


@kernel
def arrive_at_far_end(st: State, parcel: int) -> None:
    """A piece that is stored has come over a hop; it goes on now, or is at its end."""
    number, tail = st.wires.parcels[parcel].slot + 0, st.wires.parcels[parcel].tail + 0
    free_parcel(st.wires, parcel)
    _get(st, number)
    if st.io.hops[number].gate != NONE:
        _reach_gate(st, number, tail)


@kernel
def _get(st: State, number: int) -> None:
    """A piece has come to an end of its tree, perhaps to an NPU that has no use for it."""
    hop = st.io.hops[number]
    if hop.gets == NONE:
        return
    train = st.io.trains[hop.train]
    transfer = st.io.transfers[train.transfer]
    train.missing -= 1
    if transfer.store:
        transfer.missing -= 1
        if transfer.missing == 0:
            for i in range(transfer.member, transfer.member_end):
                _end_in_time(st, i)
    elif transfer.member + hop.gets < transfer.member_end:
        member = st.io.members[transfer.member + hop.gets]
        member.missing -= 1
        if member.missing == 0:
            _end_in_time(st, transfer.member + hop.gets)
    if train.missing == 0 and train.left > 0:
        _go(st, hop.train)


@kernel
def _end_in_time(st: State, member: int) -> None:
    """A member's access ends when its latencies have passed."""
    later(st.wires.clock, st.io.members[member].late, OPERATOR, st.io.members[member].node)
