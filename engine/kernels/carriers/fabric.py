"""A network's links as ports of the flow and packet kernels, and each switch's buffer."""

from collections.abc import Iterable, Sequence

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.cluster.packets import PacketModel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.carriers.carrier import Ways
from dimsweep.engine.kernels.packet import Fabric, Marking, Port
from dimsweep.engine.kernels.packet.flows import Way
from dimsweep.engine.network.graph import Link, Network

RESERVE = 4096  # bytes of each port that do not count, as ns-3's RDMA model has them
PARTS = 1000  # of a byte, in which flows have sizes: messages may have broken numbers of bytes


def plain_fabric(network: Network) -> Fabric:
    """A port for each link, in their order, without latencies; sizes are in PARTS of a byte."""
    nodes = _numbers(network)
    return Fabric(
        [
            Port(nodes[link.source], nodes[link.target], round(8 * PARTS * link.bandwidth), 0)
            for link in network.links
        ],
        {},
    )


def fabric_of(network: Network, model: NetworkModel) -> Fabric:
    """Hosts and switches with shared buffers: each switch of the network, and no NPU.

    Raises :class:`DimsweepError` for a link that leads one way only, for a switch whose headroom
    takes its buffer, and for buffers that are not the dimensions'.
    """
    nodes, packets = _numbers(network), model.packets
    for link in network.links:
        if (link.target, link.source) not in network.number:
            raise DimsweepError(
                f"the link {link.source} -> {link.target} leads one way only",
                where="fidelity",
                hint="ACKs must return: fidelity=message or flow, or a link in each direction",
            )
    ports = [_port(link, nodes, packets) for link in network.links]
    sizes = buffers_of(network, packets)
    buffers = {nodes[node]: sizes[node] for node in network.graph if isinstance(node, str)}
    fabric = Fabric(ports, buffers)
    for node, number in nodes.items():
        if number in buffers and packets.has_pauses:
            _check_buffer(str(node), number, fabric, packets.priorities)
    return fabric


def _numbers(network: Network) -> dict[int | str, int]:
    """A number for each node: an NPU's rank, and then the switches."""
    switches = [node for node in network.graph if isinstance(node, str)]
    npus = {npu: npu for npu in range(network.n_npus)}
    return npus | {switch: network.n_npus + i for i, switch in enumerate(switches)}


def nodes_of(fabric: Fabric, ways: Ways) -> tuple[Way, ...]:
    """The nodes of each way, out and back."""
    return tuple(
        (_nodes(fabric, out), _nodes(fabric, back))
        for out, back in zip(ways.out, ways.back, strict=True)
    )


def _nodes(fabric: Fabric, way: Sequence[int]) -> tuple[int, ...]:
    ports = [fabric.ports[number] for number in way]
    return (ports[0].node, *(port.to for port in ports))


def _port(link: Link, nodes: dict[int | str, int], packets: PacketModel) -> Port:
    ends, rate = (nodes[link.source], nodes[link.target]), max(round(8 * link.bandwidth), 1)
    if isinstance(link.source, int):
        return Port(*ends, rate, link.latency)
    marking = Marking(*packets.thresholds(rate))
    return Port(*ends, rate, link.latency, marking, packets.headroom_of(rate, link.latency))


def _check_buffer(name: str, number: int, fabric: Fabric, n_priorities: int) -> None:
    own = [port for port in fabric.ports if port.node == number]
    headroom = n_priorities * sum(port.headroom for port in own)
    buffer = fabric.buffers[number]
    if headroom + n_priorities * RESERVE * len(own) >= buffer:
        each = f" in {n_priorities} priorities" if n_priorities > 1 else ""
        raise DimsweepError(
            f"{name} has {len(own)} ports with {headroom:,} bytes of headroom{each}, and its "
            f"buffer is {buffer:,} bytes",
            where="network.packets.buffer",
            hint="a larger buffer, shorter or slower links, fewer network.packets.priorities, or a "
            "smaller network.packets.headroom (below what a link holds while a pause travels, "
            "packets are dropped)",
        )


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
