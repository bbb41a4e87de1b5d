"""DCQCN (Zhu et al., SIGCOMM 2015): rate control of RoCE by ECN marks.

A sender reduces its rate in proportion to alpha, its running estimate of the fraction of marked
packets, and raises the rate by a timer.
"""

from dataclasses import dataclass

from dimsweep.engine.cluster.transports import BitRate, Ticks, Transport
from dimsweep.engine.kernels.packet.hooks import ignore
from dimsweep.engine.kernels.packet.kernel import set_rate, start_timer
from dimsweep.engine.kernels.packet.state import Run, inlined, kernel

ALPHA, CUT, RAISE = range(3)  # its timers


@dataclass(frozen=True)
class Dcqcn(Transport):
    """DCQCN. The defaults follow the study of RoCE for training clusters (Khan et al., 2022)."""

    gain: float = 1 / 256  # of alpha
    alpha_every: Ticks = 1_000_000
    cut_every: Ticks = 4_000_000
    after_alpha: Ticks = 1_000  # so much later than alpha is the first look at a cut
    raise_every: Ticks = 900_000_000
    recoveries: int = 1  # rises to the target before the target rises
    add: BitRate = 50_000_000
    add_fast: BitRate = 100_000_000
    least: BitRate = 100_000_000

    name = "dcqcn"
    state = (
        ("alpha", "f8"),  # the estimated share of marks
        ("target", "i8"),  # the rate to return to
        ("raises", "i8"),  # in a row
        ("marked", "i1"),  # whether any mark since the last look
        ("marked_alpha", "i1"),  # whether any since the last change of alpha
        ("notified", "i1"),  # whether there ever was one
    )
    header = 0
    telemetry = False
    fairness = 0.95
    needs_window = False
    above_zero = ("alpha_every", "cut_every", "raise_every", "least")
    at_most = (("gain", 1),)

    on_start = on_send = on_ack = on_end = staticmethod(ignore)

    @staticmethod
    @inlined
    def on_mark(r: Run, flow: int, packet: int) -> None:
        """Count an ACK that echoes a mark as a congestion notification."""
        f, own, keys = r.flows[flow], r.flows[flow].dcqcn, r.keys[0].dcqcn
        if f.acked >= f.size:
            return
        own.marked = 1
        if own.notified == 0:
            own.notified = 1
            own.alpha = 1.0
            own.target = f.rate
            now = r.agenda.counts[0].now
            start_timer(r, flow, ALPHA, now + keys.alpha_every)
            start_timer(r, flow, CUT, now + keys.cut_every + keys.after_alpha)
        else:
            own.marked_alpha = 1

    @staticmethod
    @kernel
    def on_timer(r: Run, flow: int, timer: int) -> None:
        """Handle a timer: update alpha, reduce the rate after marks, or raise the rate."""
        own, keys, now = r.flows[flow].dcqcn, r.keys[0].dcqcn, r.agenda.counts[0].now
        if timer == ALPHA:
            own.alpha = (1 - keys.gain) * own.alpha + (keys.gain if own.marked_alpha else 0.0)
            own.marked_alpha = 0
            start_timer(r, flow, ALPHA, now + keys.alpha_every)
        elif timer == CUT:
            start_timer(r, flow, CUT, now + keys.cut_every)
            if own.marked:
                _cut(r, flow, now)
        else:
            start_timer(r, flow, RAISE, now + keys.raise_every)
            _raise(r, flow)


@inlined
def _cut(r: Run, flow: int, now: int) -> None:
    f, own, keys = r.flows[flow], r.flows[flow].dcqcn, r.keys[0].dcqcn
    if own.raises:
        own.target = f.rate
    set_rate(r, flow, max(int(f.rate * (1 - own.alpha / 2)), keys.least))
    own.raises = 0
    own.marked = 0
    start_timer(r, flow, RAISE, now + keys.raise_every)


@inlined
def _raise(r: Run, flow: int) -> None:
    """Raise the rate half way to the target rate, which itself rises after the first steps."""
    f, own, keys = r.flows[flow], r.flows[flow].dcqcn, r.keys[0].dcqcn
    if own.raises >= keys.recoveries:
        step = keys.add if own.raises == keys.recoveries else keys.add_fast
        own.target = min(own.target + step, f.line_rate)
    set_rate(r, flow, f.rate // 2 + own.target // 2)
    own.raises += 1
