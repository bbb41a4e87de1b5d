"""The picture of a network in use: every link, coloured by its utilisation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from dimsweep.engine import DimsweepError, Result
from dimsweep.engine.kernels.messages import LinkAccount, MessageRun
from dimsweep.engine.network import Network
from dimsweep.sweeper.draw.canvas import WIDTH, encoded, frame
from dimsweep.sweeper.draw.layout import Layout, lay_out
from dimsweep.sweeper.report.colours import GREY, ORANGE
from dimsweep.sweeper.report.words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = npt.NDArray[np.float64]  # (N, 2)

_FREE_WIDTH, _FREE_HEIGHT = 1.3, 1.1  # inches that colour bar, title and caption take
_HEIGHTS = (2.4, 7.6)  # inches that the network may take
_DISCS = (0.8, 13.0)  # points: the radius of a disc; smaller ones would only hide the links
_FAINTEST = 0.25  # of the colour map: what is fainter would not be seen on white
_SMALLEST, _NAME = 4.0, 7.0  # points: text in a disc, text on a switch
_ALIKE = 0.995  # of the busiest link's utilisation


def draw_network(result: Result, title: str, kind: str = "png") -> bytes:
    """Return a picture (``png``, ``svg`` or ``pdf``) of the links in a run that simulated messages.

    Raises :class:`DimsweepError` for a run without links.
    """
    run = result.run
    if not isinstance(run, MessageRun) or not run.links:
        raise DimsweepError(
            "the run has no links to draw",
            hint="use fidelity=message, and more than one NPU",
            code="missing",
        )
    sketch = _Sketch.from_network(run.network)
    with frame(f"{title}: {_finding(run.links)}", sketch.height + _FREE_HEIGHT) as figure:
        ax = figure.add_subplot()
        colours = _draw_links(ax, sketch, run.links)
        _draw_nodes(ax, sketch)
        bar = figure.colorbar(colours, ax=ax, label="utilisation", shrink=0.7, aspect=30)
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
        bar.outline.set_visible(False)
        ax.set(aspect="equal", xticks=[], yticks=[])
        ax.autoscale_view()
        ax.spines[:].set_visible(False)
        squares = "squares are switches, " if len(run.network.graph) > run.network.n_npus else ""
        ax.set_xlabel(f"discs are NPUs, {squares}traffic keeps left", color=GREY)
        return encoded(figure, kind)


def _finding(links: Sequence[LinkAccount]) -> str:
    used = np.array([account.utilisation for account in links])
    busiest = links[int(used.argmax())].link
    alike = int((used >= _ALIKE * used.max()).sum())
    if not used.any():
        return "no link carries anything"
    if alike == len(links):
        return f"all {alike:,} links have a utilisation of {percent(used.max())}"
    which = f"busiest link {busiest.name}" + (f" (and {alike - 1:,} alike)" if alike > 1 else "")
    half = f"half of the links have at most {percent(float(np.median(used)))}"
    return f"{which}, utilisation {percent(used.max())}; {half}"


@dataclass(frozen=True)
class _Sketch:
    """A layout scaled for a page: ``height`` (inches), ``points`` per unit, node ``radius``."""

    layout: Layout
    height: float
    radius: float
    points: float

    @classmethod
    def from_network(cls, network: Network) -> Self:
        layout = lay_out(network)
        places = np.array(list(layout.places.values()))
        spacing = _spacing(places)
        across, up = np.ptp(places, axis=0) + spacing
        width = WIDTH - _FREE_WIDTH
        height = float(np.clip(width * up / across, *_HEIGHTS))
        points = 72 * min(width / across, height / up)
        return cls(layout, height, min(0.36 * spacing, _DISCS[1] / points), points)


def _spacing(places: Points) -> float:
    """Return the distance between neighbouring nodes, as a 5th percentile, in layout units."""
    from scipy.spatial import KDTree

    distances, _ = KDTree(places).query(places, k=2)
    return float(np.percentile(distances[:, 1], 5))


def _draw_links(ax: "Axes", sketch: _Sketch, links: Sequence[LinkAccount]) -> Any:
    """Draw all links, the most used on top; return the map from utilisation to colour."""
    import matplotlib
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PathCollection, PolyCollection
    from matplotlib.colors import ListedColormap, Normalize
    from matplotlib.path import Path

    used = np.array([account.utilisation for account in links])
    most = used.max() or 1.0
    shades = matplotlib.colormaps["YlGnBu"](np.linspace(_FAINTEST, 1, 256))
    colours = ScalarMappable(Normalize(0, most), ListedColormap(shades))
    curves, heads = _curves(sketch, links)
    order = np.argsort(used, kind="stable")
    widest = max(1.6, 0.25 * sketch.radius * sketch.points)
    paint = colours.to_rgba(used)[order]
    codes = [Path.MOVETO, Path.CURVE3, Path.CURVE3]
    ax.add_collection(
        PathCollection(
            [Path(curve, codes) for curve in curves[order]],
            facecolors="none",
            edgecolors=paint,
            linewidths=widest * (0.25 + 0.75 * used[order] / most),
            zorder=1,
        )
    )
    ax.add_collection(PolyCollection(list(heads[order]), facecolors=paint, zorder=1.5))
    return colours


def _curves(sketch: _Sketch, links: Sequence[LinkAccount]) -> tuple[Points, Points]:
    """Return start, control and end point of each link's curve (L, 3, 2), and its arrow head."""
    places, radius = sketch.layout.places, sketch.radius
    ends = [(places[account.link.source], places[account.link.target]) for account in links]
    start, end = np.array(ends).transpose(1, 0, 2)
    way = end - start
    way /= np.maximum(np.hypot(*way.T), 1e-9)[:, None]
    left = np.stack([-way[:, 1], way[:, 0]], axis=1)
    start, end = (point + 0.35 * radius * left for point in (start, end))
    control = (start + end) / 2 + 2 * np.array(sketch.layout.bows)[:, None] * left
    curves = np.stack([start, control, end], axis=1)
    head = np.tensordot(curves, [0.16, 0.48, 0.36], axes=(1, 0))  # 0.6 of the way
    size = 0.3 * radius
    corners = [head + size * way, head - size * (way - left), head - size * (way + left)]
    return curves, np.stack(corners, axis=1)


def _draw_nodes(ax: "Axes", sketch: _Sketch) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Circle, Rectangle

    places, r = sketch.layout.places, sketch.radius
    if r * sketch.points < _DISCS[0]:
        return
    npus = {node: place for node, place in places.items() if isinstance(node, int)}
    switches = {node: place for node, place in places.items() if isinstance(node, str)}
    side = 1.8 * r
    discs = [Circle((x, y), r) for x, y in npus.values()]
    squares = [Rectangle((x - side / 2, y - side / 2), side, side) for x, y in switches.values()]
    look: dict[str, Any] = {
        "edgecolor": "black",
        "linewidth": min(1.0, 0.1 * r * sketch.points),
        "zorder": 2,
    }
    ax.add_collection(PatchCollection(discs, facecolor="white", **look))
    ax.add_collection(PatchCollection(squares, facecolor=ORANGE, **look))
    digits = len(str(len(npus) - 1))
    size = min(11.0, 3 * r * sketch.points / max(digits, 2))
    if size >= _SMALLEST:
        for node, place in npus.items():
            x, y = place
            ax.text(x, y, str(node), size=size, ha="center", va="center_baseline", zorder=3)
    _name_switches(ax, sketch, switches)


def _name_switches(ax: "Axes", sketch: _Sketch, switches: Mapping[str, Any]) -> None:
    """Write the names of switches above them, if all of them fit."""
    names = {node: node.replace(" ", "\n", 1) for node in switches}
    longest = max((len(line) for name in names.values() for line in name.split("\n")), default=0)
    apart = _spacing(np.array(list(switches.values()))) if len(switches) > 1 else np.inf
    if longest * 0.6 * _NAME > apart * sketch.points:
        return
    paper = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.5}
    for node, (x, y) in switches.items():
        above = y + 1.1 * sketch.radius
        ax.text(x, above, names[node], size=_NAME, ha="center", va="bottom", bbox=paper, zorder=3)
