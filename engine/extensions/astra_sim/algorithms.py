"""ASTRA-sim's collective algorithms as they run on one NPU: packets, timers, messages.

A packet is inserted at the start (as many as may be in flight) and for every message that arrives.
It waits for the endpoint delay, then perhaps for a reduction, and then a message may be sent.  All
divisions are of whole numbers, as there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.links import Bus
from dimsweep.engine.formats.astra_sim import key_of
from dimsweep.engine.kinds import CollectiveKind

if TYPE_CHECKING:
    from dimsweep.engine.extensions.astra_sim.chunks import Phase

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL = CollectiveKind


class Port(Protocol):
    """What an algorithm needs of its NPU."""

    @property
    def rank(self) -> int: ...

    def wait(self, delay: int, call: Callable[[], None]) -> None:
        """Call back in ``delay`` ns."""

    def exchange(
        self, target: int, source: int, n_bytes: int, received: Callable[[], None]
    ) -> None:
        """Send a message, and expect one of the same size."""


class Trip(NamedTuple):
    """How a packet goes: ``out`` of the NPU or into it, reduced there or not, and back or not."""

    out: bool = False
    processed: bool = False
    back: bool = False


@dataclass(frozen=True)
class Costs:
    """``endpoint`` ns before every packet; ``reduction`` ns for as many bytes.  ``flat``: the
    members are a communicator group."""

    endpoint: int
    reduction: Callable[[int], int]
    flat: bool
    bus: Bus | None = None  # in the endpoint delay's place


def cross(port: Port, costs: Costs, n_bytes: int, call: Callable[[], None], trip: Trip) -> None:
    """Take a packet between NPU and memory, and reduce it if it is to be."""

    def reduce() -> None:
        port.wait(costs.reduction(n_bytes), call)

    then = reduce if trip.processed else call
    if costs.bus is None:
        port.wait(costs.endpoint, then)
    elif trip.out:
        costs.bus.send(n_bytes, then)
    else:
        costs.bus.receive(n_bytes, then, processed=trip.processed, back=trip.back)


def final_size(kind: CollectiveKind, n_bytes: int, n: int) -> int:
    """What is left of ``n_bytes`` after a phase among ``n``."""
    if kind == REDUCE_SCATTER:
        return n_bytes // n
    return n_bytes * n if kind == ALL_GATHER else n_bytes


class Exchange:
    """Ring, direct and halving-doubling: the same machine with other peers and sizes."""

    def __init__(
        self,
        port: Port,
        costs: Costs,
        phase: "Phase",
        ranks: Sequence[int],
        *,
        done: Callable[[], None],
    ) -> None:
        kind, algorithm, n_bytes = phase.kind, phase.algorithm, phase.n_bytes
        self._port, self._costs, self._kind, self._done = port, costs, kind, done
        self._ranks, self._n = ranks, len(ranks)
        self._me = ranks.index(port.rank)
        self._algorithm = algorithm
        self._step = 1 if phase.clockwise else -1
        n = self._n
        self._parallel = 1
        self._left = (n - 1) * (2 if kind == ALL_REDUCE else 1)
        self._message = n_bytes if kind == ALL_GATHER else n_bytes // n
        if algorithm == "ring" and kind == ALL_TO_ALL:
            self._left = n * (n - 1) // 2
        self._slow = n - 1
        if algorithm.startswith("direct"):
            window = int(algorithm[6:] or n - 1)
            self._parallel = min(window, n - 1)
            self._slow = self._parallel * ((n - 1) if costs.flat else 1)
        elif algorithm == "halvingDoubling":
            if n & (n - 1):
                raise DimsweepError(
                    f"halvingDoubling among {n} NPUs, which is no power of two",
                    where=f"system.json: {key_of(kind)}",
                    hint="direct or ring; dimsweep's own halving_doubling takes any number",
                )
            levels = n.bit_length() - 1
            self._left = levels * (2 if kind == ALL_REDUCE else 1)
            self._slow = levels - 1
            self._offset, self._grow = (n // 2, False) if kind == ALL_GATHER else (1, True)
            self._message = n_bytes if kind == ALL_GATHER else n_bytes // 2
        self._n_left, self._slow_left, self._toggle = 0, 0, False
        self._free, self._peer = 0, 0
        self._received = 0
        self._packets: list[tuple[int, int, int]] = []  # target, source, bytes
        self._over = False

    def start(self) -> None:
        for _ in range(self._parallel):
            self._insert()

    def _insert(self) -> None:
        if self._n_left == 0 and self._slow_left == 0:
            self._n_left, self._slow_left = self._parallel, self._slow
            self._toggle = not self._toggle
        target, source, n_bytes = self._next_packet()
        self._packets.append((target, source, n_bytes))
        if self._n_left > 0:
            self._n_left -= 1
            trip = Trip(out=True)
        else:
            processed = self._kind == REDUCE_SCATTER or (self._kind == ALL_REDUCE and self._toggle)
            trip = Trip(processed=processed, back=self._slow_left > self._parallel)
            self._slow_left -= 1
        cross(self._port, self._costs, n_bytes, self._general, trip)

    def _next_packet(self) -> tuple[int, int, int]:
        """Whom the next packet goes to, whom one comes from, and its size."""
        ranks, n, me = self._ranks, self._n, self._me
        if self._algorithm == "ring":
            return ranks[(me + self._step) % n], ranks[(me - self._step) % n], self._message
        if self._algorithm != "halvingDoubling":
            # The peer moves on after every packet, and skips this NPU.
            self._peer = self._peer % (n - 1) + 1
            offset = self._peer * self._step
            return ranks[(me + offset) % n], ranks[(me - offset) % n], self._message
        offset, n_bytes = self._offset, self._message
        peer = ranks[(me + (offset if (me // offset) % 2 == 0 else -offset)) % n]
        self._advance()
        return peer, peer, n_bytes

    def _advance(self) -> None:
        """Halving-doubling: the next packet's distance and size."""
        if self._kind == ALL_GATHER:
            self._offset //= 2
            self._message *= 2
        elif self._grow:
            self._offset *= 2
            self._message //= 2
            if self._offset == self._n and self._kind == ALL_REDUCE:
                self._offset, self._grow = self._offset // 2, False
                self._message *= 2  # a byte lost to the halving stays lost
        else:
            self._offset //= 2
            self._message *= 2
        self._offset = max(self._offset, 1)

    def _general(self) -> None:
        self._free += 1
        if (
            self._algorithm.startswith("direct")
            and self._kind == ALL_REDUCE
            and self._left <= self._n - 1
        ):
            # The second half begins when all of the first has come.
            if self._received < self._n - 1:
                return
            for _ in range(self._parallel):
                self._try_to_send()
        else:
            self._try_to_send()
        if self._left == 0 and self._free == self._parallel and not self._over:
            self._over = True
            self._done()

    def _try_to_send(self) -> None:
        if self._packets and self._left > 0 and self._free > 0:
            target, source, n_bytes = self._packets.pop(0)
            self._left -= 1
            self._free -= 1
            self._port.exchange(target, source, n_bytes, self._receive)

    def _receive(self) -> None:
        self._received += 1
        self._insert()


class OneWayPort(Port, Protocol):
    """A port that also sends without expecting anything, and the other way round."""

    def send(self, target: int, n_bytes: int) -> None: ...

    def receive(self, source: int, n_bytes: int, received: Callable[[], None]) -> None: ...


class DoubleBinaryTree:
    """All bytes up and down one of two in-order trees; whatever the kind, an all-reduce."""

    def __init__(
        self,
        port: OneWayPort,
        costs: Costs,
        n_bytes: int,
        ranks: Sequence[int],
        *,
        root_is_last: bool,
        done: Callable[[], None],
    ) -> None:
        self._port, self._costs, self._n_bytes, self._done = port, costs, n_bytes, done
        n, me = len(ranks), ranks.index(port.rank)
        parent, children = _tree_place(n, n - 1 - me if root_is_last else me)
        if root_is_last:
            parent = None if parent is None else n - 1 - parent
            children = [n - 1 - child for child in reversed(children)]
        self._parent = None if parent is None else ranks[parent]
        self._children = [ranks[child] for child in children]
        self._arrived, self._missing = 0, len(children)

    def start(self) -> None:
        if not self._children:
            self._cross(self._up, Trip(out=True))
        for child in self._children:
            self._port.receive(child, self._n_bytes, self._from_child)

    def _from_child(self) -> None:
        self._arrived += 1
        last = self._arrived == len(self._children)
        self._cross(self._one_less, Trip(processed=True, back=last))

    def _one_less(self) -> None:
        self._missing -= 1
        if self._missing:
            return
        if self._parent is None:
            self._down()
        else:
            self._up()

    def _up(self) -> None:
        assert self._parent is not None
        self._port.send(self._parent, self._n_bytes)
        self._port.receive(self._parent, self._n_bytes, self._from_parent)

    def _from_parent(self) -> None:
        if self._children:
            self._cross(self._down, Trip(processed=True, back=True))
        else:
            self._cross(self._done, Trip())

    def _down(self) -> None:
        for child in self._children:
            self._port.send(child, self._n_bytes)
        self._done()

    def _cross(self, call: Callable[[], None], trip: Trip) -> None:
        cross(self._port, self._costs, self._n_bytes, call, trip)


def _tree_place(n: int, place: int) -> tuple[int | None, list[int]]:
    """Parent and children in an in-order tree of 1..n-1 under the root 0; n is a power of two."""
    if place == 0:
        return None, [n // 2]
    bit = place & -place
    above = (place ^ bit) | (bit << 1)
    parent = above if above < n else 0
    return parent, [place - bit // 2, place + bit // 2] if bit > 1 else []
