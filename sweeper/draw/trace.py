"""The picture of a trace: nodes from left to right, each to the right of its dependencies.

Lines are dependencies, dotted ones for control only.  Long chains continue in the row below.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dimsweep.engine.formats.chakra import NodeType, Trace, TraceNode
from dimsweep.engine.formats.chakra import levels as chakra_levels
from dimsweep.sweeper.draw.canvas import encoded, frame
from dimsweep.sweeper.report.colours import BLUE, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 400  # nodes; more would be dots
_NAMED = 100  # nodes that are few enough for their names
_BAND = 24  # levels side by side; further ones go below
_ROW, _NAMED_ROW = 0.3, 0.5  # inches from a node to the one below
_LONGEST = 18  # letters of a name
_BOW = 0.4  # of a row: how far a line passes beside nodes that it skips
_ALONG = np.linspace(0, 1, 13)  # where a line's points are
_NAMES_OF_TYPES = {
    NodeType.COMP: "compute",
    NodeType.COMM_COLL: "collective",
    NodeType.COMM_SEND: "send",
    NodeType.COMM_RECV: "receive",
}
_COLOURS = {
    NodeType.COMP: BLUE,
    NodeType.COMM_COLL: ORANGE,
    NodeType.COMM_SEND: "#009E73",
    NodeType.COMM_RECV: "#CC79A7",
    NodeType.MEM_LOAD: "#56B4E9",
    NodeType.MEM_STORE: "#56B4E9",
}


def draw_trace(trace: Trace, title: str, kind: str = "png") -> bytes:
    """Return a picture (``png``, ``svg`` or ``pdf``) of the trace's graph or its first nodes."""
    levels = chakra_levels(trace.nodes)
    order = sorted(range(len(levels)), key=lambda i: (levels[i], trace.nodes[i].id))
    shown = order[:_SHOWN]
    said = f"{title}: {len(levels):,} nodes, the longest chain has {max(levels) + 1:,}"
    if len(shown) < len(levels):
        said += f"; the first {len(shown)} are shown"
    nodes = [trace.nodes[i] for i in shown]
    places, height = _places(nodes, [levels[i] for i in shown])
    row = _NAMED_ROW if len(nodes) <= _NAMED else _ROW
    with frame(said, min(max(height * row, 1.5), 30.0) + 0.9) as figure:
        ax = figure.add_subplot()
        _draw_dependencies(ax, nodes, places)
        _draw_nodes(ax, nodes, places)
        ax.set_axis_off()
        ax.invert_yaxis()
        figure.legend(loc="outside lower center", ncols=len(_COLOURS))
        return encoded(figure, kind)


def _places(nodes: Sequence[TraceNode], levels: Sequence[int]) -> tuple[dict[int, Any], float]:
    """Return each node's position by id (x by level, y near its dependencies), and the height."""
    by_level: dict[int, list[TraceNode]] = {}
    for node, level in zip(nodes, levels, strict=True):
        by_level.setdefault(level, []).append(node)
    places: dict[int, Any] = {}
    top = 0.0
    for first in range(0, max(levels) + 1, _BAND):
        band = [by_level.get(level, []) for level in range(first, first + _BAND)]
        for x, column in enumerate(band):
            for y, node in enumerate(sorted(column, key=lambda node: _pull(node, places))):
                places[node.id] = np.array([float(x), top + y])
        top += max(map(len, band)) + 1
    return places, top


def _pull(node: TraceNode, places: dict[int, Any]) -> tuple[float, int]:
    """Return the mean height of a node's dependencies, so that few lines cross."""
    heights = [places[before][1] for before in node.dependencies]
    return (float(np.mean(heights)) if heights else 0.0, node.id)


def _draw_dependencies(ax: "Axes", nodes: Sequence[TraceNode], places: dict[int, Any]) -> None:
    from matplotlib.collections import LineCollection

    for style in ("solid", "dotted"):
        lines = [
            _line(places[before], places[node.id])
            for node in nodes
            for before in (
                node.data_dependencies if style == "solid" else node.control_dependencies
            )
        ]
        ax.add_collection(LineCollection(lines, colors=GREY, linewidths=0.7, linestyles=style))


def _line(start: Any, end: Any) -> Any:
    """Return the points of a line, shape (n, 2), which is curved if nodes are in the way."""
    points = start + np.outer(_ALONG, end - start)
    skipped = abs(end[0] - start[0]) - 1 if start[1] == end[1] else 0
    points[:, 1] += _BOW * (1 - 1 / (1 + max(skipped, 0))) * 4 * _ALONG * (1 - _ALONG)
    return points


def _draw_nodes(ax: "Axes", nodes: Sequence[TraceNode], places: dict[int, Any]) -> None:
    few = len(nodes) <= _NAMED
    for type_ in dict.fromkeys(node.type for node in nodes):
        spots = np.array([places[node.id] for node in nodes if node.type is type_])
        name = _NAMES_OF_TYPES.get(type_, type_.name.lower().replace("_", " "))
        colour = _COLOURS.get(type_, GREY)
        size = 45 if few else 18
        ax.scatter(spots[:, 0], spots[:, 1], s=size, color=colour, label=name, zorder=3)
    if few:
        for node in nodes:
            x, y = places[node.id]
            name = node.name if len(node.name) <= _LONGEST else f"{node.name[: _LONGEST - 1]}\u2026"
            ax.text(x, y - 0.15, name, fontsize=5.5, rotation=20, va="bottom", zorder=4)
