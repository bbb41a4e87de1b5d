"""The self-check of a transport, packet by packet."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dimsweep.engine.cluster.transports import Transport, transport_of
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.packet import (
    Fabric,
    Flow,
    Marking,
    PacketRun,
    Port,
    Settings,
    simulate_packets,
)
from dimsweep.engine.kernels.packet.tcp import Tcp
from dimsweep.engine.testing import findings

_US, _MB = 10**6, 10**6  # ticks (ps), bytes
_PAYLOAD, _HEADER, _ACK = 1000, 48, 60  # bytes
_ALONE = 0.9  # of its line's rate that a flow alone has at least
_SWITCH = 99


class Star(NamedTuple):
    """Hosts around a switch, of which the last one receives; bits a second, ticks and bytes."""

    hosts: int
    rate: int = 100 * 10**9
    delay: int = _US
    buffer: int = 32 * _MB
    pauses: bool = True

    def to_send(self, n_bytes: int) -> int:
        """Ticks on a link."""
        return 8 * n_bytes * 10**12 // self.rate

    def flow(self, host: int, size: int, start: int = 0, *, window: bool = True) -> Flow:
        """Its window is what the line carries in three halves of a round trip."""
        way = (host, _SWITCH, self.hosts - 1)
        round_trip = 4 * self.delay + 2 * self.to_send(_PAYLOAD + _HEADER) + 2 * self.to_send(_ACK)
        room = 3 * round_trip * self.rate // (16 * 10**12) if window else None
        return Flow(size, way, way[::-1], start, window=room, round_trip=round_trip)

    def run(self, transport: Transport, flows: Sequence[Flow], **options: Any) -> PacketRun:
        """Simulate ``flows`` with ``transport``."""
        marking = Marking(20_000, 80_000, 0.2)
        headroom = 3 * self.rate * self.delay // (8 * 10**12) if self.pauses else 0
        ports = []
        for host in range(self.hosts):
            ports.append(Port(host, _SWITCH, self.rate, self.delay))
            back = Port(_SWITCH, host, self.rate, self.delay, marking, headroom)
            ports.append(back if self.pauses else back._replace(shift=-16))
        header = _HEADER + transport.header
        settings = Settings(transport, data_header=header, ack_size=_ACK, pauses=self.pauses)
        return simulate_packets(Fabric(ports, {_SWITCH: self.buffer}), flows, settings, **options)


def check_transport(name: str) -> None:
    """Hold a registered transport against what all of them must be able to.

    A flow alone has 0.9 of its line's rate at least, and is no faster than its packets one after
    another; the slower of two long flows sends ``fairness`` of the faster one's bytes; an incast
    ends and brings every byte once, with pauses, and whatever is dropped where the transport sends
    again; the same flows end at the same time when they are simulated again; and some other value
    of every key makes some flow end at another time.

    Raises :class:`DimsweepError` that says what does not hold.
    """
    findings.told(_findings(transport_of(name)), f"transport {name}")


def _findings(transport: Transport) -> Iterator[str]:
    try:
        yield from _alone(transport)
        yield from _fair(transport)
        yield from _incast(transport, Star(13, buffer=600_000))
        if transport.speaks_tcp:
            yield from _incast(transport, Star(13, buffer=20_000, pauses=False))
    except DimsweepError as error:  # flows that never end
        yield f"{error.what}"
        return
    for field in dataclasses.fields(transport):
        if not _matters(transport, field.name):
            yield f"its key {field.name!r} changes nothing"


def _alone(transport: Transport) -> Iterator[str]:
    """Packets one after another, and the last one's way over the second link."""
    star, n_packets = Star(2), 10_000
    flow = star.flow(0, n_packets * _PAYLOAD, window=not transport.speaks_tcp)
    took = int(star.run(transport, [flow]).arrivals[0])
    tick = star.to_send(_PAYLOAD + _HEADER + transport.header)
    least = (n_packets + 1) * tick + 2 * star.delay
    if not least <= took <= least / _ALONE:
        yield f"a flow alone takes {took / _US:.0f} us, and its packets {least / _US:.0f} us"


def fairness_of(transport: Transport) -> float:
    """Bytes of the slower one of two flows, as a share of the faster one's: in the second half of
    the time that 80 MB take of the one that begins first.

    Those that send again do so over a switch that drops, with a time-out as data centres set it.
    """
    star, window = Star(3), not transport.speaks_tcp
    if isinstance(transport, Tcp):
        star = Star(3, 10**10, 10 * _US, buffer=200_000, pauses=False)
        transport = dataclasses.replace(transport, least_rto=1000 * _US, granularity=_US)
    flows = [star.flow(host, 80 * _MB, host * 100 * _US, window=window) for host in range(2)]
    ports = [(host, _SWITCH) for host in range(2)]
    run = star.run(transport, flows, watch=ports)
    times = np.array([run.arrivals.min() // 2, run.arrivals.min()])
    slower, faster = sorted(int(np.diff(run.histories[port].sent_by(times))[0]) for port in ports)
    return slower / faster


def _fair(transport: Transport) -> Iterator[str]:
    found = fairness_of(transport)
    if found < transport.fairness:
        told = f"the slower of two long flows sends {found:.2f} of what the faster one does"
        yield f"{told}, and its fairness is said to be {transport.fairness:g}"


def _incast(transport: Transport, star: Star) -> Iterator[str]:
    n, size = star.hosts - 1, 300_000
    flows = [star.flow(host, size, window=not transport.speaks_tcp) for host in range(n)]
    run, again = (star.run(transport, flows) for _ in range(2))
    if (run.ends != again.ends).any() or run.events != again.events:
        yield "the same flows end at other times when they are simulated again"
    (port,) = (port for port in run.ports if (port.node, port.to) == (_SWITCH, n))
    n_bytes = n * (size + size // _PAYLOAD * (_HEADER + transport.header))
    again_allowed = transport.speaks_tcp and not star.pauses
    if port.data_bytes < n_bytes or (port.data_bytes > n_bytes and not again_allowed):
        yield f"of an incast of {n_bytes:,} bytes {port.data_bytes:,} arrive"


def _matters(transport: Transport, key: str) -> bool:
    """Whether some other value of a key makes some flow end at another time."""
    for star, flows in _situations(transport):
        usual = star.run(transport, flows).ends
        for value in others(getattr(transport, key)):
            try:
                other = dataclasses.replace(transport, **{key: value})
            except DimsweepError:
                continue  # not every number is a value
            if (star.run(other, flows).ends != usual).any():
                return True
    return False


def others(value: Any) -> Iterator[Any]:
    """Other values of a key, near and far."""
    if isinstance(value, bool):
        yield not value
        return
    for factor in (2, 0.5, 1e3, 1e-3, 1e6):
        yield type(value)(value * factor)
    yield from (value + 1, value + 8)


def _situations(transport: Transport) -> Iterator[tuple[Star, list[Flow]]]:
    """Flows that share a port, and in the end have it for themselves; of transports that send
    again, those that lose whole windows, and two that are far away."""
    if not transport.speaks_tcp:
        star = Star(5)
        yield star, [star.flow(host, _MB) for host in range(4)]
        window = transport.needs_window
        sizes = enumerate((4 * _MB, 8 * _MB, 12 * _MB, 30 * _MB))
        yield star, [star.flow(host, size, window=window) for host, size in sizes]
        return
    star = Star(13, buffer=4_000, pauses=False)
    flows = [star.flow(host, 200_000, window=False) for host in range(12)]
    yield star, [flow._replace(round_trip=0) for flow in flows]
    far = Star(3, 10**8, 5000 * _US, buffer=100_000, pauses=False)
    yield far, [far.flow(host, 10 * _MB, window=False) for host in range(2)]
