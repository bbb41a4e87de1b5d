"""What a study will do: the cells of its grid, and the portfolios that they make up."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine import MODEL_VERSION, DimsweepError, InfeasibleError
from engine.bound import EventBound, Weighing
from sweeper.config.compose import Composed
from sweeper.config.schema import RUNTIME_KEYS, Config
from sweeper.ledger.place import Place, place
from sweeper.ledger.record import PortfolioRecord, PrunedCell, StudyRecord
from sweeper.ledger.rows import ROWS_VERSION, row_schema
from sweeper.search import Sampler, learns_from_slopes, make_sampler
from sweeper.space.trials import Trial
from sweeper.study.cell import CellPlan
from sweeper.study.change import check_keys
from sweeper.study.content import digests
from sweeper.study.grid import Grid, PlannedCell
from sweeper.study.portfolio import WORKLOAD, grid_of, weighing_of
from sweeper.study.provenance import provenance
from sweeper.study.rules import once

LARGE = 256  # cells; up to so many a grid is planned as a whole before anything is simulated
_LOOKED_AT = 64  # cells of a larger one


@dataclass(frozen=True)
class PortfolioPlan:
    """Cells that differ in their workload alone, and how these count together.

    ``models`` are the bounds on their times, by workload; none where a cell has no proven bound.
    """

    cells: list[CellPlan]
    weighing: Weighing
    models: dict[str, EventBound]

    def sampler(self, first: list[Trial]) -> Sampler:
        """A new sampler of the split for all workloads, which proposes ``first`` first."""
        one = self.cells[0]
        return make_sampler(one.config, one.space, first, one.prices)

    def describe(self) -> PortfolioRecord:
        """What is known of a portfolio before it is searched."""
        return PortfolioRecord(
            cells=tuple(cell.cell.number for cell in self.cells),
            measure=self.weighing.measure.value,
            level=self.weighing.level,
            share=tuple(self.weighing.share.tolist()),
        )


@dataclass(frozen=True)
class StudyPlan:
    """A whole study; ``study`` is what the ledger keeps of it.

    ``cells`` are all cells that can be.  Of a large grid they are only some, which were looked at
    before anything is simulated; all of them are planned, one after the other, by its ``stream``.
    """

    folder: Place
    study: StudyRecord
    schema: pa.Schema
    cells: list[CellPlan]
    portfolios: list[PortfolioPlan]
    config: Config
    stream: Grid | None = None

    @property
    def n_trials(self) -> int:
        """How many trials there are at most; of a large grid, how many there would be if all cells
        were as the first one."""
        own = [cell.budget + cell.recheck for cell in self.cells]
        if self.stream is not None:
            return len(self.stream) * own[0]
        return sum(own) + sum(cell.budget for one in self.portfolios for cell in one.cells)


def plan_study(composed: Composed) -> StudyPlan:
    """The plan of a composed study.  Raises :class:`DimsweepError` for anything that is wrong with
    it, before anything is simulated."""
    config, name = composed.config, study_name(composed)
    try:
        weighing, axes = weighing_of(config), grid_of(config)
    except DimsweepError as error:
        raise composed.blame(error) from error.__cause__
    grid = Grid(composed, axes, may_prune=weighing is None)
    planned, pruned = _plan_cells(grid)
    cells = [each.plan for each in planned]
    is_large = len(grid) > LARGE
    try:
        check_what_ifs(config, cells)
    except DimsweepError as error:
        raise composed.blame(error) from error.__cause__
    parameters = list(cells[0].space.parameters)
    portfolios = [] if weighing is None else _portfolios(weighing, planned)
    study = StudyRecord(
        name=name,
        model=MODEL_VERSION,
        rows=ROWS_VERSION,
        objective=tuple(each.name for each in config.objective),
        grid=tuple(axes),
        parameters=tuple(parameters),
        learns_from_slopes=any(learns_from_slopes(each.record.sampler) for each in planned),
        warnings=tuple(once(plan.warnings for plan in cells)),
        n_streamed=len(grid) if is_large else None,
        cells=() if is_large else tuple(each.record for each in planned),
        pruned=() if is_large else tuple(pruned),
        portfolios=tuple(each.describe() for each in portfolios),
        provenance=(provenance(),),
        config={key: value for key, value in config.text.items() if key not in RUNTIME_KEYS}
        | {"files": digests(config)},
    )
    n_dims = max(len(each.record.dims) for each in planned)
    schema = row_schema(n_dims, list(axes), parameters)
    folder = place(config.results) / name
    stream = grid if is_large else None
    return StudyPlan(folder, study, schema, cells, portfolios, config, stream)


def check_what_ifs(config: Config, cells: Sequence[CellPlan]) -> None:
    """Raise :class:`DimsweepError` for a change that the design of no cell can have."""
    if isinstance(config.what_if, str) or not config.what_if:
        return
    if config.portfolio.workloads:
        raise DimsweepError(
            "the one split of a portfolio is not changed",
            where="what_if",
            hint="a study of one of its workloads can ask it",
        )
    for name, changes in config.what_if.items():
        errors = list[DimsweepError]()
        for cell in cells:
            try:
                check_keys(cell.config, changes)
                break
            except DimsweepError as error:
                errors.append(error)
        if len(errors) == len(cells):
            raise errors[0].at(f"what_if.{name}")


def study_name(composed: Composed) -> str:
    """The name of a study's folder in the results folder."""
    name = composed.config.name or composed.study
    if not name:
        raise DimsweepError(
            "no study is named",
            where="study",
            hint="give study=NAME (`dimsweep list study` shows them), or name=NAME for a sweep "
            "without a study's file",
        )
    if not re.fullmatch(r"[\w][\w.+-]*", name):
        raise DimsweepError(f"{name!r} cannot name a folder", where="name")
    return name


def _plan_cells(grid: Grid) -> tuple[list[PlannedCell], list[PrunedCell]]:
    """The cells of a grid, or those of a large one that show what is wrong with it, and those that
    cannot be."""
    planned, pruned = list[PlannedCell](), list[PrunedCell]()
    for number in range(len(grid)) if len(grid) <= LARGE else grid.corners(_LOOKED_AT):
        found = grid.plan(number)
        if isinstance(found, PrunedCell):
            pruned.append(found)
        else:
            planned.append(found)
    if not planned:
        raise InfeasibleError(f"no cell of the grid can be; the first: {pruned[0].error}")
    return planned, pruned


def _portfolios(weighing: Weighing, cells: list[PlannedCell]) -> list[PortfolioPlan]:
    """A portfolio for each combination of the rest of the grid; its workloads are neighbours."""
    n, found = len(weighing.share), []
    for first in range(0, len(cells), n):
        members, models = [each.plan for each in cells[first : first + n]], {}
        for cell, each in zip(members, cells[first : first + n], strict=True):
            if cell.bound is not None and cell.space.split is not None:
                name = cell.cell.coordinates[WORKLOAD]
                models[name] = EventBound(each.program, cell.space.split.linear())
        found.append(PortfolioPlan(members, weighing, models if len(models) == n else {}))
    return found
