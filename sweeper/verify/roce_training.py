"""Congestion control for whole training iterations, packet by packet."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from engine import Cluster, Collective, Npu, Operator, Result, Workload, simulate
from sweeper.config.compose import compose
from sweeper.config.schema import Config
from sweeper.draw.canvas import encoded, frame
from sweeper.verify.points import Findings, Point, Shape, verification
from sweeper.verify.roce import (
    ALONE,
    ANSWERS,
    COLOURS,
    RATES,
    RECORDED,
    SOURCE,
    TRAINING,
    Variant,
    cluster,
    told,
)
from sweeper.verify.side_by_side import side_by_side

RACKS = 8
SCALE = 4  # tensors are so many times smaller, and NPUs faster
_PAYLOAD = 4096  # bytes: the largest MTU of RoCE


MODELS = {
    "DLRM": ("workload=dlrm", "workload.parallel.expert=128", "workload.model.tables=128"),
    "GPT-3 13B": ("workload=gpt3_13b", "workload.model.layers=1", "workload.plan.batch=16"),
    "ResNet-50": ("workload=resnet50",),
}
COLLIDING = "halving-doubling"
ANSWERED = {"PFC alone": ALONE, **ANSWERS}
# Where hashes collide: what the window does, and what is left without collisions.
MORE = {
    "window": ALONE._replace(window=True),
    "sprayed": ALONE._replace(spray=True),
    "DCQCN, sprayed": ANSWERS["DCQCN"]._replace(spray=True),
}


class Run(NamedTuple):
    """A model, how its ranks communicate (of :data:`TRAINING`), and how senders answer."""

    model: str
    case: str
    variant: str


RUNS = {
    **{Run(m, c, v): ANSWERED[v] for m in MODELS for c in TRAINING for v in ANSWERED},
    **{Run(m, COLLIDING, v): MORE[v] for m in MODELS for v in MORE},
}
Times = Mapping[Run, float]  # seconds


def simulated(run: Run, variant: Variant, racks: int = RACKS, scale: float = SCALE) -> Result:
    """An iteration, whose NPUs are ``scale`` times faster and its tensors smaller."""
    on = cluster(TRAINING[run.case], variant._replace(payload=_PAYLOAD), racks)
    on = replace(on, npu=_faster(_npu(run.model), scale))
    return simulate(_smaller(_workload(run.model, on), scale), on, fidelity="packet")


def _time(run: Run) -> float:
    return simulated(run, RUNS[run]).time


@lru_cache(maxsize=8)
def _config(model: str) -> Config:
    return compose([*MODELS[model], "npu=a100_roofline"]).config


def _npu(model: str) -> Npu:
    config = _config(model)
    return config.npu.build(config.workload.arithmetic)


def _faster(npu: Npu, scale: float) -> Npu:
    assert npu.flops is not None and npu.memory_bandwidth is not None
    return replace(
        npu,
        flops=npu.flops * scale,
        memory_bandwidth=npu.memory_bandwidth * scale,
        launch=round(npu.launch / scale),
    )


def _workload(model: str, on: Cluster) -> Workload:
    return _config(model).workload.build(on)


def _smaller(full: Workload, scale: float) -> Workload:
    """The same operators, whose collectives move less."""

    def smaller(operator: Operator) -> Operator:
        work = operator.work
        if not isinstance(work, Collective):
            return operator
        return replace(operator, work=replace(work, n_bytes=work.n_bytes / scale))

    return replace(full, graphs=tuple(tuple(map(smaller, graph)) for graph in full.graphs))


def find() -> Findings:
    """Ask whether congestion control matters to iterations of DLRM, GPT-3 13B and ResNet-50.

    Their collectives move a quarter of the bytes on NPUs four times as fast, and packets carry
    4096 bytes.
    """
    times = dict(zip(RUNS, side_by_side(_time, RUNS), strict=True))
    return Findings(list(points(times)), lambda kind: _draw(times, kind))


def points(times: Times) -> Iterator[Point]:
    """The paper's finding, model by model, and what makes it so."""
    for model in MODELS:
        for case in TRAINING:
            over = {name: _over(times, Run(model, case, name)) for name in RATES}
            yield Shape(
                f"{model}, {case}: {', '.join(RATES)}",
                "little impact next to PFC alone: within 5 %",
                told(over),
                all(abs(share) <= 0.05 for share in over.values()),
                SOURCE,
            )
    for model in MODELS:
        hpcc = {case: _over(times, Run(model, case, "HPCC")) for case in TRAINING}
        yield Shape(
            f"{model}: HPCC",
            "pays its telemetry and its target, at most 13 %",
            told(hpcc),
            all(share <= 0.13 for share in hpcc.values()),
            RECORDED,
            basis="recorded",
        )
    for model in MODELS:
        yield from _causes(times, model)


def _causes(times: Times, model: str) -> Iterator[Point]:
    """What matters more where hashes collide: collisions, rate laws, windows."""
    alone, window, sprayed, both = (
        times[Run(model, COLLIDING, name)]
        for name in ("PFC alone", "window", "sprayed", "DCQCN, sprayed")
    )
    collisions, rate_law = alone / sprayed - 1, both / sprayed - 1
    yield Shape(
        f"{model}, {COLLIDING}: collisions of ECMP's hashes",
        "they cost more than any rate law does without them",
        f"{collisions:+.1%}; without them DCQCN {rate_law:+.1%}",
        collisions > abs(rate_law),
        "secondary: SMaRTT and STrack",
    )
    most = max(abs(_over(times, Run(model, COLLIDING, name))) for name in RATES)
    yield Shape(
        f"{model}, {COLLIDING}: the window by itself",
        "it changes less than rate laws do",
        f"{window / alone - 1:+.1%}; a rate law up to {most:.1%}",
        abs(window / alone - 1) < most,
        RECORDED,
        basis="recorded",
    )


def _over(times: Times, run: Run) -> float:
    """How much longer than with PFC alone, as a share of that."""
    return times[run] / times[run._replace(variant="PFC alone")] - 1


def _draw(times: Times, kind: str) -> bytes:
    title = "Iterations notice congestion control where hashes collide"
    with frame(title, 3.6) as figure:
        panels = figure.subplots(1, len(MODELS), sharey=True)
        for ax, model in zip(panels, MODELS, strict=True):
            for i, name in enumerate(ANSWERS):
                x = [100 * _over(times, Run(model, case, name)) for case in TRAINING]
                y = [place + 0.13 * (i - 1.5) for place in range(len(TRAINING))]
                ax.scatter(x, y, color=COLOURS[name], s=30, label=name, zorder=3)
            ax.axvspan(-5, 5, color="#E6E8EB", zorder=0)
            ax.set_title(model)
        panels[0].set_yticks(range(len(TRAINING)), list(TRAINING))
        panels[0].invert_yaxis()
        figure.supxlabel("% longer than with PFC alone (grey: within 5 %)", fontsize=10)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
        return encoded(figure, kind)


command = verification("roce_training", find, drawn=True)
