"""Read PyTorch's recordings of a run: execution traces (host operators) and profiles (times)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.reading import explained, read_head, read_json


class Group(BaseModel):
    """A process group as PyTorch's execution traces and profiles record it."""

    pg_name: Any
    ranks: list[int] = []


def names(groups: Iterable[Group]) -> dict[str, Sequence[int]]:
    """Return the ranks of each group that has ranks, by the group's name."""
    return {str(group.pg_name): group.ranks for group in groups}


def describe_fault(error: ValidationError) -> str:
    """Return Pydantic's first fault in words, with its key."""
    fault = explained(error)
    return ": ".join(filter(None, (fault.where, fault.problem)))


_HEAD = re.compile(rb'\s*\{\s*"schema"\s*:')
_ROOT = ("[pytorch|profiler|", "__ROOT_")  # the process, and its threads
_SCHEMA = re.compile(r"1\.\d+(\.\d+)?(-chakra.*)?")
_COMMUNICATES = "record_param_comms"
_GROUPS = "process_group:init"


class Tensor(NamedTuple):
    """An input or output tensor of an operator, as recorded."""

    storage: int
    n_bytes: int


@dataclass(frozen=True)
class HostOp:
    """An operator of the host; ``parent`` is the one that called it, if any."""

    id: int
    name: str
    parent: int | None
    thread: int
    call: int  # rf_id
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Any]
    shapes: Any  # of the inputs, as the trace has them
    types: Any


@dataclass(frozen=True)
class HostTrace:
    """An execution trace: operators by id, callers before callees, and process groups' ranks."""

    path: Path
    operators: dict[int, HostOp]
    groups: Mapping[str, Sequence[int]]  # an empty list is all ranks


def is_execution_trace(path: Path) -> bool:
    """Return whether a file is PyTorch's execution trace; Chakra's JSON begins otherwise."""
    return bool(_HEAD.match(read_head(path, 4096)))


def read_host(path: Path) -> HostTrace:
    """Return the operators and groups in an execution trace (ExecutionTraceObserver).

    Raises :class:`DimsweepError` naming file and node for anything else.
    """
    content = read_json(path, "execution trace")
    nodes = content.get("nodes")
    if not _SCHEMA.fullmatch(str(content.get("schema"))) or not isinstance(nodes, list):
        raise DimsweepError(
            f"it is not an execution trace of a known schema ({content.get('schema')!r})",
            where=str(path),
            hint="give a file of PyTorch 2's ExecutionTraceObserver, such as 1.1.1-chakra.0.0.4",
            code="unsupported",
        )
    operators: dict[int, HostOp] = {}
    groups: dict[str, Sequence[int]] = {}
    roots = set()
    for number, node in enumerate(nodes, 1):
        where = f"{path}: node {number}"
        try:
            node = _renamed(node)
            named = _Named.model_validate(node)
            if _GROUPS in named.name:
                listed = str(_Init.model_validate(node).inputs.values[0])
                groups |= names(_GROUP_LIST.validate_json(listed))
                roots.add(named.id)
            elif named.name.startswith(_ROOT):
                roots.add(named.id)
            else:
                operators[named.id] = _operator(_Node.model_validate(node))
        except ValidationError as error:
            problem = f"it does not follow the schema: {describe_fault(error)}"
            raise DimsweepError(problem, where=where, code="bad-syntax") from error
        except RecursionError as error:
            raise DimsweepError(
                "the file is nested too deeply", where=where, code="bad-syntax"
            ) from error
    if not operators:
        hint = "run the model between start() and stop() of the ExecutionTraceObserver"
        raise DimsweepError(
            "the trace has no operators", where=str(path), hint=hint, code="missing"
        )
    known = operators.keys() | roots
    for operator in operators.values():
        if operator.parent not in known:
            problem = f"its parent {operator.parent} is not in the trace"
            raise DimsweepError(
                problem,
                where=f"{path}: node id {operator.id} ({operator.name!r})",
                code="bad-syntax",
            )
    return HostTrace(path, _called(operators), groups)


class _Named(BaseModel):
    id: int
    name: str


class _Attribute(BaseModel):
    name: str
    value: Any


class _Values(BaseModel):
    values: Any
    shapes: Any = None
    types: Any = None


class _Node(_Named):
    ctrl_deps: int
    inputs: _Values
    outputs: _Values
    attrs: list[_Attribute]


class _Numbers(BaseModel):
    """The numeric attributes of an operator, with checks."""

    tid: int = 0
    rf_id: int = 0


def _renamed(node: Any) -> Any:
    """Return a node of schema 1.0.1 with the keys of later schemas; other nodes unchanged."""
    if not isinstance(node, dict) or "attrs" in node or "parent" not in node:
        return node
    values = {
        name: {"values": node.get(name), "shapes": node.get(f"{key}_shapes")}
        | {"types": node.get(f"{key}_types")}
        for name, key in (("inputs", "input"), ("outputs", "output"))
    }
    attributes = [{"name": key, "value": node[key]} for key in ("rf_id", "tid") if key in node]
    return {**node, **values, "ctrl_deps": node["parent"], "attrs": attributes}


def _operator(node: _Node) -> HostOp:
    attributes = {item.name: item.value for item in node.attrs}
    if node.name == _COMMUNICATES and "collective_name" not in attributes:
        attributes |= _communicated(node.inputs.values)
    numbers = _Numbers.model_validate(attributes)
    return HostOp(
        node.id,
        node.name,
        node.ctrl_deps,
        numbers.tid,
        numbers.rf_id,
        tuple(_tensors(node.inputs.values)),
        tuple(_tensors(node.outputs.values)),
        attributes,
        node.inputs.shapes,
        node.inputs.types,
    )


def _communicated(values: Any) -> dict[str, Any]:
    """Return the collective and its group from the inputs of ``record_param_comms``.

    The inputs are the tensors (missing in a wait or a barrier), a sequence number, the group (a
    name, or a list of name and description), the rank, the collective, and more.
    """
    if not isinstance(values, list):
        return {}
    rest = values[1:] if values and isinstance(values[0], list) else values
    if len(rest) < 4 or not isinstance(rest[3], str):
        return {}
    group = rest[1][0] if isinstance(rest[1], list) and rest[1] else rest[1]
    return {"collective_name": rest[3], "pg_name": group}


def _tensors(values: Any) -> Iterator[Tensor]:
    """Yield all tensors in recorded inputs or outputs, nested ones included."""
    if not isinstance(values, list):
        return
    whole = [isinstance(value, int) and not isinstance(value, bool) for value in values]
    if whole == [True] * 5 + [False] and isinstance(values[5], str):
        _, storage, _, elements, n_bytes, _ = values
        yield Tensor(storage, elements * n_bytes)
        return
    for value in values:
        yield from _tensors(value)


class _Texts(BaseModel):
    values: list[Any] = Field(min_length=1)


class _Init(BaseModel):
    """Schema of the node whose first input is the JSON text of process groups."""

    inputs: _Texts


_GROUP_LIST = TypeAdapter(list[Group])


def _called(operators: Mapping[int, HostOp]) -> dict[int, HostOp]:
    """Return the operators in the order of their calls; they were recorded when they ended.

    Parents that are not operators (threads) become None.
    """
    calls: dict[int, HostOp] = {}
    for op in sorted(operators.values(), key=lambda op: op.id):
        if op.parent not in operators:
            op = replace(op, parent=None)
        elif op.parent not in calls:
            problem = f"its parent {op.parent} was called after it"
            raise DimsweepError(problem, where=f"node id {op.id} ({op.name!r})", code="bad-syntax")
        calls[op.id] = op
    return calls


_HOST = ("cpu_op", "user_annotation")
_LAUNCH = ("cuda_runtime", "cuda_driver")
_WAITS = "Synchronize"  # cudaStreamSynchronize, hipDeviceSynchronize...
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


class Span(NamedTuple):
    """An interval of time in a profile: ``start`` and ``duration``, both in us."""

    start: float
    duration: float

    @property
    def end(self) -> float:
        return self.start + self.duration


class Kernel(NamedTuple):
    """A kernel, copy or fill on the device; ``call``: the operator's call that launched it."""

    name: str
    span: Span
    stream: str
    call: int | None
    arguments: Mapping[str, Any]


class Call(NamedTuple):
    """The run of an operator on a host thread; ``marks``: it is only a label set by the user."""

    span: Span
    thread: str
    marks: bool


class Wait(NamedTuple):
    """An interval in which the host waits for the device; ``call``: the operator's, if known."""

    span: Span
    thread: str
    call: int | None


@dataclass(frozen=True)
class Profile:
    """A Kineto profile: calls of operators by number, kernels by start time, and waits."""

    calls: Mapping[int, Call] = field(default_factory=dict)
    kernels: Sequence[Kernel] = ()
    waits: Sequence[Wait] = ()
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    rank: int | None = None
    world: int | None = None


def read_profile(path: Path) -> Profile:
    """Read a profile of Kineto.

    Raises :class:`DimsweepError` naming file and event for anything else.
    """
    content = read_json(path, "profile")
    events = content.get("traceEvents")
    if not isinstance(events, list):
        raise DimsweepError(
            "it is not a profile: it has no traceEvents",
            where=str(path),
            hint="give a file of torch.profiler's export_chrome_trace",
            code="missing",
        )
    read = _Events()
    for number, event in enumerate(events):
        where = f"{path}: event {number}"
        if not isinstance(event, dict):
            raise DimsweepError(
                f"it is not an event: {event!r:.80}", where=where, code="bad-syntax"
            )
        if event.get("ph") != "X" or event.get("cat") not in (*_HOST, *_LAUNCH, *_DEVICE):
            continue
        try:
            read.add(_Event.model_validate(event))
        except ValidationError as error:
            raise DimsweepError(
                f"it is not an event: {describe_fault(error)}", where=where, code="bad-syntax"
            ) from error
    try:
        job = _Job.model_validate(content.get("distributedInfo") or {})
    except ValidationError as error:
        problem = f"it does not describe a job: {describe_fault(error)}"
        raise DimsweepError(problem, where=f"{path}: distributedInfo", code="bad-syntax") from error
    waits = [Wait(span, thread, read.call_of.get(ext)) for span, thread, ext in read.waits]
    groups = names(job.pg_config or ())
    return Profile(read.calls, read.kernels(), waits, groups, job.rank, job.world_size)


class _Job(BaseModel):
    rank: int | None = None
    world_size: int | None = None
    pg_config: list[Group] | None = None


class _Links(BaseModel):
    """The arguments of an event that refer to other events."""

    external: int | None = Field(None, alias="External id")
    correlation: int | None = None
    call: int | None = Field(None, alias="Record function id")


class _Event(BaseModel):
    """Schema of a profile's event of a kind that is read."""

    cat: str
    name: str = ""
    ts: float = Field(allow_inf_nan=False)
    dur: float = Field(0.0, ge=0, allow_inf_nan=False)
    tid: Any = None
    args: dict[str, Any] = {}


class _Events:
    """The events of a profile, sorted by kind before they are linked to each other."""

    def __init__(self) -> None:
        self.calls: dict[int, Call] = {}
        self.call_of: dict[int | None, int] = {}  # by external id
        self.waits: list[tuple[Span, str, int | None]] = []  # with an external id
        self._launched: dict[int | None, int] = {}  # external id by correlation
        # Kernels with the key of their call: an external id, or a correlation.
        self._device: list[tuple[Kernel, int | None, int | None]] = []

    def add(self, event: _Event) -> None:
        links = _Links.model_validate(event.args)
        span, thread = Span(event.ts, event.dur), str(event.tid)
        if event.cat in _DEVICE:
            stream = str(event.args.get("stream", event.tid))
            kernel = Kernel(event.name, span, stream, None, event.args)
            self._device.append((kernel, links.external, links.correlation))
        elif event.cat in _LAUNCH:
            if links.external is not None and links.correlation is not None:
                self._launched[links.correlation] = links.external
            if _WAITS in event.name:
                self.waits.append((span, thread, links.external))
        elif links.call is not None:
            self.calls[links.call] = Call(span, thread, event.cat == _HOST[1])
            if links.external is not None:
                self.call_of[links.external] = links.call

    def kernels(self) -> list[Kernel]:
        """Return the kernels, linked to the calls that launched them, by start time."""
        linked = (
            kernel._replace(
                call=self.call_of.get(
                    self._launched.get(correlation) if external is None else external
                )
            )
            for kernel, external, correlation in self._device
        )
        return sorted(linked, key=lambda kernel: kernel.span)
