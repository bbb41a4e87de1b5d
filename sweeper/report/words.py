"""Numbers and findings in words, the same in the terminal, the pictures and the page."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from dimsweep.engine import units
from dimsweep.sweeper.config.roles import is_plan
from dimsweep.sweeper.objective import (
    COST,
    COST_PER_TOKEN,
    EFFECTIVE_TIME,
    ENERGY,
    MFU,
    PERF_PER_COST,
    PERF_PER_WATT,
    THROUGHPUT,
    TIME,
    TOKENS,
    Objective,
)
from dimsweep.sweeper.report.naming import coordinates_of

if TYPE_CHECKING:
    import pandas as pd

    from dimsweep.sweeper.ledger.record import StudyRecord
    from dimsweep.sweeper.report.summary import CellSummary, Floats


_LARGE = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"))
_OF_PRICES = {COST.name, COST_PER_TOKEN.name, PERF_PER_COST.name}
NOTICEABLE = 1.005  # a smaller gain would print as 1.00x
_LEVEL = 5e-4  # a smaller loss is none that anyone builds for


def idle(axis: str) -> str:
    """An axis whose values all gave the same results."""
    return f"{axis} made no difference: trials that differ in nothing else gave the same"


def no_baseline(missing: Sequence[tuple[Mapping[str, str], str]]) -> list[str]:
    """Where the baseline cannot be simulated, a sentence for each cause."""
    places: dict[str, list[str]] = {}
    for scenario, error in missing:
        cause = error.splitlines()[0]  # what would help a candidate follows
        places.setdefault(cause, []).append(coordinates_of(scenario))
    return [
        f"the baseline cannot be simulated{_with(names)}, so no gain is told there: {cause}"
        for cause, names in places.items()
    ]


def _with(names: Sequence[str]) -> str:
    named = [name for name in names if name]
    if not named:
        return ""
    return f" with {named[0]}" + (f" and {len(named) - 1} more" if len(named) > 1 else "")


def seconds(value: float, digits: int = 4) -> str:
    """A time in seconds, as people read it; a dash for NaN."""
    if 0 < value < 1 / units.PICOSECONDS:
        return "< 1 ps"  # the simulator counts no less
    return units.format_quantity(value, units.TIME, digits)


def not_exceeded(times: "Floats", share: float) -> str:
    """The shortest of ``times`` (seconds) that a ``share`` of them do not exceed."""
    return seconds(float(np.quantile(times, share, method="inverted_cdf")))


def watts(value: float) -> str:
    """A power in watts, as people read it; a dash for NaN."""
    return units.format_quantity(value, units.POWER)


def usd(value: float) -> str:
    """An amount of money in USD, as people read it; a dash for NaN."""
    return units.format_money(value)


def million_usd(value: float) -> str:
    """An amount of money in million USD, without the unit; a dash for NaN."""
    return "-" if math.isnan(value) else f"{value / 1e6:.4g}"


def per_million_usd(value: float, digits: int = 4) -> str:
    """Iterations per second per USD as iterations per second per million USD; a dash for NaN."""
    return "-" if math.isnan(value) else f"{value * 1e6:.{digits}g}"


def number(value: float) -> str:
    """A bare number, such as of an axis: 1,536, 460 k, 0.00025; a dash for NaN."""
    if math.isnan(value):
        return "-"
    large = (each for each in _LARGE if abs(value) >= max(each[0], 1e5))
    size, prefix = next(large, (1.0, ""))
    return f"{Decimal(f'{value / size:.6g}'):,f}{prefix}"


def gbps(value: float) -> str:
    """A bandwidth in GB/s without its unit; a dash for NaN."""
    if math.isnan(value):
        return "-"
    return f"{value:,.1f}".removesuffix(".0") if 10 <= value < 1e15 else f"{value:.3g}"


def percent(value: float) -> str:
    """A share 0..1; a dash for NaN."""
    if math.isnan(value):
        return "-"
    return f"{value * 100:.0f}%" if 0.0995 <= value < 1e6 else f"{value * 100:.1f}%"


def fine_percent(value: float) -> str:
    """A share 0..1 that may be close to 0; a dash for NaN."""
    if math.isnan(value):
        return "-"
    if 0.995 <= value < 1e6:
        return f"{value * 100:.0f}%"
    return f"{value * 100:.2g}%" if value >= 5e-7 else "0%"


def loss(share: float) -> str:
    """A share 0.. by which something is worse; what is not worse loses nothing."""
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{max(100 * share, 0.0):.2g}%"


def measured_in(objective: Objective) -> str:
    """What a share is one of, where it is not the time that anybody would think of."""
    return "" if objective is TIME else f" in {objective.title or objective.unit}"


def behind(share: float) -> str:
    """How far something is behind the best, by the ``share`` by which it is worse."""
    return f"{loss(share)} behind" if share >= _LEVEL else "as good"


def behind_best(share: float, summary: "CellSummary", row: "pd.Series") -> str:
    """How far a ``row`` of a cell is behind the best; of two objectives in the first, with what it
    has in both."""
    if len(summary.objectives) == 1:
        return behind(share)
    first = summary.objective.name.replace("_", " ")
    return f"{behind(share)} in {first} ({values_of(summary, row)})"


def most(summary: "CellSummary") -> str:
    """What the best is: fastest; of two objectives, as the answer names it, to within 1%; without
    NPUs where these are in no price."""
    alone = summary.objective.name in _OF_PRICES and not summary.npu_price
    within = " to within 1%" if len(summary.objectives) > 1 else ""
    return f"{summary.objective.most}{' without NPUs' if alone else ''}{within}"


def ratios(values: Sequence[float]) -> str:
    """From how many to how many times better."""
    low, high = ratio(min(values)), ratio(max(values))
    return low if low == high else f"{low.removesuffix('x')} to {high}"


def gained(values: Sequence[float], objective: Objective, name: str) -> str:
    """From how many to how many times better something is than what the ``name`` says."""
    if min(values) < 1:
        return f"{ratios(values)} as good as {name}"
    return f"{ratios(values)} {objective.better} {name}"


def ratio(value: float | None) -> str:
    """How many times better; a dash for None."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.2f}x" if value < 1e6 else f"{value:.3g}x"


def cost_of(npu_price: float) -> str:
    """What a cost is the cost of: networks are bought with the NPUs where these have a price."""
    return "cluster cost" if npu_price else "network cost"


def cost_head(summaries: "Iterable[CellSummary]") -> str:
    """The head of a column of costs: of clusters where NPUs are in them."""
    with_npus = any(summary.npu_price for summary in summaries)
    return "cluster\ncost,\nM USD" if with_npus else "cost,\nM USD"


def waiting(exposed: Iterable[str]) -> str:
    """What exposed communication with no dimension in use is, given what else is exposed."""
    return "of it pipeline waiting" if "receive" in exposed else "of it waiting for ranks"


def axis(objective: Objective, typical: float) -> tuple[float, str]:
    """What to multiply an objective by to plot it, and the label of the axis."""
    if isinstance(objective.unit, str):
        title, unit = objective.title, objective.unit
        return objective.factor, f"{title} ({unit})" if title else unit
    factor, unit = units.scale(typical, objective.unit)
    return factor, f"{objective.title} ({unit})"


def short_split(summary: "CellSummary", row: "pd.Series") -> str:
    """The split of ``row`` in GB/s, in few characters; a dash of a graph, which has none."""
    if summary.of_graph:
        return "-"
    return " ".join(f"{b:.0f}" if b >= 100 else f"{b:.3g}" for b in summary.split(row))


def dim_name(summary: "CellSummary", d: int) -> str:
    """A dimension's name inside a sentence: "dim 0 Ring(4)" for "0: Ring(4)"."""
    # The spaces do not break, lest a title's line ends between "dim" and its number.
    return f"dim {summary.dims[d].replace(': ', ' ', 1)}".replace(" ", "\N{NO-BREAK SPACE}")


def noun(summary: "CellSummary") -> str:
    """What was searched for: a plan where nothing but its keys varies, a split, or a design."""
    if summary.parameters:
        is_one = all(map(is_plan, summary.parameters)) and not summary.split_varies
        return "plan" if is_one else "design"
    return "split" if summary.split_varies else "design"


def best_name(summary: "CellSummary") -> str:
    """What to call the best trial; of two objectives it is the best in neither."""
    return f"{'advised' if len(summary.objectives) > 1 else 'best'} {noun(summary)}"


def comparison(summary: "CellSummary") -> str:
    """How the best trial compares with the reference."""
    gain, reference = summary.gain(summary.objective), summary.reference
    if gain is None or reference is None:
        claim = summary.objective.claim(summary.objective.of(summary.best))
        return f"the {best_name(summary)} found {claim}"
    if gain <= 1:
        return f"nothing found beats {reference.name}"
    if gain < NOTICEABLE:
        return f"{reference.name} is within 0.5% of the best found"
    better = f"{ratio(gain)} {summary.objective.better}"
    return f"the {best_name(summary)} is {better} {reference.name}"


def finding(summary: "CellSummary") -> str:
    """What the search of one cell found: the front of two objectives; of one the comparison, and
    the values compared."""
    if len(summary.objectives) > 1:
        return trade_off(summary)
    if summary.reference is None:
        return comparison(summary)
    rows = (summary.best, summary.reference.row)
    values = [summary.objective.told(summary.objective.of(row)) for row in rows]
    return f"{comparison(summary)} ({' against '.join(dict.fromkeys(values))})"


def simulated_again(summaries: "Sequence[CellSummary]") -> str:
    """How many designs were simulated again; nothing if none was."""
    again = Counter(str(name) for summary in summaries for name in summary.again["fidelity"])
    return "".join(f", and {n} simulated again {name} by {name}" for name, n in again.items())


def shared(summaries: "Sequence[CellSummary]") -> str:
    """How many trials were splits tried for a whole portfolio; nothing if there is none."""
    trials = sum(len(summary.shared) for summary in summaries)
    return f", and {trials} for all workloads together" if trials else ""


def unfinished(study: "StudyRecord", begun: "Sequence[CellSummary]") -> str:
    """How much was planned, of a sweep that was stopped before its end or still runs; nothing of
    others."""
    if study.finished is not False:
        return ""
    n_cells = study.n_streamed or len(study.cells)
    where = f" and {len(begun):,} of {n_cells:,} cells begun" if n_cells > 1 else ""
    planned = f" of at most {study.n_trials:,} planned" if study.n_trials else ""
    return f"{planned}{where} (the sweep was stopped or still runs)"


def stopped_early(summaries: "Sequence[CellSummary]") -> str:
    """How many searches were near enough to their bound to stop; nothing if none was."""
    stopped = [s.cell.stops_at_gap or 0.0 for s in summaries if s.stopped]
    if not stopped:
        return ""
    which = "and stopped" if len(summaries) == 1 else f"{len(stopped)} of {len(summaries)} stopped"
    return f", {which} within {fine_percent(max(stopped))} of the bound"


def trade_off(summary: "CellSummary") -> str:
    """The Pareto front of two objectives, from one end to the other, and what is as good as the
    first end but for a per cent, if that is another trial."""
    first, last = (values_of(summary, summary.front.iloc[i]) for i in (0, -1))
    if len(summary.front) == 1:
        return f"one trial is best in both objectives: {first}"
    if summary.best.name not in (summary.front.index[0], summary.front.index[-1]):
        first += f" (within 1%: {values_of(summary, summary.best)})"
    return f"{len(summary.front)} trade-offs, from {first} to {last}"


def values_of(summary: "CellSummary", row: "pd.Series") -> str:
    """What a row has in each objective."""
    return " at ".join(objective.told(objective.of(row)) for objective in summary.objectives)


def convergence(summary: "CellSummary") -> str:
    """The finding, and when the search was close to it."""
    first = summary.trials.near_first() + 1
    soon = f"; after {first} trials the search was within 1%" if first > 1 else ""
    return comparison(summary) + soon


def largest_share(summary: "CellSummary") -> str:
    """Where the best trial puts most of the bandwidth."""
    if not summary.split_varies:
        return "every trial has the same split"
    split = summary.split(summary.best)
    share, dim = percent(split.max() / split.sum()), dim_name(summary, int(split.argmax()))
    return f"the {best_name(summary)} gives {share} of the bandwidth to {dim}"


def tolerance(summary: "CellSummary") -> str:
    """How far the two most varied shares may stray from the best split."""
    low, high = summary.trials.shares_near()
    dims = summary.trials.widest_dims
    ranges = [f"{_span(low[d], high[d])} on {dim_name(summary, d)}" for d in dims]
    return f"the trials within 1% of the best put {' and '.join(ranges)}"


def _span(least: float, largest: float) -> str:
    low, high = f"{least * 100:.0f}", f"{largest * 100:.0f}"
    return f"{low}%" if low == high else f"{low}-{high}%"


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
