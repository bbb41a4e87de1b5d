"""A window that follows marks and delays, in four cases (as Ultra Ethernet's NSCC has them).

    dimsweep simulate plugins=examples/plugins/four_cases.py fidelity=packet ... \\
        network.packets.transport='{kind: four_cases, delay: 2 us, gain: 0.5}'
"""

from dataclasses import dataclass

from dimsweep.engine.cluster.transports import Ticks, Transport
from dimsweep.engine.kernels.packet.state import Run, inlined
from dimsweep.engine.kernels.packet.transports import ignore, register


@dataclass(frozen=True)
class FourCases(Transport):
    """Shrinks where delays and marks agree, stands where only marks tell, and else grows."""

    delay: Ticks = 6_000_000  # that may be queued (ps)
    gain: float = 0.8  # of the delay beyond it
    fair: float = 0.25  # packets a round trip where only delays tell
    quick: float = 2.0  # packets a round trip where neither tells

    name = "four_cases"
    state = (
        ("window", "f8"),  # bytes
        ("cut_at", "i8"),  # when it shrank
    )
    header = 0
    telemetry = False
    fairness = 0.9
    needs_window = True
    above_zero = ("delay",)
    at_most = (("gain", 1),)

    on_send = on_mark = on_timer = on_end = staticmethod(ignore)

    @staticmethod
    @inlined
    def on_start(r: Run, flow: int, _: int) -> None:
        """As wide as the flow's window."""
        r.flows[flow].four_cases.window = r.flows[flow].window

    @staticmethod
    @inlined
    def on_ack(r: Run, flow: int, packet: int) -> None:
        """Follow what this ACK tells."""
        f, k, payload = r.flows[flow], r.packets[packet], r.settings.payload
        own, keys, now = f.four_cases, r.keys[0].four_cases, r.agenda.counts[0].now
        queued = now - k.stamp - f.round_trip
        if queued < keys.delay and k.marked == 0:
            own.window += keys.quick * payload * payload / own.window
        elif k.marked == 0:
            own.window += keys.fair * payload * payload / own.window
        elif queued >= keys.delay and now - own.cut_at >= now - k.stamp:
            own.window *= 1 - keys.gain * (queued - keys.delay) / (queued + f.round_trip)
            own.cut_at = now
        own.window = min(max(own.window, float(payload)), float(f.window))
        f.allowed = int(own.window)


register(FourCases)
