"""Predicted against measured seconds, both logarithmic, with the band of 10 %."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dimsweep.sweeper.draw.canvas import encoded, frame
from dimsweep.sweeper.extensions.verify.clusters.compared import Compared, Errors, by
from dimsweep.sweeper.report.colours import BLUE, GREEN, GREY, ORANGE

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_COLOURS = (BLUE, ORANGE, GREEN, "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", GREY, "black")


def draw(rows: Sequence[Compared], kind: str) -> bytes:
    """A picture of a ``kind`` of all rows that have times."""
    errors = Errors.of(rows)
    title = (
        f"{errors.rows} training iterations that others measured: "
        f"median error {errors.median:.1%}, mean {errors.mean:.1%}"
    )
    with frame(title, 9.0) as figure:
        ax = figure.subplots()
        values = [value for row in rows for value in row.values]
        ends = np.array([min(values) / 1.5, max(values) * 1.5])
        ax.fill_between(ends, 0.9 * ends, 1.1 * ends, color=GREY, alpha=0.3, lw=0, label="±10 %")
        ax.plot(ends, ends, color=GREY, lw=1)
        for i, (gpu, own) in enumerate(by(lambda row: row.gpu, rows).items()):
            theirs, ours = zip(*(row.values for row in own), strict=True)
            style: dict[str, Any] = {
                "marker": _MARKS[i % 9],
                "color": _COLOURS[i % 9],
                "s": 28,
                "alpha": 0.8,
            }
            ax.scatter(theirs, ours, lw=0, label=f"{gpu} ({len(own)})", **style)
        ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
        ax.set(xlabel="measured seconds of an iteration", ylabel="simulated seconds")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        ax.legend(loc="upper left")
        return encoded(figure, kind)
