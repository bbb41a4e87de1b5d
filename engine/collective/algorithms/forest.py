"""Forest: bytes go along trees that use all that the links of a network can carry.

Zhao et al., "ForestColl: Throughput-Optimal Collective Communications on Heterogeneous Network
Fabrics" (arXiv 2402.06787); :mod:`engine.network.forest` finds the trees.

As in other trees, levels are a pipeline: bytes stream through all of them at once, in pieces so
small that the first one's way is nothing.  So the bytes of all branches set out together, in pieces
of about the same size, which links that are shared fairly pass in as long as the narrowest cut
needs.
Behind them, along each tree, go messages without any: they wait for those of the level before, and
are as late as the last byte.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import zip_longest
from math import gcd
from typing import NamedTuple

from dimsweep.engine.collective.algorithms.algorithm import Algorithm
from dimsweep.engine.collective.rounds import MemberRounds, Round, RoundMessage, Strand
from dimsweep.engine.collective.steps import PhaseSteps, Setting
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.network.forest import Forest as Trees
from dimsweep.engine.network.forest import Tree, forest_of
from dimsweep.engine.network.graph import Network

_PIECES = 16  # that the bytes between two members by one way are cut into, in the mean, at most
_FINER = 4  # parts of a piece, where all of them are no more than
_FEW = 20_000
_KINDS = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)


@dataclass(frozen=True)
class Forest(Algorithm):
    """Trees from each member to all others, on any links."""

    name = "forest"

    @property
    def by_network(self) -> bool:
        return True

    def among(self, network: Network, ranks: Sequence[int], dim: int) -> Algorithm:
        return _Among(network, tuple(ranks), dim if network.sizes else None)

    def steps(self, kind: CollectiveKind, setting: Setting) -> PhaseSteps:
        """What it leaves its members with; how long it takes only links say."""
        p = setting.p
        if kind is CollectiveKind.REDUCE_SCATTER:
            return PhaseSteps((), setting.use.share, 1 / p, (p - 1) / p)
        if kind is CollectiveKind.ALL_GATHER:
            return PhaseSteps((), setting.use.share, float(p), p - 1.0)
        raise self.cannot(kind)

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        if kind not in _KINDS:
            raise self.cannot(kind)
        raise DimsweepError(
            f"{self.name!r} goes by links, which nobody has named",
            where="collective.algorithms",
        )


class _Hop(NamedTuple):
    """What one member sends to another one directly, by links ``way``."""

    source: int
    target: int
    way: tuple[int, ...]


@dataclass(frozen=True)
class _Among(Forest):
    """The algorithm among ``ranks`` of a ``network``, or of its dimension ``dim``."""

    network: Network
    ranks: tuple[int, ...]
    dim: int | None

    def rounds(self, kind: CollectiveKind, p: int, circle: bool) -> MemberRounds:
        if kind not in _KINDS:
            raise self.cannot(kind)
        return _rounds(self, kind)

    @cached_property
    def trees(self) -> Trees:
        """From each member to all others."""
        return forest_of(self.network, self.ranks, self.dim)

    @cached_property
    def gathering(self) -> Trees:
        """From all others to each member."""
        return forest_of(self.network, self.ranks, self.dim, backwards=True)

    def made(self, kind: CollectiveKind) -> MemberRounds:
        """The rounds of a kind."""
        reduces = kind is CollectiveKind.REDUCE_SCATTER
        forest = self.gathering if reduces else self.trees
        # What a member holds on entering is its own part, or those for all.
        held = forest.k * (len(self.ranks) if reduces else 1)
        hops = Counter[_Hop]()
        for tree in forest.trees:
            for branch in tree.branches:
                hops[self._hop(*branch[:3], back=reduces)] += branch.n
        streams = self._streams(hops, held, reduces=reduces)
        ends = [self._ends(tree, back=reduces) for tree in forest.trees]
        return MemberRounds(
            tuple(
                (stream, *(end.get(member, ()) for end in ends))
                for member, stream in enumerate(streams)
            )
        )

    def _hop(self, parent: int, child: int, way: tuple[int, ...], *, back: bool) -> _Hop:
        ends = self.ranks.index(parent), self.ranks.index(child)
        return _Hop(*(ends[::-1] if back else ends), way)

    def _streams(self, hops: Counter[_Hop], held: int, *, reduces: bool) -> list[Strand]:
        """The bytes that each member sends and receives, over what it holds on entering."""
        p, size = len(self.ranks), _piece(hops.values())
        # Whole messages wait less for one another if they are short.
        finer = _FINER if _FINER * sum(hops.values()) <= _FEW * size else 1
        sent: defaultdict[int, dict[tuple[int, int], list[RoundMessage]]] = defaultdict(dict)
        received: defaultdict[int, dict[int, list[float]]] = defaultdict(dict)
        for number, (hop, units) in enumerate(sorted(hops.items())):
            n = -(-finer * units // size)
            share, way = units / n / held, self.network.way(hop.way)
            turn = (hop.target - hop.source) % p, number
            sent[hop.source][turn] = [RoundMessage(hop.target, share, way)] * n
            received[hop.target].setdefault(hop.source, []).extend([share] * n)
        return [_stream(sent[i], received[i], reduces=reduces) for i in range(p)]

    def _ends(self, tree: Tree, *, back: bool) -> dict[int, Strand]:
        """What follows the bytes of a tree: of each member, whom it waits for and whom it tells."""
        waits: defaultdict[int, list[int]] = defaultdict(list)
        tells: defaultdict[int, list[RoundMessage]] = defaultdict(list)
        for branch in tree.branches:
            hop = self._hop(*branch[:3], back=back)
            waits[hop.target].append(hop.source)
            tells[hop.source].append(RoundMessage(hop.target, 0.0, self.network.way(hop.way)))
        return {
            member: (Round(tuple(waits[member]), 0.0, tuple(tells[member])),)
            for member in {*waits, *tells}
        }


@lru_cache(maxsize=16)
def _rounds(among: _Among, kind: CollectiveKind) -> MemberRounds:
    """Asked for by whoever counts messages, and by whoever sends them."""
    return among.made(kind)


def _piece(units: Iterable[int]) -> int:
    """The size of pieces: all alike if that makes few of them, else about as small as the least."""
    amounts = list(units)
    alike = gcd(*amounts)
    if sum(amounts) <= _PIECES * len(amounts) * alike:
        return alike
    return max(min(amounts), -(-sum(amounts) // (_PIECES * len(amounts))))


def _stream(
    sent: dict[tuple[int, int], list[RoundMessage]],
    received: dict[int, list[float]],
    *,
    reduces: bool,
) -> Strand:
    """All pieces that a member sends, to one after another in turns; then one after another of each
    sender's, which it reduces."""
    turns = zip_longest(*(sent[turn] for turn in sorted(sent)))
    rounds = [Round((), 0.0, tuple(each for turn in turns for each in turn if each is not None))]
    for number in range(max(map(len, received.values()), default=0)):
        come = {source: parts[number] for source, parts in received.items() if number < len(parts)}
        rounds.append(Round(tuple(come), sum(come.values()) if reduces else 0.0, ()))
    return tuple(rounds)
