"""A trace's nodes with the attributes that simulators read."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra.groups import groups_text
from dimsweep.engine.formats.chakra.trace import CollectiveType, NodeType, TraceNode
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.workload.graph import Group

# The collectives that are simulated as what they are; they have the same names.
KINDS: Mapping[int, CollectiveKind] = {CollectiveType[kind.name]: kind for kind in CollectiveKind}
COMMUNICATION = (NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMM_COLL)
_NEEDED = {
    NodeType.COMM_COLL: ("comm_type", "comm_size"),
    NodeType.COMM_SEND: ("comm_size", "comm_dst"),
    NodeType.COMM_RECV: ("comm_size", "comm_src"),
}


class Node(NamedTuple):
    """What of a trace's node can change a simulated time; sizes in bytes, durations in ns.

    ``lacks`` names the attributes that a communication cannot do without and that are not there.
    """

    id: int
    name: str
    type: NodeType
    dependencies: tuple[int, ...]
    duration: int  # ns, as recorded
    on_cpu: bool
    ops: int
    tensor: int
    collective: int
    size: int
    priority: int
    source: int
    target: int
    tag: int
    group: str
    involved: tuple[bool, ...]
    lacks: tuple[str, ...] = ()
    groups: str = ""  # text of the process groups that the node records


def involved_group(involved: Sequence[bool], sizes: Sequence[int]) -> Group:
    """The group of whole dimensions that ``involved_dim`` means; those it does not name count."""
    used = zip_longest(involved[: len(sizes)], sizes, fillvalue=True)
    return Group(tuple(n if use else 1 for use, n in used), (1,) * len(sizes))


def node_of(node: TraceNode) -> Node:
    """The node with its attributes read as numbers; an attribute that is missing is 0.

    Raises :class:`DimsweepError` naming the node and the attribute that is no whole number.
    """

    def whole(name: str, least: int = 0) -> int:
        value = node.attributes.get(name, 0)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise DimsweepError(
                f"{value!r} is no whole number, {least} or more",
                where=f"node {node.id} ({node.name!r}).{name}",
            )
        return value

    involved = node.attributes.get("involved_dim", (True,) * 4)
    return Node(
        id=node.id,
        name=node.name,
        type=node.type,
        dependencies=node.dependencies,
        duration=node.duration_micros * 1000,
        on_cpu=bool(node.attributes.get("is_cpu_op", False)),
        ops=whole("num_ops"),
        tensor=whole("tensor_size"),
        collective=whole("comm_type"),
        size=whole("comm_size"),
        priority=whole("comm_priority", least=-(2**31)),
        source=whole("comm_src"),
        target=whole("comm_dst"),
        tag=whole("comm_tag"),
        group=str(node.attributes.get("pg_name", "")),
        involved=tuple(map(bool, involved)) if isinstance(involved, tuple) else (bool(involved),),
        lacks=tuple(name for name in _needed(node) if name not in node.attributes),
        groups=groups_text(node),
    )


def check_complete(node: Node, where: str) -> None:
    """Raise :class:`DimsweepError` at ``where`` for a node that lacks attributes."""
    if node.lacks:
        raise DimsweepError(
            f"a {node.type.name}_NODE without {', '.join(node.lacks)}",
            where=where,
            hint="write it: no number is right for every trace",
        )


def _needed(node: TraceNode) -> tuple[str, ...]:
    names = _NEEDED.get(node.type, ())
    if node.attributes.get("comm_type") == CollectiveType.BARRIER:
        return tuple(name for name in names if name != "comm_size")  # a barrier has no bytes
    return names
