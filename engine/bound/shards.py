"""Times and memory of the passes of a plan's ranks, without graphs, for many plans at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dimsweep.engine.cluster.npu import Npu
from dimsweep.engine.cluster.remote_memory import RemoteMemory, Request
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import Floats, Longs
from dimsweep.engine.topology.coordinates import Group
from dimsweep.engine.units import PICOSECONDS
from dimsweep.engine.workload.graph import Collective, Compute
from dimsweep.engine.workload.models.model import (
    CollectiveStep,
    Graphs,
    LayerBlock,
    Model,
    RankModel,
    Shard,
    elementwise,
)
from dimsweep.engine.workload.placement import AXES
from dimsweep.engine.workload.plan.memory import PIECES, WORKSPACE, find_buffer_bytes, state_bytes
from dimsweep.engine.workload.plan.mesh import EXPERT_REPLICAS, REPLICAS, DeviceMesh
from dimsweep.engine.workload.plan.plan import GradientExchange, Offload, ParallelPlan
from dimsweep.engine.workload.plan.schedule import Schedule
from dimsweep.engine.workload.plan.stages import Stage, divide_stages
from dimsweep.engine.workload.plan.steps import Item
from dimsweep.engine.workload.plan.training import passes

_LEAD = 10**17  # ps by which a host runs ahead, so that no kernel waits for it
_ROUNDED = 1.0  # ps that rounding, and merging with a neighbour, may add to a computation
_REPLICATED = DeviceMesh({name: Group((2,), (1,)) for name in (REPLICAS, EXPERT_REPLICAS)})


class PassStep(NamedTuple):
    """One step of a pass: a computation, a collective over an ``axis``, or a wait for a label.

    A collective with a ``label`` overlaps the following steps until the wait for that label.
    """

    seconds: float = 0.0
    kind: CollectiveKind | None = None
    n_bytes: float = 0.0
    axis: str = ""
    label: str = ""
    follows: str = ""


class BlockKind(NamedTuple):
    """A kind of block on one rank: the steps of its passes, its parameters and its activations."""

    forward: tuple[PassStep, ...]
    backward: tuple[PassStep, ...]  # of the only micro-batch, or with gradients that are divided
    summing: tuple[PassStep, ...]  # of one of several, whose gradients are added up
    parameters: float
    experts: float  # those that a micro-batch gives gradients
    all_experts: float
    activations: float  # bytes that are kept from the forward pass on


@dataclass(frozen=True)
class Staging:
    """A model divided into p pipeline stages of v chunks, made of blocks of K kinds."""

    kinds: tuple[BlockKind, ...]
    count: Floats
    kept: Floats
    passing: Floats
    gathered: Floats
    parameters: Floats
    experts: Floats
    reached: Floats
    largest: Floats
    fullest: Floats
    message: float
    gather: PassStep | None

    @property
    def n_stages(self) -> int:
        """Number of pipeline stages."""
        return self.count.shape[0]

    @property
    def n_chunks(self) -> int:
        """Number of chunks of each stage."""
        return self.count.shape[1]


class Stagings:
    """Cache of a model's divisions into stages, with the times of its blocks on an NPU.

    ``slowest`` is the speed of the slowest NPU as a fraction of the others'.
    """

    def __init__(
        self,
        model: Model,
        npu: Npu,
        memory: RemoteMemory | None = None,
        slowest: float = 1.0,
    ) -> None:
        self._model, self._npu, self._memory, self.slowest = model, npu, memory, slowest
        self._networks: dict[Shard, RankModel] = {}
        self._kinds: dict[tuple[object, ...], BlockKind] = {}
        self._known: dict[tuple[object, ...], Staging] = {}

    @property
    def can_hold_overflow(self) -> bool:
        """True if remote memory can store the state that does not fit an NPU's memory."""
        return self._memory is not None and self._memory.HOLDS

    def build_staging(self, plan: ParallelPlan, degrees: Sequence[int]) -> Staging:
        """Return the model's stages under ``plan``, with ``degrees`` along the parallel AXES.

        Raises :class:`InfeasibleError` for degrees that do not divide the model, and
        :class:`DimsweepError` for plans that :func:`check_bounded` refuses.
        """
        check_bounded(plan)
        mesh, p = _mesh(degrees), int(degrees[AXES.index("pipeline")])
        key = (plan.shard(mesh), p, plan.interleave, *_block_settings(plan))
        if key not in self._known:
            self._known[key] = self._build(plan, mesh, p)
        return self._known[key]

    def _build(self, plan: ParallelPlan, mesh: DeviceMesh, p: int) -> Staging:
        shard = plan.shard(mesh)
        if shard not in self._networks:
            network = self._model.for_rank(shard).launched_by(shard.graphs)
            self._networks[shard] = network
        stages = divide_stages(self._networks[shard], p, plan.interleave, plan.stage_layers)
        chunks = [chunk for stage in stages for chunk in stage.chunks]
        kinds = {id(block): block for chunk in chunks for block in chunk}
        number, shape = {each: i for i, each in enumerate(kinds)}, (p, plan.interleave)
        count = np.zeros((len(chunks), len(kinds)))
        for row, chunk in zip(count, chunks, strict=True):
            np.add.at(row, [number[id(block)] for block in chunk], 1.0)
        buffers = [
            WORKSPACE + max(block.gradient_buffer for own in stage.chunks for block in own)
            for stage in stages
            for _ in stage.chunks
        ]
        buffer = np.array(buffers).reshape(shape)
        passing, gathered = (
            buffer + np.reshape([find_buffer_bytes(chunk, plan, mesh) for chunk in chunks], shape)
            for mesh in (DeviceMesh({}), _REPLICATED)
        )
        steps = stages[0].gather(mesh.degree("tensor"))
        return Staging(
            kinds=tuple(self._block_kind(block, plan) for block in kinds.values()),
            count=count.reshape(*shape, len(kinds)),
            kept=np.reshape([sum(b.activations for b in chunk) for chunk in chunks], shape),
            passing=passing,
            gathered=gathered,
            parameters=np.array([stage.parameters for stage in stages]),
            experts=np.array([stage.expert_parameters for stage in stages]),
            reached=np.array([stage.reached_parameters(1) for stage in stages]),
            largest=_maximum_per_stage(
                stages, lambda block: block.parameters + block.expert_parameters
            ),
            fullest=_maximum_per_stage(stages, lambda block: block.activations),
            message=stages[0].message / stages[0].shared_among(mesh.degree("tensor")),
            gather=_collective_step(steps[0]) if steps else None,
        )

    def _block_kind(self, block: LayerBlock, plan: ParallelPlan) -> BlockKind:
        # The model keeps its blocks, so that no other one gets their place.
        key = (id(block), *_block_settings(plan))
        if key in self._kinds:
            return self._kinds[key]
        items = passes(block, plan, sums=False)
        summed = passes(block, plan, sums=True)[1] if plan.zero < 2 else items[1]
        forward, backward, summing = (tuple(map(self._pass_step, own)) for own in (*items, summed))
        own = (
            block.parameters,
            block.reached_parameters(1),
            block.expert_parameters,
            block.activations,
        )
        kind = BlockKind(forward, backward, summing, *own)
        if block.forward or block.backward:  # others are made for one staging
            self._kinds[key] = kind
        return kind

    def _pass_step(self, item: Item) -> PassStep:
        if isinstance(item.work, Compute):
            return PassStep(self.computation_time(item.work))
        if isinstance(item.work, Collective):
            work = item.work
            return PassStep(0.0, work.kind, work.n_bytes, work.group, item.label, item.follows)
        return PassStep(label=item.label)

    def computation_time(self, work: Compute) -> float:
        """Return a lower bound in seconds on the time of one computation."""
        return max(0.0, self._npu.issued_duration(work, _LEAD)[0] - _ROUNDED) / PICOSECONDS

    def streaming_time(self, n_bytes: Floats, graphs: Graphs) -> Floats:
        """Return a lower bound (s) on a kernel that reads or writes ``n_bytes``, elementwise."""

        def lasts(size: float) -> float:
            kernel = elementwise("optimizer", size)._replace(graphed=graphs is Graphs.STEP)
            return self.computation_time(Compute(kernels=(kernel,)))

        return _evaluate_sizes(lasts, n_bytes)

    def access_time(self, n_bytes: Floats) -> Floats:
        """Return a lower bound (s) on a remote access of ``n_bytes`` by a single NPU, elementwise.

        Zero bytes take no time.
        """
        if self._memory is None:
            return np.zeros(n_bytes.shape)
        memory = self._memory

        def lasts(size: float) -> float:
            service = memory.service(Request(size))
            moved = max(service.own, service.node, service.cluster)
            return max(0.0, memory.latency + moved - _ROUNDED) / PICOSECONDS if size else 0.0

        return _evaluate_sizes(lasts, n_bytes)


def _evaluate_sizes(lasts: Callable[[float], float], n_bytes: Floats) -> Floats:
    """Return ``lasts(size)`` for each of ``n_bytes``, evaluated once for equal sizes."""
    sizes, place = np.unique(n_bytes, return_inverse=True)
    return np.array(list(map(lasts, sizes.tolist())))[place].reshape(n_bytes.shape)


def _maximum_per_stage(stages: Sequence[Stage], of: Callable[[LayerBlock], float]) -> Floats:
    """Return the maximum of ``of`` over the blocks of each stage (p,)."""
    blocks = ([block for chunk in stage.chunks for block in chunk] for stage in stages)
    return np.array([max(map(of, own)) for own in blocks])


def check_bounded(plan: ParallelPlan) -> None:
    """Raise :class:`DimsweepError` if ``plan`` has no closed-form bound; name the key at fault."""
    for name, refused in (
        ("weight_streaming", plan.weight_streaming),
        ("gradient_exchange", plan.gradient_exchange is GradientExchange.PARAMETER_SERVER),
        ("experts_by_node", plan.experts_by_node),
        ("overlap_experts", plan.overlap_experts),
        ("shard_ranks", bool(plan.shard_ranks)),
        ("memory_collectives", plan.memory_collectives),
        ("schedule", plan.schedule.cuts_backward),
    ):
        if refused:
            raise DimsweepError(
                "the bound of a plan without its graph does not cover this key",
                where=f"plan.{name}",
                hint="leave it out, or make plans an axis of a grid",
                code="unsupported",
            )


def _block_settings(plan: ParallelPlan) -> tuple[object, ...]:
    """Return the settings of a plan, besides its shard, on which the passes of blocks depend."""
    sums = (plan.zero == 3, plan.zero < 2, plan.fused_sums, plan.gradient_value)
    return (plan.stage_layers, *sums)


def _mesh(degrees: Sequence[int]) -> DeviceMesh:
    """Return a mesh with the given degrees of AXES, all placed in one dimension."""
    return DeviceMesh({axis: Group((int(n),), (1,)) for axis, n in zip(AXES, degrees, strict=True)})


def _collective_step(step: object) -> PassStep:
    assert isinstance(step, CollectiveStep)
    return PassStep(0.0, step.kind, step.n_bytes, step.axis)


# --- memory ---------------------------------------------------------------------------------------
# Level 0 of the bounds on plans: a lower bound on the memory of the fullest rank, for many plans.
#
# The account is that of :mod:`engine.workload.plan.memory`.  There a schedule is walked; here
# activations are those that a stage holds when its first backward pass begins, which is a part of
# that walk, and with 1F1B and one chunk its peak.  So no plan is refused here that the simulator
# would accept.  For remote memory there is room for the part in use, and for the next one.


class PlanCounts(NamedTuple):
    """The counts in which R plans of equal stages differ: micro-batches, replicas; (R,) each."""

    micro_batches: Longs
    replicas: Longs
    expert_replicas: Longs

    def select(self, rows: Longs) -> "PlanCounts":
        """Return the counts of the plans with the given indices."""
        return PlanCounts(*(each[rows] for each in self))


class MemoryBound(NamedTuple):
    """Lower bounds in bytes (R,) on the NPU memory and the remote memory of R plans."""

    own: Floats
    remote: Floats


def bound_memory(staging: Staging, plan: ParallelPlan, turns: PlanCounts) -> MemoryBound:
    """Return lower bounds on the memory of the fullest rank of each of R plans."""
    n, m = (each[:, None].astype(float) for each in (turns.replicas, turns.expert_replicas))

    def held(bytes_each: float, experts: Floats, *, divided: bool) -> Floats:
        return bytes_each * (
            staging.parameters / (n if divided else 1.0) + experts / (m if divided else 1.0)
        )

    weights = held(plan.value, staging.experts, divided=plan.zero >= 3)
    state = held(state_bytes(plan), staging.experts, divided=plan.zero >= 1)
    gradients = held(plan.gradient_value, staging.reached, divided=plan.zero >= 2)
    activations, passing = _peak(staging, plan, turns)
    own, remote = gradients + passing, np.zeros_like(weights)
    for what, whole, unit in (
        (Offload.OPTIMIZER, state, state / PIECES),
        (Offload.ACTIVATIONS, activations, staging.fullest),
        (Offload.WEIGHTS, weights, weights * staging.largest / _values(staging)),
    ):
        is_away = what in plan.offload
        own = own + (np.minimum(whole, 2 * unit) if is_away else whole)
        remote = remote + whole * is_away
    # Sums may round otherwise; and which of its stages is the fullest nobody knows here.
    return MemoryBound(*(each * (1 - 1e-12) for each in (own.max(axis=1), remote.min(axis=1))))


def _values(staging: Staging) -> Floats:
    return np.maximum(staging.parameters + staging.experts, 1.0)


def _peak(staging: Staging, plan: ParallelPlan, turns: PlanCounts) -> tuple[Floats, Floats]:
    """Return the activations and transient bytes (R, p) when the first backward pass begins.

    With activations in remote memory, each is instead at most its value at any peak.
    """
    held = (count_warm_up(staging, plan, turns) * staging.kept).sum(axis=-1)
    all_gathered = turns.expert_replicas > 1
    if not staging.experts.any():
        all_gathered = turns.replicas > 1
    passing = np.where(all_gathered[:, None, None], staging.gathered, staging.passing)
    # The last chunk's pass is the first to go back.
    own = passing[..., -1]
    if Offload.ACTIVATIONS not in plan.offload:
        return held, own
    return np.maximum(held + own - passing.max(axis=-1), 0.0), passing.min(axis=-1)


def count_warm_up(staging: Staging, plan: ParallelPlan, turns: PlanCounts) -> Floats:
    """Return each chunk's number of forward passes before its stage's first backward, (R, p, v)."""
    p, v = staging.n_stages, staging.n_chunks
    n = turns.micro_batches[:, None]
    behind = p - 1 - np.arange(p)
    if plan.schedule is Schedule.GPIPE:
        return np.broadcast_to(n[..., None], (len(n), p, v)).astype(float)
    if v == 1:
        return np.minimum(n, behind + 1)[..., None].astype(float)
    # Groups of p micro-batches go through chunk after chunk.
    return split_among_chunks(np.minimum(n * v, 2 * behind + (v - 1) * p + 1), p, v)


def split_among_chunks(first: Longs, p: int, v: int) -> Floats:
    """Return how many of the ``first`` (R, p) passes of a stage each chunk runs, (R, p, v)."""
    whole, rest = np.divmod(first, p * v)
    passes: Floats = whole[..., None] * p + np.clip(rest[..., None] - p * np.arange(v), 0, p)
    return passes.astype(float)
