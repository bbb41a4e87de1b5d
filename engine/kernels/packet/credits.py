"""Credits of receivers: Ultra Ethernet's receiver-credit congestion control.

A sender's data packets request credit in quanta of 256 bytes, counted from the flow's beginning,
and the receiver grants it by credit packets.  A receiver's port grants credit at slightly less than
its link's rate: in turn to the flows that request some, and otherwise, in advance, to flows without
a request.  A sender starts with credit for one and a half bandwidth-delay products; the unused rest
is void after the first answer.  The rules follow ultraethernet/uet-htsim (commit 40ccb05:
UecPullPacer, UecSink, OversubscribedCC).
"""

from typing import Any

from dimsweep.engine.kernels.core.agenda import plan
from dimsweep.engine.kernels.core.compiling import where_used
from dimsweep.engine.kernels.core.queues import append, take_first
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.packet.ports import draw, link_of, new_packet, next_way
from dimsweep.engine.kernels.packet.state import (
    CREDIT,
    KIND_BITS,
    TRIMMED,
    WAKE,
    Run,
    inlined,
    kernel,
)

QUANTUM = 256  # bytes
_EMPTY = 4  # quanta that a credit packet without credit takes the pacer
# Of a receiver that goes below its link's rate: which share of marks is tolerated, how much those
# beyond count, by which share it rises, the weight of new marks, and round trips between two looks.
_TOLERATED, _DECREASE, _INCREASE, _WEIGHT, _EVERY = 0.3, 0.5, 0.01, 0.5, 1.5
_MOST_RISES = 30


@where_used("credits", True)
@inlined
def has_credit(r: Run, flow: int) -> bool:
    """Return whether the flow's sender has credit left, so that it may send a packet."""
    return r.credits[flow].credit > 0


@inlined
def _has_data(r: Run, flow: int) -> bool:
    u = r.rud[flow]
    return u.n_lost > 0 or u.next < u.n_packets


@where_used("credits")
@kernel
def spend_credit(r: Run, flow: int, packet: int, new: int, lost: int) -> None:
    """Charge a departing packet to the flow's credit, and write a request for credit into it.

    The request covers ``new`` unsent bytes and ``lost`` bytes to retransmit, up to the maximum,
    divided by the number of flows that may now send by the port.
    """
    c, k, f = r.credits[flow], r.packets[packet], r.flows[flow]
    sharers, p = 1, r.ports[f.port]
    for i in range(p.pairs):
        other = r.pairs[p.first_pair + i]
        sharers += other != flow and has_credit(r, other) and _has_data(r, other)
    c.credit -= k.size
    k.asks |= c.credit <= 0
    wants = min(new + lost, c.most) - c.credit
    mtu = r.settings.payload + r.settings.data_header
    if c.is_first and new > 0:
        wants = max(wants, mtu)
    c.target = c.heard - -int(wants / sharers) // QUANTUM
    r.reports[packet].credit = c.target


@where_used("credits")
@inlined
def note_answer(r: Run, flow: int) -> None:
    """Void a flow's unused initial credit after the first answer of the receiver."""
    c = r.credits[flow]
    c.asked = 0
    if c.is_first:
        c.is_first = 0
        c.credit = min(c.credit, 0)


@where_used("credits")
@inlined
def receive_credit(r: Run, flow: int, packet: int) -> None:
    """Add the credit in a received credit packet to the flow's sender."""
    c, upto = r.credits[flow], r.reports[packet].credit
    note_answer(r, flow)
    c.starved = 0
    if upto > c.heard:
        c.credit = min(c.credit + (upto - c.heard) * QUANTUM, c.most)
        c.heard = upto


@where_used("credits", False)
@inlined
def is_starved(r: Run, flow: int) -> bool:
    """Return whether the flow's sender has data to send but no credit."""
    return r.credits[flow].credit <= 0 and _has_data(r, flow)


@where_used("credits")
@kernel
def receive_request(r: Run, flow: int, packet: int, in_any_case: bool) -> None:
    """Update a flow's request at the receiver, and queue the flow for credit if it rose.

    With ``in_any_case`` the flow is queued even if the request did not rise.
    """
    c, k, port = r.credits[flow], r.packets[packet], link_of(r, r.flows[flow].host)
    _adapt(r, port, flow)
    p = r.pacers[port]
    p.came += 1
    p.marked += k.marked and k.kind != TRIMMED
    p.trimmed += k.kind == TRIMMED
    p.far += k.kind == TRIMMED and not k.last_hop
    upto = r.reports[packet].credit
    if upto <= c.wanted and not in_any_case:
        return
    c.wanted = max(upto, c.wanted)
    _enqueue_turn(r, p.wanting, 2 * flow)
    if p.number < 0:
        p.number = plan(r.agenda, r.agenda.counts[0].now, WAKE | port << KIND_BITS)


@inlined
def _enqueue_turn(r: Run, queue: Any, turn: int) -> None:
    if r.turns[turn].waits == 0:
        r.turns[turn].waits = 1
        append(queue, r.turns, turn)


@where_used("credits", False)
@kernel
def give_credit(r: Run, port: int) -> bool:
    """Grant the next credit of a receiver's port if it is due; return whether it was granted."""
    p, now = r.pacers[port], r.agenda.counts[0].now
    if p.number != r.agenda.counts[0].current:
        return False
    p.number = NONE
    wanted = p.wanting.head != NONE
    if not wanted and p.content.head == NONE:
        return False
    turn = take_first(p.wanting, r.turns) if wanted else take_first(p.content, r.turns)
    r.turns[turn].waits = 0
    flow = turn // 2
    n = _grant_quanta(r, port, flow, wanted)
    _send_credit(r, flow)
    _adapt(r, port, flow)
    seconds = 8 * QUANTUM / r.flows[flow].line_rate / r.keys[0].rccc.share
    each = int(int(seconds * r.settings.ticks) / p.share)
    p.number = plan(r.agenda, now + each * (n if n > 0 else _EMPTY), WAKE | port << KIND_BITS)
    return True


@inlined
def _grant_quanta(r: Run, port: int, flow: int, wanted: bool) -> int:
    """Grant credit to a flow, and return the number of granted quanta (256 bytes each).

    With ``wanted`` the flow gets its request, at most one packet's grant.  Otherwise no flow
    requests credit, and one packet's grant is given in advance, up to the sender's maximum.
    """
    p, c, each = r.pacers[port], r.credits[flow], r.keys[0].rccc.grant // QUANTUM
    before = c.granted
    if wanted:
        c.granted = max(before, min(before + each, c.wanted))
        if c.wanted > c.granted:
            _enqueue_turn(r, p.wanting, 2 * flow)
        else:
            _enqueue_turn(r, p.content, 2 * flow + 1)
    else:
        c.granted = before + each
        if c.wanted <= c.granted < c.wanted + c.most // QUANTUM:
            _enqueue_turn(r, p.content, 2 * flow + 1)
    return c.granted - before


@inlined
def _send_credit(r: Run, flow: int) -> None:
    """Send a credit packet to a flow's sender; credit packets take the routes back in turn."""
    f = r.flows[flow]
    packet = new_packet(r, CREDIT, flow, r.settings.ack_size)
    k = r.packets[packet]
    k.rank = f.ack_rank
    k.hop = r.ways[next_way(r, flow)].ack
    r.reports[packet].credit = r.credits[flow].granted
    append(r.ports[f.host].queue, r.packets, packet)


@kernel
def _adapt(r: Run, port: int, flow: int) -> None:
    """Periodically adapt the credit rate of a receiver's port in an oversubscribed network.

    Packets that arrive marked, or were trimmed before the last link, lower the rate.
    """
    p, least, now = r.pacers[port], r.keys[0].rccc.least, r.agenda.counts[0].now
    while least < 1 and p.looks_at <= now:
        whole = p.came - p.trimmed
        p.marks += _WEIGHT * ((p.marked / whole if whole > 0 else 0.0) - p.marks)
        if p.far > 0:
            p.share -= p.far / p.came
        if p.marks > _TOLERATED:
            p.share *= 1 - (p.marks - _TOLERATED) * _DECREASE
        if p.far > 0 or p.marks > _TOLERATED:
            p.rises = 0
        else:
            p.share += _INCREASE * (2.0**p.rises if p.marked == 0 else 1.0)
            p.rises = min(p.rises + 1, _MOST_RISES)
        p.share = max(min(p.share, 1.0), least)
        after = int(_EVERY * r.flows[flow].round_trip * (0.75 + draw(r) / 2))
        if p.came == 0 and p.share == 1:
            p.looks_at = max(p.looks_at, now - after)  # looks before would see nothing either
        p.looks_at += after
        p.came = 0
        p.marked = 0
        p.trimmed = 0
        p.far = 0
