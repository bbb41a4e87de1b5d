"""The best designs by phases and message by message."""

from typing import Any

from sweeper.draw.canvas import BLUE, GREY, Picture, panels
from sweeper.draw.scale import Scale
from sweeper.report.report import Report
from sweeper.report.sections.messages import Comparison, agreement
from sweeper.report.summary import CellSummary


def picture(report: Report) -> bytes | None:
    summaries = [s for s in report.found if Comparison.of(s).complete]
    if not summaries:
        return None
    scale = Scale.of(summaries, Comparison.of(summaries[0]).measure)

    def draw(ax: Any, summary: CellSummary) -> None:
        complete = Comparison.of(summary).complete
        phases = [float(scale.values(recheck.phases)) for recheck in complete]
        messages = [float(scale.values(recheck.messages)) for recheck in complete]
        same = [min(phases), max(phases)]
        ax.plot(same, same, color=GREY, lw=1, label="the same both ways")
        ax.scatter(phases, messages, color=BLUE, s=40, zorder=3, label="one design, by its rank")
        for recheck, x, y in zip(complete, phases, messages, strict=True):
            ax.annotate(str(recheck.rank), (x, y), (5, -3), textcoords="offset points")
        ax.set(xlabel=f"{scale.label}, by phases", ylabel=f"{scale.label}, by messages")

    overview = "The best designs, message by message"
    return panels(summaries, 4, overview, lambda s: agreement(Comparison.of(s)), draw)


PICTURE = Picture(
    "recheck.png", "Whether the ranking holds when every message is simulated", picture
)
