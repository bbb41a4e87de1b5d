"""The message kernel: every NPU, every message, every link, on SimPy.

It runs the same :class:`Program` as the phase kernel, with every rank for itself, and takes from it
what is decided before anything moves: the operators, their flows, and each chunk's phases.  How
long a phase lasts is not taken over: it follows from the messages.
"""

from collections.abc import Collection

import numpy as np

from engine.collector import no_collector
from engine.errors import DimsweepError
from engine.fidelity import Fidelity
from engine.kernels.carriers import CARRIERS
from engine.kernels.core.none import LONGEST
from engine.kernels.messages.io_plan import io_plan
from engine.kernels.messages.phases import wafer_plan
from engine.kernels.messages.program import check_ranks, links_to_watch, network_of
from engine.kernels.messages.run import MessageRun, OperatorSpan, blocked_error
from engine.kernels.phase.batch import Measures, outcome_error
from engine.kernels.phase.diagnosis import explain_stuck
from engine.kernels.phase.state import DONE, FINISHED, TOO_LONG
from engine.kernels.reference.carried import CarriedTransport
from engine.kernels.reference.clock import Clock
from engine.kernels.reference.edge_io import EdgeTraffic
from engine.kernels.reference.exchange import World
from engine.kernels.reference.flows import Flows
from engine.kernels.reference.operators import Operators
from engine.kernels.reference.ports import Ports
from engine.kernels.reference.ranks import RankAccount
from engine.kernels.reference.transport import Transport
from engine.lower.program import Program
from engine.network.graph import Network


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
        model = self.program.communication.network
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
