"""What one plan takes at least on one network that is a graph."""

import numpy as np

from dimsweep.engine import DimsweepError, Program, units
from dimsweep.engine.bound import Reach, Stagings, least_time, time_by_cuts
from dimsweep.engine.workload import AXES
from dimsweep.engine.workload.plan import DeviceMesh
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import Plans
from dimsweep.sweeper.space.plans import check_model, rows_of
from dimsweep.sweeper.space.refusals import Refusals


def least_seconds(config: Config, program: Program) -> float:
    """The least seconds of an iteration on the graph of a program's cluster, whatever algorithms
    and routes there are: what the plan computes for, its bubble included (level 0), or what its
    collectives need to cross the cuts; 0 if neither says anything."""
    graph = program.cluster.network.graph
    assert graph is not None
    cuts = time_by_cuts(program, graph)
    by_cuts = 0.0 if cuts is None else cuts.picoseconds / units.PICOSECONDS
    if program.cluster.other_npus:  # plans are bounded on NPUs of one kind
        return by_cuts
    try:
        return max(by_cuts, _computed(config, program))
    except DimsweepError:  # a workload that is no model, or a plan of which bounds say nothing
        return by_cuts


def _computed(config: Config, program: Program) -> float:
    workload, cluster = check_model(config.workload), program.cluster
    mesh = DeviceMesh.place(workload.parallel, cluster.topology.sizes, cluster.symmetric)
    degrees = {axis: mesh.groups[axis].n_members for axis in workload.parallel}
    space = Plans.of({axis: [n] for axis, n in degrees.items() if axis != AXES[-1]})
    stagings = Stagings(workload.model, cluster.npu, cluster.memory, cluster.slowest)
    rows = rows_of(workload, space, program.n_npus, stagings, None, Refusals())
    if not rows:
        return 0.0
    row, staging = rows[0], stagings.of(rows[0].plan, rows[0].degrees)
    return float(np.ravel(least_time(staging, row.plan, row.turns, Reach(1), stagings))[0])
