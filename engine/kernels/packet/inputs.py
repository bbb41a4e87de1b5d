"""What the packet kernel simulates flows on: ports, links and switches; and what a person chooses
for a run."""

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from dimsweep.engine.cluster.transports import Transport
from dimsweep.engine.errors import DimsweepError

_LARGEST = (1 << 63) - 1
MOST_PRIORITIES = 8  # as Ethernet has them (IEEE 802.1Q)


class Marking(NamedTuple):
    """When a switch marks what leaves a port (ECN, as RED does it without averaging).

    Never while at most ``start`` bytes wait behind it, always above ``full``, and in between with a
    probability that rises to ``most``.
    """

    start: int
    full: int
    most: float


class Port(NamedTuple):
    """One end of a link, which sends to the other.

    ``rate`` is bits a second, ``delay`` ticks.  What comes in by a switch's port may take from the
    buffer that its ports share up to the free share / 2^``shift``, and ``headroom`` bytes on top.
    Each priority has this headroom, and the marking looks at its own queue.
    Where switches drop instead of pausing, that share is of what waits to leave, ``shift`` may be
    below zero (most of the buffer for one port), and ``headroom`` means nothing; ``room`` bytes
    may wait there at most.
    """

    node: int
    to: int
    rate: int
    delay: int
    marking: Marking | None = None
    headroom: int = 0
    shift: int = 3
    room: int = 1 << 61


class Fabric(NamedTuple):
    """Ports, and the buffer of each switch in bytes; every other node is a host.

    Between two nodes there is one link at most, and each link has a port at both ends.
    """

    ports: Sequence[Port]
    buffers: dict[int, int]


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
    trims: bool = False  # or cut its payload, and send the header on in the highest priority
    priorities: int = 1  # of flows; each has its own queues, reserves, headroom and pauses
    ack_priority: int = -1  # of all ACKs; below 0: that of their flow
    reserve: int = 4096  # of each port's ingress, in each priority, that do not count
    resume_below: int = 3072  # the threshold
    vary_window: bool = True  # with the rate
    wake: int = Wake.ABLE
    after_arrival: bool = True  # flows wait until others have arrived; else until senders know
    until: int = 1 << 62  # tick after which nothing happens any more
    draws_per_frame: int = 0  # random numbers that a pause frame uses up


def check_fabric(fabric: Fabric) -> None:
    """Raises :class:`DimsweepError` naming the link that there cannot be."""
    ends = Counter((port.node, port.to) for port in fabric.ports)
    for port in fabric.ports:
        _check_port(port, ends)


def check_settings(fabric: Fabric, settings: Settings) -> None:
    """Raises :class:`DimsweepError` naming the switch, port or setting that cannot be simulated."""
    largest = settings.payload + settings.data_header
    if settings.payload <= 0 or 32 * largest * settings.ticks > _LARGEST:
        raise DimsweepError(
            f"a payload of {settings.payload} bytes",
            hint=f"1 to {_LARGEST // (32 * settings.ticks) - settings.data_header} bytes",
        )
    if not 1 <= settings.priorities <= MOST_PRIORITIES:
        told = f"{settings.priorities} priorities"
        raise DimsweepError(told, where="priorities", hint=f"1 to {MOST_PRIORITIES}")
    if settings.ack_priority >= settings.priorities:
        told = f"priority {settings.ack_priority} of {settings.priorities}, counted from 0"
        raise DimsweepError(told, where="ack_priority")
    if settings.trims and (settings.pauses or settings.ack_priority < 1):
        raise DimsweepError(
            "headers of what is trimmed have no priority of their own, or nothing is trimmed",
            where="trims",
            hint="pauses=False, and ack_priority the highest of two or more",
        )
    for switch, shared in shared_buffers(fabric, settings).items():
        if shared <= 0:
            raise DimsweepError(
                f"the headroom and the reserves of its ports take more than its buffer of "
                f"{fabric.buffers[switch]} bytes, by {-shared}",
                where=f"switch {switch}",
                hint="a larger buffer, or links that are slower, shorter or fewer",
            )
        if fabric.buffers[switch] < largest:
            told = f"its buffer of {fabric.buffers[switch]} bytes holds no packet of {largest}"
            raise DimsweepError(told, where=f"switch {switch}")
    for port in fabric.ports:
        if port.node in fabric.buffers and port.room < largest:
            told = f"its room of {port.room} bytes holds no packet of {largest}"
            raise DimsweepError(told, where=f"link {port.node} - {port.to}")
        if settings.pauses and port.shift < 0:
            told = "where switches pause, the shift is 0 or more"
            raise DimsweepError(told, where=f"link {port.node} - {port.to}")


def shared_buffers(fabric: Fabric, settings: Settings) -> dict[int, int]:
    """Bytes that the ports of each switch share: what headroom and reserves leave."""
    left = dict(fabric.buffers)
    for port in fabric.ports:
        if settings.pauses and port.node in left:
            left[port.node] -= settings.priorities * (port.headroom + settings.reserve)
    return left


def _check_port(port: Port, ends: Counter[tuple[int, int]]) -> None:
    where = f"link {port.node} - {port.to}"
    if (port.to, port.node) not in ends:
        raise DimsweepError("the link leads one way only", where=where, hint="ACKs must return")
    if ends[port.node, port.to] > 1:
        raise DimsweepError("the link is there twice", where=where, hint="one, of the sum's rate")
    if port.rate <= 0 or port.delay < 0 or port.headroom < 0 or abs(port.shift) > 16:
        raise DimsweepError(f"no such link: {port}", where=where, hint="a rate above zero")
    marking = port.marking
    if marking and not (0 <= marking.start < marking.full and 0 <= marking.most <= 1):
        raise DimsweepError(
            f"marking from {marking.start} to {marking.full} bytes, at most {marking.most}",
            where=where,
            hint="it starts (KMIN) below where it is full (KMAX), with a probability of 0 to 1",
        )
