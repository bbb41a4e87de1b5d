"""What the best design does when: compute, communication by dimension, and waiting."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from bokeh.models import ColumnDataSource, UIElement

from engine import DimsweepError, Result, run_one, units
from sweeper.charts.chart import Chart
from sweeper.charts.frame import GREY, PALETTE, rows
from sweeper.charts.frame import blocks as draw_blocks
from sweeper.charts.points import Points
from sweeper.report.summary import CellSummary
from sweeper.report.words import label, seconds
from sweeper.run.reproduce import program_of

_MOST = 300_000  # phases of chunks; telling of more would take longer than a page may
_APART = 1 / 1500  # of the time: blocks that are nearer to each other than this are drawn as one
_WAITS = "compute waits"


class Block(NamedTuple):
    """Something that takes place, in microseconds."""

    start: float
    end: float
    name: str


def draw(points: Points) -> tuple[str, UIElement] | None:
    cell = min(points.report.found, key=lambda c: c.objective.loss(c.objective.of(c.best)))
    found = tracks(points, cell)
    if found is None:
        return None
    end = max(block.end for blocks in found.values() for block in blocks)
    factor, unit = units.scale(end / 1e6, units.TIME)
    chart = rows(list(found), f"time ({unit})", x_range=(0.0, end / 1e6 * factor))
    for i, (name, blocks) in enumerate(found.items()):
        source = ColumnDataSource(
            {
                "y": np.full(len(blocks), float(i)),
                "left": np.array([b.start for b in blocks], np.float32) / 1e6 * factor,
                "right": np.array([b.end for b in blocks], np.float32) / 1e6 * factor,
                "name": [b.name for b in blocks],
                "takes": [seconds((b.end - b.start) / 1e6) for b in blocks],
            }
        )
        shown = [("", "@name"), ("from", f"@left {unit}"), ("takes", "@takes")]
        draw_blocks(chart, source, _colour(name, i), shown)
    where = f" of {label(cell)}" if len(points.report.found) > 1 else ""
    return f"one iteration of the best design{where}, on rank 0 and all that are like it", chart


def tracks(points: Points, cell: CellSummary) -> dict[str, list[Block]] | None:
    """The blocks of rank 0 in the cell's best trial, by what does them; None where it cannot be
    simulated again phase by phase: a file is gone, or there is too much to record."""
    try:
        best = pa.table({name: [cell.best[name]] for name in ("trial", "origin", *cell.design)})
        config, program = program_of(points.report.study, cell.cell, best)
        if config.by_message:
            return None
        run = run_one(program, record=True)
        if len(run.state.phase_start) > _MOST:
            return None
        events = Result(run).timeline()["traceEvents"]
    except (DimsweepError, OSError):
        return None
    threads = {
        e["tid"]: e["args"]["name"]
        for e in events
        if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] == 0
    }
    mine: dict[int, list[Block]] = {}
    for event in events:
        if event["ph"] == "X" and event["pid"] == 0:
            block = Block(event["ts"], event["ts"] + event["dur"], event["name"])
            mine.setdefault(event["tid"], []).append(block)
    if not mine:
        return None
    end = max(block.end for blocks in mine.values() for block in blocks)
    found = {threads[tid]: _joined(mine[tid], end * _APART) for tid in sorted(mine)}
    compute = _joined(mine.get(0, []), 0.0)
    return {threads[0]: found.pop(threads[0], []), _WAITS: _gaps(compute, end), **found}


def _joined(blocks: Iterable[Block], apart: float) -> list[Block]:
    """The blocks in order, those nearer than ``apart`` as one, which is named after the first and
    says how many it holds."""
    found: list[tuple[float, float, str, int]] = []
    for start, end, name in sorted(blocks):
        if found and start - found[-1][1] <= apart:
            first, last, named, n = found[-1]
            found[-1] = (first, max(last, end), named, n + 1)
        else:
            found.append((start, end, name, 1))
    return [Block(s, e, name if n == 1 else f"{name} and {n - 1} more") for s, e, name, n in found]


def _gaps(blocks: list[Block], end: float) -> list[Block]:
    """When none of the blocks is active, from 0 to ``end``."""
    edges = [0.0, *(edge for block in blocks for edge in block[:2]), end]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [Block(a, b, _WAITS) for a, b in pairs if b > a]


def _colour(name: str, i: int) -> str:
    if name == "compute":
        return GREY
    return "#C44E52" if name == _WAITS else PALETTE[i % len(PALETTE)]


CHART = Chart("timeline", "What the best design does when", draw)
