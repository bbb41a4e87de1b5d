"""Claims of FRED's paper on its fabric that no study simulates: links, I/O, routes (ISCA 2025)."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from dimsweep.engine import (
    Access,
    Cluster,
    CollectiveModel,
    DimsweepError,
    GraphBuilder,
    NetworkModel,
    Receive,
    Send,
    Topology,
    Workload,
    place,
    simulate,
)
from dimsweep.engine.cluster import MEMORIES
from dimsweep.engine.extensions.wafer import Flow, FredSwitch, Remedy, UnroutableError
from dimsweep.engine.network import Interconnect, compute_busiest_load
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.extensions.verify.points import (
    Findings,
    Point,
    Shape,
    Value,
    create_command,
    within_amount,
    within_share,
)

_PAPER = "Rashidi et al., FRED, ISCA 2025, section 8"
_HOT_SPOT = "Rashidi et al., FRED, ISCA 2025, section 3"
_ROUTES = "Rashidi et al., FRED, ISCA 2025, section 5"
FABRICS = {
    "wafer_mesh": "mesh",
    "fred_a": "FRED-A",
    "fred_b": "FRED-B",
    "fred_c": "FRED-C",
    "fred_d": "FRED-D",
}
_BYTES = 1.2e9
_SIZES = (2, 2, 5)  # tensor, pipeline, data
_EXACT = within_share(1e-6)


def find() -> Findings:
    """Compute FRED's fabric: messages, an I/O hot spot, bisections, routes of partitions.

    The links of a mesh's corner, messages between pipeline stages, the hot spot of the paper's
    mesh, and the routes of all partitions of 20 ports.  `dimsweep verify fred` trains models.
    """
    return Findings([*messages(), *fabrics(), routes(), remedies()])


@lru_cache(maxsize=8)
def wafer_of(network: str) -> Interconnect:
    """Return a configuration's wafer without latencies: the paper models bandwidth only."""
    wafer: Any = compose([f"network={network}"]).config.network.wafer
    if wafer is None:
        raise DimsweepError("the network has no wafer", where=f"network={network}", code="missing")
    without_latency: Interconnect = replace(wafer, latency=0)
    return without_latency


def _cluster(network: str, sizes: Sequence[int]) -> Cluster:
    n = len(sizes)
    topology = Topology.build(
        "_".join(f"Switch({size})" for size in sizes), bandwidth=[3e12] * n, latency=[0] * n
    )
    model = NetworkModel(interconnect=wafer_of(network))
    return Cluster(topology, collectives=CollectiveModel(chunks=1), network=model)


def message_rate(network: str) -> float:
    """Return the GB/s of a message between pipeline stages (rank 0 to 2), all others idle."""
    send, receive, idle = GraphBuilder(), GraphBuilder(), GraphBuilder()
    send.add("send", Send(_BYTES, (0, 1, 0)))
    receive.add("receive", Receive((0, 1, 0)))
    of_rank = np.array([0, 2, 1, *[2] * (math.prod(_SIZES) - 3)])
    workload = Workload((send.build(), receive.build(), idle.build()), graph_of_rank=of_rank)
    time = simulate(workload, _cluster(network, _SIZES), fidelity="message").time
    return _BYTES / time / 1e9


def broadcast_share(network: str) -> float:
    """Return the share of a link's rate at which I/O controllers can broadcast to all NPUs."""
    wafer, graph = wafer_of(network), GraphBuilder()
    graph.add("load", Access(_BYTES, group="data", shared=True))
    workload = Workload((graph.build(),), place({"data": wafer.n_npus}, (wafer.n_npus,)))
    cluster = replace(
        _cluster(network, (wafer.n_npus,)), memory=MEMORIES["edge_io"](wafer.stream_bandwidth)
    )
    time = simulate(workload, cluster, fidelity="message").time
    return _BYTES / time / (len(wafer.streams) * wafer.io)


def messages() -> Iterator[Point]:
    """Yield points on the bandwidth of an NPU over all its links, and between pipeline stages."""
    corner = min(
        sum(
            link.bandwidth
            for link in wafer_of("wafer_mesh").network.links
            if link.source == npu and isinstance(link.target, int)
        )
        for npu in range(20)
    )
    yield Value("mesh, links of a corner", 1500, corner / 1e9, _EXACT, _PAPER, "GB/s")
    for network, published in (("wafer_mesh", 750), ("fred_c", 3000), ("fred_d", 3000)):
        name = f"{FABRICS[network]}, MP2-DP5-PP2, between stages"
        yield Value(name, published, message_rate(network), _EXACT, _PAPER, "GB/s")


def fabrics() -> Iterator[Point]:
    """Yield points on the I/O hot spot of the mesh, and on bisection bandwidths."""
    mesh = wafer_of("wafer_mesh")
    load = compute_busiest_load(mesh.streams) * mesh.io / 1e9
    yield Value("mesh, I/O on its busiest link", 1152, load, _EXACT, _HOT_SPOT, "GB/s")
    share = within_amount(0.005)
    yield Value("mesh, I/O of its line rate", 0.65, mesh.io_share, share, _HOT_SPOT)
    yield Value(
        "mesh, I/O of its line rate, simulated",
        0.65,
        broadcast_share("wafer_mesh"),
        within_amount(0.02),
        _HOT_SPOT,
        note="in 32 pieces a controller, of which the first comes before any of them goes on",
    )
    for network, published in (
        ("wafer_mesh", 3.75),
        ("fred_a", 3.75),
        ("fred_b", 3.75),
        ("fred_c", 30),
        ("fred_d", 30),
    ):
        found = wafer_of(network).bisection() / 1e12
        yield Value(f"{FABRICS[network]}, bisection", published, found, _EXACT, _PAPER, "TB/s")


def routes() -> Point:
    """Return a point on whether FRED_3(20) routes groups of any sizes at once."""
    switch = FredSwitch(20, 3)
    sizes = list(_partitions(20, 20))
    side_by_side = sum(_routes(switch, _consecutive(each)) for each in sizes)
    draw, tries = random.Random(1), 300
    anywhere = 0
    for _ in range(tries):
        ports = draw.sample(range(20), 20)
        groups = _consecutive(draw.choice(sizes))
        moved = [Flow.from_ports(ports[i] for i in group.inputs) for group in groups]
        anywhere += _routes(switch, moved)
    return Shape(
        "routes through FRED_3(20)",
        "groups of any sizes pass at once, placed on consecutive ports",
        f"{side_by_side} of {len(sizes)} partitions do; {anywhere} of {tries} that are scattered",
        side_by_side == len(sizes),
        _ROUTES,
        "scattered groups may all meet one another, which needs as many middle switches as groups",
    )


def remedies() -> Point:
    """Return a point on remedies for Transformer-17B's groups that cannot all be routed.

    They cannot be routed by two middle switches.
    """
    waits, rings, moved = _remedied(2)
    return Shape(
        "what two middle switches cannot route",
        "it is serialised, decomposed or placed anew, and counted",
        f"of Transformer-17B's groups {waits} wait, or {rings} go round rings, or {moved} ranks "
        "are placed anew; nothing of it with three",
        min(waits, rings, moved) > 0 and not any(_remedied(3)),
        _ROUTES,
    )


def _remedied(middles: int) -> tuple[int, int, int]:
    """Return the numbers of waiting groups, of groups on rings and of moved ranks, by remedy."""
    sizes = (3, 2, 3)  # tensor, pipeline, data
    ranks = np.arange(math.prod(sizes)).reshape(sizes[::-1])
    sets = [
        [tuple(line) for line in np.moveaxis(ranks, axis, -1).reshape(-1, 3).tolist()]
        for axis in (2, 0)
    ]
    serialised, decomposed, placed = (
        replace(wafer_of("fred_d"), middles=middles, remedy=remedy).plan(sets, sizes)  # type: ignore[type-var]
        for remedy in (Remedy.SERIALISE, Remedy.DECOMPOSE, Remedy.PLACE)
    )
    return serialised.n_serialised, len(decomposed.decomposed), placed.n_moved


def _partitions(n: int, most: int) -> Iterator[list[int]]:
    """Yield all ways to write ``n`` as a sum of whole numbers up to ``most``, largest first."""
    if not n:
        yield []
    for first in range(min(n, most), 0, -1):
        for rest in _partitions(n - first, first):
            yield [first, *rest]


def _consecutive(sizes: Sequence[int]) -> list[Flow]:
    ends = np.cumsum([0, *sizes]).tolist()
    return [Flow.from_ports(range(end, end + size)) for end, size in zip(ends, sizes, strict=False)]


def _routes(switch: FredSwitch, flows: Sequence[Flow]) -> bool:
    try:
        switch.route(flows)
    except UnroutableError:
        return False
    return True


command = create_command("fred_fabric", find)
