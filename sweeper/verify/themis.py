"""Themis's own evaluation (Rashidi et al., ISCA 2022): all-reduces, chunk counts, and training."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

from engine import (
    Cluster,
    Collective,
    CollectiveKind,
    CollectiveModel,
    DimensionOrder,
    GraphBuilder,
    Group,
    QueueOrder,
    Topology,
    Workload,
    simulate,
)
from sweeper.config.compose import compose
from sweeper.draw.canvas import BLUE, GREY, ORANGE, encoded, frame
from sweeper.verify.designs import simulate_designs
from sweeper.verify.points import (
    Findings,
    Point,
    Value,
    absolute,
    between,
    relative,
    verification,
)

_GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "themis" / "fig8_fig11.csv"
MIB = 2.0**20
_PAPER = "Rashidi et al., Themis, ISCA 2022"
# The paper's systems, and where they are here.
SYSTEMS = {
    "2D-SW_SW": "themis_2d",
    "3D-SW_SW_SW_homo": "themis_3d_homo",
    "3D-SW_SW_SW_hetero": "themis_3d_hetero",
    "3D-FC_Ring_SW": "themis_3d_fc_ring",
    "4D-Ring_SW_SW_SW": "themis_4d_ring",
    "4D-Ring_FC_Ring_SW": "themis_4d_ring_fc",
}
SCHEDULERS = {
    "Baseline": (DimensionOrder.BASELINE, QueueOrder.FIFO),
    "Themis+FIFO": (DimensionOrder.THEMIS, QueueOrder.FIFO),
    "Themis+SCF": (DimensionOrder.THEMIS, QueueOrder.SMALLEST_FIRST),
}
# Mean utilisation (%) of sizes from 100 MB to 1 GB, and speed-ups over the baseline (section 6.1).
_UTILISATION = {"Baseline": 56.31, "Themis+FIFO": 87.67, "Themis+SCF": 95.14}
_SPEED_UP = {"Themis+FIFO": 1.58, "Themis+SCF": 1.72}
# Fig. 10: the utilisation of an all-reduce of 100 MB on two systems, by the number of chunks.
CHUNKS = (4, 8, 16, 32, 64, 128, 256, 512)
CHUNK_UTILISATION = {
    ("3D-SW_SW_SW_hetero", "Themis+FIFO"): (47.33, 61.87, 53.78, 67.08, 93.02, 91.01, 91.5, 93.17),
    ("3D-SW_SW_SW_hetero", "Themis+SCF"): (57.81, 74.04, 76.35, 88.7, 92.49, 93.07, 92.63, 93.17),
    ("4D-Ring_FC_Ring_SW", "Themis+FIFO"): (38.93, 76.33, 67.31, 83.54, 80.83, 85.96, 87.49, 82.43),
    ("4D-Ring_FC_Ring_SW", "Themis+SCF"): (39.35, 59.2, 75.34, 81.84, 88.0, 89.73, 90.67, 89.18),
}
# Fig. 12: speed-ups of training, system by system, and their means in the abstract.
TRAINING = {
    "themis_resnet152": (1.399, 2.248, 1.409, 1.395, 1.394, 1.261),
    "themis_gnmt": (1.263, 1.784, 1.246, 1.243, 1.213, 1.125),
    "themis_dlrm": (1.262, 1.773, 1.248, 1.239, 1.214, 1.125),
    "themis_transformer_1t": (1.309, 1.528, 1.195, 1.185, 1.213, 1.119),
}
_MEANS = {
    "themis_resnet152": 1.49,
    "themis_gnmt": 1.30,
    "themis_dlrm": 1.30,
    "themis_transformer_1t": 1.25,
}
NAMES = {
    "themis_resnet152": "ResNet-152",
    "themis_gnmt": "GNMT",
    "themis_dlrm": "DLRM",
    "themis_transformer_1t": "Transformer-1T",
}
# The abstract of the paper's first version (arXiv, 2021), whose systems and sizes it does not name.
_FIRST = {
    "themis_gnmt": 1.41,
    "themis_dlrm": 1.42,
    "themis_transformer_1t": 1.35,
}
_FIRST_MEAN, _FIRST_MOST = 1.88, 2.92
Chunked = dict[tuple[str, str], list[float]]  # utilisation (%) by the number of chunks
_ONE_IMAGE = (
    "ResNet-152 computes one image an NPU, not the 32 that the paper states: inferred from these "
    "very speed-ups, which 32 images rule out"
)
_RATE = "all models compute at 234 TFLOP/s, the measured rate of an A100 in ASTRA-sim 2.0"
_BARE = (
    "the all-reduces of 1000 MiB: bandwidth terms only; times of the paper are read off its figure"
)
_WITH_LATENCY = "all sizes, and the means: with the step latencies of the paper's table 2"
_FIRST_NOTE = (
    "the first version's abstract does not tell its systems and sizes, so its numbers stand beside "
    "those of the paper and are not judged; its 1.49 is of ResNet-50, which the paper has no more"
)
_GEOMETRIC = "the paper's mean speed-up is the geometric mean of its points"
_DIGITISED = (
    "the utilisation by the number of chunks is read off the figure, the mean of both systems"
)


def read_rows() -> list[dict[str, str]]:
    """The points of Figs. 8 and 11: 19 sizes on each system, by each scheduler."""
    with _GOLDEN.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@lru_cache
def topology(system: str) -> Topology:
    """A system of the paper's Table 2."""
    return compose([f"topology={SYSTEMS[system]}"]).config.topology.build()


def all_reduce(topology: Topology, scheduler: str, n_bytes: float, chunks: int = 64) -> float:
    """Microseconds of an all-reduce over all NPUs."""
    order, queue = SCHEDULERS[scheduler]
    model = CollectiveModel(chunks=chunks, order=order, queue=queue)
    builder, sizes = GraphBuilder(), topology.sizes
    builder.add("gradients", Collective(CollectiveKind.ALL_REDUCE, n_bytes, "all"))
    workload = Workload((builder.build(),), {"all": Group(sizes, (1,) * len(sizes))})
    return simulate(workload, Cluster(topology, collectives=model)).time_ps / 1e6


def utilisation(topology: Topology, n_bytes: float, microseconds: float) -> float:
    """The share (%) of all bandwidth that an all-reduce uses in its time."""
    n, total = topology.n_npus, sum(dim.bandwidth for dim in topology.dims)
    return 100 * 2 * (n - 1) / n * n_bytes / total * 1e6 / microseconds


def find() -> Findings:
    """Reproduce Themis's evaluation: all-reduces, chunk counts, training on six systems.

    All-reduces of 100 to 1000 MiB on the six systems of the paper, with nothing fitted, the
    utilisation by the number of chunks, and the speed-ups of training four models.
    """
    used, faster = chunk_utilisation(), speed_ups()
    points = [*_all_reduces(), *_chunks(used), *training_points(faster)]
    return Findings(points, lambda kind: _draw(used, faster, kind))


def without_latency(topology: Topology) -> Topology:
    """Bandwidth terms only."""
    return replace(topology, dims=tuple(replace(dim, latency=0) for dim in topology.dims))


def _all_reduces() -> Iterator[Point]:
    times: dict[str, list[float]] = {}
    used: dict[str, list[float]] = {}
    errors = []
    for row in read_rows():
        system, scheduler = topology(row["topology"]), row["scheduler"]
        n_bytes, theirs = 1000 * MIB * float(row["allreduce_GB"]), float(row["comm_time_us_fig8"])
        ours = all_reduce(system, scheduler, n_bytes)
        errors.append(100 * abs(ours / theirs - 1))
        times.setdefault(scheduler, []).append(ours)
        used.setdefault(scheduler, []).append(utilisation(system, n_bytes, ours))
        if float(row["allreduce_GB"]) == 1.0:
            name = f"1000 MiB, {row['topology']}, {scheduler}"
            bare = all_reduce(without_latency(system), scheduler, n_bytes)
            source = f"{_PAPER}, figure 8"
            yield Value(name, theirs, bare, relative(0.035), source, "us", _BARE)
    source = f"{_PAPER}, figures 8 and 11"
    name = f"mean error of all {len(errors)} points"
    yield Value(name, 0, fmean(errors), between(0, 1), source, "%", _WITH_LATENCY)
    yield Value("worst error of them", 0, max(errors), between(0, 5), source, "%", _WITH_LATENCY)
    source = f"{_PAPER}, section 6.1"
    for scheduler, published in _UTILISATION.items():
        name, ours = f"mean utilisation, {scheduler}", fmean(used[scheduler])
        yield Value(name, published, ours, absolute(1.5), source, "%")
    for scheduler, published in _SPEED_UP.items():
        pairs = zip(times["Baseline"], times[scheduler], strict=True)
        faster = geometric_mean(base / ours for base, ours in pairs)
        name = f"mean speed-up, {scheduler}"
        yield Value(name, published, faster, absolute(0.03), source, "x", _GEOMETRIC)
    gains = [base / ours for base, ours in zip(times["Baseline"], times["Themis+SCF"], strict=True)]
    for name, first, ours in (
        ("mean speed-up, Themis+SCF, first version", _FIRST_MEAN, geometric_mean(gains)),
        ("largest speed-up, Themis+SCF, first version", _FIRST_MOST, max(gains)),
    ):
        yield Value(name, first, ours, None, f"{_PAPER}, arXiv v1, abstract", "x", _FIRST_NOTE)


def chunk_utilisation() -> Chunked:
    """Ours, in the order of ``CHUNKS``, by system and scheduler: the study themis_chunks."""
    found: Chunked = {}
    results = simulate_designs("themis_chunks")
    names = {here: name for name, here in SYSTEMS.items()}
    for scheduler, (order, queue) in SCHEDULERS.items():
        for (here, *kind, _), result in results.items():
            if kind == [str(order), str(queue)]:
                name = names[here]
                percent = utilisation(topology(name), 100 * MIB, result.time * 1e6)
                found.setdefault((name, scheduler), []).append(percent)
    return found


def _chunks(ours: Chunked) -> Iterator[Point]:
    for scheduler in ("Themis+FIFO", "Themis+SCF"):
        for i, chunks in ((0, CHUNKS[0]), (-1, CHUNKS[-1])):
            of_both = [
                (published[i], ours[key][i])
                for key, published in CHUNK_UTILISATION.items()
                if key[1] == scheduler
            ]
            theirs, found = (fmean(column) for column in zip(*of_both, strict=True))
            name = f"utilisation with {chunks} chunks, {scheduler}"
            yield Value(name, theirs, found, absolute(6), f"{_PAPER}, figure 10", "%", _DIGITISED)


def speed_ups(*models: str) -> dict[str, list[float]]:
    """Baseline over Themis, by model (all of them unless given), system by system: the study
    themis_training."""
    models = models or tuple(TRAINING)
    results = simulate_designs("themis_training", f"grid.workload=[{','.join(models)}]")
    times = {key: result.time for key, result in results.items()}
    return {
        model: [
            times[model, system, "default"] / times[model, system, "themis"]
            for system in SYSTEMS.values()
        ]
        for model in models
    }


def training_points(ours: dict[str, list[float]]) -> Iterator[Value]:
    """Fig. 12, system by system, and the means of the abstract."""
    for model, found in ours.items():
        note = _ONE_IMAGE if model == "themis_resnet152" else _RATE
        for system, theirs, own in zip(SYSTEMS, TRAINING[model], found, strict=True):
            name, source = f"{NAMES[model]}, {system}", f"{_PAPER}, figure 12"
            yield Value(name, theirs, own, absolute(0.06), source, "x", note)
    for model, found in ours.items():
        name, source = f"{NAMES[model]}, mean", f"{_PAPER}, abstract"
        yield Value(name, _MEANS[model], fmean(found), absolute(0.05), source, "x")
        if model in _FIRST:
            name, source = f"{NAMES[model]}, mean, first version", f"{_PAPER}, arXiv v1, abstract"
            yield Value(name, _FIRST[model], fmean(found), None, source, "x", _FIRST_NOTE)


def _draw(used: Chunked, faster: dict[str, list[float]], kind: str) -> bytes:
    with frame("Themis: published points (marks), and ours (lines and bars)", 6.4) as figure:
        top, bottom = figure.subplots(2, 1)
        _draw_chunks(top, used)
        _draw_training(bottom, faster)
        return encoded(figure, kind)


def _draw_chunks(ax: Any, used: Chunked) -> None:
    colours = dict(zip(SCHEDULERS, (GREY, ORANGE, BLUE), strict=True))
    for (system, scheduler), ours in used.items():
        solid, mark = ("-", "o") if system.startswith("3D") else ("--", "s")
        colour, label = colours[scheduler], f"{system}, {scheduler}"
        ax.plot(CHUNKS, ours, solid, color=colour, label=label)
        published = CHUNK_UTILISATION.get((system, scheduler))
        if published is not None:
            ax.plot(CHUNKS, published, mark, color=colour, markersize=4, fillstyle="none")
    ax.set(
        xscale="log",
        ylim=(10, 100),
        xlabel="chunks of an all-reduce of 100 MiB",
        ylabel="utilisation (%)",
    )
    ax.set_xticks(CHUNKS, [str(n) for n in CHUNKS])
    ax.legend(fontsize=7, loc="lower right", ncols=3)


def _draw_training(ax: Any, faster: dict[str, list[float]]) -> None:
    for i, (model, ours) in enumerate(faster.items()):
        places = [i * (len(SYSTEMS) + 1) + k for k in range(len(SYSTEMS))]
        ax.bar(places, ours, color=BLUE, label="ours" if i == 0 else None)
        marks = {"color": ORANGE, "markersize": 6, "label": "published" if i == 0 else None}
        ax.plot(places, TRAINING[model], "D", **marks)
        ax.text(places[0] - 0.4, 2.3, NAMES[model], fontsize=9)
    rows = [name for _ in faster for name in (*SYSTEMS, "")][:-1]
    ax.set_xticks(range(len(rows)), rows, rotation=60, ha="right", fontsize=6)
    ax.set(ylim=(1, 2.7), ylabel="speed-up of an iteration")
    ax.legend(loc="upper right", fontsize=8)


command = verification("themis", find, drawn=True)
