"""Phases of collectives as messages: senders, receivers and order.

:mod:`engine.collective.steps` gives the duration of a phase without other traffic; this module
gives its messages.  A member works through one or more *strands* concurrently.  A strand is a list
of rounds: wait for the messages of the round, reduce them, then send.  Fractions are of the bytes
that a member holds on entering the phase.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple


class RoundMessage(NamedTuple):
    """A message to the member ``peer``; ``fraction`` is its size over the bytes held on entry."""

    peer: int
    fraction: float
    way: int = 0


class Round(NamedTuple):
    """One round of a member: wait for a message from each of ``receive``, reduce, then ``send``."""

    receive: tuple[int, ...]
    reduce: float
    send: tuple[RoundMessage, ...]


Strand = tuple[Round, ...]


class MemberRounds(NamedTuple):
    """A phase as messages between members; ``strands[i]`` are the strands of member ``i``.

    Messages that are ``asked`` for start only when the receiver waits for them, in the same round:
    at the later of the two times (MPI's rendezvous, whose handshake adds no latency). A round then
    sends at most one message.
    """

    strands: tuple[tuple[Strand, ...], ...]
    asked: bool = False


class SwitchRound(NamedTuple):
    """One round of a phase with a reducing switch: messages to the switch, and back from it.

    Every source sends ``up``; once all messages are arriving, the switch sends ``down``, reduced or
    copied, to each target. Both are fractions of the bytes that a member holds on entry.
    """

    sources: tuple[int, ...]
    up: float
    targets: tuple[int, ...]
    down: float


class SwitchRounds(NamedTuple):
    """A phase of messages to and from a switch; all its rounds start at once."""

    rounds: tuple[SwitchRound, ...]


class Shift(NamedTuple):
    """Equal messages of all members: each sends ``fraction`` to the member ``offset`` places on.

    In ``pairs``, members whose numbers differ in the bit ``offset`` exchange it.
    """

    offset: int
    fraction: float
    way: int = 0
    pairs: bool = False

    def target(self, member: int, p: int) -> int:
        """Return the member to which ``member`` (of ``p``) sends."""
        return member ^ self.offset if self.pairs else (member + self.offset) % p

    def source(self, member: int, p: int) -> int:
        """Return the member from which ``member`` (of ``p``) receives."""
        return member ^ self.offset if self.pairs else (member - self.offset) % p

    def back(self, fraction: float) -> "Shift":
        """Return messages of size ``fraction`` in the opposite direction."""
        return self._replace(offset=self.offset if self.pairs else -self.offset, fraction=fraction)


Shifts = tuple[Shift, ...]  # the messages of every member in one round


def all_back(rounds: Sequence[Shifts], p: int) -> tuple[Shifts, ...]:
    """Return an all-gather's rounds: a reduce-scatter's in reverse, with ``p`` times the bytes."""
    return tuple(tuple(s.back(s.fraction * p) for s in shifts) for shifts in reversed(rounds))


def in_step(rounds: Sequence[Shifts], p: int, *, reduces: bool) -> MemberRounds:
    """Return a phase in which all ``p`` members send equal messages, as in :func:`strand`."""
    known: dict[tuple[Shifts, Shifts], list[Round]] = {}
    for around in pairwise(((), *rounds, ())):
        if around not in known:  # each is made once
            known[around] = list(_round_of_each(*around, range(p), p, reduces=reduces))
    of_round = [known[around] for around in pairwise(((), *rounds, ()))]
    return MemberRounds(tuple((own,) for own in zip(*of_round, strict=True)))


def strand(rounds: Sequence[Shifts], p: int, member: int, *, reduces: bool) -> Strand:
    """Return the rounds of ``member`` in a phase of equal messages of ``p`` members.

    Each round waits for the messages of the round before, and reduces them if ``reduces``.
    """
    known: dict[tuple[Shifts, Shifts], Round] = {}
    for around in pairwise(((), *rounds, ())):
        if around not in known:
            (known[around],) = _round_of_each(*around, (member,), p, reduces=reduces)
    return tuple(known[around] for around in pairwise(((), *rounds, ())))


def _round_of_each(
    before: Shifts, shifts: Shifts, members: Sequence[int], p: int, *, reduces: bool
) -> Iterator[Round]:
    """Yield, for each of ``members``, the round that receives ``before`` and sends ``shifts``."""
    reduce = sum((s.fraction for s in before), 0.0) if reduces else 0.0
    sends = [
        [RoundMessage(s.target(member, p), s.fraction, s.way) for member in members] for s in shifts
    ]
    receives = [[s.source(member, p) for member in members] for s in before]
    for i in range(len(members)):
        yield Round(tuple([of[i] for of in receives]), reduce, tuple([of[i] for of in sends]))
