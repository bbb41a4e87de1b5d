"""Statistics of a job's traces: nodes, work and bytes, once for all ranks with the same totals."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from dimsweep.engine.formats.chakra.node import (
    MOST_RANKS,
    Node,
    groups_text,
    node_of,
    recorded_groups,
)
from dimsweep.engine.formats.chakra.trace import (
    CollectiveType,
    NodeType,
    Trace,
    TraceNode,
    issue_order,
)


class Communicated(NamedTuple):
    """Collectives of one kind over one kind of group: their number, and the sum of comm_size."""

    kind: str
    group: str
    n_nodes: int
    n_bytes: int


@dataclass(frozen=True)
class TraceStats:
    """Totals of one rank's trace: nodes, durations, operations and bytes.

    ``nodes`` and ``micros`` (recorded durations, us) are totals by type of node.  ``flops`` is the
    sum of num_ops, ``n_bytes`` of tensor_size, ``sent`` of the sends' comm_size.  ``path`` is the
    number of nodes on the longest chain of dependencies.
    """

    nodes: Mapping[NodeType, int]
    micros: Mapping[NodeType, int]
    flops: int
    n_bytes: int
    collectives: tuple[Communicated, ...]
    sent: int
    path: int

    @property
    def collective_bytes(self) -> int:
        return sum(collective.n_bytes for collective in self.collectives)


def trace_stats(
    traces: Sequence[Trace], groups: Mapping[str, Sequence[int]]
) -> list[tuple[TraceStats, list[int]]]:
    """Return the totals of the traces, each with the ranks that share them.

    Parameters
    ----------
    traces
        The trace of each rank.
    groups
        The ranks of each communicator group. Groups with equal numbers of members at equal
        distances count as one kind.

    Returns
    -------
    list of (TraceStats, list of int)
        In the order of the first rank.

    Raises
    ------
    DimsweepError
        For attributes that are not numbers.
    """
    classes: list[tuple[TraceStats, list[int]]] = []
    texts = (map(groups_text, trace.nodes) for trace in traces)
    given = {name: tuple(ranks) for name, ranks in groups.items()}
    noted = recorded_groups(texts, MOST_RANKS, given)
    traces = [
        replace(each, nodes=noted.rename_groups(i, each.nodes)) for i, each in enumerate(traces)
    ]
    groups = noted.ranks
    known: dict[int, Node] = {}  # ranks have most nodes in common
    for rank, trace in enumerate(traces):
        stats = _stats(trace, groups, known)
        for other, ranks in classes:
            if other == stats:
                ranks.append(rank)
                break
        else:
            classes.append((stats, [rank]))
    return classes


def _stats(trace: Trace, groups: Mapping[str, Sequence[int]], known: dict[int, Node]) -> TraceStats:
    count, n_bytes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    micros = Counter[NodeType]()
    flops = touched = sent = 0
    labels: dict[tuple[str, tuple[bool, ...]], str] = {}
    for raw in trace.nodes:
        micros[raw.type] += raw.duration_micros
        node = known.get(id(raw)) or known.setdefault(id(raw), node_of(raw))
        flops += node.ops
        touched += node.tensor
        if raw.type is NodeType.COMM_SEND:
            sent += node.size
        elif raw.type is NodeType.COMM_COLL:
            over = (node.group, node.involved)
            label = labels.get(over) or labels.setdefault(over, _label(*over, groups))
            key = (collective_name(node.collective), label)
            count[key] += 1
            n_bytes[key] += node.size
    return TraceStats(
        dict(sorted(Counter(raw.type for raw in trace.nodes).items())),
        dict(sorted((type_, total) for type_, total in micros.items() if total)),
        flops,
        touched,
        tuple(Communicated(*key, count[key], n_bytes[key]) for key in sorted(count)),
        sent,
        max(levels(trace.nodes)) + 1,
    )


def collective_name(number: int) -> str:
    """Return the name of the collective with number ``comm_type``."""
    if number not in tuple(CollectiveType):
        return f"type {number}"
    return CollectiveType(number).name.lower().replace("_", "-")


def _label(name: str, involved: Sequence[bool], groups: Mapping[str, Sequence[int]]) -> str:
    if name in ("", "0"):
        dims = [str(d) for d, use in enumerate(involved) if use]
        return "all ranks" if all(involved) else f"dimensions {' '.join(dims) or 'none'}"
    if name not in groups:
        return f"group {name}"
    ranks = sorted(groups[name])
    apart = {b - a for a, b in pairwise(ranks)}
    return f"{len(ranks)} ranks" + (f" {apart.pop()} apart" if len(apart) == 1 else "")


def levels(nodes: Sequence[TraceNode]) -> list[int]:
    """Return the number of nodes on the longest chain of dependencies that ends before each node.

    The trace must not have circles.
    """
    place = {node.id: i for i, node in enumerate(nodes)}
    level = [0] * len(nodes)
    for i in issue_order(nodes):
        node = nodes[i]
        waits = node.data_dependencies + node.control_dependencies
        level[i] = max((level[place[before]] + 1 for before in waits), default=0)
    return level
