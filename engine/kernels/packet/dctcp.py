"""DCTCP (Alizadeh et al., SIGCOMM 2010) on rates: one cut a round trip, by the share of marks."""

from engine.kernels.packet.compile import inlined
from engine.kernels.packet.hosts import set_rate
from engine.kernels.packet.state import Run


@inlined
def on_ack(r: Run, flow: int, packet: int) -> None:
    f, k, keys = r.flows[flow], r.packets[packet], r.settings.dctcp
    f.stage += k.marked  # marks of this round
    new_round = k.upto > f.i
    if new_round:
        if f.i > 0:
            share = min(1.0, f.stage / f.j)
            f.a = (1 - keys.gain) * f.a + keys.gain * share
            f.stage = 0
            f.j = (f.sent - k.upto) // r.settings.payload + 1
        else:
            f.j = f.sent // r.settings.payload + 1
        f.i = f.sent
    if f.timer_a and k.upto > f.k:
        f.timer_a = 0
    if k.marked and f.timer_a == 0:
        set_rate(r, flow, max(int(f.rate * (1 - f.a / 2)), keys.least))
        f.timer_a = 1  # cut already, until what was sent before is acknowledged
        f.k = f.sent
    if f.timer_a == 0 and new_round:
        set_rate(r, flow, min(f.rate + keys.add, f.line_rate))
