"""What accuracy costs in latency and in traffic, a line for each method."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dimsweep.sweeper.draw.canvas import encoded, frame
from dimsweep.sweeper.extensions.repurpose.compare import Served
from dimsweep.sweeper.report.colours import BLUE, GREEN, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = {
    "repurpose": {"color": BLUE, "marker": "o", "lw": 2.2, "zorder": 4},
    "direct": {"color": ORANGE, "marker": "s", "lw": 1.4},
    "magnitude": {"color": GREEN, "marker": "^", "lw": 1.4},
    "random": {"color": GREY, "marker": "v", "lw": 1.0, "ls": "--"},
    "naive": {"color": "black", "marker": "*", "ms": 13, "ls": "none"},
}


def draw_front(points: Sequence[Served], title: str, kind: str) -> bytes:
    """A picture of a ``kind`` of all points: accuracy over the latency of a batch, and over the
    traffic a sample."""
    with frame(title, 4.2) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for method, style in _STYLES.items():
            mine = [point for point in points if point.method == method]
            accuracy = [100 * (point.accuracy or 0.0) for point in mine]
            left.plot([1e6 * point.latency for point in mine], accuracy, label=method, **style)
            right.plot([point.traffic for point in mine], accuracy, **style)
        left.set(xlabel="latency of a batch (us)", ylabel="accuracy (%)")
        right.set(xlabel="traffic (bytes a sample)")
        _near_the_top(left, points)
        figure.legend(loc="outside lower center", ncols=len(_STYLES))
        return encoded(figure, kind)


def _near_the_top(ax: "Axes", points: Sequence[Served]) -> None:
    """Only accuracies that somebody would serve."""
    best = 100 * max(point.accuracy or 0.0 for point in points)
    ax.set_ylim(best - 12, best + 1)
