"""No answer to congestion at all, beyond a window and pauses."""

from dataclasses import dataclass

from dimsweep.engine.cluster.transports import Transport
from dimsweep.engine.kernels.packet.hooks import nothing


@dataclass(frozen=True)
class Static(Transport):
    """Every flow sends at the rate of its link, as its window and pauses let it."""

    name = "static"
    state = ()
    header = 0
    telemetry = False
    fairness = 0.99
    needs_window = False

    on_start = on_send = on_mark = on_ack = on_timer = on_end = staticmethod(nothing)
