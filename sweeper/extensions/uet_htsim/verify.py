"""Recorded runs of Ultra Ethernet's public simulator, beside ours with several seeds."""

from dataclasses import dataclass
from pathlib import Path
from time import process_time

import click
import numpy as np
from rich.console import Console

from dimsweep.sweeper.extensions.uet_htsim import VERIFICATION
from dimsweep.sweeper.extensions.uet_htsim.runs import Recorded, read_runs
from dimsweep.sweeper.extensions.verify.golden import recorded
from dimsweep.sweeper.extensions.verify.points import (
    Value,
    console_for,
    json_option,
    print_json,
    relative,
    say_left_out,
)
from dimsweep.sweeper.report.summary import Floats
from dimsweep.sweeper.terminal import plural, say, table, waiting

_SEEDS = 5
_EXACT = 0.001  # of the last completion, where nothing depends on chance
_DEVIATIONS = 3  # of the last completion over seeds, where something does

_COLUMNS = ("run", "first", "ours", "last", "ours", "", "+-", "sent again", "ours", "CPU")


@dataclass(frozen=True)
class Compared:
    """A run, and ours by seed: first and last completions (us), packets sent again, CPU."""

    run: Recorded
    firsts: Floats
    lasts: Floats
    resent: Floats
    cpu: float

    @property
    def point(self) -> Value:
        """The last completion, which is judged by the deviation of ours."""
        deviation = float(self.lasts.std(ddof=1))
        mean = float(self.lasts.mean())
        allowed = max(_EXACT, _DEVIATIONS * deviation * (1 + 1 / _SEEDS) ** 0.5 / mean)
        source = VERIFICATION.source
        return Value(
            self.run.name, self.run.last, mean, relative(allowed), source, "us", basis="recorded"
        )

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns of the table."""
        run, point = self.run, self.point
        _, _, _, difference, allowed, verdict = point.cells
        return (
            f"{run.name}{'' if point.holds else f' ({verdict})'}",
            *(f"{x:,.1f}" for x in (run.first, self.firsts.mean(), run.last, self.lasts.mean())),
            difference,
            allowed.removeprefix("±"),
            f"{run.resent:,}",
            f"{self.resent.mean():,.0f}",
            f"{run.cpu / self.cpu:.0f}x" if self.cpu else "",
        )


def _compared(run: Recorded) -> Compared:
    assert run.experiment is not None
    began = process_time()
    ours = [run.experiment.run(seed) for seed in range(_SEEDS)]
    cpu = (process_time() - began) / _SEEDS
    ends = np.array([each.ends for each in ours]) / 10**6
    resent = np.array([each.resent.sum() for each in ours], np.float64)
    return Compared(run, ends.min(1), ends.max(1), resent, cpu)


def compare(folder: Path, *, as_json: bool) -> int:
    """Simulate the recorded runs, and print both; the exit code is 1 if some last completion is
    farther off than chance explains."""
    console = console_for(as_json)
    compared, left_out, compiled = list[Compared](), list[str](), set[bool]()
    with waiting("simulating recorded runs", console):
        for run in read_runs(folder):
            if run.experiment is None:
                left_out.append(run.left_out)
                continue
            if (kernel := run.experiment.options.credits) not in compiled:
                run.experiment.run()  # once before, so that no time is the compiler's
                compiled.add(kernel)
            compared.append(_compared(run))
    say_left_out(left_out, "run", console)
    if as_json:
        print_json([each.point for each in compared])
    else:
        _report(compared, console)
    return int(not all(each.point.holds for each in compared))


def _report(compared: list[Compared], console: Console) -> None:
    console.print(table(_COLUMNS, [each.cells for each in compared]))
    good = sum(each.point.holds for each in compared)
    told = "last within 0.1% or three deviations of ours over seeds"
    say(f"{good} of {plural(len(compared), 'run')}: {told}; times in us", console)


@click.command("uet")
@click.argument(
    "folder", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@json_option
def command(folder: Path | None, as_json: bool) -> int:
    """Compare recorded runs of Ultra Ethernet's public simulator, by first and last flow.

    FOLDER holds runs.jsonl, and the connection matrices and topologies that it names; the recorded
    ones unless given. Each is simulated with five seeds. The last completion must be within 0.1%,
    or three standard deviations of ours where hashes and draws decide; the exit code is 1 if any
    is not. CPU is how many times less ours takes, set-up included.

    \b
    Example:
      dimsweep verify uet tests/golden/uet
    """
    return compare(folder or recorded("uet", "FOLDER"), as_json=as_json)
