"""Reliable unordered delivery, after Ultra Ethernet's transport (UE 1.0, packet delivery).

**Delivery.**  Packets are numbered, take any route, and are accepted in any order.  The receiver
sends an ACK after a number of bytes, and immediately for a marked packet, for a packet that asks
for it (the last packet that the window admits, and every retransmission), and for a duplicate.  An
ACK reports the packet up to which all have arrived, 64 more by a bitmap, and the number of bytes
that have arrived.  A NACK reports a packet whose payload a switch trimmed, and the sender
retransmits it first.  A timer finds packets that are lost completely.  The transport, such as NSCC,
sets the window; where receivers grant credits (:mod:`.credits`) there is none.

**Routes.**  A sender does not choose routes: it writes an entropy value into each packet, and the
switches' hash of this value and of the flow selects one of the routes (ECMP).  ACKs and NACKs
return the value, which shows the values that lead to good routes.
"""

from abc import abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from dimsweep.engine.cluster.transports import Ticks, Transport
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.agenda import plan
from dimsweep.engine.kernels.core.compiling import long, lowest_bit, where_used
from dimsweep.engine.kernels.core.queues import append
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.packet import credits, hooks
from dimsweep.engine.kernels.packet.ports import draw, free_packet, new_packet, reply
from dimsweep.engine.kernels.packet.state import (
    ACK,
    KIND_BITS,
    NACK,
    RECYCLED,
    REQUEST,
    RETRANSMIT,
    TRIMMED,
    Run,
    inlined,
    kernel,
)


class Balance(StrEnum):
    """Strategies by which a sender balances its load over routes through entropy values.

    ``oblivious``: all values in turn, shuffled in each turn.  ``bitmap``: as ``oblivious``, but
    values that returned with a mark or a NACK are skipped for as many turns as :func:`note_outcome`
    sets. ``reps``: values that returned unmarked are reused, else any is drawn (recycled entropy
    packet spraying: Bonato et al., 2024, arXiv:2407.21625, without its freezing).  ``mixed``:
    values that returned unmarked, else as ``bitmap``.
    """

    OBLIVIOUS = "oblivious"
    BITMAP = "bitmap"
    REPS = "reps"
    MIXED = "mixed"


_OBLIVIOUS, _BITMAP, _REPS, _MIXED = range(4)  # in the order of Balance
_REPS_KEEPS = 8  # values, of which the oldest is forgotten (Bonato et al., section 3)
# What came back with a packet, and how many turns its value is then passed over, 15 at most: the
# bitmap of ultraethernet/uet-htsim.
GOOD, MARKED, REFUSED = range(3)
_MARK, _NACK, _MOST = 1, 4, 15


@inlined
def next_value(r: Run, flow: int) -> int:
    """Return the entropy value of a flow's next packet."""
    u, keys = r.rud[flow], r.keys[0].rud
    if keys.balance >= _REPS and u.n_fresh > 0:
        keeps = _REPS_KEEPS if keys.balance == _REPS else RECYCLED
        at = u.head - u.n_fresh
        u.n_fresh -= 1
        return long(r.recycled[RECYCLED * flow + (at if at >= 0 else at + keeps)])
    if keys.balance == _REPS:
        return _random_value(r)
    return _next_in_turn(r, flow)


@kernel
def _next_in_turn(r: Run, flow: int) -> int:
    """Return the flow's next value without penalty; a skipped first one loses one penalty."""
    u, keys = r.rud[flow], r.keys[0].rud
    first = keys.entropies * flow
    for i in range(keys.entropies + 1):
        value = long(u.turn ^ u.mask)
        u.turn += 1
        if u.turn == keys.entropies:
            u.turn = 0
            u.mask = _random_value(r)
        if keys.balance == _OBLIVIOUS or r.penalties[first + value] == 0:
            break
        if i == 0:
            r.penalties[first + value] -= 1
    return value


@inlined
def _random_value(r: Run) -> int:
    return int(draw(r) * r.keys[0].rud.entropies)


@kernel
def note_outcome(r: Run, flow: int, value: int, how: int) -> None:
    """Record that a packet with entropy ``value`` returned GOOD, MARKED or REFUSED (``how``)."""
    u, keys = r.rud[flow], r.keys[0].rud
    if how == GOOD:
        keeps = _REPS_KEEPS if keys.balance == _REPS else RECYCLED
        if keys.balance >= _REPS:
            r.recycled[RECYCLED * flow + u.head] = value
            u.head = u.head + 1 if u.head + 1 < keeps else 0
            u.n_fresh = min(u.n_fresh + 1, keeps)
    elif keys.balance == _BITMAP or keys.balance == _MIXED:
        at = keys.entropies * flow + value
        penalty = r.penalties[at] + (_MARK if how == MARKED else _NACK)
        r.penalties[at] = min(penalty, _MOST)


@inlined
def choose_way(r: Run, flow: int, value: int) -> int:
    """Return the route of a flow's packets with entropy ``value``, by the switches' hash.

    The hash is SplitMix64's finaliser (Steele et al., OOPSLA 2014).
    """
    x = np.uint64(r.rud[flow].salt + (value << 40))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(1)) % r.flows[flow].n_ways


# Bits of a packet: the receiver sets _COME; the sender sets _OUT (in flight) or _LOST, and counts
# retransmissions in the bits above, up to _OFTEN.
_COME, _OUT, _LOST, _AGAIN, _OFTEN = 1, 2, 4, 8, 3
_BITS = 64  # of the bitmap
_UNHEARD = 2  # sendings of a packet whose ACK measures no round trip
_PATIENCE = 16  # time-outs after which a credit packet is taken to be lost


@dataclass(frozen=True)
class Rud(Transport):
    """Base class of transports with unordered delivery.

    Defaults follow ultraethernet/uet-htsim.  ``balance`` is the strategy that spreads packets over
    routes, with ``entropies`` entropy values (a power of two).  An ACK is due after ``ack_every``
    bytes.  A packet without an ACK after ``rto``, or two round trips if those are longer, is
    retransmitted.
    """

    balance: Balance = Balance.MIXED
    entropies: int = 64
    ack_every: int = 16384
    rto: Ticks = 100_000_000

    header = 0
    telemetry = False
    needs_window = True
    resends = True
    takes_trimmed = True
    above_zero: ClassVar[tuple[str, ...]] = ("entropies", "rto")
    at_most: ClassVar[tuple[tuple[str, float], ...]] = (("entropies", 1 << 16),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.entropies & (self.entropies - 1):
            problem = f"{self.entropies}; it must be a power of two"
            raise DimsweepError(problem, where="entropies", code="out-of-range")

    @staticmethod
    @abstractmethod
    def shrink(r: Any, flow: int, n_bytes: int) -> None:
        """Handle a NACK for a packet of ``n_bytes`` that is still in flight."""

    @staticmethod
    @abstractmethod
    def time_out(r: Any, flow: int, n_bytes: int) -> None:
        """Handle the time-out of a packet of ``n_bytes``."""


@where_used("rud", False)
@inlined
def is_used(r: Run) -> bool:
    """Return whether the run uses unordered delivery."""
    return True


@where_used("rud")
@inlined
def start(r: Run, flow: int) -> None:
    """Start a flow: give it a random salt for the switches' hash."""
    r.rud[flow].salt = int(draw(r) * (1 << 52)) + flow
    r.rud[flow].mask = _random_value(r)


@inlined
def _packet_size(r: Run, flow: int, packet: int) -> int:
    """Return the bytes of a flow's packet, header included."""
    s = r.settings
    return min(s.payload, r.flows[flow].size - packet * s.payload) + s.data_header


@inlined
def _to_send(r: Run, flow: int) -> tuple[int, int]:
    """Return the unsent bytes and the bytes to retransmit, headers included."""
    u, s, size = r.rud[flow], r.settings, r.flows[flow].size
    mtu, last = s.payload + s.data_header, u.n_packets - 1
    total = size + u.n_packets * s.data_header
    short = mtu - _packet_size(r, flow, last) if r.segments[u.first + last] & _LOST else 0
    return max(total - u.next * mtu, 0), u.n_lost * mtu - short


@inlined
def _pick_packet(r: Run, flow: int) -> int:
    """Return the number of the packet to send: the first lost one, or else a new one."""
    u = r.rud[flow]
    if u.n_lost == 0:
        return long(u.next)
    while r.segments[u.first + u.resend] & _LOST == 0:
        u.resend += 1
    return long(u.resend)


@where_used("rud", False)
@inlined
def may_send(r: Run, flow: int) -> bool:
    """Return whether a packet is ready to send, and the window or the credit admits it."""
    u, f = r.rud[flow], r.flows[flow]
    if u.n_lost == 0 and u.next == u.n_packets:
        return False
    if not credits.has_credit(r, flow):
        return False
    if u.in_flight + r.settings.payload + r.settings.data_header <= f.allowed:
        return True
    return u.in_flight + _packet_size(r, flow, _pick_packet(r, flow)) <= f.allowed


@where_used("rud", 0)
@inlined
def next_packet(r: Run, flow: int) -> int:
    """Return the packet of the flow to send now."""
    return _pick_packet(r, flow)


@where_used("rud", NONE)
@inlined
def send(r: Run, flow: int, packet: int) -> int:
    """Register a departing packet as in flight, and return its route."""
    u, k, f, now = r.rud[flow], r.packets[packet], r.flows[flow], r.agenda.counts[0].now
    at = u.first + k.upto
    sendings = r.segments[at] // _AGAIN
    if k.upto == u.next:
        u.next += 1
    else:
        u.n_lost -= 1
        u.resent += 1
        sendings = min(sendings + 1, _OFTEN)
    r.segments[at] = (r.segments[at] & _COME) | _OUT | sendings * _AGAIN
    r.sent_at[at] = now
    u.in_flight += k.size
    ends = u.next == u.n_packets and u.n_lost == 0
    k.asks = sendings > 0 or ends or u.in_flight + k.size >= f.allowed
    k.sendings = sendings
    credits.spend_credit(r, flow, packet, *_to_send(r, flow))
    if u.timer < 0:
        u.timer = plan(r.agenda, now + _rto(r, flow), RETRANSMIT | flow << KIND_BITS)
    value = next_value(r, flow)
    k.entropy = value
    return choose_way(r, flow, value)


@where_used("rud", NONE)
@kernel
def receive(r: Run, flow: int, packet: int) -> int:
    """Handle data, or a trimmed header, at the receiver; turn it into an ACK or NACK if due.

    Return the port that may then send, or NONE.
    """
    u, k, f = r.rud[flow], r.packets[packet], r.flows[flow]
    number = long(k.upto)
    at = u.first + number
    is_new = r.segments[at] & _COME == 0
    credits.receive_request(r, flow, packet, k.kind == REQUEST or (k.kind == TRIMMED and is_new))
    if k.kind == REQUEST:
        return _acknowledge(r, flow, packet, True)
    if k.kind == TRIMMED:
        if is_new:
            return reply(r, flow, packet, NACK)
        k.marked = 0
        return _acknowledge(r, flow, packet, False)
    u.unanswered += k.size
    if r.segments[at] & _COME:
        return _acknowledge(r, flow, packet, k.marked > 0)
    is_due = u.got == 0 or k.marked or k.asks
    u.got += k.size
    f.received += k.size - r.settings.data_header
    r.segments[at] |= _COME
    u.asked |= k.asks
    if number == u.expected:
        u.expected += 1
        while u.expected < u.n_packets and r.segments[u.first + u.expected] & _COME:
            u.expected += 1
            u.n_early -= 1
        if u.n_early == 0 and u.asked:
            is_due = True
            u.asked = 0
    else:
        u.n_early += 1
    if is_due or u.unanswered >= r.keys[0].rud.ack_every:
        return _acknowledge(r, flow, packet, k.marked > 0 or k.asks > 0)
    free_packet(r, packet)
    return NONE


@inlined
def _acknowledge(r: Run, flow: int, packet: int, from_itself: bool) -> int:
    """Turn a packet into an ACK, whose bitmap starts at the packet or ends with it."""
    u, t, number = r.rud[flow], r.reports[packet], long(r.packets[packet].upto)
    base = number if from_itself else max(number - (_BITS - 1), u.expected + 1)
    t.base = base
    t.upto = u.expected
    t.got = u.got
    t.bits = 0
    if u.n_early > 0:
        bits = np.uint64(0)
        for i in range(min(_BITS, u.n_packets - base)):
            come = np.uint64(r.segments[u.first + base + i] & _COME)
            bits |= come << np.uint64(i)
        t.bits = bits
    u.unanswered = 0
    return reply(r, flow, packet, ACK)


@where_used("rud")
@kernel
def on_ack(r: Run, flow: int, packet: int) -> None:
    """Handle an ACK: record the packets that arrived, and the outcome of their entropy value."""
    u, k, t, f = r.rud[flow], r.packets[packet], r.reports[packet], r.flows[flow]
    u.news = max(t.got - u.heard, 0)
    u.heard += u.news
    u.in_flight -= u.news
    known = r.segments[u.first + k.upto]
    is_it = known & _OUT and known // _AGAIN == k.sendings and k.sendings < 2
    u.rtt = r.agenda.counts[0].now - k.stamp if is_it else NONE
    while u.una < t.upto:
        _note_come(r, flow, long(u.una))
        u.una += 1
    bits = t.bits + np.uint64(0)
    while bits:
        number = t.base + lowest_bit(bits)
        bits &= bits - np.uint64(1)
        if number >= u.una:
            _note_come(r, flow, number)
    f.acked = f.size if u.una == u.n_packets else u.una * r.settings.payload
    note_outcome(r, flow, long(k.entropy), MARKED if k.marked else GOOD)


@inlined
def _note_come(r: Run, flow: int, number: int) -> None:
    """Record that a packet has arrived; one deemed lost is first counted as in flight again."""
    u = r.rud[flow]
    known = r.segments[u.first + number]
    if known & _LOST:
        u.n_lost -= 1
        u.in_flight += _packet_size(r, flow, number)
    r.segments[u.first + number] = known & ~(_OUT | _LOST)


@where_used("rud")
@kernel
def on_nack(r: Run, flow: int, packet: int) -> None:
    """Handle a NACK: retransmit the packet, and penalise its route.

    A route whose last hop trimmed the packet is not penalised.
    """
    u, k = r.rud[flow], r.packets[packet]
    at = u.first + k.upto
    if r.segments[at] & _OUT == 0:
        return
    u.rtt = r.agenda.counts[0].now - r.sent_at[at]
    hooks.shrink(r, flow, _packet_size(r, flow, long(k.upto)))
    _mark_lost(r, flow, long(k.upto))
    how = MARKED if k.marked else GOOD
    note_outcome(r, flow, long(k.entropy), how if k.last_hop else REFUSED)


@inlined
def _mark_lost(r: Run, flow: int, number: int) -> None:
    """Mark a packet in flight as lost; it will be retransmitted."""
    u = r.rud[flow]
    at = u.first + number
    r.segments[at] = (r.segments[at] & ~_OUT) | _LOST
    u.resend = min(long(u.resend), number) if u.n_lost > 0 else number
    u.n_lost += 1
    u.in_flight -= _packet_size(r, flow, number)


@where_used("rud", NONE)
@kernel
def on_timer(r: Run, flow: int) -> int:
    """Handle a flow's timer: retransmit the oldest packet in flight if its time-out has passed.

    Return the port that may now send, or NONE.
    """
    u, now, rto = r.rud[flow], r.agenda.counts[0].now, _rto(r, flow)
    u.timer = NONE
    earliest, number = _earliest(r, flow)
    port = NONE
    if number < 0 and _starves(r, flow):
        port = long(r.flows[flow].port)
    if number >= 0 and r.sent_at[u.first + number] + rto <= now:
        u.timeouts += 1
        hooks.time_out(r, flow, _packet_size(r, flow, number))
        _mark_lost(r, flow, number)
        port = long(r.flows[flow].port)
        earliest, number = _earliest(r, flow)
    if number < 0:
        earliest = now
    if number >= 0 or credits.is_starved(r, flow):
        u.timer = plan(r.agenda, max(earliest + rto, now), RETRANSMIT | flow << KIND_BITS)
    return port


@where_used("credits", False)
@kernel
def _starves(r: Run, flow: int) -> bool:
    """Count a time-out of a sender without credit; return whether it must request credit again.

    It must if no answer has arrived, or credit must have been lost.
    """
    c = r.credits[flow]
    if not credits.is_starved(r, flow):
        return False
    c.starved += 1
    if c.asked == 0 and c.starved < _PATIENCE:
        return False
    c.starved = 0
    ask_for_credit(r, flow)
    return True


@where_used("credits")
@kernel
def ask_for_credit(r: Run, flow: int) -> None:
    """Send a packet without data that requests credit for a flow."""
    u, f, c = r.rud[flow], r.flows[flow], r.credits[flow]
    c.asked = 1
    packet = new_packet(r, REQUEST, flow, r.settings.ack_size)
    k = r.packets[packet]
    k.rank = f.ack_rank
    k.upto = u.next - 1
    k.asks = 1
    k.sendings = _UNHEARD
    value = next_value(r, flow)
    k.entropy = value
    k.hop = r.ways[f.ways + choose_way(r, flow, value)].data
    r.reports[packet].credit = c.target
    append(r.ports[f.port - f.rank + f.ack_rank].queue, r.packets, packet)


@inlined
def _rto(r: Run, flow: int) -> int:
    """Return the retransmission time-out of a flow (ticks)."""
    return max(r.keys[0].rud.rto, 2 * r.flows[flow].round_trip)


@kernel
def _earliest(r: Run, flow: int) -> tuple[int, int]:
    """Return the send time and the number of the oldest packet in flight, or (0, NONE)."""
    u = r.rud[flow]
    earliest, found = 0, NONE
    for number in range(u.una, u.next):
        at = u.first + number
        if r.segments[at] & _OUT and (found < 0 or r.sent_at[at] < earliest):
            earliest, found = r.sent_at[at], number
    return earliest, found
