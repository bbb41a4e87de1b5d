"""Running and reporting a study from the command line."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from engine import is_compiled
from sweeper.cli.progress import progress_bar
from sweeper.cli.simulation import print_warnings
from sweeper.config.compose import Composed
from sweeper.ledger.ledger import Ledger, load
from sweeper.ledger.record import read_study
from sweeper.run.driver import Progress, run_sweep
from sweeper.run.executor import make_executor
from sweeper.study.plan import StudyPlan, plan_study

INTERRUPTED = 130


def sweep_study(composed: Composed, console: Console) -> int:
    """Run (or resume) a study and report it; returns the exit code."""
    if not is_compiled():
        console.print("compiling the simulation kernel (once for an installation, half a minute)")
    plan = plan_study(composed)
    print_warnings(plan.study.warnings, console)
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        before = len(ledger.values)
        if before:
            console.print(
                f"resuming: {plan.folder} has {before} trials", highlight=False, soft_wrap=True
            )
        started = time.monotonic()
        executor = make_executor(plan.config, [cell.cell for cell in plan.cells], plan.schema)
        try:
            with _terminable(), progress_bar(plan, console) as bar:
                progress = run_sweep(plan, ledger, executor, bar.update)
        except KeyboardInterrupt:
            console.print(
                f"\nstopped: {len(ledger.values)} trials are safe in {plan.folder}; "
                "the same command goes on",
                highlight=False,
                soft_wrap=True,
            )
            return INTERRUPTED
        finally:
            executor.close()
    _tell(plan, progress, len(ledger.values) - before, time.monotonic() - started, console)
    report_study(plan.folder, console)
    return 0


def report_study(folder: Path, console: Console) -> None:
    """Print a study's table and write its pictures and page."""
    from sweeper.report import print_report, write_report

    study = read_study(folder).model_dump()
    rows = load(folder).to_pandas()
    print_report(rows, study, console)
    for file in write_report(rows, study, folder / "report"):
        console.print(f"wrote {file}", highlight=False, soft_wrap=True)


def _tell(plan: StudyPlan, progress: Progress, new: int, seconds: float, console: Console) -> None:
    text = f"{plan.study.name}: {new} trials simulated in {seconds:.1f} s"
    if progress.reused:
        text += f", {progress.reused} known already"
    if progress.failed:
        text += f", {progress.failed} failed or infeasible"
    if pruned := plan.study.pruned:
        n = len(plan.cells) + len(pruned)
        text += f"; {len(pruned)} of {n} cells of the grid are infeasible, the first because of "
        text += pruned[0].error.splitlines()[0]
    console.print(text, highlight=False, soft_wrap=True)


@contextmanager
def _terminable() -> Iterator[None]:
    """Within it a SIGTERM is a KeyboardInterrupt, so that a scheduler's stop loses nothing."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
