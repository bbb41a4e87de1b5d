"""When things happened: the operators and kernels in a profile that PyTorch's Kineto writes.

Events are those of Chrome traces, times in microseconds.  An operator (``cpu_op``) has the number
of its call ("Record function id") and one of its own ("External id"); what runs on the device has
the latter too, or else a "correlation" with the call of the CUDA runtime that launched it.  What
the user named (``user_annotation``) has both numbers as well.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import DimsweepError
from engine.formats.pytorch.files import MALFORMED, read_object

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
    content = read_object(path, "profile")
    events = content.get("traceEvents")
    if not isinstance(events, list):
        raise DimsweepError(
            "this is no profile: it has no traceEvents",
            where=str(path),
            hint="what torch.profiler's export_chrome_trace writes",
        )
    read = _Events()
    for number, event in enumerate(events):
        try:
            read.add(event)
        except MALFORMED as error:
            what = f"it is no event: {type(error).__name__} {error}"
            raise DimsweepError(what, where=f"{path}: event {number}") from error
    try:
        groups, rank, world = _job(content.get("distributedInfo") or {})
    except MALFORMED as error:
        what = f"it says nothing of a job: {type(error).__name__} {error}"
        raise DimsweepError(what, where=f"{path}: distributedInfo") from error
    waits = [Wait(span, thread, read.call_of.get(ext)) for span, thread, ext in read.waits]
    return Profile(read.calls, read.kernels(), waits, groups, rank, world)


def _job(said: Mapping[str, Any]) -> tuple[dict[str, list[int]], int | None, int | None]:
    """Process groups, the rank, and the number of ranks."""
    groups = {
        str(group["pg_name"]): [int(rank) for rank in group.get("ranks", [])]
        for group in said.get("pg_config") or []
    }
    return groups, _whole(said, "rank"), _whole(said, "world_size")


class _Events:
    """Events of a profile, sorted out as they come; what they refer to may come later."""

    def __init__(self) -> None:
        self.calls: dict[int, Call] = {}
        self.call_of: dict[int | None, int] = {}  # by external id
        self.waits: list[tuple[Span, str, int | None]] = []  # with an external id
        self._launched: dict[int | None, int] = {}  # external id by correlation
        # Kernels with what tells their calls: an external id, or a correlation.
        self._device: list[tuple[Kernel, int | None, int | None]] = []

    def add(self, event: Mapping[str, Any]) -> None:
        category, arguments = event.get("cat"), event.get("args", {})
        if event.get("ph") != "X" or category not in (*_HOST, *_LAUNCH, *_DEVICE):
            return
        span = Span(float(event["ts"]), float(event.get("dur", 0)))
        if not (0 <= span.duration < math.inf and math.isfinite(span.start)):
            raise ValueError(f"{span.duration} us from {span.start}")
        thread, external = str(event.get("tid")), _whole(arguments, "External id")
        correlation = _whole(arguments, "correlation")
        if category in _DEVICE:
            stream = str(arguments.get("stream", event.get("tid")))
            kernel = Kernel(str(event.get("name", "")), span, stream, None, arguments)
            self._device.append((kernel, external, correlation))
        elif category in _LAUNCH:
            if external is not None and correlation is not None:
                self._launched[correlation] = external
            if _WAITS in event["name"]:
                self.waits.append((span, thread, external))
        else:
            call = _whole(arguments, "Record function id")
            if call is not None:
                self.calls[call] = Call(span, thread, category == _HOST[1])
                if external is not None:
                    self.call_of[external] = call

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


def _whole(arguments: Mapping[str, Any], name: str) -> int | None:
    return int(arguments[name]) if name in arguments else None
