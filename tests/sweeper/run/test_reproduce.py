"""A study's rows can be simulated again from what it has kept, and two studies compared."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dimsweep import load
from dimsweep.sweeper.cli.main import dimsweep
from dimsweep.sweeper.ledger import ledger
from dimsweep.sweeper.ledger.diff import diff
from dimsweep.sweeper.ledger.record import read_study
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.run.reproduce import reproduce
from tests.support.refused import refused
from tests.support.studies import run

Small = Callable[..., StudyPlan]
AXES = (
    "{collective.chunks: {values: [1, 4]}, topology.latency: {low: 0.1 us, high: 2 us}, "
    "workload.batch: {low: 1, high: 8}}"
)

BATCH = "roles={workload.batch: decision}"


@pytest.mark.parametrize(
    "words",
    [
        ["search=random"],
        ["search=random", f"+space.parameters={AXES}", BATCH, "budget.trials=10"],
        ["+grid={workload: [gpt3_libra, turing_nlg_libra]}", "budget.trials=5"],
        ["space.bandwidth={total: null}", "+grid={collective.chunks: [2, 4]}"],
    ],
)
def test_every_row_is_the_same_again(small: Small, words: list[str]) -> None:
    plan = small(*words)
    run(plan)
    found = reproduce(plan.folder)
    assert found.rows == found.n_complete == len(load(plan.folder))
    assert not found.differ
    assert found.recorded == (found.current,)
    assert reproduce(plan.folder, sample=2).rows == 2


def test_what_is_not_the_same_is_named(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small("search=random", "budget.trials=5")
    run(plan)
    rows = load(plan.folder)
    place = rows.schema.get_field_index("time_ps")
    times = rows["time_ps"].to_pylist()
    changed = rows.set_column(place, rows.schema[place], [[times[0] + 1, *times[1:]]])
    monkeypatch.setattr(
        "dimsweep.sweeper.run.reproduce.Stored.in_order", lambda *_: iter([changed])
    )
    assert reproduce(plan.folder).differ == {(0, 0): ["time_ps"]}
    result = CliRunner().invoke(dimsweep, ["reproduce", str(plan.folder)], standalone_mode=False)
    assert result.return_value == 1
    assert "4 of 5 rows are the same" in result.output
    assert "cell 0, trial 0: time_ps differ" in result.output


def test_another_model_is_refused(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small("budget.trials=3")
    run(plan)
    monkeypatch.setattr("dimsweep.sweeper.run.reproduce.MODEL_VERSION", -1)
    with refused(plan.folder.name, "unsupported", "-1"):
        reproduce(plan.folder)


def test_a_study_says_once_what_wrote_it(small: Small) -> None:
    for trials in (3, 6):
        run(small(f"budget.trials={trials}"))
    plan = small("budget.trials=8")
    (first,) = plan.study.provenance
    other = first.model_copy(update={"version": "later"})
    run(plan)
    with ledger.Ledger(
        plan.folder, plan.study.model_copy(update={"provenance": (other,)}), plan.schema
    ):
        pass
    assert read_study(plan.folder).provenance == (first, other)
    assert first.packages["numpy"]


def test_two_studies_are_compared(small: Small) -> None:
    whole = small("search=random", "name=whole", results="apart")
    part = small("search=random", "budget.trials=30", "search.seed=0", "name=part")
    other = small("search=random", "budget.trials=30", "search.seed=1", "name=other")
    for plan in (whole, part, other):
        run(plan)
    found = diff(whole.folder, part.folder)
    assert (found.config, found.only, found.same, found.columns) == ({}, (10, 0), 30, {})
    found = diff(part.folder, other.folder)
    assert found.config == {"search.seed": (0, 1)}
    assert found.same == 3, "equal, proportional, bound"
    arguments = ["diff", str(part.folder), str(other.folder)]
    output = CliRunner().invoke(dimsweep, arguments, standalone_mode=False).output
    assert "search.seed: 0 -> 1" in output
    assert "27 rows are in" in output
    ((_, first, second),) = found.best
    assert f"best: {first!r} -> {second!r}" in output


def test_two_studies_without_a_common_row_are_compared(small: Small) -> None:
    one = small("search=random", "budget.trials=3", "name=one")
    two = small("search=random", "budget.trials=4", "collective.chunks=3", "name=two")
    for plan in (one, two):
        run(plan)
    assert (diff(one.folder, two.folder).only, diff(one.folder, two.folder).common) == ((3, 4), 0)
    arguments = ["diff", str(one.folder), str(two.folder)]
    output = CliRunner().invoke(dimsweep, arguments, standalone_mode=False).output
    assert "collective.chunks" in output and "no row is in both (3 are in" in output


def test_a_folder_that_is_no_study(tmp_path: Path) -> None:
    with refused(tmp_path.name, "missing", "dimsweep sweep"):
        reproduce(tmp_path)


def test_the_order_of_axes_makes_other_rows_and_another_study(small: Small) -> None:
    """A grid's plan is that of its cell, whatever the preset's is, and no row is another plan's."""
    plans = ["{tensor: 32, data: 128}", "{data: 128, tensor: 32}"]
    fixed = ["space.bandwidth={total: null}", "name=orders"]
    plan = small(*fixed, f"+grid={{workload.parallel: [{', '.join(plans)}]}}")
    run(plan)
    rows = load(plan.folder).to_pandas()
    assert rows["time_s"].nunique() == rows["key"].nunique() == 2
    assert not reproduce(plan.folder).differ
    with refused(plan.folder.name, "mismatch", "grid.workload.parallel", "name="):
        run(small(*fixed, f"+grid={{workload.parallel: [{', '.join(plans[::-1])}]}}"))
