"""The compute side of an NPU: a roofline."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.errors import DimsweepError
from engine.units import MAX_PICOSECONDS, PICOSECONDS


@dataclass(frozen=True)
class Npu:
    """Peak FLOP/s and memory bytes/s; an operator takes the longer of the two times (roofline).

    Williams, Waterman, Patterson, "Roofline" (CACM 2009).  ``efficiency`` is the share of the peak
    that dense kernels reach.  ``reduce_bandwidth`` is the rate, in bytes per second of data
    received, at which an NPU reduces during a collective; ``None`` hides reductions behind the
    transfer.
    """

    flops: float | None = None
    memory_bandwidth: float | None = None
    efficiency: float = 1.0
    reduce_bandwidth: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.efficiency <= 1:
            raise DimsweepError(f"{self.efficiency} is not in (0, 1]", where="efficiency")
        for key in ("flops", "memory_bandwidth", "reduce_bandwidth"):
            rate = getattr(self, key)
            if rate is not None and not 0 < rate < math.inf:
                raise DimsweepError(f"a rate of {rate:g}; it must be more than zero", where=key)

    def duration(self, flops: float, n_bytes: float) -> int:
        """Picoseconds for an operator of ``flops`` operations that moves ``n_bytes``.

        Raises :class:`DimsweepError` when the operator needs a rate that the NPU does not state.
        """
        seconds = 0.0
        if not (0 <= flops < math.inf and 0 <= n_bytes < math.inf):
            raise DimsweepError(f"{flops:g} FLOP and {n_bytes:g} bytes are no amount of work")
        for amount, rate, key in (
            (flops, self.flops and self.flops * self.efficiency, "flops"),
            (n_bytes, self.memory_bandwidth, "memory_bandwidth"),
        ):
            if amount and not rate:
                raise DimsweepError(
                    "an operator gives its work, but the NPU does not say how fast it is",
                    where=f"npu.{key}",
                    hint="set it, or give the operator a measured duration",
                )
            if amount and rate:
                seconds = max(seconds, amount / rate)
        picoseconds = seconds * PICOSECONDS
        if picoseconds > MAX_PICOSECONDS:
            raise DimsweepError(f"an operator would take {seconds:.3g} s", where="npu")
        return int(picoseconds + 0.5)

    def is_memory_bound(self, flops: float, n_bytes: float) -> bool:
        """Whether such an operator lasts as long as its bytes take, not its operations."""
        if not n_bytes or self.memory_bandwidth is None:
            return False
        operations = flops / (self.flops * self.efficiency) if self.flops else 0.0
        return n_bytes / self.memory_bandwidth > operations
