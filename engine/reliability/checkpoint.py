"""How long training stands still for a checkpoint, and how long it takes until it is kept."""

import math
from dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.units import format_duration


@dataclass(frozen=True)
class Checkpoint:
    """``interval``: seconds of training between two; None: the best.  ``bandwidth``: bytes/s that
    the storage takes from all NPUs together.  ``stall``: seconds that training stands still for
    each; None: until it is written.  The rest of the writing goes on beside training.

    Raises :class:`DimsweepError` for numbers that are not positive.
    """

    interval: float | None = None
    bandwidth: float | None = None
    stall: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not 0 < value < math.inf:
                raise DimsweepError(f"{value} is not positive and finite", where=name)

    def taken(self, state: float) -> tuple[float, float]:
        """The seconds that training stands still for a checkpoint of ``state`` bytes (0: nobody
        knows how many), and those after these until it is kept.

        Raises :class:`DimsweepError` naming the key where they follow from nothing that is known,
        and where the next one would begin before this one is kept.
        """
        if self.bandwidth is not None and state:
            written = state / self.bandwidth
            stall = written if self.stall is None else min(self.stall, written)
            self._check_kept(written - stall)
            return stall, written - stall
        if self.stall is not None:
            return self.stall, 0.0
        if self.bandwidth is not None:
            what = "nobody knows how many bytes a checkpoint of this workload has"
            raise DimsweepError(what, where="stall", hint="how long training stands still for one")
        if self.interval is not None:
            return 0.0, 0.0
        raise DimsweepError(
            "nothing is said of checkpoints, of which more are better if they take no time",
            hint="bandwidth=100 GB/s (of the storage), stall=30 s, or interval=60 min",
        )

    def _check_kept(self, beside: float) -> None:
        if self.interval is not None and self.interval < beside:
            raise DimsweepError(
                f"each is written for {format_duration(beside)} beside training, so the next would"
                " begin before it is kept",
                where="interval",
                hint=f"{format_duration(1.5 * beside)}, or a storage of more bandwidth",
            )
