"""Results of a run: time by activity, bytes in each dimension, cost, and figures of merit."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dimsweep.engine.errors import prefixing_errors
from dimsweep.engine.kernels.phase.batch import Measures
from dimsweep.engine.kernels.phase.path import Path
from dimsweep.engine.lower.program import Floats, Longs, Program
from dimsweep.engine.network.graph import Network
from dimsweep.engine.network.routing import first_hops
from dimsweep.engine.reliability import Renewal
from dimsweep.engine.topology.blocks import Node
from dimsweep.engine.topology.coordinates import line
from dimsweep.engine.units import PICOSECONDS


@dataclass(frozen=True)
class Breakdown:
    """Time by activity, bytes and cost of P simulated points; times are picoseconds.

    ``compute`` and ``exposed`` are of the class of ranks that finishes last; ``compute + exposed <=
    time``, and the rest is idle. ``busy``, ``bytes_sent`` and ``utilisation`` are means over all
    ranks. ``path`` is the critical path, from which the shadow prices ``per_bandwidth``,
    ``per_latency`` and ``per_usd`` follow (see engine.kernels.phase.path for exactness); they are
    None for runs message by message.
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
    """Return the breakdown of P points.

    Parameters
    ----------
    program
        The program that was run.
    bandwidth
        Bandwidths of the points in bytes/s, shape (P, D).
    measures
        The kernel's measures of the points; rows of unfinished points are meaningless.
    network
        The network of a single point that ran message by message.
    speed
        The mean share of its speed that outages leave to that network.
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
    own = sending_bandwidth(program, bandwidth, int(last[0]), network)
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


def sending_bandwidth(
    program: Program, bandwidth: Floats, rank: int, network: Network | None
) -> Floats:
    """Return the bytes/s (P, D) that a rank can send in each dimension at points of ``bandwidth``.

    On a product of dimensions this is the bandwidth. On a graph, or on an interconnect with
    separate links, it is the sum of the rank's links that are marked with the dimension. Without
    marked links it is the sum of the links on shortest routes to the ranks that differ in this
    dimension only, excluding links that another dimension also needs, unless all are shared.
    """
    model = program.communication.network
    if network is None or (model.graph is None and model.interconnect is None):
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


# --- figures of merit -----------------------------------------------------------------------------


_WATTS = "watts: cost.power.npu, and cost.power.tiers for all tiers of the topology, or cost.parts"
_FAILURES = "how often training is interrupted (reliability)"
# What each figure needs to be known.
MERIT_NEEDS = {
    "memory_bytes": "a model whose memory per NPU is known (workload.model)",
    "memory_reserved_bytes": "a training plan on a GPU whose kernels were measured (npu.kernels)",
    "samples_per_s": "a model with a batch (workload.model)",
    "tokens_per_s": "a transformer with a batch (workload.model)",
    "mfu": "a model with a batch (workload.model) and npu.flops",
    "accuracy": "a trained network and samples with labels (workload.model, workload.samples)",
    "power_w": _WATTS,
    "energy_j": _WATTS,
    "perf_per_watt": _WATTS,
    "ettr": _FAILURES,
    "effective_time_s": _FAILURES,
    "usd_per_token": "a transformer with a batch, prices, and cost.lifetime",
}


def known_merits(program: Program) -> list[str]:
    """Return the names of the figures of merit that can be computed for a program."""
    return list(merits(program, program.bandwidth[None], np.ones(1, dtype=np.int64)))


def merits(
    program: Program, bandwidth: Floats, time: Longs, speed: float = 1.0
) -> dict[str, Floats]:
    """Return the figures of merit of P points by name, (P,) each; unknown ones are left out.

    Parameters
    ----------
    program
        The program that was run.
    bandwidth
        Bandwidths in bytes/s, shape (P, D).
    time
        Picoseconds of an iteration, shape (P,).
    speed
        The mean fraction of its speed that outages of devices leave to an iteration.

    Notes
    -----
    ``memory_bytes`` is the memory of the fullest NPU, expansion included, and
    ``memory_reserved_bytes`` the amount that PyTorch's cache may reserve for it in training.
    ``mfu`` is model FLOPs utilisation: the time of the model's operations on all NPUs at their
    peaks, each in its own precision, over this time. ``accuracy`` is the trained network's, on any
    cluster. ``power_w`` is the power, ``energy_j`` the energy of an iteration, and
    ``perf_per_watt`` its inverse (iterations/s per W). ``ettr``, the effective training time ratio,
    is the share of the time that interruptions and checkpoints leave, and ``effective_time_s`` the
    time of an iteration with its part of them, at the share ``speed``. ``usd_per_token`` is the
    cost over the lifetime, and the energy, over its tokens; if the rate of interruptions is known,
    only kept tokens count; spare nodes cost as much as others.
    """
    seconds, cluster, found = time / PICOSECONDS, program.cluster, dict[str, Floats]()
    amount, prices = program.workload.amount, program.prices
    watts = None if cluster.power is None else cluster.power.cost(bandwidth)
    if (footprint := program.workload.footprint) is not None:
        found["memory_bytes"] = np.full(len(seconds), float(footprint.total))
        if footprint.gradients and cluster.npu.kernels:  # others need not run PyTorch
            found["memory_reserved_bytes"] = np.full(len(seconds), float(footprint.reserved))
    if amount is not None:
        found["samples_per_s"] = amount.samples / seconds
        if amount.tokens:
            found["tokens_per_s"] = amount.tokens / seconds
        if amount.flops and (peak := cluster.npus.peak(amount.flops, amount.narrow)):
            found["mfu"] = amount.flops / (seconds * program.n_npus * peak)
        if amount.accuracy is not None:
            found["accuracy"] = np.full(len(seconds), amount.accuracy)
    if watts is not None:
        found["power_w"] = watts
        found["energy_j"] = watts * seconds
        found["perf_per_watt"] = 1 / found["energy_j"]
    left: Floats | float = 1.0
    if (renewal := renewal_of(program, seconds)) is not None:
        found["ettr"] = np.full(len(seconds), renewal.effective_share)
        left = found["ettr"] * speed
        found["effective_time_s"] = seconds / left
    if prices is not None and prices.lifetime and "tokens_per_s" in found:
        spent = _price_of_spares(program) * prices.cost(bandwidth) / prices.lifetime
        if watts is not None:
            spent = spent + watts * prices.energy
        found["usd_per_token"] = spent / (found["tokens_per_s"] * left)
    return found


def _price_of_spares(program: Program) -> float:
    if (reliability := program.cluster.reliability) is None:
        return 1.0
    graph = program.cluster.network.graph
    billed = program.n_npus if graph is None else graph.n_npus
    return reliability.cost_multiplier(program.n_npus, billed)


def renewal_of(program: Program, seconds: Floats | float) -> Renewal | None:
    """Return the split of a job's time into useful work, interruptions and checkpoints.

    ``seconds`` is the time of an iteration, (P,) or one number.  Returns None if the cluster has no
    :class:`Reliability`.

    Raises :class:`DimsweepError` as :meth:`Reliability.renewal` does.
    """
    if (reliability := program.cluster.reliability) is None:
        return None
    with prefixing_errors("reliability"):
        return reliability.renewal(program.n_npus, program.workload.state, seconds)
