"""Additional attributes of dimsweep's traces, for values that Chakra has no field for.

A trace counts whole microseconds, bytes and operations, and knows groups by number.  If dimsweep's
values are more exact, a node that dimsweep writes has them in additional attributes, so that a
trace that is read back takes equal time to the picosecond. Other tools skip attributes that they do
not know.  An attribute that refines a standard field must round to that field: a trace in which
only one of the two was edited is refused.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dimsweep.engine.formats.chakra.trace import NodeType, TraceNode, Value

DURATION = "dimsweep.duration_ps"  # of measured work, int
FLOPS = "dimsweep.flops"  # double, where num_ops is not the number, or DURATION is used instead
BYTES = "dimsweep.bytes"  # double, where tensor_size or comm_size is not the number
STREAM = "dimsweep.stream"  # string, if other than the group's stream, or "p2p"
SHARED = "dimsweep.shared"  # int, 1 if the members of a group load the same bytes
GROUP = "dimsweep.group"  # string: the group's name in the workload
GRAPH = "dimsweep.graph"  # int, of the trace: its number in the workload, which breaks ties
SIZES = "dimsweep.sizes"  # ints, of the trace: of the dimensions of involved_dim

_LARGEST = 2**63 - 1  # of a standard field


class Conflict(NamedTuple):
    """An additional attribute that does not round to the standard field that it refines."""

    attribute: str
    what: str  # both values, in words
    agreeing: int | float  # the value of the attribute that agrees with the field
    fix: str = "correct the one that is wrong; trace lint --repair keeps the standard field"


def conflicts(node: TraceNode) -> Iterator[Conflict]:
    """Yield the additional attributes of a node that do not round to their standard field."""
    size = "tensor_size" if node.type < NodeType.COMM_SEND else "comm_size"
    fields = ((DURATION, "duration_micros", 10**6), (FLOPS, "num_ops", 1), (BYTES, size, 1))
    for name, field, unit in fields:
        if name not in node.attributes:
            continue
        exact = node.attributes[name]
        whole = node.duration_micros if name == DURATION else node.attributes.get(field, 0)
        if isinstance(whole, int | float) and not _rounds_to(exact, whole, unit):
            agreeing = whole * unit if name == DURATION else float(whole)
            yield Conflict(name, f"{field} is {whole!r}, but {name} is {exact!r}", agreeing)


def _rounds_to(exact: Value, whole: float, unit: int) -> bool:
    """Return whether ``exact``, divided by ``unit`` and rounded as the writer does, is ``whole``.

    The writer rounds an amount of work below 1 up to 1, and limits it to 63 bits.
    """
    if not isinstance(exact, int | float):
        return False
    nearest = abs(whole * unit - exact) * 2 <= unit
    return nearest or (whole == 1 and 0 <= exact < 1) or (whole == _LARGEST and exact > whole)
