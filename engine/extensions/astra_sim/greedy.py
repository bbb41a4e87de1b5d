"""Themis as ASTRA-sim has it: each chunk visits the least loaded dimension first."""

from collections.abc import Sequence

from dimsweep.engine.extensions.astra_sim.algorithms import ALL_GATHER, ALL_TO_ALL
from dimsweep.engine.extensions.astra_sim.clock import Clock
from dimsweep.engine.formats.astra_sim.inputs import Network
from dimsweep.engine.kinds import CollectiveKind

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
