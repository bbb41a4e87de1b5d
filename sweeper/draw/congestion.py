"""The picture of congestion: completion times of messages, and events at watched links.

Completion times are drawn as their cumulative distributions.  Below, over the time of the run, each
watched link has its queue, its rate, its marks, and when it was paused.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dimsweep.engine import DimsweepError, Result, units
from dimsweep.engine.kernels.packet import History
from dimsweep.sweeper.draw.canvas import encoded, frame
from dimsweep.sweeper.report.colours import series_colour
from dimsweep.sweeper.report.words import not_exceeded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STEPS = 400  # of the time: each shows its longest queue and its mean rate
_CDF, _ROW, _PAUSES = 2.8, 1.5, 0.25  # inches of the panels; of a link's pauses


def draw_congestion(result: Result, title: str, kind: str = "png") -> bytes:
    """Return a picture (``png``, ``svg`` or ``pdf``) of the congestion in a run.

    Raises :class:`DimsweepError` for a run that recorded no messages.
    """
    if not result.completion_times:
        raise DimsweepError(
            "the run recorded no messages with completion times",
            where="congestion",
            code="missing",
            hint="use fidelity=flow or fidelity=packet, and more than one NPU",
        )
    watched = {
        result.links[number].link.name: history
        for number, history in (result.traffic.histories if result.traffic else {}).items()
    }
    heights = [_CDF, *([_ROW, _ROW, _ROW, _PAUSES * (1 + len(watched))] if watched else [])]
    with frame(f"{title}: {_finding(result)}", sum(heights) + 0.8) as figure:
        top, *panels = figure.subplots(len(heights), height_ratios=heights, squeeze=False)[:, 0]
        _draw_times(top, result)
        if watched:
            _draw_links(panels, watched, result.time_ps)
        return encoded(figure, kind)


def _finding(result: Result) -> str:
    times = np.sort(np.concatenate(list(result.completion_times.values())))
    half, most = (not_exceeded(times, share) for share in (0.5, 0.99))
    return f"half of {len(times):,} messages take at most {half}, 99 % at most {most}"


def _draw_times(ax: "Axes", result: Result) -> None:
    longest = max(float(times[-1]) for times in result.completion_times.values())
    factor, unit = units.scale(longest, units.TIME)
    for i, (name, times) in enumerate(result.completion_times.items()):
        ax.ecdf(times * factor, color=series_colour(i), label=name)
    ax.set(xlabel=f"completion time ({unit})", ylabel="share of messages", ylim=(0, 1.02))
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
    ax.legend(loc="lower right")


def _draw_links(panels: Any, watched: Mapping[str, History], end: int) -> None:
    """Draw queues, rates, marks and pauses of the watched links, one below the other.

    They share one axis of time, up to ``end``.
    """
    factor, unit = units.scale(end / units.PICOSECONDS, units.TIME)
    factor /= units.PICOSECONDS
    instants = np.linspace(0, max(end, _STEPS), _STEPS + 1).astype(np.int64)
    queues, rates, marks, pauses = panels
    for i, (name, history) in enumerate(watched.items()):
        line: dict[str, Any] = {"color": series_colour(i), "label": name, "lw": 1}
        at = instants[:-1] * factor
        queues.step(at, history.longest_queues(instants) / 1e3, where="post", **line)
        rate = np.diff(history.sent_by(instants)) / np.diff(instants) * 1e3
        rates.step(at, rate, where="post", **line)
        times, marked = np.append(history.times, end), np.append(0, history.marked)
        marks.stairs(marked, np.append(0, times) * factor, baseline=None, **line)
        pauses.broken_barh(_spans(history, end) * factor, (i - 0.35, 0.7), color=series_colour(i))
    queues.set_ylabel("queue (kB)")
    rates.set_ylabel("rate (GB/s)")
    marks.set_ylabel("packets marked")
    pauses.set(ylim=(len(watched) - 0.5, -0.5), yticks=[], ylabel="paused", xlabel=f"time ({unit})")
    for ax in panels:
        ax.set_xlim(0, end * factor)
    for ax in panels[:-1]:
        ax.set_ylim(bottom=0)
        ax.tick_params(labelbottom=False)
    queues.legend(loc="upper right", fontsize=8)


def _spans(history: History, end: int) -> Any:
    """Return the start and the length of each pause, shape (n, 2), in ps."""
    turns = np.diff(history.paused, prepend=0, append=0)
    times = np.append(history.times, end)
    began = times[turns == 1]
    return np.stack([began, times[turns == -1] - began], axis=1)
