"""Show the progress of a sweep: a live bar on a terminal, or a line a minute elsewhere."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dimsweep.sweeper.report.words import fine_percent
from dimsweep.sweeper.run import loop
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.terminal import format_count, print_line

_EVERY = 60.0  # seconds between lines
_LEAST = 10.0  # seconds that a rate is taken from


@contextmanager
def progress_bar(plan: StudyPlan, console: Console) -> "Iterator[Watch]":
    """Return a context with a :class:`Watch` that shows the progress of a sweep of ``plan``."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        yield Watch(plan, bar, console)


class Watch:
    """Shows the progress of a sweep.

    It shows trials, trials/s, use of the workers, failures by cause, reused trials, the best value
    with its gap to the bound, and the time left.
    """

    def __init__(self, plan: StudyPlan, bar: Progress, console: Console) -> None:
        self._plan, self._bar, self._console = plan, bar, console
        self._objective = plan.study.objectives[0]
        self._total = plan.n_trials
        self._task = bar.add_task(plan.study.name, total=self._total, text="")
        self._started = self._told = time.monotonic()
        self._recent: deque[tuple[float, int]] = deque()  # when how many trials had ended

    def update(self, progress: loop.Progress) -> None:
        """Show the progress, or print a line if the last one is a minute old."""
        now = time.monotonic()
        self._remember(progress.done, now)
        if self._console.is_terminal:
            text = self.text(progress, now - self._started)
            self._bar.update(self._task, completed=progress.done, text=text)
        elif now - self._told >= _EVERY:
            self._told = now
            print_line(f"{self._plan.study.name}: {self._line(progress, now)}", self._console)

    def _line(self, progress: loop.Progress, now: float) -> str:
        seconds = now - self._started
        if self._plan.study.is_certified:  # which ends when nothing can be better
            return self.text(progress, seconds)
        left = self.seconds_left()
        known = "time left not known yet" if left is None else f"{left:,.0f} s left"
        return f"{self.text(progress, seconds)}, {known}"

    def _remember(self, done: int, now: float) -> None:
        """Record the number of finished trials over the last minute; compilation is left out."""
        if done:
            self._recent.append((now, done))
        while len(self._recent) > 2 and now - self._recent[1][0] >= _EVERY:
            self._recent.popleft()

    def seconds_left(self) -> float | None:
        """Return the estimated remaining seconds at the last minute's rate; None if unknown."""
        if not self._recent:
            return None
        (first, before), (last, done) = self._recent[0], self._recent[-1]
        if done == before or last - first < _LEAST:
            return None
        return (self._total - done) * (last - first) / (done - before)

    def text(self, progress: loop.Progress, seconds: float) -> str:
        """Return the progress as text, ``seconds`` after the start."""
        by_inputs = progress.failed - progress.lost
        counts = {
            "known already": progress.reused,
            "from other cells or studies": progress.borrowed,
            "failed or infeasible": by_inputs,
            "lost to the machine": progress.lost,
        }
        new = max(progress.done - progress.reused - progress.borrowed, 0)
        busy = progress.engine_seconds / max(seconds * progress.workers, 1e-9)
        nodes = f" on {format_count(progress.nodes, 'node')}" if progress.nodes > 1 else ""
        parts = [
            f"{progress.done:,} of {self._total:,} trials",
            f"{new / max(seconds, 1e-9):,.0f} trials/s",
            f"{format_count(progress.workers, 'worker')}{nodes} {min(busy, 1.0):.0%} busy",
            *(f"{n:,} {what}" for what, n in counts.items() if n > 0),
        ]
        return ", ".join(parts) + self._format_best(progress)

    def _format_best(self, progress: loop.Progress) -> str:
        """Return the best value of the latest search that has one, as text."""
        if not progress.best:
            return ""
        number = max(progress.best)
        value = progress.best[number][0]
        bound = progress.bound
        text = f", best {self._objective.show(value)}"
        if bound is not None:
            text += f", {fine_percent(self._objective.gap(value, bound))} from the bound"
        return text
