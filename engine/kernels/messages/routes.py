"""The ways of messages: routes, cascades through switches, and an interconnect's I/O controllers.

**Cascades** are messages that set each other off, link by link.  A *launch* takes a message over
one link.  When it begins to arrive at the far end (or has arrived completely, if it is stored
there) it reaches a *gate*; when all messages that a gate expects have reached it, it starts the
next launches.

**Input and output.**  A *transfer* is an access of one rank, or one shared by the members of a
group.  Each controller sends, or takes, an equal part of it in pieces, which *trains* carry: a
train has a tree of links for itself, and sends its next piece when all receivers have the one
before.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.core.tables import NONE
from dimsweep.engine.lower.program import NOT_SHARED, Program
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.interconnect import (
    NOBODY,
    Interconnect,
    InterconnectPlan,
    IoTree,
    ReductionTree,
    store_tree,
)
from dimsweep.engine.network.routing import Router, Routing
from dimsweep.engine.topology.blocks import Node
from dimsweep.engine.topology.coordinates import group_members


def router_of(network: Network, model: NetworkModel) -> Router:
    """The ways that messages take, by dimension unless the model or its interconnect says so."""
    default = Routing.DIMENSION_ORDER if network.sizes else Routing.SHORTEST
    if model.interconnect is not None:
        default = model.interconnect.routing
    return Router(network, model.routing or default, model.seed)


def rooms_of(network: Network, model: NetworkModel) -> list[int]:
    """Whole bytes of the buffer at the far end of each link; NONE without limit."""
    sizes = (model.buffer if link.buffer is None else link.buffer for link in network.links)
    return [NONE if size is None else max(1, int(size)) for size in sizes]


def least_room(rooms: Iterable[int]) -> int:
    """The least of some rooms; NONE if there is no limit."""
    limits = [room for room in rooms if room != NONE]
    return min(limits, default=NONE)


def n_parts(n_bytes: float, room: int) -> int:
    """In how many parts a message travels, so that two fit the least ``room`` on its way."""
    return 1 if room == NONE else max(1, math.ceil(2 * n_bytes / room))


def shared_switch(network: Network, model: NetworkModel, npus: frozenset[int]) -> str:
    """The switch that reduces for NPUs without a tree.  Raises :class:`DimsweepError` if there is
    none."""
    if (own := model.interconnect) is not None and own.rings is not None:
        raise DimsweepError(
            f"the switches of this {own.noun} do not reduce",
            where="collective.algorithms",
            hint=f"auto, or a {own.noun} whose switches do: network.{own.noun}.reduces=true",
        )
    graph = network.graph
    shared = set.intersection(*(set(graph[npu]) & set(graph.pred[npu]) for npu in npus))
    switches = sorted(node for node in shared if isinstance(node, str))
    if not switches:
        few = ", ".join(map(str, sorted(npus)[:6])) + (", ..." if len(npus) > 6 else "")
        raise DimsweepError(
            f"NPUs {few} share no switch that could reduce for them",
            where="collective.algorithms",
            hint="in_switch needs a dimension that is one switch",
        )
    return switches[0]


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

    tree: ReductionTree
    turn: int = NONE
    round: int = 0
    line: int = NONE  # among those that take turns


class Passages:
    """The passages of all lines, by their members' NPUs; lines without a tree of the ``plan`` pass
    the switch that they share."""

    def __init__(
        self, network: Network, model: NetworkModel, plan: InterconnectPlan | None
    ) -> None:
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
            self._of[line] = Passage(ReductionTree({switch: tuple(line)}))
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
        tree: ReductionTree,
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


def _below(tree: ReductionTree, npus: Sequence[int]) -> dict[str, list[int]]:
    """The NPUs below each leaf that has any, in their order."""
    found: dict[str, list[int]] = defaultdict(list)
    for leaf, own in tree.leaves.items():
        for npu in npus:
            if npu in own:
                found[leaf].append(npu)
    return dict(found)


_UNDER_WAY = 4  # pieces of a controller's, at least, so that it need not wait for their arrival


class Train(NamedTuple):
    """Pieces that go one after another over one tree.  It ends at the NPUs that want them, and
    perhaps at others, whose places come after theirs."""

    cascade: Cascade
    pieces: int

    @property
    def n_ends(self) -> int:
        """How many get each piece."""
        return sum(launch.who != NONE for launch in self.cascade.launches)


class Trains(NamedTuple):
    """All trains between the controllers and some NPUs; a piece is ``share`` of the bytes of one
    NPU, and ``late`` how many ps of latency each NPU's last piece has before it."""

    trains: tuple[Train, ...]
    share: float
    late: tuple[int, ...]

    @property
    def n_pieces(self) -> int:
        return sum(train.pieces for train in self.trains)

    @property
    def n_messages(self) -> int:
        """How many messages all pieces are together: one over each link."""
        return sum(train.pieces * len(train.cascade.launches) for train in self.trains)


class Transfer(NamedTuple):
    """What some ``ranks`` load, or ``store``, together: ``nodes`` of the program, one each."""

    n_bytes: float
    store: bool
    ranks: tuple[int, ...]
    nodes: tuple[int, ...]
    trains: Trains


def io_plan(program: Program, network: Network, plan: InterconnectPlan | None) -> list[Transfer]:
    """The transfers of a program in which every rank is a class; none where its memory is not
    behind an interconnect's I/O controllers."""
    interconnect = program.communication.network.interconnect
    if plan is None or interconnect is None:
        return []
    trains = cache(lambda ranks, store: _trains(interconnect, network, plan, ranks, store=store))
    return [
        Transfer(n_bytes, store, ranks, tuple(nodes), trains(ranks, store))
        for (ranks, _, n_bytes, store), nodes in _accesses(program).items()
    ]


_Shared = tuple[tuple[int, ...], int, float, bool]


def _accesses(program: Program) -> dict[_Shared, list[int]]:
    """The nodes that access memory together: by their ranks, which of these ranks' accesses it is,
    its bytes, and whether it stores them."""
    communication = program.communication
    groups, sizes = list(communication.groups.values()), communication.topology.sizes
    members = cache(lambda group: group_members(groups[group], sizes))
    rank_of = program.structure.nodes["cls"]
    seen: Counter[tuple[int, tuple[int, ...]]] = Counter()
    found: dict[_Shared, list[int]] = {}
    for node, group, n_bytes, store in communication.accesses.tolist():
        rank = int(rank_of[node])
        ranks = (rank,) if group == NOT_SHARED else tuple(members(group)[rank].tolist())
        found.setdefault((ranks, seen[rank, ranks], n_bytes, store), []).append(node)
        seen[rank, ranks] += 1
    return found


def _trains(
    interconnect: Interconnect,
    network: Network,
    plan: InterconnectPlan,
    ranks: tuple[int, ...],
    *,
    store: bool,
) -> Trains:
    """Several trains take a way, if there are fewer ways than pieces are to be under way."""
    found: list[Train] = []
    npus = [plan.places[rank] for rank in ranks]
    if len(npus) > 1 and not (store or interconnect.multicasts):
        npus += sorted({*range(interconnect.n_npus)} - {*npus})
    late = [0] * len(npus)
    controllers = interconnect.io_trees(npus)
    for ways in controllers:
        for tree in ways:
            for member, latency in _latencies(network, tree).items():
                late[member] = max(late[member], latency)
        trees = [store_tree(network, tree) for tree in ways] if store else ways
        cascades = [cascade_of_piece(tree) for tree in trees]
        n = max(_UNDER_WAY, len(trees))
        of = (
            Train(cascades[i % len(trees)], len(range(i, interconnect.pieces, n))) for i in range(n)
        )
        found += [train for train in of if train.pieces]
    if store:  # all have stored when the controllers have the last byte of all
        late = [max(late)] * len(late)
    share = 1 / (len(controllers) * interconnect.pieces)
    return Trains(tuple(found), share, tuple(late[: len(ranks)]))


def _latencies(network: Network, tree: IoTree) -> dict[int, int]:
    """What passes between a controller and each NPU, either way."""
    found: dict[int, int] = {}
    waiting = [(place, 0) for place in tree.first]
    while waiting:
        place, before = waiting.pop()
        hop = tree.hops[place]
        latency = before + network.links[hop.link].latency
        if hop.gets != NOBODY:
            found[hop.gets] = latency
        waiting += [(on, latency) for on in hop.next]
    return found
