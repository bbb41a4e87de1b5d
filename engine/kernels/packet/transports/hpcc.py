"""HPCC (Li et al., SIGCOMM 2019): rate control by the link utilisation that each hop reports."""

from dataclasses import dataclass

from dimsweep.engine.cluster.transports import BitRate, Transport
from dimsweep.engine.kernels.packet.hooks import ignore
from dimsweep.engine.kernels.packet.kernel import change_rate
from dimsweep.engine.kernels.packet.state import Run, inlined


@dataclass(frozen=True)
class Hpcc(Transport):
    """HPCC. The defaults follow Khan et al. (HotI 2022).

    The values that a hop writes are rounded down to units (bytes, and ticks of time) and wrap
    around at 2^bits units (0: never).
    """

    eta: float = 0.95  # the utilisation aimed at
    add: BitRate = 50_000_000
    least: BitRate = 100_000_000
    stages: int = 0  # additions before the rate is multiplied although the path is not full
    react_fast: bool = True  # to every ACK, not only once a round trip
    byte_unit: int = 1
    byte_bits: int = 0
    queue_unit: int = 1
    queue_bits: int = 0
    time_bits: int = 0

    name = "hpcc"
    state = (
        ("utilisation", "f8"),  # of the fullest hop
        ("target", "i8"),  # the rate of the last round trip: bits a second
        ("round_end", "i8"),  # bytes whose ACK ends this round trip
        ("raises", "i8"),  # in a row
    )
    header = 42  # 5 hops of 8 bytes, and 2 more (its authors' format)
    telemetry = True
    fairness = 0.85
    needs_window = True
    above_zero = ("eta", "least", "byte_unit", "queue_unit")
    at_most = (("byte_bits", 62), ("queue_bits", 62), ("time_bits", 62))

    on_send = on_mark = on_timer = on_end = staticmethod(ignore)

    @staticmethod
    @inlined
    def on_start(r: Run, flow: int, _: int) -> None:
        """Set the estimated utilisation to 1 until the first measurement."""
        own = r.flows[flow].hpcc
        own.utilisation = 1.0
        own.target = r.flows[flow].rate

    @staticmethod
    @inlined
    def on_ack(r: Run, flow: int, packet: int) -> None:
        """Set the rate from the busiest hop's utilisation and the last round trip's rate."""
        f, own, k = r.flows[flow], r.flows[flow].hpcc, r.packets[packet]
        new_round = k.upto > own.round_end
        if not new_round and not r.keys[0].hpcc.react_fast:
            return
        if own.round_end == 0:
            _remember(r, flow, packet)
            own.round_end = f.sent
            return
        rate = _rate(r, flow, _fullness(r, flow, packet), new_round)
        change_rate(r, flow, rate)
        if new_round:
            own.round_end = max(own.round_end, f.sent)


@inlined
def _remember(r: Run, flow: int, packet: int) -> None:
    for i in range(r.packets[packet].hops):
        r.known[flow, i].time = r.telemetry[packet, i].time
        r.known[flow, i].bytes = r.telemetry[packet, i].bytes
        r.known[flow, i].queue = r.telemetry[packet, i].queue


@inlined
def _difference(now: int, before: int, unit: int, bits: int) -> int:
    difference = now // unit - before // unit
    if bits:
        difference &= (1 << bits) - 1
    return difference * unit


@inlined
def _decode_queue(r: Run, queue: int) -> int:
    keys = r.keys[0].hpcc
    units = queue // keys.queue_unit
    if keys.queue_bits:
        units &= (1 << keys.queue_bits) - 1
    return units * keys.queue_unit


@inlined
def _fullness(r: Run, flow: int, packet: int) -> float:
    """Return the busiest hop's utilisation, smoothed over a round trip (HPCC, equation 2)."""
    f, own, keys = r.flows[flow], r.flows[flow].hpcc, r.keys[0].hpcc
    fullest, elapsed = 0.0, 0
    for i in range(r.packets[packet].hops):
        hop, known = r.telemetry[packet, i], r.known[flow, i]
        tau = _difference(hop.time, known.time, 1, keys.time_bits)
        sent = _difference(hop.bytes, known.bytes, keys.byte_unit, keys.byte_bits)
        queue = min(_decode_queue(r, hop.queue), _decode_queue(r, known.queue))
        seconds = tau * (1.0 / r.settings.ticks)
        u = sent * 8 / seconds / hop.rate + float(queue) * f.line_rate / hop.rate / f.window
        if u > fullest:
            fullest, elapsed = u, tau
    _remember(r, flow, packet)
    elapsed = min(elapsed, f.round_trip)
    own.utilisation = (own.utilisation * (f.round_trip - elapsed) + fullest * elapsed) / float(
        f.round_trip
    )
    return own.utilisation / keys.eta


@inlined
def _rate(r: Run, flow: int, over: float, new_round: bool) -> int:
    """Return the new rate: scaled down by utilisation, or raised by one additive step.

    It is scaled if the path is full, or after enough additive steps.
    """
    f, own, keys = r.flows[flow], r.flows[flow].hpcc, r.keys[0].hpcc
    if over >= 1 or own.raises >= keys.stages:
        rate, stage = int(own.target / over) + keys.add, 0
    else:
        rate, stage = own.target + keys.add, own.raises + 1
    rate = min(max(rate, keys.least), f.line_rate)
    if new_round:
        own.target = rate
        own.raises = stage
    return rate
