"""Encodings that kernels and people share: numbers or words with a lower-case name."""

from enum import IntEnum, StrEnum
from typing import Any

from dimsweep.engine.registry import Registry


class NamedInt(IntEnum):
    """A member is a number to Numba and in record arrays, and its lower-case name in text.

    ``Kind("all_reduce")``, ``Kind(0)`` and ``Kind.ALL_REDUCE`` are the same member.
    """

    @classmethod
    def _missing_(cls, value: object) -> "NamedInt | None":
        named = {str(member): member for member in cls}
        return named.get(value) if isinstance(value, str) else None

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class CollectiveKind(NamedInt):
    """A collective operation.  Its size is what a member holds when it enters (see Collective)."""

    ALL_REDUCE = 0
    REDUCE_SCATTER = 1
    ALL_GATHER = 2
    ALL_TO_ALL = 3


#: The orders in which a chunk visits the dimensions, each with what chooses it for a chunk (see
#: :mod:`engine.kernels.phase.orders`); the baseline's is the same for all.
ORDERS: Registry[Any] = Registry("order of dimensions", {"baseline": None})
_others: dict[str, "DimensionOrder"] = {}  # by the names of orders of plug-ins


class DimensionOrder(NamedInt):
    """In which order a chunk visits the dimensions: one of these, or the name of another that is
    registered in :data:`ORDERS`."""

    BASELINE = 0
    THEMIS = 1

    @classmethod
    def _missing_(cls, value: object) -> "NamedInt | None":
        found = super()._missing_(value)
        if found is not None or not isinstance(value, str) or value not in ORDERS:
            return found
        return _others.get(value)

    @classmethod
    def create(cls, name: str) -> "DimensionOrder":
        """A new number for an order of this name, which no other text of it has had."""
        number = len(cls._value2member_map_)
        made = int.__new__(cls, number)
        made._name_, made._value_ = name.upper(), number
        cls._value2member_map_[number] = _others[name] = made
        return made

    @classmethod
    def restore(cls, order: "DimensionOrder") -> None:
        """The name of an order means this number again."""
        _others[str(order)] = order

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return type(self), (str(self),)  # another process may have given it another number


class QueueOrder(NamedInt):
    """Which waiting chunk a port serves next."""

    FIFO = 0
    LIFO = 1
    SMALLEST_FIRST = 2
    PRIORITY = 3


# --- fidelities -----------------------------------------------------------------------------------


class Fidelity(StrEnum):
    """``PHASE``: phases of chunks on dimensions; all others know every rank, message and link.

    ``MESSAGE``: the messages of a link go one after another; ``FLOW``: they share it in the max-min
    fair way; ``PACKET``: they go packet by packet, through buffers and under congestion control.
    """

    PHASE = "phase"
    MESSAGE = "message"
    FLOW = "flow"
    PACKET = "packet"
