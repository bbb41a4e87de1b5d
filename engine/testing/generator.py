"""The self-check of a generator of networks."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine import simulate
from dimsweep.engine.bound import cut_bound
from dimsweep.engine.cluster.cluster import Cluster, CollectiveModel
from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.fidelity import Fidelity
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.network import Kind, Network, read_network, write_network
from dimsweep.engine.network.generators import Generator
from dimsweep.engine.network.graph import node_name
from dimsweep.engine.testing import findings
from dimsweep.engine.topology.blocks import Switch
from dimsweep.engine.topology.topology import Dimension, Topology
from dimsweep.engine.workload.graph import (
    Collective,
    Group,
    Operator,
    Receive,
    Send,
    Workload,
)

_MOST = 64  # NPUs of a network that is simulated
_BYTES = 1_000_000.0


def check_generator(generator: Generator) -> None:
    """Hold a generator with its parameters against the network that it makes.

    It makes the same one again, and so does a copy of it, as another process gets one; what is
    written of it is read as the same.  Each cable is as wide and as long both ways, and each switch
    joins something; that ports suffice, and that all NPUs reach each other, :class:`Network`
    checks.  Up to 64 NPUs are simulated: no all-gather and no all-to-all is faster than the cuts
    allow, and a message alone takes as long by messages as by flows.

    Raises :class:`DimsweepError` that says what does not hold.
    """
    findings.told(_findings(generator), f"generator {generator.kind}")


def _findings(generator: Generator) -> Iterator[str]:
    yield from findings.faults_of_copies(generator)
    network, again = generator.build(), deepcopy(generator).build()
    if (network.links, network.devices) != (again.links, again.devices):
        yield "it makes another network of the same parameters"
    yield from _cables(network)
    yield from _devices(network)
    if _written(network) != (network.links, network.devices):
        yield "what is written of its network is read as another one"
    if 1 < network.n_npus <= _MOST:
        yield from _times(network)


def _cables(network: Network) -> Iterator[str]:
    for link in network.links:
        number = network.number.get((link.target, link.source))
        if number is None:
            yield f"{link.name} leads one way only"
            continue
        back = network.links[number]
        for name in ("bandwidth", "latency", "lanes", "medium", "length"):
            if getattr(link, name) != getattr(back, name):
                yield f"{name} of {link.name} is {getattr(link, name)}, {getattr(back, name)} back"


def _devices(network: Network) -> Iterator[str]:
    for node, device in network.devices.items():
        cables = network.graph.out_degree(node)
        if device.kind in (Kind.SWITCH, Kind.NIC) and cables < 2:
            yield f"{node_name(node)} has {cables} cables, and joins nothing"


def _written(network: Network) -> tuple[object, object]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "network.json"
        write_network(network, file)
        read = read_network(file)
    return read.links, read.devices


def _times(network: Network) -> Iterator[str]:
    n = network.n_npus
    for kind in (CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL):
        workload = Workload.of_one(Collective(kind, _BYTES, "all"), Group((n,), (1,)))
        bound = cut_bound(network, range(n), kind)
        least = bound.picoseconds(_BYTES)
        if (time := _time(network, workload, Fidelity.FLOW)) < least * (1 - 1e-9):
            yield f"{kind} takes {time} ps; {bound.why}, which lasts {least:.0f} ps at least"
    graphs = [(Operator("message", work),) for work in (Send(_BYTES, (n - 1,)), Receive((1,)))]
    alone = Workload((*graphs, ()), graph_of_rank=_ends(n))
    times = [_time(network, alone, fidelity) for fidelity in (Fidelity.MESSAGE, Fidelity.FLOW)]
    if abs(times[0] - times[1]) > n:  # each link rounds to a picosecond
        yield f"a message alone takes {times[0]} ps by messages, {times[1]} ps by flows"


def _ends(n: int) -> NDArray[np.int64]:
    """The first rank sends to the last one; all others have nothing to do."""
    graphs = np.full(n, 2)
    graphs[0], graphs[n - 1] = 0, 1
    return graphs


def _time(network: Network, workload: Workload, fidelity: Fidelity) -> int:
    dimension = Dimension(Switch(), network.n_npus, _BYTES, 0)  # who communicates with whom
    model = CollectiveModel(chunks=1, algorithms=("direct",))
    cluster = Cluster(
        Topology((dimension,)), collectives=model, network=NetworkModel(graph=network)
    )
    return simulate(workload, cluster, fidelity=fidelity).time_ps
