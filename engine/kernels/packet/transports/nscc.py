"""NSCC of Ultra Ethernet: a sender's window, driven by marks, delays and NACKs (UE 1.0, CMS).

The module follows the algorithm of the specification as ultraethernet/uet-htsim runs it (commit
40ccb05).  Its constants hold for 100 Gb/s and round trips of 12 us, and grow with the
bandwidth-delay product (``scale``).
"""

from dataclasses import dataclass

from dimsweep.engine.cluster.transports import Ticks
from dimsweep.engine.kernels.packet.hooks import ignore
from dimsweep.engine.kernels.packet.rud import Rud
from dimsweep.engine.kernels.packet.state import Run, inlined, kernel

_REFERENCE = 150_000  # bytes: 12 us of 100 Gb/s
_REFERENCE_RTT = 12e-6  # s
_FAIR, _STEADY, _FAST = 5.0, 0.15, 0.25  # packets (fast: of what is acknowledged), times the scale
_PROPORTIONAL = 4.0  # packets, times the scale
_QUICK = 4  # times the target: a delay after which the window follows what arrives
_FAST_BELOW = 1e-6  # s of delay
_SMOOTH = 0.0125  # the weight of a new delay
_ADJUST = 8  # packets after which increases are added to the window


@dataclass(frozen=True)
class Nscc(Rud):
    """NSCC; windows are in bandwidth-delay products.

    ``target`` is the allowed queueing delay (0: three quarters of a round trip), and ``gamma``
    weighs a delay beyond the target.  With ``gate`` the window is lowered to the arrived bytes if
    these are fewer than the largest window / 2^gate.
    """

    target: Ticks = 0
    first_window: float = 1.5
    most_window: float = 1.5
    gamma: float = 0.8
    gate: int = 3

    name = "nscc"
    state = (
        ("window", "f8"),  # bytes, as all here
        ("most", "f8"),
        ("rtt", "i8"),  # the shortest that was seen
        ("target", "f8"),  # ticks
        ("scale", "f8"),
        ("delay", "f8"),  # smoothed, ticks
        ("increase", "f8"),  # to be added, times the window
        ("received", "i8"),  # since it was added
        ("added_at", "i8"),
        ("cut_at", "i8"),
        ("calm", "i8"),  # acknowledged in a row with hardly a delay
        ("is_fast", "i1"),
        # Quick adaptation
        ("achieved", "i8"),  # that arrived in this round
        ("round_end", "i8"),  # when it ends
        ("is_due", "i1"),
        ("ignored", "i8"),  # what arrived since, of
        ("to_ignore", "i8"),  # that which was under way then
    )
    fairness = 0.8
    above_zero = (*Rud.above_zero, "first_window", "most_window")
    at_most = (
        *Rud.at_most,
        ("gamma", 1),
        ("gate", 30),
        ("first_window", 1000),
        ("most_window", 1000),
    )

    on_send = on_mark = on_timer = on_end = staticmethod(ignore)

    @staticmethod
    @inlined
    def on_start(r: Run, flow: int, _: int) -> None:
        """Start with a window of ``first_window`` bandwidth-delay products."""
        f, own, keys = r.flows[flow], r.flows[flow].nscc, r.keys[0].nscc
        own.rtt = f.round_trip
        own.target = keys.target if keys.target > 0 else 0.75 * f.round_trip
        own.scale = f.window / _REFERENCE
        own.most = keys.most_window * f.window
        own.window = keys.first_window * f.window
        _bound(r, flow)

    @staticmethod
    @kernel
    def on_ack(r: Run, flow: int, packet: int) -> None:
        """Grow or cut the window by mark and delay of an ACK; increases are summed over packets."""
        f, own, u, marked = r.flows[flow], r.flows[flow].nscc, r.rud[flow], r.packets[packet].marked
        now, mtu = r.agenda.counts[0].now, r.settings.payload + r.settings.data_header
        own.achieved += u.news
        own.received += u.news
        own.ignored += u.news
        delay = _delay(r, flow, marked)
        if not _quick_adapt(r, flow, False, marked > 0, delay):
            if not marked and delay >= own.target:
                own.increase += _FAIR * own.scale * r.settings.payload * u.news
            elif not marked:
                _grow(r, flow, delay)
            elif delay >= own.target:
                _cut(r, flow)
            _bound(r, flow)
            if own.received > _ADJUST * mtu or now - own.added_at > f.round_trip:
                own.window += own.increase / own.window
                if now - own.added_at >= f.round_trip:
                    own.window += _STEADY * own.scale * r.settings.payload
                    own.added_at = now
                own.increase = 0
                own.received = 0
        _bound(r, flow)

    @staticmethod
    @kernel
    def shrink(r: Run, flow: int, n_bytes: int) -> None:
        """Handle a NACK as a delay of about one round trip, which reports a full queue."""
        own = r.flows[flow].nscc
        _note_rtt(r, flow)
        own.ignored += n_bytes
        own.delay += _SMOOTH * (r.flows[flow].round_trip - own.delay)
        own.is_due = 1
        if not _quick_adapt(r, flow, True, True, 0.0):
            own.window -= n_bytes
        _bound(r, flow)

    @staticmethod
    @inlined
    def time_out(r: Run, flow: int, n_bytes: int) -> None:
        """Shrink the window by the bytes of the lost packet."""
        r.flows[flow].nscc.window -= n_bytes
        _bound(r, flow)


@inlined
def _bound(r: Run, flow: int) -> None:
    """Limit the window to between one packet and the maximum, and set the allowed bytes."""
    own = r.flows[flow].nscc
    least = float(r.settings.payload + r.settings.data_header)
    own.window = max(min(own.window, own.most), least)
    r.flows[flow].allowed = int(own.window)


@inlined
def _note_rtt(r: Run, flow: int) -> None:
    """Update the shortest round trip, and the maximum window that follows from it."""
    f, own, rtt = r.flows[flow], r.flows[flow].nscc, r.rud[flow].rtt
    if rtt < own.rtt:
        own.rtt = rtt
        own.most = r.keys[0].nscc.most_window * (rtt * f.line_rate / (8 * r.settings.ticks))


@inlined
def _delay(r: Run, flow: int, marked: int) -> float:
    """Return the delay of an ACK (ticks), or the smoothed one if it has none.

    A long delay without a mark is about to fall: it counts as a quarter round trip.
    """
    own = r.flows[flow].nscc
    if r.rud[flow].rtt < 0:
        return own.delay
    _note_rtt(r, flow)
    delay = float(r.rud[flow].rtt - own.rtt)
    counts = 0.25 * own.rtt if not marked and delay > own.target else delay
    own.delay += _SMOOTH * (counts - own.delay)
    return delay


@inlined
def _grow(r: Run, flow: int, delay: float) -> None:
    """Grow the congestion window: more the further the delay is below its target.

    After a round trip without congestion it grows fast.
    """
    own, s, news = r.flows[flow].nscc, r.settings, r.rud[flow].news
    own.calm = own.calm + news if delay < _FAST_BELOW * s.ticks else 0
    own.is_fast = own.calm > 0 and (own.is_fast or own.calm > own.window)
    if own.is_fast:
        own.window += _FAST * own.scale * news
    else:
        gain = _PROPORTIONAL * own.scale * s.payload / (_REFERENCE_RTT * s.ticks)
        own.increase += gain * news * (own.target - delay)


@inlined
def _cut(r: Run, flow: int) -> None:
    """Cut the window, at most once a round trip and by half, by the delay beyond the target."""
    own, now = r.flows[flow].nscc, r.agenda.counts[0].now
    own.is_fast = 0
    own.calm = 0
    if own.delay > own.target and now - own.cut_at > own.rtt:
        beyond = (own.delay - own.target) / own.delay
        own.window *= max(1 - r.keys[0].nscc.gamma * beyond, 0.5)
        own.cut_at = now


@inlined
def _quick_adapt(r: Run, flow: int, is_loss: bool, marked: bool, delay: float) -> bool:
    """Lower the window to the arrived bytes if these are far fewer; return whether it did.

    Marked ACKs of packets that were in flight at that time also return True, and change nothing.
    """
    own, now = r.flows[flow].nscc, r.agenda.counts[0].now
    adapts = own.ignored < own.to_ignore and marked
    if not adapts and now > own.round_end:
        is_bad = own.is_due or is_loss or delay > _QUICK * own.target
        few = own.achieved < own.most / (1 << r.keys[0].nscc.gate)
        if own.round_end > 0 and is_bad and few:
            own.window = float(own.achieved)
            own.to_ignore = r.rud[flow].in_flight
            own.ignored = 0
            own.is_due = 0
            adapts = True
        own.achieved = 0
        own.round_end = now + own.rtt + int(own.target)
    if adapts:
        own.increase = 0
        own.received = 0
    return adapts
