"""The I/O controllers at a wafer's edge: what ranks load and store, piece by piece over its links.

See :mod:`engine.kernels.reference.edge_io`.
"""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.network.clock import later, now_of
from dimsweep.engine.kernels.network.events import OPERATOR
from dimsweep.engine.kernels.network.gates import pass_gate, set_off
from dimsweep.engine.kernels.network.parcels import free_parcel, let_go
from dimsweep.engine.kernels.network.state import State


@kernel
def arrive_at_edge(st: State, member: int) -> None:
    """A rank begins its access; when all who share the transfer have, it starts."""
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
        _send_next_piece(st, i)


@kernel
def _send_next_piece(st: State, number: int) -> None:
    """Let a train send its next piece."""
    train = st.io.trains[number]
    train.left -= 1
    train.missing = train.ends
    set_off(st, train.launch, train.launch_end, now_of(st.wires.clock), NONE)


@kernel
def finish_hop(st: State, parcel: int) -> None:
    """The last bytes of a piece, whose first have gone on before, have arrived over a link."""
    number = st.wires.parcels[parcel].slot + 0
    let_go(st.wires, parcel)
    _reach_end(st, number)


@kernel
def arrive_stored(st: State, parcel: int) -> None:
    """A piece that is stored has arrived over a link; it goes on now, or has reached its end."""
    number, tail = st.wires.parcels[parcel].slot + 0, st.wires.parcels[parcel].tail + 0
    free_parcel(st.wires, parcel)
    _reach_end(st, number)
    if st.launches[number].gate != NONE:
        pass_gate(st, st.launches[number].gate, tail)


@kernel
def _reach_end(st: State, number: int) -> None:
    """A piece has reached an end of its tree, perhaps to an NPU that has no use for it."""
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
    """A member's access ends when its latencies have passed."""
    later(st.wires.clock, st.io.members[member].late, OPERATOR, st.io.members[member].node)
