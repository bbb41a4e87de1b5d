"""The self-checks of topology blocks and of network generators."""

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from dimsweep.engine import simulate
from dimsweep.engine.bound import cut_bound
from dimsweep.engine.cluster.cluster import Cluster, CollectiveModel
from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.collective.algorithms import ALGORITHMS, list_algorithms, list_all_to_alls
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kinds import CollectiveKind, Fidelity
from dimsweep.engine.network import Kind, Network, read_network, write_network
from dimsweep.engine.network.generators import Generator
from dimsweep.engine.network.graph import node_name
from dimsweep.engine.testing.agreement import disagreements, faults_of_copies, raise_findings
from dimsweep.engine.testing.algorithm import cases, kinds_of
from dimsweep.engine.topology.blocks import Block, Switch
from dimsweep.engine.topology.coordinates import Group
from dimsweep.engine.topology.topology import Dimension, Topology
from dimsweep.engine.workload.graph import Collective, Operator, Receive, Send, Workload

# --- blocks ---------------------------------------------------------------------------------------


_SIZES = (2, 3, 4, 5, 8)
_REFUSE = "a block raises DimsweepError for a size that it cannot have"
_HALVED = 8  # NPUs of the largest block of which all halves are tried


def check_block(block: Block, sizes: Iterable[int] = _SIZES) -> None:
    """Check a block of each of ``sizes`` NPUs against its wires and against all fidelities.

    The wires join all its NPUs; an NPU has ``links`` links, and the ways are as long; no two halves
    (of up to 8 NPUs) can send each other less than ``cut``. All groups of a dimension run each of
    its algorithms and all-to-alls: phases, which know the block by ``use`` and ``way``, and
    messages, flows and packets, which know its wires, agree on the time. A copy of the block, as
    another process gets one, equals it. Sizes that the block refuses, by raising
    :class:`DimsweepError`, are skipped.

    Raises :class:`DimsweepError` naming the first violation.
    """
    raise_findings(_findings_of_block(block, tuple(sizes)), f"block {block.name}")


def _findings_of_block(block: Block, sizes: tuple[int, ...]) -> Iterator[str]:
    yield from faults_of_copies(block)
    names = dict.fromkeys((*list_algorithms(block), *list_all_to_alls(block)))
    if unknown := [name for name in names if name not in ALGORITHMS]:
        yield f"it names algorithms that are not registered: {', '.join(unknown)}"
        return
    fitting = []
    for n in sizes:
        try:
            graph = nx.DiGraph(block.wire(range(n), ""))
            block.links(n)
        except DimsweepError:
            continue  # the block refuses this size
        except Exception as error:
            yield f"{block.label(n)} raises {type(error).__name__}: {error}; {_REFUSE}"
            return
        fitting.append(n)
        graph.add_nodes_from(range(n))
        wired = list(_wires(block, n, graph))
        yield from wired
        if wired:
            return  # nothing can be simulated on it
        yield from _cut(block, n, graph)
    if not fitting:
        yield f"it refuses a dimension of {', '.join(map(str, sizes))} NPUs"
    for algorithm in (ALGORITHMS[name] for name in names):
        for kind in kinds_of(algorithm, block):
            for case in cases(block, fitting, kind, algorithm):
                yield from disagreements(case)


def _wires(block: Block, n: int, graph: nx.DiGraph) -> Iterator[str]:
    """Yield the faults (in words) of the wires of a block of ``n`` NPUs, given as ``graph``."""
    label = block.label(n)
    strange = [node for node in graph if not (isinstance(node, str) or node in range(n))]
    if strange:
        yield f"{label} wires {strange[0]!r}, which is none of its NPUs and no name of a switch"
    if any(a == b for a, b in graph.edges):
        yield f"{label} joins a node to itself"
    if not nx.is_strongly_connected(graph):
        yield f"not every NPU of {label} can send to all others; {_REFUSE}"
        return
    most = max(graph.out_degree(i) for i in range(n))
    if most != block.links(n):
        yield f"an NPU of {label} has {most} links, and {block.links(n)} by links()"
    for offset in range(1, n):
        hops = Counter(
            nx.shortest_path_length(graph, i, (i + offset) % n) for i in range(n)
        ).most_common()
        usual = [length for length, count in hops if count == hops[0][1]]
        if (said := block.message_path(n, offset).hops) not in usual:
            apart = f"are {usual[0]} links apart, {said} by message_path()"
            yield f"NPUs of {label} that are {offset} apart {apart}"


def _cut(block: Block, n: int, graph: nx.DiGraph) -> Iterator[str]:
    """Yield a fault if ``block.cut`` is not the capacity between the block's worst halves."""
    if n > _HALVED or n % 2:
        return
    # Of switches, what an NPU sends and receives is the limit: they are no bottleneck themselves.
    nx.set_edge_attributes(graph, 1 / block.links(n), "capacity")
    for a, b in graph.edges:
        if isinstance(a, str) and isinstance(b, str):
            del graph.edges[a, b]["capacity"]
    least = min(_flow(graph, n, half) for half in combinations(range(n), n // 2) if 0 in half)
    if abs(least - (said := block.cut(n))) > 1e-9:
        rates = f"{least:g} of an NPU's bandwidth, {said:g} by cut()"
        yield f"halves of {block.label(n)} can send each other {rates}"


def _flow(graph: nx.DiGraph, n: int, half: tuple[int, ...]) -> float:
    """Return the capacity from ``half`` of the NPUs to the others, in NPU bandwidths."""
    whole = graph.copy()
    for i in range(n):
        whole.add_edge(*(("from", i) if i in half else (i, "to")))
    return float(nx.maximum_flow_value(whole, "from", "to"))


# --- generators -----------------------------------------------------------------------------------


_MOST = 64  # NPUs of a network that is simulated
_BYTES = 1_000_000.0


def check_generator(generator: Generator) -> None:
    """Check a generator with its parameters against the network that it makes.

    It makes the same network again, as does a copy of it; the network is equal after writing and
    reading. Each cable is as wide and as long both ways, and each switch has several cables;
    :class:`Network` checks ports and that all NPUs reach each other. Networks of up to 64 NPUs are
    simulated: no all-gather or all-to-all is faster than the cuts allow, and a single message takes
    as long by messages as by flows.

    Raises :class:`DimsweepError` with the violations.
    """
    raise_findings(_findings_of_generator(generator), f"generator {generator.kind}")


def _findings_of_generator(generator: Generator) -> Iterator[str]:
    yield from faults_of_copies(generator)
    network, again = generator.build(), deepcopy(generator).build()
    if (network.links, network.devices) != (again.links, again.devices):
        yield "it builds another network from the same parameters"
    yield from _cables(network)
    yield from _devices(network)
    if _written(network) != (network.links, network.devices):
        yield "its network changes when it is written and read again"
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
            yield f"{kind} takes {time} ps; {bound.reason}, which lasts {least:.0f} ps at least"
    graphs = [(Operator("message", work),) for work in (Send(_BYTES, (n - 1,)), Receive((1,)))]
    alone = Workload((*graphs, ()), graph_of_rank=_ends(n))
    times = [_time(network, alone, fidelity) for fidelity in (Fidelity.MESSAGE, Fidelity.FLOW)]
    if abs(times[0] - times[1]) > n:  # each link rounds to a picosecond
        yield f"a message alone takes {times[0]} ps by messages, {times[1]} ps by flows"


def _ends(n: int) -> NDArray[np.int64]:
    """Return each rank's graph (n,): the first rank sends to the last, all others are idle."""
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
