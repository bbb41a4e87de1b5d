"""What a study will do: the cells of its grid, and the portfolios that they make up."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine import MODEL_VERSION, DimsweepError, InfeasibleError, Program
from engine.bound import EventBound, Weighing
from sweeper.config.compose import Composed, compose, is_group
from sweeper.config.schema import RUNTIME_KEYS, Config
from sweeper.ledger.place import Place, place
from sweeper.ledger.record import CellRecord, PortfolioRecord, PrunedCell, StudyRecord
from sweeper.ledger.rows import ROWS_VERSION, row_schema
from sweeper.search import Sampler, learns_from_slopes, make_sampler
from sweeper.space.trials import Trial
from sweeper.study.cell import CellPlan, describe, plan_cell
from sweeper.study.content import digests
from sweeper.study.portfolio import WORKLOAD, grid_of, weighing_of
from sweeper.study.provenance import provenance
from sweeper.study.rules import once


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
    """A whole study; ``study`` is what the ledger keeps of it."""

    folder: Place
    study: StudyRecord
    schema: pa.Schema
    cells: list[CellPlan]
    portfolios: list[PortfolioPlan]
    config: Config


@dataclass(frozen=True)
class _Cells:
    """The planned cells of a grid, beside one another, and those that cannot be."""

    plans: list[CellPlan]
    records: list[CellRecord]
    programs: list[Program]
    pruned: list[PrunedCell]


def plan_study(composed: Composed) -> StudyPlan:
    """The plan of a composed study.  Raises :class:`DimsweepError` for anything that is wrong with
    it, before anything is simulated."""
    config, name = composed.config, study_name(composed)
    try:
        weighing, grid = weighing_of(config), grid_of(config)
    except DimsweepError as error:
        raise composed.blame(error) from error.__cause__
    cells = _plan_cells(composed, grid, may_prune=weighing is None)
    parameters = list(cells.plans[0].space.parameters)
    portfolios = [] if weighing is None else _portfolios(weighing, cells)
    study = StudyRecord(
        name=name,
        model=MODEL_VERSION,
        rows=ROWS_VERSION,
        objective=tuple(each.name for each in config.objective),
        grid=tuple(grid),
        parameters=tuple(parameters),
        learns_from_slopes=any(learns_from_slopes(cell.sampler) for cell in cells.records),
        warnings=tuple(once(plan.warnings for plan in cells.plans)),
        cells=tuple(cells.records),
        pruned=tuple(cells.pruned),
        portfolios=tuple(each.describe() for each in portfolios),
        provenance=(provenance(),),
        config={key: value for key, value in config.text.items() if key not in RUNTIME_KEYS}
        | {"files": digests(config)},
    )
    n_dims = max(len(cell.dims) for cell in cells.records)
    schema = row_schema(n_dims, list(grid), parameters)
    folder = place(config.results) / name
    return StudyPlan(folder, study, schema, cells.plans, portfolios, config)


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


def _plan_cells(
    composed: Composed, grid: Mapping[str, tuple[Any, ...]], *, may_prune: bool
) -> _Cells:
    """All cells of the grid; without those that cannot be, if they may be left out."""
    cells = _Cells([], [], [], [])
    for number, (coordinates, cell) in enumerate(compose_cells(composed, grid)):
        turned = [*composed.overridden, *composed.config.grid, *cell.config.space.parameters]
        try:
            plan, program = plan_cell(number, coordinates, cell, turned)
        except DimsweepError as error:
            blamed = cell.blame(error)
            if not isinstance(error, InfeasibleError) or not coordinates or not may_prune:
                raise blamed from error.__cause__
            cells.pruned.append(PrunedCell(coordinates=coordinates, error=str(error)))
            continue
        cells.plans.append(plan)
        cells.records.append(describe(plan, program))
        cells.programs.append(program)
    if not cells.plans:
        raise blamed
    return cells


def compose_cells(
    composed: Composed, grid: Mapping[str, tuple[Any, ...]]
) -> list[tuple[dict[str, str], Composed]]:
    """Each combination of the grid's values, composed with them: options of config groups as
    overrides, and then the values of other keys."""
    if not grid:
        return [({}, composed)]
    kept = [o for o in composed.overrides if o.lstrip("+").split("=")[0] not in grid]
    cells = []
    for combination in itertools.product(*grid.values()):
        ours = dict(zip(grid, combination, strict=True))
        options = [f"{key}={value}" for key, value in ours.items() if is_group(key)]
        values = {key: value for key, value in ours.items() if not is_group(key)}
        label = {key: _label(value) for key, value in ours.items()}
        cells.append((label, compose([*kept, *options], values)))
    return cells


def _label(value: Any) -> str:
    """A grid's value in a table."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_label(v)}" for key, v in value.items())
    return str(value)


def _portfolios(weighing: Weighing, cells: _Cells) -> list[PortfolioPlan]:
    """A portfolio for each combination of the rest of the grid; its workloads are neighbours."""
    n, found = len(weighing.share), []
    for first in range(0, len(cells.plans), n):
        members, models = cells.plans[first : first + n], {}
        for cell, program in zip(members, cells.programs[first : first + n], strict=True):
            if cell.bound is not None and cell.space.split is not None:
                name = cell.cell.coordinates[WORKLOAD]
                models[name] = EventBound(program, cell.space.split.linear())
        found.append(PortfolioPlan(members, weighing, models if len(models) == n else {}))
    return found
