"""Expected error of a simulated time: between fidelities, and from ties under Themis."""

from typing import NamedTuple

import numpy as np

from dimsweep.engine.kernels.phase.batch import run_batch
from dimsweep.engine.lower.program import POINT_TO_POINT, Program
from dimsweep.engine.network.fabric import Auto
from dimsweep.engine.topology.blocks import SubgroupBandwidth

# --- between fidelities ---------------------------------------------------------------------------
# Differences between phases and messages, by the kind of a plan.
#
# Both kernels agree to the picosecond on most plans (docs/model/messages.md says when).  Elsewhere
# the time depends on the order in which messages use a shared link; the phase kernel only knows
# their shares.  ``SEEN`` holds results of random plans; ``python -m benchmarks.between`` draws and
# simulates them again.


class PlanKind(NamedTuple):
    """Features of a parallelism plan that determine how well phase and message fidelity agree.

    ``stages``: ranks send point-to-point messages, as pipeline stages do.  ``shares``: a group or a
    message uses a part of a dimension whose NPUs share links.
    """

    stages: bool
    shares: bool


class Observation(NamedTuple):
    """The measured agreement between phase and message fidelity, over random plans of one kind.

    It counts the simulated plans, and the plans whose times are equal to the picosecond.  ``least``
    and ``most`` are the extreme relative excesses of the message time over the phase time.
    """

    plans: int
    equal: int
    least: float
    most: float


SEEN = {
    PlanKind(stages=False, shares=False): Observation(405, 398, -0.003, 0.001),
    PlanKind(stages=False, shares=True): Observation(247, 212, -0.035, 0.005),
    PlanKind(stages=True, shares=False): Observation(139, 111, 0.0, 0.019),
    PlanKind(stages=True, shares=True): Observation(209, 82, -0.247, 0.034),
}


def classify_plan(program: Program) -> PlanKind | None:
    """Return the kind of a program's plan, or None if no measurement covers it.

    Not covered are ranks that run different operators without being pipeline stages, groups with
    more than their share of links (``SubgroupBandwidth.FULL``), phases of a collective library or
    an extension, and networks other than the dimensions' own blocks.
    """
    cluster, s = program.cluster, program.structure
    model, network = cluster.collectives, cluster.network
    if (
        (len(program.workload.graphs) > 1 and program.workload.stages is None)
        or model.subgroup_bandwidth is SubgroupBandwidth.FULL
        or model.library is not None
        or model.timings is not None
        or program.entrances is not None
        or any(not isinstance(fabric, Auto) for fabric in network.fabrics)
        or network.graph is not None
        or network.interconnect is not None
        or network.degrade
    ):
        return None
    messages = s.forms[s.forms["kind"] == POINT_TO_POINT]
    crossed = {int(d) for m in messages for d in s.uses["dim"][m["use_start"] : m["use_end"]]}
    groups = program.workload.groups.values()
    shares = any(
        d in crossed or any(1 < group.sizes[d] < dim.size for group in groups)
        for d, dim in enumerate(cluster.topology.dims)
        if not dim.block.is_symmetric
    )
    return PlanKind(len(messages) > 0, shares)


# --- ties -----------------------------------------------------------------------------------------
# The effect of ties on a time under Themis.
#
# Round ratios of bandwidths give dimensions equal loads, and ports chunks that arrive at the same
# instant.  Of equal loads the inner dimension goes first (engine.kernels.phase.phase_time); no rule
# suits all systems.  A difference in the ninth digit of a bandwidth changes the order, and with few
# chunks the time may change considerably.


_HARDLY = 1e-9  # relative change of a bandwidth that only decides ties


class TieEffect(NamedTuple):
    """The time of a run (ps), and its extremes (ps) when ties between dimensions are broken."""

    here: int
    least: int
    most: int


def measure_ties(program: Program) -> TieEffect | None:
    """Return the effect of ties between dimensions on the time; None unless Themis is used.

    Simulates three times: as is, and with the bandwidths of outer dimensions slightly raised or
    lowered, so that no two dimensions have equal loads.
    """
    if not program.structure.shape.order:
        return None
    more = _HARDLY * np.arange(len(program.bandwidth))
    points = program.bandwidth * (1 + np.array([0 * more, more, -more]))
    here, *others = map(int, run_batch(program, points).time)
    return TieEffect(here, min(others), max(others))
