"""Where the next bandwidth, and the next dollar, should go."""

from collections.abc import Sequence

import numpy as np

from dimsweep.sweeper.report.naming import short_keys
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.summary import CellSummary, Floats
from dimsweep.sweeper.report.words import dim_name, seconds

_SPENT = 1000.0  # USD
_LITTLE = 0.1  # of the bandwidth that there is: a slope says nothing of much more
_TIE = 0.99  # dimensions that are worth as much as this of the most are alike
_UNITS = ("GB/s", "k USD")


def table(summary: CellSummary) -> list[Sheet]:
    """What is saved in each dimension, at the best and at the equal split; none if not known."""
    best = summary.saved()
    if best is None:
        return []
    equal = None if summary.equal is None else summary.saved(summary.equal)
    columns, values = ["dimension"], []
    for where, saved in (("best", best), ("equal split", equal)):
        for unit in _UNITS:
            found = None if saved is None else per(summary, saved, unit)
            if found is not None:
                columns.append(f"{where},\nnext {unit}")
                values.append([seconds(value) for value in found])
    rows = list(zip(summary.dims, *values, strict=True))
    title = "How much time more bandwidth, or more money for it, saves"
    return [Sheet(title, tuple(columns), rows)]


def table_of_cells(report: Report) -> list[Sheet]:
    """A row for each cell: what the next money (or bandwidth) saves in each dimension of the best
    trial; none if that is not known of any, or they have different dimensions."""
    shown = [s for s in report.found if s.saved() is not None]
    if len(report.summaries) == 1 or not shown or any(s.dims != shown[0].dims for s in shown):
        return []
    unit = common_unit(shown)
    keys = list(shown[0].cell.coordinates)
    rows = [
        (*(s.cell.coordinates[key] for key in keys), *map(seconds, at_best(s, unit))) for s in shown
    ]
    columns = (*short_keys(keys), *(name.replace(": ", ":\n") for name in shown[0].dims))
    where = f"one {report.portfolios[0].noun} for all" if report.portfolios else "best"
    title = f"How much time the next {unit} saves at the {where}"
    return [Sheet(title, columns, rows, n_names=len(keys))]


def common_unit(summaries: Sequence[CellSummary]) -> str:
    """What is spent next: money, if all cells have prices that it is little for, or else
    bandwidth."""
    return "k USD" if all(np.isfinite(_bought(s)).any() for s in summaries) else "GB/s"


def claim(summary: CellSummary, unit: str) -> str:
    """Where the most is saved, in a sentence without a full stop."""
    saved = at_best(summary, unit)
    if not np.nan_to_num(saved).any():
        return f"the next {unit} saves nothing in any dimension"
    most = np.nanmax(saved)
    used, alike = np.flatnonzero(saved > 0), np.flatnonzero(saved > _TIE * most)
    if len(used) > 1 and len(used) == len(alike):
        return f"the next {unit} saves {seconds(most)} wherever it goes"
    names = [dim_name(summary, int(d)) for d in alike]
    return f"the next {unit} saves most in {' or in '.join(names)}: {seconds(most)}"


def at_best(summary: CellSummary, unit: str) -> Floats:
    """What is saved at the best trial, where that is known."""
    saved = summary.saved()
    assert saved is not None
    found = per(summary, saved, unit)
    assert found is not None
    return found


def per(summary: CellSummary, saved: Floats, unit: str) -> Floats | None:
    """Seconds per GB/s as seconds per ``unit``; None where nothing has a price."""
    if unit == "GB/s":
        return saved
    bought = _bought(summary)
    return np.asarray(saved * bought) if np.isfinite(bought).any() else None


def _bought(summary: CellSummary) -> Floats:
    """(D,) the GB/s that the next money buys in each dimension, NaN where it is no little."""
    if summary.prices is None:
        return np.full(len(summary.dims), np.nan)
    bought = _SPENT / summary.prices
    return np.where(bought <= _LITTLE * summary.split(summary.named), bought, np.nan)


SECTION = Section(of_study=table_of_cells, of_cell=table)
