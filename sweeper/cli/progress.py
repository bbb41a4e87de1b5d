"""A live bar while a sweep runs, on a terminal only."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sweeper.run import driver
from sweeper.study.plan import StudyPlan


@contextmanager
def progress_bar(plan: StudyPlan, console: Console) -> "Iterator[_Bar]":
    """A bar with trials, trials/s, the best value so far and the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[best]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        yield _Bar(plan, bar)


class _Bar:
    def __init__(self, plan: StudyPlan, bar: Progress) -> None:
        self._bar, self._objective = bar, plan.study.objectives[0]
        total = sum(cell.budget + cell.recheck for cell in plan.cells)
        total += sum(cell.budget for one in plan.portfolios for cell in one.cells)
        self._task = bar.add_task(plan.study.name, total=total, rate="", best="")

    def update(self, progress: driver.Progress) -> None:
        task = self._bar.tasks[self._task]
        self._bar.update(
            self._task,
            completed=progress.done,
            rate=f"{task.speed:,.0f} trials/s" if task.speed else "",
            best=f"best {self._show(progress)}" if progress.best else "",
        )

    def _show(self, progress: driver.Progress) -> str:
        value = progress.best[max(progress.best)][0]
        return self._objective.show(value)
