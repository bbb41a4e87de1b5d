"""Compare restructured networks: the cost and the accuracy of each, and a picture of them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dimsweep.engine import Cluster, simulate
from dimsweep.engine.extensions.repurpose import METHODS, Restructured
from dimsweep.engine.formats.weights import Samples
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.draw.canvas import encoded, frame
from dimsweep.sweeper.extensions.repurpose.workload import Repurposed
from dimsweep.sweeper.report.colours import BLUE, GREEN, GREY, ORANGE

# What all traffic is worth: from hardly anything to more than the maps of all layers.
PENALTIES = tuple(float(penalty) for penalty in np.geomspace(0.3, 20, 13).round(2))
_PIPELINE = 8  # requests that measure the throughput


@dataclass(frozen=True)
class Served:
    """A restructured network: its method and penalty, its serving costs and its accuracy."""

    method: str
    penalty: float
    accuracy: float | None  # None without samples
    kept: float  # share of the weights
    traffic: float  # bytes a sample
    operations: int  # a sample
    latency: float  # s, of a batch
    throughput: float  # samples/s
    restructured: Restructured


def serve(config: Config, cluster: Cluster, samples: Samples | None, method: str) -> Served:
    """Evaluate one ``method`` of restructuring, with the configuration's penalties."""
    workload = config.workload
    assert isinstance(workload, Repurposed)
    workload = Repurposed.from_plain({**workload.plain(), "method": method})
    made = workload.restructured(cluster)
    latency, many = (
        simulate(
            Repurposed.from_plain({**workload.plain(), "requests": requests}).serve(made, cluster),
            cluster,
            fidelity=config.fidelity,
        ).time
        for requests in (1, _PIPELINE)
    )
    layers = made.network.layers
    accuracy = None if samples is None else made.network.accuracy(samples.inputs, samples.labels)
    return Served(
        method,
        workload.penalty.traffic,
        accuracy,
        sum(int((layer.weight != 0).sum()) for layer in layers)
        / sum(layer.weight.size for layer in layers),
        made.traffic * float(workload.value),
        made.operations,
        latency,
        workload.batch * _PIPELINE / many if many else math.inf,
        made,
    )


def along(config: Config, cluster: Cluster, samples: Samples) -> Iterator[Served]:
    """Yield every method at each of :data:`PENALTIES`; the naive method has no penalty."""
    for method in METHODS:
        for penalty in PENALTIES if method != "naive" else PENALTIES[:1]:
            priced = config.with_values({"workload.penalty.traffic": penalty})
            yield serve(priced, cluster, samples, method)


def at_equal_accuracy(points: Sequence[Served], least: float) -> dict[str, Served]:
    """Return each method's point with the least traffic and an accuracy of at least ``least``."""
    best: dict[str, Served] = {}
    for point in points:
        enough = point.accuracy is not None and point.accuracy >= least
        if enough and (point.method not in best or point.traffic < best[point.method].traffic):
            best[point.method] = point
    return best


_STYLES = {
    "repurpose": {"color": BLUE, "marker": "o", "lw": 2.2, "zorder": 4},
    "direct": {"color": ORANGE, "marker": "s", "lw": 1.4},
    "magnitude": {"color": GREEN, "marker": "^", "lw": 1.4},
    "random": {"color": GREY, "marker": "v", "lw": 1.0, "ls": "--"},
    "naive": {"color": "black", "marker": "*", "ms": 13, "ls": "none"},
}


def draw_front(points: Sequence[Served], title: str, kind: str) -> bytes:
    """Draw accuracy over the latency of a batch, and over the traffic of a sample.

    ``kind`` is the picture's file format.
    """
    with frame(title, 4.2) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for method, style in _STYLES.items():
            mine = [point for point in points if point.method == method]
            accuracy = [100 * (point.accuracy or 0.0) for point in mine]
            left.plot([1e6 * point.latency for point in mine], accuracy, label=method, **style)
            right.plot([point.traffic for point in mine], accuracy, **style)
        left.set(xlabel="latency of a batch (us)", ylabel="accuracy (%)")
        right.set(xlabel="traffic (bytes a sample)")
        best = 100 * max(point.accuracy or 0.0 for point in points)
        left.set_ylim(best - 12, best + 1)  # only accuracies that somebody would serve
        figure.legend(loc="outside lower center", ncols=len(_STYLES))
        return encoded(figure, kind)
