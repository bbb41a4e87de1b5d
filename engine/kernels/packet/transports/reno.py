"""Reno's window (RFC 5681): a segment more each round trip, and half of it after a loss."""

from dataclasses import dataclass

from dimsweep.engine.kernels.packet.hooks import nothing
from dimsweep.engine.kernels.packet.state import Run, inlined
from dimsweep.engine.kernels.packet.tcp import Tcp, under_way


@dataclass(frozen=True)
class Reno(Tcp):
    """It has no keys beside TCP's."""

    name = "reno"
    fairness = 0.9
    state = ()

    time_out = staticmethod(nothing)

    @staticmethod
    @inlined
    def grow(r: Run, flow: int, passed: int) -> None:
        """An ACK in congestion avoidance (RFC 5681, equation 3)."""
        t = r.tcp[flow]
        t.cwnd += 1 / t.cwnd

    @staticmethod
    @inlined
    def shrink(r: Run, flow: int, _: int) -> None:
        """Half of what is under way, and two segments at least (RFC 5681, equation 4)."""
        r.tcp[flow].threshold = max(under_way(r, flow) / 2, 2.0)
