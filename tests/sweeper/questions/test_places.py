"""How many places a new question, a new what-if and a new objective touch: one each, and a line."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dimsweep import load
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.objective import OBJECTIVES, TIME
from dimsweep.sweeper.questions import plan as planning
from dimsweep.sweeper.questions.findings import read_report
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.questions.split.grid import Grid, build_grid
from dimsweep.sweeper.questions.split.search import CellsQuestion
from dimsweep.sweeper.questions.what_if import catalogue
from dimsweep.sweeper.run.loop import Search, SingleRound, StudyPlan, SweepDriver, Work
from dimsweep.sweeper.space.trials import Trials
from tests.support.studies import SMALL, run

Small = Callable[..., StudyPlan]


class FirstTrialsQuestion(CellsQuestion):
    """What do the splits that every search tries first come to?  Nothing is searched."""

    @classmethod
    def from_study(cls, composed):  # type: ignore[no-untyped-def]
        asks = composed.config.note == "first trials"
        return cls(Grid(composed, build_grid(composed.config), may_prune=True)) if asks else None

    def searches(self, study: StudyRecord, driver: SweepDriver) -> Iterator[Search]:
        for cell in self._cells:
            yield SingleRound([Work(cell, Trials.from_list(cell.first))])


def test_a_new_question_is_a_class_and_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(planning, "QUESTIONS", [FirstTrialsQuestion, *planning.QUESTIONS])
    words = [*SMALL, "name=few", "note=first trials", f"results={tmp_path}"]
    few, others = plan_study(compose(words)), plan_study(compose([*words, "name=all", "note=null"]))
    progress = run(few)
    assert progress.done == len(few.cells[0].first) == len(load(few.folder))
    assert read_report(few.folder).headline
    run(others)
    assert len(load(others.folder)) == 40


def test_a_new_what_if_is_a_function_and_a_line(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chunks(asked: catalogue.DesignToChange) -> Iterator[tuple[str, catalogue.Changes]]:
        yield "chunks x4", {"collective.chunks": "x4"}

    monkeypatch.setattr(catalogue, "WHAT_IFS", [*catalogue.WHAT_IFS, chunks])
    plan = small("what_if=default")
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert "chunks x4" in set(rows["change"].dropna())


def test_a_new_objective_is_one_object(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = replace(TIME, name="wait", title="waiting time", says="waits for {}")
    monkeypatch.setitem(OBJECTIVES, "wait", wait)
    plan = small("objective=wait")
    run(plan)
    report = read_report(plan.folder)
    assert report.study.objectives == (wait,)
    assert plan.cells[0].bound is not None, "its column has a bound"
