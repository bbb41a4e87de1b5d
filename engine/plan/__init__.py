"""Parallel plans: how a model is spread over the ranks, for training and for serving."""

from engine.plan.inference import Serving, serving
from engine.plan.plan import Axes, GradientExchange, Offload, Optimizer, Plan
from engine.plan.schedule import Schedule
from engine.plan.training import training, training_footprint

__all__ = [
    "Axes",
    "GradientExchange",
    "Offload",
    "Optimizer",
    "Plan",
    "Schedule",
    "Serving",
    "serving",
    "training",
    "training_footprint",
]
