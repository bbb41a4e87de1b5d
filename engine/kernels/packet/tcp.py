"""TCP: selective acknowledgements, retransmission and timers.

The receiver acknowledges every segment, with up to three blocks of segments that arrived out of
order (RFC 2018).  The sender keeps a scoreboard and an estimate of the segments in flight, the
pipe, and detects and repairs losses by RFC 6675; a timer finds all other losses (RFC 6298).  Round
trips are measured by time stamps (RFC 7323), so retransmitted segments count, too.  Reno and CUBIC
define how the window grows and shrinks.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from dimsweep.engine.cluster.transports import Ticks, Transport
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.agenda import plan
from dimsweep.engine.kernels.core.compiling import long
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.packet import hooks
from dimsweep.engine.kernels.packet.hooks import ignore
from dimsweep.engine.kernels.packet.state import (
    KIND_BITS,
    RETRANSMIT,
    SACK_BLOCKS,
    Run,
    inlined,
    kernel,
)

# Bits of a segment: the receiver sets _COME, the sender the others.
_COME, _SACKED, _LOST, _RESENT = 1, 2, 4, 8
# What the sender recovers from: nothing, losses reported by ACKs, or a time-out.
_OPEN, _RECOVERY, _TIMED_OUT = range(3)


@dataclass(frozen=True)
class Tcp(Transport):
    """Base class of transports with TCP segments.

    Subclasses define how the window grows and shrinks; they inherit the keys (settings) of this
    class. A time-out calls ``shrink``, then ``time_out``.
    """

    first_window: float = 10.0  # segments (RFC 6928)
    duplicates: int = 3  # ACKs or sacked segments that report a loss (RFC 5681, RFC 6675)
    first_rto: Ticks = 10**12  # before a round trip is known (RFC 6298, 2.1)
    least_rto: Ticks = 10**12  # (RFC 6298, 2.4); operating systems take less
    most_rto: Ticks = 60 * 10**12  # (RFC 6298, 2.5)
    granularity: Ticks = 10**9  # of its clock (G of RFC 6298, which wants 100 ms or less)

    header = 0
    telemetry = False
    needs_window = False
    speaks_tcp = True
    resends = True
    above_zero: ClassVar[tuple[str, ...]] = (
        "first_window",
        "duplicates",
        "first_rto",
        "least_rto",
        "most_rto",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first_window < 1:
            problem = f"{self.first_window:g} segments; it must be 1 or more"
            raise DimsweepError(problem, where="first_window", code="out-of-range")

    on_start = on_send = on_mark = on_ack = on_timer = on_end = staticmethod(ignore)

    @staticmethod
    @abstractmethod
    def grow(r: Any, flow: int, passed: int) -> None:
        """Grow the window in congestion avoidance, after an ACK of ``passed`` new segments."""

    @staticmethod
    @abstractmethod
    def shrink(r: Any, flow: int, _: int) -> None:
        """Set the slow-start threshold after a detected loss."""

    @staticmethod
    @abstractmethod
    def time_out(r: Any, flow: int, _: int) -> None:
        """React to a loss that the retransmission timer found."""


@inlined
def in_flight(r: Run, flow: int) -> float:
    """Return the number of unacknowledged segments, at most the window (RFC 9438, 4.6).

    In a long recovery more segments are unacknowledged, but ACKs have reported their arrival;
    counting them would raise the window.
    """
    t = r.tcp[flow]
    return min(float(t.next - t.una), t.cwnd)


@inlined
def may_send(r: Run, flow: int) -> bool:
    """Return whether the flow has a segment to send, and the pipe has room for it."""
    t = r.tcp[flow]
    if t.pipe + 1 > t.cwnd:
        return False
    if t.n_lost > 0:
        return True
    f = r.flows[flow]
    within = f.window == 0 or (t.next - t.una) * r.settings.payload < f.window
    return t.next < t.n_segments and within


@kernel
def next_segment(r: Run, flow: int) -> int:
    """Return the number of the segment to send: the first lost one (RFC 6675), or a new one."""
    t = r.tcp[flow]
    if t.n_lost > 0:
        segment = max(t.resend, t.una)
        while r.segments[t.first + segment] & (_LOST | _RESENT | _SACKED) != _LOST:
            segment += 1
        r.segments[t.first + segment] |= _RESENT
        t.resend = segment + 1
        t.n_lost -= 1
    else:
        segment = long(t.next)
        t.next = segment + 1
    t.pipe += 1
    if t.pipe + 1 > t.cwnd:
        t.limited = 1
    if t.times_out_at < 0:
        _restart_timer(r, flow)
    return segment


@kernel
def receive(r: Run, flow: int, packet: int, n_bytes: int) -> None:
    """Handle a received segment of ``n_bytes``: turn its packet into an ACK."""
    t, k = r.tcp[flow], r.packets[packet]
    segment = long(k.upto)
    at = t.first + segment
    if r.segments[at] & _COME == 0:
        r.segments[at] |= _COME
        r.flows[flow].received += n_bytes
        while t.expected < t.n_segments and r.segments[t.first + t.expected] & _COME:
            t.expected += 1
    _note_block(r, flow, segment)
    k.upto = t.expected
    for i in range(SACK_BLOCKS):
        r.sacks[packet, i].start = r.blocks[flow, i].start
        r.sacks[packet, i].end = r.blocks[flow, i].end


@kernel
def _note_block(r: Run, flow: int, segment: int) -> None:
    """Put the block of ``segment``, merged with adjacent ones, first; forget the oldest block."""
    expected = r.tcp[flow].expected
    start, end = segment, segment + 1
    for i in range(SACK_BLOCKS):
        block = r.blocks[flow, i]
        if block.start <= end and start <= block.end:
            start, end = min(start, block.start), max(end, block.end)
            block.start = 0
            block.end = 0
    kept = 0
    for i in range(SACK_BLOCKS):
        if r.blocks[flow, i].end > expected:
            r.blocks[flow, kept].start = r.blocks[flow, i].start
            r.blocks[flow, kept].end = r.blocks[flow, i].end
            kept += 1
    for i in range(kept, SACK_BLOCKS):
        r.blocks[flow, i].start = 0
        r.blocks[flow, i].end = 0
    if end <= expected:
        return
    for i in range(SACK_BLOCKS - 1, 0, -1):
        r.blocks[flow, i].start = r.blocks[flow, i - 1].start
        r.blocks[flow, i].end = r.blocks[flow, i - 1].end
    r.blocks[flow, 0].start = start
    r.blocks[flow, 0].end = end


@kernel
def on_ack(r: Run, flow: int, packet: int) -> None:
    """Update the scoreboard; recover from losses, or grow the window if none are detected."""
    t, k, f, now = r.tcp[flow], r.packets[packet], r.flows[flow], r.agenda.counts[0].now
    _measure(r, flow, now - k.stamp)
    if 2 * t.pipe < t.cwnd:
        t.limited = 0
    passed = max(k.upto - t.una, 0)
    _acknowledge(r, flow, passed)
    for i in range(SACK_BLOCKS):
        _sack(r, flow, r.sacks[packet, i].start, r.sacks[packet, i].end)
    _find_losses(r, flow)
    f.acked = min(t.una * r.settings.payload, f.size)
    if passed > 0:
        t.times_out_at = NONE
        if t.una < t.n_segments:
            _restart_timer(r, flow)
    if t.state != _OPEN and t.una >= t.recovered_at:
        t.state = _OPEN
    if t.state == _OPEN and t.n_lost > 0:
        hooks.shrink(r, flow, 0)
        t.cwnd = t.threshold
        t.state = _RECOVERY
        t.recovered_at = t.next
    elif t.state != _RECOVERY and passed > 0 and t.limited:
        _grow(r, flow, passed)


@kernel
def on_timer(r: Run, flow: int) -> int:
    """Handle the timer unless it was restarted; return the port that may now send, or NONE."""
    t = r.tcp[flow]
    t.timer = NONE
    if t.times_out_at < 0:
        return NONE
    if t.times_out_at > r.agenda.counts[0].now:
        _start_timer(r, flow)
        return NONE
    t.timeouts += 1
    if t.state != _TIMED_OUT:  # of segments that time out again the threshold stays (RFC 5681)
        hooks.shrink(r, flow, 0)
        hooks.time_out(r, flow, 0)
    t.cwnd = 1.0  # the loss window of RFC 5681
    t.state = _TIMED_OUT
    t.recovered_at = t.next
    t.n_lost = 0
    for segment in range(t.una, t.next):
        at = t.first + segment
        if r.segments[at] & _SACKED == 0:
            r.segments[at] = (r.segments[at] | _LOST) & ~_RESENT
            t.n_lost += 1
    t.pipe = 0
    t.resend = t.una
    t.lost_upto = t.next
    t.n_sacked_above = 0
    t.rto = min(2 * t.rto, r.keys[0].tcp.most_rto)
    _restart_timer(r, flow)
    return r.flows[flow].port


@kernel
def _acknowledge(r: Run, flow: int, n: int) -> None:
    """Record that the next ``n`` segments are acknowledged cumulatively."""
    t = r.tcp[flow]
    for _ in range(n):
        if r.segments[t.first + t.una] & _SACKED == 0:
            _leave_pipe(r, flow, t.una)
        elif t.una >= t.lost_upto:
            t.n_sacked_above -= 1
        t.una += 1
    t.lost_upto = max(t.lost_upto, t.una)


@kernel
def _sack(r: Run, flow: int, start: int, end: int) -> None:
    """Record that the segments from ``start`` to before ``end`` have arrived."""
    t = r.tcp[flow]
    segment = _next_hole(r, t.first, max(start, t.una))
    while segment < end:
        _leave_pipe(r, flow, segment)
        r.segments[t.first + segment] |= _SACKED
        r.skips[t.first + segment] = 1
        if segment >= t.lost_upto:
            t.n_sacked_above += 1
        segment = _next_hole(r, t.first, segment + 1)


@kernel
def _next_hole(r: Run, first: int, segment: int) -> int:
    """Return the first segment from ``segment`` on without a SACK (union-find, path halving)."""
    while r.skips[first + segment] > 0:
        skip = r.skips[first + segment] + r.skips[first + segment + r.skips[first + segment]]
        r.skips[first + segment] = skip
        segment += skip
    return segment


@inlined
def _leave_pipe(r: Run, flow: int, segment: int) -> None:
    """Remove a segment from the pipe (segments in flight), or from the lost segments."""
    t = r.tcp[flow]
    known = r.segments[t.first + segment]
    if known & _LOST == 0 or known & _RESENT:
        t.pipe -= 1
    else:
        t.n_lost -= 1


@kernel
def _find_losses(r: Run, flow: int) -> None:
    """Mark segments as lost if enough segments above them are sacked (RFC 6675, IsLost)."""
    t = r.tcp[flow]
    while t.lost_upto < t.next:
        at = t.first + t.lost_upto
        if r.segments[at] & _SACKED:
            t.n_sacked_above -= 1
        elif t.n_sacked_above >= r.keys[0].tcp.duplicates:
            r.segments[at] |= _LOST
            t.n_lost += 1
            t.pipe -= 1
        else:
            break
        t.lost_upto += 1


@inlined
def _measure(r: Run, flow: int, rtt: int) -> None:
    """Update the smoothed round trip, its variation and the time-out (RFC 6298, section 2)."""
    t, keys = r.tcp[flow], r.keys[0].tcp
    if t.srtt == 0:
        t.srtt = rtt
        t.rtt_variation = rtt / 2
    else:
        t.rtt_variation += (abs(t.srtt - rtt) - t.rtt_variation) / 4
        t.srtt += (rtt - t.srtt) / 8
    rto = int(t.srtt + max(4 * t.rtt_variation, float(keys.granularity)))
    t.rto = min(max(rto, keys.least_rto), keys.most_rto)


@kernel
def _restart_timer(r: Run, flow: int) -> None:
    t = r.tcp[flow]
    t.times_out_at = r.agenda.counts[0].now + t.rto
    if t.timer < 0 or t.times_out_at < t.timer_at:
        _start_timer(r, flow)


@inlined
def _start_timer(r: Run, flow: int) -> None:
    """Plan a check of the retransmission timer, which restarts itself if ACKs moved the timer."""
    t = r.tcp[flow]
    t.timer_at = t.times_out_at
    t.timer = plan(r.agenda, t.timer_at, RETRANSMIT | flow << KIND_BITS)


@inlined
def _grow(r: Run, flow: int, passed: int) -> None:
    """Grow the window by slow start below the threshold, else by congestion avoidance."""
    t = r.tcp[flow]
    if t.cwnd < t.threshold:
        t.cwnd += 1
    else:
        hooks.grow(r, flow, passed)
