"""What a program's ranks load and store through a wafer's I/O controllers, and over which links.

A *transfer* is an access of one rank, or the one that the members of a group share.  Each
controller sends, or takes, an equal part of it in pieces, which *trains* carry: a train has a tree
of links for itself, and sends its next piece when all that the one before was for have got it.
"""

from collections import Counter
from functools import cache
from typing import NamedTuple

from dimsweep.engine.extensions.wafer import NOBODY, IoTree, Wafer, WaferPlan, store_tree
from dimsweep.engine.kernels.core.none import NONE
from dimsweep.engine.kernels.messages.cascades import Cascade, cascade_of_piece
from dimsweep.engine.lower.communication import NOT_SHARED
from dimsweep.engine.lower.program import Program
from dimsweep.engine.network.graph import Network
from dimsweep.engine.workload.coordinates import group_members

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


def io_plan(program: Program, network: Network, plan: WaferPlan | None) -> list[Transfer]:
    """The transfers of a program in which every rank is a class; none where its memory is not
    behind a wafer's I/O controllers."""
    wafer = program.communication.network.wafer
    if plan is None or wafer is None:
        return []
    trains = cache(lambda ranks, store: _trains(wafer, network, plan, ranks, store=store))
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
    wafer: Wafer, network: Network, plan: WaferPlan, ranks: tuple[int, ...], *, store: bool
) -> Trains:
    """Several trains take a way, if there are fewer ways than pieces are to be under way."""
    found: list[Train] = []
    npus = [plan.places[rank] for rank in ranks]
    if len(npus) > 1 and not (store or wafer.multicasts):
        npus += sorted({*range(wafer.n_npus)} - {*npus})
    late = [0] * len(npus)
    controllers = wafer.io_trees(npus)
    for ways in controllers:
        for tree in ways:
            for member, latency in _latencies(network, tree).items():
                late[member] = max(late[member], latency)
        trees = [store_tree(network, tree) for tree in ways] if store else ways
        cascades = [cascade_of_piece(tree) for tree in trees]
        n = max(_UNDER_WAY, len(trees))
        of = (Train(cascades[i % len(trees)], len(range(i, wafer.pieces, n))) for i in range(n))
        found += [train for train in of if train.pieces]
    if store:  # all have stored when the controllers have the last byte of all
        late = [max(late)] * len(late)
    share = 1 / (len(controllers) * wafer.pieces)
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
