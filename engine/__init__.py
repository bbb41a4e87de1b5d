"""dimsweep's engine: an event-driven simulator of training on multi-dimensional networks.

    from engine import simulate
    result = simulate(workload, cluster)

A workload (operator graphs and process groups) and a cluster (network, NPU, collective model) are
lowered once into a :class:`Program`; :func:`run_batch` then simulates it at thousands of bandwidth
vectors a second.  This package knows nothing of studies, searches, files of results or terminals.
"""

from enum import StrEnum
from typing import Literal

from engine import units
from engine.account.breakdown import Breakdown, account
from engine.account.result import Result
from engine.bound.closed_form import ClosedForm, closed_form, traffic
from engine.bound.event import EventBound, lower_bound
from engine.bound.frontier import Frontier, frontier
from engine.bound.optimum import ConvexModel, Optimum, optimum, time_of
from engine.bound.paths import PathForm, overlap_form
from engine.bound.portfolio import Measure, Portfolio, Weighing, portfolio
from engine.bound.space import LinearSpace
from engine.cluster.bisection import bisection, cuts
from engine.cluster.cluster import (
    Cluster,
    CollectiveModel,
    DimensionOrder,
    QueueOrder,
    SubgroupBandwidth,
)
from engine.cluster.compute import Dataflow, EfficiencyCurve, SystolicArray
from engine.cluster.cost import Prices, TierPrice, network_prices
from engine.cluster.memory import RemoteMemory
from engine.cluster.network import NetworkModel, Switching
from engine.cluster.npu import Npu
from engine.cluster.topology import Block, Dimension, Topology, parse_shape
from engine.errors import DimsweepError, InfeasibleError
from engine.formats.astra1_text import read_layers as read_astra1_layers
from engine.formats.astra_sim.files import read_inputs as read_astra_inputs
from engine.formats.astra_sim.files import read_ranks as read_astra_ranks
from engine.formats.astra_sim.files import read_topology as read_astra_topology
from engine.formats.astra_sim.files import read_workload as read_astra_workload
from engine.formats.astra_sim.inputs import Inputs as AstraInputs
from engine.formats.astra_sim.inputs import Options as AstraOptions
from engine.formats.astra_sim.inputs import read_groups as read_astra_groups
from engine.formats.chakra import NodeType as ChakraNodeType
from engine.formats.chakra import Trace as ChakraTrace
from engine.formats.chakra import TraceNode as ChakraNode
from engine.formats.chakra import read_traces as read_chakra
from engine.formats.chakra import scan_traces as scan_chakra
from engine.formats.chakra import write_trace as write_chakra
from engine.formats.chakra.files import Scanned as ChakraScanned
from engine.formats.chakra.lint import lint_job as lint_chakra
from engine.formats.chakra.lint.trace import Finding as ChakraFinding
from engine.formats.chakra.lint.trace import repaired as repair_chakra
from engine.formats.chakra.node import Node as AstraNode
from engine.formats.chakra.stats import TraceStats as ChakraStats
from engine.formats.chakra.stats import levels as chakra_levels
from engine.formats.chakra.stats import trace_stats as chakra_stats
from engine.formats.chakra.workload import read_chakra_workload
from engine.formats.chakra.writer import write_chakra_workload
from engine.formats.measured import read_measured
from engine.formats.pytorch import Converted as PytorchConverted
from engine.formats.pytorch import convert_traces as convert_pytorch
from engine.formats.pytorch import is_execution_trace
from engine.kernels.message.kernel import LinkAccount, MessageRun, by_rank, network_of, run_messages
from engine.kernels.phase.batch import Measures, is_compiled, outcome_error, run_batch, run_one
from engine.kernels.phase.path import Path
from engine.kernels.phase.state import FINISHED
from engine.lower.lower import lower
from engine.lower.memory import check_memory
from engine.lower.program import Program
from engine.model.block import Recompute
from engine.model.convolution import ConvNet
from engine.model.recommendation import Dlrm
from engine.model.recurrent import Gnmt
from engine.model.transformer import Transformer
from engine.network.fabric import Auto, Clos, Dragonfly, Fabric, Mesh, build_network
from engine.network.files import read_network
from engine.network.graph import Link, Network
from engine.network.routing import Routing
from engine.plan.inference import Serving, serving
from engine.plan.plan import Axes, GradientExchange, Offload, Optimizer, Plan
from engine.plan.schedule import Schedule
from engine.plan.training import training, training_footprint
from engine.replicas.astra_sim.cycles import Cycles as AstraCycles
from engine.replicas.astra_sim.program import Program as AstraProgram
from engine.replicas.astra_sim.program import is_compiled as is_astra_compiled
from engine.replicas.astra_sim.program import lower as lower_astra
from engine.replicas.astra_sim.simulate import simulate as simulate_astra
from engine.rules.effects import (
    crosses_dimensions,
    is_measured,
    lone_chunks,
    queue_matters,
    silent_dimensions,
)
from engine.rules.provisioning import Pair, provisioning
from engine.workload.convnet import Convolution, data_parallel
from engine.workload.footprint import Footprint
from engine.workload.graph import (
    Access,
    Collective,
    CollectiveKind,
    Compute,
    GraphBuilder,
    Group,
    Kernel,
    MatMul,
    Operator,
    Receive,
    Send,
    Workload,
)
from engine.workload.layers import Communication, Layer, Pass, TrainingLoop, training_iteration
from engine.workload.placement import place
from engine.workload.transformer import TransformerSlice

# Raise it when a change makes the same inputs give another result: ledgers keep versions apart.
MODEL_VERSION = 2

__all__ = [
    "FINISHED",
    "MODEL_VERSION",
    "Access",
    "AstraCycles",
    "AstraInputs",
    "AstraNode",
    "AstraOptions",
    "AstraProgram",
    "Auto",
    "Axes",
    "Block",
    "Breakdown",
    "ChakraFinding",
    "ChakraNode",
    "ChakraNodeType",
    "ChakraScanned",
    "ChakraStats",
    "ChakraTrace",
    "Clos",
    "ClosedForm",
    "Cluster",
    "Collective",
    "CollectiveKind",
    "CollectiveModel",
    "Communication",
    "Compute",
    "ConvNet",
    "ConvexModel",
    "Convolution",
    "Dataflow",
    "Dimension",
    "DimensionOrder",
    "DimsweepError",
    "Dlrm",
    "Dragonfly",
    "EfficiencyCurve",
    "EventBound",
    "Fabric",
    "Fidelity",
    "Footprint",
    "Frontier",
    "Gnmt",
    "GradientExchange",
    "GraphBuilder",
    "Group",
    "InfeasibleError",
    "Kernel",
    "Layer",
    "LinearSpace",
    "Link",
    "LinkAccount",
    "MatMul",
    "Measure",
    "Measures",
    "Mesh",
    "MessageRun",
    "Network",
    "NetworkModel",
    "Npu",
    "Offload",
    "Operator",
    "Optimizer",
    "Optimum",
    "Pair",
    "Pass",
    "Path",
    "PathForm",
    "Plan",
    "Portfolio",
    "Prices",
    "Program",
    "PytorchConverted",
    "QueueOrder",
    "Receive",
    "Recompute",
    "RemoteMemory",
    "Result",
    "Routing",
    "Schedule",
    "Send",
    "Serving",
    "SubgroupBandwidth",
    "Switching",
    "SystolicArray",
    "TierPrice",
    "Topology",
    "TrainingLoop",
    "Transformer",
    "TransformerSlice",
    "Weighing",
    "Workload",
    "account",
    "bisection",
    "build_network",
    "by_rank",
    "chakra_levels",
    "chakra_stats",
    "check_memory",
    "closed_form",
    "convert_pytorch",
    "crosses_dimensions",
    "cuts",
    "data_parallel",
    "frontier",
    "is_astra_compiled",
    "is_compiled",
    "is_execution_trace",
    "is_measured",
    "lint_chakra",
    "lone_chunks",
    "lower",
    "lower_astra",
    "lower_bound",
    "network_of",
    "network_prices",
    "optimum",
    "outcome_error",
    "overlap_form",
    "parse_shape",
    "place",
    "portfolio",
    "provisioning",
    "queue_matters",
    "read_astra1_layers",
    "read_astra_groups",
    "read_astra_inputs",
    "read_astra_ranks",
    "read_astra_topology",
    "read_astra_workload",
    "read_chakra",
    "read_chakra_workload",
    "read_measured",
    "read_network",
    "repair_chakra",
    "run_batch",
    "run_messages",
    "run_one",
    "scan_chakra",
    "serving",
    "silent_dimensions",
    "simulate",
    "simulate_astra",
    "time_of",
    "traffic",
    "training",
    "training_footprint",
    "training_iteration",
    "units",
    "write_chakra",
    "write_chakra_workload",
]


class Fidelity(StrEnum):
    """Which kernel simulates: phases of chunks on dimensions, or every message on every link."""

    PHASE = "phase"
    MESSAGE = "message"


def simulate(
    workload: Workload,
    cluster: Cluster,
    *,
    fidelity: Fidelity | Literal["phase", "message"] = Fidelity.PHASE,
    fold: bool = True,
    record: bool = False,
) -> Result:
    """Simulate one iteration of ``workload`` on ``cluster``.

    ``fidelity="message"`` simulates every NPU, message and link of ``cluster.network``; it is
    thousands of times slower and sees congestion.  ``fold=False`` has the phase kernel simulate
    every rank instead of one of each class of alike ranks; the result is the same.  ``record``
    keeps what :meth:`Result.timeline` needs.  Raises :class:`DimsweepError` for a workload that
    does not fit the cluster or cannot finish.
    """
    if fidelity not in tuple(Fidelity):
        raise DimsweepError(f"{fidelity!r} is none of {', '.join(Fidelity)}", where="fidelity")
    if fidelity == Fidelity.MESSAGE:
        return Result(run_messages(lower(workload, cluster), record=record))
    return Result(run_one(lower(workload, cluster, fold=fold), record=record))
