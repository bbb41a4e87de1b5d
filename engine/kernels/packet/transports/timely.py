"""TIMELY (Mittal et al., SIGCOMM 2015): rate control by the gradient of the round-trip time."""

from dataclasses import dataclass

from dimsweep.engine.cluster.transports import BitRate, Ticks, Transport
from dimsweep.engine.kernels.packet.hooks import ignore
from dimsweep.engine.kernels.packet.kernel import set_rate
from dimsweep.engine.kernels.packet.state import Run, inlined

_STEPS = 5  # additions before they become fast


@dataclass(frozen=True)
class Timely(Transport):
    """TIMELY. The defaults follow the authors' reference code (Khan et al., HotI 2022).

    ``stamped``: 1 if ACKs echo the time at which the data were sent, else 0.
    """

    weight: float = 0.875  # of the newest difference of two round trips
    beta: float = 0.8
    low: Ticks = 50_000_000
    high: Ticks = 500_000_000
    least_round_trip: Ticks = 20_000_000
    add: BitRate = 50_000_000
    add_fast: BitRate = 100_000_000
    least: BitRate = 100_000_000
    stamped: bool = True

    name = "timely"
    state = (
        ("rtt_rise", "f8"),  # the smoothed difference of two round trips, ticks
        ("last_rtt", "i8"),  # ticks
        ("round_end", "i8"),  # bytes whose ACK ends this round trip
        ("target", "i8"),  # the rate before a window varies it: bits a second
        ("raises", "i8"),  # in a row
    )
    header = 8  # when the data were sent
    telemetry = False
    fairness = 0.95
    needs_window = False
    above_zero = ("least_round_trip", "least")
    at_most = (("weight", 1), ("beta", 1))

    on_send = on_mark = on_timer = on_end = staticmethod(ignore)

    @staticmethod
    @inlined
    def on_start(r: Run, flow: int, _: int) -> None:
        """Set a flow's target rate to the link's rate."""
        r.flows[flow].timely.target = r.flows[flow].rate

    @staticmethod
    @inlined
    def on_ack(r: Run, flow: int, packet: int) -> None:
        """Measure the round-trip time once a round trip, and update the rate."""
        f, own, k = r.flows[flow], r.flows[flow].timely, r.packets[packet]
        if k.upto <= own.round_end:
            return
        rtt = r.agenda.counts[0].now - (k.stamp if r.keys[0].timely.stamped else 0)
        if own.round_end > 0:
            _update(r, flow, rtt)
        if f.sent > own.round_end:
            own.round_end = f.sent
            own.last_rtt = rtt


@inlined
def _update(r: Run, flow: int, rtt: int) -> None:
    f, own, keys = r.flows[flow], r.flows[flow].timely, r.keys[0].timely
    own.rtt_rise = (1 - keys.weight) * own.rtt_rise + keys.weight * (rtt - own.last_rtt)
    gradient = own.rtt_rise / keys.least_round_trip
    if rtt < keys.low or (rtt <= keys.high and gradient <= 0):
        step = keys.add if own.raises < _STEPS else keys.add_fast
        own.target = min(own.target + step, f.line_rate)
        own.raises += 1
    else:
        if rtt > keys.high:
            factor = 1 - keys.beta * (1 - keys.high / rtt)
        else:
            factor = max(1 - keys.beta * gradient, 0.0)
        own.target = max(int(own.target * factor), keys.least)
        own.raises = 0
    set_rate(r, flow, own.target)
