"""Format numbers and quantities as text, for the terminal, pictures and the HTML page."""

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dimsweep.engine import units
from dimsweep.sweeper.objective import (
    COST_PER_TOKEN,
    EFFECTIVE_TIME,
    ENERGY,
    MFU,
    PERF_PER_WATT,
    THROUGHPUT,
    TIME,
    TOKENS,
    Objective,
)
from dimsweep.sweeper.report.sentences import AS_GOOD, BEHIND, GAINED, NOT_GAINED

if TYPE_CHECKING:
    import pandas as pd  # which the account of one iteration does without

_LARGE = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"))
NOTICEABLE = 1.005  # a smaller gain would print as 1.00x
_LEVEL = 5e-4  # a smaller loss is none that anyone builds for


def seconds(value: float, digits: int = 4) -> str:
    """Format seconds with a readable unit; a dash for NaN."""
    if 0 < value < 1 / units.PICOSECONDS:
        return "< 1 ps"  # the simulator counts no less
    return units.format_quantity(value, units.TIME, digits)


def not_exceeded(times: npt.NDArray[np.float64], share: float) -> str:
    """Format the percentile ``share`` of ``times`` in seconds."""
    return seconds(float(np.quantile(times, share, method="inverted_cdf")))


def watts(value: float) -> str:
    """Format a power in watts; a dash for NaN."""
    return units.format_quantity(value, units.POWER)


def usd(value: float) -> str:
    """Format an amount of money in USD; a dash for NaN."""
    return units.format_money(value)


def million_usd(value: float) -> str:
    """Format an amount in million USD, without the unit; a dash for NaN."""
    return "-" if math.isnan(value) else f"{value / 1e6:.4g}"


def per_million_usd(value: float, digits: int = 4) -> str:
    """Format iterations/s per USD as iterations/s per million USD; a dash for NaN."""
    return "-" if math.isnan(value) else f"{value * 1e6:.{digits}g}"


def number(value: float) -> str:
    """Format a bare number, such as of an axis: 1,536, 460 k, 0.00025; a dash for NaN."""
    if math.isnan(value):
        return "-"
    large = (each for each in _LARGE if abs(value) >= max(each[0], 1e5))
    size, prefix = next(large, (1.0, ""))
    return f"{Decimal(f'{value / size:.6g}'):,f}{prefix}"


def gbps(value: float) -> str:
    """Format a bandwidth in GB/s without its unit; a dash for NaN."""
    if math.isnan(value):
        return "-"
    return f"{value:,.1f}".removesuffix(".0") if 10 <= value < 1e15 else f"{value:.3g}"


def percent(value: float) -> str:
    """Format a share 0..1; a dash for NaN."""
    if math.isnan(value):
        return "-"
    return f"{value * 100:.0f}%" if 0.0995 <= value < 1e6 else f"{value * 100:.1f}%"


def fine_percent(value: float) -> str:
    """Format a share 0..1 with enough digits for shares close to 0; a dash for NaN."""
    if math.isnan(value):
        return "-"
    if 0.995 <= value < 1e6:
        return f"{value * 100:.0f}%"
    return f"{value * 100:.2g}%" if value >= 5e-7 else "0%"


def loss(share: float) -> str:
    """Format a relative loss; a negative one is shown as 0."""
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{max(100 * share, 0.0):.2g}%"


def measured_in(objective: Objective) -> str:
    """Return the text "in" an objective, to qualify a share; "" for the time."""
    return "" if objective is TIME else f" in {objective.title or objective.unit}"


def format_behind(share: float) -> str:
    """Format a relative loss ``share`` as a distance behind the best."""
    return BEHIND(share=loss(share)) if share >= _LEVEL else AS_GOOD()


def ratios(values: Sequence[float]) -> str:
    """Format the range of several factors: "1.10 to 1.25x"."""
    low, high = ratio(min(values)), ratio(max(values))
    return low if low == high else f"{low.removesuffix('x')} to {high}"


def format_gain(values: Sequence[float], objective: Objective, name: str) -> str:
    """Return a text on factors of improvement over the reference called ``name``."""
    if min(values) < 1:
        return NOT_GAINED(ratios=ratios(values), reference=name)
    return GAINED(ratios=ratios(values), better=objective.better, reference=name)


def ratio(value: float | None) -> str:
    """Format a factor, such as 1.25x; a dash for None."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.2f}x" if value < 1e6 else f"{value:.3g}x"


def cost_of(npu_price: float) -> str:
    """Return the name of a cost: "cluster cost" if NPUs have a price, else "network cost"."""
    return "cluster cost" if npu_price else "network cost"


def waiting(exposed: Iterable[str]) -> str:
    """Return the name of the exposed time in which no network dimension is used.

    It depends on the collectives with ``exposed`` seconds.
    """
    return "pipeline bubble" if "receive" in exposed else "waiting for other ranks"


def axis(objective: Objective, typical: float) -> tuple[float, str]:
    """Return the factor by which an objective's values are plotted, and the label of the axis.

    ``typical`` is a typical value.
    """
    if isinstance(objective.unit, str):
        title, unit = objective.title, objective.unit
        return objective.factor, f"{title} ({unit})" if title else unit
    factor, unit = units.scale(typical, objective.unit)
    return factor, f"{objective.title} ({unit})"


_ALL = (EFFECTIVE_TIME, TOKENS, THROUGHPUT, MFU, COST_PER_TOKEN, ENERGY, PERF_PER_WATT)


def known_merits(values: "Mapping[str, float] | pd.Series") -> list[Objective]:
    """Return the figures of merit that a row or result has: tokens/s, or else samples/s."""
    found = [each for each in _ALL if _is_known(values.get(each.column))]
    return [each for each in found if each is not THROUGHPUT or TOKENS not in found]


def merit_head(objective: Objective) -> str:
    """Return the header of the column of a figure of merit."""
    if isinstance(objective.unit, units.Unit):
        return objective.unit.base
    return "MFU" if objective is MFU else objective.unit


def merit_cell(objective: Objective, row: "pd.Series") -> str:
    """Format a figure of merit without its unit; a dash if unknown."""
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
