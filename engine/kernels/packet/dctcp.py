"""DCTCP (Alizadeh et al., SIGCOMM 2010) on rates: one cut a round trip, by the share of marks."""

from engine.kernels.packet.compile import inlined
from engine.kernels.packet.hosts import set_rate
from engine.kernels.packet.state import Run


@inlined
def on_ack(r: Run, flow: int, packet: int) -> None:
    f, k, keys = r.flows[flow], r.packets[packet], r.settings.dctcp
    f.marked += k.marked  # marks of this round
    new_round = k.upto > f.round_end
    if new_round:
        if f.round_end > 0:
            share = min(1.0, f.marked / f.packets)
            f.alpha = (1 - keys.gain) * f.alpha + keys.gain * share
            f.marked = 0
            f.packets = (f.sent - k.upto) // r.settings.payload + 1
        else:
            f.packets = f.sent // r.settings.payload + 1
        f.round_end = f.sent
    if f.has_cut and k.upto > f.cut_until:
        f.has_cut = 0
    if k.marked and f.has_cut == 0:
        set_rate(r, flow, max(int(f.rate * (1 - f.alpha / 2)), keys.least))
        f.has_cut = 1  # cut already, until what was sent before is acknowledged
        f.cut_until = f.sent
    if f.has_cut == 0 and new_round:
        set_rate(r, flow, min(f.rate + keys.add, f.line_rate))
