"""How the best split divides the bandwidth, beside the equal split."""

from typing import Any

from sweeper.draw.canvas import BLUE, ORANGE, Bars, Picture, draw_bars, panels
from sweeper.draw.scale import LOG_RATIO
from sweeper.report import words
from sweeper.report.report import Report
from sweeper.report.summary import CellSummary


def picture(report: Report) -> bytes:
    def draw(ax: Any, summary: CellSummary) -> None:
        best = summary.split(summary.best)
        texts = [f"{words.gbps(b)} ({words.percent(b / best.sum())})" for b in best]
        bars = [Bars(best, texts, BLUE, words.best_name(summary))]
        if summary.equal is not None:
            equal = summary.split(summary.equal)
            bars.append(Bars(equal, [words.gbps(b) for b in equal], ORANGE, "equal split"))
        draw_bars(ax, summary.dims, bars)
        ax.set_xlabel("bandwidth per NPU (GB/s)")
        values = [value for one in bars for value in one.values]
        if max(values) > LOG_RATIO * min(values):
            ax.set(xlabel="bandwidth per NPU (GB/s, logarithmic)", xscale="log")
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter("")
        ax.margins(x=0.25)

    overview = "Where the best splits put the bandwidth"
    return panels(report.found, 8, overview, words.largest_share, draw)


PICTURE = Picture("best_split.png", "The best split", picture)
