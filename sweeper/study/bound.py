"""Lower bounds of a cell: over all bandwidth splits, or of its one run on a network graph."""

from collections.abc import Sequence

import numpy as np

from dimsweep.engine import DimsweepError, Program, units
from dimsweep.engine.bound import (
    CellCommunication,
    Frontier,
    Optimum,
    Stagings,
    bound_time,
    frontier,
    lower_bound,
    time_by_cuts,
)
from dimsweep.engine.workload import AXES
from dimsweep.engine.workload.plan import DeviceMesh
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import Plans
from dimsweep.sweeper.objective import COST, TIME, Objective
from dimsweep.sweeper.space.plans import Refusals, check_model, list_plans
from dimsweep.sweeper.space.space import Space


def minimum_seconds(config: Config, program: Program) -> float:
    """Return a lower bound (s) on an iteration on a network graph, for any algorithms and routes.

    It is the larger one of two bounds. One is the plan's computation and bubble. The other is the
    time in which its collectives cross cuts of the graph. It is 0 if neither is known.
    """
    graph = program.cluster.network.graph
    assert graph is not None
    cuts = time_by_cuts(program, graph)
    by_cuts = 0.0 if cuts is None else cuts.picoseconds / units.PICOSECONDS
    if program.cluster.other_npus:  # plans are bounded on NPUs of one kind
        return by_cuts
    try:
        return max(by_cuts, _compute_bound(config, program))
    except DimsweepError:  # the workload is not a model, or no bound applies to the plan
        return by_cuts


def _compute_bound(config: Config, program: Program) -> float:
    workload, cluster = check_model(config.workload), program.cluster
    mesh = DeviceMesh.place(workload.parallel, cluster.topology.sizes, cluster.symmetric_dims)
    degrees = {axis: mesh.groups[axis].n_members for axis in workload.parallel}
    space = Plans.from_plain({axis: [n] for axis, n in degrees.items() if axis != AXES[-1]})
    stagings = Stagings(workload.model, cluster.npu, cluster.memory, cluster.slowest_speed)
    rows = list_plans(workload, space, program.n_npus, stagings, None, Refusals())
    if not rows:
        return 0.0
    row, staging = rows[0], stagings.build_staging(rows[0].plan, rows[0].degrees)
    return float(
        np.ravel(bound_time(staging, row.plan, row.turns, CellCommunication(1), stagings))[0]
    )


def find_lower_bound(space: Space, program: Program, objective: Objective) -> Optimum | None:
    """Return the minimum over all splits of a lower bound on the first objective, and its split.

    It is None if no split is searched, if the objective is the cost alone, if the cost increases in
    steps with bandwidth, and if more, or less, bandwidth is always better.
    """
    if space.split is None or not objective.has_slopes:
        return None
    prices = program.prices if objective.needs_prices else None
    if prices is not None and not prices.is_linear:
        return None
    try:
        return lower_bound(program, space.split.linear(), prices)
    except DimsweepError:
        return None


def proven_bound(
    config: Config, space: Space, found: Optimum | None, objective: Objective
) -> float | None:
    """Return the bound in the unit of the objective's column, or None if it is not proven.

    It is not proven if other keys are searched, since their values change the program, and for
    fidelities other than ``phase``, since the bound holds for the phase kernel.
    """
    if found is None or found.bound <= 0 or space.parameters or config.by_message:
        return None
    return objective.loss(found.bound)


def graph_bound(config: Config, space: Space, program: Program) -> float | None:
    """Return a lower bound (s) of a cell whose network is a graph, or None.

    It is None if other keys are searched, if the objective is not the time, and if no bound is
    known.
    """
    graph = program.cluster.network.graph
    if graph is None or not config.by_message:
        return None
    if space.parameters or config.objective[0] != TIME:
        return None
    return minimum_seconds(config, program) or None


def proven_front(
    config: Config, space: Space, program: Program, objective: Sequence[Objective]
) -> Frontier | None:
    """Return the minimum time for each cost if a cell searches for time and cost.

    It is None otherwise, and if the bound is not proven.
    """
    if set(objective) != {TIME, COST} or program.prices is None or not program.prices.is_linear:
        return None
    if space.split is None or space.parameters or config.by_message:
        return None
    try:
        return frontier(program, space.split.linear(), program.prices)
    except DimsweepError:  # more bandwidth is always better
        return None
