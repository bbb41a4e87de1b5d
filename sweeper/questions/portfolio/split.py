"""Search one bandwidth split for several workloads, after a search for each workload alone."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from dimsweep.engine import DimsweepError
from dimsweep.engine.bound import EventBound, Weighing
from dimsweep.sweeper.config.compose import ComposedConfig
from dimsweep.sweeper.ledger.record import WORKLOAD, PortfolioRecord, StudyRecord
from dimsweep.sweeper.ledger.rows import BANDWIDTH, EXTRA_ORIGINS, PORTFOLIO
from dimsweep.sweeper.questions.portfolio.portfolio import (
    SharedMeasure,
    build_weighing,
    find_common_designs,
    find_design_row,
)
from dimsweep.sweeper.questions.split.grid import Grid, build_grid
from dimsweep.sweeper.questions.split.search import (
    CellsQuestion,
    SamplerSearch,
    known_rows,
    search_cell,
)
from dimsweep.sweeper.run.checkpoint import Incumbents
from dimsweep.sweeper.run.loop import Results, Search, SweepDriver, Work
from dimsweep.sweeper.search import make_sampler
from dimsweep.sweeper.space.trials import Trial, Trials
from dimsweep.sweeper.study.cell import CellPlan, PlannedCell


@dataclass(frozen=True)
class SplitPortfolio:
    """Cells that differ only in their workload, and the weighing of these workloads.

    ``models`` are the bounds on their times, by workload; {} if a cell has no proven bound.
    """

    cells: list[CellPlan]
    weighing: Weighing
    models: dict[str, EventBound]

    @classmethod
    def from_cells(cls, planned: Sequence[PlannedCell], weighing: Weighing) -> Self:
        """Return the portfolio of the cells ``planned``, one for each workload."""
        models = {
            each.plan.cell.coordinates[WORKLOAD]: EventBound(
                each.program, each.plan.space.split.linear()
            )
            for each in planned
            if each.plan.bound is not None and each.plan.space.split is not None
        }
        cells = [each.plan for each in planned]
        return cls(cells, weighing, models if len(models) == len(cells) else {})

    def describe(self) -> PortfolioRecord:
        """Return the record of the portfolio before it is searched."""
        return PortfolioRecord(
            cells=tuple(cell.cell.number for cell in self.cells),
            measure=self.weighing.measure.value,
            level=self.weighing.level,
            share=tuple(self.weighing.share.tolist()),
        )

    def shared_measure(self, own: Sequence[Incumbents]) -> SharedMeasure:
        """Return the common measure, with ``own``: the best loss of each workload alone."""
        values = []
        for cell, best in zip(self.cells, own, strict=True):
            if best.value is None:
                raise DimsweepError(
                    f"no trial of {cell.cell.coordinates[WORKLOAD]} is complete, so its "
                    "optimum is unknown",
                    where="portfolio.workloads",
                    hint="dimsweep report says what failed",
                    code="infeasible",
                )
            values.append(best.value)
        if not min(values) > 0:
            raise DimsweepError(
                "a workload takes 0 s, so its regret is undefined",
                where="portfolio",
                code="unsupported",
            )
        objective = self.cells[0].objective[0]
        return SharedMeasure(self.weighing, objective.loss(np.array(values)), objective)


class SplitPortfolioSearch(SamplerSearch):
    """The search of the one split; each split is simulated for all workloads.

    ``found``: the best split of each workload, and the proven bound of the measure.
    """

    def __init__(self, portfolio: SplitPortfolio, own: Sequence[Incumbents]) -> None:
        self._cells, one = portfolio.cells, portfolio.cells[0]
        self._together = together = portfolio.shared_measure(own)
        models = portfolio.models
        proven = together.proven(models, one.space, one.prices) if models else None
        least = None if proven is None else proven.bandwidth
        self.found = {
            "own": tuple(together.own.tolist()),
            "bound": None if proven is None else proven.bound,
        }
        self._asked = deque[Trials]()  # in flight
        first = _first_trials(one, own, least)
        super().__init__(one, make_sampler(one.config, one.space, first, one.prices))

    def ask(self) -> Sequence[Work]:
        trials = self.propose()
        if trials is None:
            return ()
        self._asked.append(trials)
        return [
            Work(cell, trials.renumber(cell.budget, PORTFOLIO), is_own=False)
            for cell in self._cells
        ]

    def tell(self, results: Sequence[Results]) -> None:
        values = zip(*(known_rows(each.values) for each in results), strict=True)
        slopes = zip(*(known_rows(each.slopes) for each in results), strict=True)
        weighed = [self._together.combine(*pair) for pair in zip(values, slopes, strict=True)]
        self.sampler.tell(
            self._asked.popleft(), [value for value, _ in weighed], [slope for _, slope in weighed]
        )


def _first_trials(
    one: CellPlan, own: Sequence[Incumbents], least: np.ndarray | None
) -> list[Trial]:
    """Return the first splits to try.

    They are each workload's best split, the split with the least bound, and general ones.
    """
    found = [best.trial for best in own]
    if least is not None and one.space.split is not None:
        nearest = tuple(one.space.split.nearest(least).tolist())
        found.append(Trial(0, "bound", nearest, found[0].parameters))
    found += [trial for trial in one.first if trial.origin in ("equal", "middle", "known")]
    return [replace(trial, number=i) for i, trial in enumerate(found)]


class SplitPortfolioQuestion(CellsQuestion):
    """The question of the best common bandwidth split for several workloads.

    Each workload is a separate cell, on the last axis of the grid, and is searched first.
    """

    def __init__(self, grid: Grid, weighing: Weighing) -> None:
        super().__init__(grid)
        self._weighing = weighing
        self._portfolios = list[SplitPortfolio]()
        self._found = dict[int, dict[str, Any]]()

    @classmethod
    def from_study(cls, composed: ComposedConfig) -> Self | None:
        """Return the question of a study with a portfolio."""
        weighing = build_weighing(composed.config)
        if weighing is None:
            return None
        return cls(Grid(composed, build_grid(composed.config), may_prune=False), weighing)

    def set_cells(self, planned: Sequence[PlannedCell], *, streams: bool) -> None:
        super().set_cells(planned, streams=streams)
        n = len(self._weighing.share)
        self._portfolios = [
            SplitPortfolio.from_cells(planned[first : first + n], self._weighing)
            for first in range(0, len(planned), n)
        ]

    @property
    def n_trials(self) -> int:
        shared = 0 if self._streams else sum(c.budget for p in self._portfolios for c in p.cells)
        return super().n_trials + shared

    def record_fields(self) -> Mapping[str, Any]:
        return {"portfolios": tuple(each.describe() for each in self._portfolios)}

    def searches(self, study: StudyRecord, driver: SweepDriver) -> Iterator[Search]:
        if self._streams:
            yield from super().searches(study, driver)
            return
        best = dict[int, Incumbents]()
        for cell in self._cells:
            best[cell.cell.number] = yield from search_cell(cell, driver)
        for i, portfolio in enumerate(self._portfolios):
            search = SplitPortfolioSearch(
                portfolio, [best[cell.cell.number] for cell in portfolio.cells]
            )
            yield search
            self._found[i] = search.found
            driver.ledger.describe(self.add_findings(study))  # which a stopped sweep keeps

    def add_findings(self, study: StudyRecord) -> StudyRecord:
        for i, found in self._found.items():
            study = study.with_portfolio(i, **found)
        return study

    def select_answers(self, rows: pa.Table, study: StudyRecord) -> pa.Table:
        """Return the row of each workload at its portfolio's one split."""
        found = list[int]()
        names = BANDWIDTH.among(rows.column_names)
        table = rows.to_pandas().sort_values("trial", kind="stable")
        shared = table["origin"] == PORTFOLIO
        table = table[shared | ~table["origin"].isin(EXTRA_ORIGINS)].assign(shared=shared)
        table = table.sort_values("shared", kind="stable")  # a cell's own trials come first
        for one, entry in zip(self._portfolios, study.portfolios, strict=True):
            cells = [table[table["cell"] == cell.cell.number] for cell in one.cells]
            splits = [name for name in names if cells[0][name].notna().any()]
            objective = one.cells[0].objective[0]
            designs, losses = find_common_designs(cells, [*splits, *study.parameters], objective)
            if entry.own is not None and len(designs):
                together = SharedMeasure(one.weighing, np.array(entry.own), objective)
                design = designs.iloc[together.best_design(losses)]
                found += [int(find_design_row(own, design).name) for own in cells]
        return rows.take(pa.array(found, pa.int64()))
