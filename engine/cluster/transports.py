"""The interface of transports: congestion control of senders in the packet kernel.

All of dimsweep uses a transport through this interface; the implementations, one file each, are in
:mod:`engine.kernels.packet.transports`.
"""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar

from dimsweep.engine.errors import DimsweepError, suggest_names
from dimsweep.engine.registry import Registry
from dimsweep.engine.units import BANDWIDTH, TIME

Ticks = Annotated[int, TIME]  # of the run's clock; picoseconds wherever a workload is simulated
BitRate = Annotated[int, BANDWIDTH]  # bits a second


_MOST = 1 << 60  # so that the sum of two is a whole number still


@dataclass(frozen=True)
class Transport(ABC):
    """Base class: a sender's reaction to congestion, as a frozen dataclass.

    The fields are the transport's keys in a configuration.  A subclass defines the constants below
    and a hook for each event.  A hook is a compiled function that receives the run's tables, the
    flow, and an event-specific number.  ``r.flows[flow]`` contains a record with the transport's
    name and the fields of ``state`` (initially zero), and ``r.keys[0]`` contains the values of the
    keys. ``nothing`` is a hook without effect.  Type checkers and Python reject a transport with a
    missing hook.
    """

    name: ClassVar[str]
    #: What it keeps of a flow: fields and their types, as NumPy writes them.
    state: ClassVar[tuple[tuple[str, str], ...]]
    #: Bytes that data carry for it beyond a transport without telemetry.
    header: ClassVar[int]
    #: Whether every switch writes into data when it sent how much, for ACKs to take back.
    telemetry: ClassVar[bool]
    #: Whether it relates what it measures to a flow's window and round trip.
    needs_window: ClassVar[bool]
    #: What the slower of two long flows sends of the faster one's bytes in the long run, at least.
    fairness: ClassVar[float]
    #: Whether it speaks TCP's segments: it has a window of its own, and sends again what was lost.
    speaks_tcp: ClassVar[bool] = False
    #: Whether it sends again what was lost, so that switches need not pause.
    resends: ClassVar[bool] = False
    #: Whether its receivers report packets whose payload a switch has trimmed.
    takes_trimmed: ClassVar[bool] = False
    #: Whether its receivers give credits, by which alone its senders send.
    gives_credits: ClassVar[bool] = False
    #: Keys that must be above zero: by which is divided, or after which something happens again.
    above_zero: ClassVar[tuple[str, ...]] = ()
    #: The largest values of keys that are not whole numbers.
    at_most: ClassVar[tuple[tuple[str, float], ...]] = ()

    def __post_init__(self) -> None:
        most_of = dict(self.at_most)
        for field in dataclasses.fields(self):
            key = field.name
            value: Any = getattr(self, key)
            most, is_above = most_of.get(key, _MOST), key in self.above_zero
            if isinstance(field.default, Enum):
                object.__setattr__(self, key, _check_member(type(field.default), value, key))
                continue
            if not isinstance(value, (int if isinstance(field.default, int) else (int, float))):
                kind = "a whole number" if isinstance(field.default, int) else "a number"
                raise DimsweepError(f"{value!r} is not {kind}", where=key, code="wrong-type")
            if not 0 <= value <= most or (value == 0 and is_above):
                least = "above 0" if is_above else "0 or more"
                problem = f"{value}; it must be {least}, and {most:g} at most"
                raise DimsweepError(problem, where=key, code="out-of-range")

    @staticmethod
    @abstractmethod
    def on_start(r: Any, flow: int, _: int) -> None:
        """Return the hook of a flow's start, at the rate of its sender's link."""

    @staticmethod
    @abstractmethod
    def on_send(r: Any, flow: int, packet: int) -> None:
        """Return the hook before a packet of data leaves its sender."""

    @staticmethod
    @abstractmethod
    def on_mark(r: Any, flow: int, packet: int) -> None:
        """Return the hook of an ACK that echoes a mark; ``on_ack`` follows."""

    @staticmethod
    @abstractmethod
    def on_ack(r: Any, flow: int, packet: int) -> None:
        """Return the hook of a received ACK, after ``acked`` counts the acknowledged bytes."""

    @staticmethod
    @abstractmethod
    def on_timer(r: Any, flow: int, timer: int) -> None:
        """Return the hook of an expired timer that has not been restarted."""

    @staticmethod
    @abstractmethod
    def on_end(r: Any, flow: int, _: int) -> None:
        """Return the hook of a flow's end: all bytes have arrived, its timers are stopped."""


def _check_member(kind: type[Enum], value: Any, key: str) -> Enum:
    try:
        return kind(value)
    except ValueError as error:
        names = [str(each) for each in kind]
        problem = f"{value!r} is none of {', '.join(names)}"
        hint = suggest_names(str(value), names)
        raise DimsweepError(problem, where=key, hint=hint, code="unknown-name") from error


HOOKS = ("on_start", "on_send", "on_mark", "on_ack", "on_timer", "on_end")

#: Registered transports by their names (:func:`engine.kernels.packet.tables.register`).
TRANSPORTS: Registry[type[Transport]] = Registry("transport")


def build_transport(chosen: Transport | str) -> Transport:
    """Return the transport with the name ``chosen``, with default values of its keys.

    Raises :class:`DimsweepError` for an unknown name.
    """
    if isinstance(chosen, Transport):
        return chosen
    if chosen not in TRANSPORTS:
        raise DimsweepError(
            f"unknown transport {chosen!r}",
            where="transport",
            code="unknown-name",
            hint=suggest_names(str(chosen), TRANSPORTS),
        )
    return TRANSPORTS[chosen]()
