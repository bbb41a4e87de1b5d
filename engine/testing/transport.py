"""The self-check of a packet transport: rate, fairness, loss, and the effect of each setting."""

import dataclasses
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from dimsweep.engine.cluster.transports import Transport, build_transport
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
from dimsweep.engine.testing.agreement import raise_findings

_US, _MB = 10**6, 10**6  # ticks (ps), bytes
_PAYLOAD, _HEADER, _ACK = 1000, 48, 60  # bytes
_ALONE = 0.9  # of its line's rate that a flow alone has at least
_SWITCH, _FAR, _BETWEEN = 99, 98, (97, 96, 95)


class Star(NamedTuple):
    """A test network: hosts around a switch, of which the last one receives (bits/s, ticks, bytes).

    With ``forks`` the receiver is behind a separate switch, to which three others lead.
    """

    hosts: int
    rate: int = 100 * 10**9
    delay: int = _US
    buffer: int = 32 * _MB
    pauses: bool = True
    forks: bool = False

    def to_send(self, n_bytes: int) -> int:
        """Return the ticks that a link takes to send ``n_bytes``."""
        return 8 * n_bytes * 10**12 // self.rate

    def flow(self, host: int, size: int, start: int = 0, *, window: bool = True) -> Flow:
        """Return a flow from ``host`` to the receiver; its window is 1.5 times rate times delay."""
        last = self.hosts - 1
        ways: list[tuple[int, ...]] = [(host, _SWITCH, last)]
        if self.forks:
            ways = [(host, _SWITCH, between, _FAR, last) for between in _BETWEEN]
        hop = self.delay + self.to_send(_PAYLOAD + _HEADER)
        hop += self.delay + self.to_send(_ACK)
        round_trip = (len(ways[0]) - 1) * hop
        room = 3 * round_trip * self.rate // (16 * 10**12) if window else None
        first, *others = ((way, way[::-1]) for way in ways)
        return Flow(size, *first, start, window=room, round_trip=round_trip, sprayed=tuple(others))

    def run(self, transport: Transport, flows: Sequence[Flow], **options: Any) -> PacketRun:
        """Simulate ``flows`` with ``transport``."""
        header, trims = _HEADER + transport.header, transport.takes_trimmed and not self.pauses
        settings = Settings(transport, data_header=header, ack_size=_ACK, pauses=self.pauses)
        if trims:
            settings = settings._replace(trims=True, priorities=2, ack_priority=1)
        return simulate_packets(self._fabric(), flows, settings, **options)

    def _fabric(self) -> Fabric:
        links = [(host, _SWITCH) for host in range(self.hosts - self.forks)]
        if self.forks:
            links += [(self.hosts - 1, _FAR)]
            links += [(end, between) for between in _BETWEEN for end in (_SWITCH, _FAR)]
        marking = Marking(20_000, 80_000, 0.2)
        headroom = 3 * self.rate * self.delay // (8 * 10**12) if self.pauses else 0
        port = Port(0, 0, self.rate, self.delay, marking, headroom, 3 if self.pauses else -16)
        ports = []
        for one, other in links:
            ports.append(port._replace(node=one, to=other))
            ports.append(port._replace(node=other, to=one))
            if one < self.hosts:
                ports[-2] = Port(one, other, self.rate, self.delay)
        switches = (_SWITCH, _FAR, *_BETWEEN) if self.forks else (_SWITCH,)
        return Fabric(ports, dict.fromkeys(switches, self.buffer))


def check_transport(name: str) -> None:
    """Check a registered transport against the requirements of all transports.

    A single flow has at least 0.9 of its line's rate, and is no faster than its packets one after
    another; the slower of two long flows sends ``fairness`` of the faster one's bytes; an incast
    ends and delivers every byte once, with pauses (unless the transport needs trimming), and with
    drops or trims if it retransmits; the same flows end at the same times in a second simulation;
    and some other value of every key changes the end of some flow.

    Raises :class:`DimsweepError` with the violations.
    """
    raise_findings(_findings(build_transport(name)), f"transport {name}")


def _findings(transport: Transport) -> Iterator[str]:
    try:
        yield from _single_flow(transport)
        yield from _fair(transport)
        if not transport.takes_trimmed:
            yield from _incast(transport, Star(13, buffer=600_000))
        if transport.resends:
            yield from _incast(transport, Star(13, buffer=20_000, pauses=False))
    except DimsweepError as error:  # flows that never end
        yield f"{error.problem}"
        return
    for field in dataclasses.fields(transport):
        if not _matters(transport, field.name):
            yield f"its key {field.name!r} changes nothing"


def _single_flow(transport: Transport) -> Iterator[str]:
    """Yield the faults of a single flow: it must be near its link's rate, and not above it."""
    star, n_packets = Star(2), 10_000
    flow = star.flow(0, n_packets * _PAYLOAD, window=not transport.speaks_tcp)
    took = int(star.run(transport, [flow]).arrivals[0])
    tick = star.to_send(_PAYLOAD + _HEADER + transport.header)
    least = (n_packets + 1) * tick + 2 * star.delay
    if not least <= took <= least / _ALONE:
        yield f"a flow alone takes {took / _US:.0f} us, and its packets {least / _US:.0f} us"


def fairness_of(transport: Transport) -> float:
    """Return the fairness of two long flows: the slower one's bytes over the faster one's bytes.

    They are counted in the second half of the time in which the flow that starts first sends 80 MB.
    Transports that retransmit run over a switch that drops, with the time-out of data centres.
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
        shares = f"the slower of two long flows sends {found:.2f} times the bytes of the faster one"
        yield f"{shares}, but its fairness is declared as {transport.fairness:g}"


def _incast(transport: Transport, star: Star) -> Iterator[str]:
    n, size = star.hosts - 1, 300_000
    flows = [star.flow(host, size, window=not transport.speaks_tcp) for host in range(n)]
    run, again = (star.run(transport, flows) for _ in range(2))
    if (run.ends != again.ends).any() or run.events != again.events:
        yield "a second simulation of the same flows ends them at other times"
    (port,) = (port for port in run.ports if (port.node, port.to) == (_SWITCH, n))
    n_bytes = n * (size + size // _PAYLOAD * (_HEADER + transport.header))
    again_allowed = transport.resends and not star.pauses
    if port.data_bytes < n_bytes or (port.data_bytes > n_bytes and not again_allowed):
        yield f"{port.data_bytes:,} of the {n_bytes:,} bytes of an incast arrive"


def _matters(transport: Transport, key: str) -> bool:
    """Return whether another value of field ``key`` changes the end of some flow."""
    for star, flows in _situations(transport):
        usual = star.run(transport, flows).ends
        for value in other_values(getattr(transport, key)):
            try:
                other = dataclasses.replace(transport, **{key: value})
            except DimsweepError:
                continue  # not every number is a value
            if (star.run(other, flows).ends != usual).any():
                return True
    return False


def other_values(value: Any) -> Iterator[Any]:
    """Yield values other than ``value`` for a setting, near and far from it."""
    if isinstance(value, bool):
        yield not value
        return
    if isinstance(value, Enum):
        yield from (other for other in type(value) if other is not value)
        return
    for factor in (2, 0.5, 1e3, 1e-3, 1e6):
        yield type(value)(value * factor)
    yield from (value + 1, value + 8)


def _situations(transport: Transport) -> Iterator[tuple[Star, list[Flow]]]:
    """Yield networks with flows that share a port; the last flow has its port to itself.

    Transports that retransmit also lose whole windows, and run over a long distance.
    """
    if transport.takes_trimmed:
        yield from _trimmed_situations()
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


def _trimmed_situations() -> Iterator[tuple[Star, list[Flow]]]:
    """Yield networks with flows on several routes, and an incast whose headers are dropped."""
    star = Star(5, buffer=200_000, pauses=False, forks=True)
    yield star, [star.flow(host, _MB) for host in range(4)]
    star = Star(13, buffer=4_000, pauses=False)
    yield star, [star.flow(host, 200_000) for host in range(12)]
