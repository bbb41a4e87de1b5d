"""All that a report tells of a study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import pandas as pd

from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.stored import Stored
from dimsweep.sweeper.report import words
from dimsweep.sweeper.report.causes import frequent_errors
from dimsweep.sweeper.report.decisions import Decisions
from dimsweep.sweeper.report.headline import headline
from dimsweep.sweeper.report.idle import idle_axes
from dimsweep.sweeper.report.portfolio import PortfolioSummary, summarise_portfolios
from dimsweep.sweeper.report.proof import moved, rival, sentence, ties
from dimsweep.sweeper.report.question import Question, question
from dimsweep.sweeper.report.references import without_baseline
from dimsweep.sweeper.report.rows import Rows
from dimsweep.sweeper.report.searched import Overview
from dimsweep.sweeper.report.sold import unsold
from dimsweep.sweeper.report.summary import CellSummary, summaries_of
from dimsweep.sweeper.report.tight import tight
from dimsweep.sweeper.study.ranking import physical


@dataclass(frozen=True)
class Report:
    """What a study found.

    ``seen`` is what one look through its rows tells.  ``summaries`` has an entry for each cell, and
    ``portfolios`` one for each portfolio that is searched at least in part.  ``idle`` are the axes
    whose values made no difference.  ``without_baseline`` are the scenarios in which the baseline
    cannot be simulated, each with the cause.
    """

    study: StudyRecord
    seen: Overview
    summaries: list[CellSummary]
    portfolios: list[PortfolioSummary]
    idle: list[str]
    without_baseline: list[tuple[Mapping[str, str], str]] = field(default_factory=list)

    @classmethod
    def of(cls, rows: pd.DataFrame | Stored | Rows, study: StudyRecord) -> Self:
        """The report of a study whose ledger has ``rows``: a table of all of them, or its files,
        of which some columns are read at a time.

        Raises :class:`DimsweepError` when no trial is complete.
        """
        seen = Overview.of(Rows.of(rows), study)
        summaries = summaries_of(seen, study)
        portfolios = summarise_portfolios(summaries, study)
        summaries, portfolios = _with_answers(summaries, portfolios)
        idle, missing = idle_axes(seen.rows, study), without_baseline(seen.beside, study)
        return cls(study, seen, summaries, portfolios, idle, missing)

    @classmethod
    def read(cls, folder: Place) -> Self:
        """The report of the study in ``folder``; raises :class:`DimsweepError` likewise, and if
        there is none, or files of it are damaged."""
        stored = Stored(folder)
        return cls.of(stored, stored.study)

    @property
    def tried(self) -> list[CellSummary]:
        """The cells that have complete trials."""
        return [summary for summary in self.summaries if summary.found]

    @property
    def found(self) -> list[CellSummary]:
        """The same; of one network for several workloads their best plans on it alone, and of
        networks each design once, whatever names its blocks have."""
        if self.study.is_shared and self.portfolios:
            return list(self.portfolios[0].cells)
        return _once(self.tried) if self.study.is_certified else self.tried

    @property
    def n_broken(self) -> int:
        """How many trials failed or are infeasible."""
        return sum(summary.trials.n_broken for summary in self.summaries)

    @cached_property
    def causes(self) -> list[tuple[str, int]]:
        """Why they did, and how many, the most frequent cause first."""
        return frequent_errors(self.seen.broken()) if self.n_broken else []

    @cached_property
    def decisions(self) -> Decisions:
        """What competes with what, and where."""
        return Decisions.of(self.study, self.found, self.portfolios)

    @cached_property
    def chosen(self) -> list[tuple[CellSummary, pd.Series]]:
        """The cells of the answer, each with the row of what the answer names there: its best
        trial, or, in a portfolio, the one split for all."""
        return [(cell, cell.named) for cell in self.decisions.chosen()]

    @property
    def question(self) -> Question:
        """What the study asks."""
        return question(self.decisions)

    @property
    def headline(self) -> str:
        """The finding of the study, which is its portfolio's if it has one; without full stop."""
        if len(self.portfolios) == 1:
            return self.portfolios[0].headline()
        return headline(self.decisions)

    @property
    def effort(self) -> str:
        """What was simulated, and how, in a sentence without full stop; of a sweep that has not
        come to its end also what was planned."""
        complete = sum(summary.trials.n_complete for summary in self.summaries)
        samplers = ", ".join(sorted(set().union(*(each.searchers for each in self.summaries))))
        if self.study.is_certified:
            samplers = "bounds, best first"
        return (
            f"{complete:,} of {complete + self.n_broken:,} trials complete"
            + words.unfinished(self.study, [s for s in self.summaries if s.begun])
            + f", searched by {samplers}"
            + ("" if self.study.is_certified else words.stopped_early(self.summaries))
            + words.simulated_again(self.summaries)
            + words.shared(self.summaries)
        )

    @property
    def proof(self) -> str:
        """How near the best of all networks and plans this is; without a full stop."""
        return sentence(self.study)

    @property
    def ties(self) -> str:
        """Which of all networks and plans come next to the best; without a full stop."""
        proof = self.study.proof
        if proof is None or proof.front or self.study.is_shared or not self.found:
            return ""
        if proof.rival is not None:
            return rival(proof, self.ordered[0].cell.coordinates)
        return ties(self.study.objectives[0], self.ordered)

    @property
    def ordered(self) -> list[CellSummary]:
        """The cells that have complete trials, that of the best one first, where they compete."""
        objective = self.study.objectives[0]
        if self.study.is_shared:
            return self.found
        return sorted(self.found, key=lambda cell: objective.sign * objective.of(cell.best))

    @property
    def what_changes(self) -> tuple[str, str]:
        """What would change the answer among networks and plans, and what then wins."""
        if self.study.proof is None or not self.chosen:
            return "", ""
        return moved(self.study.proof, self.chosen[0][0].cell.coordinates)

    @property
    def notes(self) -> list[str]:
        """Where the baseline cannot be simulated, which best designs barely fit the memory, what of
        them no part offers, and the axes that made no difference."""
        missing = words.no_baseline(self.without_baseline)
        return [*missing, *tight(self.found), *unsold(self.found), *map(words.idle, self.idle)]

    @property
    def remarks(self) -> list[str]:
        """What the design rules found before the study, and its notes."""
        return [*self.study.warnings, *self.notes]


def _once(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Return the cells without those that are an earlier one under another name."""
    found: dict[object, CellSummary] = {}
    for cell in cells:
        values = tuple(str(cell.best.get(name)) for name in ("time_s", "cost_usd", "memory_bytes"))
        found.setdefault((*physical(cell.cell.coordinates).items(), values), cell)
    return list(found.values())


def _with_answers(
    summaries: list[CellSummary], portfolios: list[PortfolioSummary]
) -> tuple[list[CellSummary], list[PortfolioSummary]]:
    """The same, in which the cells of each portfolio know the row of its one split for all."""
    rows = {
        cell.cell.cell: row
        for one in portfolios
        for cell, row in zip(one.cells, one.at_best(), strict=True)
    }
    summaries = [replace(s, for_all=rows.get(s.cell.cell)) for s in summaries]
    by_number = {s.cell.cell: s for s in summaries}
    return summaries, [
        replace(one, cells=[by_number[cell.cell.cell] for cell in one.cells]) for one in portfolios
    ]
