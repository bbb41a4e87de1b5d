"""Congestion control for training over RoCE, packet by packet: whether it matters, what does."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import networkx as nx

from engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    GraphBuilder,
    NetworkModel,
    PacketModel,
    Topology,
    Workload,
    place,
    simulate,
)
from engine.network import Network, Routing
from sweeper.draw.canvas import BLUE, GREEN, GREY, ORANGE, encoded, frame
from sweeper.verify.points import Findings, Point, Shape, verification

SOURCE = "Khan et al., HotI 2022 (arXiv:2207.10898), abstract"
RECORDED = "ns-3 with the same settings (tests/golden/roce; anchors: steps of 1 MB and more)"
_RATE, _NVLINK = 25e9, 300e9  # bytes/s: 200 Gb/s, and 2400 Gb/s to each of six NVSwitches
_TO_RACK, _TO_SPINE, _TO_NVSWITCH = 5_000_000, 12_500_000, 25_000  # ps
_REDUCE, _SPREAD = CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_TO_ALL


class Case(NamedTuple):
    """A collective of all NPUs: how they are grouped, and by which algorithm in each group."""

    kind: CollectiveKind
    shape: str
    algorithms: tuple[str, ...]
    nvlink: bool = False


class Variant(NamedTuple):
    """How senders answer to congestion, and how packets choose their way."""

    transport: str
    window: bool = True
    spray: bool = False
    payload: int = 1000  # bytes


class Setting(NamedTuple):
    """How large a case is: racks of 16 NPUs, and bytes of each NPU."""

    racks: int
    n_bytes: float

    @property
    def n_npus(self) -> int:
        return 16 * self.racks


TRAINING = {
    "ring": Case(_REDUCE, "Switch({n})", ("ring",)),
    "halving-doubling": Case(_REDUCE, "Switch({n})", ("halving_doubling",)),
    "hierarchical": Case(_REDUCE, "Switch(16)_Switch({racks})", ("halving_doubling",) * 2),
    "NVLink and Clos": Case(
        _REDUCE, "Switch(8)_Switch({nodes})", ("halving_doubling",) * 2, nvlink=True
    ),
}
INCAST = {"all-to-all": Case(_SPREAD, "Switch({n})", ("direct",))}
CASES = TRAINING | INCAST
ALONE = Variant("static", window=False)  # pauses, and nothing else
ANSWERS = {name: Variant(name.lower()) for name in ("DCQCN", "DCTCP", "TIMELY", "HPCC")}
VARIANTS = {
    "PFC alone": ALONE,
    "window": Variant("static"),
    **ANSWERS,
    "sprayed": ALONE._replace(spray=True),
}
RATES = ("DCQCN", "DCTCP", "TIMELY")
# In every picture that has them.
COLOURS = {
    "window": GREY,
    "DCQCN": BLUE,
    "DCTCP": GREEN,
    "TIMELY": ORANGE,
    "HPCC": "#CC79A7",
    "sprayed": "#000000",
}
# Without the window where it could matter, and without collisions where there are most.
MORE = {
    **{
        ("all-to-all", f"{name}, no window"): ANSWERS[name]._replace(window=False) for name in RATES
    },
    ("halving-doubling", "DCQCN, sprayed"): ANSWERS["DCQCN"]._replace(spray=True),
}
Times = Mapping[tuple[str, str], float]  # seconds, by case and variant


def find() -> Findings:
    """Ask whether congestion control matters to the collectives of training, packet by packet.

    All-to-all needs longer messages than all-reduces, and so has fewer NPUs.
    """
    times = run_all(Setting(8, 4e6), Setting(2, 16e6))
    return Findings(list(points(times)), lambda kind: _draw(times, kind))


def run_all(training: Setting, incast: Setting) -> dict[tuple[str, str], float]:
    """Seconds of every case with every variant."""
    wanted = {(case, name): variant for case in CASES for name, variant in VARIANTS.items()}
    return {
        (case, name): run(CASES[case], variant, incast if case in INCAST else training)
        for (case, name), variant in (wanted | MORE).items()
    }


def run(case: Case, variant: Variant, setting: Setting) -> float:
    """Seconds of a collective."""
    on = cluster(case, variant, setting.racks)
    graph = GraphBuilder()
    graph.add("collective", Collective(case.kind, setting.n_bytes, "all"))
    groups = place({"all": setting.n_npus}, on.topology.sizes)
    return simulate(Workload((graph.build(),), groups), on, fidelity="packet").time


def cluster(case: Case, variant: Variant, racks: int) -> Cluster:
    """Racks of 16 NPUs that communicate as in a case."""
    n_dims = len(case.algorithms)
    shape = case.shape.format(n=16 * racks, racks=racks, nodes=2 * racks)
    topology = Topology.build(shape, bandwidth=[_RATE] * n_dims, latency=[_TO_RACK] * n_dims)
    model = NetworkModel(
        graph=network(racks, nvlink=case.nvlink),
        routing=Routing.ECMP,
        packets=PacketModel(*variant),
    )
    collectives = CollectiveModel(chunks=1, algorithms=case.algorithms)
    return Cluster(topology, collectives=collectives, network=model)


@lru_cache(maxsize=4)
def network(racks: int, *, nvlink: bool) -> Network:
    """Racks of 16 NPUs below 8 spines, twice as many links down as up; with ``nvlink`` eight NPUs
    share six NVSwitches, and have a network card between them and their rack's switch."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(16 * racks))
    for npu in range(16 * racks):
        rack, card = f"rack {npu // 16}", f"card {npu}"
        if nvlink:
            for i in range(6):
                _join(graph, npu, f"node {npu // 8} NVSwitch {i}", _NVLINK, _TO_NVSWITCH)
            _join(graph, npu, card, _RATE, 0)
        _join(graph, card if nvlink else npu, rack, _RATE, _TO_RACK)
    for i in range(racks):
        for j in range(8):
            _join(graph, f"rack {i}", f"spine {j}", _RATE, _TO_SPINE)
    return Network(graph)


def _join(graph: nx.DiGraph, a: int | str, b: int | str, bandwidth: float, latency: int) -> None:
    for ends in ((a, b), (b, a)):
        graph.add_edge(*ends, bandwidth=bandwidth, latency=latency)


def points(times: Times) -> Iterator[Point]:
    """The paper's finding, and what makes it so."""
    for case in TRAINING:
        over = {name: _over(times, case, name) for name in RATES}
        yield Shape(
            f"{case}: {', '.join(RATES)}",
            "little impact next to PFC alone: within 5 %",
            told(over),
            all(abs(share) <= 0.05 for share in over.values()),
            SOURCE,
        )
    hpcc = {case: _over(times, case, "HPCC") for case in TRAINING}
    yield Shape(
        "HPCC pays its telemetry and its target",
        "3 to 13 % on long steps, less on short ones, 16 % where hashes collide",
        told(hpcc),
        min(hpcc.values()) > 0 and 0.03 <= max(hpcc.values()) <= 0.17,
        RECORDED,
        "a step of the ring is of 32 packets; permutations on two spines were recorded at 16.2 %",
        basis="recorded",
    )
    incast = {name: _over(times, "all-to-all", name) for name in ANSWERS}
    yield Shape(
        "direct all-to-all tells them apart",
        "incast makes them differ from PFC alone, by more than 5 %",
        told(incast),
        max(map(abs, incast.values())) > 0.05,
        RECORDED,
        "32 NPUs, messages of 500 kB",
        basis="recorded",
    )
    yield from _causes(times)


def _causes(times: Times) -> Iterator[Point]:
    """What matters more: collisions of hashes, and windows."""
    case = "halving-doubling"
    collisions = times[case, "PFC alone"] / times[case, "sprayed"] - 1
    rate_law = times[case, "DCQCN, sprayed"] / times[case, "sprayed"] - 1
    yield Shape(
        f"collisions of ECMP's hashes, {case}",
        "they cost more than any rate law does without them",
        f"{collisions:+.1%}; without them DCQCN {rate_law:+.1%}",
        collisions > abs(rate_law),
        "secondary: SMaRTT and STrack",
    )
    with_window = {name: _over(times, "all-to-all", name) for name in RATES}
    without = {name: _over(times, "all-to-all", f"{name}, no window") for name in RATES}
    yield Shape(
        "the window's part, direct all-to-all",
        "many queue pairs defeat it: it changes less than the rate laws do",
        f"with it {told(with_window)}; without {told(without)}",
        abs(_over(times, "all-to-all", "window")) < max(map(abs, with_window.values())),
        RECORDED,
        basis="recorded",
    )


def _over(times: Times, case: str, name: str) -> float:
    """How much longer than with PFC alone, as a share of that."""
    return times[case, name] / times[case, "PFC alone"] - 1


def told(shares: Mapping[str, float]) -> str:
    """Shares by name, in words."""
    return ", ".join(f"{name} {share:+.1%}" for name, share in shares.items())


def _draw(times: Times, kind: str) -> bytes:
    title = "Training hardly notices congestion control; an all-to-all does"
    with frame(title, 4.0) as figure:
        ax = figure.add_subplot()
        for i, (name, colour) in enumerate(COLOURS.items()):
            x = [100 * _over(times, case, name) for case in CASES]
            y = [place + 0.11 * (i - 2.5) for place in range(len(CASES))]
            ax.scatter(x, y, color=colour, s=36, label=name, zorder=3)
        ax.axvspan(-5, 5, color="#E6E8EB", zorder=0)
        ax.set_yticks(range(len(CASES)), list(CASES))
        ax.invert_yaxis()
        ax.set_xlabel("% longer than with PFC alone (grey: within 5 %)")
        ax.legend(loc="upper right")
        return encoded(figure, kind)


command = verification("roce", find, drawn=True)
