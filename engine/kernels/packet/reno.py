"""Reno's window (RFC 5681): a segment more each round trip, and half of it after a loss."""

from engine.kernels.packet.compile import inlined
from engine.kernels.packet.state import Run


@inlined
def under_way(r: Run, flow: int) -> float:
    """Segments that are not acknowledged, but no more than the window (as RFC 9438, 4.6, allows).

    Those beyond it have come, as ACKs said: they would raise the window of a long recovery.
    """
    t = r.tcp[flow]
    return min(float(t.next - t.una), t.cwnd)


@inlined
def grow(r: Run, flow: int) -> None:
    """An ACK in congestion avoidance (RFC 5681, equation 3)."""
    t = r.tcp[flow]
    t.cwnd += 1 / t.cwnd


@inlined
def shrink(r: Run, flow: int) -> None:
    """Half of what is under way, and two segments at least (RFC 5681, equation 4)."""
    t = r.tcp[flow]
    t.threshold = max(under_way(r, flow) / 2, 2.0)
