"""How many messages and packets a workload sends, counted before any of them is simulated."""

from collections import Counter

import numpy as np

from engine.cluster.cluster import Cluster
from engine.cluster.network import NetworkModel
from engine.collective.algorithms import algorithm_for, algorithm_of_phase, chosen_algorithms
from engine.errors import DimsweepError
from engine.kernels.messages.phases import circles
from engine.kernels.phase.batch import run_one
from engine.kinds import CollectiveKind
from engine.lower.lower import lower
from engine.units import format_bytes
from engine.workload.coordinates import graph_by_rank
from engine.workload.graph import Collective, Group, Send, Workload

_A_SECOND = 500_000  # packets that are simulated in a second, or fewer on long ways


def count_messages(workload: Workload, cluster: Cluster) -> int:
    """The messages of all ranks together, before buffers cut any of them into parts.

    Chunks are taken to visit the dimensions in the baseline order.  (Where Themis chooses another,
    an algorithm may fuse reduce-scatter and all-gather in another dimension.)
    """
    of_graph = graph_by_rank(workload, cluster.topology.sizes)
    ranks = np.bincount(of_graph, minlength=len(workload.graphs)).tolist()
    total = 0
    members: Counter[tuple[CollectiveKind, str]] = Counter()  # that take part in collectives
    for graph, n in zip(workload.graphs, ranks, strict=True):
        for operator in graph:
            work = operator.work
            if isinstance(work, Collective):
                members[work.kind, work.group] += n
            elif isinstance(work, Send):
                total += n
    for (kind, name), n in members.items():
        group = workload.groups[name]
        total += n // group.n_members * _of_collective(kind, group, cluster)
    return total


def check_number(n_messages: int, model: NetworkModel) -> None:
    """Raise :class:`DimsweepError` for more messages than the model allows."""
    if n_messages > model.max_messages:
        raise DimsweepError(
            f"{n_messages:,} messages; at a few million a second that takes long",
            where="network.max_messages",
            hint="fewer chunks, layers or NPUs, larger buffers, or a higher limit",
        )


def check_packets(workload: Workload, cluster: Cluster, n_messages: int) -> None:
    """Raise :class:`DimsweepError` if ranks send more packets than ``network.max_packets``.

    The bytes are those of the phase kernel, which is fast; the last packet of a message may be
    shorter than the others.
    """
    program = lower(workload, cluster)
    sent = run_one(program).measures.bytes_sent[0].sum(axis=1)
    packets = cluster.network.packets
    n_bytes = float(sent @ np.array(program.names.class_count))
    n = int(n_bytes / packets.payload) + n_messages
    if n > cluster.network.max_packets:
        raise DimsweepError(
            f"about {n:,} packets ({format_bytes(n_bytes)} in {n_messages:,} messages), of which "
            f"a few hundred thousand take a second: {n / _A_SECOND:,.0f} s",
            where="network.max_packets",
            hint="a larger network.packets.payload, fewer layers, NPUs or bytes, fidelity=flow, or "
            "a higher limit",
        )


def _of_collective(kind: CollectiveKind, group: Group, cluster: Cluster) -> int:
    """The messages of all members of one collective."""
    used = [d for d, p in enumerate(group.sizes) if p > 1]
    chosen, total = chosen_algorithms(cluster), 0
    for d in used:
        block, p = cluster.topology.dims[d].block, group.sizes[d]
        fuses = d == used[-1] and algorithm_for(block, chosen[d].name).fuses
        for phase in _phases(kind, fuses=fuses):
            algorithm = algorithm_of_phase(phase, block, *chosen[d])
            of_line = algorithm.n_messages(phase, p, circles(cluster, group, d))
            total += group.n_members // p * of_line
    model = cluster.collectives
    chunks = model.chunks_on_one_dimension if len(used) == 1 else None
    return total * (chunks or model.chunks)


def _phases(kind: CollectiveKind, *, fuses: bool) -> tuple[CollectiveKind, ...]:
    """The kinds of a chunk's phases in a dimension."""
    if kind is CollectiveKind.ALL_REDUCE and not fuses:
        return CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER
    return (kind,)
