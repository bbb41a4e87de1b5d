"""Collective algorithms message by message: what each member of a group sends, to whom, and when.

The counterpart of :mod:`engine.collective.algorithm`, which says how long a phase lasts where
nothing is in the way; this module says which messages it consists of.  A member works through one
or more *strands* side by side.  A strand is a list of rounds: wait for the messages of the round,
reduce them, then send.  Fractions are of the bytes that a member holds on entering the phase.
Sources as there; the two trees are built as in Sanders, Speck, Traeff (2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from engine.collective.algorithm import ALL_REDUCE_ONLY
from engine.workload.graph import CollectiveKind


class Message(NamedTuple):
    """``fraction`` to the member number ``peer``; ``way`` tells two equally short ways apart."""

    peer: int
    fraction: float
    way: int = 0


class Round(NamedTuple):
    """Wait for one message from each of ``receive``, reduce, then ``send``."""

    receive: tuple[int, ...]
    reduce: float
    send: tuple[Message, ...]


Strand = tuple[Round, ...]


class _Shift(NamedTuple):
    """Every member sends ``fraction`` to the member ``offset`` further on; in ``pairs``, members
    whose numbers differ in the bit ``offset`` exchange it."""

    offset: int
    fraction: float
    way: int = 0
    pairs: bool = False

    def target(self, member: int, p: int) -> int:
        return member ^ self.offset if self.pairs else (member + self.offset) % p

    def source(self, member: int, p: int) -> int:
        return member ^ self.offset if self.pairs else (member - self.offset) % p

    def back(self, fraction: float) -> _Shift:
        """The same messages the other way."""
        return self._replace(offset=self.offset if self.pairs else -self.offset, fraction=fraction)


_Step = tuple[_Shift, ...]


@lru_cache(maxsize=65536)
def strands(
    kind: CollectiveKind, algorithm: str, p: int, member: int, circle: bool
) -> tuple[Strand, ...]:
    """The strands of ``member`` (0..p-1) in one phase of ``kind``.

    ``circle`` tells whether the group closes a circle: then each step goes half one way round and
    half the other; on a line there is one way, and the last member's way back to the first.  The
    in-switch algorithms are not made of messages between members (see
    :mod:`engine.kernels.message.exchange`).
    """
    if kind is CollectiveKind.ALL_TO_ALL:
        steps = _relay(p) if circle else (tuple(_Shift(j, 1 / p) for j in range(1, p)),)
        return (_rounds(steps, p, member, reduces=False),)
    if kind is CollectiveKind.ALL_REDUCE:
        return _rabenseifner(p, member) if algorithm == "rabenseifner" else _two_trees(p, member)
    if algorithm in ALL_REDUCE_ONLY:
        algorithm = "halving_doubling"
    steps = _scatter(algorithm, p, both_ways=circle)
    if kind is CollectiveKind.REDUCE_SCATTER:
        return (_rounds(steps, p, member, reduces=True),)
    # An all-gather is a reduce-scatter backwards: all messages return, p times the entering bytes.
    back = tuple(
        tuple(shift.back(shift.fraction * p) for shift in step) for step in reversed(steps)
    )
    return (_rounds(back, p, member, reduces=False),)


def n_messages(kind: CollectiveKind, algorithm: str, p: int, circle: bool) -> int:
    """How many messages the strands of all members send together."""
    both_ways = 2 if circle else 1
    if kind is CollectiveKind.ALL_TO_ALL:
        return p * 2 * (p // 2) if both_ways == 2 else p * (p - 1)
    if kind is CollectiveKind.ALL_REDUCE and algorithm == "rabenseifner":
        levels = p.bit_length() - 1
        return 2 * levels * 2**levels + 2 * (p - 2**levels)
    if kind is CollectiveKind.ALL_REDUCE:
        return 4 * (p - 1)  # up and down the edges of two trees
    if algorithm == "ring":
        return p * (p - 1) * both_ways
    return p * (p - 1) if algorithm == "direct" else p * (p - 1).bit_length()


def _scatter(algorithm: str, p: int, both_ways: bool) -> tuple[_Step, ...]:
    if algorithm == "ring":
        # The two directions of a circle carry half of each piece.
        halves = (_Shift(1, 0.5 / p, 0), _Shift(-1, 0.5 / p, 1))
        return (halves if both_ways else (_Shift(1, 1 / p),),) * (p - 1)
    if algorithm == "direct":
        # Everyone begins with another peer, so that no port is sent to by two at a time.
        return (tuple(_Shift(j, 1 / p) for j in range(1, p)),)
    return _halving(p)


def _halving(p: int) -> tuple[_Step, ...]:
    """Recursive halving: pairs exchange a half, a quarter, ... of the bytes.

    For a p that is no power of two it is the dual of Bruck's all-gather: in step k a member hands
    the min(2^k, p - 2^k) shards that lie beyond 2^k to the member 2^k further on.
    """
    pairs = p & (p - 1) == 0
    steps = reversed(range((p - 1).bit_length()))
    return tuple((_Shift(2**k, min(2**k, p - 2**k) / p, pairs=pairs),) for k in steps)


def _relay(p: int) -> tuple[_Step, ...]:
    """All-to-all round a ring: in step j everyone passes on what goes further than j - 1 hops."""
    weights = [1.0] * (p // 2)
    if p % 2 == 0:
        weights[-1] = 0.5  # the opposite member's piece goes half either way
    left = [sum(weights[j:]) / p for j in range(p // 2)]
    return tuple((_Shift(1, piece, 0), _Shift(-1, piece, 1)) for piece in left)


def _rounds(steps: Sequence[_Step], p: int, member: int, *, reduces: bool) -> Strand:
    """The strand of steps in which all members do the same: each waits for the one before."""
    rounds: list[Round] = []
    receive: tuple[int, ...] = ()
    reduce = 0.0
    for step in steps:
        send = tuple(Message(s.target(member, p), s.fraction, s.way) for s in step)
        rounds.append(Round(receive, reduce, send))
        receive = tuple(s.source(member, p) for s in step)
        reduce = sum(s.fraction for s in step) if reduces else 0.0
    return (*rounds, Round(receive, reduce, ()))


def _rabenseifner(p: int, member: int) -> tuple[Strand, ...]:
    """Halving and doubling among the largest power of two q <= p.

    Of the first 2 (p - q) members every even one works through the next one, as in MPICH.
    """
    q = 1 << (p.bit_length() - 1)
    pairs = p - q
    core = [2 * i + 1 for i in range(pairs)] + list(range(2 * pairs, p))
    if member not in core:
        through = Message(member + 1, 1.0)
        return ((Round((), 0.0, (through,)), Round((member + 1,), 0.0, ())),)
    halving = _halving(q)
    doubling = halving[::-1]
    place = core.index(member)
    there = _rounds(halving, q, place, reduces=True)
    back = _rounds(doubling, q, place, reduces=False)
    # The last halving's messages are received before the first doubling sends.
    rounds = [*there[:-1], there[-1]._replace(send=back[0].send), *back[1:]]
    rounds = [
        Round(
            tuple(core[i] for i in receive),
            reduce,
            tuple(message._replace(peer=core[message.peer]) for message in send),
        )
        for receive, reduce, send in rounds
    ]
    if member < 2 * pairs:
        rounds[0] = Round((member - 1,), 1.0, rounds[0].send)
        rounds[-1] = rounds[-1]._replace(send=(Message(member - 1, 1.0),))
    return (tuple(rounds),)


def _two_trees(p: int, member: int) -> tuple[Strand, ...]:
    """Half of the bytes up and down each of two trees.

    The second tree is the first one mirrored (even p) or shifted by one (odd p), so that the inner
    nodes of one are leaves of the other.
    """
    there = range(p - 1, -1, -1) if p % 2 == 0 else (*range(1, p), 0)
    parent, children = _tree(p, there.index(member))
    second = _tree_strand(
        None if parent is None else there[parent], tuple(there[child] for child in children)
    )
    return (_tree_strand(*_tree(p, member)), second)


def _tree(p: int, place: int) -> tuple[int | None, tuple[int, ...]]:
    """Parent and children of ``place`` in an in-order binary tree of 1..p-1 below the root 0.

    A place's height is its number of trailing zeros, so all odd places are leaves.
    """
    if place == 0:
        top = 1 << ((p - 1).bit_length() - 1)
        return None, (top,)
    bit = place & -place
    above = (place ^ bit) | (bit << 1)
    parent = above if above < p else place ^ bit
    children = []
    if bit > 1:
        children.append(place - bit // 2)
        step = bit // 2
        while step and place + step >= p:
            step //= 2  # the right subtree is cut off: its highest place that exists
        if step:
            children.append(place + step)
    return parent, tuple(children)


def _tree_strand(parent: int | None, children: tuple[int, ...]) -> Strand:
    down = tuple(Message(child, 0.5) for child in children)
    reduce = 0.5 * len(children)
    if parent is None:
        return (Round(children, reduce, down),)
    return (Round(children, reduce, (Message(parent, 0.5),)), Round((parent,), 0.0, down))
