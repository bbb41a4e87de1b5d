"""FRED's wafer fabric (Rashidi et al., ISCA 2025) against a mesh: bandwidths, routes, training."""

import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from engine import (
    Access,
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    DimsweepError,
    GraphBuilder,
    NetworkModel,
    Receive,
    Result,
    Send,
    Topology,
    Workload,
    place,
    simulate,
)
from engine.cluster import MEMORIES
from engine.network.fred import Flow, FredSwitch, Remedy, UnroutableError
from engine.network.wafer import Wafer, heaviest
from sweeper.config.compose import compose
from sweeper.draw.canvas import BLUE, GREEN, GREY, ORANGE, encoded, frame
from sweeper.verify.designs import simulate_designs
from sweeper.verify.points import Findings, Point, Shape, Value, absolute, relative, verification

_PAPER = "Rashidi et al., FRED, ISCA 2025, section 8"
_HOT_SPOT = "Rashidi et al., FRED, ISCA 2025, section 3"
MODELS = {
    "fred_resnet152": "ResNet-152",
    "fred_transformer_17b": "Transformer-17B",
    "fred_gpt3": "GPT-3",
    "fred_transformer_1t": "Transformer-1T",
}
FABRICS = {
    "wafer_mesh": "mesh",
    "fred_a": "FRED-A",
    "fred_b": "FRED-B",
    "fred_c": "FRED-C",
    "fred_d": "FRED-D",
}
# Speed-ups over the mesh.
SPEED_UPS = {
    "fred_c": (1.41, 1.75, 1.34, 1.40),
    "fred_d": (1.76, 1.87, 1.34, 1.40),
}
_RATE = (
    "the paper does not say how long anything computes: here an NPU does 6.5 PFLOP/s, one rate for "
    "all, chosen knowing the published speed-ups (docs/studies/fred.md); nothing overlaps; weights "
    "stream for each micro-batch; messages under way are not interrupted, but where a point says so"
)
# FRED-C's are no aim: two of them are what the rate of an NPU was looked for with.
_NEAR = {"fred_c": 0.15, "fred_d": 0.10}
_BYTES = 1.2e9
_SIZES = (2, 2, 5)  # tensor, pipeline, data
_EXACT = relative(1e-6)
Designs = Mapping[tuple[str, ...], Result]


def find() -> Findings:
    """Reproduce FRED's wafer: bandwidths, hot spots, routes, four models on five fabrics.

    The effective bandwidths and the hot spot of its paper, the routes of all partitions of 20
    ports, and the training of four models on a mesh and on FRED-A to FRED-D, message by message.
    """
    designs = simulate_designs("fred")
    routed = routes(), remedies()
    training = *speed_ups(designs), *preempted(), *_shapes(designs)
    points = [*bandwidths(), *fabrics(), *routed, *training]
    return Findings(points, lambda kind: _draw(designs, kind))


# --- bandwidths ----------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def wafer_of(network: str) -> Wafer:
    """The wafer of a configuration, without latency: the paper's are bandwidth terms only."""
    wafer = compose([f"network={network}"]).config.network.wafer
    if wafer is None:
        raise DimsweepError("it has no wafer", where=f"network={network}")
    return replace(wafer, latency=0)  # type: ignore[type-var]  # every wafer is a dataclass


def _cluster(network: str, sizes: Sequence[int]) -> Cluster:
    n = len(sizes)
    topology = Topology.build(
        "_".join(f"Switch({size})" for size in sizes), bandwidth=[3e12] * n, latency=[0] * n
    )
    model = NetworkModel(wafer=wafer_of(network))
    return Cluster(topology, collectives=CollectiveModel(chunks=1), network=model)


def _all_reduce(network: str, axis: str, sizes: tuple[int, int, int]) -> Result:
    """All groups along an axis at once."""
    graph = GraphBuilder()
    graph.add("all-reduce", Collective(CollectiveKind.ALL_REDUCE, _BYTES, axis))
    axes = dict(zip(("tensor", "pipeline", "data"), sizes, strict=True))
    workload = Workload((graph.build(),), place(axes, sizes))
    return simulate(workload, _cluster(network, sizes), fidelity="message")


def rate(network: str, axis: str, sizes: tuple[int, int, int] = _SIZES) -> float:
    """GB/s that an NPU sends in an all-reduce, if it takes the bytes of a ring; in switches that
    reduce it sends no more than there is to reduce."""
    p = sizes[("tensor", "pipeline", "data").index(axis)]
    wafer = wafer_of(network)
    traffic = 1.0 if wafer.rings is None else 2 * (p - 1) / p
    return traffic * _BYTES / _all_reduce(network, axis, sizes).time / 1e9


def message_rate(network: str) -> float:
    """GB/s of a message between pipeline stages, from rank 0 to rank 2; all others are idle."""
    send, receive, idle = GraphBuilder(), GraphBuilder(), GraphBuilder()
    send.add("send", Send(_BYTES, (0, 1, 0)))
    receive.add("receive", Receive((0, 1, 0)))
    of_rank = np.array([0, 2, 1, *[2] * (math.prod(_SIZES) - 3)])
    workload = Workload((send.build(), receive.build(), idle.build()), graph_of_rank=of_rank)
    time = simulate(workload, _cluster(network, _SIZES), fidelity="message").time
    return _BYTES / time / 1e9


def broadcast_share(network: str) -> float:
    """The share of their line rate at which the I/O controllers broadcast, piece by piece, to all
    NPUs."""
    wafer, graph = wafer_of(network), GraphBuilder()
    graph.add("load", Access(_BYTES, group="data", shared=True))
    workload = Workload((graph.build(),), place({"data": wafer.n_npus}, (wafer.n_npus,)))
    cluster = replace(
        _cluster(network, (wafer.n_npus,)), memory=MEMORIES["edge_io"](wafer.stream_bandwidth)
    )
    time = simulate(workload, cluster, fidelity="message").time
    return _BYTES / time / (len(wafer.streams) * wafer.io)


def bandwidths() -> Iterator[Point]:
    """The effective bandwidths of an NPU."""
    whole = (1, 1, 20)
    corner = min(
        sum(
            link.bandwidth
            for link in wafer_of("wafer_mesh").network.links
            if link.source == npu and isinstance(link.target, int)
        )
        for npu in range(20)
    )
    yield Value("mesh, links of a corner", 1500, corner / 1e9, _EXACT, _PAPER, "GB/s")
    both_ways = (
        "an all-reduce of D bytes among all NPUs seems to count as 2 D in the paper: by the bytes "
        "of a ring, 1.9 D, the mesh would have 1,425 GB/s and FRED-A 1,759 (docs/studies/fred.md)"
    )
    for network, published, tolerance in (
        ("wafer_mesh", 1500, _EXACT),
        ("fred_a", 1850, relative(0.01)),
    ):
        ours = 2 * _BYTES / _all_reduce(network, "data", whole).time / 1e9
        name = f"{FABRICS[network]}, wafer-wide"
        yield Value(name, published, ours, tolerance, _PAPER, "GB/s", both_ways)
    for network, published in (("fred_b", 1500), ("fred_c", 3000), ("fred_d", 3000)):
        name = f"{FABRICS[network]}, wafer-wide"
        yield Value(name, published, rate(network, "data", whole), _EXACT, _PAPER, "GB/s")
    for axis, network, published in (
        ("tensor", "wafer_mesh", 750),
        ("tensor", "fred_d", 3000),
        ("data", "wafer_mesh", 750),
        ("data", "fred_a", 375),
        ("data", "fred_b", 375),
        ("data", "fred_c", 3000),
    ):
        name = f"{FABRICS[network]}, MP2-DP5-PP2, {axis} groups"
        yield Value(name, published, rate(network, axis), _EXACT, _PAPER, "GB/s")
    for network, published in (("wafer_mesh", 750), ("fred_c", 3000), ("fred_d", 3000)):
        name = f"{FABRICS[network]}, MP2-DP5-PP2, between stages"
        yield Value(name, published, message_rate(network), _EXACT, _PAPER, "GB/s")
    sent = [
        float(_all_reduce(network, "data", _SIZES).run.measures.bytes_sent.sum())
        for network in ("fred_a", "fred_b")
    ]
    saved = 100 * (sent[1] / sent[0] - 1)
    yield Value("FRED-B, MP2-DP5-PP2, traffic of data", -37.5, saved, _EXACT, _PAPER, "%")


def fabrics() -> Iterator[Point]:
    """The I/O hot spot of the mesh, and the bisections."""
    mesh = wafer_of("wafer_mesh")
    load = heaviest(mesh.streams) * mesh.io / 1e9
    yield Value("mesh, I/O on its busiest link", 1152, load, _EXACT, _HOT_SPOT, "GB/s")
    share = absolute(0.005)
    yield Value("mesh, I/O of its line rate", 0.65, mesh.io_share, share, _HOT_SPOT)
    yield Value(
        "mesh, I/O of its line rate, simulated",
        0.65,
        broadcast_share("wafer_mesh"),
        absolute(0.02),
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


# --- routes --------------------------------------------------------------------------------------


def routes() -> Point:
    """Whether FRED_3(20) routes groups of any sizes at once."""
    switch = FredSwitch(20, 3)
    sizes = list(_partitions(20, 20))
    side_by_side = sum(_routes(switch, _consecutive(each)) for each in sizes)
    draw, tries = random.Random(1), 300
    anywhere = 0
    for _ in range(tries):
        ports = draw.sample(range(20), 20)
        groups = _consecutive(draw.choice(sizes))
        moved = [Flow.among(ports[i] for i in group.inputs) for group in groups]
        anywhere += _routes(switch, moved)
    return Shape(
        "routes through FRED_3(20)",
        "groups of any sizes pass at once, placed on consecutive ports",
        f"{side_by_side} of {len(sizes)} partitions do; {anywhere} of {tries} that are scattered",
        side_by_side == len(sizes),
        "Rashidi et al., FRED, ISCA 2025, section 5",
        "scattered groups may all meet one another, which needs as many middle switches as groups",
    )


def remedies() -> Point:
    """What becomes of Transformer-17B's groups where two middle switches cannot route them all."""
    waits, rings, moved = _remedied(2)
    return Shape(
        "what two middle switches cannot route",
        "it is serialised, decomposed or placed anew, and counted",
        f"of Transformer-17B's groups {waits} wait, or {rings} go round rings, or {moved} ranks "
        "are placed anew; nothing of it with three",
        min(waits, rings, moved) > 0 and not any(_remedied(3)),
        "Rashidi et al., FRED, ISCA 2025, section 5",
    )


def _remedied(middles: int) -> tuple[int, int, int]:
    """Groups that wait, or go round rings, and ranks that move, by the remedy chosen."""
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
    return serialised.serialised, len(decomposed.decomposed), placed.moved


def _partitions(n: int, most: int) -> Iterator[list[int]]:
    """All ways to write ``n`` as a sum of whole numbers up to ``most``, the largest first."""
    if not n:
        yield []
    for first in range(min(n, most), 0, -1):
        for rest in _partitions(n - first, first):
            yield [first, *rest]


def _consecutive(sizes: Sequence[int]) -> list[Flow]:
    ends = np.cumsum([0, *sizes]).tolist()
    return [Flow.among(range(end, end + size)) for end, size in zip(ends, sizes, strict=False)]


def _routes(switch: FredSwitch, flows: Sequence[Flow]) -> bool:
    try:
        switch.route(flows)
    except UnroutableError:
        return False
    return True


# --- training ------------------------------------------------------------------------------------


def gain(designs: Designs, model: str, network: str) -> float:
    """How many times as fast as on the mesh a model trains."""
    return designs[model, "wafer_mesh"].time / designs[model, network].time


def speed_ups(
    designs: Designs, models: Collection[str] = tuple(MODELS), how: str = ""
) -> Iterator[Point]:
    """Those over the mesh that were published."""
    for network, published in SPEED_UPS.items():
        for (model, name), value in zip(MODELS.items(), published, strict=True):
            if model in models:
                ours = gain(designs, model, network)
                what = f"{FABRICS[network]} over the mesh, {name}{how}"
                near = relative(_NEAR[network])
                yield Value(what, value, ours, near, _PAPER, "x", _RATE)


def preempted() -> Iterator[Point]:
    """Those of Transformer-17B where messages under way make way for others, as in the paper.

    ResNet-152 and Transformer-1T have messages of one priority only, and GPT-3's were too many for
    SimPy, which alone suspended messages (docs/studies/fred.md has one run of it).
    """
    model = "fred_transformer_17b"
    grid = f"grid={{workload:[{model}],network:[wafer_mesh,{','.join(SPEED_UPS)}]}}"
    designs = simulate_designs("fred", grid, "network.wafer.preempts=true")
    yield from speed_ups(designs, [model], ", with pre-emption")


def _shapes(designs: Designs) -> Iterator[Point]:
    streaming = ("fred_gpt3", "fred_transformer_1t")
    same = max(
        abs(gain(designs, model, "fred_d") / gain(designs, model, "fred_c") - 1)
        for model in streaming
    )
    yield Shape(
        "weights that stream",
        "FRED-D gains nothing over FRED-C: I/O is what counts",
        f"{same:.1%} between them at most",
        same < 0.01,
        _PAPER,
    )
    b, d = ([gain(designs, model, each) for model in MODELS] for each in ("fred_b", "fred_d"))
    text = ", ".join(f"{name} {x:.2f}" for name, x in zip(MODELS.values(), b, strict=True))
    yield Shape(
        "at equal bisection, FRED-B over the mesh",
        "nobody published it; FRED-D has 8 times the mesh's bisection",
        text,
        all(1 < less < more for less, more in zip(b, d, strict=True)),
        "ours: FRED-B and the mesh have 3.75 TB/s each",
    )


def _draw(designs: Designs, kind: str) -> bytes:
    shown = [network for network in FABRICS if network != "wafer_mesh"]
    title = (
        "At the mesh's bisection FRED-B gains 1.1 to 1.3 times; FRED-D, at 8 times it, 1.2 to 2.0"
    )
    with frame(title, 3.6) as figure:
        ax = figure.add_subplot()
        at = np.arange(len(MODELS))
        for i, (network, colour) in enumerate(zip(shown, (GREY, GREEN, BLUE, ORANGE), strict=True)):
            heights = [gain(designs, model, network) for model in MODELS]
            ax.bar(at + 0.2 * (i - 1.5), heights, 0.18, color=colour, label=FABRICS[network])
            if network in SPEED_UPS:
                places = at + 0.2 * (i - 1.5)
                word = "published" if network == "fred_d" else None
                ax.plot(
                    places, SPEED_UPS[network], "D", color="black", mec="white", ms=6, label=word
                )
        ax.set_ylim(0, 2.4)
        ax.axhline(1, color=GREY, linewidth=0.8)
        ax.set_xticks(at, list(MODELS.values()))
        ax.set_ylabel("speed-up over the mesh")
        ax.legend(ncols=5, fontsize=8)
        return encoded(figure, kind)


command = verification("fred", find, drawn=True)
