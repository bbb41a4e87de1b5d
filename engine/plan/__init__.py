"""Parallel plans: how a model is spread over the ranks, for training and for serving."""

from engine.plan.inference import Serving, serving
from engine.plan.mesh import DeviceMesh
from engine.plan.plan import GradientExchange, Offload, Optimizer, ParallelPlan
from engine.plan.schedule import Schedule
from engine.plan.training import training, training_footprint

__all__ = [
    "DeviceMesh",
    "GradientExchange",
    "Offload",
    "Optimizer",
    "ParallelPlan",
    "Schedule",
    "Serving",
    "serving",
    "training",
    "training_footprint",
]
