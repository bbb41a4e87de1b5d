"""Programs in which every rank is a class of its own, and the network that one runs on."""

import dataclasses
from collections.abc import Collection

from engine.cluster.cluster import Cluster
from engine.errors import DimsweepError
from engine.fidelity import Fidelity
from engine.kernels.carriers import CARRIERS
from engine.kernels.messages.count import check_number, check_packets, count_messages
from engine.lower.lower import lower
from engine.lower.program import Program
from engine.network.fabric import build_network, check_fabrics
from engine.network.graph import Network
from engine.workload.graph import Workload


def check_ranks(program: Program) -> None:
    """Raise :class:`DimsweepError` unless every rank is a class of its own."""
    if program.names.class_first != tuple(range(program.n_npus)):
        raise DimsweepError(
            f"the program has {len(program.names.class_first)} classes of {program.n_npus} ranks",
            hint="the message kernel runs what lower_by_rank, or lower(..., fold=False), returns",
        )


def lower_by_rank(
    workload: Workload, cluster: Cluster, fidelity: Fidelity = Fidelity.MESSAGE
) -> Program:
    """The program of ``workload`` with every rank a class of its own, as the message kernel needs.

    Raises :class:`DimsweepError` as :func:`engine.lower` does, and, before ranks are lowered one by
    one, when they would send more messages than ``network.max_messages`` or (with
    ``fidelity=packet``) more packets than ``network.max_packets``, or a collective library would
    send them.
    """
    alike = lower(workload, cluster)
    if alike.chooser is not None:
        raise DimsweepError(
            "which messages a collective library sends is not known, only how long they take",
            where="fidelity",
            hint="fidelity=phase, or collective=default, whose algorithms send every message",
        )
    network = alike.communication.network
    check_fabrics(alike.communication.topology, network.fabrics)
    n_messages = count_messages(alike)
    check_number(n_messages, network)
    if fidelity is Fidelity.PACKET:
        check_packets(alike, n_messages)
    return lower(workload, cluster, fold=False)


def network_of(program: Program) -> Network:
    """The links that the program runs on, at its bandwidth and latency.

    Raises :class:`DimsweepError` when a network from a graph has another number of NPUs than the
    topology, or the fabrics do not fit the dimensions.
    """
    topology, model = program.communication.topology, program.communication.network
    if model.wafer is not None:
        model.wafer.check_ranks(topology.n_npus)
        return model.wafer.network
    if model.graph is not None:
        if model.graph.n_npus != topology.n_npus:
            raise DimsweepError(
                f"the network has {model.graph.n_npus} NPUs, the topology {topology.n_npus}",
                where="network.file",
                hint="topology.shape says who communicates with whom: as many NPUs as the graph",
            )
        return model.graph
    dims = tuple(
        dataclasses.replace(dim, bandwidth=float(b), latency=int(latency))
        for dim, b, latency in zip(topology.dims, program.bandwidth, program.latency, strict=True)
    )
    return build_network(dataclasses.replace(topology, dims=dims), model.fabrics)


def check_network(program: Program, fidelity: Fidelity) -> None:
    """Raise :class:`DimsweepError` as :func:`network_of` does, or if ``fidelity`` cannot simulate
    the program's network."""
    network = network_of(program)
    if fidelity in CARRIERS:
        CARRIERS[fidelity](network, program.communication.network, ())


def links_to_watch(network: Network, names: Collection[str], fidelity: Fidelity) -> list[int]:
    """The numbers of the links that ``names`` stand for, as :meth:`Network.named` has them.

    Raises :class:`DimsweepError` for names that there are not, and for links that have no queue.
    """
    if names and fidelity is not Fidelity.PACKET:
        raise DimsweepError(
            "only links that packets wait for have queues, marks and pauses",
            where="watch",
            hint="add fidelity=packet, or leave watch out",
        )
    return network.named(names)
