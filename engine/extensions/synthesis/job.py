"""A job as the model sees it: stages of ranks, and what each of their operators is like."""

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
# A group's name that says its shape, and what a trace calls it.
_PLAIN = re.compile(r"\d+(x\d+)*( stride \d+(x\d+)*)?( \(.*\))?", re.DOTALL)
_PEERS = ("next", "previous", "first", "last")  # stages, seen from one
_KINDS = frozenset(
    ("compute", "host", "load", "store", "shared load", "shared store", "send", "receive")
) | {f"collective {kind}" for kind in CollectiveKind}


class Symbol(NamedTuple):
    """What two operators have in common that are the same at different times and sizes.

    ``over``: the group of a collective or access, the stream of a send, the name of the send that a
    receive belongs to; ``peer``: to or from which stage, the next, previous, first or last one;
    ``after``: what it waits for (:mod:`engine.extensions.synthesis.waiting`), once that is known.
    """

    kind: str
    name: str
    over: str = ""
    peer: str = ""
    priority: int = 0
    after: str = ""

    def __str__(self) -> str:
        return "|".join(map(str, self))

    @property
    def label(self) -> str:
        """What others call it by that wait for it."""
        return " ".join(filter(None, (self.kind, self.name, self.over, self.peer)))

    @classmethod
    def of(cls, text: str) -> "Symbol":
        kind, name, over, peer, priority, after = text.split("|")
        return cls(kind, name, over, peer, int(priority), after)

    def check(self, groups: Collection[str]) -> None:
        """Raise ValueError for a step of no kind, among no group, or to and from no stage."""
        if self.kind not in _KINDS:
            raise ValueError(f"a step {self.name!r} of the kind {self.kind!r}")
        if self.kind.startswith("collective") and self.over.partition("/")[0] not in groups:
            raise ValueError(f"{self.name!r} among {self.over!r}, which is no group")
        if self.kind in ("send", "receive") and self.peer not in _PEERS:
            raise ValueError(f"{self.name!r} to or from the stage {self.peer!r}")


class Step(NamedTuple):
    """An operator: its symbol, its quantities by name, and the places of those it waits for."""

    symbol: Symbol
    values: Mapping[str, float]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Job:
    """A job on dimensions of ``sizes``: ``keys``, what it was asked for; ``stages``, the steps of
    each kind of rank in their order along dimension ``axis``, ``stride`` places apart; and
    ``groups`` of ranks.  ``in_order``: of the steps that are ready, ranks start the one that stands
    first.  ``rank_spread``: the standard deviation of the logarithm of how long a step takes,
    between the ranks of a stage."""

    name: str
    keys: Mapping[str, float]
    sizes: tuple[int, ...]
    axis: int
    stride: int
    stages: tuple[tuple[Step, ...], ...]
    groups: Mapping[str, Group]
    in_order: bool = False
    rank_spread: float = 0.0

    @classmethod
    def from_workload(
        cls, workload: Workload, sizes: Sequence[int], keys: Mapping[str, float], name: str
    ) -> "Job":
        """The job of a workload on dimensions of these sizes.

        Ranks of a stage may differ in how long their computations take, as those do that were
        measured: the mean counts.  Groups that traces only number get names by their strides and
        sizes, so that those of jobs of other sizes have the same ones.  Raises
        :class:`DimsweepError` naming rank and operator for a workload whose ranks are no stages,
        and for messages that the model cannot tell.
        """
        place, ranks = _placed(workload, tuple(sizes), name)
        graphs = [_mean(alike) for alike in ranks]
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
        return math.prod(self.sizes)

    def keys_of(self, stage: int) -> dict[str, float]:
        """The keys that counts may depend on."""
        return {**self.keys, "stage": float(stage), "stages": float(len(self.stages))}

    def where(self, stage: int, number: int) -> str:
        """The place of a stage's step, for an error."""
        name = self.stages[stage][number].symbol.name
        rank = stage * self.stride * math.prod(self.sizes[: self.axis])
        return f"{self.name}, rank {rank}, operator {number} ({name!r})"


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
    return dict(zip(_PEERS, (stage + 1, stage - 1, 0, n_stages - 1), strict=True))[peer]


class _Place(NamedTuple):
    """Where the stages of a job are."""

    job: str
    sizes: tuple[int, ...]
    axis: int
    stride: int
    n_stages: int

    def first_rank(self, stage: int) -> int:
        return stage * self.stride * math.prod(self.sizes[: self.axis])


def offset_to(hop: int, axis: int, stride: int, sizes: Sequence[int]) -> Offset:
    """The offset to the stage that is ``hop`` stages further on."""
    return tuple(hop * stride % n if d == axis else 0 for d, n in enumerate(sizes))


def _placed(
    workload: Workload, sizes: tuple[int, ...], name: str
) -> tuple[_Place, list[list[Graph]]]:
    """The stages of the job, and the graphs of the ranks of each; one that has none is one stage,
    as long as the last dimension."""
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
    """The graph without how long its computations take."""
    return tuple(
        Operator(each.name, replace(each.work, duration=0), each.after)
        if isinstance(each.work, Compute) and each.work.duration is not None
        else each
        for each in graph
    )


def _stages(
    workload: Workload, kinds: NDArray[np.int64], sizes: tuple[int, ...], name: str
) -> _Place:
    """Stages are as far apart as messages go, and begin again where ranks are as the first one."""
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
    """The graph of ranks that differ in how long their computations take, if in anything."""
    if all(graph is graphs[0] for graph in graphs):
        return graphs[0]

    def of(alike: Sequence[Operator]) -> Operator:
        first = alike[0]
        if not isinstance(first.work, Compute) or first.work.duration is None:
            return first
        total = sum(each.work.duration for each in alike)  # type: ignore[union-attr, misc]
        work = replace(first.work, duration=round(total / len(alike)))
        return Operator(first.name, work, first.after)

    return tuple(of(alike) for alike in zip(*graphs, strict=True))


def _rank_spread(stages: Sequence[Sequence[Graph]]) -> float:
    variances: list[float] = []
    for graphs in stages:
        if all(graph is graphs[0] for graph in graphs):
            continue
        for alike in zip(*graphs, strict=True):
            durations = [getattr(each.work, "duration", None) or 0 for each in alike]
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
        f"from {operator} on it is not like rank {like}, whose place in "
        f"{'a stage' if place.n_stages > 1 else 'the job'} is the same",
        where=f"{place.job}, rank {rank}",
        hint="ranks that do the same, or stages of a pipeline, equally far apart",
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
    """A name without numbers, and without what separates the parts of a symbol."""
    return " ".join(_NUMBER.sub("", name).replace("|", "/").replace(";", ",").split())


def _parts(
    work: Work, place: _Place, stage: int, groups: Mapping[str, str]
) -> tuple[str, str, str, dict[str, float]]:
    """Kind, what it is over, peer, quantities."""
    match work:
        case Compute():
            if work.kernels:
                raise DimsweepError("kernels are not in traces")
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
    """Which stage a message goes to, at the same place of the replica."""
    for peer in ("next", "previous", "first", "last"):
        there = stage_of(peer, stage, place.n_stages)
        hop = offset_to(there - stage, place.axis, place.stride, place.sizes)
        if 0 <= there < place.n_stages and hop == wrap_offset(work.offset, place.sizes):
            return peer
    raise DimsweepError(
        f"a message goes {'x'.join(map(str, work.offset))} ranks on, and stages are "
        f"{place.stride} apart",
        hint="messages to the next, previous, first and last stage of a pipeline are learnt",
    )


def _match(graphs: Sequence[Graph], stages: Sequence[list[Step]], place: _Place) -> None:
    """Give each receive the name of its send; the two must be of the same number among those of
    the name."""
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
                    hint="dimsweep trace lint says which messages have no other end",
                )
            name, number = found.pop(0)
            if number != numbers[source, name]:
                raise DimsweepError(
                    f"it receives message {number} called {name!r} of stage {source}, and message "
                    f"{numbers[source, name]} comes later",
                    where=where,
                    hint="messages of one name are learnt where none overtakes another",
                )
            numbers[source, name] += 1
            steps[at] = step._replace(symbol=step.symbol._replace(over=name))


def _sent(
    graphs: Sequence[Graph], stages: Sequence[list[Step]], place: _Place
) -> dict[tuple[int, int, int], list[tuple[str, int]]]:
    """By source, target and tag the names of messages, and their numbers among those of a name."""
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
