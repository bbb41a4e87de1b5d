"""DCTCP (Alizadeh et al., SIGCOMM 2010), applied to the sending rate instead of a window.

Once per round trip, a sender reduces its rate in proportion to the fraction of ACKs that echo an
ECN mark.
"""

from dataclasses import dataclass

from dimsweep.engine.cluster.transports import BitRate, Transport
from dimsweep.engine.kernels.packet.hooks import ignore
from dimsweep.engine.kernels.packet.kernel import set_rate
from dimsweep.engine.kernels.packet.state import Run, inlined


@dataclass(frozen=True)
class Dctcp(Transport):
    """DCTCP. The defaults follow the study of RoCE for training clusters (Khan et al., 2022)."""

    gain: float = 1 / 256  # of alpha
    add: BitRate = 1_000_000_000  # each round trip without a mark
    least: BitRate = 100_000_000

    name = "dctcp"
    state = (
        ("alpha", "f8"),  # the estimated share of marks
        ("round_end", "i8"),  # bytes whose ACK ends this round trip
        ("cut_until", "i8"),  # bytes whose ACK allows the next cut
        ("packets", "i8"),  # of this round trip
        ("marked", "i8"),  # of this round trip
        ("has_cut", "i1"),  # in this round trip
    )
    header = 0
    telemetry = False
    fairness = 0.95
    needs_window = False
    above_zero = ("least",)
    at_most = (("gain", 1),)

    on_send = on_mark = on_timer = on_end = staticmethod(ignore)

    @staticmethod
    @inlined
    def on_start(r: Run, flow: int, _: int) -> None:
        """Set the estimated fraction of marked packets to 1 until the first measurement."""
        r.flows[flow].dctcp.alpha = 1.0

    @staticmethod
    @inlined
    def on_ack(r: Run, flow: int, packet: int) -> None:
        """Update the marked fraction once a round trip; reduce the rate at its first mark."""
        f, own, k, keys = r.flows[flow], r.flows[flow].dctcp, r.packets[packet], r.keys[0].dctcp
        own.marked += k.marked
        new_round = k.upto > own.round_end
        if new_round:
            if own.round_end > 0:
                share = min(1.0, own.marked / own.packets)
                own.alpha = (1 - keys.gain) * own.alpha + keys.gain * share
                own.marked = 0
                own.packets = (f.sent - k.upto) // r.settings.payload + 1
            else:
                own.packets = f.sent // r.settings.payload + 1
            own.round_end = f.sent
        if own.has_cut and k.upto > own.cut_until:
            own.has_cut = 0
        if k.marked and own.has_cut == 0:
            set_rate(r, flow, max(int(f.rate * (1 - own.alpha / 2)), keys.least))
            own.has_cut = 1  # cut already, until what was sent before is acknowledged
            own.cut_until = f.sent
        if own.has_cut == 0 and new_round:
            set_rate(r, flow, min(f.rate + keys.add, f.line_rate))
