"""Messages that set each other off, link by link: through switches, and at a wafer's edge.

A *launch* takes a message over one link.  When it has begun to come at the far end (or has come
altogether, if it is stored there) it reaches a *gate*; when all that a gate expects has reached it,
launches go on from there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.extensions.wafer import IoTree, Tree, WaferPlan
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.messages.routes import shared_switch
from dimsweep.engine.network.graph import Network
from dimsweep.engine.topology.block import Node


class Launch(NamedTuple):
    """A message over a link (by its number), which reaches a ``gate``, or is at its end (NONE).

    ``who`` is the NPU that sends it, or at its end gets it; of what comes from or goes to I/O
    controllers the place among those who get it; or NONE.  Of a reduction it is what a source sends
    ``up``, or what ``copies`` targets get, or of both what is less; one of ``parts`` of it that go
    side by side.
    """

    link: int
    gate: int
    who: int = NONE
    stored: bool = False
    up: bool = True
    copies: int = 0
    parts: int = 1

    def n_bytes(self, up: float, down: float) -> float:
        """Its bytes, if a source sends ``up`` and a target gets ``down``."""
        if not self.copies:
            return up / self.parts
        # Shards of their own for targets, or one copy of what is for all of them.
        return min(up, down * self.copies) / self.parts if self.up else down


class Gate(NamedTuple):
    """``expected`` messages reach it before ``launches``, from one number to before another."""

    expected: int
    launches: tuple[int, int]


class Cascade(NamedTuple):
    """Begins with the launches ``first``, as in a :class:`Gate`; ``ways_up`` are the links from
    each source of a reduction to the top, those between switches twice, since it comes back."""

    launches: Sequence[Launch]
    gates: Sequence[Gate]
    first: tuple[int, int]
    ways_up: Sequence[tuple[int, ...]] = ()


def cascade_of_piece(tree: IoTree) -> Cascade:
    """The way of a piece from or to an I/O controller; launches that begin together stand side by
    side."""
    together = list(dict.fromkeys([tree.first, *(hop.next for hop in tree.hops if hop.next)]))
    spans = list(pairwise(accumulate(map(len, together), initial=0)))
    number = {places: i for i, places in enumerate(together[1:])}
    hops = [tree.hops[place] for place in chain(*together)]
    return Cascade(
        [Launch(hop.link, number.get(hop.next, NONE), hop.gets, hop.stored) for hop in hops],
        [Gate(hops[start].awaits, (start, end)) for start, end in spans[1:]],
        spans[0],
    )


class Passage(NamedTuple):
    """How a line's reductions pass switches: its tree, and the round of which turns; sets of lines
    that pass one after another take turns, NONE waits for nobody."""

    tree: Tree
    turn: int = NONE
    round: int = 0
    line: int = NONE  # among those that take turns


class Passages:
    """The passages of all lines, by their members' NPUs; lines without a tree of the ``plan`` pass
    the switch that they share."""

    def __init__(self, network: Network, model: NetworkModel, plan: WaferPlan | None) -> None:
        self._network, self._model = network, model
        self._of: dict[frozenset[int], Passage] = {}
        self.cascade = lru_cache(maxsize=4096)(self._cascade)
        self.n_turns = 0
        for rounds in plan.rounds if plan else ():
            turn = self.n_turns if len(rounds) > 1 else NONE
            for number, trees in enumerate(rounds):
                for line, tree in trees.items():
                    self._of[line] = Passage(tree, turn, number, len(self._of))
            self.n_turns += len(rounds) > 1

    def of(self, npus: Iterable[int]) -> Passage:
        """Raises :class:`DimsweepError` if there is no switch that could reduce."""
        line = frozenset(npus)
        if line not in self._of:
            switch = shared_switch(self._network, self._model, line)
            self._of[line] = Passage(Tree({switch: tuple(line)}))
        return self._of[line]

    def _cascade(self, sources: tuple[int, ...], targets: tuple[int, ...]) -> Cascade:
        """Some NPUs' messages up their tree, and what comes down to others: each switch passes on
        what all that is below it has begun to send."""
        tree = self.of((*sources, *targets)).tree
        return _ThroughSwitches(self._network.number, tree, sources, targets).cascade()


class _ThroughSwitches:
    """Writes a cascade from its end to its beginning."""

    def __init__(
        self,
        link: Mapping[tuple[Node, Node], int],
        tree: Tree,
        sources: Sequence[int],
        targets: Sequence[int],
    ) -> None:
        self._link, self._tree = link, tree
        self._sources, self._targets = _below(tree, sources), _below(tree, targets)
        self._launches: list[Launch] = []
        self._gates: list[Gate] = []

    def cascade(self) -> Cascade:
        tree = self._tree
        down = {leaf: self._down(leaf, npus) for leaf, npus in self._targets.items()}
        top = self._over_top(down) if tree.lanes else []
        starts, ways = list[Launch](), list[tuple[int, ...]]()
        for leaf, npus in self._sources.items():
            gate = self._gate(len(npus), self._up(leaf, top) if tree.lanes else down[leaf])
            lanes = tree.lanes.get(leaf, ())
            trunks = [(self._link[leaf, lane], self._link[lane, tree.top]) for lane in lanes]
            for npu in npus:
                link = self._link[npu, leaf]
                starts.append(Launch(link, gate, npu))
                ways += [(link, *trunk, *trunk) for trunk in trunks] or [(link,)]
        first = self._begin(starts)
        return Cascade(self._launches, self._gates, first, ways)

    def _begin(self, launches: Iterable[Launch]) -> tuple[int, int]:
        start = len(self._launches)
        self._launches += launches
        return start, len(self._launches)

    def _gate(self, expected: int, launches: tuple[int, int]) -> int:
        self._gates.append(Gate(expected, launches))
        return len(self._gates) - 1

    def _down(self, leaf: str, npus: Sequence[int]) -> tuple[int, int]:
        """Launches from a leaf to its targets."""
        down = Launch(NONE, NONE, up=False, copies=1)
        return self._begin(down._replace(link=self._link[leaf, npu], who=npu) for npu in npus)

    def _over_top(self, down: Mapping[str, tuple[int, int]]) -> list[int]:
        """From the gates at the top, one a part, to the leaves; returns the gates."""
        tree, gates = self._tree, []
        below = {leaf: self._gate(tree.n_parts, down[leaf]) for leaf in self._targets}
        for number in range(tree.n_parts):
            starts = []
            for leaf, npus in self._targets.items():
                lane = tree.lanes[leaf][number]
                last = Launch(self._link[lane, leaf], below[leaf], copies=len(npus))
                last = last._replace(parts=tree.n_parts)
                gate = self._gate(1, self._begin([last]))
                starts.append(last._replace(link=self._link[tree.top, lane], gate=gate))
            gates.append(self._gate(len(self._sources), self._begin(starts)))
        return gates

    def _up(self, leaf: str, top: Sequence[int]) -> tuple[int, int]:
        """From a leaf to the gates at the top, each part by a lane of its own."""
        tree, starts = self._tree, []
        for lane, gate in zip(tree.lanes[leaf], top, strict=True):
            last = Launch(self._link[lane, tree.top], gate, parts=tree.n_parts)
            gate = self._gate(1, self._begin([last]))
            starts.append(last._replace(link=self._link[leaf, lane], gate=gate))
        return self._begin(starts)


def _below(tree: Tree, npus: Sequence[int]) -> dict[str, list[int]]:
    """The NPUs below each leaf that has any, in their order."""
    found: dict[str, list[int]] = defaultdict(list)
    for leaf, own in tree.leaves.items():
        for npu in npus:
            if npu in own:
                found[leaf].append(npu)
    return dict(found)
