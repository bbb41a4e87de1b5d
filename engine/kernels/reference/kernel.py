"""The message kernel on SimPy: every NPU, every message, every link.

It runs the same :class:`Program` as the phase kernel, with one class per rank.  It takes from it
all decisions made before the run: the operators, their flows, and each chunk's phases.  The
duration of a phase is not taken over, because it follows from the messages.

Operators start flows, whose chunks queue at ports, which let phases exchange messages; ends are
reported in the opposite direction.  At the end of each instant operators settle, then servers, then
ports.
"""

from collections.abc import Collection

from dimsweep.engine.collector import collector_paused
from dimsweep.engine.kernels.core.tables import DONE, LONGEST
from dimsweep.engine.kernels.messages.phases import interconnect_plan
from dimsweep.engine.kernels.messages.program import (
    MessageRun,
    OperatorSpan,
    check_ranks,
    links_to_watch,
    network_of,
    stuck_error,
    too_long_error,
)
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.kernels.reference.exchange import RankAccount, World, measure_accounts
from dimsweep.engine.kernels.reference.links import LinkTransport
from dimsweep.engine.kernels.reference.operators import Operators
from dimsweep.engine.kernels.reference.ports import Ports
from dimsweep.engine.kernels.reference.transport import CarriedTransport, Transport
from dimsweep.engine.kinds import Fidelity
from dimsweep.engine.lower.program import Program


def run_on_simpy(
    program: Program,
    fidelity: Fidelity = Fidelity.MESSAGE,
    *,
    record: bool = False,
    watch: Collection[str] = (),
) -> MessageRun:
    """Simulate the program at its own point, message by message, on SimPy.

    It is the short, readable reference for :func:`engine.kernels.network.run_messages`; both
    results are equal to the picosecond.
    """
    check_ranks(program, fidelity)
    network, shape = network_of(program), program.structure.shape
    watched = links_to_watch(network, watch, fidelity)
    clock, plan, model = Clock(), interconnect_plan(program), program.communication.network
    transport: Transport
    if fidelity is Fidelity.MESSAGE:
        transport = LinkTransport(clock, network, model, plan, record=record)
    else:
        transport = CarriedTransport(clock, network, model, plan, fidelity, watched)
    accounts = [RankAccount(clock, shape.n_dims, shape.n_tallies) for _ in range(program.n_npus)]
    world = World(clock, transport, accounts, shape.endpoint_delay, shape.reduce_time)
    shares = program.communication.shares_ports
    ports = Ports(world, shape.n_dims, shape.queue, shares=shares)
    operators = Operators(program, world, ports.submit)
    clock.settling = [operators.settle, operators.servers.settle, ports.settle]
    clock.touch()
    with collector_paused():
        transport.run()
    if clock.ps >= LONGEST:
        raise too_long_error()
    if any(state != DONE for state in operators.state):
        raise stuck_error(program, operators.state, operators.runs, transport.blocked())
    measures = measure_accounts(accounts)
    return MessageRun(
        program=program,
        network=network,
        measures=measures,
        links=transport.accounts(int(measures.time[0])),
        operators=tuple(map(OperatorSpan, operators.start, operators.end)),
        phases=tuple(ports.spans) if record else (),
        n_messages=transport.n_messages,
        plan=plan,
        traffic=transport.traffic(),
        recorded=record,
    )
