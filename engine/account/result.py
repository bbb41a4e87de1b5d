"""Simulation of one iteration of a workload on a cluster, and the description of the result."""

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

if TYPE_CHECKING:  # SimPy is imported only to simulate messages
    from dimsweep.engine.kernels.carriers import Traffic
    from dimsweep.engine.kernels.messages import MessageRun
    from dimsweep.engine.kernels.messages.program import LinkAccount
    from dimsweep.engine.kernels.packet import PacketRun
    from dimsweep.engine.network import Network


@dataclass(frozen=True)
class Result:
    """The result of simulating one iteration: times in seconds, sizes in bytes, costs in USD.

    See :class:`Breakdown` for the meaning of each figure.
    """

    run: "Run | MessageRun"
    outages: tuple[Outage, ...] = ()  # devices that may be down while the job continues

    def __repr__(self) -> str:
        """Show the time and the cluster in a notebook."""
        topology = self.program.cluster.topology
        return f"<{format_time(self.time_ps)} on {topology.name}, {topology.n_npus:,} NPUs>"

    @property
    def program(self) -> Program:
        """The program that was run."""
        return self.run.program

    @cached_property
    def breakdown(self) -> Breakdown:
        """Time by activity, bytes and cost as arrays of one row; times are picoseconds."""
        own = self.program.bandwidth[None]
        speed = compute_mean_speed(self.outages)
        return account(self.program, own, self.run.measures, self._network, speed)

    @cached_property
    def path_account(self) -> PathAccount | None:
        """Critical path by computation and communication, in picoseconds that add up to the time.

        None if simulated message by message.
        """
        return account_path(self.run) if isinstance(self.run, Run) else None

    @cached_property
    def classes(self) -> tuple[ClassAccount, ...]:
        """Time by activity of each class of ranks; message by message each rank is a class."""
        return account_classes(self.program, self.run.measures, self.path_account)

    @property
    def last_class(self) -> int:
        """Index of the class of ranks that finishes last, which :attr:`breakdown` describes."""
        return int(self.run.measures.end[0].argmax())

    @property
    def time_ps(self) -> int:
        """The exact duration in picoseconds."""
        return int(self.breakdown.time[0])

    @property
    def time(self) -> float:
        """Time of the iteration."""
        return self.time_ps / PICOSECONDS

    @property
    def compute(self) -> float:
        """Time of computation on the rank that finishes last."""
        return float(self.breakdown.compute[0]) / PICOSECONDS

    @property
    def exposed(self) -> float:
        """Exposed communication of the rank that finishes last."""
        return float(self.breakdown.exposed[0]) / PICOSECONDS

    @property
    def exposed_by_collective(self) -> dict[str, float]:
        """Exposed communication by kind of collective and group, in seconds."""
        shares = self.breakdown.exposed_by_tally[0] / PICOSECONDS
        return dict(zip(self.program.names.tally, shares.tolist(), strict=True))

    @property
    def exposed_by_dim(self) -> dict[str, float]:
        """Exposed communication by dimension, in seconds; ``"waiting"`` is for other ranks."""
        shares = self.breakdown.exposed_by_dim[0] / PICOSECONDS
        return dict(zip((*self.program.names.dims, "waiting"), shares.tolist(), strict=True))

    @property
    def bytes_by_dim(self) -> dict[str, float]:
        """Bytes that a rank sends in each dimension, averaged over all ranks."""
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
        """Fraction of each dimension's bandwidth in use, averaged over time and ranks."""
        return self._by_dim(self.breakdown.utilisation)

    @property
    def critical_path(self) -> dict[str, float] | None:
        """Seconds of the critical path: ``"compute"``, ``"memory"``, three for each dimension d.

        They are ``"d transfer"``, ``"d latency"`` and ``"d endpoint"`` (delays, reductions).
        ``"memory"`` is the time of operators that memory bandwidth limits. None if simulated
        message by message, as are the shadow prices.
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
        """Change of the time with each dimension's bandwidth, dT/db, in s per byte/s.

        At most 0, unless accesses share a server: an access that starts sooner slows down others.
        """
        return self._by_dim_if_known(self.breakdown.per_bandwidth)

    @property
    def per_latency(self) -> dict[str, float] | None:
        """Change of the time with each dimension's latency, dT/dalpha, in s per s."""
        return self._by_dim_if_known(self.breakdown.per_latency)

    @property
    def per_usd(self) -> dict[str, float] | None:
        """Change of the time with the money spent on each dimension's bandwidth, in s per USD."""
        return self._by_dim_if_known(self.breakdown.per_usd)

    def _by_dim(self, values: Floats | Longs) -> dict[str, float]:
        return dict(zip(self.program.names.dims, values[0].tolist(), strict=True))

    def _by_dim_if_known(self, values: Floats | Longs | None) -> dict[str, float] | None:
        return None if values is None else self._by_dim(values)

    @property
    def cost(self) -> float | None:
        """Cost of the cluster in USD; None without prices."""
        return None if self.breakdown.cost is None else float(self.breakdown.cost[0])

    @property
    def perf_per_cost(self) -> float | None:
        """Iterations per second per USD; None without prices."""
        per_cost = self.breakdown.perf_per_cost
        return None if per_cost is None else float(per_cost[0])

    @property
    def merits(self) -> dict[str, float]:
        """Known figures of merit, by name (see :func:`engine.account.breakdown.merits`)."""
        return {name: float(values[0]) for name, values in self.breakdown.merits.items()}

    @property
    def renewal(self) -> Renewal | None:
        """Split of a job's time into useful work, interruptions and checkpoints.

        None without :attr:`Cluster.reliability`.
        """
        return renewal_of(self.program, self.time)

    @property
    def links(self) -> "tuple[LinkAccount, ...]":
        """Bytes and busy time of each link, if simulated message by message; else empty."""
        return () if isinstance(self.run, Run) else self.run.links

    @property
    def packets(self) -> "PacketRun | None":
        """Flows and ports of a packet run: a flow for each message, a port for each link."""
        return None if self.traffic is None else self.traffic.packets

    @property
    def traffic(self) -> "Traffic | None":
        """Fate of each message, and causes of pauses, if messages are flows or packets."""
        return None if isinstance(self.run, Run) else self.run.traffic

    @property
    def completion_times(self) -> dict[str, Floats]:
        """Seconds of each message by collective, shortest first; empty without :attr:`traffic`."""
        if self.traffic is None or not self.traffic.operators:
            return {}
        names, nodes = self.program.names, self.program.structure.nodes
        row = dict(zip(names.node, nodes["tally"].tolist(), strict=True))
        rows = np.array([row[name] for name in self.traffic.operators])
        times = self.traffic.completion_times / PICOSECONDS
        return {names.tally[i]: np.sort(times[rows == i]) for i in np.unique(rows).tolist()}

    @property
    def spans(self) -> Spans:
        """Start and end of each operator and phase, in columns; the run must have been recorded."""
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
        raise _wrong_type(workload, "workload", hint)
    if not isinstance(cluster, Cluster):
        hint = "a dimsweep.engine.Cluster, such as Cluster(Topology.build('Ring(8)', ...))"
        raise _wrong_type(cluster, "cluster", hint)
    if fidelity not in tuple(Fidelity):
        raise DimsweepError(
            f"unknown fidelity {fidelity!r}; known: {', '.join(Fidelity)}",
            where="fidelity",
            code="unknown-name",
        )
    if fidelity != Fidelity.PHASE:
        from dimsweep.engine.kernels.messages import lower_by_rank  # a slow import
        from dimsweep.engine.kernels.network import run_messages

        program = lower_by_rank(workload, cluster, Fidelity(fidelity))
        run = run_messages(program, Fidelity(fidelity), record=record, watch=watch, fold=fold)
        return Result(run)
    if watch:
        raise DimsweepError(
            "the phase kernel has no links to watch",
            where="watch",
            hint='choose fidelity="packet", or leave watch out',
            code="unsupported",
        )
    phases = lower(workload, cluster, fold=fold)
    check_phases(phases)
    return Result(run_one(phases, record=record))


def _wrong_type(value: object, name: str, expected: str) -> DimsweepError:
    problem = f"{value!r} is not a {name}"
    return DimsweepError(problem, where=name, hint=f"give {expected}", code="wrong-type")


def check_phases(program: Program) -> None:
    """Raise :class:`DimsweepError` unless the phase kernel can simulate the program's network.

    It can simulate dimensions, and graphs that are their product with nothing down or idle.
    """
    program.communication.network.check_phases()
    if program.communication.network.graph is not None:
        from dimsweep.engine.kernels.messages import check_network  # a slow import, seldom needed

        check_network(program, Fidelity.PHASE)


def is_compiled(
    fidelity: Fidelity = Fidelity.PHASE, transport: Transport | str = PacketModel.transport
) -> bool:
    """Return whether the compiled kernels of ``fidelity`` are probably in the cache already.

    With packets, the kernels of ``transport`` count. Otherwise the first run takes up to a minute
    longer.
    """
    if fidelity is Fidelity.PHASE:
        return is_cached(entrances_of_order(MODEL.choose).run_points)
    from dimsweep.engine.kernels.network.kernel import run
    from dimsweep.engine.kernels.packet.network import is_compiled as is_compiled_for

    return is_cached(run) and (fidelity is not Fidelity.PACKET or is_compiled_for(transport))
