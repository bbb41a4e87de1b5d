"""Parallel plans: the division of a model's training or serving among ranks, as operator graphs."""

from dimsweep.engine.workload.plan.inference import Serving, serving
from dimsweep.engine.workload.plan.mesh import EXPERT_REPLICAS, REPLICAS, DeviceMesh
from dimsweep.engine.workload.plan.plan import (
    GradientExchange,
    Offload,
    Optimizer,
    ParallelPlan,
    Stack,
)
from dimsweep.engine.workload.plan.schedule import Schedule
from dimsweep.engine.workload.plan.training import (
    add_plan_groups,
    training,
    training_amount,
    training_footprint,
)
