"""Simulate one iteration of a workload on a cluster, and describe the result."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dimsweep.engine.account.breakdown import Breakdown, account, renewal_of, sending_bandwidth
from dimsweep.engine.account.spans import (
    ClassAccount,
    PathAccount,
    Spans,
    account_classes,
    account_path,
    spans_of,
)
from dimsweep.engine.account.timeline import build_trace, encode_trace
from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.cluster.packet_model import PacketModel
from dimsweep.engine.cluster.transports import Transport
from dimsweep.engine.compiler import is_cached
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.packet import transports  # noqa: F401  # all are registered
from dimsweep.engine.kernels.phase.batch import Run, entrances_of_order, run_one
from dimsweep.engine.kernels.phase.kernel import MODEL
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.lower.lower import lower
from dimsweep.engine.lower.program import Floats, Longs, Program
from dimsweep.engine.reliability import Outage, Renewal, compute_mean_speed
from dimsweep.engine.units import PICOSECONDS, format_time
from dimsweep.engine.workload.graph import Workload

if TYPE_CHECKING:  # SimPy is imported by whoever simulates messages
    from dimsweep.engine.kernels.carriers import Traffic
    from dimsweep.engine.kernels.messages import MessageRun
    from dimsweep.engine.kernels.messages.program import LinkAccount
    from dimsweep.engine.kernels.packet import PacketRun
    from dimsweep.engine.network import Network


@dataclass(frozen=True)
class Result:
    """One iteration.  Times are seconds, sizes bytes; see :class:`Breakdown` for what they mean."""

    run: "Run | MessageRun"
    outages: tuple[Outage, ...] = ()  # what may be down while the job goes on, and what that costs

    def __repr__(self) -> str:
        """Show the time and the cluster in a notebook."""
        topology = self.program.cluster.topology
        return f"<{format_time(self.time_ps)} on {topology.name}, {topology.n_npus:,} NPUs>"

    @property
    def program(self) -> Program:
        return self.run.program

    @cached_property
    def breakdown(self) -> Breakdown:
        """The account as arrays of one row, in picoseconds."""
        own = self.program.bandwidth[None]
        speed = compute_mean_speed(self.outages)
        return account(self.program, own, self.run.measures, self._network, speed)

    @cached_property
    def path_account(self) -> PathAccount | None:
        """The critical path by what computes and by what communicates, in picoseconds that add up
        to the time.  None if simulated message by message."""
        return account_path(self.run) if isinstance(self.run, Run) else None

    @cached_property
    def classes(self) -> tuple[ClassAccount, ...]:
        """Account of the ranks of each class; message by message each rank is a class."""
        return account_classes(self.program, self.run.measures, self.path_account)

    @property
    def last_class(self) -> int:
        """Class of ranks that finishes last, which :attr:`breakdown` describes."""
        return int(self.run.measures.end[0].argmax())

    @property
    def time_ps(self) -> int:
        """The exact duration in picoseconds."""
        return int(self.breakdown.time[0])

    @property
    def time(self) -> float:
        return self.time_ps / PICOSECONDS

    @property
    def compute(self) -> float:
        return float(self.breakdown.compute[0]) / PICOSECONDS

    @property
    def exposed(self) -> float:
        return float(self.breakdown.exposed[0]) / PICOSECONDS

    @property
    def exposed_by_collective(self) -> dict[str, float]:
        shares = self.breakdown.exposed_by_tally[0] / PICOSECONDS
        return dict(zip(self.program.names.tally, shares.tolist(), strict=True))

    @property
    def exposed_by_dim(self) -> dict[str, float]:
        """By dimension; ``"waiting"`` is for other ranks."""
        shares = self.breakdown.exposed_by_dim[0] / PICOSECONDS
        return dict(zip((*self.program.names.dims, "waiting"), shares.tolist(), strict=True))

    @property
    def bytes_by_dim(self) -> dict[str, float]:
        return self._by_dim(self.breakdown.bytes_sent)

    @property
    def bandwidth_by_dim(self) -> dict[str, float]:
        """Bytes/s that the last rank can send: by the dimensions, or by a graph's links.

        See :func:`engine.account.breakdown.sending_bandwidth`.
        """
        own = self.program.bandwidth[None]
        return self._by_dim(sending_bandwidth(self.program, own, self.last_class, self._network))

    @property
    def _network(self) -> "Network | None":
        return None if isinstance(self.run, Run) else self.run.network

    @property
    def utilisation(self) -> dict[str, float]:
        return self._by_dim(self.breakdown.utilisation)

    @property
    def critical_path(self) -> dict[str, float] | None:
        """Parts of the time: ``"compute"``, ``"memory"`` (operators bound by it), and for each
        dimension d ``"d transfer"``, ``"d latency"``, ``"d endpoint"`` (delays, reductions).

        None if simulated message by message, as are the shadow prices.
        """
        path = self.breakdown.path
        if path is None:
            return None
        parts = {"compute": int(path.compute[0]), "memory": int(path.memory[0])}
        for d, name in enumerate(self.program.names.dims):
            for part in ("transfer", "latency", "endpoint"):
                parts[f"{name} {part}"] = int(getattr(path, part)[0, d])
        return {name: picoseconds / PICOSECONDS for name, picoseconds in parts.items()}

    @property
    def per_bandwidth(self) -> dict[str, float] | None:
        """The seconds that one more byte/s in a dimension would add: dT/db, at most 0 unless
        accesses share a server (what then begins sooner slows others down)."""
        return self._by_dim_if_known(self.breakdown.per_bandwidth)

    @property
    def per_latency(self) -> dict[str, float] | None:
        """The seconds that one more second of latency a hop would add: dT/dalpha."""
        return self._by_dim_if_known(self.breakdown.per_latency)

    @property
    def per_usd(self) -> dict[str, float] | None:
        """The seconds that one more USD spent on a dimension's bandwidth would add."""
        return self._by_dim_if_known(self.breakdown.per_usd)

    def _by_dim(self, values: Floats | Longs) -> dict[str, float]:
        return dict(zip(self.program.names.dims, values[0].tolist(), strict=True))

    def _by_dim_if_known(self, values: Floats | Longs | None) -> dict[str, float] | None:
        return None if values is None else self._by_dim(values)

    @property
    def cost(self) -> float | None:
        return None if self.breakdown.cost is None else float(self.breakdown.cost[0])

    @property
    def perf_per_cost(self) -> float | None:
        per_cost = self.breakdown.perf_per_cost
        return None if per_cost is None else float(per_cost[0])

    @property
    def merits(self) -> dict[str, float]:
        """Further figures, as far as they are known: samples_per_s, tokens_per_s, mfu, accuracy,
        power_w, energy_j (an iteration), perf_per_watt, ettr, effective_time_s, usd_per_token."""
        return {name: float(values[0]) for name, values in self.breakdown.merits.items()}

    @property
    def renewal(self) -> Renewal | None:
        """Account of a job's time with interruptions and checkpoints; None without
        :attr:`Cluster.reliability`."""
        return renewal_of(self.program, self.time)

    @property
    def links(self) -> "tuple[LinkAccount, ...]":
        """Accounts of all links, if simulated message by message; else empty."""
        return () if isinstance(self.run, Run) else self.run.links

    @property
    def packets(self) -> "PacketRun | None":
        """Flows and ports of a run packet by packet: a flow for each message, a port for each of
        :attr:`links`."""
        return None if self.traffic is None else self.traffic.packets

    @property
    def traffic(self) -> "Traffic | None":
        """Fate of each message, and causes of pauses, if messages were carried as flows or
        packets."""
        return None if isinstance(self.run, Run) else self.run.traffic

    @property
    def completion_times(self) -> dict[str, Floats]:
        """Seconds that each message took, shortest first, by collective as in
        :attr:`exposed_by_collective`; none where :attr:`traffic` is not known."""
        if self.traffic is None or not self.traffic.operators:
            return {}
        names, nodes = self.program.names, self.program.structure.nodes
        row = dict(zip(names.node, nodes["tally"].tolist(), strict=True))
        rows = np.array([row[name] for name in self.traffic.operators])
        times = self.traffic.completion_times / PICOSECONDS
        return {names.tally[i]: np.sort(times[rows == i]) for i in np.unique(rows).tolist()}

    @property
    def spans(self) -> Spans:
        """When what took place, in columns; the run must have been recorded."""
        return spans_of(self.run)

    def timeline(self, limit: int | None = None) -> dict[str, Any]:
        """Return a Chrome trace (open it in Perfetto) of at most ``limit`` bytes, if given.

        The run must have been recorded. :func:`engine.account.timeline.build_trace` says which
        spans are left out.
        """
        return build_trace(self.run, limit)

    def timeline_file(self, limit: int | None = None) -> tuple[bytes, str]:
        """Return :meth:`timeline` as the bytes of a file, and a sentence on its content."""
        made = build_trace(self.run, limit)
        return encode_trace(made), made["otherData"]["holds"]


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
        return is_cached(entrances_of_order(MODEL.choose).run_points)
    from dimsweep.engine.kernels.network.kernel import run
    from dimsweep.engine.kernels.packet.network import is_compiled as is_compiled_for

    return is_cached(run) and (fidelity is not Fidelity.PACKET or is_compiled_for(transport))
