"""What no split of a study's space can beat, or no run on a network that is a graph, and the split
at which that bound is least."""

from collections.abc import Sequence

from dimsweep.engine import DimsweepError, Program
from dimsweep.engine.bound import Frontier, Optimum, frontier, lower_bound
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.objective import COST, TIME, Objective
from dimsweep.sweeper.space.space import Space
from dimsweep.sweeper.study.alone import least_seconds


def least_bound(space: Space, program: Program, objective: Objective) -> Optimum | None:
    """The least lower bound of a cell's first objective over its splits.

    ``None`` where no split is searched, for the cost alone, where the cost goes up in steps with
    bandwidth, and where the space has no best split because more, or less, bandwidth is better for
    ever.
    """
    if space.split is None or not objective.has_slopes:
        return None
    prices = program.prices if objective.needs_prices else None
    if prices is not None and not prices.linear:
        return None
    try:
        return lower_bound(program, space.split.linear(), prices)
    except DimsweepError:
        return None


def proven_bound(
    config: Config, space: Space, found: Optimum | None, objective: Objective
) -> float | None:
    """The bound as the objective's column counts, seconds or iterations/s per USD, if it is one.

    It is none where other keys are searched as well, each of which makes another program, and in a
    study by messages, since it is the phase kernel's.
    """
    if found is None or found.bound <= 0 or space.parameters or config.by_message:
        return None
    return objective.loss(found.bound)


def bound_of_graph(config: Config, space: Space, program: Program) -> float | None:
    """What the one time of a cell cannot be below whose network is a graph, in seconds; None where
    other keys are searched, for another objective, and where nothing is known."""
    graph = program.cluster.network.graph
    if graph is None or not config.by_message:
        return None
    if space.parameters or config.objective[0] != TIME:
        return None
    return least_seconds(config, program) or None


def proven_front(
    config: Config, space: Space, program: Program, objective: Sequence[Objective]
) -> Frontier | None:
    """The least time for each cost, where a cell searches for both and its bound is one."""
    if set(objective) != {TIME, COST} or program.prices is None or not program.prices.linear:
        return None
    if space.split is None or space.parameters or config.by_message:
        return None
    try:
        return frontier(program, space.split.linear(), program.prices)
    except DimsweepError:  # more bandwidth is better for ever
        return None
