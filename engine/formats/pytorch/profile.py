"""When things happened: the operators and kernels in a profile that PyTorch's Kineto writes.

Events are those of Chrome traces, times in microseconds.  An operator (``cpu_op``) has the number
of its call ("Record function id") and one of its own ("External id"); what runs on the device has
the latter too, or else a "correlation" with the call of the CUDA runtime that launched it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import DimsweepError
from engine.formats.pytorch.files import read_object

_HOST = ("cpu_op", "user_annotation")
_LAUNCH = ("cuda_runtime", "cuda_driver")
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


@dataclass(frozen=True)
class Profile:
    """When each call of an operator ran, and the kernels in the order of their starts."""

    calls: Mapping[int, Span] = field(default_factory=dict)
    kernels: Sequence[Kernel] = ()
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
    calls: dict[int, Span] = {}
    call_of: dict[int, int] = {}  # by external id
    launched: dict[int, int] = {}  # external id by correlation
    device = []
    for number, event in enumerate(events):
        try:
            category, arguments = event.get("cat"), event.get("args", {})
            if event.get("ph") != "X" or category not in (*_HOST, *_LAUNCH, *_DEVICE):
                continue
            span = Span(float(event["ts"]), float(event.get("dur", 0)))
            external = arguments.get("External id")
            if category in _DEVICE:
                device.append((event, span))
            elif category in _LAUNCH:
                if external is not None and "correlation" in arguments:
                    launched[int(arguments["correlation"])] = int(external)
            elif "Record function id" in arguments:
                call = int(arguments["Record function id"])
                calls[call] = span
                if external is not None:
                    call_of[int(external)] = call
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"it is no event: {type(error).__name__} {error}"
            raise DimsweepError(what, where=f"{path}: event {number}") from error
    kernels = []
    for event, span in sorted(device, key=lambda pair: pair[1]):
        arguments = event.get("args", {})
        external = arguments.get("External id", launched.get(arguments.get("correlation", -1)))
        call_made = None if external is None else call_of.get(int(external))
        stream = str(arguments.get("stream", event.get("tid", 0)))
        kernels.append(Kernel(str(event.get("name", "")), span, stream, call_made, arguments))
    job = content.get("distributedInfo") or {}
    groups = {str(g["pg_name"]): list(g.get("ranks", [])) for g in job.get("pg_config") or []}
    return Profile(calls, kernels, groups, job.get("rank"), job.get("world_size"))
