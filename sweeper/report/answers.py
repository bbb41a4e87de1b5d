"""The answer first: what to build, how sure it is, what it costs, what the next money does."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from dimsweep.engine import units
from dimsweep.sweeper.objective import COST, PERF_PER_COST
from dimsweep.sweeper.report import naming, words
from dimsweep.sweeper.report.decisions import LEVEL, Decisions, Question
from dimsweep.sweeper.report.portfolio import NetworkSummary, PortfolioSummary
from dimsweep.sweeper.report.proof import trade
from dimsweep.sweeper.report.recheck import Comparison, agreement
from dimsweep.sweeper.report.report import Report, describe_gain, describe_loss
from dimsweep.sweeper.report.sections import claim_next_bandwidth, common_unit
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.terminal import plural


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
    # Of several scenarios the one of which the search says least.
    least_sure = max(cells, key=_unsure)
    built, search = _build(report, decisions), _search(report, least_sure)
    if len(report.portfolios) == 1:
        one = report.portfolios[0]
        built = _build_shared(one, *report.chosen[0])
        if not report.study.is_shared:
            search = Answer(_HOW_SURE, one.finding())
    # Who asks for a plan has the machine, and buys nothing.
    buys = len(cells) == 1 and report.question is not Question.PLAN
    rest = [*_changes(report), *(_next(cells[0]) if buys else ())]
    return [built, search, _model(report), _cost(report), *rest]


def _unsure(cell: CellSummary) -> float:
    """By how much the best of a cell could be missed by the design that the answer names; without
    end where nothing is proven."""
    if cell.n_designs is not None:
        return 0.0
    gap = cell.gap_at_cost(cell.named)
    return math.inf if gap is None else gap


def _where(decisions: Decisions, cell: CellSummary) -> str:
    """The scenario of a cell, which is the least sure of several."""
    place = next(s for (_, s), each in decisions.cells.items() if each is cell)
    return f"with {decisions.scene(place)}, the least sure of {len(decisions.scenarios)}"


def _build(report: Report, decisions: Decisions) -> Answer:
    """What was asked for, and what else belongs to it."""
    asked = "What to run" if report.question is Question.PLAN else "What to build"
    if len(report.chosen) > 1:
        return _build_for_all(asked, report, decisions)
    ((cell, row),) = report.chosen
    chosen = decisions.name(decisions.ranking[0]) if len(decisions.decisions) > 1 else ""
    plan, split = naming.searched(cell, row), _split(cell, row)
    # What was searched comes first; bandwidths that are those of a network that is there do not.
    short = [text for text in (chosen, plan, split if cell.split_varies else "") if text]
    rest = [] if cell.split_varies else [f"on {split}"]
    rest.append(_over(cell))
    told = cell.of_graph or cell.cell.coordinates.keys() >= _NETWORK
    rest = [] if told else [" ".join(rest)]
    rest.append(" and ".join(each.claim(each.of(row)) for each in cell.objectives))
    if (gain := describe_gain(cell)) is not None:
        rest.append(f"{gain}{_what_the_baseline_is(cell)}")
    if len(cell.objectives) > 1:
        rest.append(trade(report.study) or words.trade_off(cell))
    rest += _runner_up(decisions, cell)
    what = "the network as it is" if cell.of_graph else split
    return Answer(asked, "; ".join(short or [what]), "; ".join(rest))


def _what_the_baseline_is(cell: CellSummary) -> str:
    """The values that the searched keys have in the baseline, which is simulated for the cell."""
    if cell.reference is None or not cell.parameters:
        return ""
    return f" ({naming.searched(cell, cell.reference.row)})"


def _runner_up(decisions: Decisions, cell: CellSummary) -> list[str]:
    """The next decision, or, where there is but one, the next values of the searched keys."""
    found = decisions.behind(0)
    if found is not None:
        next_cell = decisions.cells[found[0], 0]
        told = words.behind_best(found[1], next_cell, next_cell.named)
        name = decisions.beside(found[0], decisions.order(0)[0])
        return [f"the runner-up, {name}, is {told}"]
    other = cell.runner_up
    if other is None:
        return []
    its, best = (cell.objective.of(row) for row in (other, cell.named))
    told = words.behind_best(cell.objective.gap(its, best) if best else 0.0, cell, other)
    return [f"the runner-up, {naming.searched(cell, other)}, is {told}"]


_NETWORK = {"topology.shape", "topology.bandwidth"}  # with which a design's name says all of it
_ALL = 0.001  # of a budget, which no step of a bandwidth may fit
_LISTED = 4  # scenarios whose designs are told one after the other


def _over(cell: CellSummary) -> str:
    """What bandwidths are those of."""
    return f"per NPU over {', '.join(name.split(': ', 1)[-1] for name in cell.dims)}"


def _build_shared(one: PortfolioSummary, cell: CellSummary, row: pd.Series) -> Answer:
    """The one network of a portfolio."""
    if isinstance(one, NetworkSummary):
        listed = [one.build(i) for i in range(len(one.cells))][:_LISTED]
        more = len(one.cells) - _LISTED
        told = [*listed, *([f"and {more} more in the table"] if more > 0 else [])]
        return Answer("What to build", one.split, "; ".join(told))
    return Answer("What to build", _split(cell, row), f"{_over(cell)}, one network for all")


def _build_for_all(asked: str, report: Report, decisions: Decisions) -> Answer:
    """The decision that loses least over several scenarios, and what to build of it in each."""
    noun = words.noun(report.chosen[0][0])
    name = decisions.name(decisions.ranking[0]) if len(decisions.decisions) > 1 else ""
    designs = [_design(*each) for each in report.chosen]
    short = name or (
        f"a {noun} for each of {decisions.count}" if len(set(designs)) > 1 else designs[0]
    )
    worst = float(decisions.worst[decisions.ranking[0]])
    if worst >= LEVEL:
        lost = f"{describe_loss(decisions, decisions.ranking[0])} behind the best of each scenario"
    else:
        most = words.most(report.chosen[0][0])
        lost = f"{'as good as the best of' if worst > 0 else f'{most} in'} each scenario"
    told = [lost] if name and math.isfinite(worst) else []
    if len(set(designs)) > 1:
        listed = zip(decisions.places, designs, strict=True)
        each = [f"{decisions.scene(s)}: {design}" for s, design in list(listed)[:_LISTED]]
        more = len(designs) - _LISTED
        told += each + [f"and {more} more in the table"] * (more > 0)
    return Answer(asked, short, "; ".join(told))


def _design(cell: CellSummary, row: pd.Series) -> str:
    """What was searched for, of a row."""
    split = _split(cell, row) if cell.split_varies else ""
    return "; ".join(text for text in (naming.searched(cell, row), split) if text)


def _split(cell: CellSummary, row: pd.Series) -> str:
    return f"{', '.join(map(words.gbps, cell.split(row)))} GB/s"


# How good the search was, and how far the model is from measurements: two answers, never one.
_HOW_SURE = "How sure is the search"
_RUNNING = "Not proven yet: the search is not over"


def _search(report: Report, cell: CellSummary) -> Answer:
    """How good the search was, by the ``cell`` of the answer of which least is known."""
    decisions = report.decisions
    if report.study.is_certified:
        short, _, rest_of_it = (report.proof or _RUNNING).partition(": ")
        return Answer(_HOW_SURE, short, "; ".join(filter(None, (rest_of_it, report.ties))))
    if not any(each.split_varies or each.parameters for each in report.found):
        few = len(report.found) == 1
        short = "the one design was" if few else f"all {len(report.found):,} designs were"
        return Answer(_HOW_SURE, f"{short} simulated", "there was nothing else to search")
    rest = []
    gap, limit = cell.gap_at_cost(cell.named), cell.limit_of(cell.named)
    if cell.n_designs is not None:
        short = f"all {cell.n_designs:,} designs were simulated"
        failed = cell.trials.n_broken
        rest.append(
            f"{failed:,} of them cannot be simulated" if failed else "none of the space is better"
        )
    elif limit is not None and gap is not None:
        what = "bound" if cell.cell.front is None else "front"
        short = f"within {words.fine_percent(gap)} of the proven {what}"
        cheap = "" if cell.cell.front is None else " that costs no more"
        rest.append(f"no split{cheap} has better than {cell.limited.show(limit)}")
    else:
        short = f"the best of {plural(cell.trials.n_complete, 'trial')}"
        rest.append("no bound is proven for this study")
    if cell.rechecked:
        rest.append(agreement(Comparison.of(cell)))
    where = f"{_where(decisions, cell)}: " if len(report.chosen) > 1 else ""
    return Answer(_HOW_SURE, short, where + "; ".join(rest))


def _model(report: Report) -> Answer:
    """How far the model is from measurements, of the design of the answer of which least is
    known."""
    every = [cell.evidence_of(row) for cell, row in report.chosen]
    found = min(every, key=lambda each: -each.width)
    rest = [found.basis if found.interval else found.reason]
    if len(report.chosen) == 1:
        rest += _differences(*report.chosen[0])
    return Answer("How sure is the model", found.short, "; ".join(rest))


def _differences(cell: CellSummary, row: pd.Series) -> Iterator[str]:
    """How sure it is that the design of the answer is faster than others: two designs share most
    of the model's error."""
    others = [("the runner-up", cell.runner_up)]
    others += [(cell.reference.name, cell.reference.row)] if cell.reference else []
    for name, other in others:
        if other is None or other["time_s"] == row["time_s"]:
            continue
        sure = cell.surely(row, cell, other)
        if sure is not None:
            gain = other["time_s"] / row["time_s"] - 1
            how = "faster" if gain > 0 else "slower"
            yield f"{abs(gain):.1%} {how} than {name}: {sure:.0%} sure"


def _changes(report: Report) -> Iterator[Answer]:
    """What would make another network or plan the answer."""
    short, rest = report.what_changes
    if short:
        yield Answer("What would change the answer", short, rest)


def _cost(report: Report) -> Answer:
    priced = [(cell, row) for cell, row in report.chosen if cell.priced]
    if not priced:
        return Answer("What it costs", "not known", "some tier of the network has no price")
    costs = sorted(float(row[COST.column]) for _, row in priced)
    ends = [words.usd(cost) for cost in (costs[0], costs[-1])]
    first, row = priced[0]
    rest = [words.cost_of(first.npu_price)]
    if first.npu_price:
        rest.append(f"{words.usd(first.npus_cost)} of it NPUs")
    rest += _left([cell for cell, _ in priced], costs[-1])
    if len(priced) == 1:
        efficiency = row[PERF_PER_COST.column]
        rest.append(f"{words.per_million_usd(efficiency)} iterations/s per million USD")
    return Answer("What it costs", " to ".join(dict.fromkeys(ends)), "; ".join(rest))


def _left(cells: list[CellSummary], cost: float) -> Iterator[str]:
    """What the dearest design leaves of the money that there is for each."""
    stored = [cell.study.config_of(cell.cell) for cell in cells]
    asked = {each.get("space", {}).get("bandwidth", {}).get("cost") for each in stored}
    if len(asked) == 1 and (text := asked.pop()) is not None:
        limit = units.parse(text, units.MONEY)
        most = f"the {words.usd(limit)} that it may cost"
        left = limit - cost
        yield f"{words.usd(left)} of {most} are left" if left > _ALL * limit else f"all of {most}"


def _next(cell: CellSummary) -> Iterator[Answer]:
    if cell.saved() is not None:
        unit = common_unit([cell])
        what = "dollar" if unit == "k USD" else "GB/s"
        yield Answer(f"What the next {what} does", claim_next_bandwidth(cell, unit))
