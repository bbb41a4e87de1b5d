"""Halving and doubling: ceil(log2 p) exchanges with members ever further, or nearer, away.

Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005);
Bruck et al. (1997) for groups that are no power of two.
"""

from abc import abstractmethod

from dimsweep.engine.collective.algorithms.algorithm import Algorithm, ScatterGather
from dimsweep.engine.collective.rounds import (
    MemberRounds,
    Round,
    RoundMessage,
    Shift,
    Shifts,
    Strand,
    strand,
)
from dimsweep.engine.collective.steps import PhaseSteps, Setting, Step
from dimsweep.engine.kinds import CollectiveKind


class HalvingDoubling(ScatterGather):
    """Reduce-scatter in ceil(log2 p) steps; step k sends min(2^k, p - 2^k) shards, largest first.

    For a power of two that is recursive halving.  For any other p it is the reduce-scatter dual to
    Bruck's all-gather: the same number of steps as the next power of two, and still exactly
    (p - 1)/p of the bytes.
    """

    name = "halving_doubling"

    def scatter_steps(self, setting: Setting) -> tuple[Step, ...]:
        """Return the reduce-scatter as steps for the phase kernel."""
        return halving_steps(setting.p, setting.use.hops)

    def scatter_rounds(self, p: int, circle: bool) -> tuple[Shifts, ...]:
        """Return the reduce-scatter's messages among ``p`` members, round by round."""
        return halving_rounds(p)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        """Return the number of messages of one phase among ``p`` members."""
        return p * (p - 1).bit_length()


class AllReduceOnly(Algorithm):
    """Base class of algorithms that define a fused all-reduce only.

    Their reduce-scatter and all-gather use halving and doubling, to which such algorithms are
    related.
    """

    fuses = True

    def fused_steps(self, setting: Setting) -> PhaseSteps:
        """Return the all-reduce as steps for the phase kernel."""
        return self.measured(CollectiveKind.ALL_REDUCE, setting)

    @abstractmethod
    def fused_rounds(self, p: int) -> MemberRounds:
        """Return the all-reduce among ``p`` members as messages."""

    def n_fused_messages(self, p: int) -> int:
        """Return the number of messages of an all-reduce among ``p`` members."""
        return super().n_messages(CollectiveKind.ALL_REDUCE, p, circle=False)

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """Return a phase as steps."""
        if kind is CollectiveKind.ALL_REDUCE:
            return self.fused_steps(setting)
        return HalvingDoubling().steps(kind, setting)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        """Return a phase as messages."""
        if kind is CollectiveKind.ALL_REDUCE:
            return self.fused_rounds(p)
        return HalvingDoubling().rounds(kind, p, circle)

    def n_messages(self, kind: CollectiveKind, p: int, circle: bool) -> int:
        """Return the number of messages of one phase among ``p`` members."""
        if kind is CollectiveKind.ALL_REDUCE:
            return self.n_fused_messages(p)
        return HalvingDoubling().n_messages(kind, p, circle)


def halving_steps(p: int, hops: int) -> tuple[Step, ...]:
    """Return the steps of a reduce-scatter by halving among ``p`` members, ``hops`` apart."""
    shards = [min(2**k, p - 2**k) / p for k in range((p - 1).bit_length())]
    return tuple(Step(1, hops, shard, shard) for shard in reversed(shards))


def halving_rounds(p: int) -> tuple[Shifts, ...]:
    """Return a reduce-scatter's rounds: pairs exchange a half, a quarter, ... of the bytes.

    If p is not a power of two, in round k a member sends the min(2^k, p - 2^k) shards beyond 2^k to
    the member 2^k places after it.
    """
    pairs = p & (p - 1) == 0
    distances = reversed([2**k for k in range((p - 1).bit_length())])
    return tuple((Shift(d, min(d, p - d) / p, pairs=pairs),) for d in distances)


# --- Rabenseifner ---------------------------------------------------------------------------------
# Rabenseifner: halving, then doubling, among the largest power of two q <= p.
#
# Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH"
# (2005).


class Rabenseifner(AllReduceOnly):
    """All-reduce by halving and doubling among the largest power of two q <= p members.

    The other p - q members first send all their bytes to a partner, and receive the result at the
    end.
    """

    name = "rabenseifner"

    def fused_steps(self, setting: Setting) -> PhaseSteps:
        """Return the all-reduce as steps for the phase kernel."""
        p, use = setting.p, setting.use
        q = 1 << (p.bit_length() - 1)
        halving = halving_steps(q, use.hops)
        doubling = tuple(Step(1, step.hops, step.bytes_fraction) for step in reversed(halving))
        if p == q:
            return PhaseSteps((*halving, *doubling), use.share, 1.0, 2 * (p - 1) / p)
        before, after = Step(1, use.hops, 1.0, 1.0), Step(1, use.hops, 1.0)
        sent = (2 * (q - 1) + 2 * (p - q)) / p
        return PhaseSteps((before, *halving, *doubling, after), use.share, 1.0, sent)

    def fused_rounds(self, p: int) -> MemberRounds:
        """Return the all-reduce's messages, with one partner for each of the p - q other members.

        The even ones of the first 2 (p - q) members have the next member as their partner. As in
        MPICH, a member receives its partner's bytes before it exchanges anything, and large
        messages wait until they are requested. So early members do not share a link with late
        messages.
        """
        q = 1 << (p.bit_length() - 1)
        pairs = p - q
        core = [2 * i + 1 for i in range(pairs)] + list(range(2 * pairs, p))
        place = {member: i for i, member in enumerate(core)}
        members = []
        for member in range(p):
            if member in place:
                rounds = _core_rounds(core, place[member])
                members.append(_with_partner(rounds, member) if member < 2 * pairs else rounds)
            else:
                through = RoundMessage(member + 1, 1.0)
                members.append((Round((), 0.0, (through,)), Round((member + 1,), 0.0, ())))
        return MemberRounds(tuple((rounds,) for rounds in members), asked=True)

    def n_fused_messages(self, p: int) -> int:
        """Return the number of messages of an all-reduce among ``p`` members."""
        levels = p.bit_length() - 1
        return 2 * levels * 2**levels + 2 * (p - 2**levels)


def _core_rounds(core: list[int], place: int) -> Strand:
    """Return the halving and doubling rounds of member ``place`` of the q ``core`` members."""
    q = len(core)
    halving = halving_rounds(q)
    there = strand(halving, q, place, reduces=True)
    back = strand(halving[::-1], q, place, reduces=False)
    # The last halving's messages are received before the first doubling sends.
    rounds = (*there[:-1], there[-1]._replace(send=back[0].send), *back[1:])
    return tuple(
        Round(
            tuple(core[i] for i in receive),
            reduce,
            tuple(message._replace(peer=core[message.peer]) for message in send),
        )
        for receive, reduce, send in rounds
    )


def _with_partner(rounds: Strand, member: int) -> Strand:
    """Return a core member's ``rounds`` and the exchange with its partner, the member before."""
    first = Round((member - 1,), 1.0, rounds[0].send)
    last = rounds[-1]._replace(send=(RoundMessage(member - 1, 1.0),))
    return (first, *rounds[1:-1], last)
