"""The self-check of a building block."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations

import networkx as nx

from dimsweep.engine.collective.algorithms import ALGORITHMS, algorithms_of, all_to_alls_of
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.testing import findings
from dimsweep.engine.testing.agreement import disagreements
from dimsweep.engine.testing.algorithm import cases, kinds_of
from dimsweep.engine.topology.block import Block

_SIZES = (2, 3, 4, 5, 8)
_REFUSE = "a block raises DimsweepError for a size that it cannot have"
_HALVED = 8  # NPUs of the largest block of which all halves are tried


def check_block(block: Block, sizes: Iterable[int] = _SIZES) -> None:
    """Hold a block of each of ``sizes`` NPUs against its wires and against all fidelities.

    The wires join all its NPUs; an NPU has as many links as ``links`` says, and the ways are as
    long; no two halves (of up to 8 NPUs) can send each other less than ``cut``.  All groups of a
    dimension run each of its algorithms and all-to-alls: phases, which know the block by ``use``
    and ``way``, and messages, flows and packets, which know its wires, agree on the time.
    A copy of the block, as another process gets one, equals it.  Sizes that the block refuses, by
    raising :class:`DimsweepError`, are passed over.

    Raises :class:`DimsweepError` that says what does not hold.
    """
    findings.told(_findings(block, tuple(sizes)), f"block {block.name}")


def _findings(block: Block, sizes: tuple[int, ...]) -> Iterator[str]:
    yield from findings.faults_of_copies(block)
    names = dict.fromkeys((*algorithms_of(block), *all_to_alls_of(block)))
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
    """What is wrong with the wires of ``n`` NPUs."""
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
        if (said := block.way(n, offset).hops) not in usual:
            apart = f"are {usual[0]} links apart, {said} by way()"
            yield f"NPUs of {label} that are {offset} apart {apart}"


def _cut(block: Block, n: int, graph: nx.DiGraph) -> Iterator[str]:
    """Whether ``cut`` is what the worst halves of a small block can send, in one direction."""
    if n > _HALVED or n % 2:
        return
    # Of switches, what an NPU sends and receives is the limit: they are no bottleneck themselves.
    nx.set_edge_attributes(graph, 1 / block.links(n), "capacity")
    for a, b in graph.edges:
        if isinstance(a, str) and isinstance(b, str):
            del graph.edges[a, b]["capacity"]
    least = min(_flow(graph, n, half) for half in combinations(range(n), n // 2) if 0 in half)
    if abs(least - (said := block.cut(n))) > 1e-9:
        told = f"{least:g} of an NPU's bandwidth, {said:g} by cut()"
        yield f"halves of {block.label(n)} can send each other {told}"


def _flow(graph: nx.DiGraph, n: int, half: tuple[int, ...]) -> float:
    """What the NPUs of one half can send those of the other, in units of an NPU's bandwidth."""
    whole = graph.copy()
    for i in range(n):
        whole.add_edge(*(("from", i) if i in half else (i, "to")))
    return float(nx.maximum_flow_value(whole, "from", "to"))
