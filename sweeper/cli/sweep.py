"""The command dimsweep sweep: run a study, or continue it."""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from dimsweep.sweeper.cli.overrides import Asked, hydra_options, overrides

if TYPE_CHECKING:
    from rich.console import Console

    from dimsweep.sweeper.config.compose import ComposedConfig
    from dimsweep.sweeper.run.loop import Progress, StudyPlan


INTERRUPTED = 130


@click.command("sweep")
@click.option(
    "--retry-failed", is_flag=True, help="Simulate failed trials again, whatever failed them."
)
@click.option("--full", is_flag=True, help="Print the whole report, not only the answer.")
@overrides
@hydra_options
def sweep_command(overrides: Sequence[str], retry_failed: bool, full: bool, asked: Asked) -> int:
    """Run a study, or continue it.

    A study is a file in studies/. Every result is written to results/NAME at once, so the command
    may be stopped in any way: the same command continues, and nothing is simulated twice. At the
    end the study is reported.

    A trial that a fault of the machine failed (a killed worker, a time-out, no memory, a missing
    file) is tried again at once, and by the next run; one that failed by its own inputs is not,
    unless --retry-failed says so.

    \b
    Usual keys:
      STUDY, study=STUDY     the study to run: a name of `dimsweep list study`, or a file
      name=NAME              another name for the results, such as after a change of the study
      budget.trials=N        how many trials the search may simulate
      search=NAME            auto, descent, random, qmc, grid, tpe, cmaes, gp or nsga2
      executor=NAME          where trials run: local, inline (no Ray) or address (a Ray cluster)
      KEY=A,B KEY=choice(A,B) KEY=range(START,STOP,STEP) KEY=interval(LOW,HIGH)
                             Hydra's sweeps: axes of the grid, or values to be searched

    \b
    Examples:
      dimsweep sweep libra_gpt3_4d
      dimsweep sweep libra_gpt3_4d search=cmaes budget.trials=1000 name=my_cmaes
      dimsweep sweep studies/mine.yaml executor.actors=4
      dimsweep sweep libra_gpt3_4d workload=gpt3_libra,turing_nlg_libra name=two_models
    """
    from rich.console import Console

    from dimsweep.sweeper.config.compose import compose

    overrides = asked.with_places(overrides)
    if asked.print_configuration(overrides, may_sweep=True):
        return 0
    composed = compose(overrides, may_sweep=True)
    return sweep_study(composed, Console(), retry_failed=retry_failed, full=full)


def sweep_study(
    composed: "ComposedConfig",
    console: "Console",
    *,
    retry_failed: bool = False,
    full: bool = False,
) -> int:
    """Run a study, or resume it, and print its report; return the exit code."""
    from dimsweep.engine import DimsweepError, is_compiled
    from dimsweep.sweeper.cli.progress import progress_bar
    from dimsweep.sweeper.ledger.ledger import Ledger
    from dimsweep.sweeper.questions.plan import plan_study
    from dimsweep.sweeper.run.executor import LostClusterError
    from dimsweep.sweeper.run.session import run_in_ledger
    from dimsweep.sweeper.terminal import print_line, print_warnings

    config = composed.config
    if not is_compiled(config.fidelity, config.network.packets.transport):
        print_line(
            "compiling the simulation kernel (once for an installation, about a minute)", console
        )
    plan = plan_study(composed)
    _introduce(plan, console)
    with Ledger(plan.folder, plan.study, plan.schema, retry_failed=retry_failed) as ledger:
        print_warnings(ledger.notes, console)
        before = len(ledger.index)
        if before:
            print_line(f"resuming: {plan.folder} has {before} rows", console)
        started = time.monotonic()
        try:
            with interruptible() as check, progress_bar(plan, console) as bar:

                def watch(progress: "Progress") -> None:
                    check()
                    bar.update(progress)

                progress = run_in_ledger(
                    ledger, plan, watch, notify=lambda text: print_line(text, console, "yellow")
                )
        except KeyboardInterrupt:
            n = len(ledger.index)
            safe = f": {n} rows are safe in {plan.folder}" if n else " before the first trial"
            print_line(f"\nstopped{safe}; the same command continues", console)
            return INTERRUPTED
        except LostClusterError as error:
            raise DimsweepError(
                f"{error.problem}; {len(ledger.index)} rows are safe in {plan.folder}",
                hint="the same command continues, once there is a cluster",
                code="inaccessible",
            ) from error
    new = len(ledger.index) - before - progress.borrowed
    seconds = time.monotonic() - started
    text = _summary(plan, progress, new, before, seconds)
    print_line(text, console)
    _report(plan, console, text, full=full)
    return 0


def _introduce(plan: "StudyPlan", console: "Console") -> None:
    """Print warnings about the designs, and notes on the search."""
    from dimsweep.sweeper.report.remarks import merged
    from dimsweep.sweeper.search import explain_choice
    from dimsweep.sweeper.terminal import print_line, print_warnings

    print_warnings([each.line for each in merged(plan.study.warnings)], console)
    # The record has none of a large grid.
    searches = zip(plan.cells, plan.study.cells, strict=False)
    reasons = [
        explain_choice(cell.config, record.sampler, record.trials) for cell, record in searches
    ]
    for text in dict.fromkeys(filter(None, reasons)):
        print_line(text, console)


def _report(plan: "StudyPlan", console: "Console", summary: str, *, full: bool) -> None:
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.cli.report import report_study

    try:
        report_study(plan.folder, console, full=full, before=summary)
    except OSError as error:
        raise DimsweepError(
            f"the report cannot be written: {error.strerror or error}; all rows are safe",
            where=str(plan.folder),
            hint="dimsweep report, with the same study or name, writes it later",
            code="inaccessible",
        ) from error


def _summary(plan: "StudyPlan", progress: "Progress", new: int, before: int, seconds: float) -> str:
    """Return the numbers of ``new`` rows of this run and of rows known ``before``, as text.

    The report counts only the searches' trials among them.
    """
    from dimsweep.sweeper.terminal import format_count

    extra_trials = {"shared trial": progress.extra["portfolio"]}
    extra_trials |= {name: progress.extra[name] for name in ("recheck", "baseline")}
    extra_trials["what-if"] = progress.what_ifs
    trials = new - sum(extra_trials.values())
    text = f"{plan.study.name}: {trials} trials simulated in {seconds:.1f} s"
    if before:
        text += f", {before} known already"
    if progress.borrowed:
        text += f", {progress.borrowed} taken from other cells or studies"
    if others := [format_count(n, name) for name, n in extra_trials.items() if n]:
        text += f", {' and '.join(others)} beside them"
    if progress.failed:
        text += f", {progress.failed} failed or infeasible"
    if progress.lost:
        text += f", {progress.lost} of them lost to faults of the machine (the same command tries "
        text += "them again)"
    if progress.pruned:
        text += f"; {progress.pruned} cells of the grid are infeasible"
    if pruned := plan.study.pruned:
        n = len(plan.cells) + len(pruned)
        text += f"; {len(pruned)} of {n} cells of the grid are infeasible, the first because of "
        text += pruned[0].error.splitlines()[0]
    return text


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Return a context that turns SIGTERM into KeyboardInterrupt, so that no row is lost.

    Its value is a function to call periodically. It raises a KeyboardInterrupt that Python dropped:
    exceptions are lost while an object, such as Ray's handles, is finalised. The dropped one is not
    printed.
    """
    came = False

    def interrupt(*_: Any) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    def report_dropped(dropped: "sys.UnraisableHookArgs") -> None:
        if dropped.exc_type is not KeyboardInterrupt:
            previous_hook(dropped)

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    previous_hook, sys.unraisablehook = sys.unraisablehook, report_dropped
    try:
        yield check
    finally:
        sys.unraisablehook = previous_hook
        for number, handler in before.items():
            signal.signal(number, handler)
