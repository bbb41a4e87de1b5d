"""Memory beyond an NPU's own: a tier that it loads from and stores to."""

import math
from dataclasses import dataclass

from engine.errors import DimsweepError
from engine.units import MAX_PICOSECONDS, PICOSECONDS


@dataclass(frozen=True)
class RemoteMemory:
    """Every NPU's share of it: ``bandwidth`` bytes/s and ``latency`` ps an access, one access at a
    time; ``capacity`` bytes, or no limit.

    A subclass that is registered in :data:`MEMORIES` may say otherwise how long an access lasts.
    """

    bandwidth: float
    latency: int = 0
    capacity: float | None = None

    def __post_init__(self) -> None:
        for key in ("bandwidth", "capacity"):
            value = getattr(self, key)
            if value is not None and not 0 < value < math.inf:
                raise DimsweepError(f"{value:g}; it must be more than zero", where=key)
        if not 0 <= self.latency <= MAX_PICOSECONDS:
            raise DimsweepError(f"{self.latency} ps is no latency", where="latency")

    def duration(self, n_bytes: float) -> int:
        """Picoseconds of one access."""
        picoseconds = self.latency + n_bytes / self.bandwidth * PICOSECONDS
        if picoseconds > MAX_PICOSECONDS:
            raise DimsweepError(
                f"an access would take {picoseconds / PICOSECONDS:.3g} s", where="memory"
            )
        return int(picoseconds + 0.5)


# A new memory is one file with a subclass, and one line here: memory.kind -> its class.
MEMORIES: dict[str, type[RemoteMemory]] = {"share": RemoteMemory}
