"""What is told of a sweep while it runs."""

from collections.abc import Callable

import pytest
from rich.console import Console

from dimsweep.sweeper.cli.progress import progress_bar
from dimsweep.sweeper.run.loop import Progress, StudyPlan
from dimsweep.sweeper.search import explain_choice

Small = Callable[..., StudyPlan]


def test_all_that_is_known_is_told(small: Small) -> None:
    plan = small("budget.trials=2000")
    bound = plan.cells[0].bound
    assert bound is not None
    progress = Progress(
        done=1500,
        reused=200,
        borrowed=100,
        failed=7,
        lost=2,
        engine_seconds=30.0,
        workers=4,
        nodes=2,
    )
    with progress_bar(plan, Console(quiet=True)) as watch:
        assert watch.text(progress, 10.0) == (
            "1,500 of 2,000 trials, 120 trials/s, 4 workers on 2 nodes 75% busy, "
            "200 known already, 100 from other cells or studies, "
            "5 failed or infeasible, 2 lost to the machine"
        )
        progress.best[0], progress.bound = (1.01 * bound,), bound
        assert watch.text(progress, 10.0).endswith("1% from the bound")


def test_where_there_is_no_terminal_a_line_is_told_each_minute(
    small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 59.0, 61.0, 80.0])
    monkeypatch.setattr("dimsweep.sweeper.cli.progress.time.monotonic", lambda: next(now, 0.0))
    with progress_bar(small("budget.trials=100"), Console(width=200)) as watch:
        for done in (10, 50, 60):
            watch.update(Progress(done=done))
    (line,) = capsys.readouterr().out.strip().splitlines()
    assert line.startswith("libra_gpt3_4d: 50 of 100 trials, 1 trials/s, 1 worker 0% busy")
    assert line.endswith("time left not known yet"), "two seconds are no rate"


def test_the_time_left_is_that_of_the_last_minutes_rate(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep of 458 s compiles for 60 s, its first trials are slow, and it then simulates 15 a
    second.  The mean since the start would predict 180,000 s at first."""
    recorded = [(60.5, 2), (62.0, 4), (120.0, 900), (240.0, 2740), (380.0, 4850), (458.0, 6000)]
    clock = iter([0.0, *(at for at, _ in recorded)])
    monkeypatch.setattr("dimsweep.sweeper.cli.progress.time.monotonic", lambda: next(clock, 0.0))
    with progress_bar(small("budget.trials=6000"), Console(quiet=True)) as watch:
        left = []
        for _, done in recorded:
            watch.update(Progress(done=done))
            left.append(watch.seconds_left())
    assert left[:2] == [None, None], "two seconds are no rate"
    actual = [458.0 - at for at, _ in recorded[2:]]
    assert left[2:] == pytest.approx(actual, rel=0.05), "within 5 % of the time really left"


def test_what_is_known_already_has_no_rate(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 70.0, 130.0])
    monkeypatch.setattr("dimsweep.sweeper.cli.progress.time.monotonic", lambda: next(clock, 0.0))
    with progress_bar(small("budget.trials=2000"), Console(quiet=True)) as watch:
        for done in (1500, 1500, 1800):
            watch.update(Progress(done=done, reused=1500))
    assert watch.seconds_left() == pytest.approx(40.0)


def test_auto_says_why_it_hands_over(small: Small) -> None:
    for trials, told in ((1000, False), (1001, True)):
        plan = small(f"budget.trials={trials}", "collective.chunks=1")
        (cell,) = plan.study.cells
        assert bool(explain_choice(plan.config, cell.sampler, cell.trials)) == told
    assert explain_choice(small("search=random").config, "random", 40) is None


def test_a_grid_says_that_it_is_cut(small: Small) -> None:
    for step, told in (("50 GB/s", False), ("1 GB/s", True)):
        plan = small("search=grid", "budget.trials=200", f"space.bandwidth.step={step}")
        (cell,) = plan.study.cells
        assert bool(explain_choice(plan.config, cell.sampler, cell.trials)) == told
