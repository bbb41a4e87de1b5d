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
from engine.cluster.cluster import (
    Cluster,
    CollectiveModel,
    DimensionOrder,
    QueueOrder,
    SubgroupBandwidth,
)
from engine.cluster.cost import Prices, TierPrice, network_prices
from engine.cluster.network import NetworkModel, Switching
from engine.cluster.npu import Npu
from engine.cluster.topology import Block, Dimension, Topology, parse_shape
from engine.errors import DimsweepError
from engine.formats.astra1_text import read_layers as read_astra1_layers
from engine.formats.astra_sim.cycles import Cycles as AstraCycles
from engine.formats.astra_sim.files import read_inputs as read_astra_inputs
from engine.formats.astra_sim.files import read_ranks as read_astra_ranks
from engine.formats.astra_sim.files import read_topology as read_astra_topology
from engine.formats.astra_sim.files import read_workload as read_astra_workload
from engine.formats.astra_sim.inputs import Inputs as AstraInputs
from engine.formats.astra_sim.inputs import Options as AstraOptions
from engine.formats.astra_sim.nodes import Node as AstraNode
from engine.formats.astra_sim.program import Program as AstraProgram
from engine.formats.astra_sim.program import is_compiled as is_astra_compiled
from engine.formats.astra_sim.program import lower as lower_astra
from engine.formats.astra_sim.simulate import simulate as simulate_astra
from engine.formats.chakra_workload import read_chakra_workload
from engine.lower.lower import lower
from engine.lower.program import Program
from engine.message.kernel import LinkAccount, MessageRun, by_rank, network_of, run_messages
from engine.network.fabric import Auto, Clos, Dragonfly, Fabric, Mesh, build_network
from engine.network.files import read_network
from engine.network.graph import Link, Network
from engine.network.routing import Routing
from engine.run.batch import Measures, is_compiled, outcome_error, run_batch, run_one
from engine.run.phase import FINISHED
from engine.workload.convnet import Convolution, data_parallel
from engine.workload.graph import (
    Collective,
    CollectiveKind,
    Compute,
    GraphBuilder,
    Group,
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
    "AstraCycles",
    "AstraInputs",
    "AstraNode",
    "AstraOptions",
    "AstraProgram",
    "Auto",
    "Block",
    "Breakdown",
    "Clos",
    "ClosedForm",
    "Cluster",
    "Collective",
    "CollectiveKind",
    "CollectiveModel",
    "Communication",
    "Compute",
    "Convolution",
    "Dimension",
    "DimensionOrder",
    "DimsweepError",
    "Dragonfly",
    "Fabric",
    "Fidelity",
    "GraphBuilder",
    "Group",
    "Layer",
    "Link",
    "LinkAccount",
    "Measures",
    "Mesh",
    "MessageRun",
    "Network",
    "NetworkModel",
    "Npu",
    "Operator",
    "Pass",
    "Prices",
    "Program",
    "QueueOrder",
    "Receive",
    "Result",
    "Routing",
    "Send",
    "SubgroupBandwidth",
    "Switching",
    "TierPrice",
    "Topology",
    "TrainingLoop",
    "TransformerSlice",
    "Workload",
    "account",
    "build_network",
    "by_rank",
    "closed_form",
    "data_parallel",
    "is_astra_compiled",
    "is_compiled",
    "lower",
    "lower_astra",
    "network_of",
    "network_prices",
    "outcome_error",
    "parse_shape",
    "place",
    "read_astra1_layers",
    "read_astra_inputs",
    "read_astra_ranks",
    "read_astra_topology",
    "read_astra_workload",
    "read_chakra_workload",
    "read_network",
    "run_batch",
    "run_messages",
    "run_one",
    "simulate",
    "simulate_astra",
    "traffic",
    "training_iteration",
    "units",
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
