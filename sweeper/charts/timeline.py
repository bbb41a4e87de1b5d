"""The timeline of the best design: when compute and each network dimension are busy."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from bokeh.models import ColumnDataSource, UIElement

from dimsweep.engine import (
    DimsweepError,
    Result,
    density,
    list_threads,
    merge_spans,
    run_one,
    units,
)
from dimsweep.sweeper.charts.chart import Chart
from dimsweep.sweeper.charts.frame import draw_blocks, make_row_figure
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.report.colours import GREY, WAITING, dimension_colour
from dimsweep.sweeper.report.summary import CellSummary, Floats
from dimsweep.sweeper.report.words import seconds
from dimsweep.sweeper.run.reproduce import build_row_program

_MOST = 5_000_000  # phases of chunks; to record more would take longer than a page may
_BINS = 1500  # of the time, about one a pixel
_FEW = 200  # spans of a track that are drawn one by one
_WAITS = "waiting"  # what neither computes nor moves bytes
_HEIGHT = 0.7  # of a row that is busy all the time


class Track(NamedTuple):
    """One row of the timeline: bars from ``left`` to ``right`` (ps), as high as the busy ``share``.

    Their areas add up to ``busy``, the busy share of the iteration.
    """

    name: str
    left: Floats
    right: Floats
    share: Floats
    busy: float


def draw_timeline(points: Points) -> tuple[str, UIElement] | None:
    """Draw the timeline of one iteration of the best design."""
    decisions, (cell, row) = points.report.decisions, points.report.chosen[0]
    result = simulate_again(points, cell, row)
    found = [] if result is None else list_tracks(result)
    if result is None or not found:
        return None
    factor, unit = units.scale(result.time, units.TIME)
    scale = factor / units.PICOSECONDS
    chart = make_row_figure(
        [f"{each.name}: {each.busy:.1%}{'' if each.name == _WAITS else ' busy'}" for each in found],
        f"time ({unit})",
        x_range=(0.0, result.time * factor),
    )
    for i, track in enumerate(found):
        bottom = i + _HEIGHT / 2
        source = ColumnDataSource(
            {
                "left": (track.left * scale).astype(np.float32),
                "right": (track.right * scale).astype(np.float32),
                "y": (bottom - track.share * _HEIGHT / 2).astype(np.float32),
                "height": (track.share * _HEIGHT).astype(np.float32),
                "share": track.share.astype(np.float32),
                "takes": [seconds(t) for t in ((track.right - track.left) / 1e12).tolist()],
            }
        )
        shown = [(track.name, "@share{0.0 %}"), ("from", f"@left {unit}"), ("for", "@takes")]
        draw_blocks(chart, source, _colour(result, track.name), shown, height="height")
    several = len(decisions.decisions) > 1
    where = f" ({decisions.name(decisions.ranking[0])})" if several else ""
    where += f" {decisions.first_scenario}" if len(decisions.scenarios) > 1 else ""
    return (
        f"one iteration of the best design{where} at rank 0 and every equivalent rank; a bar's "
        "height is the busy share of that instant",
        chart,
    )


def simulate_again(points: Points, cell: CellSummary, row: pd.Series) -> Result | None:
    """Simulate a trial again and record its timeline; None if that is impossible or too large."""
    try:
        best = pa.table({name: [row[name]] for name in ("trial", "origin", *cell.design)})
        config, program = build_row_program(points.report.study, cell.cell, best)
        if config.by_message:
            return None
        run = run_one(program, record=True)
    except (DimsweepError, OSError):
        return None
    recorded = run.recorded and len(run.state.phase_start) <= _MOST
    return Result(run) if recorded else None


def list_tracks(result: Result) -> list[Track]:
    """Return the rows of the timeline of rank 0: computation, traffic by dimension, and waiting."""
    spans, threads, end = result.spans, list_threads(result.program), result.time_ps
    dims = range(len(threads) - len(result.program.names.dims), len(threads))
    if end == 0:
        return []
    found, starts, ends = [], [], []
    for thread in (0, *dims):
        # What overlaps on a port lies beside it.
        own = (spans.process == 0) & (spans.thread % len(threads) == thread)
        start, stop = merge_spans(spans.start[own], spans.end[own])
        found.append(make_track(threads[thread].removeprefix("dim "), start, stop, end))
        starts.append(start)
        ends.append(stop)
    start, stop = merge_spans(np.concatenate(starts), np.concatenate(ends))
    gaps = np.append(0, stop), np.append(start, end)
    waits = make_track(_WAITS, *gaps, end)
    return [*found, waits] if waits.busy else found


def make_track(name: str, start: np.ndarray, stop: np.ndarray, end: int) -> Track:
    """Return a row of the timeline from busy intervals ``start`` to ``stop`` that do not overlap.

    Many intervals become busy shares of 1,500 bins up to ``end``.
    """
    lasts = stop > start
    start, stop = start[lasts].astype(float), stop[lasts].astype(float)
    busy = float((stop - start).sum() / end)
    if len(start) <= _FEW:
        return Track(name, start, stop, np.ones(len(start)), busy)
    edges = np.linspace(0, end, _BINS + 1)
    share = np.minimum(density(start, stop, edges), 1.0)
    changes = np.flatnonzero(np.append(True, np.diff(share) != 0))
    left, right = edges[changes], edges[np.append(changes[1:], _BINS)]
    share = share[changes]
    return Track(name, left[share > 0], right[share > 0], share[share > 0], busy)


def _colour(result: Result, name: str) -> str:
    dims = list(result.program.names.dims)
    if name in dims:
        return dimension_colour(dims.index(name))
    return GREY if name == "compute" else WAITING


CHART = Chart("timeline", "What the best design does when", draw_timeline)
