"""ASTRA-sim's remote memory: per NPU, per node or one pool, first in first out."""

from collections import defaultdict, deque
from collections.abc import Callable

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.astra_sim.npu import Npu
from dimsweep.engine.formats.astra_sim.inputs import RemoteMemory

PER_NPU = "PER_NPU_MEMORY_EXPANSION"


def access_time(config: RemoteMemory, rank: int, n_bytes: int) -> int:
    """ns of an access that waits for no other.  Raises :class:`DimsweepError` without a memory."""
    if config.kind == "NO_MEMORY_EXPANSION":
        raise DimsweepError(
            f"rank {rank} uses remote memory, and there is none",
            where="memory.json: memory-type",
            hint="PER_NPU_MEMORY_EXPANSION, PER_NODE_MEMORY_EXPANSION or MEMORY_POOL",
        )
    return int(config.latency + int(n_bytes / config.bandwidth))


class Memory:
    """Serves accesses; those to one place wait for one another."""

    def __init__(self, config: RemoteMemory) -> None:
        self._config = config
        self._busy: set[int] = set()
        self._waiting: dict[int, deque[tuple[Npu, int, Callable[[], None]]]] = defaultdict(deque)

    def access(self, npu: Npu, n_bytes: int, done: Callable[[], None]) -> None:
        """Call ``done`` when ``n_bytes`` have been read or written."""
        duration = access_time(self._config, npu.rank, n_bytes)
        if self._config.kind == PER_NPU:
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
