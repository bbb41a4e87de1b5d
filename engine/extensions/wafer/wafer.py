"""What every wafer knows about itself."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.wafer.io import IoTree, Load, Route, line_share, load_of, load_tree
from dimsweep.engine.extensions.wafer.plan import Line, WaferPlan, at
from dimsweep.engine.extensions.wafer.tree import Tree
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import Routing
from dimsweep.engine.topology.blocks import Node


class Wafer(ABC):
    """NPUs and I/O controllers on one fabric.

    Ranks are placed in the order of the NPUs unless :meth:`plan` says otherwise; NPUs beyond them
    are idle.  ``io`` is the line rate of a controller (bytes/s) and ``latency`` that of a link
    (ps).  A controller sends, or takes, its part of what goes through all of them in so many
    ``pieces``, at least four of them at a time.  ``multicasts`` says whether what the members of a
    group load alike goes to their NPUs only, or is broadcast to all of the wafer, as in FRED's
    paper.  ``preempts`` says whether a message that is under way on a link is suspended there for
    one that goes before it.
    """

    latency: int
    io: float
    pieces: int
    multicasts: bool
    preempts: bool

    @property
    @abstractmethod
    def n_npus(self) -> int:
        """How many NPUs there are."""

    @property
    @abstractmethod
    def rings(self) -> tuple[int, int, bool] | None:
        """The two-level rings of an all-reduce among all NPUs: members of an inner ring, of an
        outer one, and whether half of the bytes goes the other way about; ``None`` where switches
        reduce."""

    @property
    @abstractmethod
    def routing(self) -> Routing:
        """How messages find their way where nothing else is said."""

    @abstractmethod
    def io_routes(self, npus: Sequence[int]) -> Sequence[Sequence[Sequence[Route]]]:
        """Of each I/O controller, the ways that its pieces take in turn: the routes of each to the
        ``npus``, in their order.  Routes may be one as long as they begin alike."""

    def io_trees(self, npus: Sequence[int]) -> Sequence[Sequence[IoTree]]:
        """Of each I/O controller, the trees of those ways."""
        network = self.network
        return [[load_tree(network, routes) for routes in ways] for ways in self.io_routes(npus)]

    @cached_property
    def streams(self) -> Sequence[Load]:
        """What each I/O controller puts on the links when it broadcasts to all NPUs."""
        trees = self.io_trees(range(self.n_npus))
        return [load_of(self.network, ways) for ways in trees]

    @abstractmethod
    def trees(self, lines: Sequence[tuple[int, ...]]) -> Mapping[frozenset[int], Tree]:
        """By its members, the switches that reduce for each of the ``lines`` of NPUs, which run
        their collectives at once; none on a fabric that does not reduce.

        Raises :class:`DimsweepError` for lines that it cannot route.
        """

    def places(self, sizes: Sequence[int]) -> Sequence[int]:
        """The NPU of each rank, where ranks form groups of ``sizes[0]``, and these groups again."""
        return range(math.prod(sizes))

    def plan(self, sets: Sequence[Sequence[Line]], sizes: Sequence[int]) -> WaferPlan:
        """Where ranks are (see :meth:`places`), and the :meth:`trees` of each of ``sets`` of lines
        of ranks, which run their collectives at once."""
        places = self.places(sizes)
        return WaferPlan(places, tuple((self.trees(at(lines, places)),) for lines in sets))

    @abstractmethod
    def bisection(self) -> float:
        """Bytes/s, one way, over the narrowest cut into halves (as equal as can be)."""

    @cached_property
    @abstractmethod
    def network(self) -> Network:
        """Its links."""

    @cached_property
    def io_share(self) -> float:
        """The share of their line rate at which all I/O controllers can broadcast at once."""
        return line_share(self.network, self.streams, self.io)

    @property
    def stream_bandwidth(self) -> float:
        """Bytes/s at which every NPU sees the broadcasts of all I/O controllers come."""
        return len(self.streams) * self.io * self.io_share

    def check_ranks(self, n_ranks: int) -> None:
        """Raise :class:`DimsweepError` unless the wafer has room for so many ranks."""
        if n_ranks > self.n_npus:
            raise DimsweepError(
                f"{n_ranks} NPUs do not fit a wafer of {self.n_npus}",
                where="topology.shape",
                hint=f"{self.n_npus} or fewer; those beyond are idle",
            )


Edge = tuple[Node, Node, dict[str, Any]]  # as networkx takes them


def both(one: Node, other: Node, bandwidth: float, latency: int) -> list[Edge]:
    """A link each way."""
    attributes: dict[str, Any] = {"bandwidth": float(bandwidth), "latency": int(latency)}
    return [(one, other, attributes), (other, one, attributes)]


def check_positive(of: object, *keys: str) -> None:
    """Raise :class:`DimsweepError` naming the attribute among ``keys`` that is no amount."""
    for key in keys:
        if not 0 < getattr(of, key) < float("inf"):
            raise DimsweepError(f"{getattr(of, key):g}; it must be more than zero", where=key)
