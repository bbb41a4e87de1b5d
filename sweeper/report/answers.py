"""The answers at the top of a report.

They are the best design, how certain it is, what it costs, and what more money would gain.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from dimsweep.engine import units
from dimsweep.sweeper.calibrate.bands import SHARES
from dimsweep.sweeper.calibrate.evidence import UNCOVERED
from dimsweep.sweeper.objective import COST, PERF_PER_COST
from dimsweep.sweeper.report import describe, naming, sentences, words
from dimsweep.sweeper.report.decisions import LEVEL, Decisions, Question
from dimsweep.sweeper.report.recheck import Comparison, agreement
from dimsweep.sweeper.report.report import Report, SharedDesign, describe_gain, describe_loss
from dimsweep.sweeper.report.sections import claim_next_bandwidth, common_unit
from dimsweep.sweeper.report.sentences import join
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.terminal import format_count

# How good the search was, and how far the model is from measurements: two answers, never one.
_HOW_SURE = "How sure is the search"
_MODEL = "How sure is the model"
_NETWORK = {"topology.shape", "topology.bandwidth"}  # with which a design's name says all of it
_ALL = 0.001  # of a budget, which no step of a bandwidth may fit
_LISTED = 4  # scenarios whose designs are listed
_NO_MORE = " that costs no more"


@dataclass(frozen=True)
class Answer:
    """An entry of a report: a question, its answer in a few words, and details."""

    question: str
    short: str
    rest: str = ""


def answers(report: Report) -> list[Answer]:
    """Return the answers of a report, about the decision with the least regret."""
    decisions = report.decisions
    cells = decisions.chosen()
    # Of several scenarios the one of which the search says least.
    least_sure = max(cells, key=_uncertainty)
    one = report.one_for_all
    built = _build(report, decisions) if one is None else _build_shared(one, *report.chosen[0])
    found = [built, _search(report, least_sure), _model(report), _cost(report)]
    changes, then = report.answer_changes
    if changes:
        found.append(Answer("What would change the answer", changes, then))
    # Who asks for a plan has the machine, and buys nothing.
    buys = len(cells) == 1 and report.question is not Question.PLAN
    if buys and cells[0].saved() is not None:
        unit = common_unit([cells[0]])
        what = "dollar" if unit == "1,000 USD" else "GB/s"
        claim = claim_next_bandwidth(cells[0], unit)
        found.append(Answer(f"What the next {what} does", claim))
    return found


def _uncertainty(cell: CellSummary) -> float:
    """Return the relative gap of a cell's named design to its bound.

    It is infinite if nothing is proven.
    """
    if cell.n_designs is not None:
        return 0.0
    gap = cell.gap_at_cost(cell.named)
    return math.inf if gap is None else gap


def _build(report: Report, decisions: Decisions) -> Answer:
    asked = "What to run" if report.question is Question.PLAN else "What to build"
    if len(report.chosen) > 1:
        return _build_for_all(asked, report, decisions)
    ((cell, row),) = report.chosen
    chosen = decisions.name(decisions.ranking[0]) if len(decisions.decisions) > 1 else ""
    split = _split(cell, row)
    # Searched values come first; the bandwidths of an existing network follow.
    short = join(chosen, naming.searched(cell, row), split if cell.split_varies else "")
    on_network = "" if cell.split_varies else f"on {split} "
    is_named = cell.of_graph or cell.cell.coordinates.keys() >= _NETWORK
    gain, trade_off = describe_gain(cell), ""
    if len(cell.objectives) > 1:
        trade_off = report.trade_off
    rest = join(
        "" if is_named else f"{on_network}{_name_dimensions(cell)}",
        " and ".join(each.claim(each.value(row)) for each in cell.objectives),
        "" if gain is None else f"{gain}{_describe_baseline(cell)}",
        trade_off,
        _runner_up(decisions, cell),
    )
    return Answer(asked, short or ("the network as it is" if cell.of_graph else split), rest)


def _describe_baseline(cell: CellSummary) -> str:
    """Return the baseline's values of the searched keys, in brackets."""
    if cell.reference is None or not cell.parameters:
        return ""
    return f" ({naming.searched(cell, cell.reference.row)})"


def _runner_up(decisions: Decisions, cell: CellSummary) -> str:
    """Describe the second-best decision.

    If there is only one decision, describe the next-best values of the searched keys.
    """
    found = decisions.runner_up(0)
    if found is not None:
        next_cell = decisions.cells[found[0], 0]
        name = decisions.name_change(found[0], decisions.order(0)[0], as_apposition=True)
        behind = describe.behind_best(found[1], next_cell, next_cell.named)
        return sentences.RUNNER_UP(name=name, behind=behind)
    other = cell.runner_up
    if other is None:
        return ""
    its, best = (cell.objective.value(row) for row in (other, cell.named))
    share = cell.objective.gap(its, best) if best else 0.0
    behind = describe.behind_best(share, cell, other)
    return sentences.RUNNER_UP(name=naming.searched(cell, other), behind=behind)


def _name_dimensions(cell: CellSummary) -> str:
    dims = ", ".join(name.split(": ", 1)[-1] for name in cell.dims)
    return sentences.OVER_DIMENSIONS(dims=dims)


def _split(cell: CellSummary, row: pd.Series) -> str:
    return f"{', '.join(map(words.gbps, cell.split(row)))} GB/s"


def _shorten_list(texts: Sequence[str]) -> list[str]:
    """Return the first texts of a list, and a text with the number of the remaining ones."""
    more = len(texts) - _LISTED
    return [*texts[:_LISTED], *([sentences.MORE_IN_TABLE(n=more)] if more > 0 else [])]


def _build_shared(one: SharedDesign, cell: CellSummary, row: pd.Series) -> Answer:
    if builds := one.describe_builds():
        return Answer("What to build", one.split, join(*_shorten_list(builds)))
    return Answer(
        "What to build", _split(cell, row), sentences.ONE_FOR_ALL(over=_name_dimensions(cell))
    )


def _build_for_all(asked: str, report: Report, decisions: Decisions) -> Answer:
    """Return the answer to ``asked``: the decision with the least regret, and its designs."""
    best, first = decisions.ranking[0], report.chosen[0][0]
    name = decisions.name(best) if len(decisions.decisions) > 1 else ""
    designs = [
        join(naming.searched(cell, row), _split(cell, row) if cell.split_varies else "")
        for cell, row in report.chosen
    ]
    differ, worst = len(set(designs)) > 1, float(decisions.worst_regrets[best])
    if worst >= LEVEL:
        lost = sentences.BEHIND_EACH(loss=describe_loss(decisions, best))
    elif worst > 0:
        lost = sentences.AS_GOOD_EACH()
    else:
        lost = sentences.MOST_EACH(most=describe.superlative(first))
    each = [
        f"{decisions.scene(s)}: {design}"
        for s, design in zip(decisions.places, designs, strict=True)
    ]
    plural_name = sentences.FOR_EACH(noun=describe.noun(first), scenarios=decisions.count)
    return Answer(
        asked,
        name or (plural_name if differ else designs[0]),
        join(
            lost if name and math.isfinite(worst) else "", *(_shorten_list(each) if differ else ())
        ),
    )


def _search(report: Report, cell: CellSummary) -> Answer:
    """Describe how good the search was, for the chosen cell with the largest gap to its bound."""
    if report.search_claim is not None:
        return Answer(_HOW_SURE, *report.search_claim)
    if not any(each.split_varies or each.parameters for each in report.found):
        n = len(report.found)
        short = sentences.ONE_SIMULATED() if n == 1 else sentences.ALL_SIMULATED(n=n)
        return Answer(_HOW_SURE, short, sentences.NOTHING_TO_SEARCH())
    gap, limit = cell.gap_at_cost(cell.named), cell.limit_of(cell.named)
    if cell.n_designs is not None:
        failed = cell.trials.n_broken
        short = (sentences.ALL_TRIED if failed else sentences.ALL_SIMULATED)(n=cell.n_designs)
        ran = cell.n_designs - failed
        rest = sentences.SOME_CANNOT(ran=ran, n=failed) if failed else sentences.NONE_BETTER()
    elif limit is not None and gap is not None:
        what, cheap = ("bound", "") if cell.cell.front is None else ("front", _NO_MORE)
        short = sentences.WITHIN_PROVEN(gap=words.fine_percent(gap), what=what)
        rest = sentences.NO_SPLIT_BETTER(cheap=cheap, limit=cell.limited.show(limit))
    else:
        short = sentences.BEST_OF_TRIALS(trials=format_count(cell.trials.n_complete, "trial"))
        rest = sentences.NO_BOUND()
    again, where = agreement(Comparison.from_cell(cell)) if cell.rechecked else "", ""
    if len(report.chosen) > 1:
        decisions = report.decisions
        place = next(s for (_, s), each in decisions.cells.items() if each is cell)
        scenario = decisions.scene(place)
        where = sentences.LEAST_SURE(scenario=scenario, n=len(decisions.scenarios))
    return Answer(_HOW_SURE, short, where + join(rest, again))


def _model(report: Report) -> Answer:
    """Describe the model's error, for the chosen design with the widest error interval."""
    every = [(cell.evidence_of(row), row["time_s"]) for cell, row in report.chosen]
    found, time = min(every, key=lambda each: -each[0].width)
    sure = _compare_with_others(*report.chosen[0]) if len(report.chosen) == 1 else ()
    if found.band is None:
        return Answer(_MODEL, UNCOVERED, join(found.reason, *sure))
    short = sentences.EXPECT(interval=found.expected(time))
    basis = sentences.COMPARABLE(share=SHARES[-1], basis=found.basis)
    return Answer(_MODEL, short, join(basis, *sure))


def _compare_with_others(cell: CellSummary, row: pd.Series) -> Iterator[str]:
    """Yield texts with the probability that a cell's row is truly faster than others.

    They are the runner-up and the reference. Two designs share most of the model's error, so a
    difference is more certain than either time.
    """
    others = [("the runner-up", cell.runner_up)]
    others += [(cell.reference.name, cell.reference.row)] if cell.reference else []
    for name, other in others:
        if other is None or other["time_s"] == row["time_s"]:
            continue
        sure = cell.probability_better(row, cell, other)
        if sure is not None:
            gain = other["time_s"] / row["time_s"] - 1
            how = "faster" if gain > 0 else "slower"
            yield sentences.SURE_DIFFERENCE(share=abs(gain), how=how, name=name, sure=sure)


def _cost(report: Report) -> Answer:
    priced = [(cell, row) for cell, row in report.chosen if cell.priced]
    if not priced:
        return Answer("What it costs", "not known", sentences.NO_PRICE())
    costs = sorted(float(row[COST.column]) for _, row in priced)
    ends = dict.fromkeys(words.usd(cost) for cost in (costs[0], costs[-1]))
    first, row = priced[0]
    npus, efficiency = "", ""
    if first.npu_price:
        npus = sentences.OF_IT_NPUS(cost=words.usd(first.npus_cost))
    if len(priced) == 1:
        value = words.per_million_usd(row[PERF_PER_COST.column])
        efficiency = sentences.EFFICIENCY(value=value)
    left = _describe_remaining([cell for cell, _ in priced], costs[-1])
    rest = join(words.cost_of(first.npu_price), npus, left, efficiency)
    return Answer("What it costs", " to ".join(ends), rest)


def _describe_remaining(cells: list[CellSummary], cost: float) -> str:
    """Describe how much of the budget remains after the most expensive design."""
    stored = [cell.study.config_of(cell.cell) for cell in cells]
    asked = {each.get("space", {}).get("bandwidth", {}).get("cost") for each in stored}
    text = asked.pop() if len(asked) == 1 else None
    if text is None:
        return ""
    limit = units.parse(text, units.MONEY)
    budget, left = sentences.BUDGET(cost=words.usd(limit)), limit - cost
    if left > _ALL * limit:
        return sentences.MONEY_LEFT(left=words.usd(left), budget=budget)
    return sentences.ALL_SPENT(budget=budget)
