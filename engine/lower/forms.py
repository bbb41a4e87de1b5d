"""Forms: the distinct communications (kind, size, dimensions) of a workload, each timed once."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.collective.algorithms import Chosen
from dimsweep.engine.collective.library import Library, Phases, Request, library_of, request_for
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower import program as p
from dimsweep.engine.topology.blocks import SubgroupBandwidth
from dimsweep.engine.topology.coordinates import Group, coordinates_of, wrap_offset
from dimsweep.engine.workload.graph import Collective, Send, Workload, runners_along

_T = TypeVar("_T", bound=Hashable)


class Interned(Generic[_T]):
    """Numbering of distinct objects from 0, in the order in which they first appear."""

    def __init__(self) -> None:
        self._number: dict[_T, int] = {}

    def __call__(self, thing: _T) -> int:
        return self._number.setdefault(thing, len(self._number))

    def __iter__(self) -> Iterator[_T]:
        return iter(self._number)

    def __len__(self) -> int:
        return len(self._number)


class TypedSteps(NamedTuple):
    """The steps of a phase, with the phase's kind (a CollectiveKind or POINT_TO_POINT)."""

    kind: int
    phase: PhaseSteps


class Use(NamedTuple):
    """A dimension that a form crosses, and the numbers of its phases there (see program.USE)."""

    dim: int
    scatter: int
    gather: int = -1
    fused: int = -1
    entrance: int = p.NO_ENTRANCE


class Form(NamedTuple):
    """A distinct communication: kind, chunks, priority, dimensions, and bytes a chunk on entry."""

    kind: int
    n_bytes: float
    chunks: int
    priority: int
    uses: tuple[Use, ...]
    request: Request | None = None


def answer_uses(
    dims: Iterable[int],
    kind: CollectiveKind,
    answer: Iterable[Phases],
    number: Callable[[TypedSteps], int],
) -> tuple[Use, ...]:
    """Return the uses of dimensions ``dims`` by a collective that a library runs.

    ``answer`` holds the library's phases in each dimension; ``number`` returns a phase's number.
    """

    def number_steps(own: CollectiveKind, phase: PhaseSteps | None) -> int:
        return -1 if phase is None else number(TypedSteps(own, phase))

    if kind is CollectiveKind.ALL_TO_ALL:
        return tuple(
            Use(d, number_steps(kind, phases.scatter))
            for d, phases in zip(dims, answer, strict=True)
        )
    return tuple(
        Use(
            d,
            scatter=number_steps(CollectiveKind.REDUCE_SCATTER, phases.scatter),
            gather=number_steps(CollectiveKind.ALL_GATHER, phases.gather),
            fused=number_steps(kind, phases.fused),
        )
        for d, phases in zip(dims, answer, strict=True)
    )


class Forms:
    """The distinct forms of a workload on a cluster, and the distinct steps of their phases.

    A collective that a ``library`` runs has a form of its request, since the choice for another
    request may differ.
    """

    def __init__(self, cluster: Cluster, workload: Workload, algorithms: Sequence[Chosen]) -> None:
        self.forms: Interned[Form] = Interned()
        self.phase_steps: Interned[TypedSteps] = Interned()
        self._known: dict[tuple[Hashable, ...], int] = {}  # graphs repeat themselves
        self._dims, self._model = cluster.topology.dims, cluster.collectives
        self._algorithms = algorithms
        self.library, self._cluster = library_of(cluster.collectives), cluster
        self._workload = workload
        self._uses: dict[tuple[int, ...], Use] = {}  # by kind, dimension, and the group's there
        self._crossings: dict[tuple[int, int, int], Use] = {}  # by dimension, offset and senders

    def collective(self, work: Collective, group: Group) -> int:
        """Return the number of the form for collective ``work`` over ``group``."""
        key = (work.kind, work.n_bytes, work.priority, group)
        if key not in self._known:
            self._known[key] = self._collective(work, group)
        return self._known[key]

    def _collective(self, work: Collective, group: Group) -> int:
        if self.library is not None and group.n_members > 1:
            return self._by_library(self.library, work, group)
        uses = tuple(
            self._use(work.kind, d, group) for d, members in enumerate(group.sizes) if members > 1
        )
        chunks = self._model.chunks
        if len(uses) == 1:
            chunks = self._model.chunks_on_one_dimension or chunks
        form = Form(work.kind, work.n_bytes / chunks, chunks, work.priority, uses)
        return self.forms(form)

    def _by_library(self, library: Library, work: Collective, group: Group) -> int:
        request = request_for(work.kind, work.n_bytes, group, self._cluster)
        (way,) = library.chosen(request, np.array([request.bandwidth])).tolist()
        answer = library.answer(request, way)
        used = (d for d, members in enumerate(group.sizes) if members > 1)
        uses = answer_uses(used, work.kind, answer.phases, self.phase_steps)
        chunks = answer.chunks
        size = work.n_bytes / chunks
        return self.forms(Form(work.kind, size, chunks, work.priority, uses, request))

    def transfer(self, work: Send, graph: int) -> int:
        """Return the number of the form for message ``work`` of all ranks that run ``graph``."""
        key = (work.n_bytes, work.offset, graph)
        if key not in self._known:
            uses = (
                self._crossing(d, offset, graph)
                for d, offset in enumerate(wrap_offset(work.offset, self._cluster.topology.sizes))
                if offset
            )
            form = Form(p.POINT_TO_POINT, work.n_bytes, 1, 0, tuple(uses))
            self._known[key] = self.forms(form)
        return self._known[key]

    def _crossing(self, d: int, offset: int, graph: int) -> Use:
        """Return how a message with ``offset`` in dimension ``d`` uses the dimension.

        All ranks that run the graph send at once, and share the dimension's busiest link.
        """
        stages = self._workload.stages
        if stages is not None:  # the same ranks of a line run all graphs of this place
            own = coordinates_of(graph, self._workload.groups[stages].sizes)[d]
        else:
            own = graph
        key = (d, offset, own)
        if key not in self._crossings:
            dim, policy = self._dims[d], self._model.subgroup_bandwidth
            share, hops = dim.block.message_path_under(policy, dim.size, offset)
            crowd, entrance = 1, None
            if policy is SubgroupBandwidth.PHYSICAL:
                senders = runners_along(self._workload, self._cluster.topology.sizes, graph, d)
                crowd = dim.block.link_load(dim.size, offset, senders)
                entrance = dim.block.entrance(dim.size, offset, senders)
            share *= self._message_share(d) / crowd
            steps = PhaseSteps((Step(1, hops, 1.0, messages=crowd),), share, 1.0, 1.0)
            number = self.phase_steps(TypedSteps(p.POINT_TO_POINT, steps))
            entered = p.NO_ENTRANCE if entrance is None else entrance
            self._crossings[key] = Use(d, number, entrance=entered)
        return self._crossings[key]

    def _message_share(self, d: int) -> float:
        """Return the share (0 to 1) of a dimension's bandwidth that the library's messages get."""
        if self.library is None:
            return 1.0
        inside, between = self.library.shares
        return inside if d < self._model.node_dimensions else between

    def _use(self, kind: CollectiveKind, d: int, group: Group) -> Use:
        key = (kind, d, group.sizes[d], group.strides[d])
        if key not in self._uses:
            self._uses[key] = self._build_use(kind, d, group)
        return self._uses[key]

    def _build_use(self, kind: CollectiveKind, d: int, group: Group) -> Use:
        dim = self._dims[d]
        policy = self._model.subgroup_bandwidth
        setting = Setting(dim.block, dim.size, group.sizes[d], group.strides[d], policy)

        def number_steps(kind: CollectiveKind) -> int:
            steps = self._algorithms[d].select_algorithm(kind).steps(kind, setting)
            return self.phase_steps(TypedSteps(kind, steps))

        if kind is CollectiveKind.ALL_TO_ALL:
            return Use(d, number_steps(kind))
        fused = (
            kind is CollectiveKind.ALL_REDUCE and self._algorithms[d].select_algorithm(kind).fuses
        )
        return Use(
            d,
            scatter=number_steps(CollectiveKind.REDUCE_SCATTER),
            gather=number_steps(CollectiveKind.ALL_GATHER),
            fused=number_steps(kind) if fused else -1,
        )
