"""Operator graphs, one for each kind of rank, and the process groups that they use."""

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError, suggest_names
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
    """The samples, tokens and FLOPs of an iteration, for figures of throughput and utilisation."""

    samples: float
    tokens: float
    flops: float
    accuracy: float | None = None
    state: float = 0.0
    narrow: Mapping[str, float] = field(default_factory=dict)


# Share of PyTorch's cache that is idle, in pieces too small for the next tensor: the mean of eight
# language models on A100s, of up to 33 % (Guo et al., "GMLake", ASPLOS 2024).
IDLE = 0.15


@dataclass(frozen=True)
class Footprint:
    """Memory in bytes of one rank of a pipeline stage, at the iteration's peak."""

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
        """Bytes of NPU memory in use at the peak."""
        kept = self.weights + self.gradients + self.optimizer + self.buffers
        return kept + self.activations + self.transient

    @property
    def reserved(self) -> float:
        """Bytes that PyTorch's cache may reserve for :attr:`total`, idle pieces included."""
        return self.total / (1 - IDLE)


def find_fullest(stages: Sequence[Footprint]) -> Footprint:
    """Return the footprint of the stage with the most bytes, with all footprints in ``stages``."""
    most = max(stages, key=lambda each: each.total)
    return replace(most, stages=tuple(stages)) if len(stages) > 1 else most


class MatMul(NamedTuple):
    """A batch of ``products`` matrix products, each of an ``m`` x ``k`` by a ``k`` x ``n`` matrix.

    ``products`` and ``m`` may be fractions: experts share the tokens, so a rank may run 1.75
    products of 4.57 rows on average. All products together have ``products`` times ``m`` rows.
    """

    products: float
    m: float
    k: float
    n: int
    transposed: bool = False
    apart: bool = False

    @property
    def flops(self) -> float:
        """Number of operations; a multiply-add counts as two."""
        return 2.0 * self.products * self.m * self.k * self.n


ATTENTION_BACKWARD = 2.5  # its gradients' FLOPs: five products, scores again, to the two forward


class Attention(NamedTuple):
    """Shape of a fused attention kernel: ``heads`` heads of ``rows`` queries, ``columns`` keys."""

    heads: float
    rows: int
    columns: int
    size: int
    causal: bool = True
    backward: bool = False


class Kernel(NamedTuple):
    """One kernel launch on an NPU: its FLOPs, its memory traffic, the shape of a matrix product.

    Measured durations of kernels are looked up by ``name``. The host issues a kernel
    that is ``launched``, unless a CUDA graph launches it (``graphed``). The host waits for the end
    of a kernel that is ``awaited``.
    """

    name: str
    flops: float
    n_bytes: float
    matmul: MatMul | None = None
    attention: Attention | None = None
    precision: str = ""
    launched: bool = True
    awaited: bool = False
    graphed: bool = False


@dataclass(frozen=True)
class Compute:
    """A computation on the NPU, or on its host CPU.

    Its time is ``duration`` if given. Otherwise the time follows from FLOPs and bytes (roofline),
    or is the sum of the times of ``kernels``, which run one after another. A computation
    ``on_host`` needs a duration.
    """

    flops: float = 0.0
    n_bytes: float = 0.0
    duration: int | None = None
    kernels: tuple[Kernel, ...] = ()
    on_host: bool = False
    stream: str = ""


@dataclass(frozen=True)
class Access:
    """A load from the NPU's remote memory, or a store to it.

    An NPU makes one access at a time, concurrently with computation and communication. With a
    ``group``, the memory's switches gather the loads of the group's members, or reduce their
    stores: each member owns ``n_bytes`` there, and receives or sends ``n_bytes`` for every member.
    If the access is ``shared``, all members load the same ``n_bytes``, or the memory adds up their
    stores. The I/O controllers of an interconnect send shared bytes once; any other memory serves
    each member separately.
    """

    n_bytes: float
    store: bool = False
    group: str = ""
    shared: bool = False


@dataclass(frozen=True)
class Collective:
    """A collective over the process group that the workload calls ``group``."""

    kind: CollectiveKind
    n_bytes: float
    group: str
    stream: str = ""
    priority: int = 0

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class Send:
    """Send ``n_bytes`` on ``stream`` to the rank at ``offset`` (coordinates, modulo the sizes)."""

    n_bytes: float
    offset: tuple[int, ...]
    tag: int = 0
    stream: str = "p2p"


@dataclass(frozen=True)
class Receive:
    """Receive the message that the rank at ``offset`` sends with the same tag; uses no stream."""

    offset: tuple[int, ...]
    tag: int = 0


Work = Compute | Access | Collective | Send | Receive


@dataclass(frozen=True)
class Operator:
    """A node of the graph: its work, and the indices of the operators that it waits for."""

    name: str
    work: Work
    after: tuple[int, ...] = ()


class GraphBuilder:
    """Builder of one rank's graph: operators are added in order, each with its dependencies."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []

    def add(self, name: str, work: Work, after: Iterable[int] = ()) -> int:
        """Add an operator that waits for the operators ``after``, and return its index."""
        before = tuple(after)
        if len(before) > 1:
            before = tuple(sorted(set(before)))
        self.operators.append(Operator(name, work, before))
        return len(self.operators) - 1

    def build(self) -> tuple[Operator, ...]:
        """Return all added operators, in the order in which they were added."""
        return tuple(self.operators)


class Stamp(NamedTuple):
    """A copy of a tuple of operators in a graph, at index ``start``; graphs repeat such copies.

    The names of the copied operators begin with ``prefix``. Dependencies between them are stored
    relative to ``start``.
    """

    operators: tuple[Operator, ...]
    prefix: str = ""
    start: int = 0
    outside: tuple[tuple[int, tuple[int, ...]], ...] = ()
    number: int = 0
    tags: int = 0

    def name(self, place: int) -> str:
        """Return the name of operator ``place`` of this copy, counted from 0."""
        return self.prefix.replace("{}", str(self.number)) + self.operators[place].name

    def operator_at(self, place: int) -> Operator:
        """Return operator ``place`` of this copy, with its name and dependencies in the graph."""
        operator, outside = self.operators[place], dict(self.outside).get(place, ())
        after = (*outside, *(self.start + before for before in operator.after))
        work = operator.work
        if self.tags and isinstance(work, (Send, Receive)):
            work = replace(work, tag=work.tag + self.number * self.tags)
        return Operator(self.name(place), work, after)

    def shift(self, places: int, numbers: int) -> "Stamp":
        """Return this copy moved on by ``places`` operators and by ``numbers`` micro-batches."""
        outside = ((i, tuple(b + places for b in before)) for i, before in self.outside)
        return self._replace(
            start=self.start + places, outside=tuple(outside), number=self.number + numbers
        )


class Section(NamedTuple):
    """A stretch of a graph: consecutive ``stamps`` (copies of operators), repeated ``times`` times.

    From one repetition to the next, the stamps' micro-batch numbers grow by ``step``, and all
    dependencies move on by the number of operators in a repetition.
    """

    stamps: tuple[Stamp, ...]
    times: int = 1
    step: int = 0

    @property
    def start(self) -> int:
        """Index in the graph of the section's first operator."""
        return self.stamps[0].start

    @property
    def period(self) -> int:
        """Number of operators in one repetition."""
        last = self.stamps[-1]
        return last.start + len(last.operators) - self.start

    def operator_at(self, place: int) -> Operator:
        """Return the operator at index ``place`` of the graph; the section must contain it."""
        time, inside = divmod(place - self.start, self.period)
        first = self.start + inside
        stamp = self.stamps[bisect.bisect(self.stamps, first, key=lambda each: each.start) - 1]
        return stamp.shift(time * self.period, time * self.step).operator_at(first - stamp.start)

    @property
    def end(self) -> int:
        """Index in the graph after the section's last operator."""
        return self.start + self.times * self.period


class StampedGraph(Sequence[Operator]):
    """A graph stored as repeated sections: operators that repeat are stored and lowered once."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self.sections = tuple(section for section in sections if section.stamps)

    def __len__(self) -> int:
        return self.sections[-1].end if self.sections else 0

    def __iter__(self) -> Iterator[Operator]:
        for section in self.sections:
            for time in range(section.times):
                for stamp in section.stamps:
                    moved = stamp.shift(time * section.period, time * section.step)
                    yield from map(moved.operator_at, range(len(moved.operators)))

    @overload
    def __getitem__(self, place: int) -> Operator: ...
    @overload
    def __getitem__(self, place: slice) -> list[Operator]: ...
    def __getitem__(self, place: int | slice) -> Operator | list[Operator]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        i = range(len(self))[place]
        number = bisect.bisect(self.sections, i, key=lambda section: section.start) - 1
        return self.sections[number].operator_at(i)


Graph = Sequence[Operator]


def sections_of(graph: Graph) -> tuple[Section, ...]:
    """Return the repeated sections of a graph; a graph without repetitions is one section."""
    sections = graph.sections if isinstance(graph, StampedGraph) else ()
    return sections or (Section((Stamp(tuple(graph)),)),)


def stamps_of(graph: Graph) -> Iterator[Stamp]:
    """Yield the stamps (copies of operators) in the first repetition of each section of a graph."""
    return itertools.chain.from_iterable(section.stamps for section in sections_of(graph))


@dataclass(frozen=True)
class Workload:
    """Operator graphs, the process groups that they use, and which rank runs which graph.

    ``stages`` names a group whose i-th member runs graph i; members count in the order of their
    ranks. ``graph_of_rank`` (shape (N,)) gives the graph of each rank instead. Without either, all
    ranks run graph 0. With ``stages``, a million NPUs cost no more memory than a thousand.
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
        """Return a workload in which each rank runs ``work`` once, over a group called ``all``."""
        return cls(((Operator("one", work),),), {"all": group})

    @property
    def state(self) -> float:
        """Bytes of one checkpoint of the training state; 0 if unknown."""
        return 0.0 if self.amount is None else self.amount.state

    def templates(self) -> list[Stamp]:
        """Return the first stamp of each distinct tuple of operators in all graphs."""
        found: dict[int, Stamp] = {}
        for stamp in itertools.chain.from_iterable(map(stamps_of, self.graphs)):
            found.setdefault(id(stamp.operators), stamp)
        return list(found.values())

    @cached_property
    def is_sorted(self) -> bool:
        """True if every operator waits only for operators before it in its graph."""
        return all(
            before < place
            for stamp in self.templates()
            for place, operator in enumerate(stamp.operators)
            for before in operator.after
        )

    def works(self) -> list[Work]:
        """Return the distinct works (computations, collectives, ...) of all operators, in order."""
        operators = itertools.chain.from_iterable(stamp.operators for stamp in self.templates())
        return list({id(operator.work): operator.work for operator in operators}.values())

    def check(self, sizes: tuple[int, ...]) -> None:
        """Raise :class:`DimsweepError` unless the workload fits a network of ``sizes`` NPUs."""
        if not self.graphs:
            problem = "a workload needs at least one operator graph"
            raise DimsweepError(problem, where="graphs", code="missing")
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
                f"{len(self.graph_of_rank)} ranks for the {n} NPUs of the cluster",
                where="graph_of_rank",
                code="mismatch",
            )
        outside = (self.graph_of_rank < 0) | (self.graph_of_rank >= len(self.graphs))
        if outside.any():
            rank = int(outside.argmax())
            raise DimsweepError(
                f"rank {rank} runs graph {self.graph_of_rank[rank]}; it must be 0 to "
                f"{len(self.graphs) - 1}",
                where="graph_of_rank",
                code="out-of-range",
            )

    def _check_stages(self) -> None:
        where = "stages"
        if self.graph_of_rank is not None:
            problem = "give stages or graph_of_rank, not both"
            raise DimsweepError(problem, where=where, code="conflict")
        if self.stages not in self.groups:
            hint = suggest_names(str(self.stages), self.groups)
            problem = f"unknown group {self.stages!r}"
            raise DimsweepError(problem, where=where, hint=hint, code="unknown-name")
        n_members = self.groups[self.stages].n_members
        if n_members != len(self.graphs):
            raise DimsweepError(
                f"{len(self.graphs)} graphs for the {n_members} members of {self.stages!r}",
                where=where,
                code="mismatch",
            )


def _check_after(stamp: Stamp, place: int, after: Iterable[int], n: int) -> None:
    for index in after:
        if not 0 <= index < n:
            problem = f"it waits for operator number {index}; the numbers are 0 to {n - 1}"
            where = f"operator {stamp.name(place)!r}"
            raise DimsweepError(problem, where=where, code="out-of-range")


def _check_group(name: str, group: Group, sizes: tuple[int, ...]) -> None:
    where = f"group {name!r}"
    if len(group.sizes) != len(sizes) or len(group.strides) != len(sizes):
        problem = f"it has {len(group.sizes)} dimensions, the topology {len(sizes)}"
        raise DimsweepError(problem, where=where, code="mismatch")
    for d, (p, stride, n) in enumerate(zip(group.sizes, group.strides, sizes, strict=True)):
        if p < 1 or stride < 1 or n % (p * stride):
            fits = [q for q in range(1, n // max(stride, 1) + 1) if n % (q * max(stride, 1)) == 0]
            raise DimsweepError(
                f"{p} members with stride {stride} do not tile dimension {d} of {n} NPUs",
                where=where,
                hint=f"possible sizes: {', '.join(map(str, fits)) or 'none at this stride'}",
                code="mismatch",
            )


def _check_work(name: str, work: Work, groups: dict[str, Group], sizes: tuple[int, ...]) -> None:
    where = f"operator {name!r}"
    over = work.group if isinstance(work, (Access, Collective)) else ""
    if over not in groups and (over or isinstance(work, Collective)):
        known = ", ".join(sorted(groups)) or "none"
        problem, hint = f"unknown group {over!r}", f"groups: {known}"
        raise DimsweepError(problem, where=where, hint=hint, code="unknown-name")
    if isinstance(work, (Access, Collective, Send)) and not 0 <= work.n_bytes < 2**63:
        problem = f"{work.n_bytes} bytes; it must be 0 or more and less than 2^63"
        raise DimsweepError(problem, where=where, code="out-of-range")
    if isinstance(work, Compute) and not (
        0 <= work.flops < math.inf
        and 0 <= work.n_bytes < math.inf
        and 0 <= (work.duration or 0) <= MAX_PICOSECONDS
        and isinstance(work.duration, (int, np.integer, type(None)))
    ):
        problem = (
            f"{work}; flops and bytes must be finite and 0 or more, a duration whole picoseconds"
        )
        raise DimsweepError(problem, where=where, code="out-of-range")
    if isinstance(work, Compute) and work.on_host and work.duration is None:
        problem, hint = "work of the host without a duration", "Compute(duration=picoseconds)"
        raise DimsweepError(problem, where=where, hint=hint, code="missing")
    if isinstance(work, (Send, Receive)):
        if len(work.offset) != len(sizes):
            problem = f"an offset of {len(work.offset)} coordinates on {len(sizes)} dimensions"
            raise DimsweepError(problem, where=where, code="mismatch")
        if all(o % n == 0 for o, n in zip(work.offset, sizes, strict=True)):
            problem = "a rank sends to, or receives from, itself"
            raise DimsweepError(problem, where=where, hint="give an offset", code="invalid")


# --- ranks of a workload --------------------------------------------------------------------------


def runners_along(
    workload: Workload, sizes: Sequence[int], graph: int, dim: int
) -> NDArray[np.bool_]:
    """Return which NPUs of each :func:`line` of dimension ``dim`` run ``graph``, shape (lines, n).

    A line is the ``n`` ranks that differ only in that dimension. Equal rows are returned once.
    """
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
    """Return the index of the graph that each of the N ranks runs, shape (N,)."""
    if workload.stages is not None:
        return member_numbers(workload.groups[workload.stages], all_coordinates(sizes))
    if workload.graph_of_rank is not None:
        return workload.graph_of_rank.astype(np.int64)
    return np.zeros(math.prod(sizes), dtype=np.int64)
