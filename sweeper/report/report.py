"""All that a report tells of a study."""

from dataclasses import dataclass
from typing import Self

import pandas as pd

from sweeper.ledger.record import StudyRecord
from sweeper.report import words
from sweeper.report.idle import idle_axes
from sweeper.report.portfolio import PortfolioSummary, summarise_portfolios
from sweeper.report.sold import unsold
from sweeper.report.summary import CellSummary, summarise


@dataclass(frozen=True)
class Report:
    """What a study found.

    ``summaries`` has an entry for each cell, ``portfolios`` one for each portfolio that is searched
    at least in part.  ``idle`` are the axes whose values made no difference.
    """

    study: StudyRecord
    summaries: list[CellSummary]
    portfolios: list[PortfolioSummary]
    idle: list[str]

    @classmethod
    def of(cls, rows: pd.DataFrame, study: StudyRecord) -> Self:
        """The report of a study whose ledger has ``rows``.

        Raises :class:`DimsweepError` when no trial is complete.
        """
        summaries = summarise(rows, study)
        portfolios = summarise_portfolios(summaries, study)
        return cls(study, summaries, portfolios, idle_axes(rows, study))

    @property
    def found(self) -> list[CellSummary]:
        """The cells that have complete trials."""
        return [summary for summary in self.summaries if summary.found]

    @property
    def failed(self) -> pd.DataFrame:
        """The rows of all trials that failed or are infeasible."""
        return pd.concat([summary.failed for summary in self.summaries])

    @property
    def headline(self) -> str:
        """The finding of the study, which is its portfolio's if it has one; without full stop."""
        if len(self.portfolios) == 1:
            return self.portfolios[0].headline()
        return words.headline(self.summaries)

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
    def remarks(self) -> list[str]:
        """What the design rules found before the study, what of the best designs no part offers,
        and the axes that made no difference."""
        return [*self.study.warnings, *unsold(self.found), *map(words.idle, self.idle)]
