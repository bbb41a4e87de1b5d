"""CUBIC's window (RFC 9438): a cubic function of the time since the last loss."""

from dataclasses import dataclass

from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.kernels.packet.state import Run, inlined, kernel
from dimsweep.engine.kernels.packet.tcp import Tcp, in_flight


@dataclass(frozen=True)
class Cubic(Tcp):
    """CUBIC congestion control of TCP.

    The defaults follow RFC 9438 (sections 4.6 and 5.1) and RFC 8312.
    """

    c: float = 0.4  # segments / second^3
    beta: float = 0.7  # what a loss leaves of the window

    name = "cubic"
    fairness = 0.75
    state = (
        ("w_max", "f8"),  # segments
        ("k", "f8"),  # seconds
        ("w_reno", "f8"),  # what Reno's window would be
        ("prior", "f8"),  # the window at the last loss
        ("epoch", "i8"),  # when congestion avoidance began, or -1
    )
    above_zero = (*Tcp.above_zero, "c", "beta")
    at_most = (("beta", 1),)

    @staticmethod
    @inlined
    def on_start(r: Run, flow: int, _: int) -> None:
        """Initialise a flow's state for slow start."""
        r.flows[flow].cubic.epoch = NONE

    @staticmethod
    @kernel
    def grow(r: Run, flow: int, passed: int) -> None:
        """Grow the window after ``passed`` segments in congestion avoidance (4.2 to 4.5)."""
        t, own, keys = r.tcp[flow], r.flows[flow].cubic, r.keys[0].cubic
        now = r.agenda.counts[0].now
        if own.epoch < 0:
            own.epoch = now
            own.w_max = max(own.w_max, t.cwnd)
            own.k = ((own.w_max - t.cwnd) / keys.c) ** (1 / 3)  # equation 2
            own.w_reno = t.cwnd
        alpha = 3 * (1 - keys.beta) / (1 + keys.beta) if own.w_reno < own.prior else 1.0
        own.w_reno += alpha * passed / t.cwnd  # equation 4
        seconds = (now - own.epoch) / r.settings.ticks
        if _cubic(r, flow, seconds) < own.w_reno:
            t.cwnd = max(t.cwnd, own.w_reno)  # friendly to Reno
            return
        target = _cubic(r, flow, seconds + t.srtt / r.settings.ticks)
        t.cwnd += (min(max(target, t.cwnd), 1.5 * t.cwnd) - t.cwnd) / t.cwnd

    @staticmethod
    @inlined
    def shrink(r: Run, flow: int, _: int) -> None:
        """Reduce the window after a loss, with fast convergence for new flows (4.6 and 4.7)."""
        t, own, beta = r.tcp[flow], r.flows[flow].cubic, r.keys[0].cubic.beta
        own.w_max = t.cwnd * (1 + beta) / 2 if t.cwnd < own.w_max else t.cwnd
        own.prior = t.cwnd
        t.threshold = max(in_flight(r, flow) * beta, 2.0)
        own.epoch = NONE

    @staticmethod
    @inlined
    def time_out(r: Run, flow: int, _: int) -> None:
        """Reset the last maximum window (section 4.8)."""
        r.flows[flow].cubic.w_max = 0.0


@inlined
def _cubic(r: Run, flow: int, seconds: float) -> float:
    """Return the window in segments, ``seconds`` after the last loss (equation 1)."""
    own = r.flows[flow].cubic
    return r.keys[0].cubic.c * (seconds - own.k) ** 3 + own.w_max
