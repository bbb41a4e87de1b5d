"""NCCL's predictions, by which it chooses: microseconds = latency + bytes / bandwidth.

Latencies and limits are from NCCL's tuning (NCCL 2.29.2, public source).  NCCL takes the
existing links into account, so its choice may differ at each split of a study.  No prediction grows
with any bandwidth.  Predictions differ from the simulated times, so a collective often takes longer
just beyond the size at which NCCL changes its choice.
"""

import math
from collections.abc import Iterator

import numpy as np

from dimsweep.engine.collective.library.nccl import nvls
from dimsweep.engine.collective.library.nccl.gpus import (
    DIRECT,
    DIRECT_LL,
    LL,
    LL128,
    SIMPLE,
    SWITCH,
    Algorithm,
    Choice,
    Gpu,
    Hardware,
    Protocol,
)
from dimsweep.engine.collective.request import Floats, Request
from dimsweep.engine.kinds import CollectiveKind

# us; LL, LL128, Simple
_PROTOCOLS = (Protocol.LL, Protocol.LL128, Protocol.SIMPLE)
_BASE = {Algorithm.RING: (6.6, 14.0, 8.4), Algorithm.TREE: (6.8, 14.0, 8.4)}
_HOP = {
    (Hardware.NVLINK, Algorithm.RING): (0.6, 1.9, 3.4),
    (Hardware.NVLINK, Algorithm.TREE): (0.6, 1.25, 4.0),
    (Hardware.PCI, Algorithm.RING): (1.0, 2.5, 5.7),
    (Hardware.PCI, Algorithm.TREE): (1.0, 1.9, 4.0),
}
_NETWORK_HOP = {Algorithm.RING: (2.7, 4.0, 14.0), Algorithm.TREE: (5.0, 8.5, 14.0)}
_STEP_BETWEEN_NODES = (1.0, 1.0, 3.0)  # at least, of any step of a ring over several nodes
PEER = _STEP_BETWEEN_NODES[0]  # of an all-to-all: sends to other nodes do not wait for one another
_PLATEAU = 1.4  # latency of a Simple all-reduce on a ring of several nodes, times this
NVLS, _NVLS_TREE_HOP = 25.0, 20.9
_PAT_BASE, _PAT_HOP, _PAT_RANK = 8.0, 4.0, 2.8
_CHANNELS = 16  # of rings over several nodes
_DOUBLED = 4  # channels are doubled up to this number
TREE, PAT = 0.92, 0.75  # of a ring's bandwidth
CARD = 0.96  # of a network card: 12, 24, 48 and 96 GB/s of 100 to 800 Gb/s
_DIRECT_LL_BYTES = 16384  # to each peer

# Trees reach this share of their bandwidth, by powers of two from 64 B; all of it beyond.
_TREE_BY_SIZE = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.5, 0.6, 0.6, 0.7, 0.7, 0.8, 0.9, 0.9),
    (
        *(0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6),
        *(0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9),
    ),
)


def choose(gpu: Gpu, request: Request) -> Choice:
    """Return NCCL's choice at the request's bandwidths: the first of the fastest predictions."""
    predicted = predictions(gpu, request, np.array([request.bandwidth]))
    return choices(gpu, request)[int(predicted[:, 0].argmin())]


def choices(gpu: Gpu, request: Request) -> tuple[Choice, ...]:
    """Return the O choices (algorithm and protocol) that NCCL may make for ``request``."""
    return tuple(choice for choice, _ in _predicted(gpu, request, np.array([request.bandwidth])))


def predictions(gpu: Gpu, request: Request, bandwidth: Floats) -> Floats:
    """Return NCCL's predicted time (us) of each of its O :func:`choices`, shape (O, P).

    ``bandwidth`` (P, D) is in bytes/s, in the request's dimensions.
    """
    with np.errstate(divide="ignore", over="ignore"):  # without bandwidth it takes for ever
        return np.array([us for _, us in _predicted(gpu, request, bandwidth)])


def network_hop(choice: Choice, request: Request) -> float:
    """Return the microseconds of one step between nodes."""
    if choice.algorithm is Algorithm.NVLS:
        return _NVLS_TREE_HOP
    if choice.algorithm is Algorithm.PAT:
        return _PAT_HOP
    alone = request.ranks_a_node == 1  # then its ring pays the hop of a tree
    ring = choice.algorithm is not Algorithm.TREE and not alone
    hops = _NETWORK_HOP[Algorithm.RING if ring else Algorithm.TREE]
    return hops[_PROTOCOLS.index(choice.protocol)]


def pat_overhead(ranks: int) -> float:
    """Return the part of a PAT collective's microseconds that is proportional to its ranks."""
    return _PAT_RANK * ranks


def _predicted(gpu: Gpu, request: Request, bandwidth: Floats) -> Iterator[tuple[Choice, Floats]]:
    """Yield each allowed choice and NCCL's prediction of its time in us (P,).

    An all-to-all has sends and receives only. Raises :class:`DimsweepError` if no choice is left.
    """
    if request.kind is CollectiveKind.ALL_TO_ALL:
        is_short = request.n_bytes / request.ranks <= _DIRECT_LL_BYTES
        yield DIRECT_LL if is_short else DIRECT, np.zeros(len(bandwidth))
        return
    found = [
        (choice, us)
        for choice, us in _candidates(gpu, request, bandwidth)
        if gpu.limits.allow(request.kind, choice, request.nodes)
    ]
    if not found:
        raise gpu.limits.refused(request.kind, request.nodes)
    yield from found


def _candidates(gpu: Gpu, request: Request, bandwidth: Floats) -> Iterator[tuple[Choice, Floats]]:
    """Yield each algorithm and protocol, allowed or not, with its times (us) at P bandwidths."""
    bus = _bus(gpu, request, bandwidth)
    protocols = [LL, SIMPLE] if gpu.hardware is Hardware.PCI else [LL, LL128, SIMPLE]
    for choice in protocols:
        yield choice, _ring(gpu, request, choice, bus)
    several = request.nodes > 1
    if request.kind is CollectiveKind.ALL_REDUCE:
        # On one node NCCL seldom chooses a tree, which is a chain there, beside a ring.
        if several or not any(gpu.limits.allow(request.kind, each, 1) for each in protocols):
            for _, protocol in protocols:
                yield Choice(Algorithm.TREE, protocol), _tree(gpu, request, protocol, bandwidth)
        if gpu.nvls and request.ranks_a_node > 1:
            yield SWITCH, _nvls(gpu, request, bandwidth)
    elif several and request.ranks_a_node == 1:
        levels, n = nvls.levels(request), request.ranks
        latency = _PAT_BASE + levels * _PAT_HOP + pat_overhead(n)
        rate = PAT * bus * n / (n - 1)
        yield Choice(Algorithm.PAT, Protocol.SIMPLE), latency + request.n_bytes / 1e3 / rate


def _bus(gpu: Gpu, request: Request, bandwidth: Floats, rails: int = 1) -> Floats:
    """Return the GB/s of NCCL's rings (P,); a rank's network link counts ``rails`` times."""
    inside = bandwidth[:, : request.in_node] / 1e9 / gpu.link
    found = [gpu.bus * inside, rails * _rails(request, bandwidth) * request.ranks_a_node]
    return np.concatenate(found, axis=1).min(axis=1)


def _ll(gpu: Gpu, request: Request) -> float:
    return gpu.ll[min(request.nodes, 3) - 1]


def _ring(gpu: Gpu, request: Request, choice: Choice, bus: Floats) -> Floats:
    i, n = _PROTOCOLS.index(choice.protocol), request.ranks
    passes = 2 if request.kind is CollectiveKind.ALL_REDUCE else 1
    steps, between = passes * (n - 1), passes * (request.nodes - 1)
    hop = _HOP[gpu.hardware, Algorithm.RING][i]
    if between:
        hop = max(hop, _STEP_BETWEEN_NODES[i])
    latency = _BASE[Algorithm.RING][i] + (steps - between) * hop
    latency += between * network_hop(choice, request)
    if between and passes == 2 and choice == SIMPLE and request.n_bytes >= 64 * _CHANNELS * n:
        latency *= _PLATEAU
    bandwidth = (np.minimum(_ll(gpu, request), bus / 2), gpu.ll128 * bus, bus)[i]
    return np.asarray(latency + request.n_bytes / 1e3 / (bandwidth * n / steps))


def _tree(gpu: Gpu, request: Request, protocol: Protocol, bandwidth: Floats) -> Floats:
    i, two = _PROTOCOLS.index(protocol), request.nodes == 2
    # Of two nodes each sends half of the bytes up one tree and half of them down the other.
    bus = TREE * _bus(gpu, request, bandwidth, rails=2 if two else 1)
    if request.ranks_a_node > _DOUBLED and request.nodes > 1:
        bus = np.minimum(bus, gpu.tree[0 if two else 1] * request.ranks_a_node)
    hops = (request.ranks_a_node - 1) * _HOP[gpu.hardware, Algorithm.TREE][i]
    hops += nvls.levels(request) * _NETWORK_HOP[Algorithm.TREE][i]
    ll128 = 120 / 128 if request.nodes > 1 else 7 / 9
    bandwidth = (np.minimum(bus / 3.8, _ll(gpu, request)), bus * ll128, bus)[i]
    size = max(0, int(math.log2(max(request.n_bytes, 64) / 64)))
    if size < len(_TREE_BY_SIZE[i]):
        bandwidth = bandwidth * _TREE_BY_SIZE[i][size]
    took = _BASE[Algorithm.TREE][i] + 2 * hops + request.n_bytes / 1e3 / (bandwidth / 2)
    return np.asarray(took)


def _nvls(gpu: Gpu, request: Request, bandwidth: Floats) -> Floats:
    link = bandwidth[:, : request.in_node].min(axis=1) / 1e9 / gpu.link
    rate, latency = nvls.believed(gpu, request) * link, NVLS
    if request.nodes > 1:
        rails = _rails(request, bandwidth).min(axis=1) * nvls.heads(request)
        both = 2 if request.nodes == 2 else 1
        rate = np.minimum(rate, both * rails * request.ranks / (2 * (request.ranks - 1)))
        latency += 2 * nvls.levels(request) * _NVLS_TREE_HOP
    return np.asarray(latency + request.n_bytes / 1e3 / rate)


def _rails(request: Request, bandwidth: Floats) -> Floats:
    """Return the GB/s of a GPU's network link (rail) in each dimension between nodes, (P, D)."""
    return CARD * bandwidth[:, request.in_node :] / 1e9
