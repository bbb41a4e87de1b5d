"""Compiles all kernels side by side before the tests start; else every test process would compile
each of them for itself."""

import subprocess
import sys

from dimsweep.engine import (
    Cluster,
    Collective,
    CollectiveKind,
    Compute,
    Fidelity,
    GraphBuilder,
    Npu,
    Topology,
    Workload,
    is_compiled,
    place,
    simulate,
)
from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.compiler import is_cached
from dimsweep.engine.extensions.astra_sim import simulate_astra
from dimsweep.engine.extensions.astra_sim.rules import ItsRules
from dimsweep.engine.extensions.wafer import MeshWafer
from dimsweep.engine.formats.chakra import NodeType, TraceNode
from dimsweep.engine.formats.chakra.node import node_of
from dimsweep.engine.kernels.flow import simulate_flows
from dimsweep.engine.kernels.flow.network import run as run_flows
from dimsweep.engine.kernels.messages import lower_by_rank
from dimsweep.engine.kernels.network import MessageRunner
from dimsweep.engine.kernels.network.kernel import run as run_messages
from dimsweep.engine.kernels.packet import Fabric, Flow, Port, Settings, simulate_packets
from tests.support.astra_runs import ring_of_four

_PORTS = [Port(0, 2, 10**11, 10**6), Port(2, 0, 10**11, 10**6)]
_PORTS += [Port(1, 2, 10**11, 10**6), Port(2, 1, 10**11, 10**6)]
_FABRIC, _FLOWS = (
    Fabric(_PORTS, buffers={2: 1 << 20}),
    [Flow(1000, (0, 2, 1), (1, 2, 0), window=1000, round_trip=1000)],
)


def phase() -> None:
    simulate(*_computation())


def network() -> None:
    simulate(*_computation(), fidelity="message")


def suspension() -> None:
    """The network kernel for messages that may be suspended, which is another one by type."""
    simulate(*_suspending(), fidelity="message")


def _suspending() -> tuple[Workload, Cluster]:
    builder = GraphBuilder()
    for group in ("tensor", "data"):
        builder.add(group, Collective(CollectiveKind.ALL_REDUCE, 1e3, group, stream=group))
    topology = Topology.build("Switch(2)_Switch(2)", bandwidth=[1e9] * 2, latency=[0] * 2)
    workload = Workload((builder.build(),), place({"tensor": 2, "data": 2}, (2, 2)))
    network = NetworkModel(interconnect=MeshWafer(2, 2, preempts=True))
    return workload, Cluster(topology, network=network)


def _computation() -> tuple[Workload, Cluster]:
    builder = GraphBuilder()
    builder.add("compute", Compute(duration=1), ())
    topology = Topology.build("Ring(2)", bandwidth=[1e9], latency=[0])
    return Workload((builder.build(),), {}), Cluster(topology, Npu(1e12, 1e11))


def packet() -> None:
    simulate_packets(_FABRIC, _FLOWS, Settings())
    simulate_flows(_FABRIC, _FLOWS)


def nscc() -> None:
    simulate_packets(_FABRIC, _FLOWS, Settings(transport="nscc", pauses=False))


def rccc() -> None:
    simulate_packets(_FABRIC, _FLOWS, Settings(transport="rccc", pauses=False))


def replica() -> None:
    """The phase kernel by ASTRA-sim's rules."""
    own = node_of(TraceNode(0, "", NodeType.COMP, (), (), 0, 1, {}))
    simulate_astra(ring_of_four(), [[own]] * 4)


KERNELS = {
    "phase": phase,
    "network": network,
    "suspension": suspension,
    "packet": packet,
    "nscc": nscc,
    "rccc": rccc,
    "replica": replica,
}


def compile_all() -> None:
    """Compile all kernels side by side, unless all of them are on disk."""
    if all_compiled():
        return
    command = [sys.executable, "-m", "tests.support.compiling"]
    for process in [subprocess.Popen([*command, name]) for name in KERNELS]:
        process.wait()  # a kernel that cannot be compiled fails in its own tests


def all_compiled() -> bool:
    """Whether nothing is left to compile for this machine's CPU."""
    by_name = is_compiled()
    by_name &= all(is_compiled(Fidelity.PACKET, name) for name in ("dcqcn", "nscc", "rccc"))
    by_name &= all(map(is_cached, (run_flows, ItsRules.run_points)))
    return by_name and all(map(_is_known, (_computation(), _suspending())))


def _is_known(run: tuple[Workload, Cluster]) -> bool:
    """Whether the network kernel is on disk for such a run."""
    *_, state = MessageRunner(lower_by_rank(*run)).inputs()
    return is_cached(run_messages, state)


if __name__ == "__main__":
    KERNELS[sys.argv[1]]()
