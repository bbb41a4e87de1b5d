"""Training that is interrupted, and goes on from its last checkpoint, as a renewal process.

Interruptions come at a constant rate, as often while training restarts as while it runs: times
between them are exponentially distributed with a mean of M.  After every tau seconds of training a
checkpoint is taken, for which training stands still s seconds; after w seconds more, beside which
training goes on, it is kept.  An interruption loses all that came after the last kept checkpoint,
and R seconds until training goes on.  The expected time from one checkpoint to the next is

    E = M e^((R + w)/M) (e^((tau + s)/M) - 1)

which for w = 0 is Daly's ("A higher order estimate of the optimum checkpoint interval for restart
dumps", Future Generation Computer Systems 22, 2006).  With w an interruption in the first w seconds
after a checkpoint loses the interval before it, too.  Where a checkpoint was kept, training is w
seconds ahead of it; whoever goes back to it must train these again, so each try but the first must
last tau + s + w.

To first order in 1/M the share tau / E is the effective training time ratio of Kokolis et al.
("Revisiting reliability in large-scale machine learning research clusters", HPCA 2025),
(1 - (R + tau/2)/M) / (1 + s/tau).

Where no spare is left for a broken node, the job waits for a repair before it restarts.  All else
stands still meanwhile, interruptions too, so all other shares are of the time that is left.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Seconds = float | NDArray[np.float64]
_SMALL = 1e-8  # below it, Lambert's W has lost half of its digits


@dataclass(frozen=True)
class Renewal:
    """Seconds: ``interval`` of training between two checkpoints (one, or several to be compared),
    the ``stall`` for each, the time ``beside`` training until it is kept, the ``restart`` after an
    interruption, and the mean time ``between`` interruptions.  ``waiting`` is the share of the time
    in which the job waits for a repair; the rest goes as if it never did."""

    interval: _Seconds
    stall: float
    beside: float
    restart: float
    between: float
    waiting: float = 0.0

    @property
    def kept(self) -> _Seconds:
        """The share of the time in which training does what it need not do again: the effective
        training time ratio (ETTR), or goodput."""
        tried = (self.interval + self.stall) / self.between
        lost = (self.restart + self.beside) / self.between
        # Divided by the exponentials, which overflow where interruptions are frequent.
        kept = self.interval / self.between * np.exp(-tried - lost) / -np.expm1(-tried)
        return (1 - self.waiting) * kept

    @property
    def writing(self) -> _Seconds:
        """The share in which training stands still for the checkpoints between which it keeps
        what it does."""
        return self.kept * self.stall / self.interval

    @property
    def restarting(self) -> float:
        """The share in which training restarts, also anew where that is interrupted."""
        return (1 - self.waiting) * -math.expm1(-self.restart / self.between)

    @property
    def again(self) -> _Seconds:
        """The share in which training does what interruptions undo."""
        others = self.kept + self.writing + self.restarting + self.waiting
        return np.maximum(0.0, 1 - others)


def best_interval(stall: float, between: float) -> float:
    """The seconds of training between two checkpoints that keep the largest share of the time,
    whatever the restart and the time until a checkpoint is kept; 0 without a stall.

    The share is largest where e^((tau + s)/M) (1 - tau/M) = 1, so tau = M (1 + W(-e^(-s/M - 1)))
    with Lambert's W on its principal branch (Daly 2006), which is near Young's sqrt(2 s M) (1974)
    where s is small.
    """
    share = stall / between
    if share < _SMALL:
        return between * (math.sqrt(2 * share) - share * 2 / 3)
    from scipy.special import lambertw  # which few runs need

    return between * (1 + float(lambertw(-math.exp(-share - 1)).real))
