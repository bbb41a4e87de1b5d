"""COMET's method: memory capacity and bandwidth, tensor degree, network and node, for one model."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from engine import Result, units
from sweeper.draw.canvas import BLUE, GREEN, GREY, ORANGE, Bars, draw_stack, encoded, frame
from sweeper.terminal import plural
from sweeper.verify.designs import simulate_designs
from sweeper.verify.points import Findings, Point, Shape, Value, between, verification

SOURCE = "Kadiyala et al., COMET (arXiv:2211.16648)"
STUDIES = ("comet", "comet_degrees", "comet_expansion", "comet_clusters", "comet_dlrm")
_PUBLIC = "only the abstract's figures are public; degrees and shapes are those of its method"
Times = Mapping[tuple[str, ...], Result]


class Best(NamedTuple):
    """A cluster at the tensor degree that is fastest on it."""

    node: str
    network: str
    memory: str
    degree: str
    result: Result

    @property
    def name(self) -> str:
        expanded = " + expansion" if self.memory == "cxl" else ""
        return f"{self.node.removeprefix('peak_')} on {self.network}{expanded}"


def find() -> Findings:
    """Compare clusters for Transformer-1T by degree, memory expansion, network and node.

    COMET asks how much memory nodes should have, and how fast. It takes a minute.
    """
    degrees, flanks, expansion, clusters, dlrm = map(simulate_designs, STUDIES)
    best = best_of(clusters)
    points = [
        *footprints(degrees, dlrm),
        u_shape(flanks),
        *expanded(degrees, expansion),
        spread(best),
    ]
    return Findings(points, lambda kind: _draw(degrees, best, kind))


def footprints(degrees: Times, dlrm: Times) -> list[Point]:
    """What an NPU holds, by degree."""
    points: list[Point] = []
    for model, designs in (("Transformer-1T", degrees), ("DLRM", dlrm)):
        needs = {
            n: _footprint(result) for (memory, n), result in designs.items() if memory == "cxl"
        }
        falls = all(a > b for a, b in itertools.pairwise(needs.values()))
        text = ", ".join(f"{n}: {units.format_bytes(need)}" for n, need in needs.items())
        claim = "it falls with the degree that divides the model"
        points.append(Shape(f"footprint of {model}", claim, text, falls, SOURCE, _PUBLIC))
    return points


def _footprint(result: Result) -> float:
    need = result.program.workload.footprint
    return need.total if need is not None else 0.0


def u_shape(flanks: Times) -> Point:
    """Time by tensor degree where memory is no limit."""
    flat = {n: result.time for (_, n, network), result in flanks.items() if network == "flat_1024"}
    nodes = {n: result.time for (_, n, network), result in flanks.items() if network == "hgx_a100"}
    return Shape(
        "time by tensor degree, one switch",
        "U-shaped",
        f"{_curve(flat)}; but on nodes of 8: {_curve(nodes)}",
        _is_u(list(flat.values())),
        SOURCE,
        "on nodes of 8 GPUs it is not U-shaped, only the right flank is there: gradients go in two "
        "steps, inside the nodes first, so degrees below 8 send no more of them between nodes",
    )


def _curve(times: Mapping[str, float]) -> str:
    least = min(times, key=lambda n: times[n])
    first, last = next(iter(times)), list(times)[-1]
    shown = dict.fromkeys((first, least, last))
    return ", ".join(f"{times[n]:.1f} s at {n}" for n in shown)


def _is_u(times: Sequence[float]) -> bool:
    """Whether times fall to an inner least one and rise from there."""
    least = times.index(min(times))
    falls = all(a > b for a, b in itertools.pairwise(times[: least + 1]))
    rises = all(a < b for a, b in itertools.pairwise(times[least:]))
    return 0 < least < len(times) - 1 and falls and rises


def expanded(degrees: Times, expansion: Times) -> list[Point]:
    """What a memory expansion gains."""
    own = {int(n): r.time for (memory, n), r in degrees.items() if memory == "none"}
    before = min(own, key=lambda n: own[n])
    least = min(expansion, key=lambda cell: expansion[cell].time)
    after = int(least[1])
    gains = {bandwidth: 0.0 for _, _, bandwidth, _ in expansion}
    for (_, _, bandwidth, _), result in expansion.items():
        gains[bandwidth] = max(gains[bandwidth], own[before] / result.time)
    text = ", ".join(f"{gain:.2f} x at {bandwidth}" for bandwidth, gain in gains.items())
    missing = [int(n) for _, n in degrees if ("none", n) not in degrees]
    return [
        Shape(
            "best tensor degree",
            "memory expansion moves it to a smaller one",
            f"from {before} to {after}; without it {plural(len(missing), 'degree')} "
            f"({', '.join(map(str, missing))}) do not fit",
            after < before,
            SOURCE,
        ),
        Value(
            "gain of memory expansion, at most",
            1.4,
            max(gains.values()),
            between(1.0, 1.45),
            SOURCE,
            "x",
            f"250 GB beside each A100's own 80 GiB: {text}; the tolerance is a shape's",
        ),
    ]


def best_of(clusters: Times) -> list[Best]:
    """Every cluster at its best degree, the fastest first."""
    best: dict[tuple[str, str, str], Best] = {}
    for (memory, degree, node, network), result in clusters.items():
        here = best.get((node, network, memory))
        if here is None or result.time < here.result.time:
            best[node, network, memory] = Best(node, network, memory, degree, result)
    return sorted(best.values(), key=lambda each: each.result.time)


def spread(best: Sequence[Best]) -> Point:
    """The best and the worst cluster."""
    first, last = best[0], best[-1]
    times = last.result.time / first.result.time
    return Shape(
        "best and worst cluster of 1,024 nodes",
        "up to 7.7 x apart",
        f"{times:.1f} x: {first.name} {first.result.time:.1f} s, {last.name} "
        f"{last.result.time:.0f} s",
        times > 3,
        SOURCE,
        "the clusters are not COMET's but data sheets of A100, H100 and TPU v4 in four networks; "
        "that they are several-fold apart is all that can be compared",
    )


_PARTS = (("computes", "", GREY), ("tensor exchange", " tensor", BLUE), ("data", "replicas", GREEN))


def _stack(results: Sequence[Result | None]) -> list[Bars]:
    """The seconds of each result by what they are spent on; none for what does not fit."""
    parts = []
    for name, axis, colour in _PARTS:
        seconds = [_seconds(result, axis) if result is not None else 0.0 for result in results]
        parts.append(Bars(np.array(seconds), (), colour, name))
    known = np.sum([bars.values for bars in parts], axis=0)
    whole = np.array([result.time if result is not None else 0.0 for result in results])
    return [*parts, Bars(whole - known, (), ORANGE, "other")]


def _seconds(result: Result, axis: str) -> float:
    if not axis:
        return result.compute
    exposed = result.exposed_by_collective
    return sum(seconds for name, seconds in exposed.items() if name.endswith(axis))


def _draw(degrees: Times, best: Sequence[Best], kind: str) -> bytes:
    tensor = sorted(dict.fromkeys(n for _, n in degrees), key=int)
    rows = [(memory, n) for n in tensor for memory in ("none", "cxl")]
    shown = [degrees.get(row) for row in rows]
    title = "Memory expansion makes room for small tensor degrees, which exchange less"
    with frame(title, 10.5) as figure:
        one, all_of_them = figure.subplots(2, 1)
        names = [f"{n}{' + expansion' if memory == 'cxl' else ''}" for memory, n in rows]
        ends = [f"{r.time:.1f} s" if r else "does not fit 80 GiB" for r in shown]
        draw_stack(one, names, _stack(shown), ends)
        one.set(xlabel="seconds of an iteration on 1,024 A100", ylabel="tensor degree")
        one.legend(loc="upper right")
        names = [f"{each.name}: {each.degree}" for each in best]
        ends = [f"{each.result.time:.1f} s" for each in best]
        draw_stack(all_of_them, names, _stack([each.result for each in best]), ends)
        all_of_them.set(xlabel="seconds of an iteration, each cluster at its best tensor degree")
        all_of_them.tick_params(axis="y", labelsize=7)
        return encoded(figure, kind)


command = verification("comet", find, drawn=True)
