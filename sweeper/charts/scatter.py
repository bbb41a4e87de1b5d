"""Trials as points: coloured by bottleneck, brushed together, the whole design in a tooltip."""

from bokeh.models import ColumnDataSource, GlyphRenderer
from bokeh.plotting import figure
from bokeh.transform import factor_cmap

from dimsweep.sweeper.charts.frame import small_hover, tip
from dimsweep.sweeper.charts.points import Points
from dimsweep.sweeper.report import naming
from dimsweep.sweeper.report.colours import BLUE, ORANGE

_MARKED = 60  # cells whose best trials are marked


def tooltip(points: Points) -> str:
    """What tells a trial from the others, in a few lines: what it has in the objectives, its split,
    its keys, and where its time goes.  The table has the rest."""

    def value(name: str) -> str:
        column = points.columns[name]
        return f"@{{{name}}}{{{column.format}}}" if column.format else f"@{{{name}}}"

    report = points.report
    unit = {o: points.axis(o)[1] for o in report.study.objectives}
    lines = [f"{value(o.column)} {_in_brackets(unit[o])}" for o in report.study.objectives]
    if any(name.startswith("b") for name in points.design):
        split = " | ".join(value(f"b{d}") for d in range(len(points.dims)))
        lines.append(f"{split} GB/s")
    keys = report.study.parameters
    names = zip(naming.short_keys(keys), keys, strict=True)
    lines += [", ".join(f"{short} {value(key)}" for short, key in names)] if keys else []
    lines += [value("cell")] if "cell" in points.columns else []
    return tip(*lines, f"trial {value('trial')}, bottleneck {value('bottleneck')}")


def _in_brackets(title: str) -> str:
    """The unit in the title of an axis: ms of "iteration time (ms)"."""
    return title.rsplit("(", 1)[-1].removesuffix(")")


def trials(chart: figure, points: Points, x: str, y: str) -> GlyphRenderer:
    """All trials as points at the columns ``x`` and ``y``."""
    colours = points.colours
    drawn = chart.scatter(
        x,
        y,
        source=points.source,
        view=points.view,
        size=5,
        line_color=None,
        fill_color=factor_cmap("bottleneck", list(colours.values()), list(colours)),
        fill_alpha=0.6,
        nonselection_fill_alpha=0.06,
        selection_fill_alpha=0.9,
    )
    chart.add_tools(small_hover(drawn, tooltip(points)))
    return drawn


def marks(chart: figure, points: Points, x: str, y: str) -> list[GlyphRenderer]:
    """The best trial of each cell, and its equal split, if the cells are few."""
    cells = points.report.found[:_MARKED]
    best = [points.place(cell.best) for cell in cells]
    equal = [points.place(cell.equal) for cell in cells if cell.equal is not None]
    named = (("best", best, "star", 17, BLUE), ("equal split", equal, "diamond", 13, ORANGE))
    return [
        chart.scatter(
            x,
            y,
            source=ColumnDataSource({name: points.take(name, places) for name in points.columns}),
            marker=marker,
            size=size,
            color=colour,
            line_color="white",
            legend_label=name,
        )
        for name, places, marker, size, colour in named
        if places
    ]
