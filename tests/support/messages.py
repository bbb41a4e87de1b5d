"""Messages and both kernels at work, for the tests of the message kernel."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import networkx as nx

from dimsweep.engine import Cluster, Topology, Workload
from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.kernels.messages import MessageRun, lower_by_rank
from dimsweep.engine.kernels.network import run_messages
from dimsweep.engine.kernels.phase.batch import Measures, run_one
from dimsweep.engine.kernels.reference.clock import Clock
from dimsweep.engine.kernels.reference.links import LinkTransport, Wire
from dimsweep.engine.kernels.reference.transport import Message
from dimsweep.engine.kernels.reference.transport import Sending as Sent
from dimsweep.engine.lower.lower import lower
from dimsweep.engine.network.fabric import build_network
from dimsweep.engine.network.graph import Network, Node


class Sending(NamedTuple):
    """A message from NPU to NPU, at some time (ps)."""

    source: int
    target: int
    n_bytes: float
    precedence: int = 0
    at: int = 0


class Carried(NamedTuple):
    """When each message arrived (ps), in the order given; and the links as it left them."""

    arrivals: list[int]
    wires: list[Wire]

    @property
    def last(self) -> int:
        return max(self.arrivals)


def carry(network: Network, sendings: Iterable[Sending], model: NetworkModel) -> Carried:
    """Send all, those of one time in this order, and let them go their ways."""
    clock = Clock()
    transport = LinkTransport(clock, network, model, record=True)
    sendings = list(sendings)
    arrivals = [-1] * len(sendings)

    def arrived(number: int, late: int) -> None:
        arrivals[number] = clock.ps + late

    for number, (source, target, n_bytes, precedence, at) in enumerate(sendings):
        message = Message(n_bytes, str(number), (precedence, 0))
        told = {"left": lambda: None, "arrived": partial(arrived, number)}
        send = partial(transport.send, Sent(message, source, target, dim=0, way=0, **told))
        if at:
            clock.call_later(at, send)
        else:
            send()
    clock.run()
    return Carried(arrivals, transport.wires)


def carry_over(
    topology: Topology, sendings: Iterable[Sending], model: NetworkModel | None = None
) -> Carried:
    """The same over the network of a topology."""
    model = model or NetworkModel()
    return carry(build_network(topology, model.fabrics), sendings, model)


def line_of(links: Sequence[tuple[float, int]], name: str = "switch") -> Network:
    """NPUs 0 and 1 with switches between them: ``links`` have a bandwidth and a latency each."""
    nodes = [0, *(f"{name} {i}" for i in range(1, len(links))), 1]
    graph = nx.DiGraph()
    graph.add_nodes_from((0, 1))
    for (a, b), (bandwidth, latency) in zip(pairwise(nodes), links, strict=True):
        for ends in ((a, b), (b, a)):
            graph.add_edge(*ends, bandwidth=bandwidth, latency=latency)
    return Network(graph)


def time_of(workload: Workload, cluster: Cluster) -> int:
    """How long the message kernel takes it to last (ps)."""
    return int(run_messages(lower_by_rank(workload, cluster)).measures.time[0])


def both(workload: Workload, cluster: Cluster) -> tuple[Measures, MessageRun]:
    """What the phase kernel measures, every rank for itself, and what the message kernel does."""
    program = lower(workload, cluster, fold=False)
    return run_one(program).measures, run_messages(program)


def times(workload: Workload, cluster: Cluster) -> tuple[int, int]:
    """How long it lasts by the phase kernel and by the message kernel (ps)."""
    phases, messages = both(workload, cluster)
    return int(phases.time[0]), int(messages.measures.time[0])


def nothing_is_lost(carried: Carried, sendings: Sequence[Sending]) -> bool:
    """Whether every node passes on what is not for it, and gets what is."""
    balance: Counter[Node] = Counter()
    for wire in carried.wires:
        balance[wire.link.source] += wire.n_bytes
        balance[wire.link.target] -= wire.n_bytes
    for source, target, n_bytes, *_ in sendings:
        balance[source] -= n_bytes
        balance[target] += n_bytes
    return set(balance.values()) <= {0}
