"""dimsweep's engine: an event-driven simulator of training on multi-dimensional networks.

    from dimsweep.engine import simulate
    result = simulate(workload, cluster)

A workload (operator graphs and process groups) and a cluster (network, NPU, collective model) are
lowered once into a :class:`Program`; :func:`run_batch` then simulates it at thousands of bandwidth
vectors a second, and a :class:`Runner` at more of them, again and again.  This package knows
nothing of studies, searches, files of results or terminals.
"""

from dimsweep.engine import units
from dimsweep.engine.account.breakdown import MERIT_NEEDS, Breakdown, account, known_merits
from dimsweep.engine.account.result import Result, check_phases, is_compiled, simulate
from dimsweep.engine.account.spans import (
    ClassAccount,
    PathAccount,
    Spans,
    density,
    list_threads,
    merge_spans,
)
from dimsweep.engine.cluster.cluster import Cluster, CollectiveModel
from dimsweep.engine.cluster.cost import Prices
from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.cluster.npu import Npu
from dimsweep.engine.cluster.packet_model import PacketModel
from dimsweep.engine.cluster.remote_memory import RemoteMemory
from dimsweep.engine.collective.algorithms import list_algorithms
from dimsweep.engine.compiler import cache_folder
from dimsweep.engine.errors import (
    Code,
    DimsweepError,
    InfeasibleError,
    TooManyError,
    accessing,
    describe_defect,
    find_nearest,
    format_yaml,
    naming_place,
    needing,
    prefixing_errors,
    suggest_names,
)
from dimsweep.engine.kernels.phase.batch import Measures, Runner, outcome_error, run_batch, run_one
from dimsweep.engine.kernels.phase.path import Path
from dimsweep.engine.kernels.phase.state import FINISHED
from dimsweep.engine.kinds import ORDERS, CollectiveKind, DimensionOrder, Fidelity, QueueOrder
from dimsweep.engine.lower.lower import lower
from dimsweep.engine.lower.memory import check_memory, own_capacity, remote_capacity
from dimsweep.engine.lower.program import Program
from dimsweep.engine.topology.blocks import (
    Block,
    FullyConnected,
    Mesh2D,
    Ring,
    SubgroupBandwidth,
    Switch,
    Torus2D,
)
from dimsweep.engine.topology.coordinates import Group
from dimsweep.engine.topology.topology import Dimension, Topology
from dimsweep.engine.workload.graph import (
    Access,
    Collective,
    Compute,
    GraphBuilder,
    Operator,
    Receive,
    Send,
    Workload,
)
from dimsweep.engine.workload.placement import place

# Raise it when a change makes the same inputs give another result: ledgers keep versions apart.
MODEL_VERSION = 26
