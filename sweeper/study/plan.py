"""What a study will do: the cells of its grid, and the portfolios that they make up."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine import MODEL_VERSION, DimsweepError, InfeasibleError, Program
from engine.bound import EventBound, Weighing
from sweeper.config.compose import Composed, compose, plain
from sweeper.config.schema import RUNTIME_KEYS
from sweeper.ledger.record import PortfolioRecord, PrunedCell, StudyRecord
from sweeper.ledger.rows import ROWS_VERSION, row_schema
from sweeper.objective import parse_objectives
from sweeper.search import LEARN_FROM_SLOPES, Sampler, make_sampler
from sweeper.space.space import Trial
from sweeper.study.cell import CellPlan, describe, digests, plan_cell
from sweeper.study.portfolio import WORKLOAD, grid_of, weighing_of
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
        """A new search of the split for all workloads, which proposes ``first`` first."""
        one = self.cells[0]
        return make_sampler(one.cell.config, one.space, first, one.objective, one.prices)


@dataclass(frozen=True)
class StudyPlan:
    """A whole study; ``study`` is what the ledger keeps of it."""

    folder: Path
    study: StudyRecord
    schema: pa.Schema
    cells: list[CellPlan]
    portfolios: list[PortfolioPlan]
    config: dict[str, Any]


def plan_study(composed: Composed) -> StudyPlan:
    """The plan of a composed study.  Raises :class:`DimsweepError` for anything that is wrong with
    it, before anything is simulated."""
    config = plain(composed.config)
    name = _name(composed, config)
    objective = parse_objectives(config["objective"])
    weighing, axes = weighing_of(config, objective), grid_of(config)
    composed_cells = _compose_cells(composed, axes)
    cells: list[CellPlan] = []
    described, programs, pruned = [], [], []
    for number, (coordinates, cell_composed) in enumerate(composed_cells):
        try:
            cell_config = plain(cell_composed.config)
            turned = [*composed.overridden, *config["grid"], *cell_config["space"]["parameters"]]
            plan, program = plan_cell(number, coordinates, cell_config, objective, turned)
        except DimsweepError as error:
            blamed = cell_composed.blame(error)
            if not isinstance(error, InfeasibleError) or not coordinates or weighing is not None:
                raise blamed from error.__cause__
            pruned.append(PrunedCell(coordinates=coordinates, error=str(error)))
            continue
        cells.append(plan)
        described.append(describe(plan, program))
        programs.append(program)
    if not cells:
        raise blamed
    grid, parameters = list(axes), list(cells[0].space.parameters)
    portfolios = [] if weighing is None else _portfolios(weighing, cells, programs)
    n_dims = max(len(cell.dims) for cell in described)
    study = StudyRecord(
        name=name,
        model=MODEL_VERSION,
        rows=ROWS_VERSION,
        objective=tuple(each.name for each in objective),
        grid=tuple(grid),
        parameters=tuple(parameters),
        learns_from_slopes=any(cell.sampler in LEARN_FROM_SLOPES for cell in described),
        warnings=tuple(once(plan.warnings for plan in cells)),
        cells=tuple(described),
        pruned=tuple(pruned),
        portfolios=tuple(_describe_portfolio(one) for one in portfolios),
        config={key: config[key] for key in config if key not in RUNTIME_KEYS}
        | {"files": digests(config)},
    )
    schema = row_schema(n_dims, grid, parameters)
    return StudyPlan(Path(config["results"]) / name, study, schema, cells, portfolios, config)


def study_name(composed: Composed) -> str:
    """The name of a study's folder in the results folder."""
    return _name(composed, plain(composed.config))


def _name(composed: Composed, config: Mapping[str, Any]) -> str:
    name = config["name"] or composed.study
    if not name:
        raise DimsweepError(
            "which study?", where="study", hint="study=NAME, or name=NAME for yours"
        )
    if not re.fullmatch(r"[\w][\w.+-]*", name):
        raise DimsweepError(f"{name!r} cannot name a folder", where="name")
    return str(name)


def _compose_cells(
    composed: Composed, grid: Mapping[str, Any]
) -> list[tuple[dict[str, str], Composed]]:
    """Each combination of the grid's values, composed with them as overrides."""
    if not grid:
        return [({}, composed)]
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise DimsweepError("a list of values", where=f"grid.{key}")
    cells = []
    for values in itertools.product(*grid.values()):
        ours = dict(zip(grid, values, strict=True))
        kept = [o for o in composed.overrides if o.lstrip("+").split("=")[0] not in ours]
        cell = compose([*kept, *(f"{key}={_quoted(value)}" for key, value in ours.items())])
        cells.append(({key: _label(value) for key, value in ours.items()}, cell))
    return cells


def _label(value: Any) -> str:
    """A grid's value in a table."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_label(v)}" for key, v in value.items())
    return str(value)


def _quoted(value: Any) -> str:
    """A value as Hydra's override grammar wants it: like JSON, but for the keys of mappings."""
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_quoted(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_quoted, value)) + "]"
    return json.dumps(value)


def _portfolios(
    weighing: Weighing, cells: list[CellPlan], programs: list[Program]
) -> list[PortfolioPlan]:
    """A portfolio for each combination of the rest of the grid; its workloads are neighbours."""
    n, found = len(weighing.share), []
    for first in range(0, len(cells), n):
        members, models = cells[first : first + n], {}
        for cell, program in zip(members, programs[first : first + n], strict=True):
            if cell.bound is not None and cell.space.split is not None:
                name = cell.cell.coordinates[WORKLOAD]
                models[name] = EventBound(program, cell.space.split.linear())
        found.append(PortfolioPlan(members, weighing, models if len(models) == n else {}))
    return found


def _describe_portfolio(plan: PortfolioPlan) -> PortfolioRecord:
    """What is known of a portfolio before it is searched."""
    return PortfolioRecord(
        cells=tuple(cell.cell.number for cell in plan.cells),
        measure=plan.weighing.measure.value,
        level=plan.weighing.level,
        share=tuple(plan.weighing.share.tolist()),
    )
