"""Themis as ASTRA-sim has it: each chunk visits the least loaded dimension first."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.algorithms import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    REDUCE_SCATTER,
    final_size,
)
from dimsweep.engine.extensions.astra_sim.links import Clock
from dimsweep.engine.formats.astra_sim import Network, System, key_of
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.coordinates import line

FLEX = "offlineGreedyFlex"
GREEDY = ("themis", "offlineGreedy", FLEX)


class Greedy:
    """Themis ("OfflineGreedy") and its Flex variant: loads that NPU 0 keeps for all."""

    def __init__(self, clock: Clock, network: Network, *, flex: bool) -> None:
        self._clock, self._flex = clock, flex
        self._sizes, self._bandwidth = network.sizes, network.gigabytes
        self._loads = [(0.0, d) for d in range(len(network.sizes))]
        self._last = 0
        self._known: dict[int, tuple[list[int], int]] = {}

    def new_collective(self, rank: int) -> None:
        """Loads persist only within a tick, which only NPU 0's own collectives begin."""
        if rank == 0 and self._last != self._clock.now:
            self._last = self._clock.now
            self._loads = [(0.0, d) for d in range(len(self._sizes))]

    def order(
        self, number: int, kind: CollectiveKind, involved: Sequence[int], whole: int, remaining: int
    ) -> tuple[list[int], int]:
        """The dimensions in the order in which chunk ``number`` visits them, and its bytes."""
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
        """Bytes that would make up for the difference of the loads."""
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
        """The load that a chunk of ``size`` bytes puts on each dimension; an all-to-all none."""
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
    """One phase of a chunk.  ``dim`` -1 stands for a flat group (or all NPUs as one dimension)."""

    dim: int
    queue: int
    kind: CollectiveKind
    algorithm: str
    n_bytes: int
    n: int
    clockwise: bool


class Chunk(NamedTuple):
    """The phases of a chunk, and who takes part in each (in a custom one's place, its trace)."""

    phases: tuple[Phase, ...]
    ranks: tuple[Sequence[Any], ...]


class Allocator:
    """Round-robin over the queues of a dimension, separately for three kinds of use."""

    def __init__(self, per_dim: int) -> None:
        self._per_dim = per_dim
        self._next: dict[tuple[int, str], int] = {}  # where it is not the first

    @property
    def state(self) -> frozenset[tuple[tuple[int, str], int]]:
        return frozenset(self._next.items())

    def take(self, dim: int, use: str) -> tuple[int, bool]:
        """The next queue for ``use`` (any, first, last), and whether rings go clockwise in it."""
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
    """The chunks of one NPU's collectives over all (or some) dimensions."""

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
        """What the next collective's chunks depend on, beside Themis' loads."""
        return self._queues.state, self._turn

    def chunks(self, kind: CollectiveKind, size: int, involved: Sequence[bool]) -> Iterator[Chunk]:
        """Cut and plan a collective of ``size`` bytes over the ``involved`` dimensions."""
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
        """Cut and plan a collective of a communicator group: always one flat dimension."""
        names = self._system.algorithms[kind]
        if len(ranks) > 1:
            yield from self._flat(kind, names[0] if len(names) == 1 else "ring", size, ranks)

    def custom_chunk(self, kind: CollectiveKind, trace: Sequence[Any]) -> Chunk:
        """A custom collective's only chunk, whatever the size."""
        queue, clockwise = self._queues.take(0, "any")
        phase = Phase(-1, queue, kind, "custom", 0, self._network.n_npus, clockwise)
        return Chunk((phase,), (trace,))

    def _cut(self, kind: CollectiveKind, size: int) -> tuple[int, int]:
        """Bytes of a chunk, and of all of them."""
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
            raise DimsweepError(f"no algorithm for {kind}", where=f"system.json: {key_of(kind)}")
        if len(names) > len(self._network.sizes):
            raise DimsweepError(
                f"{len(names)} algorithms for {len(self._network.sizes)} dimensions",
                where=f"system.json: {key_of(kind)}",
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
