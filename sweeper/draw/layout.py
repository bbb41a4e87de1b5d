"""Compute positions of a network's nodes for a picture that shows its structure.

One dimension is a circle with its switches inside, a row with levels of switches above, or a grid.
Several are a grid: the first two across and up, the third oblique behind them, more as separate
blocks.  A graph from a file, which has no dimensions, is laid out by networkx.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import numpy.typing as npt

from dimsweep.engine.network import Link, Network

Node = int | str
Vector = npt.NDArray[np.float64]  # (2,)

_SMALL = 100  # nodes: the better layout of networkx takes long for more
_ASLANT = np.array([0.8, 0.62])  # how far the third dimension reaches, between nodes 1 apart
_APART = 0.6  # between blocks
_BOW, _FLAT = 0.42, 0.14  # less than half the way to the next row, whose links bow as well


@dataclass(frozen=True)
class Layout:
    """The positions (``places``) of all nodes, and the curvature of each link (``bows``)."""

    places: dict[Node, Vector]
    bows: list[float]


@dataclass(frozen=True)
class _Line:
    """NPUs that one dimension connects, in order, and its switches by their distance from them."""

    npus: list[int]
    levels: list[list[str]]


@dataclass(frozen=True)
class _Axis:
    """A dimension of a grid; neighbours differ by ``stride`` in number, ``step`` in position."""

    size: int
    stride: int
    step: Vector
    bow: float  # of the longest link
    blocks: bool = False  # whether other NPUs lie between neighbours


def lay_out(network: Network) -> Layout:
    """Return the layout of a network; equal networks have equal layouts."""
    dims = sorted({link.dim for link in network.links})
    if not network.sizes or not dims or dims[0] < 0:
        return _by_networkx(network)
    lines = {d: list(_lines(network, d)) for d in dims}
    columns = _columns(network) if len(dims) == 1 else None
    if columns is not None:
        return _rows(network, columns)
    if len(dims) == 1 and _is_round(network, lines[dims[0]][0]):
        layout = _circles(network, lines[dims[0]][0])
    else:
        layout = _grid(network, lines)
    complete = len(layout.places) == len(network.graph)
    return layout if complete else _by_networkx(network)


def _by_networkx(network: Network) -> Layout:
    graph = network.graph.to_undirected()
    small = len(graph) <= _SMALL
    places = nx.kamada_kawai_layout(graph) if small else nx.spring_layout(graph, seed=0)
    return Layout(places, [0.0] * len(network.links))


def _lines(network: Network, d: int) -> Iterator[_Line]:
    joined = nx.DiGraph([(link.source, link.target) for link in network.links if link.dim == d])
    for nodes in nx.weakly_connected_components(joined):
        npus = sorted(node for node in nodes if isinstance(node, int))
        if npus:
            yield _Line(npus, list(nx.bfs_layers(joined, npus))[1:])


def _is_round(network: Network, line: _Line) -> bool:
    """Return whether the ends of a line are linked, or all of its switches are on one level."""
    if line.levels:
        return len(line.levels) == 1
    return (line.npus[0], line.npus[-1]) in network.number


def _columns(network: Network) -> int | None:
    """Return the number of columns of a mesh or torus; None if a link leaves its row and column."""
    n = network.n_npus
    ends = [(link.source, link.target) for link in network.links]
    if any(isinstance(end, str) for pair in ends for end in pair):
        return None
    return next((k for k in range(2, n // 2 + 1) if n % k == 0 and _keep(ends, k)), None)


def _keep(ends: Sequence[tuple[Node, Node]], columns: int) -> bool:
    """Return whether all links stay within a row or a column, and some are in each."""
    numbers = [(int(a), int(b)) for a, b in ends]
    in_row = [a // columns == b // columns for a, b in numbers]
    in_column = [a % columns == b % columns for a, b in numbers]
    both = all(r or c for r, c in zip(in_row, in_column, strict=True))
    return both and any(in_row) and any(in_column)


def _rows(network: Network, columns: int) -> Layout:
    """Return a layout in rows and columns; links that close a ring bow around the nodes between."""
    places: dict[Node, Vector] = {
        npu: np.array([npu % columns, npu // columns], dtype=float) for npu in range(network.n_npus)
    }
    steps = [np.abs(places[k.source] - places[k.target]).sum() for k in network.links]
    return Layout(places, [_BOW * (1 - 1 / max(step, 1)) for step in steps])


def _circles(network: Network, line: _Line) -> Layout:
    """Return a layout with NPUs in circles around their switches, these around the centre."""
    places: dict[Node, Vector] = {}
    circles: list[tuple[Sequence[Node], float]] = [(line.npus, 1.0)]
    circles += [(nodes, 0.72 if len(nodes) > 1 else 0.0) for nodes in line.levels]
    for nodes, radius in circles:
        for node, along in zip(nodes, _evenly(nodes), strict=True):
            angle = math.tau * (0.25 - along)  # clockwise from the top
            places[node] = radius * np.array([math.cos(angle), math.sin(angle)])
    return Layout(places, [0.0] * len(network.links))


def _grid(network: Network, lines: Mapping[int, Sequence[_Line]]) -> Layout:
    axes = _axes(network.sizes, list(lines))
    ranks = np.arange(network.n_npus)
    corner = np.zeros((network.n_npus, 2))
    spots = sum((np.outer(ranks // a.stride % a.size, a.step) for a in axes.values()), corner)
    places: dict[Node, Vector] = dict(zip(ranks.tolist(), spots, strict=True))
    switched = [d for d in axes if any(line.levels for line in lines[d])]
    for i, d in enumerate(switched):
        gap = (i / len(switched), 1 / len(switched))
        for line in lines[d]:
            beside = _place_beside(axes[d], line, gap) if len(axes) > 1 else _place_above(line)
            places |= {node: places[line.npus[0]] + offset for node, offset in beside.items()}
    return Layout(places, [_bow(link, axes[link.dim]) for link in network.links])


def _axes(sizes: Sequence[int], dims: Sequence[int]) -> dict[int, _Axis]:
    """Assign the dimensions with several NPUs to a grid that is wider than high if possible."""
    axes: dict[int, _Axis] = {}
    extent = np.ones(2)
    for k, d in enumerate([*sorted(dims[:2], key=lambda d: -sizes[d]), *dims[2:]]):
        stride = math.prod(sizes[:d])
        if k == 2:
            axes[d] = _Axis(sizes[d], stride, _ASLANT / sizes[d], _FLAT)
            continue
        side, blocks = (k - (k > 2)) % 2, k > 2
        step = np.zeros(2)
        step[side] = extent[side] + _APART * blocks
        extent[side] += (sizes[d] - 1) * step[side]
        bow = _FLAT if len(dims) > 2 and not blocks else _BOW
        axes[d] = _Axis(sizes[d], stride, step, bow, blocks)
    return axes


def _place_above(line: _Line) -> dict[Node, Vector]:
    """Return positions of a single line's switches above the NPUs, a row for each level."""
    height = 0.22 * len(line.npus)
    return {
        node: np.array([along * len(line.npus) - 0.5, (level + 1) * height])
        for level, nodes in enumerate(line.levels)
        for node, along in zip(nodes, _evenly(nodes), strict=True)
    }


def _place_beside(axis: _Axis, line: _Line, gap: tuple[float, float]) -> dict[Node, Vector]:
    """Return positions of the switches of one line of many, next to it, each level further out.

    They are relative to its first NPU.  They keep to a separate part of the gap to the next line
    (its start and length), so that the switches of two dimensions do not meet.
    """
    normal = np.array([0.0, 1.0] if axis.step[0] else [1.0, 0.0])
    offsets: dict[Node, Vector] = {}
    for level, nodes in enumerate(line.levels, 1):
        aside = gap[0] + gap[1] * level / (len(line.levels) + 1)
        for node, place in zip(nodes, _evenly(nodes), strict=True):
            along = place * len(line.npus) - 0.5
            if len(nodes) <= len(line.npus):  # then not where lines of other dimensions cross
                along = math.floor(along) + aside
            offsets[node] = along * axis.step + aside * normal
    return offsets


def _bow(link: Link, axis: _Axis) -> float:
    """Return the curvature with which a link passes the NPUs between its ends."""
    if isinstance(link.source, str) or isinstance(link.target, str):
        return 0.0
    steps = abs(link.source - link.target) // axis.stride + axis.blocks
    return axis.bow * (1 - 1 / max(steps, 1))


def _evenly(nodes: Sequence[object]) -> list[float]:
    """Return a position between 0 and 1 for each node, evenly spaced, none at an end."""
    return [(i + 0.5) / len(nodes) for i in range(len(nodes))]
