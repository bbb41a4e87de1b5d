"""What a person chooses for a run of the packet kernel."""

from enum import IntEnum
from typing import NamedTuple

from dimsweep.engine.cluster.transports import Transport


class Wake(IntEnum):
    """Which queue pairs a network card waits for when none may send by its rate.

    ``ABLE``: those whose window is open; ``UNSENT``: all with bytes left; ``ALL``: all that it
    serves.  With the last two the card may miss a turn, as some real simulators do.
    """

    ABLE = 0
    UNSENT = 1
    ALL = 2


class Stop(IntEnum):
    """What stops a run, in bits: nothing, a flow that has arrived, or also that its sender knows,
    or also that its last packet begins to leave."""

    NEVER = 0b000
    ARRIVAL = 0b001
    ACKNOWLEDGED = 0b011
    DEPARTURE = 0b101


class Settings(NamedTuple):
    """What holds for a whole run; sizes in bytes."""

    transport: Transport | str = "static"  # with its keys, or its name alone
    ticks: int = 10**12  # a second
    payload: int = 1000  # of a full packet
    data_header: int = 48
    ack_size: int = 60
    frame_size: int = 64
    pauses: bool = True  # whether switches pause who sends; if not, they drop what has no room
    priorities: int = 1  # of flows; each has its own queues, reserves, headroom and pauses
    ack_priority: int = -1  # of all ACKs; below 0: that of their flow
    reserve: int = 4096  # of each port's ingress, in each priority, that do not count
    resume_below: int = 3072  # the threshold
    vary_window: bool = True  # with the rate
    wake: int = Wake.ABLE
    after_arrival: bool = True  # flows wait until others have arrived; else until senders know
    until: int = 1 << 62  # tick after which nothing happens any more
    draws_per_frame: int = 0  # random numbers that a pause frame uses up
