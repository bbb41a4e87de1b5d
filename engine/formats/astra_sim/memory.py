"""ASTRA-sim's remote memory: per NPU, per node or one pool, first in first out."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable

from engine.errors import DimsweepError
from engine.formats.astra_sim.inputs import RemoteMemory
from engine.formats.astra_sim.npu import Npu


class Memory:
    """Serves accesses; those to one place wait for one another."""

    def __init__(self, config: RemoteMemory) -> None:
        self._config = config
        self._busy: set[int] = set()
        self._waiting: dict[int, deque[tuple[Npu, int, Callable[[], None]]]] = defaultdict(deque)

    def access(self, npu: Npu, n_bytes: int, done: Callable[[], None]) -> None:
        """Call ``done`` when ``n_bytes`` have been read or written."""
        if self._config.kind == "NO_MEMORY_EXPANSION":
            raise DimsweepError(
                f"rank {npu.rank} uses remote memory, and there is none",
                where="memory.json: memory-type",
                hint="PER_NPU_MEMORY_EXPANSION, PER_NODE_MEMORY_EXPANSION or MEMORY_POOL",
            )
        duration = int(self._config.latency + int(n_bytes / self._config.bandwidth))
        if self._config.kind == "PER_NPU_MEMORY_EXPANSION":
            npu.timers.register(duration, done)
            return
        pool = self._config.kind == "MEMORY_POOL"
        place = 0 if pool else npu.rank // self._config.npus_per_node
        self._waiting[place].append((npu, duration, done))
        if place not in self._busy:
            self._serve(place)

    def _serve(self, place: int) -> None:
        if not self._waiting[place]:
            self._busy.discard(place)
            return
        self._busy.add(place)
        npu, duration, done = self._waiting[place].popleft()

        def finished() -> None:
            done()
            self._serve(place)

        npu.timers.register(duration, finished)
