"""A trace's nodes with the attributes that simulators read."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from engine.errors import DimsweepError
from engine.formats.chakra.trace import CollectiveType, NodeType, TraceNode
from engine.kinds import CollectiveKind
from engine.workload.graph import Group

# The collectives that are simulated; they have the same names.
KINDS: Mapping[int, CollectiveKind] = {CollectiveType[kind.name]: kind for kind in CollectiveKind}
COMMUNICATION = (NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMM_COLL)


class Node(NamedTuple):
    """What of a trace's node can change a simulated time; sizes in bytes, durations in ns."""

    id: int
    name: str
    type: NodeType
    dependencies: tuple[int, ...]
    duration: int  # ns, of a replay
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
        duration=node.duration_micros * 1000 or 1,
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
    )
