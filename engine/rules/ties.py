"""Whether a time under Themis hangs on ties.

Loads of dimensions that are equal, and chunks that come to a port at one instant, are what round
ratios of bandwidths make.  Of equal loads the inner dimension goes first
(engine.kernels.phase.phase_time): no rule is right for all systems.  A bandwidth that
differs in the ninth place decides otherwise, and with few chunks that may take much more or less.
"""

from typing import NamedTuple

import numpy as np

from dimsweep.engine.kernels.phase.batch import run_batch
from dimsweep.engine.lower.program import Program

_HARDLY = 1e-9  # more or less bandwidth, which decides ties and nothing else


class Tied(NamedTuple):
    """How long a run lasts (ps), and the least and the most that it does when no two dimensions
    tie."""

    here: int
    least: int
    most: int


def ties(program: Program) -> Tied | None:
    """What ties are worth at the program's own point; None where Themis orders nothing.

    Outer dimensions have a little more than inner ones, or a little less.  Costs three runs."""
    if not program.structure.shape.order:
        return None
    more = _HARDLY * np.arange(len(program.bandwidth))
    points = program.bandwidth * (1 + np.array([0 * more, more, -more]))
    here, *others = map(int, run_batch(program, points).time)
    return Tied(here, min(others), max(others))
