"""The exchange of one phase of one chunk: among the members of a line, or through switches.

See :mod:`engine.kernels.reference.exchange`.  In a reduction or multicast by switches, bytes go up
a tree of switches and down again by a chain of gates (:mod:`engine.kernels.network.gates`).  Lines
that cannot use an interconnect's switches at the same time take turns
(:mod:`engine.kernels.reference.links`).
"""

from dimsweep.engine.compiler import kernel
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.queues import append, take_after, take_first
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.network.carrying import send
from dimsweep.engine.kernels.network.clock import (
    COMPLETE,
    REDUCED,
    add_times,
    book_sent,
    clash_with,
    current_time,
    plan_later,
    plan_now,
)
from dimsweep.engine.kernels.network.gates import send_launches
from dimsweep.engine.kernels.network.links import free_parcel, new_parcel, precedence_of, round_ps
from dimsweep.engine.kernels.network.operators import line_of, phase_of
from dimsweep.engine.kernels.network.ports import count_down, finish
from dimsweep.engine.kernels.network.state import CROSSING, EXCHANGED, State


@kernel
def begin_exchange(st: State, port_number: int) -> None:
    """Start all strands of the member of a line whose port begins a phase."""
    port = st.wires.ports[port_number]
    take_plan(st, port_number)
    plan = st.plans.members[port.plan]
    for i in range(plan.n_strands):
        number, rounds = port.strands + i, st.plans.strands[plan.strands + i]
        strand = st.strands[number]
        strand.round, strand.end, strand.late = rounds.start, rounds.end, port.late
        if not _must_wait(st, number):
            send_rounds(st, number)


@kernel
def take_plan(st: State, port_number: int) -> None:
    """Store in a port the plan of its member for the phase that the port serves."""
    port, n_dims = st.wires.ports[port_number], st.wires.settings.n_dims
    dim, rank, entry = port.place % n_dims, port.place // n_dims, long(port.serving)
    phase = phase_of(st, entry)
    of = st.plans.line_plans[line_of(st, entry), st.phases[phase].kind]
    group = st.flows[st.entries[entry].flow].group
    port.n_bytes = st.phases[phase].n_bytes
    port.plan = of.members + st.plans.places[group, dim, rank].coordinate
    port.ways = of.ways + st.plans.members[port.plan].pairs
    port.open = st.plans.members[port.plan].open


@kernel
def _must_wait(st: State, number: int) -> bool:
    """Return whether strand ``number`` must wait for the messages of its present round."""
    strand = st.strands[number]
    if strand.round == strand.end:
        return False
    round_ = st.plans.rounds[strand.round]
    if round_.receive == round_.receive_end:
        return False
    slots = st.wires.ports[strand.port].slots
    asked = st.plans.members[st.wires.ports[strand.port].plan].asked == 1
    strand.received = strand.missing = 0
    for i in range(round_.receive, round_.receive_end):
        number_of_slot = slots + st.plans.receives[i]
        slot = st.slots[number_of_slot]
        if asked or slot.head == NONE:
            slot.missing += 1
            strand.missing += 1
            if asked:
                _request_message(st, number_of_slot, strand.late)
        else:
            parcel = take_first(st.slots[number_of_slot], st.wires.parcels)
            strand.received = max(strand.received, st.wires.parcels[parcel].late)
            free_parcel(st.wires, parcel)
    if strand.missing == 0:
        plan_now(st.wires.clock, COMPLETE, number)
    return True


@kernel
def _request_message(st: State, number: int, late: int) -> None:
    """Request the message of slot ``number`` from its sender; the strand is ``late`` by some ps."""
    slot = st.slots[number]
    if slot.head == NONE:
        slot.asks, slot.late = 1, late
        return
    parcel = take_first(slot, st.wires.parcels)
    st.wires.parcels[parcel].late = max(st.wires.parcels[parcel].late, late)
    send(st.wires, parcel)


@kernel
def complete_round(st: State, number: int) -> None:
    """Start the reduction of a strand's round, whose messages have all arrived."""
    strand = st.strands[number]
    strand.late = add_times(max(strand.late, strand.received), st.wires.settings.endpoint_delay)
    n_bytes = st.plans.rounds[strand.round].reduce * st.wires.ports[strand.port].n_bytes
    plan_later(st.wires.clock, round_ps(n_bytes * st.wires.settings.reduce_time), REDUCED, number)


@kernel
def send_rounds(st: State, number: int) -> None:
    """Send the messages of a strand's round, and of following rounds that wait for nothing."""
    strand = st.strands[number]
    port_number = long(strand.port)
    port, n_dims = st.wires.ports[port_number], st.wires.settings.n_dims
    rank, dim = port.place // n_dims, port.place % n_dims
    # Ways lead to strands and slots of lane 0.
    own = st.wires.ports[port.place]
    strands, slots = port.strands - own.strands, port.slots - own.slots
    # What began first is let through first, so that one strand makes way for the next.
    precedence = precedence_of(st.flows[st.entries[port.serving].flow].precedence, strand.number)
    while strand.round < strand.end:
        round_ = st.plans.rounds[strand.round]
        for i in range(round_.send, round_.send_end):
            what, parcel = st.plans.sends[i], new_message(st, port_number, EXCHANGED)
            way, message = st.plans.ways[port.ways + what.pair], st.wires.parcels[parcel]
            message.n_bytes, message.first = what.fraction * port.n_bytes, way.route
            message.strand, message.slot = strands + way.strand, slots + way.slot
            message.late, message.precedence = strand.late, precedence
            book_sent(st.wires.clock, st.accounts, rank, dim, message.n_bytes)
            _send_if_asked(st, parcel)
        strand.round += 1
        if _must_wait(st, number):
            return
    count_down(st, port_number, strand.late, 0)


@kernel
def new_message(st: State, port: int, kind: int) -> int:
    """Return a new parcel for the phase that a port serves; the caller sets size and route."""
    number = new_parcel(st.wires)
    message = st.wires.parcels[number]
    message.kind, message.port, message.entry = kind, port, st.wires.ports[port].serving
    return number


@kernel
def _send_if_asked(st: State, number: int) -> None:
    """Send a message, or keep it until the receiver requests it.

    A folded run need not know whether the request or the message is first within an instant: other
    requests for the sender's link are in another step either way.
    """
    message = st.wires.parcels[number]
    if st.plans.members[st.wires.ports[message.port].plan].asked == 1:
        slot = st.slots[message.slot]
        if slot.asks == 0:
            append(slot, st.wires.parcels, number)
            return
        slot.asks, message.late = 0, max(message.late, slot.late)
    send(st.wires, number)


@kernel
def deliver(st: State, message: int) -> None:
    """Deliver an arrived message to the strand that waits for it, or store it in its slot."""
    p = st.wires.parcels[message]
    late = add_times(p.late, p.way)
    if p.kind == CROSSING:
        port = long(p.port)
        free_parcel(st.wires, message)
        finish(st, port, add_times(late, st.wires.settings.endpoint_delay))
        return
    slot, strand = st.slots[p.slot], st.strands[p.strand]
    if slot.missing == 0:
        clash_with(st.wires.clock, slot.filled)
        slot.filled = st.wires.clock.counts[0].step
        p.late = late
        append(slot, st.wires.parcels, message)
        return
    slot.missing -= 1
    strand.missing -= 1
    strand.received = max(strand.received, late)
    if strand.missing == 0:
        plan_now(st.wires.clock, COMPLETE, p.strand)
    free_parcel(st.wires, message)


@kernel
def begin_crossing(st: State, port_number: int) -> None:
    """Send the point-to-point message that a port serves."""
    port, n_dims = st.wires.ports[port_number], st.wires.settings.n_dims
    entry = long(port.serving)
    flow = st.flows[st.entries[entry].flow]
    for i in range(flow.use_start, flow.use_end):
        rank, dim = port.place // n_dims, st.uses[i]
        book_sent(st.wires.clock, st.accounts, rank, dim, flow.n_bytes)
    number = new_message(st, port_number, CROSSING)
    message = st.wires.parcels[number]
    message.n_bytes, message.first, message.late = flow.n_bytes, flow.route, port.late
    message.precedence = precedence_of(flow.precedence, 0)
    send(st.wires, number)


@kernel
def begin_reductions(st: State, port_number: int) -> None:
    """Start all reductions by switches of the phase that a port, and its line, serve."""
    n_dims, entry = st.wires.settings.n_dims, long(st.wires.ports[port_number].serving)
    line_number = line_of(st, entry)
    line = st.plans.lines[line_number]
    for i in range(line.start, line.start + line.size):
        take_plan(st, st.plans.line_ranks[i] * n_dims + port_number % n_dims)
    phase_number = phase_of(st, entry)
    phase = st.phases[phase_number]
    of = st.plans.line_plans[line_number, phase.kind]
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
            _start_reduction(st, number)
        else:
            append(st.turns[reduction.turn], st.reductions, number)
            _start_waiting_reductions(st, long(reduction.turn))


@kernel
def _start_reduction(st: State, number: int) -> None:
    reduction = st.reductions[number]
    st.wires.clock.counts[0].n_messages += reduction.n_messages
    send_launches(st, reduction.launch, reduction.launch_end, current_time(st.wires.clock), NONE)


@kernel
def _start_waiting_reductions(st: State, number: int) -> None:
    """Start the waiting reductions of the current round of turn ``number``.

    If none is in flight, the one that has waited longest chooses the round.  While other rounds
    wait, no line starts twice in a round.
    """
    turn, others = st.turns[number], False
    begins = turn.under_way == 0
    if begins and turn.head != NONE:
        turn.round = st.reductions[turn.head].round
        turn.passing += 1
    at = long(turn.head)
    while at != NONE:
        others = others or st.reductions[at].round != turn.round
        at = long(st.reductions[at].next)
    before, at = NONE, long(turn.head)
    while at != NONE:
        asked = st.reductions[at]
        number, at = at, long(asked.next)
        again = others and not begins and st.passed[asked.line] == turn.passing
        if asked.round != turn.round or again:
            before = number
            continue
        take_after(turn, st.reductions, before, number)
        turn.under_way += 1
        st.passed[asked.line] = turn.passing
        _start_reduction(st, number)


@kernel
def arrive_at_target(st: State, parcel: int) -> None:
    """Handle the arrival of a reduction's result at a target NPU."""
    p = st.wires.parcels[parcel]
    launch, late = st.launches[p.slot], add_times(p.late, p.way)
    free_parcel(st.wires, parcel)
    reduction = st.reductions[launch.reduction]
    reduction.missing -= 1
    if reduction.missing == 0 and reduction.turn != NONE:
        st.turns[reduction.turn].under_way -= 1
        _start_waiting_reductions(st, long(reduction.turn))
    count_down(st, launch.target, late, st.wires.settings.endpoint_delay)
