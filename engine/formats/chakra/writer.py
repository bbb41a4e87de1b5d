"""Writer of native workloads as Chakra traces, which ASTRA-sim and dimsweep can read.

A collective over whole dimensions is written with ``involved_dim``, one over any other sub-mesh
with the number of its communicator group (``pg_name``).  Values that Chakra has no field for are
written as additional attributes (:mod:`engine.formats.chakra.extras`).
"""

import json
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.errors import DimsweepError, accessing, naming_place
from dimsweep.engine.formats.chakra import extras
from dimsweep.engine.formats.chakra.node import KINDS
from dimsweep.engine.formats.chakra.protobuf import encode_metadata, encode_node
from dimsweep.engine.formats.chakra.trace import NodeType, Trace, TraceNode, Value
from dimsweep.engine.formats.chakra.trace_files import delimited, node_bytes
from dimsweep.engine.topology.coordinates import (
    Group,
    Offset,
    first_members,
    ranks_at_offset,
    reverse_offset,
    wrap_offset,
)
from dimsweep.engine.units import PICOSECONDS
from dimsweep.engine.workload.graph import (
    Access,
    Collective,
    Compute,
    Graph,
    Operator,
    Receive,
    Send,
    Workload,
    graph_by_rank,
)

MAX_RANKS = 16_384
_MICROSECOND = PICOSECONDS // 10**6
_CODES = {kind: code for code, kind in KINDS.items()}
_Attributes = dict[str, Value]
_Piece = bytes | Callable[[int], bytes]  # the same on all ranks of a graph, or by rank


def write_chakra_workload(
    workload: Workload, cluster: Cluster, prefix: Path, *, max_ranks: int = MAX_RANKS
) -> Path | None:
    """Write ``<prefix>.<rank>.et`` for every rank.

    Parameters
    ----------
    workload, cluster
        The workload, and the cluster whose topology it fits.
    prefix
        If it ends in ``.et``, one file is written for all ranks.
    max_ranks
        The largest number of files.

    Returns
    -------
    Path or None
        ``<prefix>.groups.json``, the file of communicator groups; None if all groups are of
        whole dimensions. :func:`read_chakra_workload` reads the workload back.

    Raises
    ------
    DimsweepError
        For a workload that does not fit the cluster or Chakra, for ranks that differ if one
        file is requested, and for too many files.
    """
    workload.check(cluster.topology.sizes)
    if workload.shares_ports:
        hint = "simulate the flows with fidelity=flow or packet"
        raise DimsweepError(
            "Chakra has no flows that share a port", where="workload", hint=hint, code="unsupported"
        )
    writer = _Writer(workload, cluster)
    single = prefix.suffix == ".et"
    if single and not writer.ranks_are_equal:
        raise DimsweepError(
            "ranks differ in their operators, groups or peers, so they cannot share one trace",
            where=str(prefix),
            hint=f"give a prefix, for one file per rank: {prefix.with_suffix('')}",
            code="conflict",
        )
    if not single and writer.n > max_ranks:
        raise DimsweepError(
            f"{writer.n:,} ranks need {writer.n:,} files; at most {max_ranks:,} are written",
            where=str(prefix),
            hint="use a smaller topology"
            + (f", or one trace for all: {prefix}.et" if writer.ranks_are_equal else ""),
            code="too-many",
        )
    if single:
        _write(prefix, writer.trace(0))
        return None
    for rank in range(writer.n):
        _write(Path(f"{prefix}.{rank}.et"), writer.trace(rank))
    if not writer.communicators.ranks:
        return None
    groups = Path(f"{prefix}.groups.json")
    _write(groups, [json.dumps(writer.communicators.ranks).encode()])
    return groups


def _write(path: Path, pieces: Iterator[bytes] | list[bytes]) -> None:
    with accessing(path, "cannot write the trace"), path.open("wb") as file:
        file.writelines(pieces)


class _Communicators:
    """Numbers, from 1, for the communicator groups that do not consist of whole dimensions."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.ranks: dict[str, list[int]] = {}
        self._sizes = sizes
        self._numbers: dict[Group, NDArray[np.int64]] = {}

    def list_numbers(self, group: Group) -> NDArray[np.int64]:
        """Return the number of each rank's communicator for ``group``, shape (N,)."""
        if group not in self._numbers:
            _, which = np.unique(first_members(group, self._sizes), return_inverse=True)
            self._numbers[group] = which + len(self.ranks) + 1
            # Sorted by group, and within one by rank; all have as many members.
            for ranks in np.argsort(which, kind="stable").reshape(-1, group.n_members).tolist():
                self.ranks[str(len(self.ranks) + 1)] = ranks
        return self._numbers[group]


class _Writer:
    """Encoder of traces; it encodes each graph once, and fills in the parts that differ by rank."""

    def __init__(self, workload: Workload, cluster: Cluster) -> None:
        if cluster.npus.of is not None:
            problem = (
                "a written trace has one time of a computation for all ranks that share a graph"
            )
            hint = "use NPUs of one kind and one speed"
            raise DimsweepError(problem, where="other_npus", hint=hint, code="unsupported")
        self._workload, self._npu = workload, cluster.npus.kinds[0]
        self._sizes = cluster.topology.sizes
        self.n = math.prod(self._sizes)
        self.communicators = _Communicators(self._sizes)
        self._graph_of = graph_by_rank(workload, self._sizes)
        self._sends = [self._sent(graph) for graph in workload.graphs]
        self._peers = lru_cache(maxsize=None)(lambda offset: ranks_at_offset(offset, self._sizes))
        self._pieces = [list(self._encode(number)) for number in range(len(workload.graphs))]

    @property
    def ranks_are_equal(self) -> bool:
        """True if one trace fits every rank."""
        fixed = all(isinstance(piece, bytes) for piece in self._pieces[self._graph_of[0]])
        return fixed and bool((self._graph_of == self._graph_of[0]).all())

    def trace(self, rank: int) -> Iterator[bytes]:
        """Yield the bytes of a rank's trace file, piece by piece."""
        for piece in self._pieces[self._graph_of[rank]]:
            yield piece if isinstance(piece, bytes) else piece(rank)

    def _sent(self, graph: Graph) -> dict[tuple[Offset, int], list[float]]:
        """Return the sizes of a graph's messages to each peer with each tag, in order."""
        sizes: dict[tuple[Offset, int], list[float]] = {}
        for operator in graph:
            if isinstance(operator.work, Send):
                key = (self._offset(operator.work), operator.work.tag)
                sizes.setdefault(key, []).append(operator.work.n_bytes)
        return sizes

    def _offset(self, work: Send | Receive) -> Offset:
        return wrap_offset(work.offset, self._sizes)

    def _encode(self, number: int) -> Iterator[_Piece]:
        graph = self._workload.graphs[number]
        where = f"{self._workload.name}, graph {number}"
        if not graph:
            raise DimsweepError(
                "the graph has no operators, but a trace needs nodes", where=where, code="missing"
            )
        ours: dict[str, Value] = {extras.SIZES: self._sizes}
        if not self._workload.in_order:  # otherwise the ids of operators give the order
            ours[extras.GRAPH] = number
        metadata = Trace((), metadata=ours)
        fixed = [delimited(encode_metadata(metadata).SerializeToString())]
        seen: dict[tuple[Offset, int], int] = {}  # receives
        for index, operator in enumerate(graph):
            with naming_place(f"{where}, operator {operator.name!r}"):
                piece = self._piece(index, operator, seen)
            if isinstance(piece, bytes):
                fixed.append(piece)
                continue
            yield b"".join(fixed)
            yield piece
            fixed = []
        yield b"".join(fixed)

    def _piece(self, index: int, operator: Operator, seen: dict[tuple[Offset, int], int]) -> _Piece:
        work = operator.work

        def node(type_: NodeType, attributes: _Attributes, micros: int = 0) -> bytes:
            trace_node = TraceNode(
                index,
                operator.name,
                type_,
                operator.after,
                duration_micros=micros,
                attributes={"is_cpu_op": False, **attributes},
            )
            return node_bytes(encode_node(trace_node))

        if isinstance(work, Compute):
            if work.stream:
                problem = f"{operator.name} runs on {work.stream}, but a trace has one CPU"
                raise DimsweepError(
                    problem, where="workload", hint="use cpu 0 only", code="unsupported"
                )
            attributes, micros = self._compute(work)
            return node(NodeType.COMP, attributes | {"is_cpu_op": work.on_host}, micros)
        if isinstance(work, Access):
            type_ = NodeType.MEM_STORE if work.store else NodeType.MEM_LOAD
            size = _size(work.n_bytes, "tensor_size") | ({extras.SHARED: 1} if work.shared else {})
            if not work.group:
                return node(type_, size)
            return self._encode_over_group(work.group, size, lambda group: node(type_, group))
        if isinstance(work, Collective):
            return self._collective(work, lambda group: node(NodeType.COMM_COLL, group))
        key = (self._offset(work), work.tag)
        if work.tag < 0:
            raise DimsweepError(f"the tag is {work.tag}; it must be 0 or more", code="out-of-range")
        peers = self._peers(key[0])
        if isinstance(work, Send):
            n_bytes, tag = work.n_bytes, work.tag
            ours: _Attributes = {extras.STREAM: work.stream} if work.stream != Send.stream else {}
            return lambda rank: node(
                NodeType.COMM_SEND, _message(n_bytes, rank, int(peers[rank]), tag) | ours
            )
        place = seen[key] = seen.get(key, -1) + 1
        return lambda rank: node(
            NodeType.COMM_RECV, self._receive(key, place, rank, int(peers[rank]), operator.name)
        )

    def _compute(self, work: Compute) -> tuple[_Attributes, int]:
        """Return the attributes of a computation's node, and its duration in whole microseconds."""
        if work.duration is not None:
            micros = round(work.duration / _MICROSECOND)
            return {extras.DURATION: int(work.duration)}, micros
        # ASTRA-sim's roofline divides by both, and takes no bytes for no work.
        attributes: _Attributes = {}
        flops, n_bytes = work.flops, work.n_bytes
        if work.kernels:  # Chakra has only their sums and their total time
            attributes[extras.DURATION] = self._npu.duration(work)
            flops += sum(kernel.flops for kernel in work.kernels)
            n_bytes += sum(kernel.n_bytes for kernel in work.kernels)
        for name, exact, amount in (
            ("num_ops", extras.FLOPS, flops),
            ("tensor_size", extras.BYTES, n_bytes),
        ):
            attributes[name] = whole = max(1, _rounded(amount))
            if whole != amount or work.kernels:
                attributes[exact] = float(amount)
        try:
            duration = self._npu.duration(work)
        except DimsweepError:  # the cluster's speed is unknown
            duration = 0
        return attributes, round(duration / _MICROSECOND)

    def _collective(self, work: Collective, node: Callable[[_Attributes], bytes]) -> _Piece:
        attributes: _Attributes = {"comm_type": int(_CODES[work.kind]), **_size(work.n_bytes)}
        if work.priority:
            attributes["comm_priority"] = work.priority
        if work.stream:
            attributes[extras.STREAM] = work.stream
        return self._encode_over_group(work.group, attributes, node)

    def _encode_over_group(
        self, name: str, attributes: _Attributes, node: Callable[[_Attributes], bytes]
    ) -> _Piece:
        """Return the encoded node of a collective over group ``name``; it may differ by rank."""
        group, attributes = self._workload.groups[name], {**attributes, extras.GROUP: name}
        if all(p in (1, n) for p, n in zip(group.sizes, self._sizes, strict=True)):
            return node({**attributes, "involved_dim": tuple(p > 1 for p in group.sizes)})
        numbers = self.communicators.list_numbers(group)
        encoded = lru_cache(maxsize=None)(lambda number: node({**attributes, "pg_name": number}))
        return lambda rank: encoded(str(numbers[rank]))

    def _receive(
        self, key: tuple[Offset, int], place: int, rank: int, source: int, name: str
    ) -> _Attributes:
        """Return the attributes of a receive; they include the message's size for ASTRA-sim."""
        offset, tag = key
        way_back = reverse_offset(offset, self._sizes)
        sizes = self._sends[self._graph_of[source]].get((way_back, tag), [])
        if place >= len(sizes):
            raise DimsweepError(
                f"rank {rank} waits in {name!r} (tag {tag}) for a message that rank {source} "
                "does not send",
                where=self._workload.name,
                code="mismatch",
            )
        return _message(sizes[place], source, rank, tag)


def _message(n_bytes: float, source: int, target: int, tag: int) -> _Attributes:
    return {**_size(n_bytes), "comm_src": source, "comm_dst": target, "comm_tag": tag}


def _size(n_bytes: float, name: str = "comm_size") -> _Attributes:
    whole = _rounded(n_bytes)
    return {name: whole, **({extras.BYTES: float(n_bytes)} if whole != n_bytes else {})}


def _rounded(amount: float) -> int:
    return min(round(amount), 2**63 - 1)
