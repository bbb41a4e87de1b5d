"""Level 1 of the bounds on plans: lower bounds on the time of many plans on many networks at once.

Nothing is simulated, and no graph is built.  The bound is the longest of some paths through the
graph that :func:`engine.workload.plan.training` would build, at the bandwidths of each network:

1. *Stages.*  A stage starts when the first micro-batch has passed the stages before it; then it
   runs all its passes one after another; then the last gradient passes the stages before it, each
   of which finds its optimizer's step still ahead.  A pass lasts at least as long as its
   computations and the collectives that they wait for, and the next stage waits for a message.
2. *Round trips.*  A stage's first backward pass comes after the first micro-batch has passed all
   stages and chunks, and has returned to the stage. After the stage's last forward pass the last
   micro-batch continues to the last stage and returns to the first. Between the two the stage runs
   its other passes.  With 1F1B and one chunk these take at least as long as round trips among the
   next k stages, of which one fits into each k + 1 micro-batches: B(m) of a stage comes before
   F(m + w + 1), where w is its warm-up. That pass, k stages on, where the warm-up is w - k, comes
   before B(m + k + 1).
3. *Gradients.*  Replicas exchange gradients no earlier than the last backward pass of a stage's
   first chunk, and the optimizer waits for the exchange.
4. *Communicators.*  Collectives of one communicator run one after another (unless they take
   several streams), so the exchanges of all micro-batches add up if ZeRO makes one for each.
5. *Remote memory.*  An NPU makes one access at a time, from a stage's first pass on. The
   optimizer's step waits for all loads, and its own accesses come after.

All but the last are paths of the lowered program, too, so the bound is no more than the longest
path there, which :class:`engine.bound.event.EventBound` finds, nor than any simulation.  Accesses
wait for one another, which no path includes: with them either of the two bounds may be higher.

If one NPU is slower than the others, its stage depends on the network: the bound is the minimum
over all stages, whose passes then take at least their computations' time on that NPU.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dimsweep.engine.bound.communication import KINDS, BoundTable
from dimsweep.engine.bound.shards import (
    PassStep,
    PlanCounts,
    Staging,
    Stagings,
    count_warm_up,
    split_among_chunks,
)
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import Floats, Longs
from dimsweep.engine.workload.plan.memory import PIECES, state_bytes
from dimsweep.engine.workload.plan.mesh import EXPERT_REPLICAS, REPLICAS
from dimsweep.engine.workload.plan.plan import Offload, ParallelPlan
from dimsweep.engine.workload.plan.schedule import Schedule
from dimsweep.engine.workload.plan.training import optimizer_bytes

_ROUNDING = 1e-9  # relative, of the sums here
_BUCKET = 1e6  # bytes, than which no stack's buckets are smaller unless they are a block's


# What cells may have in common, beside an axis' group and its bandwidths: what passes take; that,
# and what messages between stages take.
PASSES, STAGES = "passes", "stages"
PIPELINE = "pipeline"
BETWEEN = (PIPELINE, "data", REPLICAS, EXPERT_REPLICAS)  # axes that no pass communicates over


@dataclass(frozen=True)
class CellClasses:
    """A partition of N cells (a plan on a network each) into classes with equal bounds."""

    number: Longs
    example: Longs

    @classmethod
    def from_codes(cls, codes: Longs) -> "CellClasses":
        """Build from a number (N,) for each cell; cells with equal numbers form a class."""
        _, one, of = np.unique(codes, return_index=True, return_inverse=True)
        return cls(of, one)

    def select(self, cells: Longs) -> "CellClasses":
        """Return the classes of the cells with the given indices."""
        own, used = self.number[cells], np.zeros(len(self.example), dtype=bool)
        used[own] = True
        of = (np.cumsum(used) - 1)[own]
        one = np.zeros(np.count_nonzero(used), dtype=np.int64)
        one[of] = np.arange(len(cells))
        return CellClasses(of, one)


@dataclass(frozen=True)
class CellCommunication:
    """Lower bounds on the time of the collectives and messages of N cells (plans on networks).

    Without a table communication is free. Cells are in one class of ``classes`` if their groups of
    an axis (or all groups in PASSES or STAGES) and the bandwidths between them are equal; their
    bounds are computed once.
    """

    n: int
    table: BoundTable | None = None
    groups: Mapping[str, Longs] = field(default_factory=dict)
    hops: Longs | None = None
    factors: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    place: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    network: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    classes: Mapping[str, CellClasses] = field(default_factory=dict)
    is_sequential: bool = True
    _known: dict[tuple[str, CollectiveKind], tuple[Floats, Floats]] = field(default_factory=dict)
    _examples: dict[str, "CellCommunication"] = field(default_factory=dict)

    def select(self, cells: Longs) -> "CellCommunication":
        """Return the bounds of the cells with the given indices."""
        classes = {name: own.select(cells) for name, own in self.classes.items()}
        return self._replace_cells(cells, classes)

    def _replace_cells(
        self, cells: Longs, classes: Mapping[str, CellClasses]
    ) -> "CellCommunication":
        place, network = self.place[cells], self.network[cells]
        return replace(
            self,
            n=len(cells),
            place=place,
            network=network,
            classes=classes,
            _known={},
            _examples={},
        )

    def examples(self, name: str) -> "CellCommunication":
        """Return the bounds of one cell of each class of ``classes[name]``."""
        if name not in self.classes:
            return self
        if name not in self._examples:
            one, inner = self.classes[name].example, (PASSES, PIPELINE) if name == STAGES else ()
            alike = {each: self.classes[each].select(one) for each in inner if each in self.classes}
            found = self._replace_cells(one, alike)
            if name == PASSES:
                own = {axis: each for axis, each in found.groups.items() if axis not in BETWEEN}
                found = replace(found, groups=own)
            self._examples[name] = found
        return self._examples[name]

    def expand(self, name: str, values: Floats) -> Floats:
        """Return ``values`` (..., U) of the U classes as values (..., N) of all cells."""
        return values[..., self.classes[name].number] if name in self.classes else values

    def _pieces(self, axis: str, kind: CollectiveKind) -> tuple[Floats, Floats]:
        """Return the pieces of a bound: seconds, and seconds per byte, (pieces, N) each."""
        if (axis, kind) not in self._known:
            assert self.table is not None
            group, number = self.groups[axis][self.place], KINDS.index(kind)
            tables, at = (self.table.fixed, self.table.slope), self.factors[self.network]
            fixed, slope = (np.einsum("npc,nc->pn", each[group, number], at) for each in tables)
            self._known[axis, kind] = np.ascontiguousarray(fixed), np.ascontiguousarray(slope)
        return self._known[axis, kind]

    def collective_time(
        self, kind: CollectiveKind, n_bytes: float, axis: str, buckets: float = 1.0
    ) -> Floats:
        """Return a lower bound (s) on a collective of ``n_bytes`` over ``axis`` in each cell, (N,).

        ``buckets`` is the number of consecutive collectives in which the bytes are sent.
        """
        if axis not in self.groups or not n_bytes > 0:
            return np.zeros(self.n)
        fixed, slope = self.examples(axis)._pieces(axis, kind)
        # Less than nothing is fixed where all of it may be won by rounding, in each bucket.
        fixed = np.where(fixed < 0, fixed * buckets, fixed)
        return self.expand(axis, np.maximum((fixed + slope * n_bytes).max(axis=0), 0.0))

    def message_times(self, n_bytes: float, p: int) -> tuple[Floats, Floats]:
        """Return lower bounds (s) on a message from each of ``p`` stages to the next, and back.

        Shapes are (p, N) each.
        """
        if self.hops is None or self.table is None:
            return np.zeros((p, self.n)), np.zeros((p, self.n))
        ones = self.examples(PIPELINE)
        found, rows, at = (
            np.zeros((2, p, ones.n)),
            self.hops[ones.place],
            self.factors[ones.network],
        )
        for stage in range(p):
            own = rows[:, stage]
            whole = self.table.fixed[own, :2] + self.table.slope[own, :2] * n_bytes
            found[:, stage] = np.einsum("nwkc,nc->kwn", whole, at).max(axis=0)
        there, back = self.expand(PIPELINE, np.maximum(found, 0.0))
        return there, back


def bound_time(
    staging: Staging,
    plan: ParallelPlan,
    turns: PlanCounts,
    reach: CellCommunication,
    stagings: Stagings,
) -> Floats:
    """Return a lower bound (s) on the iteration of N cells of equal ``staging`` and ``plan``.

    ``reach`` has the communication bounds of each cell; ``turns`` has the counts of one plan.
    """
    stages = reach.examples(STAGES)
    before, after = _pass_times(staging, plan, turns, stages.examples(PASSES))
    before, after = (stages.expand(PASSES, each) for each in (before, after))

    def lower_bound(before: Floats, after: Floats) -> Floats:
        paths = _StagePaths(staging, plan, turns, stages, before, after)
        return _Epilogue(staging, plan, turns, reach, stagings).end_time(paths) * (1 - _ROUNDING)

    if stagings.slowest == 1.0:
        return lower_bound(before, after)
    computed = [
        each / stagings.slowest for each in _pass_times(staging, plan, turns, CellCommunication(1))
    ]
    return np.minimum.reduce(  # the slowest NPU is in one of the stages
        [
            lower_bound(
                *(
                    _slow_down_stage(*each, stage)
                    for each in zip((before, after), computed, strict=True)
                )
            )
            for stage in range(staging.n_stages)
        ]
    )


def _pass_times(
    staging: Staging, plan: ParallelPlan, turns: PlanCounts, reach: CellCommunication
) -> tuple[Floats, Floats]:
    """Return lower bounds (s) on each chunk's forward and backward pass, (p, v, N) each."""
    several = turns.micro_batches.item() > 1
    forward = _kind_times([kind.forward for kind in staging.kinds], reach)
    one = [kind.summing if several and plan.zero < 2 else kind.backward for kind in staging.kinds]
    before, after = (
        np.einsum("kn,pvk->pvn", each, staging.count) for each in (forward, _kind_times(one, reach))
    )
    _add_gathers(staging, reach, before, after)
    return before, after


def _slow_down_stage(passes: Floats, computed: Floats, stage: int) -> Floats:
    """Return ``passes`` (s); one stage's passes are raised to the time of its computations."""
    found = passes.copy()
    np.maximum(found[stage], computed[stage], out=found[stage])
    return found


def _kind_times(passes: Sequence[tuple[PassStep, ...]], reach: CellCommunication) -> Floats:
    """Return a lower bound (s) on the pass of each of K kinds of blocks, (K, N)."""
    return np.stack([_pass_time(ops, reach) for ops in passes])


def _pass_time(ops: Sequence[PassStep], reach: CellCommunication) -> Floats:
    """Return a lower bound (s) on a pass in each cell, (N,).

    Labelled operations overlap with the following ones, after the earlier ones of their
    communicator.
    """
    at, ready, busy = np.zeros(reach.n), dict[str, Floats](), dict[str, Floats]()
    for op in ops:
        if op.kind is None:
            if op.label:
                at = np.maximum(at, ready.pop(op.label, at))
            at = at + op.seconds
            continue
        start = np.maximum(at, ready.get(op.follows, at))
        if reach.is_sequential:
            start = np.maximum(start, busy.get(op.axis, start))
        end = start + reach.collective_time(op.kind, op.n_bytes, op.axis)
        busy[op.axis] = end
        if op.label:
            ready[op.label] = np.maximum(end, ready.get(op.label, end))
        else:
            at = end
    return at


def _add_gathers(staging: Staging, reach: CellCommunication, before: Floats, after: Floats) -> None:
    """Add to the passes' seconds the all-gather that follows each received message."""
    if staging.gather is None or staging.gather.kind is None:
        return
    seconds = reach.collective_time(
        staging.gather.kind, staging.gather.n_bytes, staging.gather.axis
    )
    p, v = staging.n_stages, staging.n_chunks
    place = (np.arange(p)[:, None] + p * np.arange(v))[..., None]
    before += seconds * (place > 0)
    after += seconds * (place < p * v - 1)


class _StagePaths:
    """The paths through the pipeline stages of N cells, given the seconds of passes (p, v, N)."""

    def __init__(
        self,
        staging: Staging,
        plan: ParallelPlan,
        turns: PlanCounts,
        reach: CellCommunication,
        before: Floats,
        after: Floats,
    ) -> None:
        self._staging, self._plan, self._turns = staging, plan, turns
        self._before, self._after = before, after
        self._n = turns.micro_batches.item()
        self._there, self._back = reach.message_times(staging.message, staging.n_stages)

    @property
    def last_pass(self) -> Floats:
        """Seconds of the last backward pass of each stage (p, N)."""
        return self._after[:, 0]

    @cached_property
    def first_start(self) -> Floats:
        """Lower bound (s) on the start of each stage's first pass (p, N)."""
        own = self._before[:, 0] + self._there
        return np.asarray(np.cumsum(own, axis=0) - own)

    def ends(self) -> Floats:
        """Return a lower bound (s) on the end of all passes of each stage (p, N)."""
        staging, after = self._staging, self._after
        ends = self.first_start + self._n * (self._before.sum(axis=1) + after.sum(axis=1))
        if self._plan.schedule is Schedule.ONE_F_ONE_B and staging.n_stages > 1:
            np.maximum(ends[0], self._round_trip_end(), out=ends[0])
        for stage in range(staging.n_stages - 2, -1, -1):
            on = ends[stage + 1] + self._back[stage + 1] + after[stage, 0]
            np.maximum(ends[stage], on, out=ends[stage])
        return np.asarray(ends)

    def _round_trip_end(self) -> Floats:
        """Return a lower bound (s) on the end of the first stage's last backward pass, (N,).

        The paths lead through all stages and back.
        """
        staging, there, back = self._staging, self._there, self._back
        before, after, p, v = self._before, self._after, staging.n_stages, staging.n_chunks
        # Through all chunks of all stages: a message after each but the last.
        through = before.sum(axis=(0, 1)) + v * there.sum(axis=0) - there[-1]
        return_way = after.sum(axis=(0, 1)) + v * back.sum(axis=0) - back[0]
        on = before[:, -1] + there  # of the last chunk, from each stage on
        to_last = np.cumsum(on[::-1], axis=0)[::-1] - on  # beyond each stage, less one message
        to_last = to_last + there - there[-1]
        home = after[:, -1] + back
        from_last = np.cumsum(home[::-1], axis=0)[::-1] - back
        started = through + from_last  # the end of each stage's first backward pass (p, N)
        first = count_warm_up(staging, self._plan, self._turns)[0]
        n_back = self._n * v - first.sum(axis=-1)  # backward passes before the last forward pass
        going_back = split_among_chunks(n_back.astype(np.int64), p, v)[..., ::-1]
        between = np.einsum("pv,pvn->pn", self._n - first, before)
        between += np.einsum("pv,pvn->pn", going_back, after) - after[:, -1]
        if v == 1:
            between = np.maximum(between, self._zigzag(n_back))
        ends = started + between + to_last + return_way
        return np.asarray(np.where(n_back[:, None] > 0, ends, 0.0).max(axis=0))

    def _zigzag(self, n_back: Floats) -> Floats:
        """Return a lower bound (s) on the time from the first backward to the last forward pass.

        Its shape is (p, N), for each stage. It holds for one chunk a stage.
        """
        p = self._staging.n_stages
        ahead, own = self._before[:, 0], self._before[:, 0] + self._after[:, 0]
        further = own + self._back  # and the messages to a stage and back from it
        further[1:] += self._there[:-1]
        found, whole = np.zeros_like(own), np.empty_like(own[0])
        for stage in range(p):
            way, steps = own[stage].copy(), n_back[stage] - 1
            for k in range(1, p - stage):
                way += further[stage + k]
                times, rest = divmod(steps, k + 1)
                np.multiply(way, times, out=whole)
                whole += rest * own[stage]
                np.maximum(found[stage], whole, out=found[stage])
            found[stage] += ahead[stage] * (stage < p - 1)
        return found


class _AccessTimes(NamedTuple):
    """Lower bounds (s) on a stage's remote accesses: loads, stores, and the optimizer's."""

    loaded: float
    stored: float
    updated: float


class _Epilogue:
    """The end of an iteration of N cells: gradient exchanges and the optimizer's step."""

    def __init__(
        self,
        staging: Staging,
        plan: ParallelPlan,
        turns: PlanCounts,
        reach: CellCommunication,
        stagings: Stagings,
    ) -> None:
        self._staging, self._plan, self._reach, self._stagings = staging, plan, reach, stagings
        self._n, self._replicas, self._expert_replicas = (each.item() for each in turns)

    def end_time(self, paths: _StagePaths) -> Floats:
        """Return a lower bound (s) on the end of an iteration, (N,).

        Of stages with equal exchanges only the last one counts.
        """
        ends, found = paths.ends(), np.zeros(self._reach.n)
        for stages in self._equal_stages():
            remote, head = self._access_times(stages[0]), paths.first_start[stages].max(axis=0)
            done = np.maximum(ends[stages].max(axis=0), head + remote.loaded)
            ready = self._exchange_start(paths, ends, stages).max(axis=0)
            done, ready = (self._reach.expand(STAGES, each) for each in (done, ready))
            exchanged = ready + self._exchange_time(stages[0])
            finish = np.maximum(self._update_time(stages[0]), remote.updated)
            np.maximum(found, np.maximum(done, exchanged) + finish, out=found)
            if remote.stored:  # which nothing waits for
                accessed = self._reach.expand(STAGES, head + sum(remote))
                np.maximum(found, accessed, out=found)
        return found

    def _equal_stages(self) -> Iterable[list[int]]:
        """Return the stages in groups with equal blocks and numbers of parameters."""
        staging, found = self._staging, dict[object, list[int]]()
        for stage in range(staging.n_stages):
            own = (staging.parameters[stage], staging.reached[stage])
            found.setdefault((staging.count[stage].tobytes(), *own), []).append(stage)
        return found.values()

    def _exchange_start(self, paths: _StagePaths, ends: Floats, stages: list[int]) -> Floats:
        """Return a lower bound (s) on the start of each given stage's gradient exchange, (S, N)."""
        if self._plan.zero >= 2:
            return paths.first_start[stages]
        return ends[stages] - paths.last_pass[stages] * self._plan.overlap_gradients

    def _exchange_time(self, stage: int) -> Floats:
        """Return a lower bound (s) on the time of a stage's gradient exchange, (N,)."""
        plan, chunks = self._plan, range(self._staging.n_chunks)
        if not self._reach.is_sequential:
            return np.zeros(self._reach.n)
        if plan.zero >= 2:
            return self._n * self._repeated_exchange(stage)
        return self._single_exchange(stage, chunks[:1] if plan.overlap_gradients else chunks)

    def _single_exchange(self, stage: int, chunks: Sequence[int]) -> Floats:
        """Return a lower bound (s) on exchanging the gradients of ``chunks`` once, (N,)."""
        plan, staging = self._plan, self._staging
        kind = CollectiveKind.ALL_REDUCE
        if plan.zero and not plan.whole_sums:
            kind = CollectiveKind.REDUCE_SCATTER
        count = sum(staging.count[stage, chunk] for chunk in chunks)
        found = np.zeros(self._reach.n)
        for axis, values in (
            (REPLICAS, [each.parameters for each in staging.kinds]),
            (EXPERT_REPLICAS, [each.experts for each in staging.kinds]),
        ):
            size = float(count @ values) * plan.gradient_value
            seconds = self._reach.collective_time(kind, size, axis, self._n_buckets(count, size))
            found = np.maximum(found, seconds)
        return found

    def _n_buckets(self, count: Floats, size: float) -> float:
        """Return the largest number of buckets for ``size`` bytes of gradients of some blocks."""
        return float(count.sum() + size / min(_BUCKET, self._plan.bucket or _BUCKET))

    def _repeated_exchange(self, stage: int) -> Floats:
        """Return a lower bound (s) on the replicas' collectives for each micro-batch, (N,)."""
        plan, staging, reach = self._plan, self._staging, self._reach
        count, by_block = staging.count[stage], plan.zero == 3 and plan.overlap_gradients
        found = np.zeros(reach.n)
        for axis, copies, values in (
            (REPLICAS, self._replicas, [each.parameters for each in staging.kinds]),
            (EXPERT_REPLICAS, self._expert_replicas, [each.experts for each in staging.kinds]),
        ):
            own = np.zeros(reach.n)
            for number, value in zip(count.sum(axis=0).tolist(), values, strict=True):
                if plan.zero == 3:
                    share = value * plan.value / copies
                    own += (
                        number * 2 * reach.collective_time(CollectiveKind.ALL_GATHER, share, axis)
                    )
                if by_block:
                    size = value * plan.gradient_value
                    own += number * reach.collective_time(CollectiveKind.REDUCE_SCATTER, size, axis)
            if not by_block:
                size = float((count @ values).sum()) * plan.gradient_value
                buckets = self._n_buckets(count, size)
                own += reach.collective_time(CollectiveKind.REDUCE_SCATTER, size, axis, buckets)
            found = np.maximum(found, own)
        return found

    def _access_times(self, stage: int) -> _AccessTimes:
        plan, staging, lasts = self._plan, self._staging, self._stagings.access_time
        count, kinds = staging.count[stage].sum(axis=0), staging.kinds  # (K,)
        loaded = stored = updated = 0.0
        if Offload.ACTIVATIONS in plan.offload:
            stored = self._n * float(count @ lasts(np.array([kind.activations for kind in kinds])))
            loaded = stored
        if Offload.WEIGHTS in plan.offload:
            for copies, values in (
                (self._replicas, [kind.parameters for kind in kinds]),
                (self._expert_replicas, [kind.all_experts for kind in kinds]),
            ):
                share = plan.value / (copies if plan.zero == 3 else 1)
                loaded += 2 * self._n * float(count @ lasts(share * np.array(values)))
        if Offload.OPTIMIZER in plan.offload:
            own, away = self._n_updated(stage), Offload.WEIGHTS in plan.offload
            sizes = np.array([own * state_bytes(plan) / PIECES, own * plan.value * away])
            piece, weights = lasts(sizes).tolist()
            updated = 2 * PIECES * piece + weights
        return _AccessTimes(loaded, stored, updated)

    def _n_updated(self, stage: int) -> float:
        """Return the number of parameters that one rank of a stage updates."""
        staging, is_cut = self._staging, self._plan.zero > 0
        n, m = (self._replicas, self._expert_replicas) if is_cut else (1, 1)
        return float(staging.parameters[stage] / n + staging.reached[stage] / m)

    def _update_time(self, stage: int) -> Floats:
        """Return a lower bound (s) on the optimizer's step and weight gathers after it, (N,)."""
        plan, staging = self._plan, self._staging
        pieces = PIECES if Offload.OPTIMIZER in plan.offload else 1
        piece = self._n_updated(stage) * optimizer_bytes(plan) / pieces
        found = np.full(
            self._reach.n,
            pieces * self._stagings.streaming_time(np.array([piece]), plan.graphs).item(),
        )
        if plan.zero not in (1, 2) or plan.overlap_parameters:
            return found
        for axis, copies, values in (
            (REPLICAS, self._replicas, staging.parameters),
            (EXPERT_REPLICAS, self._expert_replicas, staging.reached),
        ):
            share = values[stage].item() * plan.gathered / copies
            found += self._reach.collective_time(CollectiveKind.ALL_GATHER, share, axis)
        return found
