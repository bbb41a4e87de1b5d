"""Enumerations that kernels use as numbers and users write as lower-case names."""

from enum import IntEnum, StrEnum
from typing import Any

from dimsweep.engine.registry import Registry


class NamedInt(IntEnum):
    """Base class of enumerations: a member is an integer to Numba and a lower-case name in text.

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
    """A collective operation.  Its size is a member's input (see Collective)."""

    ALL_REDUCE = 0
    REDUCE_SCATTER = 1
    ALL_GATHER = 2
    ALL_TO_ALL = 3


#: The orders in which a chunk visits the dimensions, each with what chooses it for a chunk (see
#: :mod:`engine.kernels.phase.orders`); the baseline's is the same for all.
ORDERS: Registry[Any] = Registry("order of dimensions", {"baseline": None})
_others: dict[str, "DimensionOrder"] = {}  # by the names of orders of plug-ins


class DimensionOrder(NamedInt):
    """The rule by which a collective chooses the order in which each chunk visits the dimensions.

    Plug-ins add further orders to :data:`ORDERS`; each is used by its name.
    """

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
        """Return a member with a new number for the order ``name`` of a plug-in."""
        number = len(cls._value2member_map_)
        made = int.__new__(cls, number)
        made._name_, made._value_ = name.upper(), number
        cls._value2member_map_[number] = _others[name] = made
        return made

    @classmethod
    def restore(cls, order: "DimensionOrder") -> None:
        """Make the name of ``order`` refer to its number again, after another order replaced it."""
        _others[str(order)] = order

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return type(self), (str(self),)  # another process may have given it another number


class QueueOrder(NamedInt):
    """The order in which a port serves waiting chunks."""

    FIFO = 0
    LIFO = 1
    SMALLEST_FIRST = 2
    PRIORITY = 3


# --- fidelities -----------------------------------------------------------------------------------


class Fidelity(StrEnum):
    """The level of detail of a simulation.

    ``PHASE`` simulates phases of chunks on dimensions; the other fidelities simulate every rank,
    message and link.  ``MESSAGE``: messages use a link in turn.  ``FLOW``: they share it max-min
    fairly.  ``PACKET``: they are sent as packets through buffers, under congestion control.
    """

    PHASE = "phase"
    MESSAGE = "message"
    FLOW = "flow"
    PACKET = "packet"
