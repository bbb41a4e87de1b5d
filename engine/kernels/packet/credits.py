"""Credits that receivers give, as Ultra Ethernet's receiver-credit congestion control has it.

A sender says with its data up to which quantum (of 256 bytes, from the flow's beginning) it wants
credit, and the receiver tells it by credit packets up to which it may send.  A receiver's port
gives credit at a little less than its link's rate, to the flows that want some in turn, and else
to those that have what they want, in advance.  A sender that hears nothing begins with what a
bandwidth-delay product and a half takes, of which the rest is void once it hears anything.  Facts
are those of ultraethernet/uet-htsim (commit 40ccb05: UecPullPacer, UecSink, OversubscribedCC).
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
def has_some(r: Run, flow: int) -> bool:
    """Whether the flow may send a packet, however large."""
    return r.credits[flow].credit > 0


@inlined
def _has_more(r: Run, flow: int) -> bool:
    u = r.rud[flow]
    return u.n_lost > 0 or u.next < u.n_packets


@where_used("credits")
@kernel
def spend(r: Run, flow: int, packet: int, new: int, lost: int) -> None:
    """A packet that is about to leave takes credit, and says what the flow wants: credit for the
    bytes that it has to send, ``new`` and ``lost`` ones, up to the most, divided by the flows that
    may now send by its port."""
    c, k, f = r.credits[flow], r.packets[packet], r.flows[flow]
    sharers, p = 1, r.ports[f.port]
    for i in range(p.pairs):
        other = r.pairs[p.first_pair + i]
        sharers += other != flow and has_some(r, other) and _has_more(r, other)
    c.credit -= k.size
    k.asks |= c.credit <= 0
    wants = min(new + lost, c.most) - c.credit
    mtu = r.settings.payload + r.settings.data_header
    if c.is_first and new > 0:
        wants = max(wants, mtu)
    c.target = c.heard - -int(wants / sharers) // QUANTUM
    r.told[packet].credit = c.target


@where_used("credits")
@inlined
def hear(r: Run, flow: int) -> None:
    """Anything has come of the receiver: what was not sent without its leave no longer may be."""
    c = r.credits[flow]
    c.asked = 0
    if c.is_first:
        c.is_first = 0
        c.credit = min(c.credit, 0)


@where_used("credits")
@inlined
def take(r: Run, flow: int, packet: int) -> None:
    """Credit has come to the sender."""
    c, upto = r.credits[flow], r.told[packet].credit
    hear(r, flow)
    c.starved = 0
    if upto > c.heard:
        c.credit = min(c.credit + (upto - c.heard) * QUANTUM, c.most)
        c.heard = upto


@where_used("credits", False)
@inlined
def waits(r: Run, flow: int) -> bool:
    """Whether the sender waits for credit, with nothing under way."""
    return r.credits[flow].credit <= 0 and _has_more(r, flow)


@where_used("credits")
@kernel
def want(r: Run, flow: int, packet: int, in_any_case: bool) -> None:
    """The receiver learns what the flow wants, and has its turn come if that is more than it was,
    or in any case."""
    c, k, port = r.credits[flow], r.packets[packet], link_of(r, r.flows[flow].host)
    _adapt(r, port, flow)
    p = r.pacers[port]
    p.came += 1
    p.marked += k.marked and k.kind != TRIMMED
    p.trimmed += k.kind == TRIMMED
    p.far += k.kind == TRIMMED and not k.last_hop
    upto = r.told[packet].credit
    if upto <= c.wanted and not in_any_case:
        return
    c.wanted = max(upto, c.wanted)
    _enter(r, p.wanting, 2 * flow)
    if p.number < 0:
        p.number = plan(r.agenda, r.agenda.counts[0].now, WAKE | port << KIND_BITS)


@inlined
def _enter(r: Run, queue: Any, turn: int) -> None:
    if r.turns[turn].waits == 0:
        r.turns[turn].waits = 1
        append(queue, r.turns, turn)


@where_used("credits", False)
@kernel
def give(r: Run, port: int) -> bool:
    """A receiver's port gives the next credit, if this is when; whether it does."""
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
    n = _grant(r, port, flow, wanted)
    _tell(r, flow)
    _adapt(r, port, flow)
    seconds = 8 * QUANTUM / r.flows[flow].line_rate / r.keys[0].rccc.share
    each = int(int(seconds * r.settings.ticks) / p.share)
    p.number = plan(r.agenda, now + each * (n if n > 0 else _EMPTY), WAKE | port << KIND_BITS)
    return True


@inlined
def _grant(r: Run, port: int, flow: int, wanted: bool) -> int:
    """Quanta that a flow is given: what it wants, as far as one packet grants, or, where nobody
    wants any, as much in advance until that is the most that its sender may have."""
    p, c, each = r.pacers[port], r.credits[flow], r.keys[0].rccc.grant // QUANTUM
    before = c.granted
    if wanted:
        c.granted = max(before, min(before + each, c.wanted))
        if c.wanted > c.granted:
            _enter(r, p.wanting, 2 * flow)
        else:
            _enter(r, p.content, 2 * flow + 1)
    else:
        c.granted = before + each
        if c.wanted <= c.granted < c.wanted + c.most // QUANTUM:
            _enter(r, p.content, 2 * flow + 1)
    return c.granted - before


@inlined
def _tell(r: Run, flow: int) -> None:
    """By a credit packet; these take the ways back in turn."""
    f = r.flows[flow]
    packet = new_packet(r, CREDIT, flow, r.settings.ack_size)
    k = r.packets[packet]
    k.rank = f.ack_rank
    k.hop = r.ways[next_way(r, flow)].ack
    r.told[packet].credit = r.credits[flow].granted
    append(r.ports[f.host].queue, r.packets, packet)


@kernel
def _adapt(r: Run, port: int, flow: int) -> None:
    """Where a network is known to be oversubscribed a receiver looks from time to time at what came
    marked, or trimmed elsewhere than at its link, and lowers or raises its rate."""
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
