"""Swift (Kumar et al., SIGCOMM 2020): a window that holds the round-trip time at a target."""

from dataclasses import dataclass

from dimsweep.engine.cluster.transports import Ticks, Transport
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.packet.hooks import ignore
from dimsweep.engine.kernels.packet.state import Run, inlined


@dataclass(frozen=True)
class Swift(Transport):
    """Swift; ``add`` (packets per round trip), ``beta`` and ``most_cut`` are the paper's (3.1).

    The target round-trip time is the flow's round trip in an empty network, plus ``base`` for
    queues, plus up to ``flow_range`` as the window falls from ``wide`` to ``narrow`` packets
    (section 3.5).
    """

    add: float = 1.0
    beta: float = 0.8
    most_cut: float = 0.5
    least: float = 0.01  # packets
    base: Ticks = 20_000_000
    flow_range: Ticks = 100_000_000
    narrow: float = 0.1
    wide: float = 100.0

    name = "swift"
    state = (
        ("window", "f8"),  # packets
        ("last_cut", "i8"),  # when it was
    )
    header = 0
    telemetry = False
    fairness = 0.95
    needs_window = True
    above_zero = ("least", "narrow", "wide")
    at_most = (("beta", 1), ("most_cut", 1))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.narrow < self.wide:
            problem = f"{self.narrow:g} packets; it must be less than wide, {self.wide:g}"
            raise DimsweepError(problem, where="narrow", code="out-of-range")

    on_send = on_mark = on_timer = on_end = staticmethod(ignore)

    @staticmethod
    @inlined
    def on_start(r: Run, flow: int, _: int) -> None:
        """Start with the maximum window."""
        r.flows[flow].swift.window = r.flows[flow].window / r.settings.payload

    @staticmethod
    @inlined
    def on_ack(r: Run, flow: int, packet: int) -> None:
        """Grow the window below the target delay; above it, shrink the window once a round trip."""
        f, own, keys = r.flows[flow], r.flows[flow].swift, r.keys[0].swift
        now = r.agenda.counts[0].now
        rtt = now - r.packets[packet].stamp
        target = _target(r, flow)
        if rtt < target:
            own.window += keys.add / own.window if own.window >= 1 else keys.add
        elif now - own.last_cut >= rtt:
            own.window *= max(1 - keys.beta * (rtt - target) / rtt, 1 - keys.most_cut)
            own.last_cut = now
        own.window = min(max(own.window, keys.least), f.window / r.settings.payload)
        _apply(r, flow, rtt)


@inlined
def _target(r: Run, flow: int) -> float:
    """Return the target delay (ps): it rises with the hops and as the window shrinks."""
    f, own, keys = r.flows[flow], r.flows[flow].swift, r.keys[0].swift
    narrow, wide = keys.narrow**-0.5, keys.wide**-0.5
    scale = keys.flow_range / (narrow - wide)
    more = min(max(scale * (own.window**-0.5 - wide), 0.0), float(keys.flow_range))
    return f.round_trip + keys.base + more


@inlined
def _apply(r: Run, flow: int, rtt: int) -> None:
    """Set the bytes that may be in flight; a window below one packet becomes a sending rate."""
    f, window, payload = r.flows[flow], r.flows[flow].swift.window, r.settings.payload
    if window >= 1:
        f.allowed = int(window * payload)
        f.rate = f.line_rate
        return
    f.allowed = 1  # a packet in flight stops the next one
    f.rate = min(max(int(window * payload * 8 * r.settings.ticks / rtt), 1), f.line_rate)
