"""The answer first: what to build, how sure it is, what it costs, what the next money does."""

from collections.abc import Iterator
from dataclasses import dataclass

from sweeper.objective import PERF_PER_COST
from sweeper.report import words
from sweeper.report.report import Report
from sweeper.report.sections.messages import Comparison, agreement
from sweeper.report.sections.next_bandwidth import claim, common_unit
from sweeper.report.summary import CellSummary


@dataclass(frozen=True)
class Answer:
    """A question, its answer in a few words, and what else is to be known of it."""

    question: str
    short: str
    rest: str = ""


def answers(report: Report) -> list[Answer]:
    """The answers of the study, which are those of its best cell, or of its one portfolio."""
    best = min(report.found, key=lambda cell: cell.objective.loss(cell.objective.of(cell.best)))
    found = [_build(best, several=len(report.found) > 1), *_sure(best)]
    if len(report.portfolios) == 1:
        one = report.portfolios[0]
        split = one.cells[0].split(one.designs.iloc[one.best])
        built = f"{', '.join(map(words.gbps, split))} GB/s"
        found = [
            Answer("What to build", built, one.headline()),
            Answer("How sure is the search", one.finding()),
        ]
    return [*found, _cost(best), *_next(best)]


def _build(cell: CellSummary, *, several: bool) -> Answer:
    split = cell.split(cell.best)
    short = f"{', '.join(map(words.gbps, split))} GB/s"
    own = [f"{key} {cell.best[key]}" for key in cell.parameters]
    where = [words.label(cell)] if several else []
    dims = ", ".join(name.split(": ", 1)[-1] for name in cell.dims)
    value = " at ".join(each.show(each.of(cell.best)) for each in cell.objectives)
    rest = [*where, f"per NPU over {dims}", *own, f"has {value}"]
    if len(cell.objectives) > 1:
        rest.append(words.trade_off(cell))
    return Answer("What to build", short, "; ".join(rest))


def _sure(cell: CellSummary) -> Iterator[Answer]:
    """How good the search was, and how far the model is from measurements: never one number."""
    rest = []
    if cell.bound is not None and cell.gap is not None:
        short = f"within {words.fine_percent(cell.gap)} of the proven bound"
        rest.append(f"no split has better than {cell.objective.show(cell.bound)}")
    else:
        short = f"the best of {len(cell.complete):,} trials"
        rest.append("no bound is proven for this study")
    if cell.rechecked:
        rest.append(agreement(Comparison.of(cell)))
    yield Answer("How sure is the search", short, "; ".join(rest))
    found = cell.evidence
    if found.runs:
        yield Answer("How sure is the model", found.interval, found.basis)
    else:
        yield Answer("How sure is the model", "no measured run covers this", found.reason)


def _cost(cell: CellSummary) -> Answer:
    if not cell.priced:
        return Answer("What it costs", "not known", "some tier of the network has no price")
    cost, efficiency = cell.best["cost_usd"], cell.best[PERF_PER_COST.column]
    return Answer(
        "What it costs",
        words.usd(cost),
        f"{words.cost_of(cell.npu_price)}; {words.per_million_usd(efficiency)} iterations/s per "
        "million USD",
    )


def _next(cell: CellSummary) -> Iterator[Answer]:
    if cell.saved() is not None:
        unit = common_unit([cell])
        what = "dollar" if unit == "k USD" else "GB/s"
        yield Answer(f"What the next {what} does", claim(cell, unit))
