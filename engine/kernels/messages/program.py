"""Programs in which every rank is a class of its own, and the network that one runs on."""

import dataclasses
from collections.abc import Collection

from dimsweep.engine.cluster.cluster import Cluster
from dimsweep.engine.errors import DimsweepError, at
from dimsweep.engine.fidelity import Fidelity
from dimsweep.engine.kernels.carriers import CARRIERS
from dimsweep.engine.kernels.messages.count import check_number, check_packets, count_messages
from dimsweep.engine.lower.lower import lower
from dimsweep.engine.lower.program import Program
from dimsweep.engine.network.degrade import degraded
from dimsweep.engine.network.fabric import build_network, fitted
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.product import is_product
from dimsweep.engine.workload.graph import Workload


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
    fitted(alike.communication.topology, network.fabrics)  # or it raises
    by_network = alike.communication.by_network
    n_messages = count_messages(alike, network_of(alike) if by_network else None)
    check_number(n_messages, network)
    if fidelity is Fidelity.PACKET:
        check_packets(alike, n_messages)
    return lower(workload, cluster, fold=False)


def network_of(program: Program) -> Network:
    """The links that the program runs on, at its bandwidth and latency: those that are left.

    Raises :class:`DimsweepError` when a network from a graph has another number of NPUs than the
    topology, the fabrics do not fit the dimensions, or what is left joins its NPUs no more.
    """
    whole, model = _whole(program), program.communication.network
    with at("network.degrade"):
        return degraded(whole, model.degrade, model.placement)


def _whole(program: Program) -> Network:
    """The network as it was bought."""
    topology, model = program.communication.topology, program.communication.network
    if model.wafer is not None:
        model.wafer.check_ranks(topology.n_npus)
        return model.wafer.network
    if model.graph is not None:
        n_used = len(model.placement) or model.graph.n_npus
        if n_used != topology.n_npus:
            what = "placement" if model.placement else "network"
            raise DimsweepError(
                f"the {what} has {n_used} NPUs, the topology {topology.n_npus}",
                where="network.placement" if model.placement else "network",
                hint="topology.shape says who communicates with whom: as many NPUs as the graph, "
                "or as network.placement takes of it",
            )
        return model.graph
    dims = tuple(
        dataclasses.replace(dim, bandwidth=float(b), latency=int(latency))
        for dim, b, latency in zip(topology.dims, program.bandwidth, program.latency, strict=True)
    )
    return build_network(dataclasses.replace(topology, dims=dims), model.fabrics)


def check_network(program: Program, fidelity: Fidelity) -> None:
    """Raise :class:`DimsweepError` as :func:`network_of` does, or if ``fidelity`` cannot simulate
    the program's network: phases know dimensions only, and a graph that is their product."""
    graph = program.communication.network.graph
    if fidelity is Fidelity.PHASE and graph is None:
        return
    network = network_of(program)
    if fidelity is Fidelity.PHASE and not is_product(network, program.communication.topology):
        raise DimsweepError(
            f"the network is no product of {program.communication.topology.name}, and phases know"
            " dimensions only",
            where="fidelity",
            hint=f"fidelity={Fidelity.FLOW.value} takes any network: links shared fairly",
        )
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
