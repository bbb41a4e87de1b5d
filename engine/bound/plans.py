"""Level 1 of the bounds on plans: the least time of many plans on many networks at once.

Nothing is simulated, and no graph is built.  The bound is the longest of some paths through the
graph that :func:`engine.plan.training` would build, at the bandwidths of each network:

1. *Stages.*  A stage starts when the first micro-batch has passed the stages before it; then it
   runs all its passes one after another; then the last gradient passes the stages before it, each
   of which finds its optimizer's step still ahead.  A pass lasts no less than its computations and
   the collectives that they wait for, and the next stage waits for a message.
2. *Ways there and back.*  A stage's first backward pass comes after the first micro-batch's way
   through all stages and chunks, and back to it; after its last forward pass the last micro-batch
   goes on to the last stage and all the way back; between the two it runs its other passes.  With
   1F1B and one chunk these take no less than ways to and fro among the next k stages, of which one
   fits into each k + 1 micro-batches: B(m) of a stage comes before F(m + w + 1), where w is its
   warm-up, and that, k stages on, where the warm-up is w - k, before B(m + k + 1).
3. *Gradients.*  What replicas exchange starts no earlier than the last backward pass of a stage's
   first chunk, and the optimizer waits for it.
4. *Communicators.*  Collectives of one communicator run one after another (unless they take
   several streams), so the exchanges of all micro-batches together, where ZeRO makes each one's.
5. *Remote memory.*  An NPU makes one access at a time, from a stage's first pass on; what is loaded
   is waited for before the optimizer's step, whose own accesses come after.

All but the last are paths of the lowered program, too, so the bound is no more than the longest
path there, which :class:`engine.bound.event.EventBound` finds, nor than any simulation.  Accesses
wait for one another, which no path tells: with these either of the two bounds may be the higher.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dimsweep.engine.bound.fits import Turns, begun, of_chunks
from dimsweep.engine.bound.shards import Op, Staging, Stagings
from dimsweep.engine.bound.ways import KINDS, Table
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import Floats, Longs
from dimsweep.engine.plan.memory import PIECES, state_bytes
from dimsweep.engine.plan.mesh import EXPERT_REPLICAS, REPLICAS
from dimsweep.engine.plan.plan import Offload, ParallelPlan
from dimsweep.engine.plan.schedule import Schedule
from dimsweep.engine.plan.training import optimizer_bytes

_ROUNDING = 1e-9  # relative, of the sums here
_BUCKET = 1e6  # bytes, than which no stack's buckets are smaller unless they are a block's


@dataclass(frozen=True)
class Reach:
    """Where N cells communicate: the number of each axis' group in a ``table`` (N,), those of the
    ``hops`` from their stages (N, p), and what the table's columns are multiplied by at each one's
    bandwidths, ``at`` (N, columns).  ``in_turn``: whether
    a communicator's collectives run one after another.  Without a table they are free."""

    n: int
    table: Table | None = None
    groups: Mapping[str, Longs] = field(default_factory=dict)
    hops: Longs | None = None
    at: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    in_turn: bool = True
    _known: dict[tuple[str, CollectiveKind], tuple[Floats, Floats]] = field(default_factory=dict)

    def _way(self, axis: str, kind: CollectiveKind) -> tuple[Floats, Floats]:
        """Seconds, and seconds a byte, (pieces, N) each."""
        if (axis, kind) not in self._known:
            assert self.table is not None
            group, number = self.groups[axis], KINDS.index(kind)
            tables = (self.table.fixed[:, number], self.table.slope[:, number])
            fixed, slope = (np.einsum("npc,nc->pn", each[group], self.at) for each in tables)
            self._known[axis, kind] = np.ascontiguousarray(fixed), np.ascontiguousarray(slope)
        return self._known[axis, kind]

    def lasts(
        self, kind: CollectiveKind, n_bytes: float | Floats, axis: str, buckets: float = 1.0
    ) -> Floats:
        """The least seconds (N,) of a collective; ``n_bytes`` is one number, or each cell's.  It
        may go in so many ``buckets``, one after another."""
        if axis not in self.groups:
            return np.zeros(self.n)
        fixed, slope = self._way(axis, kind)
        size = np.asarray(n_bytes, dtype=float)
        # Less than nothing is fixed where all of it may be won by rounding, in each bucket.
        fixed = np.where(fixed < 0, fixed * buckets, fixed)
        return np.asarray(np.maximum((fixed + slope * size).max(axis=0), 0.0) * (size > 0))

    def messages(self, n_bytes: float, p: int) -> tuple[Floats, Floats]:
        """The least seconds of messages from each of p stages to the next, and to the one before,
        (N, p) each."""
        if self.hops is None or self.table is None:
            return np.zeros((self.n, p)), np.zeros((self.n, p))
        there, back = np.zeros((self.n, p)), np.zeros((self.n, p))
        # Most stages are as far from their neighbours as others are.
        alike = dict[bytes, list[int]]()
        for stage, rows in enumerate(self.hops.T):
            alike.setdefault(rows.tobytes(), []).append(stage)
        whole = self.table.fixed[:, :2] + self.table.slope[:, :2] * n_bytes
        for stages in alike.values():
            rows = self.hops[:, stages[0]]
            seconds = np.einsum("nwkc,nc->kwn", whole[rows], self.at).max(axis=0)
            there[:, stages], back[:, stages] = np.maximum(seconds, 0.0)[..., None]
        return there, back


def least_time(
    staging: Staging, plan: ParallelPlan, turns: Turns, reach: Reach, stagings: Stagings
) -> Floats:
    """Seconds (N,) that no run of N cells is shorter than, which have this ``staging`` and this way
    to run it; each has its own ``turns`` and its own place in ``reach``."""
    several = turns.micro_batches > 1
    forward = _of_kinds([kind.forward for kind in staging.kinds], reach)
    backward = _of_kinds([kind.backward for kind in staging.kinds], reach)
    summing = _of_kinds([kind.summing for kind in staging.kinds], reach)
    backward = np.where(several[:, None], summing, backward) if plan.zero < 2 else backward
    before, after = (np.einsum("nk,pvk->npv", each, staging.count) for each in (forward, backward))
    _gather(staging, reach, before, after)
    return _Stages(staging, plan, turns, reach, stagings, before, after).least() * (1 - _ROUNDING)


def _of_kinds(passes: Sequence[tuple[Op, ...]], reach: Reach) -> Floats:
    """The least seconds of each kind's pass (N, K)."""
    return np.stack([_lasts(ops, reach) for ops in passes], axis=1)


def _lasts(ops: Sequence[Op], reach: Reach) -> Floats:
    """The least seconds (N,) of a pass: what has a label runs beside what follows, after what its
    communicator ran before."""
    at, ready, busy = np.zeros(reach.n), dict[str, Floats](), dict[str, Floats]()
    for op in ops:
        if op.kind is None:
            if op.label:
                at = np.maximum(at, ready.pop(op.label, at))
            at = at + op.seconds
            continue
        start = np.maximum(at, ready.get(op.follows, at))
        if reach.in_turn:
            start = np.maximum(start, busy.get(op.axis, start))
        end = start + reach.lasts(op.kind, op.n_bytes, op.axis)
        busy[op.axis] = end
        if op.label:
            ready[op.label] = np.maximum(end, ready.get(op.label, end))
        else:
            at = end
    return at


def _gather(staging: Staging, reach: Reach, before: Floats, after: Floats) -> None:
    """Add the collective that follows each message that comes."""
    if staging.gather is None or staging.gather.kind is None:
        return
    seconds = reach.lasts(staging.gather.kind, staging.gather.n_bytes, staging.gather.axis)[:, None]
    p, v = staging.n_stages, staging.n_chunks
    place = np.arange(p)[:, None] + p * np.arange(v)
    before += seconds[..., None] * (place > 0)
    after += seconds[..., None] * (place < p * v - 1)


class _Stages:
    """The paths through the stages of N cells, given each pass' seconds (N, p, v)."""

    def __init__(
        self,
        staging: Staging,
        plan: ParallelPlan,
        turns: Turns,
        reach: Reach,
        stagings: Stagings,
        before: Floats,
        after: Floats,
    ) -> None:
        self._staging, self._plan, self._turns = staging, plan, turns
        self._reach, self._stagings = reach, stagings
        self._before, self._after = before, after

    def least(self) -> Floats:
        staging, after = self._staging, self._after
        n = self._turns.micro_batches[:, None]
        there, back = self._reach.messages(staging.message, staging.n_stages)
        passed = np.cumsum(self._before[:, :, 0] + there, axis=1)
        head = passed - self._before[:, :, 0] - there  # before each stage's first pass (N, p)
        body = n * (self._before.sum(axis=2) + after.sum(axis=2))
        ends = head + body
        if self._plan.schedule is Schedule.ONE_F_ONE_B and staging.n_stages > 1:
            ends[:, 0] = np.maximum(ends[:, 0], self._to_and_fro(there, back))
        for stage in range(staging.n_stages - 2, -1, -1):
            on = ends[:, stage + 1] + back[:, stage + 1] + after[:, stage, 0]
            ends[:, stage] = np.maximum(ends[:, stage], on)
        ends = np.maximum(ends, self._exchanged(ends, head))
        loaded, stored, updated = self._accesses()
        ends = np.maximum(ends, head + loaded) + np.maximum(self._finish(), updated)
        return np.asarray(np.maximum(ends, head + loaded + stored + updated).max(axis=1))

    def _to_and_fro(self, there: Floats, back: Floats) -> Floats:
        """When the first stage's last backward pass ends at the earliest (N,), by ways through all
        stages and back."""
        staging, plan, turns = self._staging, self._plan, self._turns
        before, after, p, v = self._before, self._after, staging.n_stages, staging.n_chunks
        n = turns.micro_batches[:, None]
        # Through all chunks of all stages: a message after each but the last.
        through = before.sum(axis=(1, 2)) + v * there.sum(axis=1) - there[:, -1]
        return_way = after.sum(axis=(1, 2)) + v * back.sum(axis=1) - back[:, 0]
        on = before[:, :, -1] + there  # of the last chunk, from each stage on
        to_last = (
            np.cumsum(on[:, ::-1], axis=1)[:, ::-1] - on
        )  # beyond each stage, less one message
        to_last = to_last + there - there[:, -1:]
        home = after[:, :, -1] + back
        from_last = np.cumsum(home[:, ::-1], axis=1)[:, ::-1] - back
        started = through[:, None] + from_last  # the end of each stage's first backward pass (N, p)
        first = begun(staging, plan, turns)
        n_back = n * v - first.sum(axis=-1)  # backward passes before the last forward pass (N, p)
        forward = ((n[..., None] - first) * before).sum(axis=-1)
        backward = (of_chunks(n_back.astype(np.int64), p, v)[..., ::-1] * after).sum(axis=-1)
        between = forward + backward - after[:, :, -1]
        if v == 1:
            between = np.maximum(between, self._zigzag(n_back, there, back))
        ends = started + between + to_last + return_way[:, None]
        return np.asarray(np.where(n_back > 0, ends, 0.0).max(axis=1))

    def _zigzag(self, n_back: Floats, there: Floats, back: Floats) -> Floats:
        """What lies between a stage's first backward pass and the end of its last forward pass at
        least (N, p), with one chunk."""
        p = self._staging.n_stages
        ahead, behind = self._before[:, :, 0], self._after[:, :, 0]
        found = np.zeros_like(n_back)
        for stage in range(p):
            way = ahead[:, stage] + behind[:, stage]
            steps = n_back[:, stage] - 1
            for k in range(1, p - stage):
                far = stage + k
                way = way + ahead[:, far] + behind[:, far] + there[:, far - 1] + back[:, far]
                times, rest = np.divmod(steps, k + 1)
                own = ahead[:, stage] + behind[:, stage]
                whole = times * way + rest * own + ahead[:, stage]
                found[:, stage] = np.maximum(found[:, stage], whole)
        return found

    def _exchanged(self, ends: Floats, head: Floats) -> Floats:
        """When the gradients of each stage (N, p) are there at the earliest."""
        plan, turns = self._plan, self._turns
        if plan.zero >= 2:
            return head + self._reach.in_turn * turns.micro_batches[:, None] * self._each_time()
        if not plan.overlap_gradients:
            return ends + self._whole(range(self._staging.n_chunks))
        return ends - self._after[:, :, 0] + self._whole(range(1))

    def _whole(self, chunks: Sequence[int]) -> Floats:
        """The exchange of some chunks' gradients (N, p), of weights and of experts, whichever
        takes longer."""
        plan, staging = self._plan, self._staging
        kind = CollectiveKind.ALL_REDUCE
        if plan.zero and not plan.whole_sums:
            kind = CollectiveKind.REDUCE_SCATTER
        found = np.zeros((self._reach.n, staging.n_stages))
        if not self._reach.in_turn:
            return found
        for axis, values in (
            (REPLICAS, [each.parameters for each in staging.kinds]),
            (EXPERT_REPLICAS, [each.experts for each in staging.kinds]),
        ):
            for stage in range(staging.n_stages):
                count = sum(staging.count[stage, chunk] for chunk in chunks)
                size = float(count @ values) * plan.gradient_value
                buckets = count.sum() + size / min(_BUCKET, plan.bucket or _BUCKET)
                seconds = self._reach.lasts(kind, size, axis, buckets)
                found[:, stage] = np.maximum(found[:, stage], seconds)
        return found

    def _each_time(self) -> Floats:
        """What a communicator of replicas does for each micro-batch (N, p)."""
        plan, staging, n = self._plan, self._staging, self._reach.n
        found = np.zeros((n, staging.n_stages))
        for axis, copies, values in (
            (REPLICAS, self._turns.replicas, [each.parameters for each in staging.kinds]),
            (
                EXPERT_REPLICAS,
                self._turns.expert_replicas,
                [each.experts for each in staging.kinds],
            ),
        ):
            own = np.zeros((n, len(staging.kinds)))
            by_block = plan.zero == 3 and plan.overlap_gradients
            for number, value in enumerate(values):
                if plan.zero == 3:
                    share = value * plan.value / copies
                    own[:, number] = 2 * self._reach.lasts(CollectiveKind.ALL_GATHER, share, axis)
                if by_block:
                    size = value * plan.gradient_value
                    own[:, number] += self._reach.lasts(CollectiveKind.REDUCE_SCATTER, size, axis)
            each = np.einsum("nk,pvk->np", own, staging.count)
            for stage in range(staging.n_stages if not by_block else 0):
                size = float((staging.count[stage] @ values).sum()) * plan.gradient_value
                buckets = staging.count[stage].sum() + size / min(_BUCKET, plan.bucket or _BUCKET)
                kind = CollectiveKind.REDUCE_SCATTER
                each[:, stage] += self._reach.lasts(kind, size, axis, buckets)
            found = np.maximum(found, each)
        return found

    def _accesses(self) -> tuple[Floats, Floats, Floats]:
        """The seconds of all passes' loads and of their stores, and of the optimizer's accesses,
        (N, p) each, or zero."""
        plan, staging, turns = self._plan, self._staging, self._turns
        loaded = stored = updated = np.zeros((1, 1))
        lasts, n = self._stagings.accessing, turns.micro_batches[:, None]
        count, kinds = staging.count.sum(axis=1), staging.kinds  # (p, K)
        if Offload.ACTIVATIONS in plan.offload:
            stored = n * (count @ lasts(np.array([kind.activations for kind in kinds])))
            loaded = stored
        if Offload.WEIGHTS in plan.offload:
            for copies, values in (
                (turns.replicas, [kind.parameters for kind in kinds]),
                (turns.expert_replicas, [kind.all_experts for kind in kinds]),
            ):
                share = plan.value / (copies[:, None] if plan.zero == 3 else 1.0)
                loaded = loaded + 2 * n * (lasts(share * np.array(values)) @ count.T)
        if Offload.OPTIMIZER in plan.offload:
            own = self._updated()
            updated = 2 * PIECES * lasts(own * state_bytes(plan) / PIECES)
            updated = updated + lasts(own * plan.value) * (Offload.WEIGHTS in plan.offload)
        return loaded, stored, updated

    def _updated(self) -> Floats:
        """Values that a rank of each stage updates (N, p)."""
        plan, staging, turns = self._plan, self._staging, self._turns
        n, m = turns.replicas[:, None], turns.expert_replicas[:, None]
        divided = plan.zero > 0
        own = staging.parameters / (n if divided else 1) + staging.reached / (m if divided else 1)
        return np.broadcast_to(own, (self._reach.n, staging.n_stages))

    def _finish(self) -> Floats:
        """The optimizer's step, and what is gathered after it (N, p)."""
        plan, staging, turns = self._plan, self._staging, self._turns
        pieces = PIECES if Offload.OPTIMIZER in plan.offload else 1
        own = self._updated() * optimizer_bytes(plan) / pieces
        found = pieces * self._stagings.streaming(own)
        if plan.zero not in (1, 2) or plan.overlap_parameters:
            return found
        for axis, copies, values in (
            (REPLICAS, turns.replicas, staging.parameters),
            (EXPERT_REPLICAS, turns.expert_replicas, staging.reached),
        ):
            for stage, value in enumerate(values.tolist()):
                share = value * plan.gathered / copies
                found[:, stage] += self._reach.lasts(CollectiveKind.ALL_GATHER, share, axis)
        return found
