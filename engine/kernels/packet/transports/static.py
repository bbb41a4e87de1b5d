"""The static transport: no reaction to congestion, except for a window and pause frames."""

from dataclasses import dataclass

from dimsweep.engine.cluster.transports import Transport
from dimsweep.engine.kernels.packet.hooks import ignore


@dataclass(frozen=True)
class Static(Transport):
    """Every flow sends at the rate of its link, limited by its window and pauses only."""

    name = "static"
    state = ()
    header = 0
    telemetry = False
    fairness = 0.99
    needs_window = False

    on_start = on_send = on_mark = on_ack = on_timer = on_end = staticmethod(ignore)
