"""Conversion of Chakra traces to a workload of dimsweep's native model.

A communicator becomes a process group, a sub-mesh of the topology, and a peer becomes an offset. So
a trace can run with any bandwidth, latency or algorithm, and equivalent ranks are folded.  Effects
that are specific to ASTRA-sim (one communication at a time, its rounding) are left to
``dimsweep astra``.
"""

import itertools
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra import extras
from dimsweep.engine.formats.chakra.node import (
    Node,
    check_complete,
    groups_text,
    involved_group,
    native_collective,
    node_of,
    read_groups,
    recorded_groups,
)
from dimsweep.engine.formats.chakra.trace import NodeType, Trace, TraceNode, Value
from dimsweep.engine.formats.chakra.trace_files import FORMS, read_traces
from dimsweep.engine.topology.coordinates import Group, coordinates_of, offset_between
from dimsweep.engine.workload.graph import (
    Access,
    Collective,
    Compute,
    Operator,
    Receive,
    Send,
    Work,
    Workload,
)

_ALL = ("", "0")  # names of the communicator of all ranks


def read_chakra_workload(
    traces: Path, groups: Path | None, sizes: Sequence[int], name: str
) -> Workload:
    """Read traces as a workload of dimsweep's own model.

    Parameters
    ----------
    traces
        The prefix of ``<traces>.<rank>.et`` (``.json``, or either in gzip), a file for each
        rank, or one file for all ranks.
    groups
        A file of communicator groups (``{"1": [0, 1, ...]}``), which precede the groups in
        traces.
    sizes
        The sizes of the topology's dimensions.
    name
        The name of the workload.

    Raises
    ------
    DimsweepError
        Naming file, rank and node: an unreadable trace, a communication without a needed
        attribute, or a group that is not a sub-mesh of the topology.

    Notes
    -----
    Computation takes FLOPs and bytes if a node gives them, else its duration; a CPU's runs on the
    host. Each communicator of a rank is a separate group; :mod:`engine.formats.chakra.node` maps
    collectives. Nodes that are ready together start in the order of their ids, as their framework
    issued them; nodes of dimsweep's traces in the order of the original workload.
    """
    n = math.prod(sizes)
    is_single = traces.is_file() or traces.suffix in (".et", ".json")
    files = [traces] if is_single else _files(traces, n)
    read = read_traces(files)
    texts = (map(groups_text, trace.nodes) for trace in read)
    noted = recorded_groups(texts, n, read_groups(groups, n))
    conversion = _Conversion(sizes, noted.ranks)
    for file, trace in zip(files, read, strict=True):
        meant = trace.metadata.get(extras.SIZES, tuple(sizes))
        if meant != tuple(sizes):
            raise DimsweepError(
                f"the traces were written for dimensions of {meant!r} NPUs, not {tuple(sizes)}",
                where=str(file),
                hint="involved_dim depends on the dimensions: write the workload for this topology",
                code="mismatch",
            )
    # If one trace means the same on every rank, it is converted once for all.
    ranks = 1 if is_single and not any(map(_names_ranks, read[0].nodes)) else n
    # By the number that dimsweep's writer gives a graph: its order breaks ties.
    keys = [
        (
            trace.metadata.get(extras.GRAPH, 0),
            conversion.graph(rank, noted.rename_groups(0 if is_single else rank, trace.nodes)),
        )
        for rank, trace in zip(range(ranks), read * ranks if is_single else read, strict=True)
    ]
    graphs = sorted(dict.fromkeys(keys), key=lambda key: key[0] if isinstance(key[0], int) else 0)
    place = {key: i for i, key in enumerate(graphs)}
    return Workload(
        tuple(graph for _, graph in graphs),
        conversion.groups,
        np.array([place[key] for key in keys]) if len(graphs) > 1 else None,
        name=name,
        in_order=extras.GRAPH not in read[0].metadata,
    )


def _files(prefix: Path, n: int) -> list[Path]:
    """Return the trace file of each of ``n`` ranks.

    Raises :class:`DimsweepError` for fewer or more files: a part of a job is another job.
    """
    forms = [form for form in FORMS if Path(f"{prefix}.0.{form}").exists()]
    if len(forms) > 1:
        raise DimsweepError(
            f"rank 0 has several traces: {', '.join(f'{prefix}.0.{form}' for form in forms)}",
            where=str(prefix),
            hint="move the traces of one form to another folder",
            code="duplicate",
        )
    form = forms[0] if forms else FORMS[0]
    files = [Path(f"{prefix}.{rank}.{form}") for rank in range(n)]
    if not forms:
        return files  # reading them raises the error
    missing = next((rank for rank, file in enumerate(files) if not file.exists()), None)
    if missing is not None or Path(f"{prefix}.{n}.{form}").exists():
        raise DimsweepError(
            f"the topology has {n:,} NPUs, but rank "
            + (f"{missing} has no trace" if missing is not None else f"{n} has a trace, too"),
            where=str(prefix),
            hint="set topology.shape to the number of traces, which begin with rank 0",
            code="mismatch",
        )
    return files


def noted_sizes(trace: Trace) -> tuple[int, ...] | None:
    """Return the dimensions' sizes that dimsweep wrote into a trace; None for other traces."""
    sizes = trace.metadata.get(extras.SIZES)
    if not isinstance(sizes, tuple) or not all(isinstance(size, int) for size in sizes):
        return None
    return tuple(map(int, sizes))


def _names_ranks(node: TraceNode) -> bool:
    """Return whether a node names a peer or a group, so that it differs between ranks."""
    if node.type in (NodeType.COMM_SEND, NodeType.COMM_RECV):
        return True
    return node.attributes.get("pg_name", "") not in _ALL


class _Conversion:
    """Converter of all ranks' nodes to operators; it maps ranks to places in the topology."""

    def __init__(self, sizes: Sequence[int], ranks: Mapping[str, Sequence[int]]) -> None:
        self._sizes, self._ranks = tuple(sizes), ranks
        seen: Counter[tuple[int, ...]] = Counter()
        numbers = {}
        for name, members in ranks.items():
            over = tuple(sorted(members))
            numbers[name] = seen[over]
            seen[over] += 1
        self._number = numbers
        self._named: dict[tuple[Group, int], str] = {}
        self.groups: dict[str, Group] = {}
        self._shared: dict[int, Work] = {}
        self._sub_mesh = lru_cache(maxsize=None)(self._find_sub_mesh)

    def graph(self, rank: int, nodes: Sequence[TraceNode]) -> tuple[Operator, ...]:
        """Return one rank's nodes as operators, in the order of their ids."""
        nodes = sorted(nodes, key=lambda node: node.id)
        place = {node.id: i for i, node in enumerate(nodes)}
        return tuple(
            Operator(
                node.name,
                self._work(rank, node),
                tuple(sorted(place[before] for before in node.dependencies)),
            )
            for node in nodes
        )

    def _work(self, rank: int, node: TraceNode) -> Work:
        if _names_ranks(node):
            return self._convert(rank, node)
        # Equal nodes of several ranks are one object.
        if id(node) not in self._shared:
            self._shared[id(node)] = self._convert(rank, node)
        return self._shared[id(node)]

    def _convert(self, rank: int, raw: TraceNode) -> Work:
        where = f"rank {rank}, node {raw.id} ({raw.name!r})"
        try:
            node = node_of(raw)
            check_complete(node, where)
            for conflict in extras.conflicts(raw):
                raise DimsweepError(conflict.what, hint=conflict.fix, code="conflict")
            return self._work_of(rank, node, raw.attributes)
        except DimsweepError as error:
            raise error.replace(where=where) from None

    def _work_of(self, rank: int, node: Node, ours: Mapping[str, Value]) -> Work:
        match node.type:
            case NodeType.COMP:
                return _compute(node, ours)
            case NodeType.MEM_LOAD | NodeType.MEM_STORE:
                store = node.type is NodeType.MEM_STORE
                group = self._group_name(rank, node, ours) if extras.GROUP in ours else ""
                n_bytes = _exact(ours, extras.BYTES, node.tensor)
                return Access(n_bytes, store, group, shared=bool(ours.get(extras.SHARED)))
            case NodeType.METADATA | NodeType.INVALID:
                return Compute(duration=0, on_host=True)
            case NodeType.COMM_COLL:
                return self._collective(rank, node, ours)
            case NodeType.COMM_SEND:
                size = _exact(ours, extras.BYTES, node.size)
                stream = str(ours.get(extras.STREAM, Send.stream))
                return Send(size, self._offset(rank, node.target), node.tag, stream)
            case NodeType.COMM_RECV:
                return Receive(self._offset(rank, node.source), node.tag)

    def _collective(self, rank: int, node: Node, ours: Mapping[str, Value]) -> Work:
        name = self._group_name(rank, node, ours)
        size, members = _exact(ours, extras.BYTES, node.size), self.groups[name].n_members
        kind, held = native_collective(node.collective, size, members)
        return Collective(
            kind, held, name, stream=str(ours.get(extras.STREAM, "")), priority=node.priority
        )

    def _group_name(self, rank: int, node: Node, ours: Mapping[str, Value]) -> str:
        """Return the name that the node's communicator group has in the workload."""
        group = self._group(rank, node)
        name = str(ours.get(extras.GROUP) or self._own_name(node, group))
        if self.groups.setdefault(name, group) != group:
            raise DimsweepError(
                f"its group {name!r} is of {_name(group)} NPUs, "
                f"elsewhere of {_name(self.groups[name])}",
                hint="use the topology.shape and the groups of the original traces; "
                f"a node that was moved to another group needs another {extras.GROUP}",
                code="mismatch",
            )
        return name

    def _own_name(self, node: Node, group: Group) -> str:
        """Return a name for a communicator: its shape, and the first communicator of its kind.

        It thus has a separate stream.  Similar communicators of other ranks share the name, so that
        equal ranks stay equal.
        """
        if node.group in _ALL:
            return _name(group)
        family = (group, self._number[node.group])
        return self._named.setdefault(family, f"{_name(group)} ({node.group})")

    def _group(self, rank: int, node: Node) -> Group:
        if node.group in _ALL:
            return involved_group(node.involved, self._sizes)
        if node.group not in self._ranks:
            raise DimsweepError(
                f"unknown communicator group {node.group!r}",
                hint=f"known: {', '.join(self._ranks) or 'none; give a file of groups'}",
                code="unknown-name",
            )
        if rank not in self._ranks[node.group]:
            raise DimsweepError(
                f"the rank is not a member of the group {node.group!r}", code="mismatch"
            )
        return self._sub_mesh(tuple(self._ranks[node.group]))

    def _offset(self, rank: int, peer: int) -> tuple[int, ...]:
        if not 0 <= peer < math.prod(self._sizes):
            raise DimsweepError(f"rank {peer} does not exist", code="out-of-range")
        return offset_between(rank, peer, self._sizes)

    def _find_sub_mesh(self, ranks: tuple[int, ...]) -> Group:
        """Return the group of these ranks: the number and distance of members in each dimension."""
        places = {coordinates_of(rank, self._sizes) for rank in ranks}
        used = [sorted({place[d] for place in places}) for d in range(len(self._sizes))]
        strides = [b[1] - b[0] if len(b) > 1 else 1 for b in used]
        regular = all(
            list(range(b[0], b[-1] + 1, stride)) == b
            for b, stride in zip(used, strides, strict=True)
        )
        if not regular or places != set(itertools.product(*used)):
            raise DimsweepError(
                f"the group {_format_ranks(ranks)} is not a sub-mesh of dimensions of "
                f"{'x'.join(map(str, self._sizes))} NPUs",
                hint="use another topology.shape, or dimsweep astra, which supports flat groups",
                code="unsupported",
            )
        group = Group(tuple(map(len, used)), tuple(strides))
        for d, (places_in, n) in enumerate(zip(used, self._sizes, strict=True)):
            self._check_tile(ranks, d, places_in, group.strides[d], n)
        return group

    def _check_tile(
        self, ranks: Sequence[int], d: int, places: Sequence[int], stride: int, n: int
    ) -> None:
        """Raise :class:`DimsweepError` unless the ranks are one of equal tiles of dimension ``d``.

        Shapes that tile no dimension at all are refused when the workload is checked.
        """
        p, span = len(places), len(places) * stride
        first = places[0] // span * span + places[0] % stride
        if first == places[0] or n % span:
            return
        tiles = [list(range(i, i + span, stride)) for i in (first, first + span)]
        raise DimsweepError(
            f"the group {_format_ranks(ranks)} spans two sub-meshes: "
            f"{p} of dimension {d}'s {n} NPUs, {stride} apart, are places {tiles[0]} or "
            f"{tiles[1]}, not {list(places)}",
            hint="number the ranks so that groups begin there, or use dimsweep astra, which "
            "supports flat groups",
            code="unsupported",
        )


def _format_ranks(ranks: Sequence[int]) -> str:
    return f"{json.dumps(ranks[:8])}{'...' if len(ranks) > 8 else ''}"


def _name(group: Group) -> str:
    sizes, strides = ("x".join(map(str, numbers)) for numbers in (group.sizes, group.strides))
    return sizes if set(group.strides) == {1} else f"{sizes} stride {strides}"


def _compute(node: Node, ours: Mapping[str, Value]) -> Compute:
    measured = ours.get(extras.DURATION)
    if node.on_cpu:
        recorded = node.duration * 1000
        return Compute(duration=measured if isinstance(measured, int) else recorded, on_host=True)
    if isinstance(measured, int):
        return Compute(duration=measured)
    if node.ops:
        flops = _exact(ours, extras.FLOPS, node.ops)
        return Compute(flops, _exact(ours, extras.BYTES, node.tensor))
    return Compute(duration=node.duration * 1000)


def _exact(ours: Mapping[str, Value], name: str, whole: int) -> float:
    """Return dimsweep's additional attribute ``name``, or else ``whole``, the standard field."""
    exact = ours.get(name)
    return exact if isinstance(exact, float) else float(whole)
