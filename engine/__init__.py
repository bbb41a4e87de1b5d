"""dimsweep's engine: an event-driven simulator of training on multi-dimensional networks.

    from engine import simulate
    result = simulate(workload, cluster)

A workload (operator graphs and process groups) and a cluster (network, NPU, collective model) are
lowered once into a :class:`Program`; :func:`run_batch` then simulates it at thousands of bandwidth
vectors a second, and a :class:`Runner` at more of them, again and again.  This package knows
nothing of studies, searches, files of results or terminals.
"""

from collections.abc import Collection
from typing import Literal

from engine import units
from engine.account.along import Along, ClassAccount
from engine.account.breakdown import Breakdown, account
from engine.account.merit import MERIT_NEEDS, known_merits
from engine.account.result import Result
from engine.account.spans import Spans, covered, density, threads_of
from engine.cluster.blocks import (
    Block,
    FullyConnected,
    Mesh2D,
    Ring,
    SubgroupBandwidth,
    Switch,
    Torus2D,
)
from engine.cluster.blocks.topology import Dimension, Topology
from engine.cluster.cluster import Cluster, CollectiveModel
from engine.cluster.cost import Prices
from engine.cluster.memory import RemoteMemory
from engine.cluster.network import NetworkModel
from engine.cluster.npu import Npu
from engine.cluster.packets import PacketModel
from engine.compiler import is_cached
from engine.errors import (
    DimsweepError,
    InfeasibleError,
    in_yaml,
    nearest,
    needing,
    suggestion,
    told_defect,
)
from engine.fidelity import Fidelity
from engine.kernels.packet import transports as _transports  # noqa: F401  # all are registered
from engine.kernels.phase.batch import (
    Measures,
    Runner,
    outcome_error,
    run_batch,
    run_one,
    run_points,
)
from engine.kernels.phase.path import Path
from engine.kernels.phase.state import FINISHED
from engine.kinds import CollectiveKind, DimensionOrder, QueueOrder
from engine.lower.lower import lower
from engine.lower.memory import check_memory
from engine.lower.program import Program
from engine.workload.graph import (
    Access,
    Collective,
    Compute,
    GraphBuilder,
    Group,
    Operator,
    Receive,
    Send,
    Workload,
)
from engine.workload.placement import place

# Raise it when a change makes the same inputs give another result: ledgers keep versions apart.
MODEL_VERSION = 16

__all__ = [
    "FINISHED",
    "MERIT_NEEDS",
    "MODEL_VERSION",
    "Access",
    "Along",
    "Block",
    "Breakdown",
    "ClassAccount",
    "Cluster",
    "Collective",
    "CollectiveKind",
    "CollectiveModel",
    "Compute",
    "Dimension",
    "DimensionOrder",
    "DimsweepError",
    "Fidelity",
    "FullyConnected",
    "GraphBuilder",
    "Group",
    "InfeasibleError",
    "Measures",
    "Mesh2D",
    "NetworkModel",
    "Npu",
    "Operator",
    "PacketModel",
    "Path",
    "Prices",
    "Program",
    "QueueOrder",
    "Receive",
    "RemoteMemory",
    "Result",
    "Ring",
    "Runner",
    "Send",
    "Spans",
    "SubgroupBandwidth",
    "Switch",
    "Topology",
    "Torus2D",
    "Workload",
    "account",
    "check_memory",
    "covered",
    "density",
    "in_yaml",
    "is_compiled",
    "known_merits",
    "lower",
    "nearest",
    "needing",
    "outcome_error",
    "place",
    "run_batch",
    "run_one",
    "simulate",
    "suggestion",
    "threads_of",
    "told_defect",
    "units",
]


def simulate(
    workload: Workload,
    cluster: Cluster,
    *,
    fidelity: Fidelity | Literal["phase", "message", "flow", "packet"] = Fidelity.PHASE,
    fold: bool = True,
    record: bool = False,
    watch: Collection[str] = (),
) -> Result:
    """Simulate one iteration of ``workload`` on ``cluster``.

    ``fidelity="message"`` simulates every NPU, message and link of ``cluster.network``; it is
    at least ten times slower and sees congestion.  With ``"flow"`` the messages on a link share it,
    with ``"packet"`` they go packet by packet.  ``fold=False`` simulates every rank instead of one
    of each class of alike ranks; the result is the same.  ``record``
    keeps what :meth:`Result.timeline` needs.  With ``"packet"``, ``watch`` names links whose
    queues, rates, marks and pauses :attr:`Result.traffic` and the timeline then have over time:
    ``"NPU 3 -> leaf 0"``, or a node for all links by which it sends.  Raises
    :class:`DimsweepError` for a workload that does not fit the cluster or cannot finish.
    """
    if not isinstance(workload, Workload):
        hint = "an engine.Workload, such as engine.plan.training(model, plan, mesh) makes"
        raise DimsweepError(f"{workload!r} is no workload", where="workload", hint=hint)
    if not isinstance(cluster, Cluster):
        hint = "an engine.Cluster, such as Cluster(Topology.build('Ring(8)', ...))"
        raise DimsweepError(f"{cluster!r} is no cluster", where="cluster", hint=hint)
    if fidelity not in tuple(Fidelity):
        raise DimsweepError(f"{fidelity!r} is none of {', '.join(Fidelity)}", where="fidelity")
    if fidelity != Fidelity.PHASE:
        from engine.kernels.messages import lower_by_rank  # which few need
        from engine.kernels.network import run_messages

        program = lower_by_rank(workload, cluster, Fidelity(fidelity))
        run = run_messages(program, Fidelity(fidelity), record=record, watch=watch, fold=fold)
        return Result(run)
    if watch:
        raise DimsweepError(
            "the phase kernel has no links", where="watch", hint='fidelity="packet", or no watch'
        )
    return Result(run_one(lower(workload, cluster, fold=fold), record=record))


def is_compiled(fidelity: Fidelity = Fidelity.PHASE) -> bool:
    """Whether the compiled code of all kernels that ``fidelity`` needs is likely to be on disk;
    else the first run takes up to a minute longer."""
    if fidelity is Fidelity.PHASE:
        return is_cached(run_points)
    from engine.kernels.network.kernel import run
    from engine.kernels.packet.kernel import run as run_packets

    return is_cached(run) and (fidelity is not Fidelity.PACKET or is_cached(run_packets))
