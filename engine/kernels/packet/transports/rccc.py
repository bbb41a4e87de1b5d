"""RCCC of Ultra Ethernet: receivers grant credits to senders (UE 1.0, CMS).

Defaults are those of ultraethernet/uet-htsim (commit 40ccb05).
"""

from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.packet import credits
from dimsweep.engine.kernels.packet.hooks import ignore
from dimsweep.engine.kernels.packet.rud import Rud, ask_for_credit
from dimsweep.engine.kernels.packet.state import Run, inlined

_ANY = 1 << 62  # bytes
_LEAST = {"grant": credits.QUANTUM, "share": 0.01, "least": 0.01}  # credit comes at last


@dataclass(frozen=True)
class Rccc(Rud):
    """RCCC; ``most_credit`` is a sender's initial and maximum credit in bandwidth-delay products.

    A receiver grants ``grant`` bytes per credit packet, at the fraction ``share`` of its link's
    rate. With ``least`` below 1 it lowers its rate down to that fraction when marks or trimmed
    packets show a congested network (0.9 / the oversubscription).
    """

    most_credit: float = 1.5
    grant: int = 16384
    share: float = 0.99
    least: float = 1.0

    name = "rccc"
    state = ()
    gives_credits = True
    fairness = 0.8
    above_zero = (*Rud.above_zero, "most_credit")
    at_most = (*Rud.at_most, ("most_credit", 1000), ("grant", 1 << 30), ("share", 1), ("least", 1))

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, least in _LEAST.items():
            if (value := getattr(self, key)) < least:
                problem = f"{value}; it must be {least} or more"
                raise DimsweepError(problem, where=key, code="out-of-range")

    on_send = on_mark = on_timer = on_end = staticmethod(ignore)

    @staticmethod
    @inlined
    def on_start(r: Run, flow: int, _: int) -> None:
        """Start with the maximum credit and without a window."""
        c, f, mtu = r.credits[flow], r.flows[flow], r.settings.payload + r.settings.data_header
        c.most = max(int(r.keys[0].rccc.most_credit * f.window), mtu)
        c.credit = c.most
        c.is_first = 1
        f.allowed = _ANY

    @staticmethod
    @inlined
    def on_ack(r: Run, flow: int, packet: int) -> None:
        """Void the rest of the flow's initial credit."""
        credits.note_answer(r, flow)

    @staticmethod
    @inlined
    def shrink(r: Run, flow: int, n_bytes: int) -> None:
        """Void the rest of the flow's initial credit after a NACK."""
        credits.note_answer(r, flow)

    @staticmethod
    @inlined
    def time_out(r: Run, flow: int, n_bytes: int) -> None:
        """Request credit if the flow has none, after a packet timed out."""
        if r.rud[flow].n_lost > 0:
            credits.note_answer(r, flow)
        if r.credits[flow].credit <= 0:
            ask_for_credit(r, flow)
