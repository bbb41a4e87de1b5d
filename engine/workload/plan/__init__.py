"""Parallel plans: the division of a model among ranks, for training and serving."""

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
