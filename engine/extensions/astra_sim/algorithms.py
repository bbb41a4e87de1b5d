"""ASTRA-sim's collectives: routes of chunks through dimensions, and algorithms in one dimension.

An algorithm runs on one NPU with packets, timers and messages.  A packet is inserted at the start
(up to the number that may be in flight) and for every message that arrives.  It waits for the
endpoint delay, then perhaps for a reduction, and then a message may be sent.  All divisions are of
whole numbers, as in ASTRA-sim.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.links import Bus, Clock
from dimsweep.engine.formats.astra_sim import Network, System, key_of
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.coordinates import line

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL = CollectiveKind


class Port(Protocol):
    """The NPU's interface that an algorithm uses: timers and messages."""

    @property
    def rank(self) -> int: ...

    def wait(self, delay: int, call: Callable[[], None]) -> None:
        """Call ``call`` after ``delay`` ns."""

    def exchange(
        self, target: int, source: int, n_bytes: int, received: Callable[[], None]
    ) -> None:
        """Send ``n_bytes`` to ``target``; call ``received`` when as many came from ``source``."""


class Trip(NamedTuple):
    """A packet's trip between NPU and memory: its direction, and whether it is reduced or returns.

    ``out``: it leaves the NPU. ``processed``: it is reduced. ``back``: it returns.
    """

    out: bool = False
    processed: bool = False
    back: bool = False


@dataclass(frozen=True)
class Costs:
    """The delays of each packet of a phase, in ns."""

    endpoint: int  # ns before every packet
    reduction: Callable[[int], int]  # ns by bytes
    flat: bool  # the members are a communicator group
    bus: Bus | None = None  # replaces the endpoint delay


def cross(port: Port, costs: Costs, n_bytes: int, call: Callable[[], None], trip: Trip) -> None:
    """Move a packet between NPU and memory, reduce it if ``trip`` says so, then call ``call``."""

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
    """Return the bytes that a member holds after a phase among ``n``, given those before."""
    if kind == REDUCE_SCATTER:
        return n_bytes // n
    return n_bytes * n if kind == ALL_GATHER else n_bytes


class Exchange:
    """The ring, direct and halving-doubling algorithms, which differ in peers and sizes only."""

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
                    f"halvingDoubling runs on {n} NPUs; the number must be a power of 2",
                    where=f"system.json: {key_of(kind)}",
                    hint="use direct or ring; dimsweep's halving_doubling supports any number",
                    code="unsupported",
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
        """Return the target, the source and the size of the next packet."""
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
        """Set the next packet's distance and size (halving-doubling)."""
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
    """A :class:`Port` that can also send without receiving, and receive without sending."""

    def send(self, target: int, n_bytes: int) -> None: ...

    def receive(self, source: int, n_bytes: int, received: Callable[[], None]) -> None: ...


class DoubleBinaryTree:
    """An all-reduce that sends all bytes up and down one of two in-order binary trees."""

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
            self._cross(self._send_up, Trip(out=True))
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
            self._send_up()

    def _send_up(self) -> None:
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
    """Return a member's parent and children in an in-order tree of 1..n-1 below root 0.

    ``n`` must be a power of 2.
    """
    if place == 0:
        return None, [n // 2]
    bit = place & -place
    above = (place ^ bit) | (bit << 1)
    parent = above if above < n else 0
    return parent, [place - bit // 2, place + bit // 2] if bit > 1 else []


# --- the order of dimensions: Themis visits the least loaded one first ---------------------------


FLEX = "offlineGreedyFlex"
GREEDY = ("themis", "offlineGreedy", FLEX)


class Greedy:
    """Themis ("OfflineGreedy") and its Flex variant: orders of dimensions by load.

    NPU 0 keeps the loads of the dimensions for all NPUs.
    """

    def __init__(self, clock: Clock, network: Network, *, flex: bool) -> None:
        self._clock, self._flex = clock, flex
        self._sizes, self._bandwidth = network.sizes, network.gigabytes
        self._loads = [(0.0, d) for d in range(len(network.sizes))]
        self._last = 0
        self._known: dict[int, tuple[list[int], int]] = {}

    def new_collective(self, rank: int) -> None:
        """Reset the loads if NPU 0 (``rank``) begins a collective at a new tick."""
        if rank == 0 and self._last != self._clock.now:
            self._last = self._clock.now
            self._loads = [(0.0, d) for d in range(len(self._sizes))]

    def order(
        self, number: int, kind: CollectiveKind, involved: Sequence[int], whole: int, remaining: int
    ) -> tuple[list[int], int]:
        """Return the order of dimensions for chunk ``number``, and the chunk's bytes."""
        if number not in self._known:
            self._known[number] = self._schedule(kind, involved, whole, remaining)
        return self._known[number]

    def _schedule(
        self, kind: CollectiveKind, involved: Sequence[int], whole: int, remaining: int
    ) -> tuple[list[int], int]:
        gathers = kind == ALL_GATHER
        loads = sorted(self._loads, key=lambda entry: entry[0])
        if gathers:
            loads.reverse()
        dims = [d for _, d in loads if d in involved]
        size = min(remaining, whole)
        difference = self._difference(gathers, loads, dims)
        threshold = whole if self._flex else whole // 16
        if difference < threshold:
            dims.sort()
            loads.sort(key=lambda entry: entry[1], reverse=gathers)
            added = self._added(kind, dims, size if self._flex else whole)
            # By position: for an all-gather a dimension's bytes are put on its mirror image.
            self._loads = [(load + added[m], d) for m, (load, d) in enumerate(loads)]
            return dims, size
        if self._flex:
            size = min(remaining, difference)
        added = self._added(kind, dims, difference if self._flex else whole)
        self._loads = [(load + added[d], d) for load, d in loads]
        return dims, size

    def _difference(
        self, gathers: bool, loads: list[tuple[float, int]], dims: Sequence[int]
    ) -> int:
        """Return the bytes of a chunk that would balance the ``loads`` of the dimensions."""
        by_dim = {d: load for load, d in loads}
        first = dims[0]
        last_load = loads[-1][0]
        relative = [b / self._bandwidth[0] for b in self._bandwidth]
        if not gathers:
            n = self._sizes[first]
            gap = abs(last_load - by_dim[first])
            return int(gap * relative[first] / ((n - 1) / n) * 2**20)
        y = dims[-1]
        gap = abs(last_load - by_dim[first])
        bytes_ = int(gap * relative[y] / (self._sizes[y] - 1) * 2**20)
        places = [d for _, d in loads]
        for d in places[places.index(first) : places.index(y)]:
            if d in dims:
                bytes_ //= self._sizes[d]
        return bytes_

    def _added(self, kind: CollectiveKind, order: Sequence[int], size: int) -> list[float]:
        """Return the load that a chunk of ``size`` bytes adds by dimension; 0 for all-to-alls."""
        added = [0.0] * len(self._sizes)
        if kind == ALL_TO_ALL:
            return added
        for d in order:
            n = self._sizes[d]
            share = (n - 1) if kind == ALL_GATHER else (n - 1) / n
            added[d] = size / 2**20 * share / (self._bandwidth[d] / self._bandwidth[0])
            size = size * n if kind == ALL_GATHER else size // n
        return added


State = tuple[frozenset[tuple[tuple[int, str], int]], int]


class Phase(NamedTuple):
    """One phase of a chunk in dimension ``dim``.

    ``dim`` -1 stands for a communicator group, or for all NPUs as one dimension.
    """

    dim: int
    queue: int
    kind: CollectiveKind
    algorithm: str
    n_bytes: int
    n: int
    clockwise: bool


class Chunk(NamedTuple):
    """The phases of a chunk, and the members of each; a custom collective's chunk has its trace."""

    phases: tuple[Phase, ...]
    ranks: tuple[Sequence[Any], ...]


class Allocator:
    """Round-robin allocation of a dimension's queues, separate for three kinds of use."""

    def __init__(self, per_dim: int) -> None:
        self._per_dim = per_dim
        self._next: dict[tuple[int, str], int] = {}  # where it is not the first

    @property
    def state(self) -> frozenset[tuple[tuple[int, str], int]]:
        return frozenset(self._next.items())

    def take(self, dim: int, use: str) -> tuple[int, bool]:
        """Return the next queue for ``use`` (any, first, last), and whether rings go clockwise."""
        q = self._per_dim
        low, high = 0, q
        if q > 1 and use != "any":
            low, high = (0, q // 2) if use == "first" else (q // 2, q)
        k = self._next.get((dim, use), low)
        self._next.pop((dim, use), None)
        if k + 1 < high:
            self._next[dim, use] = k + 1
        clockwise = use == "first" if use != "any" else q == 1 or k < q // 2
        return dim * q + k, clockwise


class Planner:
    """Planner of the chunks and phases of one NPU's collectives, over all or some dimensions."""

    def __init__(
        self, rank: int, system: System, network: Network, per_dim: int, greedy: Greedy
    ) -> None:
        self._rank = rank
        self._system, self._network, self._greedy = system, network, greedy
        self._queues = Allocator(per_dim)
        self._turn = 0  # of round-robin
        self._n_streams = 0

    @property
    def state(self) -> State:
        """The state that determines the next collective's chunks, without Themis' loads."""
        return self._queues.state, self._turn

    def chunks(self, kind: CollectiveKind, size: int, involved: Sequence[bool]) -> Iterator[Chunk]:
        """Yield the chunks of a collective of ``size`` bytes over the ``involved`` dimensions."""
        names = self._algorithms(kind)
        if len(names) == 1 and names[0].startswith("one"):
            algorithm = names[0][3].lower() + names[0][4:]
            for flat in self._flat(kind, algorithm, size, range(self._network.n_npus)):
                self._n_streams += 1
                yield flat
            return
        dims = [
            d
            for d in range(min(len(names), len(self._network.sizes)))
            if d < len(involved) and involved[d] and self._network.sizes[d] > 1
        ]
        chunk, remaining = self._cut(kind, size)
        greedy = self._system.inter_dimension in GREEDY
        if greedy:
            self._greedy.new_collective(self._rank)
        while remaining > 0 and dims:
            n_bytes, order = chunk, list(dims)
            if greedy:
                scatter = REDUCE_SCATTER if kind == ALL_REDUCE else kind
                order, n_bytes = self._greedy.order(
                    self._n_streams, scatter, dims, chunk, remaining
                )
            elif self._system.inter_dimension == "roundRobin":
                n = len(self._network.sizes)
                turned = [(d + self._turn) % n for d in range(n)]
                order = [d for d in turned if d in dims]
                self._turn = (self._turn + 1) % n
            if kind == ALL_GATHER and not greedy:
                order = order[::-1]
            phases = self._phases(kind, n_bytes, order, names, greedy)
            yield Chunk(phases, tuple(self._line(phase.dim) for phase in phases))
            self._n_streams += 1
            remaining = max(0, remaining - n_bytes)

    def group_chunks(
        self, kind: CollectiveKind, size: int, ranks: Sequence[int]
    ) -> Iterator[Chunk]:
        """Yield the chunks of a collective over a communicator group, as one flat dimension."""
        names = self._system.algorithms[kind]
        if len(ranks) > 1:
            yield from self._flat(kind, names[0] if len(names) == 1 else "ring", size, ranks)

    def custom_chunk(self, kind: CollectiveKind, trace: Sequence[Any]) -> Chunk:
        """Return the only chunk of a custom collective of any size."""
        queue, clockwise = self._queues.take(0, "any")
        phase = Phase(-1, queue, kind, "custom", 0, self._network.n_npus, clockwise)
        return Chunk((phase,), (trace,))

    def _cut(self, kind: CollectiveKind, size: int) -> tuple[int, int]:
        """Return the bytes of one chunk, and the bytes of all chunks."""
        splits = self._system.splits
        chunk = size // splits
        if kind != ALL_GATHER and self._network.n_npus > chunk:
            return self._network.n_npus, splits * self._network.n_npus
        return max(1, chunk), size

    def _line(self, dim: int) -> Sequence[int]:
        return line(self._rank, self._network.sizes, dim)

    def _algorithms(self, kind: CollectiveKind) -> tuple[str, ...]:
        names = self._system.algorithms[kind]
        if not names:
            raise DimsweepError(
                f"no algorithm for {kind}", where=f"system.json: {key_of(kind)}", code="missing"
            )
        if len(names) > len(self._network.sizes):
            raise DimsweepError(
                f"{len(names)} algorithms for {len(self._network.sizes)} dimensions",
                where=f"system.json: {key_of(kind)}",
                code="mismatch",
            )
        return names

    def _flat(
        self, kind: CollectiveKind, algorithm: str, size: int, ranks: Sequence[int]
    ) -> Iterator[Chunk]:
        chunk, total = self._cut(kind, size)
        for _ in range(0, total, chunk):
            queue, clockwise = self._queues.take(0, "any")
            phase = Phase(-1, queue, kind, algorithm, chunk, len(ranks), clockwise)
            yield Chunk((phase,), (ranks,))

    def _phases(
        self,
        kind: CollectiveKind,
        n_bytes: int,
        order: list[int],
        names: Sequence[str],
        greedy: bool,
    ) -> tuple[Phase, ...]:
        steps: list[tuple[int, CollectiveKind, str]]  # dimension, kind, use
        if kind != ALL_REDUCE or self._system.optimization == "baseline":
            steps = [(d, kind, "any") for d in order]
        elif greedy:
            steps = [(d, REDUCE_SCATTER, "first") for d in order]
            steps += [(d, ALL_GATHER, "last") for d in reversed(order)]
        else:
            steps = [(d, REDUCE_SCATTER, "first") for d in order[:-1]]
            steps.append((order[-1], ALL_REDUCE, "first"))
            steps += [(d, ALL_GATHER, "last") for d in reversed(order[:-1])]
        phases, held = [], n_bytes
        for d, part, use in steps:
            queue, clockwise = self._queues.take(d, use)
            n = self._network.sizes[d]
            phases.append(Phase(d, queue, part, names[d], held, n, clockwise))
            if part != ALL_TO_ALL:
                held = final_size(part, held, n)
        return tuple(phases)
