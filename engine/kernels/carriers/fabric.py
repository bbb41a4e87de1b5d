"""A network's links as ports of the flow and packet kernels."""

from collections.abc import Sequence

from dimsweep.engine.cluster.network import NetworkModel
from dimsweep.engine.cluster.packets import PacketModel
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.kernels.carriers.buffers import buffers_of
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
    ends, rate = (nodes[link.source], nodes[link.target]), _rate(link)
    if isinstance(link.source, int):
        return Port(*ends, rate, link.latency)
    marking = Marking(*packets.thresholds(rate), packets.pmax)
    return Port(*ends, rate, link.latency, marking, packets.headroom_of(rate, link.latency))


def _rate(link: Link) -> int:
    """Bits a second."""
    return max(round(8 * link.bandwidth), 1)


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
