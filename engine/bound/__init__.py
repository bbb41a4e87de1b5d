"""Lower bounds on the time of an iteration, and optimal bandwidths of the closed-form model."""

from dimsweep.engine.bound.communication import (
    BoundTable,
    CommunicationBounds,
    GroupBounds,
    bound_by_cuts,
)
from dimsweep.engine.bound.cuts import CutBound, CutTime, cut_bound, time_by_cuts
from dimsweep.engine.bound.event import (
    ClosedForm,
    EventBound,
    PathForm,
    closed_form,
    lower_bound,
    overlap_form,
    traffic,
)
from dimsweep.engine.bound.frontier import (
    Frontier,
    Measure,
    Portfolio,
    Weighing,
    frontier,
    portfolio,
)
from dimsweep.engine.bound.optimum import ConvexModel, Optimum, optimum, time_of
from dimsweep.engine.bound.plans import (
    BETWEEN,
    PASSES,
    STAGES,
    CellClasses,
    CellCommunication,
    bound_time,
)
from dimsweep.engine.bound.shards import PlanCounts, Staging, Stagings, bound_memory
from dimsweep.engine.bound.space import LinearSpace

__all__ = [
    "BETWEEN",
    "PASSES",
    "STAGES",
    "BoundTable",
    "CellClasses",
    "CellCommunication",
    "ClosedForm",
    "CommunicationBounds",
    "ConvexModel",
    "CutBound",
    "CutTime",
    "EventBound",
    "Frontier",
    "GroupBounds",
    "LinearSpace",
    "Measure",
    "Optimum",
    "PathForm",
    "PlanCounts",
    "Portfolio",
    "Staging",
    "Stagings",
    "Weighing",
    "bound_by_cuts",
    "bound_memory",
    "bound_time",
    "closed_form",
    "cut_bound",
    "frontier",
    "lower_bound",
    "optimum",
    "overlap_form",
    "portfolio",
    "time_by_cuts",
    "time_of",
    "traffic",
]
