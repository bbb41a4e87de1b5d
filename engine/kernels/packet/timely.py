"""TIMELY (Mittal et al., SIGCOMM 2015): the gradient of the round-trip time."""

from engine.kernels.packet.agenda import NOW
from engine.kernels.packet.compile import inlined
from engine.kernels.packet.hosts import set_rate
from engine.kernels.packet.state import Run

_STEPS = 5  # additions before they become fast


@inlined
def on_ack(r: Run, flow: int, packet: int) -> None:
    f, k, keys = r.flows[flow], r.packets[packet], r.settings.timely
    if k.upto <= f.round_end:
        return
    rtt = r.agenda.counts[NOW] - (k.stamp if keys.stamped else 0)
    if f.round_end > 0:
        _update(r, flow, rtt)
    if f.sent > f.round_end:
        f.round_end = f.sent
        f.last_rtt = rtt


@inlined
def _update(r: Run, flow: int, rtt: int) -> None:
    f, keys = r.flows[flow], r.settings.timely
    f.rtt_rise = (1 - keys.weight) * f.rtt_rise + keys.weight * (rtt - f.last_rtt)
    gradient = f.rtt_rise / keys.least_round_trip
    if rtt < keys.low or (rtt <= keys.high and gradient <= 0):
        step = keys.add if f.raises < _STEPS else keys.add_fast
        f.target = min(f.target + step, f.line_rate)
        f.raises += 1
    else:
        if rtt > keys.high:
            factor = 1 - keys.beta * (1 - keys.high / rtt)
        else:
            factor = max(1 - keys.beta * gradient, 0.0)
        f.target = max(int(f.target * factor), keys.least)
        f.raises = 0
    set_rate(r, flow, f.target)
