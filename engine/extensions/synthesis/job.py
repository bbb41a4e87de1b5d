"""A job's trace as the learner sees it: pipeline stages of ranks, with steps of operators."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError, naming_place
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.coordinates import Group, Offset, all_coordinates, wrap_offset
from dimsweep.engine.workload.graph import (
    Access,
    Collective,
    Compute,
    Graph,
    Operator,
    Receive,
    Send,
    Work,
    Workload,
    graph_by_rank,
)

_NUMBER = re.compile(r"\d+([.:]\d+)*")
# The name of a group by its shape, with its name in the trace.
_PLAIN = re.compile(r"\d+(x\d+)*( stride \d+(x\d+)*)?( \(.*\))?", re.DOTALL)
_PEERS = ("next", "previous", "first", "last")  # stages, seen from one
_KINDS = frozenset(
    ("compute", "host", "load", "store", "shared load", "shared store", "send", "receive")
) | {f"collective {kind}" for kind in CollectiveKind}


class Symbol(NamedTuple):
    """The properties of an operator besides time and size: kind, name, group, peer and so on."""

    kind: str
    name: str
    over: str = ""  # group of a collective or access, stream or send of a message
    peer: str = ""  # stage of a message's other end: next, previous, first or last
    priority: int = 0
    after: str = ""  # rules of its dependencies, if known (see the module waiting)

    def __str__(self) -> str:
        return "|".join(map(str, self))

    @property
    def label(self) -> str:
        """Name by which other steps refer to steps of this symbol in their dependencies."""
        return " ".join(filter(None, (self.kind, self.name, self.over, self.peer)))

    @classmethod
    def from_text(cls, text: str) -> "Symbol":
        """Return the symbol that ``text`` describes.  Raises ValueError for other text."""
        kind, name, over, peer, priority, after = text.split("|")
        return cls(kind, name, over, peer, int(priority), after)

    def check(self, groups: Collection[str]) -> None:
        """Raise ValueError for a symbol of an unknown kind, group or peer."""
        if self.kind not in _KINDS:
            raise ValueError(f"the step {self.name!r} has the unknown kind {self.kind!r}")
        if self.kind.startswith("collective") and self.over.partition("/")[0] not in groups:
            raise ValueError(f"{self.name!r} uses the unknown group {self.over!r}")
        if self.kind in ("send", "receive") and self.peer not in _PEERS:
            raise ValueError(f"{self.name!r} has the unknown peer {self.peer!r}")


class Step(NamedTuple):
    """An operator of a job: symbol, sizes and durations by name, and dependencies by place."""

    symbol: Symbol
    values: Mapping[str, float]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Job:
    """A job's trace: the steps of one rank of each pipeline stage, and the job's keys."""

    name: str
    keys: Mapping[str, float]  # the parameters of the job
    sizes: tuple[int, ...]  # of the dimensions
    axis: int  # dimension along which the stages follow each other
    stride: int  # their distance
    stages: tuple[tuple[Step, ...], ...]  # steps of the ranks of each stage
    groups: Mapping[str, Group]
    in_order: bool = False  # ranks start the first of the ready steps
    rank_spread: float = 0.0  # of log durations, between the ranks of a stage

    @classmethod
    def from_workload(
        cls, workload: Workload, sizes: Sequence[int], keys: Mapping[str, float], name: str
    ) -> "Job":
        """Return the job of a workload on dimensions of ``sizes``.

        The durations of a stage's ranks may differ, as in measured traces; their mean counts.
        Groups that traces only number get names by their strides and sizes, so that jobs of other
        sizes use the same names.

        Raises :class:`DimsweepError` naming rank and operator for ranks that do not form stages,
        and for messages that the model cannot express.
        """
        place, ranks = _placed(workload, tuple(sizes), name)
        graphs = [_mean(equivalent) for equivalent in ranks]
        groups = _names(workload.groups)
        stages = [
            [_step(operator, place, stage, groups) for operator in graph]
            for stage, graph in enumerate(graphs)
        ]
        _match(graphs, stages, place)
        renamed = {groups[name]: group for name, group in workload.groups.items()}
        return cls(
            name,
            dict(keys),
            place.sizes,
            place.axis,
            place.stride,
            tuple(map(tuple, stages)),
            renamed,
            workload.in_order,
            _rank_spread(ranks),
        )

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return math.prod(self.sizes)

    def keys_of(self, stage: int) -> dict[str, float]:
        """Return the keys on which the loop counts of a stage may depend, with their values."""
        return {**self.keys, "stage": float(stage), "stages": float(len(self.stages))}

    def describe_place(self, stage: int, number: int) -> str:
        """Return step ``number`` of a stage in words, for an error."""
        name = self.stages[stage][number].symbol.name
        rank = stage * self.stride * math.prod(self.sizes[: self.axis])
        return f"{self.name}, rank {rank}, operator {number} ({name!r})"


def role(stage: int, n_stages: int) -> str:
    """Return the role of a stage among ``n_stages``, such as "first stage"."""
    if n_stages == 1:
        return "only stage"
    if n_stages == 2:
        return ("first of two stages", "last of two stages")[stage]
    return (
        "first stage" if stage == 0 else "last stage" if stage == n_stages - 1 else "middle stage"
    )


def stage_of(peer: str, stage: int, n_stages: int) -> int:
    """Return the number of the stage that ``stage`` calls ``peer``, such as "next"."""
    return dict(zip(_PEERS, (stage + 1, stage - 1, 0, n_stages - 1), strict=True))[peer]


class _Place(NamedTuple):
    """The placement of a job's pipeline stages on the dimensions."""

    job: str
    sizes: tuple[int, ...]
    axis: int
    stride: int
    n_stages: int

    def first_rank(self, stage: int) -> int:
        return stage * self.stride * math.prod(self.sizes[: self.axis])


def offset_to(hop: int, axis: int, stride: int, sizes: Sequence[int]) -> Offset:
    """Return the coordinate offset to the stage ``hop`` stages further.

    Stages are ``stride`` apart on dimension ``axis``.
    """
    return tuple(hop * stride % n if d == axis else 0 for d, n in enumerate(sizes))


def _placed(
    workload: Workload, sizes: tuple[int, ...], name: str
) -> tuple[_Place, list[list[Graph]]]:
    """Return the placement of a job's stages, and the graphs of each stage's ranks.

    A job without stages is one stage along the last dimension.
    """
    graph_of = graph_by_rank(workload, sizes)
    known: dict[tuple[Operator, ...], int] = {}
    kind_of_graph = [known.setdefault(_untimed(graph), len(known)) for graph in workload.graphs]
    kinds = np.array(kind_of_graph)[graph_of]
    place = _stages(workload, kinds, sizes, name)
    along = all_coordinates(sizes)[:, place.axis]
    stage_of_rank = along // place.stride % place.n_stages
    expected = kinds[[place.first_rank(stage) for stage in range(place.n_stages)]][stage_of_rank]
    if (kinds != expected).any():
        raise _no_stages(
            workload, graph_of, stage_of_rank, int((kinds != expected).argmax()), place
        )
    return place, [
        [workload.graphs[i] for i in graph_of[stage_of_rank == stage]]
        for stage in range(place.n_stages)
    ]


def _untimed(graph: Graph) -> tuple[Operator, ...]:
    """Return the operators of a graph with all durations of computations set to 0."""
    return tuple(
        Operator(each.name, replace(each.work, duration=0), each.after)
        if isinstance(each.work, Compute) and each.work.duration is not None
        else each
        for each in graph
    )


def _stages(
    workload: Workload, kinds: NDArray[np.int64], sizes: tuple[int, ...], name: str
) -> _Place:
    """Return the placement of stages, from the distance of messages and repeated first ranks."""
    hops = {
        wrap_offset(work.offset, sizes)
        for work in workload.works()
        if isinstance(work, (Send, Receive))
    }
    along = [(d, min(o, sizes[d] - o)) for hop in hops for d, o in enumerate(hop) if o]
    last = len(sizes) - 1
    if not along:
        return _Place(name, sizes, last, sizes[last], 1)
    axis, stride = min(along, key=lambda each: each[1])
    line = kinds[:: math.prod(sizes[:axis])][: sizes[axis] : stride]
    again = np.flatnonzero(line[1:] == line[0])
    return _Place(name, sizes, axis, stride, int(again[0]) + 1 if len(again) else len(line))


def _mean(graphs: Sequence[Graph]) -> Graph:
    """Return the mean of graphs that differ at most in the durations of computations."""
    if all(graph is graphs[0] for graph in graphs):
        return graphs[0]

    def average(equivalent: Sequence[Operator]) -> Operator:
        first = equivalent[0]
        if not isinstance(first.work, Compute) or first.work.duration is None:
            return first
        total = sum(each.work.duration for each in equivalent)  # type: ignore[union-attr, misc]
        work = replace(first.work, duration=round(total / len(equivalent)))
        return Operator(first.name, work, first.after)

    return tuple(average(equivalent) for equivalent in zip(*graphs, strict=True))


def _rank_spread(stages: Sequence[Sequence[Graph]]) -> float:
    variances: list[float] = []
    for graphs in stages:
        if all(graph is graphs[0] for graph in graphs):
            continue
        for equivalent in zip(*graphs, strict=True):
            durations = [getattr(each.work, "duration", None) or 0 for each in equivalent]
            if min(durations) > 0:
                variances.append(float(np.var(np.log(durations))))
    return math.sqrt(np.mean(variances)) if variances else 0.0


def _no_stages(
    workload: Workload,
    graph_of: NDArray[np.int64],
    stage_of_rank: NDArray[np.int64],
    rank: int,
    place: _Place,
) -> DimsweepError:
    like = place.first_rank(int(stage_of_rank[rank]))
    likely, found = (_untimed(workload.graphs[graph_of[each]]) for each in (like, rank))
    pairs = zip(likely, found, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(likely), len(found)))
    operator = f"operator {at} ({found[at].name!r})" if at < len(found) else "its end"
    return DimsweepError(
        f"from {operator} on it differs from rank {like}, which has the same place in "
        f"{'a stage' if place.n_stages > 1 else 'the job'}",
        where=f"{place.job}, rank {rank}",
        hint="ranks must be equal, or form stages of a pipeline at equal distances",
        code="unsupported",
    )


def _names(groups: Mapping[str, Group]) -> dict[str, str]:
    plain = sorted(
        (name for name in groups if _PLAIN.fullmatch(name)),
        key=lambda name: (groups[name].strides, groups[name].sizes),
    )
    return {name: name for name in groups} | {name: f"group {i}" for i, name in enumerate(plain)}


def _step(operator: Operator, place: _Place, stage: int, groups: Mapping[str, str]) -> Step:
    work = operator.work
    with naming_place(f"{place.job}, rank {place.first_rank(stage)}, operator {operator.name!r}"):
        kind, over, peer, values = _parts(work, place, stage, groups)
    priority = work.priority if isinstance(work, Collective) else 0
    return Step(Symbol(kind, _plain(operator.name), over, peer, priority), values, operator.after)


def _plain(name: str) -> str:
    """Return an operator's name without numbers, and without the separators of symbols."""
    return " ".join(_NUMBER.sub("", name).replace("|", "/").replace(";", ",").split())


def _parts(
    work: Work, place: _Place, stage: int, groups: Mapping[str, str]
) -> tuple[str, str, str, dict[str, float]]:
    """Return the kind, group or stream, peer, and quantities (sizes, durations) of a work."""
    match work:
        case Compute():
            if work.kernels:
                raise DimsweepError("kernels cannot be learnt from traces", code="unsupported")
            if work.duration is not None:
                kind = "host" if work.on_host else "compute"
                return kind, "", "", {"duration": float(work.duration)}
            return "compute", "", "", {"flops": work.flops, "bytes": work.n_bytes}
        case Collective():
            over = groups[work.group] + (f"/{work.stream}" if work.stream else "")
            return f"collective {work.kind}", over, "", {"bytes": work.n_bytes}
        case Access():
            over = groups[work.group] if work.group else ""
            kind = f"{'shared ' if work.shared else ''}{'store' if work.store else 'load'}"
            return kind, over, "", {"bytes": work.n_bytes}
        case Send():
            return "send", work.stream, _peer(work, place, stage), {"bytes": work.n_bytes}
        case Receive():
            return "receive", "", _peer(work, place, stage), {}


def _peer(work: Send | Receive, place: _Place, stage: int) -> str:
    """Return the name of the stage with which a message of ``stage`` is exchanged."""
    for peer in ("next", "previous", "first", "last"):
        there = stage_of(peer, stage, place.n_stages)
        hop = offset_to(there - stage, place.axis, place.stride, place.sizes)
        if 0 <= there < place.n_stages and hop == wrap_offset(work.offset, place.sizes):
            return peer
    raise DimsweepError(
        f"a message has the offset {'x'.join(map(str, work.offset))}, but stages are "
        f"{place.stride} apart",
        hint="supported: messages to the next, previous, first and last stage of a pipeline",
        code="unsupported",
    )


def _match(graphs: Sequence[Graph], stages: Sequence[list[Step]], place: _Place) -> None:
    """Rename each receive after its send, for all stages.

    Both must have the same number among the messages of that name.
    """
    sent = _sent(graphs, stages, place)
    for stage, steps in enumerate(stages):
        numbers = Counter[tuple[int, str]]()
        for at, step in enumerate(steps):
            operator = graphs[stage][at]
            if not isinstance(operator.work, Receive):
                continue
            source = stage_of(step.symbol.peer, stage, place.n_stages)
            found = sent[source, stage, operator.work.tag]
            where = f"{place.job}, rank {place.first_rank(stage)}, operator {operator.name!r}"
            if not found:
                raise DimsweepError(
                    f"rank {place.first_rank(source)} sends no message with its tag, "
                    f"{operator.work.tag}",
                    where=where,
                    hint="dimsweep trace lint lists messages without a counterpart",
                    code="mismatch",
                )
            name, number = found.pop(0)
            if number != numbers[source, name]:
                raise DimsweepError(
                    f"it receives message {number} called {name!r} of stage {source} before "
                    f"message {numbers[source, name]}",
                    where=where,
                    hint="messages of one name must be received in the order of their sends",
                    code="unsupported",
                )
            numbers[source, name] += 1
            steps[at] = step._replace(symbol=step.symbol._replace(over=name))


def _sent(
    graphs: Sequence[Graph], stages: Sequence[list[Step]], place: _Place
) -> dict[tuple[int, int, int], list[tuple[str, int]]]:
    """Return the sends by source, target and tag: their names, and numbers among equal names."""
    sent = defaultdict[tuple[int, int, int], list[tuple[str, int]]](list)
    for source, steps in enumerate(stages):
        numbers = Counter[tuple[int, str]]()
        for operator, step in zip(graphs[source], steps, strict=True):
            if isinstance(operator.work, Send):
                target = stage_of(step.symbol.peer, source, place.n_stages)
                name = step.symbol.name
                sent[source, target, operator.work.tag].append((name, numbers[target, name]))
                numbers[target, name] += 1
    return sent
