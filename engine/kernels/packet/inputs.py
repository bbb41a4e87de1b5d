"""What the packet kernel simulates: ports, and flows between hosts."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from engine.errors import DimsweepError
from engine.kernels.packet.settings import Settings, Transport


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
    """

    node: int
    to: int
    rate: int
    delay: int
    marking: Marking | None = None
    headroom: int = 0
    shift: int = 3


class Flow(NamedTuple):
    """``size`` bytes that a host sends to another one.

    It starts ``start`` ticks after the last of the flows ``after`` has ended (at its sender), or
    after the beginning.  ``way`` are the nodes that its data pass, ``way_back`` those that its ACKs
    pass, hosts included; packets take the ways (and ways back) of ``sprayed``, too, all in turn.
    ``window`` bytes may be under way (``None``: any number).  ``round_trip`` is the ticks that HPCC
    smooths over, and to which Swift adds what may queue.
    """

    size: int
    way: tuple[int, ...]
    way_back: tuple[int, ...]
    start: int = 0
    after: tuple[int, ...] = ()
    window: int | None = None
    round_trip: int = 0
    sprayed: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()


def ways_of(flow: Flow) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """All ways of a flow's packets, each with the way back of its ACK."""
    return ((flow.way, flow.way_back), *flow.sprayed)


class Fabric(NamedTuple):
    """Ports, and the buffer of each switch in bytes; every other node is a host.

    Between two nodes there is one link at most, and each link has a port at both ends.
    """

    ports: Sequence[Port]
    buffers: dict[int, int]


def check(fabric: Fabric, flows: Sequence[Flow], settings: Settings) -> None:
    """Raises :class:`DimsweepError` naming the port, switch or flow that cannot be simulated."""
    check_flows(fabric, flows)
    for switch in fabric.buffers:
        shared = shared_buffer(fabric, switch, settings.reserve)
        if shared <= 0:
            raise DimsweepError(
                f"the headroom and the reserves of its ports take more than its buffer of "
                f"{fabric.buffers[switch]} bytes, by {-shared}",
                where=f"switch {switch}",
                hint="a larger buffer, or links that are slower, shorter or fewer",
            )
    if settings.payload <= 0:
        raise DimsweepError(
            f"a payload of {settings.payload} bytes", hint="a packet carries some bytes"
        )
    if settings.transport in (Transport.HPCC, Transport.SWIFT):
        _check_windows(Transport(settings.transport), flows)


def _check_windows(transport: Transport, flows: Sequence[Flow]) -> None:
    """Both relate what they measure to a window and a round trip."""
    for i, flow in enumerate(flows):
        if flow.window is None or flow.round_trip <= 0:
            raise DimsweepError(
                f"{transport.name} needs the flow's window and its round trip",
                where=f"flow {i}",
                hint="window in bytes (the bandwidth-delay product), round_trip in ticks",
            )


def check_flows(fabric: Fabric, flows: Sequence[Flow]) -> None:
    """Raises :class:`DimsweepError` naming the link or the flow that there cannot be."""
    ends = {(port.node, port.to) for port in fabric.ports}
    for port in fabric.ports:
        _check_port(port, ends)
    for i, flow in enumerate(flows):
        _check_flow(i, flow, ends, len(flows))


def shared_buffer(fabric: Fabric, switch: int, reserve: int) -> int:
    """Bytes that the ports of ``switch`` share: what headroom and reserves leave."""
    own = [port.headroom + reserve for port in fabric.ports if port.node == switch]
    return fabric.buffers[switch] - sum(own)


def _check_port(port: Port, ends: set[tuple[int, int]]) -> None:
    where = f"link {port.node} - {port.to}"
    if (port.to, port.node) not in ends:
        raise DimsweepError("the link leads one way only", where=where, hint="ACKs must return")
    if port.rate <= 0 or port.delay < 0 or port.headroom < 0 or port.shift < 0:
        raise DimsweepError(f"no such link: {port}", where=where, hint="a rate above zero")
    marking = port.marking
    if marking and not (0 <= marking.start < marking.full and 0 <= marking.most <= 1):
        raise DimsweepError(
            f"marking from {marking.start} to {marking.full} bytes, at most {marking.most}",
            where=where,
            hint="it starts (KMIN) below where it is full (KMAX), with a probability of 0 to 1",
        )


def _check_flow(i: int, flow: Flow, ends: set[tuple[int, int]], n: int) -> None:
    where = f"flow {i}"
    if flow.size <= 0 or flow.start < 0:
        raise DimsweepError(f"{flow.size} bytes from tick {flow.start} on", where=where)
    if flow.window is not None and flow.window <= 0:
        raise DimsweepError(f"a window of {flow.window} bytes", where=where)
    late = [other for other in flow.after if not 0 <= other < n or other == i]
    if late:
        raise DimsweepError(f"it waits for flow {late[0]}, which there is not", where=where)
    for way, back in ways_of(flow):
        if (way[0], way[-1], way[-1], way[0]) != (flow.way[0], flow.way[-1], back[0], back[-1]):
            raise DimsweepError("its ACKs do not go back to its sender", where=where)
        if (way[1], back[1]) != (flow.way[1], flow.way_back[1]):
            raise DimsweepError("its ways do not begin at the same port", where=where)
        for pair in (*pairwise(way), *pairwise(back)):
            if pair not in ends:
                raise DimsweepError(f"there is no link {pair[0]} - {pair[1]}", where=where)
