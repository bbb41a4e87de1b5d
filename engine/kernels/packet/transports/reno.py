"""Reno's window (RFC 5681): one more segment per round trip, and half after a loss."""

from dataclasses import dataclass

from dimsweep.engine.kernels.packet.hooks import ignore
from dimsweep.engine.kernels.packet.state import Run, inlined
from dimsweep.engine.kernels.packet.tcp import Tcp, in_flight


@dataclass(frozen=True)
class Reno(Tcp):
    """Reno congestion control of TCP; it has the keys (settings) of :class:`Tcp` only."""

    name = "reno"
    fairness = 0.9
    state = ()

    time_out = staticmethod(ignore)

    @staticmethod
    @inlined
    def grow(r: Run, flow: int, passed: int) -> None:
        """Grow the window in congestion avoidance (RFC 5681, equation 3)."""
        t = r.tcp[flow]
        t.cwnd += 1 / t.cwnd

    @staticmethod
    @inlined
    def shrink(r: Run, flow: int, _: int) -> None:
        """Set the threshold to half of the segments in flight, at least two (equation 4)."""
        r.tcp[flow].threshold = max(in_flight(r, flow) / 2, 2.0)
