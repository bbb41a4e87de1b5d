"""Routes of messages, cascades through switches, and an interconnect's I/O controllers.

**Cascades** are messages that trigger each other, link by link.  A *launch* takes a message over
one link.  When the message begins to arrive at the far end (or has arrived completely, if it is
stored there) it reaches a *gate*; when all messages that a gate expects have reached it, it starts
the next launches.

**Input and output.**  A *transfer* is a load or store of one rank, or one shared by the members of
a group.  Each controller sends, or receives, an equal part of it in pieces, which *trains* carry: a
train has a separate tree of links, and sends its next piece when all receivers have the previous
one.
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
    """Return the router of a network; dimension-order routing unless configured otherwise."""
    default = Routing.DIMENSION_ORDER if network.sizes else Routing.SHORTEST
    if model.interconnect is not None:
        default = model.interconnect.routing
    return Router(network, model.routing or default, model.seed)


def buffer_rooms(network: Network, model: NetworkModel) -> list[int]:
    """Return the capacity of the buffer at the far end of each link (bytes); NONE: unlimited."""
    sizes = (model.buffer if link.buffer is None else link.buffer for link in network.links)
    return [NONE if size is None else max(1, int(size)) for size in sizes]


def minimum_room(rooms: Iterable[int]) -> int:
    """Return the minimum of buffer capacities (bytes); NONE if all are unlimited."""
    limits = [room for room in rooms if room != NONE]
    return min(limits, default=NONE)


def n_parts(n_bytes: float, room: int) -> int:
    """Return the number of equal parts of a message such that ``room`` bytes hold two of them."""
    return 1 if room == NONE else max(1, math.ceil(2 * n_bytes / room))


def shared_switch(network: Network, model: NetworkModel, npus: frozenset[int]) -> str:
    """Return the switch to which all ``npus`` are linked, which reduces for them.

    Raises :class:`DimsweepError` if there is none.
    """
    if (own := model.interconnect) is not None and own.rings is not None:
        raise DimsweepError(
            f"the switches of this {own.noun} do not reduce",
            where="collective.algorithms",
            code="unsupported",
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
            code="unsupported",
            hint="in_switch needs a dimension that is one switch",
        )
    return switches[0]


class Launch(NamedTuple):
    """One message of a cascade over one link, to a ``gate`` or to its end (NONE).

    ``who`` is the NPU that sends it or, at its end, receives it; for I/O, the index among the
    receivers; or NONE.  In a reduction it carries the bytes that a source sends (``up``), the bytes
    that ``copies`` targets receive, or the smaller of both; it is one of ``parts`` sent
    concurrently.
    """

    link: int
    gate: int
    who: int = NONE
    stored: bool = False
    up: bool = True
    copies: int = 0
    parts: int = 1

    def n_bytes(self, up: float, down: float) -> float:
        """Return this message's bytes if a source sends ``up`` and a target gets ``down`` bytes."""
        if not self.copies:
            return up / self.parts
        # Shards of their own for targets, or one copy of what is for all of them.
        return min(up, down * self.copies) / self.parts if self.up else down


class Gate(NamedTuple):
    """After ``expected`` messages have reached it, this gate starts ``launches`` (from, to)."""

    expected: int
    launches: tuple[int, int]


class Cascade(NamedTuple):
    """Messages over one link each that trigger each other; ``first`` are the initial (from, to).

    ``ways_up`` are the links from each source of a reduction to the top switch; links between
    switches count twice, for the way back.
    """

    launches: Sequence[Launch]
    gates: Sequence[Gate]
    first: tuple[int, int]
    ways_up: Sequence[tuple[int, ...]] = ()


def cascade_of_piece(tree: IoTree) -> Cascade:
    """Return the cascade of one piece of a load or store along ``tree``.

    Launches that begin together are adjacent.
    """
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
    """How a line's reductions pass through switches: its tree, its set (``turn``) and its round.

    Sets of lines that cannot use the switches at once take turns; with ``turn`` NONE a line waits
    for no other line.
    """

    tree: ReductionTree
    turn: int = NONE
    round: int = 0
    line: int = NONE  # among those that take turns


class Passages:
    """Finds the passage of each line, by its members' NPUs.

    Lines without a tree in the ``plan`` use the switch to which all their NPUs are linked.
    """

    def __init__(
        self, network: Network, model: NetworkModel, plan: InterconnectPlan | None
    ) -> None:
        self._network, self._model = network, model
        self._passages: dict[frozenset[int], Passage] = {}
        self.cascade = lru_cache(maxsize=4096)(self._cascade)
        self.n_turns = 0
        for rounds in plan.rounds if plan else ():
            turn = self.n_turns if len(rounds) > 1 else NONE
            for number, trees in enumerate(rounds):
                for line, tree in trees.items():
                    self._passages[line] = Passage(tree, turn, number, len(self._passages))
            self.n_turns += len(rounds) > 1

    def passage(self, npus: Iterable[int]) -> Passage:
        """Return the passage of a line; raise :class:`DimsweepError` without a switch."""
        line = frozenset(npus)
        if line not in self._passages:
            switch = shared_switch(self._network, self._model, line)
            self._passages[line] = Passage(ReductionTree({switch: tuple(line)}))
        return self._passages[line]

    def _cascade(self, sources: tuple[int, ...], targets: tuple[int, ...]) -> Cascade:
        """Return the cascade from ``sources`` up their tree of switches and down to ``targets``.

        Each switch forwards a reduced message when all inputs below it have begun to arrive.
        """
        tree = self.passage((*sources, *targets)).tree
        return _ThroughSwitches(self._network.number, tree, sources, targets).cascade()


class _ThroughSwitches:
    """Builder of the cascade of one reduction; it adds the last launches first."""

    def __init__(
        self,
        link: Mapping[tuple[Node, Node], int],
        tree: ReductionTree,
        sources: Sequence[int],
        targets: Sequence[int],
    ) -> None:
        self._link, self._tree = link, tree
        self._sources, self._targets = _npus_by_leaf(tree, sources), _npus_by_leaf(tree, targets)
        self._launches: list[Launch] = []
        self._gates: list[Gate] = []

    def cascade(self) -> Cascade:
        """Return the whole cascade."""
        tree = self._tree
        down = {leaf: self._launch_down(leaf, npus) for leaf, npus in self._targets.items()}
        top = self._launch_over_top(down) if tree.lanes else []
        starts, ways = list[Launch](), list[tuple[int, ...]]()
        for leaf, npus in self._sources.items():
            gate = self._add_gate(
                len(npus), self._launch_up(leaf, top) if tree.lanes else down[leaf]
            )
            lanes = tree.lanes.get(leaf, ())
            trunks = [(self._link[leaf, lane], self._link[lane, tree.top]) for lane in lanes]
            for npu in npus:
                link = self._link[npu, leaf]
                starts.append(Launch(link, gate, npu))
                ways += [(link, *trunk, *trunk) for trunk in trunks] or [(link,)]
        first = self._add_launches(starts)
        return Cascade(self._launches, self._gates, first, ways)

    def _add_launches(self, launches: Iterable[Launch]) -> tuple[int, int]:
        start = len(self._launches)
        self._launches += launches
        return start, len(self._launches)

    def _add_gate(self, expected: int, launches: tuple[int, int]) -> int:
        self._gates.append(Gate(expected, launches))
        return len(self._gates) - 1

    def _launch_down(self, leaf: str, npus: Sequence[int]) -> tuple[int, int]:
        """Add the launches from a leaf to its targets."""
        down = Launch(NONE, NONE, up=False, copies=1)
        return self._add_launches(
            down._replace(link=self._link[leaf, npu], who=npu) for npu in npus
        )

    def _launch_over_top(self, down: Mapping[str, tuple[int, int]]) -> list[int]:
        """Add the launches from the top to the leaves; return the top's gates, one per part."""
        tree, gates = self._tree, []
        below = {leaf: self._add_gate(tree.n_parts, down[leaf]) for leaf in self._targets}
        for number in range(tree.n_parts):
            starts = []
            for leaf, npus in self._targets.items():
                lane = tree.lanes[leaf][number]
                last = Launch(self._link[lane, leaf], below[leaf], copies=len(npus))
                last = last._replace(parts=tree.n_parts)
                gate = self._add_gate(1, self._add_launches([last]))
                starts.append(last._replace(link=self._link[tree.top, lane], gate=gate))
            gates.append(self._add_gate(len(self._sources), self._add_launches(starts)))
        return gates

    def _launch_up(self, leaf: str, top: Sequence[int]) -> tuple[int, int]:
        """Add the launches from a leaf to the top's gates, each part by its own lane."""
        tree, starts = self._tree, []
        for lane, gate in zip(tree.lanes[leaf], top, strict=True):
            last = Launch(self._link[lane, tree.top], gate, parts=tree.n_parts)
            gate = self._add_gate(1, self._add_launches([last]))
            starts.append(last._replace(link=self._link[leaf, lane], gate=gate))
        return self._add_launches(starts)


def _npus_by_leaf(tree: ReductionTree, npus: Sequence[int]) -> dict[str, list[int]]:
    """Return the NPUs among ``npus`` below each leaf switch, without empty leaves."""
    found: dict[str, list[int]] = defaultdict(list)
    for leaf, own in tree.leaves.items():
        for npu in npus:
            if npu in own:
                found[leaf].append(npu)
    return dict(found)


_PIECES_IN_FLIGHT = (
    4  # pieces of a controller's, at least, so that it need not wait for their arrival
)


class Train(NamedTuple):
    """A sequence of pieces that cross one tree of links one after another.

    A piece is delivered to the NPUs that need it, and possibly to others, which are listed last.
    """

    cascade: Cascade
    pieces: int

    @property
    def n_ends(self) -> int:
        """Number of receivers of each piece."""
        return sum(launch.who != NONE for launch in self.cascade.launches)


class Trains(NamedTuple):
    """All trains between the I/O controllers and some NPUs.

    A piece has the fraction ``share`` of the bytes of one NPU, and ``late`` is the latency (ps) of
    each NPU's last piece.
    """

    trains: tuple[Train, ...]
    share: float
    late: tuple[int, ...]

    @property
    def n_pieces(self) -> int:
        """Number of pieces of all trains."""
        return sum(train.pieces for train in self.trains)

    @property
    def n_messages(self) -> int:
        """Number of messages of all pieces: one per link."""
        return sum(train.pieces * len(train.cascade.launches) for train in self.trains)


class Transfer(NamedTuple):
    """A load, or a ``store``, that ``ranks`` share; ``nodes`` are their nodes in the program."""

    n_bytes: float
    store: bool
    ranks: tuple[int, ...]
    nodes: tuple[int, ...]
    trains: Trains


def io_plan(program: Program, network: Network, plan: InterconnectPlan | None) -> list[Transfer]:
    """Return the transfers of a program through I/O controllers; empty without an interconnect."""
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
    """Return the nodes of each memory access that ranks share.

    Nodes share an access if they agree in ranks, occurrence, bytes and direction.
    """
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
    """Return the trains of a transfer; if there are few routes, each has several trains."""
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
        n = max(_PIECES_IN_FLIGHT, len(trees))
        of = (
            Train(cascades[i % len(trees)], len(range(i, interconnect.pieces, n))) for i in range(n)
        )
        found += [train for train in of if train.pieces]
    if store:  # all have stored when the controllers have the last byte of all
        late = [max(late)] * len(late)
    share = 1 / (len(controllers) * interconnect.pieces)
    return Trains(tuple(found), share, tuple(late[: len(ranks)]))


def _latencies(network: Network, tree: IoTree) -> dict[int, int]:
    """Return the latency (ps) between a controller and each NPU; equal in both directions."""
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
