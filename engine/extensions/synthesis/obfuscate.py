"""Obfuscate traces for sharing: no names, jittered sizes and durations, about the same time."""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from dimsweep.engine.errors import DimsweepError
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

LARGEST = 0.5  # privacy; above it the sizes would be meaningless


def obfuscate(workload: Workload, *, privacy: float, seed: int = 0) -> Workload:
    """Return ``workload`` without its names, and with other sizes and durations.

    Each different size or duration is multiplied by a separate log-normal factor; ``privacy`` is
    the standard deviation of its logarithm.  Equal values get the same factor, so ranks stay
    consistent and loops stay loops.  The totals of computation, and of the bytes of each kind of
    communication over each group, do not change.  Operators, streams, tags and groups get numbers
    in a random order.  Raises :class:`DimsweepError` for a privacy outside 0..0.5.
    """
    if not 0 <= privacy <= LARGEST:
        raise DimsweepError(
            f"{privacy:g}; it must be from 0 to {LARGEST:g}", where="privacy", code="out-of-range"
        )
    disguise = _Disguise(workload, privacy, np.random.default_rng(seed))
    graphs = tuple(
        tuple(
            Operator(_kind(each.work), disguise.change_work(each.work), each.after)
            for each in graph
        )
        for graph in workload.graphs
    )
    groups = {disguise.groups[name]: group for name, group in workload.groups.items()}
    stages = None if workload.stages is None else disguise.groups[workload.stages]
    return replace(
        workload, graphs=graphs, groups=groups, stages=stages, name="job", footprint=None
    )


def _kind(work: Work) -> str:
    return str(work.kind) if isinstance(work, Collective) else type(work).__name__.lower()


def _amounts(work: Work) -> dict[str, float]:
    """Return the sizes and durations of an operator's work, by name."""
    if isinstance(work, Receive):
        return {}
    names = ("flops", "n_bytes", "duration") if isinstance(work, Compute) else ("n_bytes",)
    return {name: getattr(work, name) for name in names if getattr(work, name)}


class _Disguise:
    """The new values of all sizes, durations, streams and groups of a workload."""

    def __init__(self, workload: Workload, privacy: float, rng: np.random.Generator) -> None:
        works = [operator.work for graph in workload.graphs for operator in graph]
        self.groups = _numbered("group", workload.groups, rng)
        streams = {work.stream for work in works if isinstance(work, (Send, Collective))} - {""}
        self._streams = _numbered("stream", sorted(streams), rng) | {"": ""}
        self._factor: dict[Hashable, float] = {}
        before: dict[Hashable, float] = defaultdict(float)
        after: dict[Hashable, float] = defaultdict(float)
        for work in works:
            for name, amount in _amounts(work).items():
                key = self._key(work, name, amount)
                if key not in self._factor:
                    self._factor[key] = float(np.exp(privacy * rng.standard_normal()))
                before[key[:-1]] += amount
                after[key[:-1]] += amount * self._factor[key]
        self._same_total = {kind: before[kind] / after[kind] for kind in before}

    def _key(self, work: Work, name: str, amount: float) -> tuple[Hashable, ...]:
        over = getattr(work, "group", "") or getattr(work, "stream", "")
        return _kind(work), over, name, amount

    def change_work(self, work: Work) -> Work:
        """Return an operator's work with its names, sizes and durations replaced."""
        changed: dict[str, Any] = {}
        for name, amount in _amounts(work).items():
            key = self._key(work, name, amount)
            value = amount * self._factor[key] * self._same_total[key[:-1]]
            changed[name] = round(value) if name == "duration" else float(max(1, round(value)))
        match work:
            case Compute():
                return replace(work, kernels=(), **changed)
            case Collective():
                group, stream = self.groups[work.group], self._streams[work.stream]
                return replace(work, group=group, stream=stream, **changed)
            case Access():
                group = self.groups[work.group] if work.group else ""
                return replace(work, group=group, **changed)
            case Send():
                return replace(work, stream=self._streams[work.stream], **changed)
            case Receive():
                return work


def _numbered(noun: str, names: object, rng: np.random.Generator) -> dict[str, str]:
    listed = list(names)  # type: ignore[call-overload]
    return {
        name: f"{noun} {number}"
        for name, number in zip(listed, rng.permutation(len(listed)), strict=True)
    }
