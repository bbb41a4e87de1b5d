"""What a run means: where the time goes, what the dimensions carry, what it costs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dimsweep.engine.account.merit import merits
from dimsweep.engine.kernels.phase.batch import Measures
from dimsweep.engine.kernels.phase.path import Path
from dimsweep.engine.lower.program import Floats, Longs, Program
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import first_hops
from dimsweep.engine.topology.block import Node
from dimsweep.engine.units import PICOSECONDS
from dimsweep.engine.workload.coordinates import line


@dataclass(frozen=True)
class Breakdown:
    """Accounts of P points; times are picoseconds.

    ``compute`` and ``exposed`` are of the class of ranks that finishes last.  ``exposed`` is
    communication that no compute hides, shared among the dimensions (the last column: waiting for
    other ranks) and among the kinds of operators; ``compute + exposed <= time`` (the rest is idle).
    ``busy``, ``bytes_sent`` and ``utilisation`` are means over all ranks: the time a dimension was
    in use; the bytes; and the bytes over what the bandwidth could have sent in the whole time, on
    a graph that of the links of the rank that finishes last (see :func:`sending`).
    Cost is USD; performance per cost is iterations per second per USD.  ``merits`` has the further
    figures that are known (see :func:`engine.account.merit.merits`).

    ``path`` is the critical path, and ``per_bandwidth``, ``per_latency`` and ``per_usd`` are the
    shadow prices that follow from it (see engine.kernels.phase.path for what is exact): how the
    time changes with a dimension's bandwidth, with its latency, and with what is spent on its
    bandwidth (NaN where that is free), with the choices that a collective library makes at the
    point.  None for runs message by message.
    """

    time: Longs  # (P,)
    compute: Longs  # (P,)
    exposed: Longs  # (P,)
    exposed_by_dim: Floats  # (P, D + 1)
    exposed_by_tally: Floats  # (P, L)
    busy: Floats  # (P, D)
    bytes_sent: Floats  # (P, D)
    utilisation: Floats  # (P, D)
    cost: Floats | None  # (P,)
    perf_per_cost: Floats | None  # (P,)
    path: Path | None
    per_bandwidth: Floats | None  # (P, D) s per byte/s
    per_latency: Floats | None  # (P, D) s per s
    per_usd: Floats | None  # (P, D) s per USD; None without prices, too
    merits: Mapping[str, Floats]  # (P,) each


def account(
    program: Program,
    bandwidth: Floats,
    measures: Measures,
    network: Network | None = None,
    speed: float = 1.0,
) -> Breakdown:
    """The breakdown of points whose bandwidths (bytes/s) have shape (P, D).

    ``network`` is the one that a single point ran on, message by message, and ``speed`` the share
    of its speed that outages leave there in the mean.  Rows of points that did
    not finish hold no meaning.
    """
    rows = np.arange(len(bandwidth))
    last = measures.end.argmax(axis=1)
    time = np.maximum(measures.time, 1)
    ranks = np.array(program.names.class_count)
    bytes_sent = np.average(measures.bytes_sent, axis=1, weights=ranks)
    cost = per_cost = None
    if program.prices is not None:
        cost = program.prices.cost(bandwidth)
        per_cost = PICOSECONDS / (time * cost)
    own = sending(program, bandwidth, int(last[0]), network)
    path, per_bandwidth, per_usd = measures.path, None, None
    if path is not None:
        per_bandwidth = 0.0 - path.demand / bandwidth**2  # not -0.0
        if program.prices is not None:
            price = np.array(program.prices.per_bandwidth)
            per_usd = per_bandwidth / np.where(price > 0, price, np.nan)
    return Breakdown(
        time=measures.time,
        compute=measures.compute[rows, last],
        exposed=measures.exposed[rows, last],
        exposed_by_dim=measures.exposed_by_dim[rows, last],
        exposed_by_tally=measures.exposed_by_tally[rows, last],
        busy=np.average(measures.busy, axis=1, weights=ranks),
        bytes_sent=bytes_sent,
        utilisation=bytes_sent / own / time[:, None] * PICOSECONDS,
        cost=cost,
        perf_per_cost=per_cost,
        path=path,
        per_bandwidth=per_bandwidth,
        per_latency=None if path is None else path.hops,
        per_usd=per_usd,
        merits=merits(program, bandwidth, time, speed),
    )


def sending(program: Program, bandwidth: Floats, rank: int, network: Network | None) -> Floats:
    """Return the bytes/s (P, D) that a rank can send in each dimension, at points of ``bandwidth``
    (P, D).

    Of a product of dimensions that is the bandwidth.  On a graph or a wafer, which has links of its
    own, it is the sum of the rank's links that belong to the dimension; where none is marked so, of
    the links by which shortest ways lead to the ranks that differ in this dimension alone, without
    those that another dimension needs as well, if there are others.
    """
    model = program.communication.network
    if network is None or (model.graph is None and model.wafer is None):
        return bandwidth
    sizes = program.cluster.topology.sizes
    own = network.graph[rank]  # where ranks have their own numbers, wherever they are placed
    ways = first_hops(network, rank)
    used = list[set[Node]]()
    for d in range(bandwidth.shape[1]):
        marked = {head for head, link in own.items() if link.get("dim", -1) == d}
        others = (other for other in line(rank, sizes, d) if other != rank)
        used.append(marked or set().union(*(ways.get(other, ()) for other in others)))
    found = []
    for d, heads in enumerate(used):
        needed = set[Node]().union(*used[:d], *used[d + 1 :])
        found.append(sum(own[head]["bandwidth"] for head in heads - needed or heads or own))
    return np.tile(np.array(found, dtype=float), (len(bandwidth), 1))
