"""Colouring the conflict graph of flows: the colour of a flow is its middle switch."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dimsweep.engine.extensions.fred.flow import Flow

if TYPE_CHECKING:  # networkx is imported by the functions that need it: few runs do
    import networkx as nx


def conflicts(flows: Sequence[Flow]) -> "nx.Graph":
    """The numbers of ``flows``, joined where two share a microswitch of the first or last stage."""
    return joined(
        [
            {("in", switch) for switch in halved(flow.inputs)}
            | {("out", switch) for switch in halved(flow.outputs)}
            for flow in flows
        ]
    )


def joined(parts: Sequence[Iterable[Hashable]]) -> "nx.Graph":
    """The numbers of ``parts``, joined where two have something in common."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(len(parts)))
    has: dict[Hashable, list[int]] = {}
    for number, part in enumerate(parts):
        for thing in part:
            graph.add_edges_from((other, number) for other in has.setdefault(thing, []))
            has[thing].append(number)
    return graph


def halved(ports: Iterable[int]) -> frozenset[int]:
    """The microswitches of two ports each that ``ports`` lie at."""
    return frozenset(port // 2 for port in ports)


def colour(graph: "nx.Graph", colours: int) -> Mapping[int, int] | None:
    """A colour below ``colours`` for each node, none equal to a neighbour's; ``None`` if there is
    no such colouring.  Exact: saturation first (Brelaz, CACM 1979), and back where that fails."""
    import networkx as nx

    quick: dict[int, int] = nx.greedy_color(graph, strategy="saturation_largest_first")
    if max(quick.values(), default=0) < colours:
        return quick
    found: dict[int, int] = {}
    return found if _extend(graph, colours, found) else None


def _extend(graph: "nx.Graph", colours: int, found: dict[int, int]) -> bool:
    """Colours the nodes that are not in ``found`` yet, the most constrained ones first."""
    if len(found) == len(graph):
        return True

    def taken(node: int) -> set[int]:
        return {found[other] for other in graph[node] if other in found}

    node = max(set(graph) - set(found), key=lambda n: (len(taken(n)), graph.degree(n), -n))
    fresh = max(found.values(), default=-1) + 1  # colours that none has are alike: try one of them
    for choice in sorted(set(range(min(colours, fresh + 1))) - taken(node)):
        found[node] = choice
        if _extend(graph, colours, found):
            return True
        del found[node]
    return False
