"""A job as the model sees it: stages of ranks, and what each of their operators is like."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.errors import DimsweepError
from engine.workload.graph import (
    Access,
    Collective,
    Compute,
    Group,
    Operator,
    Receive,
    Send,
    Work,
    Workload,
)

_NEAR = 16  # operators, over which a dependency is a distance
_NUMBER = re.compile(r"\d+([.:]\d+)*")


class Symbol(NamedTuple):
    """What two operators have in common that are the same at different times and sizes.

    ``over``: the group of a collective or access, the stream of a send; ``peer``: to or from which
    stage, the next, previous, first or last one; ``after``: what it waits for, as distances back in
    the sequence, or "open": all earlier operators that nobody waits for yet, other than sends.
    """

    kind: str
    name: str
    over: str = ""
    peer: str = ""
    after: str = ""
    priority: int = 0

    def __str__(self) -> str:
        return "|".join(map(str, self))

    @classmethod
    def of(cls, text: str) -> "Symbol":
        kind, name, over, peer, after, priority = text.split("|")
        return cls(kind, name, over, peer, after, int(priority))


class Step(NamedTuple):
    """An operator: its symbol, and its quantities by name."""

    symbol: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Job:
    """A job of ``n_ranks``: ``keys``, what it was asked for; ``stages``, the steps of each kind of
    rank in the order of the ranks, ``stride`` ranks apart; and ``groups`` of ranks."""

    name: str
    keys: Mapping[str, float]
    n_ranks: int
    stride: int
    stages: tuple[tuple[Step, ...], ...]
    groups: Mapping[str, Group]

    @classmethod
    def of(cls, workload: Workload, n_ranks: int, keys: Mapping[str, float], name: str) -> "Job":
        """The job of a workload on one dimension of ``n_ranks``.

        Raises :class:`DimsweepError` for a workload whose ranks are no stages, or whose
        dependencies are too far apart.
        """
        stride = _stride(workload, n_ranks, name)
        stages = [
            _steps(graph, stage, stride, n_ranks, len(workload.graphs), f"{name}, stage {stage}")
            for stage, graph in enumerate(workload.graphs)
        ]
        return cls(name, dict(keys), n_ranks, stride, tuple(stages), dict(workload.groups))

    def keys_of(self, stage: int) -> dict[str, float]:
        """The keys that counts may depend on."""
        return {**self.keys, "stage": float(stage), "stages": float(len(self.stages))}


def role(stage: int, n_stages: int) -> str:
    """What kind of stage it is."""
    if n_stages == 1:
        return "only stage"
    if n_stages == 2:
        return ("first of two stages", "last of two stages")[stage]
    return (
        "first stage" if stage == 0 else "last stage" if stage == n_stages - 1 else "middle stage"
    )


def stage_of(peer: str, stage: int, n_stages: int) -> int:
    """The number of the stage that ``peer`` is to a stage."""
    return {"next": stage + 1, "previous": stage - 1, "first": 0, "last": n_stages - 1}[peer]


def _stride(workload: Workload, n_ranks: int, name: str) -> int:
    graph_of = workload.graph_of_rank
    n = len(workload.graphs)
    if graph_of is None or n == 1:
        return n_ranks
    stride = int((graph_of != graph_of[0]).argmax())
    if not np.array_equal(graph_of, np.arange(n_ranks) // stride % n):
        raise DimsweepError(
            f"the {n} kinds of ranks are no stages one behind the other",
            where=name,
            hint="ranks that are alike, or stages of a pipeline, equally far apart",
        )
    return stride


def _steps(
    graph: Sequence[Operator], stage: int, stride: int, n_ranks: int, n_stages: int, where: str
) -> tuple[Step, ...]:
    steps: list[Step] = []
    ends: set[int] = set()  # that nobody waits for yet, without sends
    for number, operator in enumerate(graph):
        after = _after(number, operator, ends, where)
        kind, over, peer, values = _parts(operator.work, stride, n_ranks, n_stages, stage, where)
        name = _NUMBER.sub("", operator.name).replace("|", "/").strip()
        priority = operator.work.priority if isinstance(operator.work, Collective) else 0
        steps.append(
            Step(str(Symbol(kind, " ".join(name.split()), over, peer, after, priority)), values)
        )
        ends -= set(operator.after)
        if not isinstance(operator.work, Send):
            ends.add(number)
    return tuple(steps)


def _after(number: int, operator: Operator, ends: set[int], where: str) -> str:
    before = set(operator.after)
    if before == ends and before:
        return "open"
    far = next((b for b in before if number - b > _NEAR), None)
    if far is not None:
        raise DimsweepError(
            f"operator {number} ({operator.name!r}) waits for one {number - far} before it",
            where=where,
            hint="dependencies are learnt over 16 operators, or where they are all open ends",
        )
    return " ".join(str(number - b) for b in sorted(before, reverse=True))


def _parts(
    work: Work, stride: int, n_ranks: int, n_stages: int, stage: int, where: str
) -> tuple[str, str, str, dict[str, float]]:
    """Kind, what it is over, peer, quantities."""
    match work:
        case Compute():
            if work.kernels:
                raise DimsweepError("kernels are not in traces", where=where)
            if work.duration is not None:
                return "compute", "", "", {"duration": float(work.duration)}
            return "compute", "", "", {"flops": work.flops, "bytes": work.n_bytes}
        case Collective():
            over = f"{work.group}/{work.stream}" if work.stream else work.group
            return f"collective {work.kind}", over, "", {"bytes": work.n_bytes}
        case Access():
            return "store" if work.store else "load", work.group, "", {"bytes": work.n_bytes}
        case Send():
            peer = _peer(work.offset[0], stride, n_ranks, n_stages, stage, where)
            return "send", work.stream, peer, {"bytes": work.n_bytes}
        case Receive():
            peer = _peer(work.offset[0], stride, n_ranks, n_stages, stage, where)
            return "receive", "", peer, {}


def _peer(offset: int, stride: int, n_ranks: int, n_stages: int, stage: int, where: str) -> str:
    """Which stage a message goes to, at the same place of the replica."""
    for peer in ("next", "previous", "first", "last"):
        there = stage_of(peer, stage, n_stages)
        within = 0 <= there < n_stages
        if within and ((there - stage) * stride - offset) % n_ranks == 0:
            return peer
    raise DimsweepError(
        f"a message goes {offset} ranks on, and stages are {stride} apart",
        where=where,
        hint="messages to the next, previous, first and last stage of a pipeline are learnt",
    )
