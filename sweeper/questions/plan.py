"""What a study will do: the cells of its grid, and the portfolios that they make up."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dimsweep.engine import MODEL_VERSION, DimsweepError, InfeasibleError
from dimsweep.engine.bound import EventBound, Weighing
from dimsweep.sweeper.config.compose import Composed
from dimsweep.sweeper.config.roles import roles_of, weights_of
from dimsweep.sweeper.config.schema import Config, Design, Question
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.ledger.place import Place, place
from dimsweep.sweeper.ledger.record import WORKLOAD, PortfolioRecord, PrunedCell, StudyRecord
from dimsweep.sweeper.ledger.rows import ROWS_VERSION, Cell
from dimsweep.sweeper.ledger.schema import row_schema
from dimsweep.sweeper.objective import of_plugins
from dimsweep.sweeper.questions.baseline import Baselines
from dimsweep.sweeper.questions.networks.designs import Designs
from dimsweep.sweeper.questions.portfolio.designs import SharedDesigns, designs_of
from dimsweep.sweeper.questions.portfolio.portfolio import grid_of, weighing_of
from dimsweep.sweeper.questions.split.grid import LOOKED_AT, Grid
from dimsweep.sweeper.questions.what_if.change import check_keys
from dimsweep.sweeper.search import Sampler, learns_from_slopes, make_sampler
from dimsweep.sweeper.space.space import check_values
from dimsweep.sweeper.space.trials import Trial
from dimsweep.sweeper.study.cell import CellPlan, PlannedCell
from dimsweep.sweeper.study.content import digests
from dimsweep.sweeper.study.plugin_checks import failing_plugins
from dimsweep.sweeper.study.provenance import provenance
from dimsweep.sweeper.study.rules import once
from dimsweep.sweeper.study.work import check_work

MOST_CELLS = 1_000_000
LARGE = 256  # cells; up to so many a grid is planned as a whole before anything is simulated
_LONGEST = 200  # characters of a name; file systems take 255 bytes


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
    ``baselines`` are the design that there is today in each combination of the scenarios; those of
    a large grid are likewise planned by ``stream_baselines``.
    """

    folder: Place
    study: StudyRecord
    schema: pa.Schema
    cells: list[CellPlan]
    portfolios: list[PortfolioPlan]
    config: Config
    stream: Grid | Designs | SharedDesigns | None = None
    baselines: tuple[CellPlan, ...] = ()
    stream_baselines: Baselines | None = None

    @property
    def simulated(self) -> list[Cell]:
        """The cells that workers are to know: of a large grid, each job brings its own."""
        return [plan.cell for plan in (*self.cells, *self.baselines)]

    @property
    def n_trials(self) -> int:
        """How many trials there are at most; of a large grid, how many there would be if all cells
        were as the first one."""
        return _most(
            self.cells,
            self.portfolios,
            self.stream,
            len(self.baselines if self.stream_baselines is None else self.stream_baselines),
        )


def plan_study(composed: Composed) -> StudyPlan:
    """The plan of a composed study.  Raises :class:`DimsweepError` for what is wrong with it."""
    config, name, designs = composed.config, study_name(composed), designs_of(composed)
    with composed.blaming():
        weighing = weighing_of(config) if designs is None else None
        grid = designs or Grid(composed, grid_of(config), may_prune=weighing is None)
        roles, weights = roles_of(config, grid.axes), weights_of(config, grid.axes)
        today = Baselines(composed, grid.axes, roles, len(grid))
    planned, pruned = _plan_cells(grid)
    baselines, no_baselines = _sorted(map(today.plan, _looked_at(today)))
    cells = [each.plan for each in planned]
    with composed.blaming():
        _check(config, roles, planned, baselines)
    portfolios = [] if weighing is None else _portfolios(weighing, planned)
    stream = None if _is_small(grid) else grid
    study = StudyRecord(
        name=name,
        note=config.note,
        model=MODEL_VERSION,
        rows=ROWS_VERSION,
        **_objectives(config),
        grid=tuple(grid.axes),
        parameters=tuple(cells[0].space.parameters),
        roles=roles,
        weights=weights,
        baseline=config.baseline,
        learns_from_slopes=any(learns_from_slopes(each.record.sampler) for each in planned),
        warnings=(*today.warnings, *_warnings(cells)),
        n_trials=_most(cells, portfolios, stream, len(today if stream else baselines)),
        finished=False,
        cells=tuple(each.record for each in planned),
        pruned=tuple(pruned),
        baselines=tuple(each.record for each in baselines),
        no_baselines=tuple(no_baselines),
        portfolios=tuple(each.describe() for each in portfolios),
        provenance=(provenance(),),
        config=_kept(config),
    )
    n_dims = max(len(each.record.dims) for each in (*planned, *baselines))
    return StudyPlan(
        place(config.results) / name,
        study if stream is None else study.streamed(len(grid)),
        row_schema(n_dims, study.grid, study.parameters),
        cells,
        portfolios,
        config,
        stream=stream,
        baselines=tuple(each.plan for each in baselines),
        stream_baselines=None if stream is None else today,
    )


def _check(
    config: Config,
    roles: Mapping[str, Role],
    planned: Sequence[PlannedCell],
    baselines: Sequence[PlannedCell],
) -> None:
    """Raise :class:`DimsweepError` for changes and values of which no cell can have any, and for
    designs that do not compete."""
    cells = [each.plan for each in planned]
    _check_what_ifs(config, cells)
    check_values(cells[0].config)
    check_work(config, roles, [*planned, *baselines])


def _objectives(config: Config) -> dict[str, Any]:
    """Their names, and what must be kept of those of plug-ins."""
    names = tuple(each.name for each in config.objective)
    return {"objective": names, "foreign": of_plugins(config.objective)}


def _kept(config: Config) -> dict[str, Any]:
    """What the ledger keeps of a configuration: what rows depend on, and what its files hold."""
    kept = {name: config.text[name] for name in (*Design.model_fields, *Question.model_fields)}
    return {**kept, "files": digests(config)}


def _warnings(cells: list[CellPlan]) -> list[str]:
    """What the rules say of the cells, and the keys that are idle in all that were looked at."""
    first, *others = cells[:LOOKED_AT]
    idle = [told for key, told in first.idle.items() if all(key in c.idle for c in others)]
    failing = once(failing_plugins(plan.cell.config) for plan in cells)
    return [*failing, *once(plan.warnings for plan in cells), *idle]


def _most(
    cells: list[CellPlan],
    portfolios: list[PortfolioPlan],
    stream: Grid | Designs | SharedDesigns | None,
    n_baselines: int,
) -> int:
    own = [cell.budget + cell.recheck for cell in cells]
    if isinstance(stream, Designs):
        return min(len(stream), stream.composed.config.budget.trials) + n_baselines
    if isinstance(stream, SharedDesigns):  # each workload alone, and then all of them
        return min(len(stream), 2 * len(stream.designs) * stream.composed.config.budget.trials)
    if stream is not None:
        return len(stream) * own[0] + n_baselines
    return sum(own) + sum(cell.budget for one in portfolios for cell in one.cells) + n_baselines


def _check_what_ifs(config: Config, cells: Sequence[CellPlan]) -> None:
    """Raise :class:`DimsweepError` for a change that the design of no cell can have."""
    if isinstance(config.what_if, str) or not config.what_if:
        return
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
    if not re.fullmatch(r"[\w][\w.+-]*", name) or len(name) > _LONGEST:
        what = f"{name!r} cannot name a folder"
        hint = f"name=NAME, with up to {_LONGEST} letters, digits, _, ., + and -, a letter first"
        raise DimsweepError(what, where="name", hint=hint)
    return name


def _plan_cells(grid: Grid | Designs | SharedDesigns) -> tuple[list[PlannedCell], list[PrunedCell]]:
    """The cells of a grid, or those of a large one that show what is wrong with it, and those that
    cannot be."""
    if isinstance(grid, Grid) and len(grid) > MOST_CELLS:
        hint = "space.parameters has a search draw from as many values, within a budget"
        what = f"a grid of {len(grid):,} cells; there may be {MOST_CELLS:,}"
        raise DimsweepError(what, where="grid", hint=hint)
    planned, pruned = _sorted(map(grid.plan, _looked_at(grid)))
    if not planned and not isinstance(grid, Grid):  # another plan may be feasible
        for found in map(grid.plan, grid.one_of_each()):
            if isinstance(found, PlannedCell):
                return [found], pruned
            pruned.append(found)
        reasons = ", ".join(dict.fromkeys(each.reason for each in pruned))
        raise InfeasibleError(f"no cell is feasible: {reasons}", where="space")
    if not planned:
        raise InfeasibleError(f"no cell of the grid can be; the first: {pruned[0].error}")
    return planned, pruned


def _looked_at(cells: Grid | Designs | SharedDesigns | Baselines) -> Sequence[int]:
    """All of them, or of many those that show what is wrong with them."""
    return range(len(cells)) if _is_small(cells) else cells.corners(LOOKED_AT)


def _is_small(cells: Grid | Designs | SharedDesigns | Baselines) -> bool:
    """Whether all of them are planned before anything is simulated."""
    return not isinstance(cells, Designs | SharedDesigns) and len(cells) <= LARGE


def _sorted(
    found: Iterable[PlannedCell | PrunedCell],
) -> tuple[list[PlannedCell], list[PrunedCell]]:
    """Plans, and what cannot be."""
    planned, pruned = list[PlannedCell](), list[PrunedCell]()
    for each in found:
        if isinstance(each, PrunedCell):
            pruned.append(each)
        else:
            planned.append(each)
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
