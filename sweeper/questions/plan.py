"""Plan a study: find its questions, compose and check its cells."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from dimsweep.engine import MODEL_VERSION, DimsweepError
from dimsweep.sweeper.config.compose import ComposedConfig
from dimsweep.sweeper.config.roles import read_weights, resolve_roles
from dimsweep.sweeper.config.schema import Config, Design, Question
from dimsweep.sweeper.ledger.place import parse_place
from dimsweep.sweeper.ledger.record import PrunedCell, StudyRecord
from dimsweep.sweeper.ledger.rows import ROWS_VERSION, row_schema
from dimsweep.sweeper.objective import plugin_objectives
from dimsweep.sweeper.questions.baseline import BaselineQuestion, Baselines
from dimsweep.sweeper.questions.networks.search import NetworksQuestion
from dimsweep.sweeper.questions.portfolio.networks import SharedNetworksQuestion
from dimsweep.sweeper.questions.portfolio.split import SplitPortfolioQuestion
from dimsweep.sweeper.questions.split.grid import MAX_CHECKED_CELLS
from dimsweep.sweeper.questions.split.search import CellsQuestion
from dimsweep.sweeper.questions.what_if.search import WhatIfQuestion, check_changes
from dimsweep.sweeper.run.loop import AnswerQuestion, StudyPlan
from dimsweep.sweeper.search import learns_from_slopes
from dimsweep.sweeper.space.space import check_values
from dimsweep.sweeper.study.cell import CellPlan, CellSource, PlannedCell
from dimsweep.sweeper.study.content import input_digests
from dimsweep.sweeper.study.plugin_checks import plugin_warnings
from dimsweep.sweeper.study.provenance import provenance
from dimsweep.sweeper.study.rules import merge_warnings
from dimsweep.sweeper.study.work import check_work

LARGE = 256  # cells; a smaller grid is planned completely before anything is simulated
_MAX_NAME_LENGTH = 200  # characters of a name; file systems take 255 bytes


#: The questions that studies ask; the first whose ``from_study`` is not None answers a study.
#: A new question is a module with a class that derives from ``AnswerQuestion``, and a line here.
QUESTIONS: list[type[AnswerQuestion]] = [
    SharedNetworksQuestion,
    NetworksQuestion,
    SplitPortfolioQuestion,
    CellsQuestion,
]


def plan_study(composed: ComposedConfig) -> StudyPlan:
    """Return the plan of a composed study: its questions and their cells.

    Raises :class:`DimsweepError` for mistakes in the study.
    """
    config, name = composed.config, study_name(composed)
    with composed.adding_sources():
        question = next(filter(None, (each.from_study(composed) for each in QUESTIONS)))
        source = question.source
        roles, weights = resolve_roles(config, source.axes), read_weights(config, source.axes)
        today = Baselines(composed, source.axes, roles, len(source))
    planned, pruned = _plan_cells(source)
    baselines, no_baselines = _separate(map(today.plan, _cells_to_check(today)))
    cells = [each.plan for each in planned]
    with composed.adding_sources():
        check_changes(config, cells)
        check_values(cells[0].config)
        works = [(each.record, each.plan.config.workload) for each in (*planned, *baselines)]
        check_work(config, roles, works)
    streams = not _is_small(source)
    question.set_cells(planned, streams=streams)
    study = StudyRecord(
        name=name,
        note=config.note,
        model=MODEL_VERSION,
        rows=ROWS_VERSION,
        objective=tuple(each.name for each in config.objective),
        foreign=plugin_objectives(config.objective),
        grid=tuple(source.axes),
        parameters=tuple(cells[0].space.parameters),
        roles=roles,
        weights=weights,
        baseline=config.baseline,
        learns_from_slopes=any(learns_from_slopes(each.record.sampler) for each in planned),
        warnings=(*today.warnings, *_warnings(cells)),
        n_trials=question.n_trials + len(today if streams else baselines),
        finished=False,
        cells=tuple(each.record for each in planned),
        pruned=tuple(pruned),
        baselines=tuple(each.record for each in baselines),
        no_baselines=tuple(no_baselines),
        provenance=(provenance(),),
        config=recorded_config(config),
        **question.record_fields(),
    )
    n_dims = max(len(each.record.dims) for each in (*planned, *baselines))
    schema = row_schema(n_dims, study.grid, study.parameters)
    today_cells = [each.plan for each in baselines]
    of_today = BaselineQuestion(today, None if streams else today_cells)
    return StudyPlan(
        parse_place(config.results) / name,
        study.streamed(len(source)) if streams else study,
        schema,
        config,
        cells,
        today_cells,
        questions=[of_today, question, WhatIfQuestion(config, schema, question, of_today)],
        stream=source if streams else None,
    )


def recorded_config(config: Config) -> dict[str, Any]:
    """Return the keys that results depend on as plain data, with digests of the named files."""
    names = (*Design.model_fields, *Question.model_fields)
    return {**{name: config.text[name] for name in names}, "files": input_digests(config)}


def _warnings(cells: list[CellPlan]) -> list[str]:
    """Return warnings about the checked cells, and about keys without effect in all of them."""
    first, *others = cells[:MAX_CHECKED_CELLS]
    idle = [warning for key, warning in first.idle.items() if all(key in c.idle for c in others)]
    failing = merge_warnings(plugin_warnings(plan.cell.config) for plan in cells)
    return [*failing, *merge_warnings(plan.warnings for plan in cells), *idle]


def study_name(composed: ComposedConfig) -> str:
    """Return the name of a study's folder in the results folder."""
    name = composed.config.name or composed.study
    if not name:
        raise DimsweepError(
            "no study is named",
            where="study",
            hint="give study=NAME (`dimsweep list study` shows them), or name=NAME for a sweep "
            "without a study's file",
            code="missing",
        )
    if not re.fullmatch(r"[\w][\w.+-]*", name) or len(name) > _MAX_NAME_LENGTH:
        what = f"{name!r} cannot name a folder"
        most = f"up to {_MAX_NAME_LENGTH} letters, digits, _, ., + and -"
        hint = f"name=NAME, with {most}, a letter first"
        raise DimsweepError(what, where="name", hint=hint, code="invalid")
    return name


def _plan_cells(source: CellSource) -> tuple[list[PlannedCell], list[PrunedCell]]:
    """Return the plans of the cells and the infeasible cells; of many, check the corners only."""
    source.check_size()
    planned, pruned = _separate(map(source.plan, _cells_to_check(source)))
    if planned:
        return planned, pruned
    for found in map(source.plan, source.alternatives()):
        if isinstance(found, PlannedCell):
            return [found], pruned
        pruned.append(found)
    raise source.infeasible_error(pruned)


def _cells_to_check(cells: CellSource) -> Sequence[int]:
    """Return the numbers of all cells, or of the corners if there are many cells."""
    return range(len(cells)) if _is_small(cells) else cells.corners(MAX_CHECKED_CELLS)


def _is_small(cells: CellSource) -> bool:
    """Return whether all cells are planned before anything is simulated."""
    return not cells.always_streams and len(cells) <= LARGE


def _separate(
    found: Iterable[PlannedCell | PrunedCell],
) -> tuple[list[PlannedCell], list[PrunedCell]]:
    """Return the feasible cells and the infeasible cells of ``found``."""
    planned, pruned = list[PlannedCell](), list[PrunedCell]()
    for each in found:
        if isinstance(each, PrunedCell):
            pruned.append(each)
        else:
            planned.append(each)
    return planned, pruned
