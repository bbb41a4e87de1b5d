"""Reductions and multicasts by switches, up a tree of them and down again.

See :mod:`engine.kernels.reference.links`.  The way of the bytes is a chain of gates
(:mod:`engine.kernels.network.gates`).  Lines that cannot pass a wafer's switches at once take turns
(:mod:`engine.kernels.reference.cascade`).
"""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.core.queue import append, take_behind
from dimsweep.engine.kernels.network.clock import now_of, sum_of
from dimsweep.engine.kernels.network.exchange import take_plan
from dimsweep.engine.kernels.network.flows import line_of, phase_of
from dimsweep.engine.kernels.network.gates import set_off
from dimsweep.engine.kernels.network.parcels import free_parcel
from dimsweep.engine.kernels.network.ports import count_down
from dimsweep.engine.kernels.network.state import State
from dimsweep.engine.kernels.network.ties import book_sent


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
            n_bytes = launch.up * phase.n_bytes
            book_sent(st.wires.clock, st.accounts, launch.port // n_dims, phase.dim, n_bytes)
    for number in range(of.reductions, of.reductions_end):
        reduction = st.reductions[number]
        reduction.entry, reduction.missing = entry, reduction.n_targets
        if reduction.turn == NONE:
            _start(st, number)
        else:
            append(st.turns[reduction.turn], st.reductions, number)
            _let_in(st, reduction.turn + 0)


@kernel
def _start(st: State, number: int) -> None:
    reduction = st.reductions[number]
    st.wires.clock.counts[0].n_messages += reduction.n_messages
    set_off(st, reduction.launch, reduction.launch_end, now_of(st.wires.clock), NONE)


@kernel
def _let_in(st: State, number: int) -> None:
    """Start all reductions whose turn it is: whoever has asked longest chooses the next round, if
    none is under way; while others wait, no line has its turn twice."""
    turn, others = st.turns[number], False
    begins = turn.under_way == 0
    if begins and turn.head != NONE:
        turn.round = st.reductions[turn.head].round
        turn.passing += 1
    at = turn.head + 0
    while at != NONE:
        others = others or st.reductions[at].round != turn.round
        at = st.reductions[at].next + 0
    before, at = NONE, turn.head + 0
    while at != NONE:
        asked = st.reductions[at]
        number, at = at, asked.next + 0
        again = others and not begins and st.passed[asked.line] == turn.passing
        if asked.round != turn.round or again:
            before = number
            continue
        take_behind(turn, st.reductions, before, number)
        turn.under_way += 1
        st.passed[asked.line] = turn.passing
        _start(st, number)


@kernel
def arrive_at_target(st: State, parcel: int) -> None:
    """A parcel of a reduction has arrived at its NPU."""
    p = st.wires.parcels[parcel]
    launch, late = st.launches[p.slot], sum_of(p.late, p.way)
    free_parcel(st.wires, parcel)
    reduction = st.reductions[launch.reduction]
    reduction.missing -= 1
    if reduction.missing == 0 and reduction.turn != NONE:
        st.turns[reduction.turn].under_way -= 1
        _let_in(st, reduction.turn + 0)
    count_down(st, launch.target, late, st.wires.settings.endpoint_delay)
