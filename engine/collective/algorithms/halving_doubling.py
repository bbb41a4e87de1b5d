"""Halving and doubling: ceil(log2 p) exchanges with members ever further, or nearer, away.

Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005);
Bruck et al. (1997) for groups that are no power of two.
"""

from abc import abstractmethod

from dimsweep.engine.collective.algorithms.algorithm import Algorithm, ScatterGather
from dimsweep.engine.collective.rounds import MemberRounds, Shift, Shifts
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step
from dimsweep.engine.kinds import CollectiveKind


class HalvingDoubling(ScatterGather):
    """Steps of min(2^k, p - 2^k) shards, the largest first.

    For a power of two that is recursive halving.  For any other p it is the reduce-scatter dual to
    Bruck's all-gather: the same number of steps as the next power of two, and still exactly
    (p - 1)/p of the bytes.
    """

    name = "halving_doubling"

    def scatter_steps(self, setting: Setting) -> tuple[Step, ...]:
        return halving_steps(setting.p, setting.use.hops)

    def scatter_rounds(self, p: int, circle: bool) -> tuple[Shifts, ...]:
        return halving_rounds(p)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        return p * (p - 1).bit_length()


class AllReduceOnly(Algorithm):
    """An algorithm of a fused all-reduce only.  A lone reduce-scatter or all-gather falls back to
    halving and doubling, of which such algorithms are relatives."""

    fuses = True

    def fused_steps(self, setting: Setting) -> PhaseSteps:
        """The all-reduce as steps."""
        return self.measured(CollectiveKind.ALL_REDUCE, setting)

    @abstractmethod
    def fused_rounds(self, p: int) -> MemberRounds:
        """The all-reduce as messages."""

    def n_fused_messages(self, p: int) -> int:
        """How many messages :meth:`fused_rounds` sends: counted, or found without making them."""
        return super().n_messages(CollectiveKind.ALL_REDUCE, p, circle=False)

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        if kind is CollectiveKind.ALL_REDUCE:
            return self.fused_steps(setting)
        return HalvingDoubling().steps(kind, setting)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        if kind is CollectiveKind.ALL_REDUCE:
            return self.fused_rounds(p)
        return HalvingDoubling().rounds(kind, p, circle)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        if kind is CollectiveKind.ALL_REDUCE:
            return self.n_fused_messages(p)
        return HalvingDoubling().n_messages(kind, p, circle)


def halving_steps(p: int, hops: int) -> tuple[Step, ...]:
    """The steps of the reduce-scatter."""
    shards = [min(2**k, p - 2**k) / p for k in range((p - 1).bit_length())]
    return tuple(Step(1, hops, shard, shard) for shard in reversed(shards))


def halving_rounds(p: int) -> tuple[Shifts, ...]:
    """Pairs exchange a half, a quarter, ... of the bytes.  For a p that is no power of two: in
    round k a member hands the min(2^k, p - 2^k) shards that lie beyond 2^k to the member 2^k
    further on."""
    pairs = p & (p - 1) == 0
    distances = reversed([2**k for k in range((p - 1).bit_length())])
    return tuple((Shift(d, min(d, p - d) / p, pairs=pairs),) for d in distances)
