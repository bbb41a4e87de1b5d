"""CUBIC's window (RFC 9438): a cubic function of the time since the last loss."""

from engine.kernels.core.none import NONE
from engine.kernels.packet.agenda import NOW
from engine.kernels.packet.compile import inlined, kernel
from engine.kernels.packet.reno import under_way
from engine.kernels.packet.state import Run


@kernel
def grow(r: Run, flow: int, passed: int) -> None:
    """An ACK of ``passed`` new segments in congestion avoidance (sections 4.2 to 4.5)."""
    t, keys, now = r.tcp[flow], r.settings.cubic, r.agenda.counts[NOW]
    if t.epoch < 0:
        t.epoch = now
        t.w_max = max(t.w_max, t.cwnd)
        t.k = ((t.w_max - t.cwnd) / keys.c) ** (1 / 3)  # equation 2
        t.w_reno = t.cwnd
    alpha = 3 * (1 - keys.beta) / (1 + keys.beta) if t.w_reno < t.prior else 1.0
    t.w_reno += alpha * passed / t.cwnd  # equation 4
    seconds = (now - t.epoch) / r.settings.ticks
    if _cubic(r, flow, seconds) < t.w_reno:
        t.cwnd = max(t.cwnd, t.w_reno)  # friendly to Reno
        return
    target = _cubic(r, flow, seconds + t.srtt / r.settings.ticks)
    t.cwnd += (min(max(target, t.cwnd), 1.5 * t.cwnd) - t.cwnd) / t.cwnd


@inlined
def _cubic(r: Run, flow: int, seconds: float) -> float:
    """Equation 1."""
    t = r.tcp[flow]
    return r.settings.cubic.c * (seconds - t.k) ** 3 + t.w_max


@inlined
def shrink(r: Run, flow: int) -> None:
    """Sections 4.6 and 4.7: with fast convergence, so that newcomers find room sooner."""
    t, beta = r.tcp[flow], r.settings.cubic.beta
    t.w_max = t.cwnd * (1 + beta) / 2 if t.cwnd < t.w_max else t.cwnd
    t.prior = t.cwnd
    t.threshold = max(under_way(r, flow) * beta, 2.0)
    t.epoch = NONE
