"""The answer of a study on one screen, as data; :mod:`sweeper.draw.terminal` prints it.

An entry has its most important parts first.  A screen that is too long loses parts of the entries
with the highest ``rank`` first.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.report import describe, naming, words
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.report.remarks import merged
from dimsweep.sweeper.report.report import Report, describe_loss
from dimsweep.sweeper.report.sentences import capitalise
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.study.ranking import NEAR
from dimsweep.sweeper.terminal import format_count

SCREEN = 25  # lines
RUNNERS_UP = 3
_SURE = 3
# Labels of the questions of the answer, and the ranks of the entries.
_LABELS = {
    "What to build": ("build", 1),
    "What to run": ("run", 1),
    "How sure is the search": ("search", _SURE),
    "How sure is the model": ("model", _SURE),
    "What it costs": ("cost", 4),
    "What would change the answer": ("changes if", 6),
}
_NEXT_BANDWIDTH = "bandwidth", 8


@dataclass(frozen=True)
class Entry:
    """One entry of the screen: its label, its parts, and how soon it is shortened."""

    label: str
    parts: tuple[str, ...]
    rank: int = 0
    keep: int = 1  # parts that stay
    is_list: bool = False  # each part on a line of its own

    @property
    def texts(self) -> list[str]:
        """The lines before they are wrapped."""
        return list(self.parts) if self.is_list else ["; ".join(self.parts)]


def entries_of(report: Report, folder: Place) -> list[Entry]:
    """Return the entries of the screen of a study whose results are in ``folder``."""
    headline = capitalise(re.split("; the (?:runner-up|next simulated)", report.headline)[0])
    found = [Entry("", (headline,))]
    for answer in answers(report):
        label, rank = _LABELS.get(answer.question, _NEXT_BANDWIDTH)
        short, rest = answer.short, [part for part in answer.rest.split("; ") if part]
        if label == "cost" and rest and rest[0].endswith(" cost"):
            short = f"{short}, {rest.pop(0)}"
        parts = [short[:1].lower() + short[1:] if short.startswith("The ") else short, *rest]
        if label in ("build", "run"):
            own = [part for part in parts if not part.startswith("the runner-up, ")]
            parts = [part for part in own if part not in headline]
        if parts:
            keep = min(len(parts), 2) if rank == _SURE else 1
            found.append(Entry(label, tuple(parts), rank, keep))
    if names := [f"{name}: {difference}" for name, difference in runners_up(report)]:
        keep = min(len(names), 2)
        place = next(i for i, entry in enumerate(found) if entry.label == "cost") + 1
        found.insert(place, Entry("runners-up", tuple(names), 5, keep, is_list=True))
    if report.n_broken:
        (text, times), *others = report.causes
        more = f"; and {format_count(len(others), 'other cause')}" if others else ""
        trials = format_count(report.n_broken, "trial")
        cause = text.splitlines()[0]
        failed = f"{trials} failed or are infeasible; {times:,} of them: {cause}{more}"
        found.append(Entry("failed", (failed,), 7))
    if remarks := merged(report.notes):
        found.append(Entry("warning", tuple(each.line for each in remarks), 7, is_list=True))
    found.append(Entry("study", (report.effort,), 5 if report.study.finished is False else 9))
    if steps := tuple(_next_steps(report)):
        found.append(Entry("next", steps, 2))
    return [*found, Entry("all tables", (f"dimsweep report {folder} --full",))]


def _next_steps(report: Report) -> Iterator[str]:
    """Yield what to do with this answer, the most urgent first."""
    if report.study.finished is False:
        yield "continue the sweep with the same command"
    cell, row = report.chosen[0]
    evidence = cell.evidence_of(row)
    if lost := sum(each.trials.n_lost for each in report.summaries):
        yield f"the same command simulates {format_count(lost, 'lost trial')} again"
    gap = cell.gap_at_cost(cell.named)
    is_open = report.search_claim is None and cell.n_designs is None and report.one_for_all is None
    if is_open and (cell.split_varies or cell.parameters) and (gap is None or gap > NEAR):
        yield "search longer with a larger budget.trials"
    if evidence.band is None:
        yield "calibrate to your cluster for an interval of the time (dimsweep calibrate --help)"
    if not cell.rechecked and not cell.of_graph and report.study.finished is not False:
        yield "confirm the best designs message by message (recheck.top=3)"


def runners_up(report: Report) -> list[tuple[str, str]]:
    """Return the full names of the next designs, and their differences from the answer."""
    return list(_runners_up(report))[:RUNNERS_UP]


def _runners_up(report: Report) -> Iterator[tuple[str, str]]:
    decisions, (cell, row) = report.decisions, report.chosen[0]
    if report.one_for_all is not None:
        yield from _of_workloads(report)
    elif len(cell.objectives) > 1:
        yield from _of_front(cell, row)
    elif len(decisions.decisions) > 1:
        for d in decisions.ranking[1 : RUNNERS_UP + 1]:
            if not decisions.worst[d] < math.inf:
                yield decisions.name(d), "does not run in every scenario"
            elif len(decisions.scenarios) > 1:
                yield decisions.name(d), f"loses {describe_loss(decisions, d)}"
            else:
                other = decisions.cells[d, 0]
                yield decisions.name(d), _difference(other, other.named, cell, row)
    elif cell.parameters:
        yield from _of_values(cell, row)
    elif cell.reference is not None:
        split = ", ".join(map(words.gbps, cell.split(cell.reference.row)))
        name = f"{cell.reference.name}, {split} GB/s"
        yield name, _difference(cell, cell.reference.row, cell, row)


def _difference(other: CellSummary, its: pd.Series, cell: CellSummary, row: pd.Series) -> str:
    """Return how much worse a row is, with its cost if that differs."""
    own, value = cell.objective.value(row), cell.objective.value(its)
    share = cell.objective.gap(value, own) if own else 0.0
    text = words.behind(share)
    if not cell.priced or not other.priced or cell.objective.needs_prices:
        return f"{text} ({cell.objective.show(value)})"
    cost = words.usd(its["cost_usd"])
    return f"{text} ({cell.objective.show(value)}, {cost})"


def _of_values(cell: CellSummary, row: pd.Series) -> Iterator[tuple[str, str]]:
    """Yield the next values of the searched keys, each with its best split."""
    keys, objective = list(cell.parameters), cell.objective
    best = pd.DataFrame()
    for rows in cell.trials.complete(["trial", *cell.trials.values, *keys]):
        best = pd.concat([best, rows[(rows[keys] != row[keys]).any(axis=1).to_numpy()]])
        order = objective.loss(best[objective.column]).sort_values(kind="stable").index
        best = best.loc[order].drop_duplicates(keys).head(RUNNERS_UP)
    for _, other in cell.trials.rows.take(best.index.to_numpy(np.int64)).iterrows():
        name = naming.searched(cell, other)
        if cell.split_varies:
            name += f", {', '.join(map(words.gbps, cell.split(other)))} GB/s"
        yield name, _difference(cell, other, cell, row)


def _of_front(cell: CellSummary, row: pd.Series) -> Iterator[tuple[str, str]]:
    """Yield the ends and the middle of the front."""
    n = len(cell.front)
    for i in dict.fromkeys((0, n // 2, n - 1)):
        other = cell.front.iloc[i]
        if other.name != row.name:
            split = ", ".join(map(words.gbps, cell.split(other)))
            name = naming.searched(cell, other) if cell.parameters else f"{split} GB/s"
            if cell.cell.coordinates:
                name = naming.label(cell)
            yield name, describe.values_of(cell, other)


def _of_workloads(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the networks made for one workload each, with what the others lose on them."""
    assert report.one_for_all is not None
    matrix = report.one_for_all.regret_matrix()
    worst = matrix.regrets.max(axis=1)
    for i in np.argsort(worst, kind="stable").tolist():
        if (name := matrix.down[i]) != "all of them":
            made_for = f"{report.one_for_all.noun} made for {name.removesuffix(' alone')}"
            name = name if name == "equal split" else made_for
            yield f"the {name}", f"worst loss {words.loss(float(worst[i]))}"
