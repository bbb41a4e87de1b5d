"""Exchanges of which the hops last longer than the bytes: cut into too small pieces."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from dimsweep.engine.kernels.phase.batch import times_of
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.lower.program import Program
from dimsweep.engine.units import PICOSECONDS
from dimsweep.engine.workload.plan.mesh import EXPERT_REPLICAS, REPLICAS, SHARDS

_GROUPS = (REPLICAS, EXPERT_REPLICAS, SHARDS)


@dataclass(frozen=True)
class Exchange:
    """A collective of ``n_bytes`` that a member of ``group`` holds, and the ps of its hops and of
    its bytes."""

    group: str
    n_bytes: float
    hops: float
    bytes: float


def mostly_hops(program: Program) -> Exchange | None:
    """The largest reduction among replicas that ranks run more than once, if its hops last longer
    than its bytes do in the dimension that they take longest in."""
    s = program.structure
    reduces = (CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER)
    own = np.flatnonzero(np.isin(s.forms["kind"], reduces)[s.flows["form"]])
    groups, forms = program.names.flow_group, s.flows["form"][own].tolist()
    flows = Counter(
        (groups[flow], form)
        for flow, form in zip(own.tolist(), forms, strict=True)
        if groups[flow] in _GROUPS
    )
    held = {key: float(s.forms[key[1]]["n_bytes"] * s.forms[key[1]]["chunks"]) for key in flows}
    often = [key for key, n in flows.items() if n >= 2 * s.shape.n_classes]
    if not often:
        return None
    group, form = max(often, key=held.__getitem__)
    times = times_of(program)
    span = times.spans[form]
    phases = times.phases[int(span["start"]) : int(span["start"] + span["length"])]
    hops = float(phases["late"].max())
    of_bytes = float((times.demand[form] / times.bandwidth).max()) * PICOSECONDS
    return Exchange(group, held[group, form], hops, of_bytes) if hops > of_bytes else None
