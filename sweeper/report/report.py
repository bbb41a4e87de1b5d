"""All that a report tells of a study."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import pandas as pd

from sweeper.ledger.record import StudyRecord
from sweeper.report import words
from sweeper.report.decisions import Decisions
from sweeper.report.headline import headline
from sweeper.report.idle import idle_axes
from sweeper.report.portfolio import PortfolioSummary, summarise_portfolios
from sweeper.report.question import Question, question
from sweeper.report.references import without_baseline
from sweeper.report.sold import unsold
from sweeper.report.summary import CellSummary, summarise


@dataclass(frozen=True)
class Report:
    """What a study found.

    ``summaries`` has an entry for each cell, ``portfolios`` one for each portfolio that is searched
    at least in part.  ``idle`` are the axes whose values made no difference.  ``without_baseline``
    are the scenarios in which the baseline cannot be simulated, each with the cause.
    """

    study: StudyRecord
    summaries: list[CellSummary]
    portfolios: list[PortfolioSummary]
    idle: list[str]
    without_baseline: list[tuple[Mapping[str, str], str]] = field(default_factory=list)

    @classmethod
    def of(cls, rows: pd.DataFrame, study: StudyRecord) -> Self:
        """The report of a study whose ledger has ``rows``.

        Raises :class:`DimsweepError` when no trial is complete.
        """
        summaries = summarise(rows, study)
        portfolios = summarise_portfolios(summaries, study)
        summaries, portfolios = _with_answers(summaries, portfolios)
        idle, missing = idle_axes(rows, study), without_baseline(rows, study)
        return cls(study, summaries, portfolios, idle, missing)

    @property
    def found(self) -> list[CellSummary]:
        """The cells that have complete trials."""
        return [summary for summary in self.summaries if summary.found]

    @property
    def failed(self) -> pd.DataFrame:
        """The rows of all trials that failed or are infeasible."""
        return pd.concat([summary.failed for summary in self.summaries])

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
        complete = sum(len(summary.complete) for summary in self.summaries)
        samplers = ", ".join(sorted({summary.cell.sampler for summary in self.summaries}))
        return (
            f"{complete:,} of {complete + len(self.failed):,} trials complete"
            + words.unfinished(self.study, [s for s in self.summaries if s.begun])
            + f", searched by {samplers}"
            + words.stopped_early(self.summaries)
            + words.simulated_again(self.summaries)
            + words.shared(self.summaries)
        )

    @property
    def notes(self) -> list[str]:
        """Where the baseline cannot be simulated, what of the best designs no part offers, and the
        axes that made no difference."""
        missing = words.no_baseline(self.without_baseline)
        return [*missing, *unsold(self.found), *map(words.idle, self.idle)]

    @property
    def remarks(self) -> list[str]:
        """What the design rules found before the study, and its notes."""
        return [*self.study.warnings, *self.notes]


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
