"""The best split of a study beside the equal one, as a picture for pages and slides."""

from engine import DimsweepError
from sweeper.draw.canvas import BLUE, ORANGE, Bars, draw_bars, frame, png
from sweeper.report import words
from sweeper.report.report import Report


def draw_split(report: Report) -> bytes:
    """A PNG.  Raises :class:`DimsweepError` unless one cell was searched for a split."""
    (summary, *others) = report.found
    if others or not summary.split_varies:
        raise DimsweepError(
            "the picture is of one best split, which this study does not have",
            where="--picture",
            hint="report/report.html in its results has a chart for every study",
        )
    best = summary.split(summary.best)
    texts = [f"{words.gbps(b)} ({words.percent(b / best.sum())})" for b in best]
    groups = [Bars(best, texts, BLUE, words.best_name(summary))]
    if summary.equal is not None:
        equal = summary.split(summary.equal)
        groups.append(Bars(equal, [words.gbps(b) for b in equal], ORANGE, "equal split"))
    with frame(f"{summary.cell.workload}: {words.largest_share(summary)}", 5.0) as figure:
        ax = figure.add_subplot()
        draw_bars(ax, summary.dims, groups)
        ax.set_xlabel("bandwidth per NPU (GB/s)")
        ax.margins(x=0.15)
        figure.legend(loc="outside lower center", ncols=len(groups))
        return png(figure)
