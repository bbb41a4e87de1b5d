"""How far phases and messages may be apart, by the kind of a plan.

Both kernels agree to the picosecond on most plans (docs/model/messages.md says when).  Elsewhere it
matters who uses a shared link when, and of that the phase kernel knows shares only.  ``SEEN`` has
what random plans showed; ``python -m benchmarks.between`` draws and simulates them again.
"""

from typing import NamedTuple

from dimsweep.engine.lower.program import POINT_TO_POINT, Program
from dimsweep.engine.network.fabric import Auto
from dimsweep.engine.topology.block import SubgroupBandwidth


class Kind(NamedTuple):
    """What tells plans apart here: whether ranks send one another messages, as pipeline stages do,
    and whether a group or a message takes a part of a dimension whose NPUs share links."""

    stages: bool
    shares: bool


class Seen(NamedTuple):
    """Plans of a kind: how many were simulated, how many of them take equally long in both kernels
    to the picosecond, and the least and the most by which messages take longer, over phases."""

    plans: int
    equal: int
    least: float
    most: float


SEEN = {
    Kind(stages=False, shares=False): Seen(405, 398, -0.003, 0.001),
    Kind(stages=False, shares=True): Seen(247, 212, -0.035, 0.005),
    Kind(stages=True, shares=False): Seen(139, 111, 0.0, 0.019),
    Kind(stages=True, shares=True): Seen(209, 82, -0.247, 0.034),
}


def kind_of(program: Program) -> Kind | None:
    """The kind of a program's plan.

    None where nothing was compared: ranks run different operators without being stages, a group
    gets more of its links than there is (``SubgroupBandwidth.FULL``), a collective library or a
    replica says how long phases last, or the network is not that of the dimensions' own blocks.
    """
    cluster, s = program.cluster, program.structure
    model, network = cluster.collectives, cluster.network
    if (
        (len(program.workload.graphs) > 1 and program.workload.stages is None)
        or model.subgroup_bandwidth is SubgroupBandwidth.FULL
        or model.library is not None
        or model.timings is not None
        or program.replica is not None
        or any(not isinstance(fabric, Auto) for fabric in network.fabrics)
        or network.graph is not None
        or network.wafer is not None
        or network.degrade
    ):
        return None
    messages = s.forms[s.forms["kind"] == POINT_TO_POINT]
    crossed = {int(d) for m in messages for d in s.uses["dim"][m["use_start"] : m["use_end"]]}
    groups = program.workload.groups.values()
    shares = any(
        d in crossed or any(1 < group.sizes[d] < dim.size for group in groups)
        for d, dim in enumerate(cluster.topology.dims)
        if not dim.block.symmetric
    )
    return Kind(len(messages) > 0, shares)
