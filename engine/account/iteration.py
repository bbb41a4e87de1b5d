"""One iteration of a workload on a cluster: simulated from beginning to end, and accounted for."""

from collections.abc import Collection
from typing import Literal

from dimsweep.engine.account.result import Result
from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.cluster.packets import PacketModel
from dimsweep.engine.cluster.transports import Transport
from dimsweep.engine.compiler import is_cached
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.packet import transports  # noqa: F401  # all are registered
from dimsweep.engine.kernels.phase.batch import of_order, run_one
from dimsweep.engine.kernels.phase.kernel import MODEL
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.lower.lower import lower
from dimsweep.engine.lower.program import Program
from dimsweep.engine.workload.graph import Workload


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

    Parameters
    ----------
    workload, cluster
        The operators, and the NPUs and network that run them.
    fidelity
        ``"message"`` simulates every NPU, message and link of ``cluster.network``; it is at
        least ten times slower and sees congestion. With ``"flow"`` the messages on a link share
        it; with ``"packet"`` they go packet by packet.
    fold
        Whether one rank of each class of equal ranks is simulated; the result is the same
        without.
    record
        Whether to keep the spans that :meth:`Result.timeline` needs.
    watch
        With ``"packet"``, links whose queues, rates, marks and pauses :attr:`Result.traffic`
        and the timeline show over time: ``"NPU 3 -> leaf 0"``, or a node for all links from it.

    Raises
    ------
    DimsweepError
        For a workload that does not fit the cluster or cannot finish.
    """
    if not isinstance(workload, Workload):
        hint = "a dimsweep.engine.Workload, such as plan.training(model, plan, mesh) makes"
        raise DimsweepError(f"{workload!r} is no workload", where="workload", hint=hint)
    if not isinstance(cluster, Cluster):
        hint = "a dimsweep.engine.Cluster, such as Cluster(Topology.build('Ring(8)', ...))"
        raise DimsweepError(f"{cluster!r} is no cluster", where="cluster", hint=hint)
    if fidelity not in tuple(Fidelity):
        raise DimsweepError(f"{fidelity!r} is none of {', '.join(Fidelity)}", where="fidelity")
    if fidelity != Fidelity.PHASE:
        from dimsweep.engine.kernels.messages import lower_by_rank  # which few need
        from dimsweep.engine.kernels.network import run_messages

        program = lower_by_rank(workload, cluster, Fidelity(fidelity))
        run = run_messages(program, Fidelity(fidelity), record=record, watch=watch, fold=fold)
        return Result(run)
    if watch:
        raise DimsweepError(
            "the phase kernel has no links", where="watch", hint='fidelity="packet", or no watch'
        )
    phases = lower(workload, cluster, fold=fold)
    check_phases(phases)
    return Result(run_one(phases, record=record))


def check_phases(program: Program) -> None:
    """Raise :class:`DimsweepError` unless phases know the program's network: its dimensions, or a
    graph that is their product, of which nothing is down and no part idle."""
    program.communication.network.check_phases()
    if program.communication.network.graph is not None:
        from dimsweep.engine.kernels.messages import check_network  # which few need

        check_network(program, Fidelity.PHASE)


def is_compiled(
    fidelity: Fidelity = Fidelity.PHASE, transport: Transport | str = PacketModel.transport
) -> bool:
    """Return whether the kernels of ``fidelity`` are probably compiled already.

    With packets, those of this ``transport``. Otherwise the first run takes up to a minute longer.
    """
    if fidelity is Fidelity.PHASE:
        return is_cached(of_order(MODEL.choose).run_points)
    from dimsweep.engine.kernels.network.kernel import run
    from dimsweep.engine.kernels.packet.network import is_compiled as is_compiled_for

    return is_cached(run) and (fidelity is not Fidelity.PACKET or is_compiled_for(transport))
