"""How often a job is interrupted, and how much of its time is left for training."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError, InfeasibleError, at
from dimsweep.engine.reliability.checkpoint import Checkpoint
from dimsweep.engine.reliability.renewal import Renewal, best_interval
from dimsweep.engine.reliability.spares import Spares
from dimsweep.engine.units import format_duration

_LEAST = 1e-6  # of the time that must be left


@dataclass(frozen=True)
class Reliability:
    """What interrupts the training on a cluster, and what is done about it.

    ``npu_time``: NPU-seconds between interruptions, whatever causes them: a job of N NPUs is
    interrupted every ``npu_time`` / N seconds in the mean.  ``restart``: seconds from an
    interruption until training goes on: it is noticed, a spare takes the place of what is broken,
    the last checkpoint is read.  ``spares``: what takes the place of broken nodes; None: there is
    always one.  Raises :class:`DimsweepError` for what is no such time.
    """

    npu_time: float
    restart: float
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    spares: Spares | None = None

    def __post_init__(self) -> None:
        if not 0 < self.npu_time < math.inf:
            what = f"{self.npu_time} s is not positive and finite"
            raise DimsweepError(what, where="npu_time")
        if not 0 <= self.restart < math.inf:
            raise DimsweepError(f"{self.restart} s is no time", where="restart")

    def renewal(
        self, n_npus: int, state: float, iteration: float | NDArray[np.float64] = 0.0
    ) -> Renewal:
        """What becomes of the time of a job on ``n_npus``, whose checkpoints have ``state`` bytes
        (0: nobody knows how many).  Between two there is an ``iteration`` (seconds, (P,) or one)
        at least.

        Raises :class:`DimsweepError` naming the key for checkpoints that are too near, or that take
        nobody knows how long, and :class:`InfeasibleError` where nothing is left of the time.
        """
        between = self.npu_time / n_npus
        with at("checkpoint"):
            stall, beside = self.checkpoint.taken(state)
        interval = self.checkpoint.interval or max(best_interval(stall, between), beside)
        waiting = 0.0 if self.spares is None else self.spares.waiting(between)
        found = Renewal(interval, stall, beside, self.restart, between, waiting)
        if 1 - waiting < _LEAST:
            raise InfeasibleError(
                f"{n_npus:,} NPUs are interrupted every {format_duration(between)}, and with so few"
                " spare nodes the job waits for repairs nearly all the time",
                where="spares",
                hint="more spare nodes, or a shorter repair",
            )
        if found.kept < _LEAST:
            raise InfeasibleError(
                f"{n_npus:,} NPUs are interrupted every {format_duration(between)}, which leaves"
                f" no time to train between restarts and checkpoints",
                where="npu_time",
                hint="a shorter restart, nearer checkpoints, a faster storage, or fewer NPUs",
            )
        if np.all(iteration <= interval):
            return found
        return replace(found, interval=np.maximum(interval, iteration))

    def price(self, training: int, billed: int) -> float:
        """How many times as much is paid as for the NPUs that are ``billed``, with spares; see
        :meth:`Spares.price`."""
        return 1.0 if self.spares is None else self.spares.price(training, billed)
