"""Swing: an all-reduce for rings, whose partners are near (De Sensi et al., NSDI 2024).

    dimsweep simulate plugins=examples/plugins/swing.py workload=all_reduce \\
        topology.shape='Ring(16)' topology.bandwidth='100 GB/s' topology.latency='1 us' \\
        topology.tiers=[] collective.algorithms=[swing]
"""

from itertools import pairwise

from dimsweep.engine import CollectiveKind, DimsweepError
from dimsweep.engine.collective.algorithms import Algorithm, register
from dimsweep.engine.collective.rounds import MemberRounds, Round, RoundMessage


class Swing(Algorithm):
    """log2 p steps of halves, as recursive halving, with partners 1, 1, 3, 5, 11, ... away in turns
    to the right and to the left; and a mirrored half of the bytes the other way round.

    The bandwidth-optimal variant: a reduce-scatter, and an all-gather that is it backwards.
    """

    name = "swing"
    blocks = ("Ring",)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        if p & (p - 1):
            raise DimsweepError(f"{p} members are no power of two", where="collective.algorithms")
        halves = [_messages(step, p) for step in range(p.bit_length() - 1)]
        if kind is CollectiveKind.REDUCE_SCATTER:
            return _in_step(halves, p, reduces=True)
        if kind is CollectiveKind.ALL_GATHER:
            back = [[_grown(sent, p) for sent in step] for step in reversed(halves)]
            return _in_step(back, p, reduces=False)
        raise self.cannot(kind)


Sent = tuple[RoundMessage, ...]


def partner(member: int, step: int, p: int, sign: int) -> int:
    """With whom ``member`` exchanges in a step: the distance is the sum of (-2)^i up to it."""
    distance = (1 - (-2) ** (step + 1)) // 3
    return (member + sign * (distance if member % 2 == 0 else -distance)) % p


def _messages(step: int, p: int) -> list[Sent]:
    """What each member sends in a step: half of it to each of its two partners."""
    share = 0.5 ** (step + 1)
    found = []
    for member in range(p):
        right, left = (partner(member, step, p, sign) for sign in (1, -1))
        if right == left:
            found.append((RoundMessage(right, share),))
        else:
            found.append((RoundMessage(right, share / 2), RoundMessage(left, share / 2)))
    return found


def _grown(sent: Sent, p: int) -> Sent:
    return tuple(message._replace(fraction=message.fraction * p) for message in sent)


def _in_step(steps: list[list[Sent]], p: int, *, reduces: bool) -> MemberRounds:
    """Partners are each other's: a member receives from those to whom it sends."""
    nothing: list[Sent] = [()] * p
    strands = []
    for member in range(p):
        around = pairwise([nothing, *steps, nothing])
        own = [(before[member], after[member]) for before, after in around]
        strands.append(tuple(_round(before, after, reduces=reduces) for before, after in own))
    return MemberRounds(tuple((strand,) for strand in strands))


def _round(before: Sent, after: Sent, *, reduces: bool) -> Round:
    reduced = sum(message.fraction for message in before) if reduces else 0.0
    return Round(tuple(message.peer for message in before), reduced, after)


register(Swing())
