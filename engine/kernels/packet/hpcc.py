"""HPCC (Li et al., SIGCOMM 2019): every hop's telemetry says how full it is."""

from engine.kernels.packet.compile import inlined
from engine.kernels.packet.hosts import change_rate
from engine.kernels.packet.state import Run


@inlined
def on_ack(r: Run, flow: int, packet: int) -> None:
    f, k = r.flows[flow], r.packets[packet]
    new_round = k.upto > f.round_end
    if not new_round and not r.settings.hpcc.react_fast:
        return
    if f.round_end == 0:
        _remember(r, flow, packet)
        f.round_end = f.sent
        return
    rate = _rate(r, flow, _fullness(r, flow, packet), new_round)
    change_rate(r, flow, rate)
    if new_round:
        f.round_end = max(f.round_end, f.sent)


@inlined
def _remember(r: Run, flow: int, packet: int) -> None:
    for i in range(r.packets[packet].hops):
        r.known[flow, i].time = r.telemetry[packet, i].time
        r.known[flow, i].bytes = r.telemetry[packet, i].bytes
        r.known[flow, i].queue = r.telemetry[packet, i].queue


@inlined
def _since(now: int, before: int, unit: int, bits: int) -> int:
    difference = now // unit - before // unit
    if bits:
        difference &= (1 << bits) - 1
    return difference * unit


@inlined
def _queue(r: Run, queue: int) -> int:
    keys = r.settings.hpcc
    units = queue // keys.queue_unit
    if keys.queue_bits:
        units &= (1 << keys.queue_bits) - 1
    return units * keys.queue_unit


@inlined
def _fullness(r: Run, flow: int, packet: int) -> float:
    """The fullest hop's utilisation, smoothed over a round trip (HPCC, equation 2)."""
    f, keys = r.flows[flow], r.settings.hpcc
    fullest, elapsed = 0.0, 0
    for i in range(r.packets[packet].hops):
        hop, known = r.telemetry[packet, i], r.known[flow, i]
        tau = _since(hop.time, known.time, 1, keys.time_bits)
        sent = _since(hop.bytes, known.bytes, keys.byte_unit, keys.byte_bits)
        queue = min(_queue(r, hop.queue), _queue(r, known.queue))
        seconds = tau * (1.0 / r.settings.ticks)
        u = sent * 8 / seconds / hop.rate + float(queue) * f.line_rate / hop.rate / f.window
        if u > fullest:
            fullest, elapsed = u, tau
    _remember(r, flow, packet)
    elapsed = min(elapsed, f.round_trip)
    f.utilisation = (f.utilisation * (f.round_trip - elapsed) + fullest * elapsed) / float(
        f.round_trip
    )
    return f.utilisation / keys.eta


@inlined
def _rate(r: Run, flow: int, over: float, new_round: bool) -> int:
    """Multiplied if too full or increased long enough; else one step more."""
    f, keys = r.flows[flow], r.settings.hpcc
    if over >= 1 or f.raises >= keys.stages:
        rate, stage = int(f.target / over) + keys.add, 0
    else:
        rate, stage = f.target + keys.add, f.raises + 1
    rate = min(max(rate, keys.least), f.line_rate)
    if new_round:
        f.target = rate
        f.raises = stage
    return rate
