"""The message kernel: every NPU, every message, every link, on SimPy.

It runs the same :class:`Program` as the phase kernel, with every rank for itself, and takes from it
what is decided before anything moves: the operators, their flows, and each chunk's phases.  How
long a phase lasts is not taken over: it follows from the messages.
"""

import dataclasses
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from engine.cluster.cluster import Cluster
from engine.collector import no_collector
from engine.errors import DimsweepError
from engine.fidelity import Fidelity
from engine.kernels.carriers import CARRIERS, Traffic
from engine.kernels.core.none import LONGEST
from engine.kernels.phase.batch import Measures, outcome_error
from engine.kernels.phase.diagnosis import explain_stuck
from engine.kernels.phase.state import DONE, FINISHED, TOO_LONG
from engine.kernels.reference.carried import CarriedTransport
from engine.kernels.reference.clock import Clock
from engine.kernels.reference.count import check_packets, count_messages
from engine.kernels.reference.edge_io import EdgeTraffic
from engine.kernels.reference.exchange import World
from engine.kernels.reference.flows import Flows
from engine.kernels.reference.io_plan import io_plan
from engine.kernels.reference.links import LinkAccount
from engine.kernels.reference.operators import Operators
from engine.kernels.reference.phases import wafer_plan
from engine.kernels.reference.ports import PhaseSpan, Ports
from engine.kernels.reference.ranks import RankAccount
from engine.kernels.reference.transport import Transport, check_number
from engine.lower.lower import lower
from engine.lower.program import Program
from engine.network.fabric import build_network, check_fabrics
from engine.network.graph import Network
from engine.network.wafer import WaferPlan
from engine.workload.graph import Workload


class OperatorSpan(NamedTuple):
    """When a node of the program ran (ps)."""

    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class MessageRun:
    """One point simulated message by message; the classes of ``program`` are its ranks."""

    program: Program
    network: Network
    measures: Measures
    links: tuple[LinkAccount, ...]
    operators: tuple[OperatorSpan, ...]
    phases: tuple[PhaseSpan, ...]
    n_messages: int
    plan: WaferPlan | None  # of ranks and groups on a wafer
    traffic: Traffic | None  # of messages that were carried as flows or packets
    recorded: bool
    n_simulated: int | None = None  # ranks, if others are alike; None: all


def run_on_simpy(
    program: Program,
    fidelity: Fidelity = Fidelity.MESSAGE,
    *,
    record: bool = False,
    watch: Collection[str] = (),
) -> MessageRun:
    """Simulate the program at its own point, message by message, on SimPy.

    See :func:`engine.kernels.network.run_messages`, of which it is the small readable witness,
    equal to the picosecond.
    """
    check_ranks(program)
    network = network_of(program)
    watched = links_to_watch(network, watch, fidelity)
    simulation = _Simulation(program, network, fidelity, watched, record=record)
    simulation.run()
    accounts, operators = simulation.accounts, simulation.operators
    end = max(account.end for account in accounts)
    spans = zip(operators.start, operators.end, strict=True)
    return MessageRun(
        program=program,
        network=network,
        measures=_measures(accounts, end, simulation.bytes_sent),
        links=simulation.transport.accounts(end),
        operators=tuple(OperatorSpan(*span) for span in spans),
        phases=tuple(simulation.ports.spans) if record else (),
        n_messages=simulation.transport.n_messages,
        plan=simulation.plan,
        traffic=simulation.transport.traffic(),
        recorded=record,
    )


def check_ranks(program: Program) -> None:
    """Raise :class:`DimsweepError` unless every rank is a class of its own."""
    if program.names.class_first != tuple(range(program.n_npus)):
        raise DimsweepError(
            f"the program has {len(program.names.class_first)} classes of {program.n_npus} ranks",
            hint="the message kernel runs what lower_by_rank, or lower(..., fold=False), returns",
        )


def lower_by_rank(
    workload: Workload, cluster: Cluster, fidelity: Fidelity = Fidelity.MESSAGE
) -> Program:
    """The program of ``workload`` with every rank a class of its own, as the message kernel needs.

    Raises :class:`DimsweepError` as :func:`engine.lower` does, and, before anything is lowered,
    when the ranks would send more messages than ``network.max_messages`` or (with
    ``fidelity=packet``) more packets than ``network.max_packets``, or a collective library would
    send them.
    """
    workload.check(cluster.topology.sizes)
    if cluster.collectives.library is not None or cluster.collectives.timings is not None:
        raise DimsweepError(
            "which messages a collective library sends is not known, only how long they take",
            where="fidelity",
            hint="fidelity=phase, or collective=default, whose algorithms send every message",
        )
    check_fabrics(cluster.topology, cluster.network.fabrics)
    n_messages = count_messages(workload, cluster)
    check_number(n_messages, cluster.network)
    if fidelity is Fidelity.PACKET:
        check_packets(workload, cluster, n_messages)
    return lower(workload, cluster, fold=False)


def network_of(program: Program) -> Network:
    """The links that the program runs on, at its bandwidth and latency.

    Raises :class:`DimsweepError` when a network from a graph has another number of NPUs than the
    topology, or the fabrics do not fit the dimensions.
    """
    topology, model = program.cluster.topology, program.cluster.network
    if model.wafer is not None:
        model.wafer.check_ranks(topology.n_npus)
        return model.wafer.network
    if model.graph is not None:
        if model.graph.n_npus != topology.n_npus:
            raise DimsweepError(
                f"the network has {model.graph.n_npus} NPUs, the topology {topology.n_npus}",
                where="network.file",
                hint="topology.shape says who communicates with whom: as many NPUs as the graph",
            )
        return model.graph
    dims = tuple(
        dataclasses.replace(dim, bandwidth=float(b), latency=int(latency))
        for dim, b, latency in zip(topology.dims, program.bandwidth, program.latency, strict=True)
    )
    return build_network(dataclasses.replace(topology, dims=dims), model.fabrics)


def check_network(program: Program, fidelity: Fidelity) -> None:
    """Raise :class:`DimsweepError` as :func:`network_of` does, or if ``fidelity`` cannot simulate
    the program's network."""
    network = network_of(program)
    if fidelity in CARRIERS:
        CARRIERS[fidelity](network, program.cluster.network, ())


def links_to_watch(network: Network, names: Collection[str], fidelity: Fidelity) -> list[int]:
    """The numbers of the links that ``names`` stand for, as :meth:`Network.named` has them.

    Raises :class:`DimsweepError` for names that there are not, and for links that have no queue.
    """
    if names and fidelity is not Fidelity.PACKET:
        raise DimsweepError(
            "only links that packets wait for have queues, marks and pauses",
            where="watch",
            hint="add fidelity=packet, or leave watch out",
        )
    return network.named(names)


class _Simulation:
    def __init__(
        self,
        program: Program,
        network: Network,
        fidelity: Fidelity,
        watched: Collection[int],
        *,
        record: bool,
    ) -> None:
        shape = program.structure.shape
        self.program = program
        self.clock = Clock()
        self.plan = wafer_plan(program)
        self.transport = self._transport(network, fidelity, watched, record)
        self.accounts = [RankAccount(shape.n_dims, shape.n_tallies) for _ in range(program.n_npus)]
        self.bytes_sent = [[0.0] * shape.n_dims for _ in self.accounts]
        world = World(
            self.clock, self.transport, shape.endpoint_delay, shape.reduce_time, self.bytes_sent
        )
        self.ports = Ports(world, self.accounts, shape.n_dims, shape.queue, self._touch)
        if fidelity is Fidelity.PACKET and isinstance(self.transport, CarriedTransport):
            self.transport.senders = self.ports
        self.flows = Flows(
            program, self.clock, self.accounts, self.plan, self.ports.submit, self._done
        )
        self.operators = Operators(
            self.clock, program, self.accounts, self._touch, self.flows.start, self._edge(network)
        )
        self._touched = False

    def _transport(
        self, network: Network, fidelity: Fidelity, watched: Collection[int], record: bool
    ) -> Transport | CarriedTransport:
        model = self.program.cluster.network
        if fidelity is Fidelity.MESSAGE:
            return Transport(self.clock, network, model, self.plan, record=record)
        places = self.plan.places if self.plan else ()
        spray = fidelity is Fidelity.PACKET and model.packets.spray
        carrier = CARRIERS[fidelity](network, model, watched)
        return CarriedTransport(self.clock, network, model, carrier, places, spray=spray)

    def _edge(self, network: Network) -> EdgeTraffic | None:
        """What goes through a wafer's I/O controllers, if that is to be simulated."""
        if isinstance(self.transport, CarriedTransport):
            return None
        transfers, name = io_plan(self.program, network, self.plan), self.program.names.node
        return EdgeTraffic(self.transport, transfers, name.__getitem__, self._accessed)

    def run(self) -> None:
        self._touch()
        with no_collector():
            self.transport.run()
        if self.clock.ps >= LONGEST:
            raise outcome_error(TOO_LONG)
        if any(state != DONE for state in self.operators.state):
            raise self._stuck()

    def _touch(self) -> None:
        """Settle at the end of this instant."""
        if not self._touched:
            self._touched = True
            self.clock.last(self._settle)

    def _settle(self) -> None:
        self._touched = False
        self.operators.settle()
        self.ports.settle()

    def _done(self, flow: int, rank: int) -> None:
        self.operators.end_part(flow, rank)

    def _accessed(self, node: int) -> None:
        self.operators.finish(node)

    def _stuck(self) -> DimsweepError:
        error = explain_stuck(self.program, self.operators.state, self.operators.runs)
        lines = self.transport.blocked()
        return blocked_error(lines) if lines else error


def blocked_error(blocked: list[str]) -> DimsweepError:
    """Links that stand still for ever, each with the message that it holds."""
    more = f"\n  ... and {len(blocked) - 8} more links" if len(blocked) > 8 else ""
    return DimsweepError(
        "deadlock: buffers are full in a circle; these links stand still\n  "
        + "\n  ".join(blocked[:8])
        + more,
        where="network.buffer",
        hint="larger buffers, none, or another routing",
    )


def _measures(accounts: list[RankAccount], end: int, bytes_sent: list[list[float]]) -> Measures:
    """The accounts of all ranks as one point of the phase kernel's measures."""
    return Measures(
        outcome=np.array([FINISHED], dtype=np.int32),
        time=np.array([end], dtype=np.int64),
        end=np.array([[account.end for account in accounts]], dtype=np.int64),
        compute=np.array([[account.compute for account in accounts]], dtype=np.int64),
        exposed=np.array([[account.exposed for account in accounts]], dtype=np.int64),
        exposed_by_dim=np.array([[account.by_dim for account in accounts]]),
        exposed_by_tally=np.array([[account.by_tally for account in accounts]]),
        busy=np.array([[account.busy for account in accounts]], dtype=np.int64),
        bytes_sent=np.array([bytes_sent]),
        path=None,
    )
