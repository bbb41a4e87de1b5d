"""Texts about one cell of a study: the kind of thing searched for, and the findings."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from dimsweep.sweeper.config.roles import is_plan_key
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.objective import (
    COST,
    COST_PER_TOKEN,
    MFU,
    PERF_PER_COST,
    THROUGHPUT,
    TOKENS,
    Objective,
)
from dimsweep.sweeper.report import sentences
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.words import (
    NOTICEABLE,
    fine_percent,
    format_behind,
    known_merits,
    percent,
    ratio,
)

_OF_PRICES = {COST.name, COST_PER_TOKEN.name, PERF_PER_COST.name}


def noun(summary: CellSummary) -> str:
    """Return the noun for a cell's designs: plan if only plan keys vary, split, or design."""
    if summary.parameters:
        is_one = all(map(is_plan_key, summary.parameters)) and not summary.split_varies
        return "plan" if is_one else "design"
    return "split" if summary.split_varies else "design"


def best_name(summary: CellSummary) -> str:
    """Return the name of the best trial: "best", or "advised" if there are two objectives."""
    return f"{'advised' if len(summary.objectives) > 1 else 'best'} {noun(summary)}"


def superlative(summary: CellSummary) -> str:
    """Return the superlative for the best trial, such as "fastest".

    With two objectives "to within 1%". It includes "without NPUs" for an objective of prices if no
    price includes NPUs.
    """
    alone = summary.objective.name in _OF_PRICES and not summary.npu_price
    within = " to within 1%" if len(summary.objectives) > 1 else ""
    return f"{summary.objective.most}{' without NPUs' if alone else ''}{within}"


def values_of(summary: CellSummary, row: pd.Series) -> str:
    """Format the value of each objective in a row."""
    return " at ".join(
        objective.format_value(objective.value(row)) for objective in summary.objectives
    )


def short_split(summary: CellSummary, row: pd.Series) -> str:
    """Format the bandwidths of a row briefly, in GB/s; a dash for a network graph."""
    if summary.of_graph:
        return "-"
    return " ".join(f"{b:.0f}" if b >= 100 else f"{b:.3g}" for b in summary.split(row))


def dim_name(summary: CellSummary, d: int) -> str:
    """Return a dimension's name for a sentence: "dim 0 Ring(4)" for "0: Ring(4)"."""
    # The spaces do not break, lest a title's line ends between "dim" and its number.
    return f"dim {summary.dims[d].replace(': ', ' ', 1)}".replace(" ", "\N{NO-BREAK SPACE}")


def cost_head(summaries: Iterable[CellSummary]) -> str:
    """Return the header of a column of costs, which says whether NPUs are included."""
    with_npus = any(summary.npu_price for summary in summaries)
    return "cluster\ncost,\nM USD" if with_npus else "cost,\nM USD"


def model_merits(summaries: Iterable[CellSummary]) -> list[Objective]:
    """Return the figures of merit of a model, such as tokens/s, that any best trial has."""
    rows = [summary.best for summary in summaries if summary.found]
    found = {each.name for row in rows for each in known_merits(row)}
    return [each for each in (TOKENS, THROUGHPUT, MFU) if each.name in found]


def behind_best(share: float, summary: CellSummary, row: pd.Series) -> str:
    """Describe by which ``share`` a row is worse than the best row.

    With two objectives, the text also has the row's values.
    """
    if len(summary.objectives) == 1:
        return format_behind(share)
    first = summary.objective.name.replace("_", " ")
    values = values_of(summary, row)
    return sentences.IN_OBJECTIVE(behind=format_behind(share), objective=first, values=values)


def comparison(summary: CellSummary) -> str:
    """Return a sentence that compares the best trial of a cell with the reference."""
    gain, reference = summary.gain(summary.objective), summary.reference
    if gain is None or reference is None:
        claim = summary.objective.claim(summary.objective.value(summary.best))
        return sentences.FOUND(name=best_name(summary), claim=claim)
    if gain <= 1:
        return sentences.NOTHING_BEATS(reference=reference.name)
    if gain < NOTICEABLE:
        return sentences.NEARLY_AS_GOOD(reference=reference.name)
    return sentences.IS_BETTER(
        name=best_name(summary),
        ratio=ratio(gain),
        better=summary.objective.better,
        reference=reference.name,
    )


def finding(summary: CellSummary) -> str:
    """Return a sentence on the result of a cell's search.

    With two objectives it describes the frontier; with one, the comparison with the reference and
    both values.
    """
    if len(summary.objectives) > 1:
        return trade_off(summary)
    if summary.reference is None:
        return comparison(summary)
    rows = (summary.best, summary.reference.row)
    values = dict.fromkeys(
        summary.objective.format_value(summary.objective.value(row)) for row in rows
    )
    return sentences.COMPARED(comparison=comparison(summary), values=" against ".join(values))


def trade_off(summary: CellSummary) -> str:
    """Return a sentence on the ends of the Pareto front, and on the advised trial between them."""
    first, last = (values_of(summary, summary.front.iloc[i]) for i in (0, -1))
    if len(summary.front) == 1:
        return sentences.ONE_TRADE_OFF(values=first)
    if summary.best.name not in (summary.front.index[0], summary.front.index[-1]):
        first = sentences.WITHIN_A_PERCENT(first=first, values=values_of(summary, summary.best))
    return sentences.TRADE_OFFS(n=len(summary.front), first=first, last=last)


def convergence(summary: CellSummary) -> str:
    """Return the comparison, and at which trial the search came within 1% of its best."""
    first = summary.trials.near_first() + 1
    soon = sentences.NEAR_SOON(n=first) if first > 1 else ""
    return sentences.join(comparison(summary), soon)


def largest_share(summary: CellSummary) -> str:
    """Return the dimension to which the best trial gives most of the bandwidth, as text."""
    if not summary.split_varies:
        return sentences.SAME_SPLIT()
    split = summary.split(summary.best)
    share, dim = percent(split.max() / split.sum()), dim_name(summary, int(split.argmax()))
    return sentences.LARGEST_SHARE(name=best_name(summary), share=share, dim=dim)


def tolerance(summary: CellSummary) -> str:
    """Return how far the two most varied bandwidth shares may differ from the best split's."""
    low, high = summary.trials.shares_near()
    ranges = []
    for d in summary.trials.widest_dims:
        ends = dict.fromkeys(f"{share * 100:.0f}" for share in (low[d], high[d]))
        span = f"{'-'.join(ends)}%"
        ranges.append(sentences.TOLERATED(range=span, dim=dim_name(summary, d)))
    return sentences.TOLERANCE(ranges=" and ".join(ranges))


def effort(study: StudyRecord, summaries: Sequence[CellSummary], by: str = "") -> str:
    """Return the number of simulations ``by`` a search, and the planned number if it is unfinished.

    ``by`` defaults to the samplers of the cells, which may stop early.
    """
    samplers = ", ".join(sorted(set().union(*(each.searchers for each in summaries))))
    again = Counter(str(name) for summary in summaries for name in summary.again["fidelity"])
    shared = sum(len(summary.shared) for summary in summaries)
    return sentences.join(
        _count_trials(study, summaries),
        sentences.SEARCHED_BY(samplers=by or samplers),
        "" if by else _stopped_early(summaries),
        *(sentences.SIMULATED_AGAIN(n=n, fidelity=name) for name, n in again.items()),
        sentences.FOR_ALL_WORKLOADS(n=shared) if shared else "",
        by="",
    )


def _count_trials(study: StudyRecord, summaries: Sequence[CellSummary]) -> str:
    """Return the number of trials; of a stopped or running sweep also the planned number."""
    complete = sum(summary.trials.n_complete for summary in summaries)
    tried = complete + sum(summary.trials.n_broken for summary in summaries)
    if study.finished is not False:
        return sentences.COMPLETE(complete=complete, tried=tried)
    begun, n_cells = sum(each.begun for each in summaries), study.n_streamed or len(study.cells)
    planned = study.n_trials
    return sentences.UNFINISHED(
        tried=sentences.OF_PLANNED(tried=tried, planned=planned) if planned else f"{tried:,}",
        complete=sentences.SOME_COMPLETE(complete=complete) if complete < tried else "",
        begun=sentences.BEGUN(n=begun, cells=n_cells) if n_cells > 1 else "",
    )


def _stopped_early(summaries: Sequence[CellSummary]) -> str:
    """Return the number of searches that stopped because they were close enough to their bound."""
    stopped = [s.cell.stops_at_gap or 0.0 for s in summaries if s.stopped]
    if not stopped:
        return ""
    some = sentences.SOME_STOPPED(n=len(stopped), searches=len(summaries))
    which = sentences.AND_STOPPED() if len(summaries) == 1 else some
    return sentences.STOPPED(which=which, gap=fine_percent(max(stopped)))
