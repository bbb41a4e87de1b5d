"""From PyTorch's traces to Chakra's: one node for an operator of the host, one for each kernel.

An operator waits for its caller, for the operator before it on its thread, and for whoever last
wrote the storage of its inputs; its duration is what it spent outside the operators it called.  A
kernel waits for the operator that launched it, for the kernel before it on its stream, and for the
kernels that last wrote its operator's inputs.  Where the host waited for the device (a call of the
CUDA runtime that synchronizes), its next operator waits for the kernel that ended last meanwhile,
and the wait is no work.  Time between operators is Python's, and not converted.
"""

import math
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dimsweep.engine.errors import DimsweepError, within
from dimsweep.engine.formats.chakra import own
from dimsweep.engine.formats.chakra.trace import NodeType, Trace, TraceNode, Value
from dimsweep.engine.formats.pytorch.communication import (
    Communication,
    is_communication,
    of_host,
    of_kernel,
)
from dimsweep.engine.formats.pytorch.groups import Groups
from dimsweep.engine.formats.pytorch.host import HostOp, HostTrace, read_host
from dimsweep.engine.formats.pytorch.profile import Kernel, Profile, Span, read_profile

_PICOSECONDS = 1e6  # in a microsecond


@dataclass(frozen=True)
class Converted:
    """Chakra traces by rank, the ranks of their groups, and what was in no operator's call."""

    traces: list[Trace]
    groups: dict[str, list[int]]
    n_kernels: int
    n_left_out: int


def convert_traces(hosts: Sequence[Path], profiles: Sequence[Path]) -> Converted:
    """Convert the execution traces of ranks 0, 1, ... with their profiles, or without any.

    Without profiles nothing takes time, and kernels are unknown: collectives are then the host's.
    Raises :class:`DimsweepError` naming the file for what cannot be read or linked.
    """
    if profiles and len(profiles) != len(hosts):
        raise DimsweepError(f"{len(hosts)} execution traces, but {len(profiles)} profiles")
    groups = Groups()
    traces, n_kernels, n_left_out = [], 0, 0
    for rank, path in enumerate(hosts):
        host = read_host(path)
        profile = read_profile(profiles[rank]) if profiles else Profile()
        if profiles and not any(op.call in profile.calls for op in host.operators.values()):
            raise DimsweepError(
                f"it has no operator in common with {profiles[rank]}",
                where=str(path),
                hint="both must be of one run: profile(..., execution_trace_observer=observer)",
            )
        number = profile.rank if profile.rank is not None and len(hosts) == 1 else rank
        names = groups.of_rank(host.groups, profile, len(hosts))
        conversion = _Rank(host, profile, number, names)
        with within(path):
            traces.append(Trace(tuple(conversion.nodes())))
        n_kernels += len(profile.kernels)
        n_left_out += len(profile.kernels) - conversion.n_kernels
    return Converted(traces, groups.ranks, n_kernels, n_left_out)


class _Rank:
    """One rank's nodes."""

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
        """The host's operators under their ids, then the kernels."""
        yield from self._host_nodes()
        yield from self._kernel_nodes()

    # --- the host -------------------------------------------------------------------------------

    def _exclusive(self, called: Mapping[int | None, int]) -> dict[int, float]:
        """Microseconds that each operator spent outside those that it called, and not waiting."""
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
        """Operators that a thread ran next after it waited for the device, and for which kernel."""
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
        communication = None if op.id in self._communicates else of_host(op)
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
            yield self._kernel_node(number, kernel, callers, data, control)
            last_of_stream[kernel.stream] = number
            written.update((t.storage, number) for op in callers for t in op.outputs)

    def _kernel_node(
        self,
        number: int,
        kernel: Kernel,
        callers: Sequence[HostOp],
        data: Iterable[int],
        control: Iterable[int],
    ) -> TraceNode:
        attributes: dict[str, Value] = {"is_cpu_op": False}
        type_ = NodeType.COMP
        if is_communication(kernel.name):
            communication = of_kernel(kernel.name, kernel.arguments, callers)
            type_ = communication.type
            attributes |= self._communicated(communication)
        return _node(number, kernel.name, type_, data, control, kernel.span, attributes)

    def _callers(self, number: int | None) -> Iterator[HostOp]:
        """The operator, who called it, who called that..."""
        while number is not None:
            yield self._operators[number]
            number = self._operators[number].parent

    def _communicated(self, communication: Communication) -> dict[str, Value]:
        attributes: dict[str, Value] = {"comm_size": communication.n_bytes}
        if communication.collective is not None:
            attributes["comm_type"] = int(communication.collective)
            if name := self._group(communication.group):
                attributes["pg_name"] = name
            return attributes
        sends = communication.type is NodeType.COMM_SEND
        ends = (self._rank, communication.peer) if sends else (communication.peer, self._rank)
        return attributes | {"comm_src": ends[0], "comm_dst": ends[1], "comm_tag": 0}

    def _group(self, name: str) -> str:
        """Our name of a process group; gloo does not say which it was, the default group is "0"."""
        if name not in self._group_names and name not in ("", "0"):
            raise DimsweepError(
                f"the ranks of process group {name!r} are in neither trace",
                hint="start the observer or the profiler after the groups were made",
            )
        return self._group_names.get(name, "")


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
        attributes[own.DURATION] = round(span.duration * _PICOSECONDS)
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
