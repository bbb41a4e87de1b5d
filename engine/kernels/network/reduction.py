"""Reductions and multicasts by switches, up a tree of them and down again.

See :mod:`engine.kernels.reference.reduction`.  The way of the bytes is a chain of *gates*: when all
that a gate expects has begun to come, it launches what goes on from there.
"""

from engine.compiler import kernel
from engine.kernels.core.none import NONE
from engine.kernels.network.clock import now_of, sum_of
from engine.kernels.network.entries import line_of, phase_of
from engine.kernels.network.exchange import take_plan
from engine.kernels.network.links import cross
from engine.kernels.network.parcels import free_parcel, let_go, new_parcel, precedence_of
from engine.kernels.network.ports import finish
from engine.kernels.network.state import SWITCHED, State
from engine.kernels.network.suspension import begun_at, come_to, go_on_from
from engine.kernels.network.turns import ask_turn, begin_round, next_in_turn


@kernel
def begin_reductions(st: State, port_number: int) -> None:
    """All members of the line that a port is of send what they send."""
    n_dims, entry = st.wires.settings.n_dims, st.wires.ports[port_number].serving + 0
    line_number = line_of(st, entry)
    line = st.plans.lines[line_number]
    for i in range(line.start, line.start + line.size):
        take_plan(st, st.plans.line_ranks[i] * n_dims + port_number % n_dims)
    phase_number = phase_of(st, entry)
    phase = st.phases[phase_number]
    of = st.plans.of[line_number, phase.kind]
    for number in range(of.reductions, of.reductions_end):
        reduction = st.reductions[number]
        reduction.risen, reduction.phase = 0, phase_number
        for i in range(reduction.launch, reduction.launch_end):
            launch = st.launches[i]
            reduction.risen = max(reduction.risen, st.wires.ports[launch.port].late)
            account = st.accounts.dims[launch.port // n_dims, phase.dim]
            account.bytes_sent += launch.up * phase.n_bytes
    for number in range(of.reductions, of.reductions_end):
        reduction = st.reductions[number]
        reduction.entry, reduction.missing = entry, reduction.n_targets
        if reduction.turn == NONE:
            _start(st, number)
        else:
            ask_turn(st, number)
            _let_in(st, reduction.turn + 0)


@kernel
def _start(st: State, number: int) -> None:
    reduction = st.reductions[number]
    st.wires.clock.counts[0].n_messages += reduction.n_messages
    now, entry = now_of(st.wires.clock), reduction.entry + 0
    _launch(st, reduction.launch, reduction.launch_end, entry, now, NONE)


@kernel
def _let_in(st: State, turn: int) -> None:
    """Start all reductions whose turn it is."""
    begins = begin_round(st, turn)
    number = next_in_turn(st, turn, begins)
    while number != NONE:
        _start(st, number)
        number = next_in_turn(st, turn, begins)


@kernel
def _launch(st: State, start: int, end: int, entry: int, tail: int, begun: int) -> None:
    """Send some of what is planned, whose last byte comes at ``tail``, from all that has ``begun``
    to come where messages are suspended."""
    phase = st.reductions[st.launches[start].reduction].phase
    n_bytes = st.phases[phase].n_bytes
    precedence = precedence_of(st.flows[st.entries[entry].flow].precedence, 0)
    for i in range(start, end):
        launch, number = st.launches[i], new_parcel(st.wires)
        p = st.wires.parcels[number]
        p.n_bytes = _n_bytes(st, i, n_bytes)
        p.tail, p.late, p.way = tail, st.reductions[launch.reduction].risen, launch.way
        p.what, p.precedence, p.entry = SWITCHED, precedence, entry
        p.port, p.slot, p.strand = launch.port, launch.target, launch.gate
        p.first = p.hop = launch.hop
        p.last = launch.hop if launch.gate == NONE else NONE
        p.whole, p.leaving = launch.reduction, 2
        cross(st.wires, number, begun)


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
    """A parcel has begun to come to a gate."""
    p = st.wires.parcels[parcel]
    number = p.strand + 0
    gate = st.gates[number]
    gate.come += 1
    gate.tail = max(gate.tail, p.tail)
    entry, tail = p.entry + 0, gate.tail + 0
    come_to(st.wires, number, parcel)
    let_go(st.wires, parcel)
    if gate.come == gate.expected:
        gate.come = gate.tail = 0
        begun = begun_at(st.wires, number)
        _launch(st, gate.launch, gate.launch_end, entry, tail, begun)
        go_on_from(st.wires, number)


@kernel
def come_down(st: State, parcel: int) -> None:
    """A parcel of a reduction has come down to its NPU."""
    p = st.wires.parcels[parcel]
    port, late, number = p.slot + 0, sum_of(p.late, p.way), p.whole + 0
    free_parcel(st.wires, parcel)
    reduction = st.reductions[number]
    reduction.missing -= 1
    if reduction.missing == 0 and reduction.turn != NONE:
        st.turns[reduction.turn].under_way -= 1
        _let_in(st, reduction.turn + 0)
    count_down(st, port, late)


@kernel
def count_down(st: State, port_number: int, late: int) -> None:
    """A member has got rid of a message, or received one that is ``late``."""
    port = st.wires.ports[port_number]
    port.late = max(port.late, late)
    port.open -= 1
    if port.open == 0:
        finish(st, port_number, sum_of(port.late, st.wires.settings.endpoint_delay))
