"""Encodings that the compiled kernels and people share: whole numbers with a lower-case name."""

from enum import IntEnum


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


class DimensionOrder(NamedInt):
    """In which order a chunk visits the dimensions."""

    BASELINE = 0
    THEMIS = 1


class QueueOrder(NamedInt):
    """Which waiting chunk a port serves next."""

    FIFO = 0
    LIFO = 1
    SMALLEST_FIRST = 2
    PRIORITY = 3
