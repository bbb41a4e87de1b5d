"""ZeRO-Infinity against hierarchical memory, as ASTRA-sim 2.0 compared them (case study 3)."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine import DimsweepError, Result
from engine.cluster import Request
from sweeper.build.program import build_cluster
from sweeper.config.compose import compose
from sweeper.draw.canvas import (
    BLUE,
    GREY,
    ORANGE,
    Bars,
    draw_stack,
    encoded,
    frame,
    series_colour,
)
from sweeper.verify.designs import simulate_designs
from sweeper.verify.points import Findings, Point, Shape, Value, between, relative, verification

SOURCE = "Won et al., ASTRA-sim 2.0 (ISPASS 2023), case study 3"
STUDY, SWEEP = "hierarchical_memory", "hierarchical_memory_knee"
SYSTEMS = ("zero_infinity", "hierarchical", "hierarchical_opt")
TOKENS = "2048"  # a GPU
_ASSUMED = (
    "the traces were never published; our model (conf/workload/moe_1t_256.yaml), its tokens a GPU "
    "and the network were chosen knowing the published ratio, so the speed-up tests a shape: "
    "between the 5 of the memory alone and what compute and exchanges leave of it"
)
Times = Mapping[tuple[str, ...], Result]


def find() -> Findings:
    """Compare ZeRO-Infinity with hierarchical memory for a mixture of experts on 256 GPUs.

    Case study 3 of ASTRA-sim 2.0: drives against pooled memory behind switches, and the same with
    memory five times and fabrics twice as fast; then fabrics against memory groups, with the knee.
    """
    designs, sweep = simulate_designs(STUDY), simulate_designs(SWEEP)
    points = [*compared(designs), *_more_tokens(designs), *_rates(), *_knee(sweep)]
    return Findings(points, lambda kind: _draw(designs, sweep, kind))


def compared(designs: Times, tokens: str = TOKENS) -> list[Point]:
    """The two published ratios."""
    drives, base, best = (designs[system, tokens].time for system in SYSTEMS)
    return [
        Value(
            "hierarchical memory over ZeRO-Infinity, time",
            1.001,
            base / drives,
            relative(0.01),
            SOURCE,
            note="both pay the same latency an access",
        ),
        Value(
            "speed-up of its optimised design", 4.6, drives / best, between(4.3, 5.0), SOURCE, "x"
        ),
        Shape(
            "what the optimised design gains",
            "memory that is five times as fast gains less than 5",
            f"{base / best:.2f} x: {_fixed(designs, tokens):.1%} of the time is no memory's",
            base / best < 5,
            SOURCE,
            _ASSUMED,
        ),
    ]


def _fixed(designs: Times, tokens: str) -> float:
    """The share of the base design's time that memory five times as fast leaves as it is."""
    base, best = (designs[system, tokens].time for system in SYSTEMS[1:])
    return (5 * best / base - 1) / 4


def _more_tokens(designs: Times) -> list[Point]:
    """The same with other numbers of tokens, which were not published."""
    tokens = list(dict.fromkeys(n for _, n in designs))
    gains = [designs["hierarchical", n].time / designs["hierarchical_opt", n].time for n in tokens]
    text = ", ".join(f"{n}: {gain:.2f} x" for n, gain in zip(tokens, gains, strict=True))
    falls = all(a > b for a, b in itertools.pairwise(gains))
    return [
        Shape(
            "speed-up by tokens a GPU",
            "the less there is to compute, the nearer to 5",
            text,
            falls and gains[0] <= 5,
            "follows from the table of the case study: 100 and 500 GB/s a GPU",
        )
    ]


def _rates() -> list[Point]:
    """What a GPU gets of each system, for a load that is long enough to fill any pipeline."""
    points: list[Point] = []
    for system, published in zip(SYSTEMS, (100, 100, 500), strict=True):
        cluster = build_cluster(compose([f"study={STUDY}", f"memory={system}"]).config)
        if cluster.memory is None:
            raise DimsweepError("it is none", where=f"memory={system}")
        n_bytes = 100e9
        n, nodes = (16, 1) if system == "zero_infinity" else (256, 16)
        rate = n_bytes / cluster.memory.access(Request(n_bytes, n, nodes)) * 1e3
        points.append(
            Value(f"rate of a GPU, {system}", published, rate, relative(0.01), SOURCE, "GB/s")
        )
    return points


def _knee(sweep: Times) -> list[Point]:
    """Where faster memory groups stop to gain anything, for each fabric."""
    times = _table(sweep)
    fabrics, groups = _axes(sweep)
    bent = all(
        times[i, j] / times[i, j + 1] < 1.01
        for i, fabric in enumerate(fabrics)
        for j, group in enumerate(groups[:-1])
        if group >= fabric
    )
    steep = all(
        times[i, j] / times[i, j + 1] > 1.15
        for i, fabric in enumerate(fabrics)
        for j, group in enumerate(groups[:-1])
        if 2 * group <= fabric
    )
    gain = times[0, 0] / times.min()
    return [
        Shape(
            "knee of fabric against memory groups",
            "the slowest stage sets the rate",
            f"nothing gained beyond equal rates, 15 % and more a step below; corner {gain:.1f} x",
            bent and steep,
            "the pipeline of the remote-memory model (256 GPUs, 256 groups)",
        )
    ]


def _axes(sweep: Times) -> tuple[list[float], list[float]]:
    """GB/s of the fabrics' ports and of the memory groups."""
    of = [tuple(float(text.split()[0]) for text in values[2:]) for values in sweep]
    return list(dict.fromkeys(f for f, _ in of)), list(dict.fromkeys(g for _, g in of))


def _table(sweep: Times) -> Any:
    """Seconds, shape (fabrics, groups)."""
    fabrics, groups = _axes(sweep)
    times = [result.time for result in sweep.values()]
    return np.array(times).reshape(len(fabrics), len(groups))


def _draw(designs: Times, sweep: Times, kind: str) -> bytes:
    fabrics, groups = _axes(sweep)
    gain = designs["hierarchical", TOKENS].time / designs["hierarchical_opt", TOKENS].time
    title = f"Memory five times as fast trains a mixture of experts {gain:.2f} times as fast"
    with frame(title, 7.0) as figure:
        parts, knee = figure.subplots(2, 1)
        shown = [designs[system, TOKENS] for system in SYSTEMS]
        memory = np.array([r.exposed_by_collective["memory"] for r in shown])
        compute = np.array([r.compute for r in shown])
        other = np.array([r.time for r in shown]) - memory - compute
        stacked = [
            Bars(values, (), colour, name)
            for values, colour, name in (
                (memory, ORANGE, "waits for memory"),
                (compute, GREY, "computes"),
                (other, BLUE, "exchanges"),
            )
        ]
        rows = ["ZeRO-Infinity", "hierarchical", "optimised"]
        draw_stack(parts, rows, stacked, [f"{result.time:.3f} s" for result in shown])
        parts.set_xlabel("seconds of an iteration")
        parts.legend()
        for i, (fabric, times) in enumerate(zip(fabrics, _table(sweep), strict=True)):
            knee.plot(groups, times, "o-", color=series_colour(i), label=f"{fabric:g} GB/s")
        knee.set(
            xlabel="GB/s of a memory group",
            ylabel="seconds",
            xlim=(0, 850),
            ylim=(0, 1.3 * max(map(max, _table(sweep)))),
        )
        knee.legend(
            title="port into the fabric", loc="lower right", bbox_to_anchor=(1, 0.78), ncols=3
        )
        return encoded(figure, kind)


command = verification(STUDY, find, drawn=True)
