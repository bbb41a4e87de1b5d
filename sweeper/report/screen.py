"""The answer of a study for one terminal screen, as data that :mod:`sweeper.draw.terminal` prints.

An entry has its most important parts first. A screen that is too long loses parts of the entries
with the highest ``rank`` first.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.report import describe, words
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.report.remarks import merged
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.runners_up import RunnerUp, find_runners_up
from dimsweep.sweeper.report.sentences import capitalise
from dimsweep.sweeper.study.ranking import NEAR
from dimsweep.sweeper.terminal import format_count

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
    """One entry of the screen: a label and the texts after it, the most important first."""

    label: str
    parts: tuple[str, ...]
    rank: int = 0  # the largest is shortened first
    keep: int = 1  # parts that stay
    is_list: bool = False  # each part on a line of its own

    @property
    def texts(self) -> list[str]:
        """The lines of the entry before they are wrapped."""
        return list(self.parts) if self.is_list else ["; ".join(self.parts)]


def entries_of(report: Report, folder: Place) -> list[Entry]:
    """Return the entries of the screen for a study whose results are in ``folder``."""
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
    if names := list(map(_describe, find_runners_up(report))):
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


def _describe(other: RunnerUp) -> str:
    """Return a runner-up as one line: name, difference from the answer, and figures."""
    cell, row = other.cell, other.row
    if cell is None or row is None:
        return f"{other.name}: {other.difference}"
    if len(cell.objectives) > 1:
        return f"{other.name}: {describe.values_of(cell, row)}"
    figures = [cell.objective.show(cell.objective.value(row))]
    if cell.priced and not cell.objective.needs_prices:
        figures.append(words.usd(row["cost_usd"]))
    return f"{other.name}: {other.difference} ({', '.join(figures)})"


def _next_steps(report: Report) -> Iterator[str]:
    """Yield suggestions of what to do next, the most urgent first."""
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
