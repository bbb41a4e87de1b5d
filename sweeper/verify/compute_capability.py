"""Exposed communication as NPUs get faster, as ASTRA-sim 1.0 asked on a 3-D torus."""

import itertools
from collections.abc import Mapping

import numpy as np

from engine import Result
from sweeper.draw.canvas import BLUE, GREY, Bars, draw_stack, encoded, frame
from sweeper.verify.designs import simulate_designs
from sweeper.verify.points import Findings, Point, Shape, verification

SOURCE = "Rashidi et al., ASTRA-sim (ISPASS 2020), torus of 2 x 4 x 4, by compute capability"
STUDY = "compute_capability"
Times = Mapping[tuple[str, ...], Result]


def find() -> Findings:
    """Show how much communication is exposed as NPUs get faster, on a torus of 2 x 4 x 4.

    ASTRA-sim 1.0 published a figure without a table, so these are tests of shape only.
    """
    designs = simulate_designs(STUDY)
    return Findings(points(designs), lambda kind: _draw(designs, kind))


def points(designs: Times) -> list[Point]:
    """For each workload, whether less and less of the exchange is hidden."""
    found: list[Point] = []
    for workload in dict.fromkeys(name for name, _ in designs):
        runs = {rate: run for (name, rate), run in designs.items() if name == workload}
        exposed = [run.exposed for run in runs.values()]
        shares = [run.exposed / run.time for run in runs.values()]
        first, last = list(runs.values())[:: len(runs) - 1]
        text = ", ".join(f"{s:.1%} at {rate}" for s, rate in zip(shares, runs, strict=True))
        found.append(
            Shape(
                f"exposed communication, {workload}",
                "it grows as compute gets faster",
                f"{exposed[0] * 1e3:.2g} to {exposed[-1] * 1e3:.2g} ms: {text}; "
                f"{_rates(runs)} times the compute, {first.time / last.time:.1f} x as fast",
                all(b >= a * (1 - 1e-9) for a, b in itertools.pairwise(exposed))
                and all(b > a for a, b in itertools.pairwise(shares)),
                SOURCE,
                "gradients in fp32, batches of 32 and 128 an NPU, links of 200 and 25 GB/s",
            )
        )
    return found


def _rates(runs: Mapping[str, Result]) -> str:
    slowest, fastest = (float(list(runs)[i].split()[0]) for i in (0, -1))
    return f"{fastest / slowest:g}"


def _draw(designs: Times, kind: str) -> bytes:
    workloads = list(dict.fromkeys(name for name, _ in designs))
    title = "The faster an NPU computes, the less of its exchange it hides"
    with frame(title, 3.0 * len(workloads) + 0.8) as figure:
        axes = figure.subplots(len(workloads), 1, squeeze=False)
        for ax, workload in zip(axes.flat, workloads, strict=True):
            runs = {rate: run for (name, rate), run in designs.items() if name == workload}
            compute = np.array([run.compute / run.time for run in runs.values()])
            stack = [
                Bars(compute, (), GREY, "computes"),
                Bars(1 - compute, (), BLUE, "exposed communication"),
            ]
            draw_stack(ax, list(runs), stack, [f"{r.time * 1e3:.3g} ms" for r in runs.values()])
            ax.set(title=workload, xlabel="share of an iteration")
        parts = axes.flat[0].get_legend_handles_labels()
        figure.legend(*parts, loc="outside lower center", ncols=2)
        return encoded(figure, kind)


command = verification(STUDY, find, drawn=True)
