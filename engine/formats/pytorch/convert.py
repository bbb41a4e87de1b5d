"""Convert PyTorch's execution traces and profiles to Chakra traces."""

import math
import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dimsweep.engine.errors import DimsweepError, naming_place
from dimsweep.engine.formats.chakra import extras
from dimsweep.engine.formats.chakra.trace import CollectiveType, NodeType, Trace, TraceNode, Value
from dimsweep.engine.formats.pytorch.recorded import (
    HostOp,
    HostTrace,
    Profile,
    Span,
    read_host,
    read_profile,
)

# The first word that a name contains decides; "reduce" follows the words that contain it.
_WORDS = {
    "allreduce": CollectiveType.ALL_REDUCE,
    "reducescatter": CollectiveType.REDUCE_SCATTER,
    "allgather": CollectiveType.ALL_GATHER,
    "alltoall": CollectiveType.ALL_TO_ALL,
    "broadcast": CollectiveType.BROADCAST,
    "barrier": CollectiveType.BARRIER,
    "reduce": CollectiveType.REDUCE,
    "gather": CollectiveType.GATHER,
    "scatter": CollectiveType.SCATTER,
}
_NAMES = ("nccl:", "c10d::")  # prefixes of operators that describe their communication
_NO_LETTER = re.compile(r"[^a-z]")
_BITS = re.compile(r"(\d+)")
_BYTES = {  # c10's names that do not say their bits
    "byte": 1, "char": 1, "bool": 1, "short": 2, "half": 2, "int": 4, "float": 4, "long": 8,
    "double": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Communication:
    """The collective, size and process group that an operator or kernel communicates with."""

    type: NodeType
    collective: CollectiveType | None
    n_bytes: int  # as Chakra counts
    group: str  # PyTorch's name; "" if unknown
    peer: int | None = None


def is_communication(name: str) -> bool:
    """Return whether the kernel called ``name`` communicates (NCCL or RCCL)."""
    return "nccl" in name.lower()


def operator_communication(op: HostOp) -> Communication | None:
    """Return the communication of a host operator, or None if it does not communicate."""
    if op.name == "record_param_comms":
        return _communication(op.attributes, str(op.attributes.get("collective_name", "")), op)
    if op.name.startswith("gloo:"):
        return _communication({}, op.name.removeprefix("gloo:"), op)
    return None


def kernel_communication(
    name: str, arguments: Mapping[str, Any], callers: Iterable[HostOp]
) -> Communication:
    """Return the communication of a kernel.

    ``callers`` are the operator that launched it, and its callers. Raises :class:`DimsweepError` if
    neither describes the communication.
    """
    known = {_host_name(key): value for key, value in arguments.items()}
    names = [str(arguments.get("Collective name", ""))]
    recorded = None
    for op in callers:
        names.append(str(op.attributes.get("collective_name", "")))
        names += [op.name] if op.name.startswith(_NAMES) else []
        recorded = recorded or (op if op.name == "record_param_comms" else None)
        if recorded is op:
            known = {**op.attributes, **known}
    # A kernel's own name comes last: SendRecv does all-to-alls as well.
    for word in (*names, name):
        found = _communication(known, word, recorded)
        if found is not None:
            return found
    raise DimsweepError(f"the communication of kernel {name!r} is unknown", code="missing")


def _host_name(key: str) -> str:
    """Return the name in the host's trace of a kernel's argument ``key``."""
    named = {"Process Group Name": "pg_name", "Src Rank": "src_rank", "Dst Rank": "dst_rank"}
    return named.get(key, key.lower().replace(" ", "_"))


def _communication(known: Mapping[str, Any], name: str, op: HostOp | None) -> Communication | None:
    word = _NO_LETTER.sub("", name.lower())  # of nccl:send 0->1, _allgather_base, c10d::recv_
    group = str(known.get("pg_name", ""))
    collective = next((kind for key, kind in _WORDS.items() if key in word), None)
    if collective is CollectiveType.SCATTER and "group_size" in known:
        # Only the root has all of it; every member knows its part.
        size = _size(known, "out_msg_nelems", op) * _integer(known, "group_size")
        return Communication(NodeType.COMM_COLL, collective, size, group)
    if collective is not None:
        size = _size(known, "in_msg_nelems", op)
        return Communication(NodeType.COMM_COLL, collective, size, group)
    if word.endswith("send"):
        peer, size = _peer(known, "dst_rank", name), _size(known, "in_msg_nelems", op)
        return Communication(NodeType.COMM_SEND, None, size, group, peer)
    if word.endswith(("recv", "recvanysource")) and "send" not in word:
        peer, size = _peer(known, "src_rank", name), _size(known, "out_msg_nelems", op)
        return Communication(NodeType.COMM_RECV, None, size, group, peer)
    return None


def _peer(known: Mapping[str, Any], key: str, name: str) -> int:
    if key not in known:
        raise DimsweepError(
            f"{name!r} lacks its peer ({key})",
            hint="record it with a newer PyTorch",
            code="missing",
        )
    return _integer(known, key)


def _integer(known: Mapping[str, Any], key: str) -> int:
    value = known[key]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**60:
        raise DimsweepError(
            f"{key} is {value!r}; expected a whole number of 0 or more", code="bad-syntax"
        )
    return value


def _size(known: Mapping[str, Any], elements: str, op: HostOp | None) -> int:
    """Return the bytes that a communication recorded, or else the bytes of its input tensors."""
    if elements in known and "dtype" in known:
        return _integer(known, elements) * _element_bytes(str(known["dtype"]))
    return sum(tensor.n_bytes for tensor in op.inputs) if op is not None else 0


def _element_bytes(dtype: str) -> int:
    """Return the bytes of an element of a c10 type: Float, BFloat16, Float8_e4m3fn, Long..."""
    name = dtype.lower()
    bits = _BITS.search(name)
    if "complex" in name:
        raise DimsweepError(f"messages of type {dtype!r} are not supported", code="unsupported")
    if bits:
        return int(bits[1]) // 8
    if name not in _BYTES:
        raise DimsweepError(
            f"unknown type of elements {dtype!r}",
            hint=f"known: {', '.join(_BYTES)}",
            code="unknown-name",
        )
    return _BYTES[name]


_MOST = 1 << 20  # ranks, which are listed


class Groups:
    """The process groups of all ranks, with names that are common to all ranks.

    PyTorch's names differ from rank to rank, but ranks create groups in the same order: the n-th
    group over a set of ranks is the same group on all of them. The first group of all ranks, the
    default one, has no name and no entry.
    """

    def __init__(self) -> None:
        self.ranks: dict[str, list[int]] = {}
        self._numbers: dict[tuple[tuple[int, ...], int], str] = {}

    def of_rank(
        self, host: Mapping[str, Sequence[int]], profile: Profile, n_traces: int
    ) -> dict[str, str]:
        """Return dimsweep's name for each group name in a rank's traces."""
        world = profile.world or n_traces
        if not 0 < world <= _MOST:
            raise DimsweepError(
                f"world_size is {world}; it must be from 1 to {_MOST:,}", code="out-of-range"
            )
        everyone = tuple(range(world))
        # The profile lists the ranks also where the host's trace has none, for all.
        given = {**host, **{name: ranks for name, ranks in profile.groups.items() if ranks}}
        made: Counter[tuple[int, ...]] = Counter()  # by their ranks
        names = {}
        for name, listed in given.items():
            ranks = tuple(sorted(listed)) or everyone
            names[name] = self._name(ranks, made[ranks], is_default=ranks == everyone)
            made[ranks] += 1
        return names

    def _name(self, ranks: tuple[int, ...], number: int, *, is_default: bool) -> str:
        """Return dimsweep's name for the group created after ``number`` others over ``ranks``."""
        if is_default and number == 0:
            return ""
        if (ranks, number) not in self._numbers:
            ours = str(len(self.ranks) + 1)
            self._numbers[ranks, number], self.ranks[ours] = ours, list(ranks)
        return self._numbers[ranks, number]


_PICOSECONDS = 1e6  # in a microsecond


@dataclass(frozen=True)
class Converted:
    """Chakra traces converted from PyTorch's, with the numbers of kernels found and linked."""

    traces: list[Trace]  # by rank
    groups: dict[str, list[int]]  # their ranks
    n_kernels: int
    n_left_out: int  # kernels outside of any operator's call


def convert_traces(hosts: Sequence[Path], profiles: Sequence[Path]) -> Converted:
    """Convert the execution traces of ranks 0, 1, ... with their profiles, or without any.

    Without profiles nothing takes time, and kernels are unknown: collectives are then the host's.
    Raises :class:`DimsweepError` naming a file that cannot be read or linked.
    """
    if profiles and len(profiles) != len(hosts):
        raise DimsweepError(
            f"{len(hosts)} execution traces need {len(hosts)} profiles, not {len(profiles)}",
            code="mismatch",
        )
    groups = Groups()
    traces, n_kernels, n_left_out = [], 0, 0
    for rank, path in enumerate(hosts):
        host = read_host(path)
        profile = read_profile(profiles[rank]) if profiles else Profile()
        if profiles and not any(op.call in profile.calls for op in host.operators.values()):
            raise DimsweepError(
                f"the trace has no operator in common with {profiles[rank]}",
                where=str(path),
                hint="record both in one run: profile(..., execution_trace_observer=observer)",
                code="mismatch",
            )
        number = profile.rank if profile.rank is not None and len(hosts) == 1 else rank
        names = groups.of_rank(host.groups, profile, len(hosts))
        conversion = _Rank(host, profile, number, names)
        with naming_place(path):
            traces.append(Trace(tuple(conversion.nodes())))
        n_kernels += len(profile.kernels)
        n_left_out += len(profile.kernels) - conversion.n_kernels
    return Converted(traces, groups.ranks, n_kernels, n_left_out)


class _Rank:
    """Converter of one rank's host operators and kernels to trace nodes."""

    def __init__(
        self, host: HostTrace, profile: Profile, rank: int, group_names: dict[str, str]
    ) -> None:
        self._operators, self._profile, self._rank = host.operators, profile, rank
        self._group_names = group_names
        called: dict[int | None, int] = {op.call: op.id for op in self._operators.values()}
        launched = [(k, called[k.call]) for k in profile.kernels if k.call in called]
        self.n_kernels = len(launched)
        numbered = list(enumerate(launched, max(self._operators) + 1))
        self._numbered = {number: kernel for number, (kernel, _) in numbered}
        self._launcher = {number: operator for number, (_, operator) in numbered}
        self._communicates = {
            self._launcher[number]
            for number, kernel in self._numbered.items()
            if is_communication(kernel.name)
        }
        self._own_time = self._exclusive(called)
        self._awaited = self._kernels_awaited()

    def nodes(self) -> Iterator[TraceNode]:
        """Yield the nodes of the host's operators with their ids, then the nodes of kernels."""
        yield from self._host_nodes()
        yield from self._kernel_nodes()

    # --- the host -------------------------------------------------------------------------------

    def _exclusive(self, called: Mapping[int | None, int]) -> dict[int, float]:
        """Return each operator's microseconds, less the times of its callees and of waiting."""
        calls = self._profile.calls
        times = {
            op.id: calls[op.call].span.duration if op.call in calls else 0.0
            for op in self._operators.values()
        }
        left = dict(times)
        for op in self._operators.values():
            if op.parent is not None and self._operators[op.parent].thread == op.thread:
                left[op.parent] -= times[op.id]
            if op.call in calls and calls[op.call].marks:
                left[op.id] = 0.0
        for wait in self._profile.waits:
            waiting = called.get(wait.call)
            if waiting is not None:
                left[waiting] -= wait.span.duration
        return {number: max(time, 0.0) for number, time in left.items()}

    def _kernels_awaited(self) -> dict[int, int]:
        """Return the kernel that the host waited for before each operator that follows a wait."""
        calls = self._profile.calls
        began: dict[str, list[tuple[float, int]]] = {}  # start and operator, by thread
        for op in self._operators.values():
            if op.call in calls:
                call = calls[op.call]
                began.setdefault(call.thread, []).append((call.span.start, op.id))
        for starts in began.values():
            starts.sort()
        ended = sorted((kernel.span.end, number) for number, kernel in self._numbered.items())
        awaited: dict[int, int] = {}
        for wait in self._profile.waits:
            last = bisect(ended, (wait.span.end, math.inf)) - 1
            following = began.get(wait.thread, [])
            place = bisect(following, (wait.span.end, -1))
            if last >= 0 and ended[last][0] > wait.span.start and place < len(following):
                awaited[following[place][1]] = ended[last][1]
        return awaited

    def _host_nodes(self) -> Iterator[TraceNode]:
        last_of_thread: dict[int, int] = {}
        written: dict[int, int] = {}  # storage: the operator that had it among its outputs
        before: HostOp | None = None
        for op in self._operators.values():
            data = {written[tensor.storage] for tensor in op.inputs if tensor.storage in written}
            control = {op.parent, last_of_thread.get(op.thread), self._awaited.get(op.id)}
            if op.thread not in last_of_thread and before is not None:
                control.add(before.id)  # which started the thread, or woke it
            yield self._host_node(op, data - {op.id}, _known(control))
            last_of_thread[op.thread] = op.id
            written.update((tensor.storage, op.id) for tensor in op.outputs)
            before = op

    def _host_node(self, op: HostOp, data: Iterable[int], control: Iterable[int]) -> TraceNode:
        # A kernel may do the communication that the operator only describes.
        communication = None if op.id in self._communicates else operator_communication(op)
        attributes: dict[str, Value] = {"is_cpu_op": communication is None}
        span = Span(0.0, self._own_time[op.id])
        if communication is not None:
            attributes |= self._communicated(communication)
        type_ = NodeType.COMP if communication is None else communication.type
        return _node(op.id, op.name, type_, data, control, span, attributes)

    # --- the device -----------------------------------------------------------------------------

    def _kernel_nodes(self) -> Iterator[TraceNode]:
        last_of_stream: dict[str, int] = {}
        written: dict[int, int] = {}  # storage: the kernel that an operator with it launched last
        for number, kernel in self._numbered.items():
            launcher = self._launcher[number]
            callers = list(self._callers(launcher))
            read = {tensor.storage for tensor in callers[0].inputs}
            data = {written[storage] for storage in read if storage in written}
            control = _known({launcher, last_of_stream.get(kernel.stream)})
            attributes: dict[str, Value] = {"is_cpu_op": False}
            type_ = NodeType.COMP
            if is_communication(kernel.name):
                communication = kernel_communication(kernel.name, kernel.arguments, callers)
                type_ = communication.type
                attributes |= self._communicated(communication)
            yield _node(number, kernel.name, type_, data, control, kernel.span, attributes)
            last_of_stream[kernel.stream] = number
            written.update((t.storage, number) for op in callers for t in op.outputs)

    def _callers(self, number: int | None) -> Iterator[HostOp]:
        """Yield operator ``number``, its caller, the caller's caller, and so on."""
        while number is not None:
            yield self._operators[number]
            number = self._operators[number].parent

    def _communicated(self, communication: Communication) -> dict[str, Value]:
        attributes: dict[str, Value] = {"comm_size": communication.n_bytes}
        if communication.collective is not None:
            attributes["comm_type"] = int(communication.collective)
            group = communication.group  # "" if unknown, as of gloo; "0" is the default group
            if group not in self._group_names and group not in ("", "0"):
                raise DimsweepError(
                    f"neither trace contains the ranks of process group {group!r}",
                    hint="start the observer or the profiler after the groups are created",
                    code="missing",
                )
            if name := self._group_names.get(group, ""):
                attributes["pg_name"] = name
            return attributes
        sends = communication.type is NodeType.COMM_SEND
        ends = (self._rank, communication.peer) if sends else (communication.peer, self._rank)
        return attributes | {"comm_src": ends[0], "comm_dst": ends[1], "comm_tag": 0}


def _node(
    number: int,
    name: str,
    type_: NodeType,
    data: Iterable[int],
    control: Iterable[int],
    span: Span,
    attributes: dict[str, Value],
) -> TraceNode:
    micros = round(span.duration)
    if type_ is NodeType.COMP:
        attributes[extras.DURATION] = round(span.duration * _PICOSECONDS)
    return TraceNode(
        number,
        name,
        type_,
        tuple(sorted(data)),
        tuple(sorted(control)),
        duration_micros=micros,
        attributes=attributes,
    )


def _known(ids: Iterable[int | None]) -> set[int]:
    return {number for number in ids if number is not None}
