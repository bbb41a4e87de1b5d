"""Figures of merit beside time and cost: those that are known of a study's trials."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dimsweep.engine import units
from dimsweep.sweeper.objective import (
    COST_PER_TOKEN,
    EFFECTIVE_TIME,
    ENERGY,
    MFU,
    PERF_PER_WATT,
    THROUGHPUT,
    TOKENS,
    Objective,
)

if TYPE_CHECKING:
    import pandas as pd

    from dimsweep.sweeper.report.summary import CellSummary

_ALL = (EFFECTIVE_TIME, TOKENS, THROUGHPUT, MFU, COST_PER_TOKEN, ENERGY, PERF_PER_WATT)
_OF_A_MODEL = (TOKENS, THROUGHPUT, MFU)


def known(values: "Mapping[str, float] | pd.Series") -> list[Objective]:
    """The figures that a row, or a result's merits, has; samples/s only where there are no tokens,
    and tokens first."""
    found = [each for each in _ALL if _is_known(values.get(each.column))]
    return [each for each in found if each is not THROUGHPUT or TOKENS not in found]


def of_model(summaries: "list[CellSummary]") -> list[Objective]:
    """The figures of a model that any best trial has, for the columns of a table."""
    rows = [summary.best for summary in summaries if summary.found]
    found = {each.name for row in rows for each in known(row)}
    return [each for each in _OF_A_MODEL if each.name in found]


def head(objective: Objective) -> str:
    """The head of a figure's column."""
    if isinstance(objective.unit, units.Unit):
        return objective.unit.base
    return "MFU" if objective is MFU else objective.unit


def cell(objective: Objective, row: "pd.Series") -> str:
    """A figure in a column that has its unit at the head; a dash where it is not known."""
    value = row.get(objective.column)
    if not _is_known(value):
        return "-"
    text = objective.show(float(value))
    unit = objective.unit
    if isinstance(unit, units.Unit):
        return text.removesuffix(unit.base).rstrip()  # with a prefix: 460.0 k
    return text.split(" ")[0]


def _is_known(value: float | None) -> bool:
    return value is not None and not math.isnan(value)
