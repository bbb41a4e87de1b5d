"""Links as carriers: each takes one parcel at a time (:mod:`engine.kernels.network.links`)."""

from dimsweep.engine.compiler import inlined
from dimsweep.engine.kernels.core.none import LONGEST, NONE
from dimsweep.engine.kernels.network.clock import next_instant
from dimsweep.engine.kernels.network.events import AT_END, WENT_ON
from dimsweep.engine.kernels.network.links import ask_window, cross
from dimsweep.engine.kernels.network.state import Wires


@inlined
def hand_over(w: Wires, parcel: int, _: int) -> None:
    """A parcel asks for its first link, or for a place in its port's window before."""
    if w.settings.window > 0:
        ask_window(w, parcel)
    else:
        cross(w, parcel, NONE)


@inlined
def advance(w: Wires) -> int:
    """Go to the next instant at which something happens."""
    return WENT_ON if next_instant(w.clock, LONGEST) else AT_END


@inlined
def land(w: Wires, parcel: int) -> bool:
    """Links tell by events of their own when a parcel has left and come."""
    return False
