"""What every building block of a network dimension knows about itself."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class Way(NamedTuple):
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
    def side_by_side(self) -> bool:
        """Whether an NPU sends to several others at once, on links of their own; otherwise one
        message after another leaves through the same port."""

    @property
    def symmetric(self) -> bool:
        """Whether NPUs may change places: each is as far from all others."""
        return False

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """What an NPU pays for beside a link of its whole bandwidth."""

    @abstractmethod
    def use(self, n: int, p: int, stride: int) -> LinkUse:
        """The links that a group of ``p`` members can physically use."""

    @abstractmethod
    def way(self, n: int, offset: int) -> Way:
        """The links of a message to the NPU ``offset`` coordinates further on, modulo ``n``."""

    def entrance(self, n: int, offset: int, senders: Senders) -> int | None:
        """On which of its target's links a message comes that ``senders`` send to the NPU
        ``offset`` coordinates further on, a number below ``ENTRANCES``; None where it is a link
        that no other NPU sends on.  ``senders``, shape (lines, n), says which NPUs of each of
        several such blocks do."""
        return None

    def crowd(self, n: int, offset: int, senders: Senders) -> int:
        """How many messages the busiest link carries when all ``senders`` send one at once, each
        ``offset`` coordinates further on; 1 where NPUs have links of their own.
        """
        return 1

    @abstractmethod
    def circles(self, n: int, p: int, stride: int) -> bool:
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

    def use_under(self, policy: SubgroupBandwidth, n: int, p: int, stride: int) -> LinkUse:
        """The links of a group: its own, or under ``FULL`` all of the NPU's bandwidth."""
        if policy is SubgroupBandwidth.FULL:
            return LinkUse(1.0, self.hops, self.hops)
        return self.use(n, p, stride)

    def way_under(self, policy: SubgroupBandwidth, n: int, offset: int) -> Way:
        """The links of a message: its own, or under ``FULL`` all of the NPU's bandwidth."""
        way = self.way(n, offset)
        return way._replace(share=1.0) if policy is SubgroupBandwidth.FULL else way
