"""Where the next bandwidth, and the next dollar, should go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine import units
from sweeper.draw.canvas import BLUE, ORANGE, panels
from sweeper.report.sheets import Sheet
from sweeper.report.summary import CellSummary, Floats
from sweeper.report.words import dim_name, seconds, short_keys

_PANELS = 8
_SPENT = 1000.0  # USD
_UNITS = ("GB/s", "k USD")


def sheet_of(summary: CellSummary) -> list[Sheet]:
    """What is saved in each dimension, at the optimum and at the equal split; none if not known."""
    optimum = summary.saved()
    if optimum is None:
        return []
    equal = None if summary.equal is None else summary.saved(summary.equal)
    columns, values = ["dimension"], []
    for where, saved in (("optimum", optimum), ("equal split", equal)):
        for unit in _UNITS:
            found = None if saved is None else _per(summary, saved, unit)
            if found is not None:
                columns.append(f"{where},\nnext {unit}")
                values.append([seconds(value) for value in found])
    rows = list(zip(summary.dims, *values, strict=True))
    return [Sheet("What the next bandwidth or money saves", tuple(columns), rows)]


def sheet_of_cells(summaries: Sequence[CellSummary]) -> list[Sheet]:
    """A row for each cell: what the next money (or bandwidth) saves in each dimension, at the
    optimum; none if that is not known of any, or they have different dimensions."""
    shown = [s for s in summaries if s.saved() is not None]
    if not shown or any(s.dims != shown[0].dims for s in shown):
        return []
    unit = "GB/s" if any(s.prices is None for s in shown) else "k USD"
    keys = list(shown[0].cell["coordinates"])
    rows = [
        (*(str(s.cell["coordinates"][key]) for key in keys), *map(seconds, _at_optimum(s, unit)))
        for s in shown
    ]
    columns = (*short_keys(keys), *(name.replace(": ", ":\n") for name in shown[0].dims))
    return [Sheet(f"What the next {unit} saves at the optimum", columns, rows, n_names=len(keys))]


def picture(summaries: Sequence[CellSummary]) -> bytes:
    """A bar for each dimension: the time that the next money (or bandwidth) in it saves."""
    priced = all(s.prices is not None for s in summaries)
    unit = "k USD" if priced else "GB/s"
    longest = max(float(np.nanmax(_at_optimum(s, unit))) for s in summaries)
    factor, name = units.scale(longest, units.TIME)

    def draw(ax: Any, summary: CellSummary) -> None:
        places = np.arange(len(summary.dims))
        bars = [(_at_optimum(summary, unit), BLUE, "at the optimum", -0.2)]
        equal = None if summary.equal is None else summary.saved(summary.equal)
        if equal is not None and (found := _per(summary, equal, unit)) is not None:
            bars.append((found, ORANGE, "at the equal split, in this dimension alone", 0.2))
        for values, color, text, shift in bars:
            drawn = ax.barh(
                places + shift, np.nan_to_num(values) * factor, 0.38, color=color, label=text
            )
            ax.bar_label(drawn, [seconds(v) for v in values], padding=4, fontsize=9)
        ax.set_yticks(places, summary.dims)
        ax.invert_yaxis()
        ax.grid(visible=False, axis="y")
        ax.margins(x=0.2)
        ax.set_xlabel(f"saved by the next {unit} ({name} an iteration)")

    overview = f"What the next {unit} saves, by the dimension that it is spent on"
    return panels(summaries, _PANELS, overview, lambda s: claim(s, unit), draw)


def claim(summary: CellSummary, unit: str) -> str:
    """Where the most is saved, in a sentence without a full stop."""
    saved = _at_optimum(summary, unit)
    if not np.nan_to_num(saved).any():
        return f"the next {unit} saves nothing in any dimension"
    most = int(np.nanargmax(saved))
    used = saved[saved > 0]
    if len(used) > 1 and used.min() > 0.99 * used.max():
        return f"the next {unit} saves {seconds(saved[most])} wherever it goes"
    return f"the next {unit} saves most in {dim_name(summary, most)}: {seconds(saved[most])}"


def _at_optimum(summary: CellSummary, unit: str) -> Floats:
    saved = summary.saved()
    assert saved is not None
    found = _per(summary, saved, unit)
    assert found is not None
    return found


def _per(summary: CellSummary, saved: Floats, unit: str) -> Floats | None:
    """Seconds per GB/s as seconds per ``unit``."""
    if unit == "GB/s":
        return saved
    return None if summary.prices is None else np.asarray(saved / summary.prices * _SPENT)
