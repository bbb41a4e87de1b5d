"""Folding of equivalent ranks in ASTRA-sim: one rank of each kind is simulated.

Folding is a colour refinement over all properties that a rank sees: its trace, with groups and
peers named by their first appearance; the colours of its groups' members, of its lines in the
dimensions in ring order from its own place, and of its peers; and the distances of all of these.
When no colour splits any more, a message to a member of another colour arrives exactly when the
same message of an equal rank arrives at that member's representative.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from dimsweep.engine.extensions.astra_sim.algorithms import GREEDY
from dimsweep.engine.extensions.astra_sim.links import ways as ways_of
from dimsweep.engine.formats.astra_sim import Inputs
from dimsweep.engine.formats.chakra.node import COMMUNICATION, Node
from dimsweep.engine.formats.chakra.trace import NodeType
from dimsweep.engine.topology.coordinates import line

_TREE = "doubleBinaryTree"
_SHARED_MEMORY = ("PER_NODE_MEMORY_EXPANSION", "MEMORY_POOL")


@dataclass(frozen=True)
class Folding:
    """The kinds of equivalent ranks: the kind of each rank, and the first rank of each kind."""

    kind: tuple[int, ...]  # of each rank
    first: tuple[int, ...]  # lowest rank of each kind
    # By rank: the common name of a group for all its members, by its name in the rank's trace.
    group_names: Mapping[int, Mapping[str, Hashable]]


@dataclass(frozen=True)
class _Uses:
    """The groups and peers of a trace in order of first appearance, and the trace without names."""

    rest: Hashable
    groups: tuple[str, ...]
    peers: tuple[int, ...]
    all_ranks: bool


def fold(inputs: Inputs, traces: Sequence[Sequence[Node]], *, enabled: bool = True) -> Folding:
    """Return the fewest kinds of equivalent ranks; one for each rank if not ``enabled``.

    Each rank is also its own kind if ranks cannot be equivalent under these inputs.
    """
    n = len(traces)
    shared = {id(trace): trace for trace in traces}
    numbers = _Numbers()
    read = {key: _uses_of(trace, numbers) for key, trace in shared.items()}
    uses = [read[id(trace)] for trace in traces]
    if not enabled or not _can_fold(inputs, traces):
        kind = tuple(range(n))
    else:
        kind = _refine(inputs, uses)
    first = tuple(kind.index(k) for k in range(max(kind) + 1))
    return Folding(kind, first, _group_names(inputs, uses, kind, first))


def _can_fold(inputs: Inputs, traces: Sequence[Sequence[Node]]) -> bool:
    """Return whether ranks can be equivalent under these inputs.

    Shared resources distinguish the ranks that queue for them.  Themis distinguishes ranks after
    the first collective: NPU 0 resets the loads, and the order of NPUs within a tick decides who is
    first. Smallest chunk first with several queues may deadlock, since equal chunks may swap places
    on some NPUs.
    """
    options = inputs.options
    if options.aware or inputs.custom:
        return False
    if inputs.system.intra_dimension == "SCF" and options.queues_per_dim > 1:
        return False
    once = {id(trace): trace for trace in traces}.values()
    memory = (NodeType.MEM_LOAD, NodeType.MEM_STORE)
    if inputs.memory.kind in _SHARED_MEMORY and any(
        node.type in memory for trace in once for node in trace
    ):
        return False
    collectives = (sum(node.type is NodeType.COMM_COLL for node in trace) for trace in once)
    return inputs.system.inter_dimension not in GREEDY or max(collectives) <= 1


def _uses_of(trace: Sequence[Node], numbers: "_Numbers") -> _Uses:
    groups: dict[str, int] = {}
    peers: dict[int, int] = {}
    order: list[int] = []
    all_ranks = False
    number = numbers.number_nodes(trace)
    for node in (trace[i] for i, n in enumerate(number) if n in numbers.naming):
        if node.type is NodeType.COMM_SEND:
            order.append(peers.setdefault(node.target, len(peers)))
        elif node.type is NodeType.COMM_RECV:
            order.append(peers.setdefault(node.source, len(peers)))
        elif node.group in ("", "0"):
            all_ranks = True
        else:
            order.append(groups.setdefault(node.group, len(groups)))
    rest = (tuple(number), tuple(order))
    return _Uses(rest, tuple(groups), tuple(peers), all_ranks)


class _Numbers:
    """Numbering of nodes, in which nodes that differ only in names of groups and peers are equal.

    Most nodes are found by identity, since traces of a job share most of their nodes.
    """

    def __init__(self) -> None:
        self._by_identity: dict[int, int] = {}
        self._by_content: dict[Node, int] = {}
        self.naming: set[int] = set()  # those that name a group or a peer, or all ranks

    def number_nodes(self, nodes: Sequence[Node]) -> list[int]:
        """Return the number of each node."""
        known = self._by_identity
        for node in [node for node in nodes if id(node) not in known]:
            number = self._by_content.setdefault(_nameless(node), len(self._by_content))
            known[id(node)] = number
            if node.type in COMMUNICATION:
                self.naming.add(number)
        return list(map(known.__getitem__, map(id, nodes)))


def _nameless(node: Node) -> Node:
    return node._replace(
        name="",
        group="all" if node.group in ("", "0") else "some",
        source=-1 if node.type is NodeType.COMM_RECV else node.source,
        target=-1 if node.type is NodeType.COMM_SEND else node.target,
    )


def _refine(inputs: Inputs, uses: Sequence[_Uses]) -> tuple[int, ...]:
    contents = {id(use): use.rest for use in uses}  # shared traces are compared once
    number = dict(zip(contents, _numbered(list(contents.values())), strict=True))
    colour = tuple(number[id(use)] for use in uses)
    alike = max(colour) == 0 and not any(use.groups or use.peers for use in uses)
    if alike and not _depends_on_place(inputs):
        return colour
    sees = [_sight(inputs, use, rank) for rank, use in enumerate(uses)]
    while True:
        now = colour
        colour = _numbered(
            [(now[rank], tuple(see(now) for see in sees[rank])) for rank in range(len(uses))]
        )
        if max(colour) == max(now):
            return colour


def _numbered(things: Sequence[Hashable]) -> tuple[int, ...]:
    """Return a number for each thing, by first appearance; equal things get equal numbers."""
    numbers: dict[Hashable, int] = {}
    return tuple(numbers.setdefault(thing, len(numbers)) for thing in things)


def _depends_on_place(inputs: Inputs) -> bool:
    """Return whether some algorithm treats members of a dimension differently by their place."""
    return any(name == _TREE or name.startswith("one") for name in _algorithms(inputs))


def _algorithms(inputs: Inputs) -> list[str]:
    return [name for names in inputs.system.algorithms.values() for name in names]


_See = Callable[[Sequence[int]], Hashable]


def _sight(inputs: Inputs, use: _Uses, rank: int) -> list[_See]:
    """Return functions of all ranks' colours, which return the colours that ``rank`` sees."""
    ways = ways_of(inputs.network)
    sees: list[_See] = []
    for name in use.groups:
        ranks = inputs.groups.get(name, ())
        if rank in ranks and len(ranks) < inputs.network.n_npus:
            sees.append(_ring_colours(inputs, ways, ranks, rank))
        elif ranks:
            sees += _lines(inputs, rank)
    if use.all_ranks:
        sees += _lines(inputs, rank)
    for peer in use.peers:
        if 0 <= peer < inputs.network.n_npus and peer != rank:
            sees.append(_peer_colour(peer, ways(rank, peer)))
    return sees


def _peer_colour(peer: int, way: tuple[float, float]) -> _See:
    return lambda colour: (colour[peer], way)


def _lines(inputs: Inputs, rank: int) -> list[_See]:
    """Return the functions of :func:`_sight` for the lines of ``rank`` in each dimension.

    All NPUs are one line if an algorithm requires it.
    """
    network = inputs.network
    ways = ways_of(network)
    if any(name.startswith("one") for name in _algorithms(inputs)):
        return [_ring_colours(inputs, ways, range(network.n_npus), rank)]
    sizes = network.sizes
    return [
        _ring_colours(inputs, ways, line(rank, sizes, dim), rank)
        for dim, n in enumerate(sizes)
        if n > 1
    ]


def _ring_colours(
    inputs: Inputs, ways: Callable[[int, int], tuple[float, float]], ranks: Sequence[int], rank: int
) -> _See:
    """Return a function of all ranks' colours: colours and distances of the others in ``ranks``.

    They are in ring order from ``rank``, and then in the order of halving's partners.
    """
    n, me = len(ranks), ranks.index(rank)
    others = [ranks[(me + k) % n] for k in range(1, n)]
    names = _algorithms(inputs)
    if any("alvingDoubling" in name for name in names):
        offsets = (1 << k for k in range((n - 1).bit_length()))
        others += [ranks[me ^ offset] for offset in offsets if me ^ offset < n]
    distances = tuple(ways(rank, other) for other in others)
    place = me if _TREE in names else -1
    return lambda colour: (place, distances, tuple(colour[other] for other in others))


def _group_names(
    inputs: Inputs, uses: Sequence[_Uses], kind: Sequence[int], first: Sequence[int]
) -> dict[int, dict[str, Hashable]]:
    """Return a name of each group for each simulated rank, common to all of the group's members.

    It consists of the kinds of the members, and the group's number among each member's groups.
    """
    once = {id(use): use for use in uses}
    slots = {key: {name: i for i, name in enumerate(use.groups)} for key, use in once.items()}
    names: dict[int, dict[str, Hashable]] = {}
    for rank in first:
        names[rank] = {}
        for name in uses[rank].groups:
            members = inputs.groups.get(name, ())
            seen = {(kind[i], slots[id(uses[i])].get(name, -1)) for i in members}
            names[rank][name] = tuple(sorted(seen))
    return names
