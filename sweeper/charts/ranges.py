"""The ranges of charts: what is worth showing at first, and on which kind of axis."""

from bokeh.models import Range1d

from dimsweep.sweeper.objective import Objective
from dimsweep.sweeper.report import words
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary, Floats

LOG_RATIO = 20.0  # an axis that spans more than this is logarithmic


def axis_of(report: Report, objective: Objective) -> tuple[float, str]:
    """What to multiply an objective's column by to draw it, and the label of its axis."""
    return words.axis(objective, min(objective.of(cell.best) for cell in report.found))


def useful(report: Report, objective: Objective) -> tuple[float, float]:
    """The range of an objective that is worth showing at first, in the unit of its axis: from the
    best value or its bound to the equal split's, the front's end, or that of most trials.

    A search also tries splits that are many times slower; showing them would hide the rest.
    """
    factor, _ = axis_of(report, objective)
    ends = [_useful(cell, objective) for cell in report.found]
    low = factor * min(end[0] for end in ends)
    high = factor * max(end[1] for end in ends)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    if high > LOG_RATIO * low > 0:
        return low / 1.3, high * 1.3
    return low - margin, high + margin


def _useful(cell: CellSummary, objective: Objective) -> tuple[float, float]:
    front: Floats = objective.sign * cell.front[objective.column].to_numpy(float)
    # The least loss in either objective is on the front.
    ends = [front.min(), cell.trials.not_exceeded(objective, 80), front.max()]
    if cell.equal is not None:
        ends.append(objective.sign * objective.of(cell.equal))
    if cell.bound is not None and objective is cell.objective:
        ends.append(objective.sign * cell.bound)
    values = sorted(objective.sign * end for end in ends)
    return values[0], values[-1]


def span(ends: tuple[float, float]) -> Range1d:
    """A range that zooming may leave, and reset comes back to."""
    return Range1d(*ends)


def scale(ends: tuple[float, float], ratio: float = LOG_RATIO) -> str:
    """The kind of axis for a range."""
    return "log" if ends[0] > 0 and ends[1] > ratio * ends[0] else "linear"
