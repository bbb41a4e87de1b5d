"""What runs: operator graphs, one for each kind of rank, and the process groups they use."""

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.settings import check_settings
from dimsweep.engine.topology.coordinates import (
    Group,
    all_coordinates,
    coordinates_of,
    member_numbers,
)
from dimsweep.engine.units import MAX_PICOSECONDS


@dataclass(frozen=True)
class Amount:
    """``samples`` (sequences, images ...) of an iteration, its ``tokens`` (0 where samples have
    none), and the ``flops`` of the model for them: those of its matrix products and attention, once
    forward and twice backward, without what is computed again; of these ``narrow`` by precision,
    where linear layers have a narrower one than the rest.  ``accuracy``: the share of samples
    that a trained network tells rightly, where that was looked at.  ``state``: the bytes of a
    checkpoint, where that is known: what all NPUs together cannot compute anew."""

    samples: float
    tokens: float
    flops: float
    accuracy: float | None = None
    state: float = 0.0
    narrow: Mapping[str, float] = field(default_factory=dict)


# Of what PyTorch's cache reserves it has so much idle, in pieces that are too small for the next
# tensor: what eight language models lost on A100s in the mean, up to 33 % (Guo et al., "GMLake",
# ASPLOS 2024).
IDLE = 0.15


@dataclass(frozen=True)
class Footprint:
    """Bytes on one rank of pipeline stage ``stage``, at the iteration's peak.

    ``transient`` is what lives only while a block runs: activations computed again, and weights
    that ZeRO-3 has gathered.  ``peak`` says when.  ``remote`` is what it keeps in remote memory.
    ``buffers`` are those of the training framework that take no room of activations.  ``stages``
    has those of all stages, of which this one is the fullest; none: there is one stage.
    """

    stage: int
    weights: float
    gradients: float
    optimizer: float
    activations: float
    transient: float
    peak: str
    remote: float = 0.0
    buffers: float = 0.0
    stages: "tuple[Footprint, ...]" = ()

    @property
    def total(self) -> float:
        kept = self.weights + self.gradients + self.optimizer + self.buffers
        return kept + self.activations + self.transient

    @property
    def reserved(self) -> float:
        """Bytes that PyTorch's cache may reserve to hold them, what it has idle among them."""
        return self.total / (1 - IDLE)


def fullest(stages: Sequence[Footprint]) -> Footprint:
    """The footprint of the fullest of all stages."""
    most = max(stages, key=lambda each: each.total)
    return replace(most, stages=tuple(stages)) if len(stages) > 1 else most


class MatMul(NamedTuple):
    """``products`` of an ``m`` x ``k`` by a ``k`` x ``n`` matrix; the first one may lie in memory
    ``transposed``, as the gradients of weights read what the forward pass kept.  They run at once,
    unless they come ``apart``, one after another.

    Of experts, among which tokens are shared out, there may be 1.75 in expectation, and 4.57 rows
    of each in the mean; all rows together are ``products`` times ``m``.
    """

    products: float
    m: float
    k: float
    n: int
    transposed: bool = False
    apart: bool = False

    @property
    def flops(self) -> float:
        """A multiply-add is two operations."""
        return 2.0 * self.products * self.m * self.k * self.n


ATTENTION_BACKWARD = 2.5  # its gradients' FLOPs: five products, scores again, to the two forward


class Attention(NamedTuple):
    """Fused attention of ``heads`` heads (of all sequences together), each of ``size`` features,
    from ``rows`` queries to ``columns`` keys; ``backward`` for its gradients.  Heads of which there
    is a part are in the mean."""

    heads: float
    rows: int
    columns: int
    size: int
    causal: bool = True
    backward: bool = False


class Kernel(NamedTuple):
    """What an NPU launches at once: FLOPs, bytes to and from its memory, and their shape if it is
    a matrix product (of which fused attention has several).  Measured durations are looked up by
    ``name``; ``precision`` is that of the factors, where it is narrower than the rest's.  One that
    is not ``launched`` is a part of a neighbour, whose launch counts for both.  The host waits for
    one that is ``awaited`` before it issues more."""

    name: str
    flops: float
    n_bytes: float
    matmul: MatMul | None = None
    attention: Attention | None = None
    precision: str = ""
    launched: bool = True
    awaited: bool = False


@dataclass(frozen=True)
class Compute:
    """Work on the NPU: ``duration`` (ps) where it was measured, else FLOPs and bytes (roofline),
    or ``kernels`` that run one after another.

    What is ``on_host`` is the host's work, which does one operator at a time beside the NPU, or one
    on each ``stream`` (a thread or core); it needs a ``duration``, since no roofline is known of a
    host.
    """

    flops: float = 0.0
    n_bytes: float = 0.0
    duration: int | None = None
    kernels: tuple[Kernel, ...] = ()
    on_host: bool = False
    stream: str = ""


@dataclass(frozen=True)
class Access:
    """Load from, or ``store`` to, the NPU's remote memory; accesses go one after another, beside
    computation and communication.

    With a ``group`` the memory's switches gather what its members load, or reduce what they store:
    each member owns ``n_bytes`` there, and gets, or gives, as many for every member.  If it is
    ``shared``, all of them load the same ``n_bytes``, or theirs are summed up: the I/O controllers
    of an interconnect send them to the group once, or take the sum; any other memory serves each
    member.
    """

    n_bytes: float
    store: bool = False
    group: str = ""
    shared: bool = False


@dataclass(frozen=True)
class Collective:
    """A collective over the rank's group called ``group``.

    ``n_bytes`` is what each member holds on entry: the whole vector for all-reduce, reduce-scatter
    and all-to-all, the own shard for all-gather.  ``stream`` is the communication stream it runs
    on (one operation at a time each); the group's name unless given.  A higher ``priority`` goes
    first under ``queue: priority``.
    """

    kind: CollectiveKind
    n_bytes: float
    group: str
    stream: str = ""
    priority: int = 0

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class Send:
    """Send ``n_bytes`` to the rank at ``offset`` (coordinates, modulo the sizes) on ``stream``."""

    n_bytes: float
    offset: tuple[int, ...]
    tag: int = 0
    stream: str = "p2p"


@dataclass(frozen=True)
class Receive:
    """Receive what the rank at ``offset`` sends with the same tag; it needs no stream."""

    offset: tuple[int, ...]
    tag: int = 0


Work = Compute | Access | Collective | Send | Receive


@dataclass(frozen=True)
class Operator:
    """A node of the graph: its work, and the operators (by index) that must finish first."""

    name: str
    work: Work
    after: tuple[int, ...] = ()


class GraphBuilder:
    """Builds one rank's operators; each method returns the new operator's index."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []

    def add(self, name: str, work: Work, after: Iterable[int] = ()) -> int:
        before = tuple(after)
        if len(before) > 1:
            before = tuple(sorted(set(before)))
        self.operators.append(Operator(name, work, before))
        return len(self.operators) - 1

    def build(self) -> tuple[Operator, ...]:
        return tuple(self.operators)


class Stamp(NamedTuple):
    """``operators`` at the places of a graph from ``start`` on, their names behind ``prefix``.

    What they wait for counts from ``start``.  ``outside`` has, by number, those that wait for
    operators before ``start`` as well, and for which ones of the graph.  A ``number``, such as that
    of a micro-batch, stands for ``{}`` in the prefix, and adds ``tags`` to the tags of messages
    each.
    """

    operators: tuple[Operator, ...]
    prefix: str = ""
    start: int = 0
    outside: tuple[tuple[int, tuple[int, ...]], ...] = ()
    number: int = 0
    tags: int = 0

    def name(self, place: int) -> str:
        """The name of one of its operators in the graph."""
        return self.prefix.replace("{}", str(self.number)) + self.operators[place].name

    def at(self, place: int) -> Operator:
        """One of its operators, as it is in the graph."""
        operator, outside = self.operators[place], dict(self.outside).get(place, ())
        after = (*outside, *(self.start + before for before in operator.after))
        work = operator.work
        if self.tags and isinstance(work, (Send, Receive)):
            work = replace(work, tag=work.tag + self.number * self.tags)
        return Operator(self.name(place), work, after)

    def again(self, places: int, numbers: int) -> "Stamp":
        """The same so many places, and numbers, further on."""
        outside = ((i, tuple(b + places for b in before)) for i, before in self.outside)
        return self._replace(
            start=self.start + places, outside=tuple(outside), number=self.number + numbers
        )


class Section(NamedTuple):
    """A part of a graph: its ``stamps``, one behind the other, so many ``times`` in a row.  Each
    time numbers go on by ``step``, and all that its operators wait for is as far behind."""

    stamps: tuple[Stamp, ...]
    times: int = 1
    step: int = 0

    @property
    def start(self) -> int:
        """Its first place in the graph."""
        return self.stamps[0].start

    @property
    def every(self) -> int:
        """How many operators the section has each time that it runs."""
        last = self.stamps[-1]
        return last.start + len(last.operators) - self.start

    def at(self, place: int) -> Operator:
        """The graph's operator at one of the section's places."""
        time, inside = divmod(place - self.start, self.every)
        first = self.start + inside
        stamp = self.stamps[bisect.bisect(self.stamps, first, key=lambda each: each.start) - 1]
        return stamp.again(time * self.every, time * self.step).at(first - stamp.start)

    @property
    def end(self) -> int:
        """The place behind its last one."""
        return self.start + self.times * self.every


class StampedGraph(Sequence[Operator]):
    """A graph that repeats itself: what its stamps share is kept, checked and lowered once."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self.sections = tuple(section for section in sections if section.stamps)

    def __len__(self) -> int:
        return self.sections[-1].end if self.sections else 0

    def __iter__(self) -> Iterator[Operator]:
        for section in self.sections:
            for time in range(section.times):
                for stamp in section.stamps:
                    moved = stamp.again(time * section.every, time * section.step)
                    yield from map(moved.at, range(len(moved.operators)))

    @overload
    def __getitem__(self, place: int) -> Operator: ...
    @overload
    def __getitem__(self, place: slice) -> list[Operator]: ...
    def __getitem__(self, place: int | slice) -> Operator | list[Operator]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        i = range(len(self))[place]
        number = bisect.bisect(self.sections, i, key=lambda section: section.start) - 1
        return self.sections[number].at(i)


Graph = Sequence[Operator]


def sections_of(graph: Graph) -> tuple[Section, ...]:
    """The sections of a graph that repeats itself; any other graph is one of its own."""
    sections = graph.sections if isinstance(graph, StampedGraph) else ()
    return sections or (Section((Stamp(tuple(graph)),)),)


def stamps_of(graph: Graph) -> Iterator[Stamp]:
    """The stamps of a graph, of those that repeat themselves the first ones."""
    return itertools.chain.from_iterable(section.stamps for section in sections_of(graph))


@dataclass(frozen=True)
class Workload:
    """Operator graphs and who runs them.

    Who runs which graph: with ``stages``, a group's name, the group's first member runs graph 0,
    the next one graph 1, and so on (members in the order of their ranks); or ``graph_of_rank``
    (shape (N,), int) says it of each rank; without either all run graph 0.  A million NPUs in
    stages, or all alike, cost no more than a thousand.  ``footprint``: what the fullest rank must
    hold, where that is known; ``amount``: what an iteration gets done.  ``in_order``: of the
    operators that are ready, a stream starts the one that stands first in its graph, as ranks that
    replay a trace do; else the one that became ready first.  ``shares_ports``: the messages of a
    rank leave its port at once and share its links, as flows do; else one after another.
    """

    graphs: tuple[Graph, ...]
    groups: dict[str, Group] = field(default_factory=dict)
    graph_of_rank: NDArray[np.int64] | None = None
    name: str = "workload"
    stages: str | None = None
    footprint: Footprint | None = None
    in_order: bool = False
    amount: Amount | None = None
    shares_ports: bool = False

    @classmethod
    def of_one(cls, work: Work, group: Group) -> "Workload":
        """Each rank has one operator; its ``group``, if it has any, is called ``all``."""
        return cls(((Operator("one", work),),), {"all": group})

    @property
    def state(self) -> float:
        """The bytes of a checkpoint; 0 where nobody knows how many."""
        return 0.0 if self.amount is None else self.amount.state

    def templates(self) -> list[Stamp]:
        """The first stamp of all that have the same operators."""
        found: dict[int, Stamp] = {}
        for stamp in itertools.chain.from_iterable(map(stamps_of, self.graphs)):
            found.setdefault(id(stamp.operators), stamp)
        return list(found.values())

    @cached_property
    def is_sorted(self) -> bool:
        """Whether every operator waits only for some that stand before it in its graph."""
        return all(
            before < place
            for stamp in self.templates()
            for place, operator in enumerate(stamp.operators)
            for before in operator.after
        )

    def works(self) -> list[Work]:
        """All works that operators share, in the order in which they first come."""
        operators = itertools.chain.from_iterable(stamp.operators for stamp in self.templates())
        return list({id(operator.work): operator.work for operator in operators}.values())

    def check(self, sizes: tuple[int, ...]) -> None:
        """Raise :class:`DimsweepError` unless the workload fits a network of these sizes."""
        if not self.graphs:
            raise DimsweepError("a workload needs an operator graph", where="graphs")
        for name, group in self.groups.items():
            _check_group(name, group, sizes)
        for graph in self.graphs:
            for stamp in stamps_of(graph):
                for place, before in stamp.outside:
                    _check_after(stamp, place, before, stamp.start)
        checked: set[int] = set()  # graphs share works, too
        for stamp in self.templates():
            for place, operator in enumerate(stamp.operators):
                _check_after(stamp, place, operator.after, len(stamp.operators))
                if id(operator.work) not in checked:
                    _check_work(stamp.name(place), operator.work, self.groups, sizes)
                    checked.add(id(operator.work))
        if self.stages is not None:
            self._check_stages()
        if self.graph_of_rank is None:
            return
        n = math.prod(sizes)
        if self.graph_of_rank.shape != (n,):
            raise DimsweepError(
                f"{len(self.graph_of_rank)} ranks are given a graph, the cluster has {n} NPUs",
                where="graph_of_rank",
            )
        outside = (self.graph_of_rank < 0) | (self.graph_of_rank >= len(self.graphs))
        if outside.any():
            rank = int(outside.argmax())
            raise DimsweepError(
                f"rank {rank} is to run graph {self.graph_of_rank[rank]}, "
                f"but there are {len(self.graphs)}",
                where="graph_of_rank",
            )

    def _check_stages(self) -> None:
        where = "stages"
        if self.graph_of_rank is not None:
            raise DimsweepError("give stages or graph_of_rank, not both", where=where)
        if self.stages not in self.groups:
            raise DimsweepError(f"unknown group {self.stages!r}", where=where)
        n_members = self.groups[self.stages].n_members
        if n_members != len(self.graphs):
            raise DimsweepError(
                f"{len(self.graphs)} graphs for the {n_members} members of {self.stages!r}",
                where=where,
            )


def _check_after(stamp: Stamp, place: int, after: Iterable[int], n: int) -> None:
    for index in after:
        if not 0 <= index < n:
            what = "it waits for an operator that does not exist"
            raise DimsweepError(what, where=f"operator {stamp.name(place)!r}")


def _check_group(name: str, group: Group, sizes: tuple[int, ...]) -> None:
    where = f"group {name!r}"
    if len(group.sizes) != len(sizes) or len(group.strides) != len(sizes):
        raise DimsweepError(
            f"it has {len(group.sizes)} dimensions, the topology {len(sizes)}", where=where
        )
    for d, (p, stride, n) in enumerate(zip(group.sizes, group.strides, sizes, strict=True)):
        if p < 1 or stride < 1 or n % (p * stride):
            fits = [q for q in range(1, n // max(stride, 1) + 1) if n % (q * max(stride, 1)) == 0]
            raise DimsweepError(
                f"{p} members with stride {stride} do not tile dimension {d} of {n} NPUs",
                where=where,
                hint=f"sizes that do: {', '.join(map(str, fits)) or 'none at this stride'}",
            )


def _check_work(name: str, work: Work, groups: dict[str, Group], sizes: tuple[int, ...]) -> None:
    where = f"operator {name!r}"
    over = work.group if isinstance(work, (Access, Collective)) else ""
    if over not in groups and (over or isinstance(work, Collective)):
        known = ", ".join(sorted(groups)) or "none"
        raise DimsweepError(f"unknown group {over!r}", where=where, hint=f"groups: {known}")
    if isinstance(work, (Access, Collective, Send)) and not 0 <= work.n_bytes < 2**63:
        raise DimsweepError(f"{work.n_bytes} bytes is no message size", where=where)
    if isinstance(work, Compute) and not (
        0 <= work.flops < math.inf
        and 0 <= work.n_bytes < math.inf
        and 0 <= (work.duration or 0) <= MAX_PICOSECONDS
        and isinstance(work.duration, (int, np.integer, type(None)))
    ):
        raise DimsweepError(f"{work} is no amount of work", where=where)
    if isinstance(work, Compute) and work.on_host and work.duration is None:
        raise DimsweepError(
            "work of the host without a duration", where=where, hint="Compute(duration=picoseconds)"
        )
    if isinstance(work, (Send, Receive)):
        if len(work.offset) != len(sizes):
            raise DimsweepError(
                f"an offset of {len(work.offset)} coordinates on {len(sizes)} dimensions",
                where=where,
            )
        if all(o % n == 0 for o, n in zip(work.offset, sizes, strict=True)):
            raise DimsweepError("it sends to, or receives from, itself", where=where)


# --- ranks of a workload --------------------------------------------------------------------------


def runners_along(
    workload: Workload, sizes: Sequence[int], graph: int, dim: int
) -> NDArray[np.bool_]:
    """Which ranks of each :func:`line` of a dimension run a graph, shape (lines, n); lines with the
    same ones once."""
    n = sizes[dim]
    if workload.stages is not None:
        stages = workload.groups[workload.stages]
        place = coordinates_of(graph, stages.sizes)[dim]
        return (np.arange(n) // stages.strides[dim] % stages.sizes[dim] == place)[None, :]
    if workload.graph_of_rank is None:
        return np.ones((1, n), dtype=np.bool_)
    runs = workload.graph_of_rank == graph
    if n == len(runs):  # one line
        return runs[None, :]
    runs = runs.reshape(tuple(sizes), order="F")
    return np.unique(np.moveaxis(runs, dim, -1).reshape(-1, n), axis=0)


def graph_by_rank(workload: Workload, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """The number of the graph that each rank runs, shape (N,)."""
    if workload.stages is not None:
        return member_numbers(workload.groups[workload.stages], all_coordinates(sizes))
    if workload.graph_of_rank is not None:
        return workload.graph_of_rank.astype(np.int64)
    return np.zeros(math.prod(sizes), dtype=np.int64)
