"""When things happened: the operators and kernels in a profile that PyTorch's Kineto writes.

Events are those of Chrome traces, times in microseconds.  An operator (``cpu_op``) has the number
of its call ("Record function id") and one of its own ("External id"); what runs on the device has
the latter too, or else a "correlation" with the call of the CUDA runtime that launched it.  What
the user named (``user_annotation``) has both numbers as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.fields import read_json
from dimsweep.engine.formats.pytorch.files import Group, first_fault, names

_HOST = ("cpu_op", "user_annotation")
_LAUNCH = ("cuda_runtime", "cuda_driver")
_WAITS = "Synchronize"  # cudaStreamSynchronize, hipDeviceSynchronize...
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


class Span(NamedTuple):
    """From ``start`` for ``duration``, both in us."""

    start: float
    duration: float

    @property
    def end(self) -> float:
        return self.start + self.duration


class Kernel(NamedTuple):
    """Something that ran on the device, launched in the call ``call`` of an operator, if known."""

    name: str
    span: Span
    stream: str
    call: int | None
    arguments: Mapping[str, Any]


class Call(NamedTuple):
    """An operator's run on a thread of the host; ``marks`` only: a name that the user gave."""

    span: Span
    thread: str
    marks: bool


class Wait(NamedTuple):
    """The host waits for the device, in the call ``call`` of an operator, if known."""

    span: Span
    thread: str
    call: int | None


@dataclass(frozen=True)
class Profile:
    """The calls of operators by number, kernels in the order of their starts, and waits."""

    calls: Mapping[int, Call] = field(default_factory=dict)
    kernels: Sequence[Kernel] = ()
    waits: Sequence[Wait] = ()
    groups: Mapping[str, Sequence[int]] = field(default_factory=dict)
    rank: int | None = None
    world: int | None = None


def read_profile(path: Path) -> Profile:
    """Raises :class:`DimsweepError` naming file and event for what is no profile."""
    content = read_json(path, "profile")
    events = content.get("traceEvents")
    if not isinstance(events, list):
        raise DimsweepError(
            "this is no profile: it has no traceEvents",
            where=str(path),
            hint="what torch.profiler's export_chrome_trace writes",
        )
    read = _Events()
    for number, event in enumerate(events):
        where = f"{path}: event {number}"
        if not isinstance(event, dict):
            raise DimsweepError(f"it is no event: {event!r:.80}", where=where)
        if event.get("ph") != "X" or event.get("cat") not in (*_HOST, *_LAUNCH, *_DEVICE):
            continue
        try:
            read.add(_Event.model_validate(event))
        except ValidationError as error:
            raise DimsweepError(f"it is no event: {first_fault(error)}", where=where) from error
    try:
        job = _Job.model_validate(content.get("distributedInfo") or {})
    except ValidationError as error:
        what = f"it says nothing of a job: {first_fault(error)}"
        raise DimsweepError(what, where=f"{path}: distributedInfo") from error
    waits = [Wait(span, thread, read.call_of.get(ext)) for span, thread, ext in read.waits]
    groups = names(job.pg_config or ())
    return Profile(read.calls, read.kernels(), waits, groups, job.rank, job.world_size)


class _Job(BaseModel):
    rank: int | None = None
    world_size: int | None = None
    pg_config: list[Group] | None = None


class _Links(BaseModel):
    """Arguments of an event that tell what it belongs to."""

    external: int | None = Field(None, alias="External id")
    correlation: int | None = None
    call: int | None = Field(None, alias="Record function id")


class _Event(BaseModel):
    """An event of a kind that is read."""

    cat: str
    name: str = ""
    ts: float = Field(allow_inf_nan=False)
    dur: float = Field(0.0, ge=0, allow_inf_nan=False)
    tid: Any = None
    args: dict[str, Any] = {}


class _Events:
    """Events of a profile, sorted out as they come; what they refer to may come later."""

    def __init__(self) -> None:
        self.calls: dict[int, Call] = {}
        self.call_of: dict[int | None, int] = {}  # by external id
        self.waits: list[tuple[Span, str, int | None]] = []  # with an external id
        self._launched: dict[int | None, int] = {}  # external id by correlation
        # Kernels with what tells their calls: an external id, or a correlation.
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
        """In the order of their starts."""
        linked = (
            kernel._replace(
                call=self.call_of.get(
                    self._launched.get(correlation) if external is None else external
                )
            )
            for kernel, external, correlation in self._device
        )
        return sorted(linked, key=lambda kernel: kernel.span)
