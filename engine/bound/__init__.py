"""Lower bounds on a time, and the exact optimum of the closed-form model, over bandwidths."""

from dimsweep.engine.bound.cuts import CutBound, Least, cut_bound, time_by_cuts
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
from dimsweep.engine.bound.plans import BETWEEN, PASSES, STAGES, Classes, Reach, least_time
from dimsweep.engine.bound.shards import Staging, Stagings, Turns, least_memory
from dimsweep.engine.bound.space import LinearSpace
from dimsweep.engine.bound.ways import Groups, Table, Ways, ways_by_cuts

__all__ = [
    "BETWEEN",
    "PASSES",
    "STAGES",
    "Classes",
    "ClosedForm",
    "ConvexModel",
    "CutBound",
    "EventBound",
    "Frontier",
    "Groups",
    "Least",
    "LinearSpace",
    "Measure",
    "Optimum",
    "PathForm",
    "Portfolio",
    "Reach",
    "Staging",
    "Stagings",
    "Table",
    "Turns",
    "Ways",
    "Weighing",
    "closed_form",
    "cut_bound",
    "frontier",
    "least_memory",
    "least_time",
    "lower_bound",
    "optimum",
    "overlap_form",
    "portfolio",
    "time_by_cuts",
    "time_of",
    "traffic",
    "ways_by_cuts",
]
