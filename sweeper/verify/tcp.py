"""DLRM over TCP while the global switch's buffer shrinks: which topology suffers first, and why."""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import networkx as nx

from engine import Fidelity, NetworkModel, Result
from engine.kernels.messages import lower_by_rank
from engine.kernels.network import run_messages
from engine.network import Network
from sweeper.build.program import build_cluster, build_workload
from sweeper.config.compose import compose
from sweeper.draw.canvas import BLUE, GREEN, ORANGE, encoded, frame
from sweeper.verify.points import Findings, Point, Shape, verification
from sweeper.verify.side_by_side import side_by_side

SOURCE = "Rashidi et al., HotI 2020: topologies differ in how sensitive they are to that buffer"
_HERE = "asked here; nobody published it"
_RATE, _SCALE_UP = 12.5e9, 450e9  # bytes/s: 100 Gb/s, and NVLink's
_LATENCY, _INSIDE = 1_000_000, 500_000  # ps, of links to the global switch and inside a node
_CABLE = 50_000, 2_000  # ps that each further node, and each further NPU of a node, is away
_NODE = 8  # NPUs
MS = 10**9  # ps
AMPLE = 512 * 1024  # bytes a port


class Case(NamedTuple):
    """A point: ``buffer`` is bytes for each port of the global switch, ``rto_min`` ps."""

    topology: str
    all_to_all: str
    buffer: int
    rto_min: int = MS


class Outcome(NamedTuple):
    """Seconds of an iteration, and of exposed communication; packets that were sent to the global
    switch, and dropped there; how often a flow's timer ran out."""

    time: float
    exposed: float
    sent: int
    dropped: int
    timeouts: int


class Setting(NamedTuple):
    """How large an iteration is: NPUs, and samples of each."""

    n_npus: int = 64
    samples: int = 512


TOPOLOGIES = ("flat", "hierarchical")
ALL_TO_ALLS = ("direct", "pairwise", "bruck")
BUFFERS = (AMPLE, 32_000, 16_000, 8_000, 4_000, 2_000, 1_000)
CASES = [Case(t, a, b) for t in TOPOLOGIES for a in ALL_TO_ALLS for b in BUFFERS]
TUNED = (MS, 10 * MS, 200 * MS)
TIMED = [Case(t, "direct", b, rto) for t in TOPOLOGIES for b in (8_000, 2_000) for rto in TUNED[1:]]
Outcomes = Mapping[Case, Outcome]


def find() -> Findings:
    """Ask which topology suffers first when the global switch's buffer shrinks: DLRM over TCP.

    64 NPUs, each on one global switch, or nodes of 8 and the same switch; all-to-alls directly,
    pairwise or by Bruck's algorithm; a buffer from ample to less than a packet a port.
    """
    cases = CASES + TIMED
    outcomes = dict(zip(cases, side_by_side(run, cases), strict=True))
    return Findings(list(points(outcomes)), lambda kind: _draw(outcomes, kind))


def run(case: Case, setting: Setting = Setting()) -> Outcome:  # noqa: B008  # immutable
    """An iteration of the study's workload with the study's TCP."""
    n, is_flat = setting.n_npus, case.topology == "flat"
    shape = f"Switch({n})" if is_flat else f"Switch({_NODE})_Switch({n // _NODE})"
    n_dims = 1 if is_flat else 2
    values = {
        "topology.shape": shape,
        "workload.parallel.expert": n,
        "workload.plan.micro_batch": setting.samples,
        "network.fabric": "auto",
        "network.routing": "auto",
        "collective.all_to_all": ["auto"] * (n_dims - 1) + [case.all_to_all],
    }
    config = compose(["study=tcp"], values).config
    cluster = build_cluster(config)
    packets = cluster.network.packets
    assert isinstance(packets.buffer, float)
    buffers = (packets.buffer,) * (n_dims - 1) + (case.buffer * n,)
    packets = dataclasses.replace(packets, buffer=buffers, rto_min=case.rto_min)
    model = NetworkModel(graph=network(n, is_flat=is_flat), packets=packets)
    cluster = dataclasses.replace(cluster, network=model)
    program = lower_by_rank(build_workload(config, cluster), cluster, Fidelity.PACKET)
    result = Result(run_messages(program, Fidelity.PACKET))
    assert result.packets is not None
    passed = zip(result.links, result.packets.ports, strict=True)
    sent = sum(port.data for link, port in passed if link.link.source == "global")
    dropped, timeouts = result.packets.dropped, int(result.packets.timeouts.sum())
    return Outcome(result.time, result.exposed, sent + dropped, dropped, timeouts)


@lru_cache(maxsize=4)
def network(n: int, *, is_flat: bool) -> Network:
    """A link from every NPU to the global switch; and nodes of NPUs with a switch each, or none.

    Nodes are in a row, so that some are further from the global switch than others.
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    for npu in range(n):
        node, place = divmod(npu, _NODE)
        if not is_flat:  # first, so that ways inside a node do not lead over the global switch
            _join(graph, npu, f"node {node}", 0, _SCALE_UP, _INSIDE)
        latency = _LATENCY + node * _CABLE[0] + place * _CABLE[1]
        _join(graph, npu, "global", 0 if is_flat else 1, _RATE, latency)
    return Network(graph)


def _join(graph: nx.DiGraph, npu: int, switch: str, dim: int, rate: float, latency: int) -> None:
    for ends in ((npu, switch), (switch, npu)):
        graph.add_edge(*ends, bandwidth=rate, latency=latency, dim=dim)


def points(outcomes: Outcomes) -> Iterator[Point]:
    """Which topology suffers first, which more, and what of."""
    for name in ALL_TO_ALLS:
        first = {t: _first_late(outcomes, t, name) for t in TOPOLOGIES}
        yield Shape(
            f"{name}: who suffers first",
            "the flat topology, at a larger buffer than the hierarchical one",
            "5 % late from " + ", ".join(f"{t} {b:,} B a port" for t, b in first.items()),
            first["flat"] > first["hierarchical"],
            SOURCE,
        )
    yield from _amounts(outcomes)
    yield from _causes(outcomes)


def _amounts(outcomes: Outcomes) -> Iterator[Point]:
    for name in ALL_TO_ALLS:
        late = {t: late_of(outcomes, Case(t, name, 2_000)) for t in TOPOLOGIES}
        yield Shape(
            f"{name}: who suffers more",
            "the flat topology, at little more than a packet a port",
            ", ".join(f"{t} {share:+.0%}" for t, share in late.items()),
            late["flat"] > late["hierarchical"],
            SOURCE,
        )


def _causes(outcomes: Outcomes) -> Iterator[Point]:
    """Drops through the global switch, and how long a time-out lasts at least."""
    flat, nodes = (outcomes[Case(t, "direct", 2_000)] for t in TOPOLOGIES)
    yield Shape(
        "what the flat topology drops, direct",
        "more packets, and more flows that wait for their timer",
        f"{flat.dropped:,} and {flat.timeouts:,}, hierarchical {nodes.dropped:,} and "
        f"{nodes.timeouts:,}",
        flat.dropped > nodes.dropped and flat.timeouts > nodes.timeouts,
        _HERE,
    )
    times = {
        (t, b): [outcomes[Case(t, "direct", b, rto)].time for rto in TUNED]
        for t in TOPOLOGIES
        for b in (8_000, 2_000)
    }
    told = ", ".join(
        f"{t} at {b // 1000} kB " + "/".join(f"{1e3 * time:.0f}" for time in own)
        for (t, b), own in times.items()
    )
    yield Shape(
        "TCP's least time-out (1, 10 and 200 ms), direct",
        "it dominates: longer ones cost more than all else",
        f"{told} ms",
        all(own == sorted(own) and own[-1] > 2 * own[0] for own in times.values()),
        "secondary: Vasudevan et al., SIGCOMM 2009",
    )


def late_of(outcomes: Outcomes, case: Case) -> float:
    """How much longer an iteration takes than with ample buffers, as a share."""
    return outcomes[case].time / outcomes[case._replace(buffer=AMPLE, rto_min=MS)].time - 1


def _first_late(outcomes: Outcomes, topology: str, name: str) -> int:
    """The largest buffer with which an iteration takes 5 % longer; 0 if it never does."""
    late = (b for b in BUFFERS if late_of(outcomes, Case(topology, name, b)) > 0.05)
    return next(late, 0)


def _draw(outcomes: Outcomes, kind: str) -> bytes:
    colours = dict(zip(ALL_TO_ALLS, (BLUE, ORANGE, GREEN), strict=True))
    styles = dict(zip(TOPOLOGIES, ("-", "--"), strict=True))
    x = [buffer / 1000 for buffer in BUFFERS[1:]]
    title = "As the global switch's buffer shrinks, the flat topology suffers first, and more"
    with frame(title, 4.6) as figure:
        times, drops = figure.subplots(1, 2)
        for name, colour in colours.items():
            for topology, style in styles.items():
                own = [outcomes[Case(topology, name, buffer)] for buffer in BUFFERS[1:]]
                told = {"color": colour, "linestyle": style, "marker": "o", "markersize": 4}
                times.plot(x, [1e3 * o.time for o in own], label=f"{topology}, {name}", **told)
                drops.plot(x, [max(100 * o.dropped / o.sent, 1e-4) for o in own], **told)
        for ax, what in ((times, "iteration, ms"), (drops, "% of packets dropped")):
            ax.set(xscale="log", yscale="log", ylabel=what, xlabel="buffer, kB a port")
            ax.set_xticks(x, [f"{kb:g}" for kb in x])
            ax.minorticks_off()
            ax.invert_xaxis()
        times.set_yticks([5, 10, 20, 40], ["5", "10", "20", "40"])
        shares = [1e-4, 1e-3, 0.01, 0.1, 1, 10]
        drops.set_yticks(shares, ["none", *(f"{share:g}" for share in shares[1:])])
        figure.legend(loc="outside lower center", ncols=len(TOPOLOGIES) * len(ALL_TO_ALLS) // 2)
        return encoded(figure, kind)


command = verification("tcp", find, drawn=True)
