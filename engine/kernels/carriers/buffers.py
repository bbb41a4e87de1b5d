"""How large each switch's buffer is: the same for all, or by dimension and by level."""

from collections.abc import Iterable

from dimsweep.engine.cluster.packets import PacketModel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.graph import Network

_KEY = "network.packets.buffer"


def buffers_of(network: Network, packets: PacketModel) -> dict[str, int]:
    """Bytes of each switch, by its name.

    A switch belongs to the dimension of its links (all links of a graph without dimensions are of
    one), and its level there is the number of links from the nearest NPU: 1 of leaves, 2 of spines.
    Raises :class:`DimsweepError` unless ``packets.buffer`` has one entry for all switches or one a
    dimension, and that one for all levels or one a level.
    """
    buffer = packets.buffer
    if not isinstance(buffer, tuple):
        return dict.fromkeys(_switches(network.graph), int(buffer))
    levels = _levels(network)
    n_dims = len(network.sizes) or max(levels, default=0) + 1
    if len(buffer) != n_dims:
        raise DimsweepError(f"{len(buffer)} values for {n_dims} dimensions", where=_KEY)
    found: dict[str, int] = {}
    for dim, own in levels.items():
        of_levels, n = buffer[dim], max(own.values())
        if not isinstance(of_levels, tuple):
            of_levels = (of_levels,) * n
        if len(of_levels) != n:
            raise DimsweepError(
                f"{len(of_levels)} values for {n} levels of switches",
                where=f"{_KEY}[{dim}]",
                hint="one for all of them, or one a level, from the NPUs up",
            )
        found |= {switch: int(of_levels[level - 1]) for switch, level in own.items()}
    return found


def _switches(nodes: Iterable[int | str]) -> list[str]:
    return [node for node in nodes if isinstance(node, str)]


def _levels(network: Network) -> dict[int, dict[str, int]]:
    """The level of each switch, by its dimension and its name."""
    import networkx as nx  # here: few runs ask

    ends: dict[int, list[tuple[int | str, int | str]]] = {}
    dim_of: dict[str, int] = {}
    for link in network.links:
        dim = max(link.dim, 0)
        ends.setdefault(dim, []).append((link.source, link.target))
        for switch in _switches((link.source, link.target)):
            if dim_of.setdefault(switch, dim) != dim:
                raise DimsweepError(
                    f"{switch} has links of dimensions {dim_of[switch]} and {dim}",
                    where=_KEY,
                    hint="one value for all switches",
                )
    found: dict[int, dict[str, int]] = {dim: {} for dim in dim_of.values()}
    for dim, own in found.items():
        graph = network.graph.edge_subgraph(ends[dim])
        npus = [node for node in graph if isinstance(node, int)]
        for level, nodes in enumerate(nx.bfs_layers(graph, npus)):
            own |= dict.fromkeys(_switches(nodes), level)
    return found
