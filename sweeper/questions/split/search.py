"""Search the bandwidth split and other keys in each cell of a grid, with a sampler."""

from collections.abc import Generator, Iterator, Sequence
from typing import Self

import numpy as np

from dimsweep.sweeper.config.compose import ComposedConfig
from dimsweep.sweeper.ledger.record import PrunedCell, StudyRecord
from dimsweep.sweeper.ledger.rows import RECHECK
from dimsweep.sweeper.questions.split.grid import Grid, build_grid
from dimsweep.sweeper.run.checkpoint import Incumbents, SearchCheckpoint, find_ended_rows
from dimsweep.sweeper.run.loop import (
    AnswerQuestion,
    Results,
    Search,
    SingleRound,
    SweepDriver,
    Work,
)
from dimsweep.sweeper.search import Sampler, Values
from dimsweep.sweeper.space.trials import Floats, Setting, Trial, Trials
from dimsweep.sweeper.study.cell import CellPlan, PlannedCell

_SHARE = 4  # of workers, that a batch of thousands keeps busy for a few tenths of a second


class SamplerSearch:
    """Base class of searches that request trials from a sampler, in rounds, up to a budget.

    ``cell`` has the settings of the search. ``n_asked`` counts the trials of an earlier run.
    """

    def __init__(self, cell: CellPlan, sampler: Sampler, n_asked: int = 0) -> None:
        self._settings, self.sampler = cell, sampler
        self._n_asked, self._first = n_asked, n_asked

    def lookahead(self, n_workers: int) -> float:
        # Where a gap ends the search, the trials asked for by then must not depend on workers.
        gap = self._settings.config.budget.gap
        return self.sampler.prefetch or 2 + (gap is None) * n_workers // _SHARE

    def propose(self) -> Trials | None:
        """Return the next trials from the sampler; None once the budget is spent."""
        left = self._settings.budget - self._n_asked
        wanted = self.sampler.batch or self._settings.config.search.batch
        if wanted > left and (left or self._n_asked > self._first):
            self.prepare_last_round()
        if not left:
            return None
        trials = Trials.from_list(self.sampler.ask(min(wanted, left)))
        self._n_asked += len(trials)
        return trials

    def prepare_last_round(self) -> None:
        """Prepare for a round that the budget shortens or drops; called before the last round."""


class CellSearch(SamplerSearch):
    """The search of one cell, resumed from its checkpoint if the ledger has one."""

    def __init__(self, cell: CellPlan, driver: SweepDriver) -> None:
        self._cell, self._driver = cell, driver
        self._checkpoint = SearchCheckpoint(cell, driver.ledger)
        self.incumbents: Incumbents = self._checkpoint.incumbents
        super().__init__(cell, self._checkpoint.sampler, self._checkpoint.n_trials)
        self._count_resumed()

    def _count_resumed(self) -> None:
        n, places, progress = self._n_asked, self._checkpoint.places, self._driver.progress
        progress.reused += n
        for _, values, _ in self._driver.ledger.iterate_results(places):
            self._driver.count(self._cell, values)
        progress.done += n - len(places)

    def ask(self) -> Sequence[Work]:
        if self._cell.is_settled(self._driver.progress.best.get(self._cell.cell.number)):
            return ()
        trials = self.propose()
        return () if trials is None else [Work(self._cell, trials)]

    def prepare_last_round(self) -> None:
        self._checkpoint.prepare_last_round()

    def tell(self, results: Sequence[Results]) -> None:
        for each in results:
            trials = each.work.trials
            if self.sampler.prefetch is not None:
                self.sampler.tell(trials, known_rows(each.values), known_rows(each.slopes))
            self.incumbents.add(trials, each.values)
            self._checkpoint.tell(each.places)

    def finish(self) -> None:
        """Record in the ledger that the search has ended."""
        self._checkpoint.finish()


def search_cell(cell: CellPlan, driver: SweepDriver) -> Generator[Search, None, Incumbents]:
    """Yield the searches of a cell to run: its own, then the rechecks of its best designs.

    Return the best designs.
    """
    search = CellSearch(cell, driver)
    yield search
    search.finish()
    yield from recheck(cell, search.incumbents.designs())
    return search.incumbents


def recheck(cell: CellPlan, designs: list[Trial]) -> Iterator[SingleRound]:
    """Yield a round that simulates the best ``designs`` again at each higher fidelity.

    A later round has the best designs of the round before. Trial numbers continue the search's.
    """
    first, sign = cell.budget, cell.objective[0].sign
    for fidelity, top in cell.config.recheck.rungs:
        again = {"fidelity": fidelity.value}
        trials = [
            Trial(first + i, RECHECK, design.bandwidth, Setting({**design.parameters, **again}))
            for i, design in enumerate(designs[:top])
        ]
        search = SingleRound([Work(cell, Trials.from_list(trials), is_own=False)])
        yield search
        losses = np.nan_to_num(sign * search.results[0].values[:, 0], nan=np.inf)
        designs = [designs[i] for i in np.argsort(losses, kind="stable").tolist()]
        first += len(trials)


class CellsQuestion(AnswerQuestion):
    """The question of the best bandwidth split and the best values of searched keys in each cell.

    A large grid is a stream: its cells are planned and searched one after the other.
    """

    def __init__(self, grid: Grid) -> None:
        self.source = grid
        self._planned, self._streams = list[PlannedCell](), False

    @classmethod
    def from_study(cls, composed: ComposedConfig) -> Self | None:
        """Return the question of a study, which every study may ask."""
        return cls(Grid(composed, build_grid(composed.config), may_prune=True))

    def set_cells(self, planned: Sequence[PlannedCell], *, streams: bool) -> None:
        self._planned, self._streams = list(planned), streams

    @property
    def n_trials(self) -> int:
        """Maximum number of trials; for a stream of cells, an estimate from its first cell."""
        own = [each.plan.budget + each.plan.recheck for each in self._planned]
        return len(self.source) * own[0] if self._streams else sum(own)

    def searches(self, study: StudyRecord, driver: SweepDriver) -> Iterator[Search]:
        for cell in self._stream(driver) if self._streams else self._cells:
            yield from search_cell(cell, driver)
            if self._streams:
                driver.progress.best.pop(cell.cell.number, None)

    def _stream(self, driver: SweepDriver) -> Iterator[CellPlan]:
        """Yield the plans of the cells that an earlier run did not finish."""
        progress, ledger, grid = driver.progress, driver.ledger, self.source
        for number in range(len(grid)):
            if ledger.find_pruned(number) is not None:
                progress.pruned += 1
            elif (places := find_ended_rows(ledger, grid.composed.config, number)) is not None:
                driver.count_ended(places)
            elif isinstance(found := grid.plan(number), PrunedCell):
                ledger.add_pruned(number, found)
                progress.pruned += 1
            else:
                ledger.add_cell(found.record)
                yield found.plan

    def plan_cell(self, number: int) -> CellPlan | None:
        if self._streams:
            return super().plan_cell(number)
        return next((each for each in self._cells if each.cell.number == number), None)

    @property
    def _cells(self) -> list[CellPlan]:
        return [each.plan for each in self._planned]


def known_rows(rows: Floats) -> list[Values]:
    """Return each row of an array as a tuple of its known numbers; None for a row with NaN only."""
    if not rows.shape[1]:
        return [None] * len(rows)
    known = ~np.isnan(rows)
    if known.all():
        return list(map(tuple, rows.tolist()))
    return [tuple(row[own].tolist()) or None for row, own in zip(rows, known, strict=True)]
