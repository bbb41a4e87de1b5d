"""Lower bounds on a time, and the exact optimum of the closed-form model, over bandwidths."""

from engine.bound.closed_form import ClosedForm, closed_form, traffic
from engine.bound.event import EventBound, lower_bound
from engine.bound.frontier import Frontier, frontier
from engine.bound.optimum import ConvexModel, Optimum, optimum, time_of
from engine.bound.paths import PathForm, overlap_form
from engine.bound.portfolio import Measure, Portfolio, Weighing, portfolio
from engine.bound.space import LinearSpace

__all__ = [
    "ClosedForm",
    "ConvexModel",
    "EventBound",
    "Frontier",
    "LinearSpace",
    "Measure",
    "Optimum",
    "PathForm",
    "Portfolio",
    "Weighing",
    "closed_form",
    "frontier",
    "lower_bound",
    "optimum",
    "overlap_form",
    "portfolio",
    "time_of",
    "traffic",
]
