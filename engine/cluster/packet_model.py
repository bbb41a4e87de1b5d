"""Packets, switch buffers and congestion control: the settings of the packet kernel."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

from dimsweep.engine.cluster.transports import TRANSPORTS, Transport, build_transport
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.settings import Bounds, Probability, check_settings
from dimsweep.engine.units import BANDWIDTH, BYTES, TIME, Duration, Quantity

_ACK_ROOM = 14  # bytes of an ACK that telemetry may fill (HPCC's authors' format)
_SIZE = Bounds(at_least=1, at_most=2**20, hint="1 B to 1 MiB")
_RTO = Bounds(above=0, at_most=60 * 10**12, hint="TCP's back-off ends at 60 s (RFC 6298)")
_PRIORITIES = Bounds(
    at_least=1,
    at_most=3,
    hint="1 for all alike, 2 for tensor parallelism before all else, or 3 for messages between "
    "stages of a pipeline in between",
)


@dataclass(frozen=True)
class Mark:
    """The marks at ports of a ``rate`` (bits/s).

    The probability of a mark is 0 up to ``kmin`` queued bytes, rises to ``pmax`` at ``kmax``, and
    is 1 above.
    """

    rate: Annotated[int, BANDWIDTH]
    kmin: Annotated[float, BYTES]
    kmax: Annotated[float, BYTES]
    pmax: Probability = 0.2

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.kmin < self.kmax:
            problem = f"{self.kmin:g} bytes; it must be less than kmax, {self.kmax:g} bytes"
            raise DimsweepError(problem, where="kmin", code="out-of-range")


@dataclass(frozen=True)
class PacketModel:
    """Settings of packets, switch buffers and transports (packet kernel only).

    Each message is a separate flow; an ACK answers each of its packets.
    """

    #: Congestion control of senders: the name of a transport, or a mapping of its `kind` and some
    #: of its keys.
    transport: Transport | str = "dcqcn"
    #: Whether a message has at most one bandwidth-delay product in flight. TCP has its own window.
    window: bool = True
    #: Payload bytes of a packet.
    payload: Annotated[float, BYTES, _SIZE] = 1000
    #: Header bytes of a packet, without the transport's telemetry.
    header: Annotated[float, BYTES, _SIZE] = 48
    #: Bytes of an ACK, without the transport's telemetry.
    ack: Annotated[float, BYTES, _SIZE] = 60
    #: Buffer of each switch, shared by its ports: one size, or one for each dimension. A
    #: dimension's value is one size for all its switches, or a list by level from the NPUs up
    #: (leaves, spines).
    buffer: float | tuple[float | tuple[float, ...], ...] = Quantity(32 * 2**20, "32 MiB")
    #: Part of the buffer reserved for each port, for bytes that arrive while a pause travels; null:
    #: three times the bytes in flight on the port's link.
    headroom: Annotated[float, BYTES, Bounds(at_least=0)] | None = None
    #: Bytes behind a departing packet up to which it is never marked; null: by the port's rate.
    kmin: Annotated[float, BYTES, Bounds(at_least=0)] | None = None
    #: Bytes behind a departing packet above which it is always marked; null: by the port's rate.
    kmax: Annotated[float, BYTES] | None = None
    #: Probability of a mark at `kmax`, to which it rises from 0 at `kmin`.
    pmax: Probability = 0.2
    #: Thresholds of each rate of ports, instead of `kmin`, `kmax` and `pmax`.
    marks: tuple[Mark, ...] = ()
    #: Whether switches pause senders (PFC). Without pauses they drop packets when the buffer is
    #: full; only TCP and Ultra Ethernet's transports retransmit. null: pauses for all other
    #: transports.
    pauses: bool | None = None
    #: Whether a switch with a full buffer trims a packet to its header and sends the header with
    #: the highest priority; null: for transports whose receivers request trimmed packets, unless
    #: switches pause senders.
    trim: bool | None = None
    #: Shortest time that TCP's timer waits for an ACK; by default Linux's TCP_RTO_MIN.
    rto_min: Annotated[int, TIME, _RTO] = Duration(200 * 10**9, "200 ms")
    #: Number of traffic classes (IEEE 802.1Q). Each class has separate queues, marks, headroom and
    #: pauses; ports send strictly by priority. Tensor parallelism has the highest; with 3 classes,
    #: messages between pipeline stages have the second.
    priorities: Annotated[int, _PRIORITIES] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "transport", build_transport(self.transport))
        check_settings(self)
        for name in ("payload", "header", "ack"):
            self._check_whole_number(name)
        self._check_buffer(self.buffer, "buffer")
        if (self.kmin is None) != (self.kmax is None):
            raise DimsweepError(
                "give both kmin and kmax, or neither",
                where="kmin" if self.kmin is None else "kmax",
                hint="without them, they follow from the rate of each port",
                code="missing",
            )
        if self.kmin is not None and self.kmax is not None and not self.kmin < self.kmax:
            problem = f"{self.kmin:g} bytes; it must be less than kmax, {self.kmax:g} bytes"
            raise DimsweepError(problem, where="kmin", code="out-of-range")
        if self.marks and self.kmin is not None:
            problem = "give marks, or kmin and kmax, not both"
            raise DimsweepError(problem, where="marks", code="conflict")
        self._check_losses()
        if not self.window and self.sender.needs_window:
            raise DimsweepError(
                f"{self.sender.name} needs a window",
                where="window",
                code="conflict",
                hint=f"window=true, or transport={_list_transports(needs_window=False)}",
            )

    def _check_losses(self) -> None:
        """Raise :class:`DimsweepError` unless the transport retransmits lost or trimmed packets."""
        if self.trim and (self.has_pauses or not self.sender.takes_trimmed):
            raise DimsweepError(
                f"{self.sender.name} does not request trimmed packets"
                if not self.sender.takes_trimmed
                else "switches that pause senders never trim packets",
                where="trim",
                code="conflict",
                hint=f"pauses=false and transport={_list_transports(takes_trimmed=True)}",
            )
        if self.pauses is False and not self.sender.resends:
            raise DimsweepError(
                f"{self.sender.name} does not retransmit dropped packets",
                where="pauses",
                code="conflict",
                hint=f"pauses=true, or transport={_list_transports(resends=True)}",
            )

    def _check_buffer(self, buffer: float | tuple[Any, ...], where: str) -> None:
        if isinstance(buffer, tuple):
            for i, each in enumerate(buffer):
                self._check_buffer(each, f"{where}[{i}]")
        elif buffer < self.data_size:
            raise DimsweepError(
                f"{buffer:g} bytes; it must hold a packet of {self.data_size} bytes",
                where=where,
                hint="payload and header must fit into each switch's buffer",
                code="out-of-range",
            )

    def _check_whole_number(self, name: str) -> None:
        value = getattr(self, name)
        if value != int(value):
            problem = f"{value:g} B; it must be a whole number of bytes"
            raise DimsweepError(problem, where=name, code="wrong-type")

    @property
    def sender(self) -> Transport:
        """The configured transport, with the values of its parameters."""
        return build_transport(self.transport)

    @property
    def has_pauses(self) -> bool:
        """True if switches send pause frames (PFC) to senders."""
        return not self.sender.resends if self.pauses is None else self.pauses

    @property
    def trims(self) -> bool:
        """True if switches trim the payload of packets that do not fit the buffer."""
        takes = self.sender.takes_trimmed and not self.has_pauses
        return takes if self.trim is None else self.trim

    @property
    def data_size(self) -> int:
        """Bytes of a full data packet, headers included."""
        return int(self.payload) + self.data_header

    @property
    def data_header(self) -> int:
        """Bytes of headers of a data packet."""
        return int(self.header) + self.sender.header

    @property
    def ack_size(self) -> int:
        """Bytes of an ACK packet."""
        return int(self.ack) + max(self.sender.header - _ACK_ROOM, 0)

    def thresholds(self, rate: float) -> tuple[int, int, float]:
        """Return the ECN thresholds ``kmin``, ``kmax`` (bytes) and ``pmax`` of a port.

        ``rate`` is the port's rate in bits/s.  Raises :class:`DimsweepError` if ``marks`` are
        given, but not for this rate.

        Without settings, the thresholds follow published values (Khan et al., HotI 2022),
        interpolated linearly between rates; ``kmin`` is a quarter of ``kmax``.
        """
        if self.kmin is not None and self.kmax is not None:
            return int(self.kmin), int(self.kmax), self.pmax
        if self.marks:
            return self._find_mark(rate)
        kmax = _KMAX[-1][1]
        for (slower, low), (faster, high) in pairwise(_KMAX):
            if rate <= faster:
                kmax = low + (high - low) * (rate - slower) / (faster - slower)
                break
        return math.ceil(kmax / 4), math.ceil(kmax), self.pmax

    def _find_mark(self, rate: float) -> tuple[int, int, float]:
        for mark in self.marks:
            if mark.rate == rate:
                return int(mark.kmin), int(mark.kmax), mark.pmax
        raise DimsweepError(
            f"no marks of a port of {rate:,.0f} bit/s",
            where="network.packets.marks",
            code="missing",
            hint=f"known: {', '.join(f'{mark.rate:,}' for mark in self.marks)} bit/s",
        )

    def port_headroom(self, rate: float, delay: int) -> int:
        """Return the bytes that a port reserves for packets that arrive after it sent a pause.

        ``rate`` is bits/s, ``delay`` the ps of its link.
        """
        if self.headroom is not None:
            return int(self.headroom)
        return 3 * int(rate * delay / 8e12)


# At which rate (bits a second) everything is marked above how many bytes.
_KMAX = ((0, 0), (25e9, 400e3), (40e9, 800e3), (100e9, 1600e3), (200e9, 2400e3), (400e9, 3200e3))


def _list_transports(**asked: bool) -> str:
    """Return the names of the transports with the given property."""
    (question, answer), *_ = asked.items()
    return " or ".join(name for name, of in TRANSPORTS.items() if getattr(of, question) is answer)
