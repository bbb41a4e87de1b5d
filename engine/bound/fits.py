"""Level 0 of the bounds on plans: what the fullest rank must hold at least, for many plans at once.

The account is that of :mod:`engine.workload.plan.memory`.  There a schedule is walked; here
activations are those that a stage holds when its first backward pass begins, which is a part of
that walk, and with 1F1B and one chunk its peak.  So no plan is refused here that the simulator
would take.  Of what is kept in remote memory there is room for the part that is in use, and for the
one that comes.
"""

from typing import NamedTuple

import numpy as np

from dimsweep.engine.bound.shards import Staging
from dimsweep.engine.lower.program import Floats, Longs
from dimsweep.engine.workload.plan.memory import PIECES, state_bytes
from dimsweep.engine.workload.plan.plan import Offload, ParallelPlan
from dimsweep.engine.workload.plan.schedule import Schedule


class Turns(NamedTuple):
    """How R plans of one staging and one way to run it differ: micro-batches of each replica, and
    the ranks that hold the same weights, and the same experts; (R,) each."""

    micro_batches: Longs
    replicas: Longs
    expert_replicas: Longs

    def some(self, rows: Longs) -> "Turns":
        return Turns(*(each[rows] for each in self))


class Room(NamedTuple):
    """Bytes (R,) that plans need at least: of an NPU's memory, and of its remote memory."""

    own: Floats
    remote: Floats


def least_memory(staging: Staging, plan: ParallelPlan, turns: Turns) -> Room:
    """What the fullest rank of each plan holds at least."""
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
    return Room(*(each * (1 - 1e-12) for each in (own.max(axis=1), remote.min(axis=1))))


def _values(staging: Staging) -> Floats:
    return np.maximum(staging.parameters + staging.experts, 1.0)


def _peak(staging: Staging, plan: ParallelPlan, turns: Turns) -> tuple[Floats, Floats]:
    """Activations and what passes (R, p) as the first backward pass begins.  If they are kept in
    remote memory, it is no more than either is at the peak, whenever that is."""
    held = (begun(staging, plan, turns) * staging.kept).sum(axis=-1)
    all_gathered = turns.expert_replicas > 1
    if not staging.experts.any():
        all_gathered = turns.replicas > 1
    passing = np.where(all_gathered[:, None, None], staging.gathered, staging.passing)
    # The last chunk's pass is the first to go back.
    own = passing[..., -1]
    if Offload.ACTIVATIONS not in plan.offload:
        return held, own
    return np.maximum(held + own - passing.max(axis=-1), 0.0), passing.min(axis=-1)


def begun(staging: Staging, plan: ParallelPlan, turns: Turns) -> Floats:
    """How many forward passes of each chunk (R, p, v) a stage has done before its first backward
    pass."""
    p, v = staging.n_stages, staging.n_chunks
    n = turns.micro_batches[:, None]
    behind = p - 1 - np.arange(p)
    if plan.schedule is Schedule.GPIPE:
        return np.broadcast_to(n[..., None], (len(n), p, v)).astype(float)
    if v == 1:
        return np.minimum(n, behind + 1)[..., None].astype(float)
    # Groups of p micro-batches go through chunk after chunk.
    return of_chunks(np.minimum(n * v, 2 * behind + (v - 1) * p + 1), p, v)


def of_chunks(first: Longs, p: int, v: int) -> Floats:
    """Of the ``first`` (R, p) forward passes of stages with p stages and v chunks, those of each
    chunk (R, p, v)."""
    whole, rest = np.divmod(first, p * v)
    passes: Floats = whole[..., None] * p + np.clip(rest[..., None] - p * np.arange(v), 0, p)
    return passes.astype(float)
