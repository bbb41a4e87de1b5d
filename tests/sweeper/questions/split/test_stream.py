"""A large grid is planned and searched cell by cell, with the rows that it has as a small one."""

from collections.abc import Callable
from pathlib import Path

import pytest

import dimsweep.sweeper.questions.plan
from dimsweep import load
from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.diff import diff
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.record import read_study
from dimsweep.sweeper.questions.split.grid import Grid
from dimsweep.sweeper.run.executor import make_executor
from dimsweep.sweeper.run.loop import Progress, StudyPlan, run_sweep
from dimsweep.sweeper.run.reproduce import reproduce
from tests.support.studies import run

Small = Callable[..., StudyPlan]
# The second half of the cells has the trials of the first, and a fifth divides no dimension.
GRID = "+grid={search.batch: [2, 4], workload.parallel.tensor: [16, 32, 5, 64]}"
WORDS = ["search=random", "collective.chunks=1", "budget.trials=4"]
WORDS += ["roles={workload.parallel.tensor: scenario}"]  # each degree leaves other replicas


@pytest.fixture
def large(small: Small, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], StudyPlan]:
    """Plans a grid that counts as large."""

    def plan(results: str) -> StudyPlan:
        monkeypatch.setattr(dimsweep.sweeper.questions.plan, "LARGE", 3)
        monkeypatch.setattr(dimsweep.sweeper.questions.plan, "MAX_CHECKED_CELLS", 2)
        return small(*WORDS, GRID, results=results)

    return plan


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the cells that are planned."""
    numbers, plan = list[int](), Grid.plan

    def noted(self: Grid, number: int) -> object:
        numbers.append(number)
        return plan(self, number)

    monkeypatch.setattr(Grid, "plan", noted)
    return numbers


@pytest.mark.long
def test_a_large_grid_has_the_rows_of_a_small_one(
    small: Small, large: Callable[[str], StudyPlan], planned: list[int]
) -> None:
    whole = small(*WORDS, GRID, results="whole")
    before = run(whole)
    plan = large("large")
    assert (len(plan.cells), plan.n_trials) == (2, 32)
    planned.clear()
    progress = run(plan)
    assert planned == list(range(8))
    assert (progress.done, progress.borrowed) == (before.done, before.borrowed)
    assert load(plan.folder).equals(load(whole.folder))
    assert diff(plan.folder, whole.folder).only == (0, 0)
    assert not reproduce(plan.folder).differ
    record, other = read_study(plan.folder), read_study(whole.folder)
    # How many trials there are at most is known where all cells are planned first.
    assert record.model_copy(update={"n_streamed": None, "n_trials": other.n_trials}) == other
    assert '"cells": []' in (plan.folder / "study.json").read_text()


def test_a_stopped_one_goes_on_where_it_stopped(
    large: Callable[[str], StudyPlan], planned: list[int]
) -> None:
    plan, whole = large("parts"), large("whole")
    run(whole)

    def watch(progress: Progress) -> None:
        if progress.done >= 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(plan, watch=watch)
    planned.clear()
    progress = run(large("parts"))
    assert planned[2:] == list(range(3, 8)), "after those that are looked at first"
    assert (progress.done, progress.failed) == (24, 0)
    assert load(plan.folder).equals(load(whole.folder))
    planned.clear()
    assert run(plan).done == 24
    assert not planned, "what is over is not planned again"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[content.index(b"coordinates")] ^= 1
    file.write_bytes(bytes(content))


@pytest.mark.long
@pytest.mark.parametrize("harm", [cut, flip, Path.unlink])
def test_cells_that_were_lost_are_planned_again(
    large: Callable[[str], StudyPlan], harm: Callable[[Path], None]
) -> None:
    plan = large("results")
    run(plan)
    rows, record = load(plan.folder), read_study(plan.folder)
    (file,) = plan.folder.glob("cells-*")
    harm(file)
    if harm is flip:
        with pytest.raises(DimsweepError, match="checksum is wrong"):
            read_study(plan.folder)
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        assert ("its cells are planned again" in " ".join(ledger.notes)) == (harm is flip)
        inline = {"executor.mode": "inline", "executor.timeout": None, "executor.memory": None}
        executor = make_executor(plan.config.with_values(inline), [], plan.schema)
        progress = run_sweep(plan, ledger, executor, lambda _: None)
    assert progress.done == progress.reused == 24
    assert load(plan.folder).equals(rows)
    assert read_study(plan.folder) == record
