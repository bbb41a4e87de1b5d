"""The answer first: what to build, how sure it is, what it costs, what the next money does."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from sweeper.build.evidence import Evidence
from sweeper.objective import PERF_PER_COST
from sweeper.report import headline, words
from sweeper.report.decisions import LEVEL, Decisions
from sweeper.report.portfolio import PortfolioSummary
from sweeper.report.question import Question
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
    """The answers of the study: of the decision that loses least over its scenarios, or of its one
    portfolio."""
    decisions = report.decisions
    cells = decisions.chosen()
    first = cells[0]
    # Of several scenarios the one of which the search says least.
    least_sure = max(cells, key=lambda cell: math.inf if cell.gap is None else cell.gap)
    found = [_build(report, decisions, cells), *_sure(least_sure)]
    if len(cells) > 1 and _is_searched(first):
        found[1] = replace(found[1], rest=f"{_where(decisions, least_sure)}: {found[1].rest}")
    bought = [cell.best for cell in cells]
    if len(report.portfolios) == 1:
        one = report.portfolios[0]
        bought = one.rows
        found = [
            Answer("What to build", one.split, one.headline()),
            Answer("How sure is the search", one.finding()),
            _model(_least_known(one)),
        ]
    # Who asks for a plan has the machine, and buys nothing.
    buys = len(cells) == 1 and report.question is not Question.PLAN
    return [*found, _cost(cells, bought), *(_next(first) if buys else ())]


def _where(decisions: Decisions, cell: CellSummary) -> str:
    """The scenario of a cell, which is the least sure of several."""
    place = next(s for (_, s), each in decisions.cells.items() if each is cell)
    return f"with {decisions.scene(place)}, the least sure of {len(decisions.scenarios)}"


def _build(report: Report, decisions: Decisions, cells: list[CellSummary]) -> Answer:
    """What was asked for, and what else belongs to it."""
    asked = "What to run" if report.question is Question.PLAN else "What to build"
    if len(cells) > 1:
        return _build_for_all(asked, decisions, cells)
    (cell,) = cells
    chosen = decisions.name(decisions.ranking[0]) if len(decisions.decisions) > 1 else ""
    plan, split = words.searched(cell, cell.best), _split(cell)
    # What was searched comes first; bandwidths that are those of a network that is there do not.
    short = [text for text in (chosen, plan, split if cell.split_varies else "") if text]
    rest = [] if cell.split_varies else [f"on {split}"]
    rest.append(f"per NPU over {', '.join(name.split(': ', 1)[-1] for name in cell.dims)}")
    rest = [" ".join(rest)]
    rest.append(" and ".join(each.claim(each.of(cell.best)) for each in cell.objectives))
    if (gain := headline.against(cell)) is not None:
        rest.append(f"{gain}{_what_the_baseline_is(cell)}")
    if len(cell.objectives) > 1:
        rest.append(words.trade_off(cell))
    rest += _runner_up(decisions, cell)
    return Answer(asked, "; ".join(short or [split]), "; ".join(rest))


def _what_the_baseline_is(cell: CellSummary) -> str:
    """The values that the searched keys have in the baseline, which is simulated for the cell."""
    if cell.reference is None or not cell.parameters:
        return ""
    return f" ({words.searched(cell, cell.reference.row)})"


def _runner_up(decisions: Decisions, cell: CellSummary) -> list[str]:
    """The next decision, or, where there is but one, the next values of the searched keys."""
    found = decisions.behind(0)
    if found is not None:
        return [f"the runner-up, {decisions.name(found[0])}, is {words.behind(found[1])}"]
    other = cell.runner_up
    if other is None:
        return []
    best, its = (cell.objective.loss(cell.objective.of(row)) for row in (cell.best, other))
    share = its / best - 1 if best else 0.0
    return [f"the runner-up, {words.searched(cell, other)}, is {words.behind(share)}"]


_LISTED = 4  # scenarios whose designs are told one after the other


def _build_for_all(asked: str, decisions: Decisions, cells: list[CellSummary]) -> Answer:
    """The decision that loses least over several scenarios, and what to build of it in each."""
    n, noun = len(decisions.scenarios), words.noun(cells[0])
    name = decisions.name(decisions.ranking[0]) if len(decisions.decisions) > 1 else ""
    designs = [_design(cell) for cell in cells]
    short = name or (
        f"a {noun} for each of {decisions.count}" if len(set(designs)) > 1 else designs[0]
    )
    worst = float(decisions.worst[decisions.ranking[0]])
    if worst <= 0:
        lost = "the best in each scenario"
    elif worst < LEVEL:
        lost = "as good as the best of each scenario"
    else:
        lost = f"at most {words.loss(worst)} behind the best of each scenario"
    told = [lost] if name and math.isfinite(worst) else []
    if len(set(designs)) > 1:
        places = [s for s in range(n) if (decisions.ranking[0], s) in decisions.cells]
        listed = zip(places, designs, strict=True)
        each = [f"{decisions.scene(s)}: {design}" for s, design in list(listed)[:_LISTED]]
        told += each + [f"and {len(cells) - _LISTED} more in the table"] * (len(cells) > _LISTED)
    return Answer(asked, short, "; ".join(told))


def _design(cell: CellSummary) -> str:
    """What was searched for, of a cell's best."""
    plan = words.searched(cell, cell.best)
    return "; ".join(text for text in (plan, _split(cell) if cell.split_varies else "") if text)


def _split(cell: CellSummary) -> str:
    return f"{', '.join(map(words.gbps, cell.split(cell.best)))} GB/s"


def _sure(cell: CellSummary) -> Iterator[Answer]:
    """How good the search was, and how far the model is from measurements: never one number."""
    rest = []
    if not _is_searched(cell):
        short = "every design was simulated"
        rest.append("nothing is left to a search")
    elif cell.bound is not None and cell.gap is not None:
        short = f"within {words.fine_percent(cell.gap)} of the proven bound"
        rest.append(f"no split has better than {cell.objective.show(cell.bound)}")
    else:
        short = f"the best of {len(cell.complete):,} trials"
        rest.append("no bound is proven for this study")
    if cell.rechecked:
        rest.append(agreement(Comparison.of(cell)))
    yield Answer("How sure is the search", short, "; ".join(rest))
    yield _model(cell.evidence)


def _is_searched(cell: CellSummary) -> bool:
    """Whether the study left anything to a search, and not every design to its grid."""
    return cell.split_varies or bool(cell.parameters)


def _model(found: Evidence) -> Answer:
    asked = "How sure is the model"
    if found.runs:
        return Answer(asked, found.interval, found.basis)
    return Answer(asked, "no measured run covers this", found.reason)


def _least_known(one: PortfolioSummary) -> Evidence:
    """The evidence of that workload at the split for all that has least of it."""
    rows = zip(one.cells, one.rows, strict=True)
    return min((cell.evidence_of(row) for cell, row in rows), key=lambda each: each.runs)


def _cost(cells: list[CellSummary], bought: Sequence[pd.Series]) -> Answer:
    """What the designs cost, one of each cell."""
    priced = [cell for cell in cells if cell.priced]
    if not priced:
        return Answer("What it costs", "not known", "some tier of the network has no price")
    costs = sorted(
        float(row["cost_usd"]) for cell, row in zip(cells, bought, strict=True) if cell.priced
    )
    ends = [words.usd(cost) for cost in (costs[0], costs[-1])]
    rest = [words.cost_of(priced[0].npu_price)]
    if priced[0].npu_price:
        rest.append(f"{words.usd(priced[0].npus_cost)} of it NPUs")
    if len(priced) == 1:
        efficiency = priced[0].best[PERF_PER_COST.column]
        rest.append(f"{words.per_million_usd(efficiency)} iterations/s per million USD")
    return Answer("What it costs", " to ".join(dict.fromkeys(ends)), "; ".join(rest))


def _next(cell: CellSummary) -> Iterator[Answer]:
    if cell.saved() is not None:
        unit = common_unit([cell])
        what = "dollar" if unit == "k USD" else "GB/s"
        yield Answer(f"What the next {what} does", claim(cell, unit))
