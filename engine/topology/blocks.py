"""Building blocks of network dimensions, and the registries by which shapes name them."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise, permutations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.registry import Registry

# --- what a block knows about itself --------------------------------------------------------------


Node = int | str  # an NPU is its rank, a switch its name
Pair = tuple[Node, Node]  # the two ends of a one-way link
Senders = NDArray[np.bool_]
Part = Literal["link", "switch", "nic"]  # parts that a tier table prices per bandwidth


class SubgroupBandwidth(StrEnum):
    """The bandwidth that a group on part of a dimension has: its physical links, or all of it.

    ``FULL`` is optimistic: every group has the whole bandwidth of its NPUs in the dimension.
    """

    PHYSICAL = "physical"
    FULL = "full"


class LinkUse(NamedTuple):
    """The links of a block that one group's collectives can use.

    On a line of NPUs, where no link closes a ring, ``wrap_hops`` differs from ``hops``.  In a step
    each member sends its bytes as ``sharers`` messages, because the groups take turns on every
    link.
    """

    share: float  # of an NPU's bandwidth
    hops: int  # links to the next member
    wrap_hops: int  # links from the last member back to the first
    sharers: int = 1  # groups that take turns on each link


class MessagePath(NamedTuple):
    """The links that a message between two NPUs of a block passes."""

    share: float  # of an NPU's bandwidth
    hops: int  # links


ENTRANCES = 4  # of an NPU in a block: links on which messages of several NPUs come


@dataclass(frozen=True)
class Block(ABC):
    """Base class of the building blocks of one network dimension: how its NPUs are joined.

    A new block is a subclass and one more argument of ``register`` in :mod:`engine.topology`.
    Nothing else in the engine asks which block a dimension is made of. Methods without a meaningful
    default are abstract, so an incomplete block cannot be created.

    The bandwidth b of a dimension is the rate at which one NPU can send in the dimension in one
    direction, over all its links.  ``n`` is always the number of NPUs of the block.  ``p`` is the
    number of members of a group; they are ``stride`` coordinates apart, with p * stride <= n.

    Two blocks are equal when they have the same class and equal dataclass fields.  A block that was
    sent to another process therefore equals the original.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in shapes: ``Ring`` for ``Ring(4)``."""

    def label(self, n: int) -> str:
        """Return the notation of a block of ``n`` NPUs in shapes: ``Ring(4)``."""
        return f"{self.name}({n})"

    @property
    @abstractmethod
    def algorithms(self) -> tuple[str, ...]:
        """Names of the collective algorithms that run on the block, the default first."""

    @property
    @abstractmethod
    def all_to_all(self) -> str:
        """Algorithm of an all-to-all: ``direct``, or ``relay`` if other members forward bytes."""

    @property
    @abstractmethod
    def hops(self) -> int:
        """Links between neighbours: 1, or 2 if a switch is between them."""

    @property
    @abstractmethod
    def sends_concurrently(self) -> bool:
        """True if an NPU sends to several NPUs at once; else messages leave in turn."""

    @property
    def is_symmetric(self) -> bool:
        """True if NPUs are interchangeable: each is equally far from all others."""
        return False

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """Kinds of parts besides links that are priced per GB/s: ``switch`` and ``nic``."""

    @abstractmethod
    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        """Return the links that a group of ``p`` members, ``stride`` apart, can physically use."""

    @abstractmethod
    def message_path(self, n: int, offset: int) -> MessagePath:
        """Return the path to the NPU ``offset`` coordinates ahead (modulo ``n``) of the sender."""

    def entrance(self, n: int, offset: int, senders: Senders) -> int | None:
        """Return the number, below ``ENTRANCES``, of the target's link on which a message arrives.

        None if no other NPU sends on this link.  The target is ``offset`` coordinates ahead of the
        sender. ``senders``, shape (blocks, n), marks the sending NPUs of each of several equal
        blocks.
        """
        return None

    def link_load(self, n: int, offset: int, senders: Senders) -> int:
        """Return the number of messages on the busiest link when all ``senders`` send at once.

        Each message goes ``offset`` coordinates ahead.  The number is 1 if each NPU has separate
        links.
        """
        return 1

    @abstractmethod
    def closes_ring(self, n: int, p: int, stride: int) -> bool:
        """Return whether a group's members form a ring, so that it can send in both directions."""

    @abstractmethod
    def links(self, n: int) -> int:
        """Return the number of links of an NPU, which share its bandwidth; ``n`` is above 1."""

    @abstractmethod
    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        """Yield the one-way links among ``npus``, the NPUs of one block in order of coordinates.

        ``place`` makes the names of switches unique.  Routing breaks ties between equally short
        routes by the order of a node's links.
        """

    @abstractmethod
    def cut(self, n: int) -> float:
        """Return the bandwidth, in one direction, between the halves of a block of ``n`` > 1 NPUs.

        The unit is the bandwidth of one NPU.
        """

    def link_use_under(self, policy: SubgroupBandwidth, n: int, p: int, stride: int) -> LinkUse:
        """Return the links of a group; under policy ``FULL`` it has its NPUs' whole bandwidth."""
        if policy is SubgroupBandwidth.FULL:
            return LinkUse(1.0, self.hops, self.hops)
        return self.link_use(n, p, stride)

    def message_path_under(self, policy: SubgroupBandwidth, n: int, offset: int) -> MessagePath:
        """Return the path of a message; under policy ``FULL`` it has the NPU's whole bandwidth."""
        way = self.message_path(n, offset)
        return way._replace(share=1.0) if policy is SubgroupBandwidth.FULL else way


# --- grids ----------------------------------------------------------------------------------------
# NPU ``x + columns * y`` of a grid is the one at column x and row y.  Messages travel along their
# row first, and then along the column (X-Y routing).  To the opposite place of a torus both ways
# round are as short, and both should carry as much (Dally and Towles, "Principles and Practices of
# Interconnection Networks", 2004): even places send upwards, odd ones downwards.


@dataclass(frozen=True)
class Grid(Block):
    """``columns`` by ``rows`` NPUs, each joined to its neighbours by links of equal bandwidth.

    The bandwidth of an NPU is the sum over the links of an NPU with the most links; NPUs at an edge
    of a mesh leave some of it unused.  All groups of equal shape send at once and share the links:
    the pairs of NPUs in one row send together with the pairs of every other row.  Raises
    :class:`DimsweepError` for a side of less than 2.
    """

    columns: int
    rows: int

    algorithms = ("xy_rings",)
    all_to_all = "xy_direct"
    hops = 1
    sends_concurrently = False
    parts = ()

    def __post_init__(self) -> None:
        if min(self.columns, self.rows) < 2:
            raise DimsweepError(
                f"{self.label(self.columns * self.rows)} is a line; a grid must have 2 NPUs or "
                "more in both directions",
                where="shape",
                hint="use a Ring for a line of NPUs",
                code="out-of-range",
            )

    @property
    @abstractmethod
    def closes(self) -> bool:
        """True if a link joins the ends of every row and column."""

    @property
    def size(self) -> int:
        """Number of NPUs."""
        return self.columns * self.rows

    def label(self, n: int) -> str:
        return f"{self.name}({self.columns},{self.rows})"

    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        """Return the links of a logical ring through the group's members, over X-Y routes.

        The ring is used in both directions if the group closes one (:meth:`closes_ring`).  The
        busiest link limits the bandwidth of the ring; the longest route to a next member is the
        number of hops of a step.
        """
        load = self.busiest_link_load(p, stride, ((k, (k + 1) % p) for k in range(p)))
        ways = 2 if self.closes_ring(n, p, stride) else 1
        hops = self.round_trip(p, stride)
        return LinkUse(ways / (self.links(n) * load), hops[1], hops[0], load)

    def busiest_link_load(self, p: int, stride: int, pairs: Iterable[tuple[int, int]]) -> int:
        """Return the number of messages on the busiest link in one exchange of all groups at once.

        In each group, the two members of each of ``pairs`` (by their numbers in the group) exchange
        one message.
        """
        return _busiest(self, p, stride, tuple(pairs))

    def round_trip(self, p: int, stride: int) -> list[int]:
        """Return the hops from each member of a ring to the next one, the longest first.

        The ring belongs to the group whose chain of p - 1 steps is the longest.
        """
        trips = (
            sorted((len(self.route(a, b)) for a, b in pairwise([*ring, ring[0]])), reverse=True)
            for ring in _groups(self.size, p, stride)
        )
        return max(trips, key=lambda trip: sum(trip[:-1]))

    def diameter(self, p: int, stride: int) -> int:
        """Return the hops between the two members of a group that are farthest apart."""
        ends = (
            (a, b) for members in _groups(self.size, p, stride) for a in members for b in members
        )
        return max(len(self.route(a, b)) for a, b in ends)

    def message_path(self, n: int, offset: int) -> MessagePath:
        """Return a message's path: one link at a time, with the most frequent number of hops."""
        hops = Counter(len(self._route_from(i, offset)) for i in range(n))
        return MessagePath(1 / self.links(n), hops.most_common(1)[0][0])

    def entrance(self, n: int, offset: int, senders: Senders) -> int:
        """Return the link on which most messages arrive; messages that wrap round may differ."""
        (sending,) = np.nonzero(senders.any(axis=0))
        ends = (self._route_from(i, offset)[-1] for i in sending.tolist())
        return Counter(map(self._entrance, ends)).most_common(1)[0][0]

    def _entrance(self, link: Pair) -> int:
        source, target = map(int, link)
        neighbours = [target - 1, target + 1, target - self.columns, target + self.columns]
        if source in neighbours:
            return neighbours.index(source)
        along_row = source // self.columns == target // self.columns  # round a torus
        return (0 if along_row else 2) + int(source < target)

    def link_load(self, n: int, offset: int, senders: Senders) -> int:
        load = [
            Counter(
                link
                for i, sends in enumerate(line)
                if sends
                for link in self._route_from(i, offset)
            )
            for line in np.unique(senders, axis=0).tolist()
        ]
        return max(max(links.values(), default=1) for links in load)

    def _route_from(self, npu: int, offset: int) -> list[Pair]:
        return self.route(npu, (npu + offset) % self.size)

    def closes_ring(self, n: int, p: int, stride: int) -> bool:
        """Return whether the group fills a whole row, or a whole column, of a torus."""
        along_row = p * stride == self.columns
        along_column = stride % self.columns == 0 and p * stride == self.size
        return self.closes and p > 2 and (along_row or along_column)

    def links(self, n: int) -> int:
        return min(2, self.columns - 1) + min(2, self.rows - 1)

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        """Yield links; those along a node's row precede those along its column: routes are X-Y."""
        for i, npu in enumerate(npus):
            for neighbour in self._neighbours(i):
                yield npu, npus[neighbour]

    def _neighbours(self, i: int) -> list[int]:
        y, x = divmod(i, self.columns)
        row = [(there, y) for there in self._next_to(x, self.columns)]
        column = [(x, there) for there in self._next_to(y, self.rows)]
        return [there + self.columns * level for there, level in (*row, *column)]

    def _next_to(self, place: int, size: int) -> list[int]:
        """Return the neighbours of coordinate ``place``, the one towards its opposite first."""
        both = [place + 1, place - 1]
        if self.closes:
            both = both[:: _upwards(place)]
            return list(dict.fromkeys(there % size for there in both))
        return [there for there in both if 0 <= there < size]

    def route(self, source: int, target: int) -> list[Pair]:
        """Return the links of the X-Y route between two NPUs, the shorter way round a torus."""
        (y, x), (row, column) = divmod(source, self.columns), divmod(target, self.columns)
        xs = self._line(x, column, self.columns)
        ys = self._line(y, row, self.rows)
        stops = [there + self.columns * y for there in xs]
        stops += [column + self.columns * there for there in ys[1:]]
        return list(pairwise(stops))

    def _line(self, start: int, end: int, size: int) -> list[int]:
        """Return the coordinates from ``start`` to ``end``, in the shorter direction on a torus."""
        up = (end - start) % size
        if not self.closes:
            step = 1 if end >= start else -1
            return [*range(start, end, step), end]
        step = _upwards(start) if 2 * up == size else 1 if 2 * up < size else -1
        return [(start + step * k) % size for k in range(min(up, size - up) + 1)]

    def cut(self, n: int) -> float:
        """Return the bandwidth between the halves, cut across a side of even length if possible."""
        sides = ((self.columns, self.rows), (self.rows, self.columns))
        links = {side: other * (2 if self.closes and side > 2 else 1) for side, other in sides}
        even = [n_links for side, n_links in links.items() if side % 2 == 0]
        return min(even or links.values()) / self.links(n)


def _upwards(place: int) -> int:
    """Return 1 or -1: the direction in which NPU ``place`` of a torus sends to its opposite."""
    return 1 if place % 2 == 0 else -1


def _groups(n: int, p: int, stride: int) -> Iterator[range]:
    """Yield the members of every group: ``p`` of ``n`` NPUs, ``stride`` apart."""
    for block in range(0, n - p * stride + 1, p * stride):
        for first in range(block, block + stride):
            yield range(first, first + p * stride, stride)


@lru_cache(maxsize=256)
def _busiest(grid: Grid, p: int, stride: int, pairs: tuple[tuple[int, int], ...]) -> int:
    load = Counter[Pair]()
    for members in _groups(grid.size, p, stride):
        for source, target in pairs:
            load.update(grid.route(members[source], members[target]))
    return max(load.values())


@dataclass(frozen=True)
class Mesh2D(Grid):
    """A grid whose rows and columns are lines: ``Mesh2D(5,4)`` has 5 columns and 4 rows."""

    name = "Mesh2D"
    closes = False


@dataclass(frozen=True)
class Torus2D(Grid):
    """A grid whose rows and columns are rings: ``Torus2D(4,4)``; a side of two has one link."""

    name = "Torus2D"
    closes = True


# --- blocks of one size ---------------------------------------------------------------------------


class Ring(Block):
    """NPUs in a ring, each with two links of half its bandwidth; two NPUs share one full link."""

    name = "Ring"
    algorithms = ("ring",)
    all_to_all = "relay"
    hops = 1
    sends_concurrently = False
    parts = ()

    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        """Return the links of a group; ``stride`` - 1 other groups share every link with it.

        A group that does not close the ring is a line and can use one of the two directions.
        """
        if p * stride == n:
            return LinkUse(1 / stride, stride, stride, stride)
        return LinkUse(1 / (2 * stride), stride, (p - 1) * stride, stride)

    def message_path(self, n: int, offset: int) -> MessagePath:
        """Return the shorter way round the ring, over one of the NPU's two links."""
        return MessagePath(1 / self.links(n), min(offset, n - offset))

    def entrance(self, n: int, offset: int, senders: Senders) -> int:
        """Return 0 if messages arrive from below (or both ways are equally short), else 1."""
        return int(offset > n - offset)

    def link_load(self, n: int, offset: int, senders: Senders) -> int:
        hops = min(offset, n - offset)  # those that pass an NPU are ``hops`` neighbours'
        return int(np.sum([np.roll(senders, k, axis=1) for k in range(hops)], axis=0).max())

    def closes_ring(self, n: int, p: int, stride: int) -> bool:
        """Return whether the group fills the ring; two NPUs are joined by one link."""
        return p * stride == n > 2

    def links(self, n: int) -> int:
        return min(2, n - 1)

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        """Yield each NPU's links to the next and the previous NPU; two NPUs have one link."""
        for i, npu in enumerate(npus):
            yield npu, npus[(i + 1) % len(npus)]
            if len(npus) > 2:
                yield npu, npus[i - 1]

    def cut(self, n: int) -> float:
        """Return 1: two links of half an NPU's bandwidth, or one full link between two NPUs."""
        return 1.0


class FullyConnected(Block):
    """NPUs with a link to every other NPU; the n - 1 links share the bandwidth equally."""

    name = "FullyConnected"
    algorithms = ("direct",)
    all_to_all = "direct"
    hops = 1
    sends_concurrently = True
    is_symmetric = True
    parts = ()

    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        """Return the links of each member to all other members of its group."""
        return LinkUse((p - 1) / (n - 1), 1, 1)

    def message_path(self, n: int, offset: int) -> MessagePath:
        return MessagePath(1 / (n - 1), 1)

    def closes_ring(self, n: int, p: int, stride: int) -> bool:
        return False

    def links(self, n: int) -> int:
        return n - 1

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        return permutations(npus, 2)

    def cut(self, n: int) -> float:
        """Return the bandwidth of floor(n/2) * ceil(n/2) links of b/(n-1) between the halves."""
        return (n // 2) * (n - n // 2) / (n - 1)


class Switch(Block):
    """NPUs with one link of their whole bandwidth to a common switch, two hops from each other."""

    name = "Switch"
    algorithms = (
        "halving_doubling",
        "direct",
        "ring",
        "in_switch",
        "double_binary_tree",
        "rabenseifner",
    )
    all_to_all = "direct"
    hops = 2
    sends_concurrently = False
    is_symmetric = True
    parts = ("switch", "nic")

    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        """Return the NPU's one port, which any group can use fully."""
        return LinkUse(1.0, 2, 2)

    def message_path(self, n: int, offset: int) -> MessagePath:
        return MessagePath(1.0, 2)

    def entrance(self, n: int, offset: int, senders: Senders) -> int:
        """Return 0: every message arrives on the one link from the switch."""
        return 0

    def closes_ring(self, n: int, p: int, stride: int) -> bool:
        return False

    def links(self, n: int) -> int:
        return 1

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        switch = f"switch {place}"
        for npu in npus:
            yield npu, switch
            yield switch, npu

    def cut(self, n: int) -> float:
        """Return the bandwidth of the smaller half's ports."""
        return float(n // 2)


BLOCKS: Registry[Block] = Registry("block")  # by the name in shapes
# Blocks with two sides, ``Mesh2D(5,4)``; a grid of each size is a separate block.
GRIDS: dict[str, type[Grid]] = {grid.name: grid for grid in (Mesh2D, Torus2D)}


def register(*blocks: Block) -> None:
    """Register block types under the names that shapes such as ``Ring(4)`` use.

    Raises :class:`DimsweepError` for a name that another block has, whatever its case.
    """
    for block in blocks:
        taken = {name.lower(): other for name, other in BLOCKS.items()}.get(block.name.lower())
        if taken is not None and taken != block:
            raise DimsweepError(
                f"two blocks are named {block.name}: {type(taken).__qualname__} and "
                f"{type(block).__qualname__}",
                where="blocks",
                hint="rename one of them",
                code="duplicate",
            )
        BLOCKS[block.name] = block


register(Ring(), FullyConnected(), Switch())
