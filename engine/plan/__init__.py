"""Parallel plans: how a model is spread over the ranks, for training and for serving."""

from dimsweep.engine.plan.amount import amount
from dimsweep.engine.plan.inference import Serving, serving
from dimsweep.engine.plan.mesh import EXPERT_REPLICAS, REPLICAS, DeviceMesh
from dimsweep.engine.plan.plan import GradientExchange, Offload, Optimizer, ParallelPlan
from dimsweep.engine.plan.schedule import Schedule
from dimsweep.engine.plan.stack import Stack
from dimsweep.engine.plan.training import grouped, training, training_amount, training_footprint
