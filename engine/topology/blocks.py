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
    """What a group that uses part of a dimension gets: its own links, or (optimistically) all."""

    PHYSICAL = "physical"
    FULL = "full"


class LinkUse(NamedTuple):
    """What the members of a group get of a block's links.

    ``share`` is the share of an NPU's bandwidth, ``hops`` the links on the way to the next member.
    ``wrap_hops`` is the way from the last member back to the first; it differs from ``hops`` on a
    line, where no link closes the circle.  ``sharers`` groups take turns on every link, so that a
    step's bytes come in as many messages.
    """

    share: float
    hops: int
    wrap_hops: int
    sharers: int = 1


class MessagePath(NamedTuple):
    """What a message from point to point gets: ``share`` of an NPU's bandwidth, over ``hops``."""

    share: float
    hops: int


ENTRANCES = 4  # of an NPU in a block: links on which messages of several NPUs come


@dataclass(frozen=True)
class Block(ABC):
    """The building block of one network dimension: how its NPUs are joined.

    A new block is a subclass and one more argument of ``register`` in
    :mod:`engine.topology`.  Nothing else in the engine asks which block a dimension is made
    of.  Whatever has no meaningful default is abstract, so that a block that forgets it cannot be
    made.

    The bandwidth b of a dimension is what one NPU can send there in one direction, all its links
    together.  ``n`` is always the number of NPUs of the block, ``p`` that of the members of a
    group, which sit ``stride`` coordinates apart and use ``n`` or fewer NPUs: p * stride <= n.

    Two blocks are equal when they are of one class (and have equal fields, if a subclass is a
    dataclass that has some), so a block that travelled to another process equals the one here.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in shapes: ``Ring`` for ``Ring(4)``."""

    def label(self, n: int) -> str:
        """A block of ``n`` NPUs in shapes: ``Ring(4)``."""
        return f"{self.name}({n})"

    @property
    @abstractmethod
    def algorithms(self) -> tuple[str, ...]:
        """The names of the collective algorithms that run here; the first one is the default."""

    @property
    @abstractmethod
    def all_to_all(self) -> str:
        """The name of the algorithm of an all-to-all: ``direct``, or ``relay`` where bytes pass
        through other members on their way."""

    @property
    @abstractmethod
    def hops(self) -> int:
        """The links between neighbours: 1, or 2 where a switch is between them."""

    @property
    @abstractmethod
    def sends_concurrently(self) -> bool:
        """Whether an NPU sends to several others at once, on links of their own; otherwise one
        message after another leaves through the same port."""

    @property
    def is_symmetric(self) -> bool:
        """Whether NPUs may change places: each is as far from all others."""
        return False

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """What an NPU pays for beside a link of its whole bandwidth."""

    @abstractmethod
    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        """The links that a group of ``p`` members can physically use."""

    @abstractmethod
    def message_path(self, n: int, offset: int) -> MessagePath:
        """The links of a message to the NPU ``offset`` coordinates further on, modulo ``n``."""

    def entrance(self, n: int, offset: int, senders: Senders) -> int | None:
        """On which of its target's links a message comes that ``senders`` send to the NPU
        ``offset`` coordinates further on, a number below ``ENTRANCES``; None where it is a link
        that no other NPU sends on.  ``senders``, shape (lines, n), says which NPUs of each of
        several such blocks do."""
        return None

    def link_load(self, n: int, offset: int, senders: Senders) -> int:
        """How many messages the busiest link carries when all ``senders`` send one at once, each
        ``offset`` coordinates further on; 1 where NPUs have links of their own.
        """
        return 1

    @abstractmethod
    def closes_ring(self, n: int, p: int, stride: int) -> bool:
        """Whether a group closes a circle on which it can send both ways round."""

    @abstractmethod
    def links(self, n: int) -> int:
        """How many links an NPU's bandwidth is divided among, for ``n`` > 1."""

    @abstractmethod
    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        """The one-way links among ``npus``, the NPUs of one block in the order of coordinates.

        ``place`` makes the names of switches unique.  Routing breaks ties between equally short
        ways by the order in which the links of a node come.
        """

    @abstractmethod
    def cut(self, n: int) -> float:
        """What the halves of a block of ``n`` > 1 NPUs can send each other in one direction, in
        units of an NPU's bandwidth."""

    def link_use_under(self, policy: SubgroupBandwidth, n: int, p: int, stride: int) -> LinkUse:
        """The links of a group: its own, or under ``FULL`` all of the NPU's bandwidth."""
        if policy is SubgroupBandwidth.FULL:
            return LinkUse(1.0, self.hops, self.hops)
        return self.link_use(n, p, stride)

    def message_path_under(self, policy: SubgroupBandwidth, n: int, offset: int) -> MessagePath:
        """The links of a message: its own, or under ``FULL`` all of the NPU's bandwidth."""
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

    The bandwidth of an NPU is that of all links of one with the most; NPUs at an edge of a mesh
    leave some of it unused.  A group is taken together with all that look like it, whose traffic
    shares the links: of 20 NPUs, the five pairs of a row with those of every other row.
    Raises :class:`DimsweepError` for a side of less than 2.
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
                f"{self.label(self.columns * self.rows)} is a line; a grid has 2 NPUs or more "
                "either way",
                where="shape",
                hint="a line of NPUs is part of a Ring",
            )

    @property
    @abstractmethod
    def closes(self) -> bool:
        """Whether a link joins the ends of every row and column."""

    @property
    def size(self) -> int:
        """How many NPUs the grid has."""
        return self.columns * self.rows

    def label(self, n: int) -> str:
        return f"{self.name}({self.columns},{self.rows})"

    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        """Return the links of a logical ring through the members in order, by X-Y routes.

        The ring runs both ways round if the group closes one (:meth:`closes_ring`).  The busiest
        link limits the bandwidth of the ring; the longest route to a next member is the number of
        hops of a step.
        """
        load = self.busiest_link_load(p, stride, ((k, (k + 1) % p) for k in range(p)))
        ways = 2 if self.closes_ring(n, p, stride) else 1
        hops = self.round_trip(p, stride)
        return LinkUse(ways / (self.links(n) * load), hops[1], hops[0], load)

    def busiest_link_load(self, p: int, stride: int, pairs: Iterable[tuple[int, int]]) -> int:
        """How many messages the busiest link carries when each of ``pairs`` (two members of a group
        by their numbers) exchanges one, in all groups alike at once."""
        return _busiest(self, p, stride, tuple(pairs))

    def round_trip(self, p: int, stride: int) -> list[int]:
        """The hops from each member of a group to the next one and from the last to the first, the
        longest first, in the group whose chain of p - 1 of them is the longest."""
        trips = (
            sorted((len(self.route(a, b)) for a, b in pairwise([*ring, ring[0]])), reverse=True)
            for ring in _groups(self.size, p, stride)
        )
        return max(trips, key=lambda trip: sum(trip[:-1]))

    def diameter(self, p: int, stride: int) -> int:
        """The hops between the two members of a group that are farthest apart."""
        ends = (
            (a, b) for members in _groups(self.size, p, stride) for a in members for b in members
        )
        return max(len(self.route(a, b)) for a, b in ends)

    def message_path(self, n: int, offset: int) -> MessagePath:
        """One link at a time, over the hops that most NPUs have to theirs: few wrap round."""
        hops = Counter(len(self._to(i, offset)) for i in range(n))
        return MessagePath(1 / self.links(n), hops.most_common(1)[0][0])

    def entrance(self, n: int, offset: int, senders: Senders) -> int:
        """The one on which most of them come, if offsets wrap round rows for some only."""
        (sending,) = np.nonzero(senders.any(axis=0))
        ends = (self._to(i, offset)[-1] for i in sending.tolist())
        return Counter(map(self._entrance, ends)).most_common(1)[0][0]

    def _entrance(self, link: Pair) -> int:
        """Which of the four links that lead to its target it is."""
        source, target = map(int, link)
        neighbours = [target - 1, target + 1, target - self.columns, target + self.columns]
        if source in neighbours:
            return neighbours.index(source)
        along_row = source // self.columns == target // self.columns  # round a torus
        return (0 if along_row else 2) + int(source < target)

    def link_load(self, n: int, offset: int, senders: Senders) -> int:
        """Messages take X-Y routes."""
        load = [
            Counter(link for i, sends in enumerate(line) if sends for link in self._to(i, offset))
            for line in np.unique(senders, axis=0).tolist()
        ]
        return max(max(links.values(), default=1) for links in load)

    def _to(self, npu: int, offset: int) -> list[Pair]:
        return self.route(npu, (npu + offset) % self.size)

    def closes_ring(self, n: int, p: int, stride: int) -> bool:
        """A group that goes all round a row, or a column, of a torus."""
        along_row = p * stride == self.columns
        along_column = stride % self.columns == 0 and p * stride == self.size
        return self.closes and p > 2 and (along_row or along_column)

    def links(self, n: int) -> int:
        return min(2, self.columns - 1) + min(2, self.rows - 1)

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        """The links along rows before those along columns, so that routes are X-Y."""
        for i, npu in enumerate(npus):
            for neighbour in self._neighbours(i):
                yield npu, npus[neighbour]

    def _neighbours(self, i: int) -> list[int]:
        y, x = divmod(i, self.columns)
        row = [(there, y) for there in self._next_to(x, self.columns)]
        column = [(x, there) for there in self._next_to(y, self.rows)]
        return [there + self.columns * level for there, level in (*row, *column)]

    def _next_to(self, place: int, size: int) -> list[int]:
        """The next place and the previous one, of which a line of two has but one; first the one on
        the way to the opposite place."""
        both = [place + 1, place - 1]
        if self.closes:
            both = both[:: _upwards(place)]
            return list(dict.fromkeys(there % size for there in both))
        return [there for there in both if 0 <= there < size]

    def route(self, source: int, target: int) -> list[Pair]:
        """The links of the X-Y way between two NPUs of the grid, the shorter way round a torus."""
        (y, x), (row, column) = divmod(source, self.columns), divmod(target, self.columns)
        xs = self._line(x, column, self.columns)
        ys = self._line(y, row, self.rows)
        stops = [there + self.columns * y for there in xs]
        stops += [column + self.columns * there for there in ys[1:]]
        return list(pairwise(stops))

    def _line(self, start: int, end: int, size: int) -> list[int]:
        """The places from ``start`` to ``end``, the shorter way round a torus."""
        up = (end - start) % size
        if not self.closes:
            step = 1 if end >= start else -1
            return [*range(start, end, step), end]
        step = _upwards(start) if 2 * up == size else 1 if 2 * up < size else -1
        return [(start + step * k) % size for k in range(min(up, size - up) + 1)]

    def cut(self, n: int) -> float:
        """The links between halves, across a side of even length where there is one."""
        sides = ((self.columns, self.rows), (self.rows, self.columns))
        links = {side: other * (2 if self.closes and side > 2 else 1) for side, other in sides}
        even = [n_links for side, n_links in links.items() if side % 2 == 0]
        return min(even or links.values()) / self.links(n)


def _upwards(place: int) -> int:
    """1 or -1: which way round a torus leads to the opposite place."""
    return 1 if place % 2 == 0 else -1


def _groups(n: int, p: int, stride: int) -> Iterator[range]:
    """The members of all groups of ``p`` that are ``stride`` apart."""
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
    """Rows and columns are lines: ``Mesh2D(5,4)`` is a grid of 5 by 4."""

    name = "Mesh2D"
    closes = False


@dataclass(frozen=True)
class Torus2D(Grid):
    """Rows and columns are rings: ``Torus2D(4,4)``; a side of two has one link."""

    name = "Torus2D"
    closes = True


# --- blocks of one size ---------------------------------------------------------------------------


class Ring(Block):
    """Two links of half an NPU's bandwidth; on a ring of two NPUs one link of all of it."""

    name = "Ring"
    algorithms = ("ring",)
    all_to_all = "relay"
    hops = 1
    sends_concurrently = False
    parts = ()

    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        """``stride`` interleaved groups share every link; unless the group closes the ring it is a
        line, which has one of the two directions for its one logical direction."""
        if p * stride == n:
            return LinkUse(1 / stride, stride, stride, stride)
        return LinkUse(1 / (2 * stride), stride, (p - 1) * stride, stride)

    def message_path(self, n: int, offset: int) -> MessagePath:
        """The shorter way round, on one of the links."""
        return MessagePath(1 / self.links(n), min(offset, n - offset))

    def entrance(self, n: int, offset: int, senders: Senders) -> int:
        """From below, where both ways are as short, too."""
        return int(offset > n - offset)

    def link_load(self, n: int, offset: int, senders: Senders) -> int:
        """Messages cross the links of those between their ends."""
        hops = min(offset, n - offset)  # those that pass an NPU are ``hops`` neighbours'
        return int(np.sum([np.roll(senders, k, axis=1) for k in range(hops)], axis=0).max())

    def closes_ring(self, n: int, p: int, stride: int) -> bool:
        """A group that goes all round; two NPUs are joined by one link."""
        return p * stride == n > 2

    def links(self, n: int) -> int:
        return min(2, n - 1)

    def wire(self, npus: range, place: str) -> Iterator[Pair]:
        """Each NPU to its next and its previous; of two NPUs those are the same, and one link."""
        for i, npu in enumerate(npus):
            yield npu, npus[(i + 1) % len(npus)]
            if len(npus) > 2:
                yield npu, npus[i - 1]

    def cut(self, n: int) -> float:
        """Two links of b/2, or one of b on a ring of two."""
        return 1.0


class FullyConnected(Block):
    """n - 1 links of equal shares of an NPU's bandwidth."""

    name = "FullyConnected"
    algorithms = ("direct",)
    all_to_all = "direct"
    hops = 1
    sends_concurrently = True
    is_symmetric = True
    parts = ()

    def link_use(self, n: int, p: int, stride: int) -> LinkUse:
        """The links to the group's other members."""
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
        """floor(n/2) * ceil(n/2) links of b/(n-1)."""
        return (n // 2) * (n - n // 2) / (n - 1)


class Switch(Block):
    """One link of an NPU's whole bandwidth, and two hops to any other NPU."""

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
        """The NPU's port, whatever the group."""
        return LinkUse(1.0, 2, 2)

    def message_path(self, n: int, offset: int) -> MessagePath:
        return MessagePath(1.0, 2)

    def entrance(self, n: int, offset: int, senders: Senders) -> int:
        """The one link from the switch."""
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
        """What the ports of the smaller half carry."""
        return float(n // 2)


BLOCKS: Registry[Block] = Registry("block")  # by the name in shapes
# Those of two sides, ``Mesh2D(5,4)``; a grid of every size is a block of its own.
GRIDS: dict[str, type[Grid]] = {grid.name: grid for grid in (Mesh2D, Torus2D)}


def register(*blocks: Block) -> None:
    """Let shapes such as ``Ring(4)`` name the blocks.

    Raises :class:`DimsweepError` for a name that another block has, whatever its case.
    """
    for block in blocks:
        taken = {name.lower(): other for name, other in BLOCKS.items()}.get(block.name.lower())
        if taken is not None and taken != block:
            raise DimsweepError(
                f"two blocks are called {block.name}: {type(taken).__qualname__} and "
                f"{type(block).__qualname__}",
                where="blocks",
            )
        BLOCKS[block.name] = block


register(Ring(), FullyConnected(), Switch())
