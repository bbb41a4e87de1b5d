"""``dimsweep verify plans``: plans that others tried, and which of them dimsweep would choose.

An error of 10 % in every time leaves the choice of a plan right, and one of 3 % in some may not.
So the plans of one model, batch and number of nodes are ranked, too.  Their *regret* is how much
slower the plan that dimsweep prefers was measured than the fastest one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median

import click
from rich.console import Console

from dimsweep.engine import units
from dimsweep.sweeper.config.sources import read_values
from dimsweep.sweeper.extensions.verify.clusters import compare
from dimsweep.sweeper.extensions.verify.clusters.compared import Compared, Errors, group_rows
from dimsweep.sweeper.extensions.verify.clusters.plans import count_micro_batches
from dimsweep.sweeper.extensions.verify.clusters.report import print_rows
from dimsweep.sweeper.extensions.verify.clusters.systems import find_system
from dimsweep.sweeper.extensions.verify.clusters.tried_plans import read_plans
from dimsweep.sweeper.extensions.verify.points import (
    Value,
    find_recorded,
    json_option,
    print_json,
    within_range,
    within_share,
)
from dimsweep.sweeper.terminal import format_count, make_table, print_line, showing_progress

_RANKED = 5  # least number of plans that are ranked
_NODE = 8  # GPUs


@dataclass(frozen=True)
class Aim:
    """A statistic of the comparison, and the range in which it should be."""

    name: str
    ours: float
    least: float
    most: float
    rows: int

    @property
    def is_met(self) -> bool:
        """True if the statistic is in its range."""
        return self.least <= self.ours <= self.most

    def format_cells(self) -> tuple[str, ...]:
        """Return the aim as cells of a table."""
        ours, limit = f"{self.ours:.1%}", f"at most {self.most:.0%}"
        if self.least:
            ours, limit = f"{self.ours:.2f}", f"at least {self.least:.2f}"
        return (self.name, str(self.rows), ours, limit, "ok" if self.is_met else "MISSED")


@dataclass(frozen=True)
class Ranking:
    """The plans of one model, batch and number of GPUs that ran, and that fit in simulation."""

    name: str
    rows: Sequence[Compared]

    @property
    def regret(self) -> float:
        """Measured time of dimsweep's preferred plan, divided by the fastest's, minus 1."""
        measured = [row.values[0] for row in self.rows]
        preferred = min(self.rows, key=lambda row: row.values[1])
        return preferred.values[0] / min(measured) - 1

    @property
    def rank(self) -> float:
        """Spearman's rank correlation of measured and simulated times."""
        return Errors.from_rows(self.rows).rank

    def format_cells(self) -> tuple[str, ...]:
        """Return the ranking as cells of a table."""
        preferred = min(self.rows, key=lambda row: row.values[1]).measured
        fastest = min(self.rows, key=lambda row: row.values[0]).measured
        plans = (f"{each.plan}, {each.sharding}".strip(", ") for each in (preferred, fastest))
        count = str(len(self.rows))
        return (self.name, count, f"{self.rank:.2f}", f"{self.regret:+.1%}", *plans)


@click.command("plans")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="A folder of tables; the recorded ones unless given.",
)
@click.option("--rows", is_flag=True, help="Print every row.")
@json_option
def command(data: Path | None, rows: bool, as_json: bool) -> int:
    """Compare plans that others tried: errors, memory, and the plan that dimsweep prefers.

    The plans of one model, batch and number of GPUs are ranked; the regret of a ranking is how much
    slower the plan that dimsweep prefers was measured than the fastest one. Plans without figures
    ran out of memory or failed; the share that dimsweep says not to fit is printed. The exit code
    is 1 if an aim is missed.

    \b
    Example:
      dimsweep verify plans --rows
    """
    console = Console(soft_wrap=True, stderr=as_json)
    tables = read_plans(data or find_recorded("plans", "--data"))
    with showing_progress("simulating plans that others tried", console):
        answers = compare(tables)
    found = [row for own in answers.values() for row in own if isinstance(row, Compared)]
    aims = find_aims(found)
    if as_json:
        print_json([_build_value(aim) for aim in aims])
    times = [row for row in found if row.is_time]
    for file, own in answers.items():
        ran = [row for row in own if isinstance(row, Compared) and _has_run(row)]
        if rows and ran:
            print_rows(file.stem, ran, console)
        for why, n in Counter(why for why in own if isinstance(why, str)).items():
            reason = why.splitlines()[0]
            print_line(f"left out: {format_count(n, 'row')} of {file.stem}: {reason}", console)
    for title, key in _GROUPS:
        _print_errors(title, group_rows(key, times), console)
    columns = ("model, GPUs", "plans", "Spearman", "regret", "dimsweep prefers", "fastest")
    cells = [each.format_cells() for each in rank_plans(found)]
    print_line("", console)
    console.print(make_table(columns, cells))
    print_line("", console)
    console.print(make_table(("", "rows", "ours", "aim", ""), [aim.format_cells() for aim in aims]))
    return 0 if all(aim.is_met for aim in aims) else 1


def rank_plans(rows: Iterable[Compared]) -> list[Ranking]:
    """Return the rankings of at least five different plans, without plans said not to fit."""
    kept = [row for row in rows if row.is_time and _fits(row)]
    groups = group_rows(lambda row: f"{row.measured.model}, {row.measured.gpus:,}", kept)
    found = []
    for name, own in groups.items():
        by_batch = group_rows(lambda row: str(row.measured.batch), own)
        found += [
            Ranking(name, same) for same in by_batch.values() if _count_plans(same) >= _RANKED
        ]
    return found


def _count_plans(rows: Iterable[Compared]) -> int:
    """Return the number of different plans; others may have run the same one."""
    return len({(row.measured.plan, row.measured.sharding) for row in rows})


def find_aims(rows: Sequence[Compared]) -> list[Aim]:
    """Return the statistics that have a required range, if there are rows for them."""
    found = []
    for name, chosen, most in _TIMES:
        own = [row for row in rows if row.is_time and chosen(row)]
        if own:
            mean = Errors.from_rows(own).mean
            found.append(Aim(f"{name}: mean error of times", mean, 0.0, most, len(own)))
    memory = [row for row in rows if _has_run(row) and not row.is_time]
    if memory:
        mean = Errors.from_rows(memory).mean
        found.append(Aim("memory of eager stacks: mean error", mean, 0.0, 0.10, len(memory)))
    failed = [row for row in rows if not _has_run(row) and _is_valid(row)]
    if failed:
        share = fmean(not _fits(row) for row in failed)
        found.append(Aim("plans without figures, said not to fit", share, 0.85, 1.0, len(failed)))
    nanotron = [row for row in rows if _is_of("nanotron", row)]
    if rankings := rank_plans(nanotron):
        regrets, n = [each.regret for each in rankings], len(rankings)
        found += [
            Aim("regret, median of rankings", median(regrets), 0.0, 0.03, n),
            Aim("regret, mean of rankings", fmean(regrets), 0.0, 0.15, n),
            Aim("Spearman, median of rankings", median(each.rank for each in rankings), 0.9, 1, n),
        ]
    return found


def _is_of(source: str, row: Compared) -> bool:
    return source in row.measured.source


def _is_simple(row: Compared) -> bool:
    """Return whether a row has no pipeline, and tensor parallelism within its nodes."""
    return row.measured.pipeline == 1 and row.measured.tensor <= _NODE


_TIMES: tuple[tuple[str, Callable[[Compared], bool], float], ...] = (
    ("nanotron, PP 1, TP up to 8", lambda row: _is_of("nanotron", row) and _is_simple(row), 0.12),
    (
        "vTrain, several nodes",
        lambda row: _is_of("vTrain", row) and row.measured.gpus > _NODE,
        0.08,
    ),
    ("vTrain, one node", lambda row: _is_of("vTrain", row) and row.measured.gpus <= _NODE, 0.10),
    ("MLPerf v6.0", lambda row: _is_of("training_results_v6", row), 0.08),
    (
        "ResNet and DLRM in MLPerf",
        lambda row: row.family in ("ResNet", "DLRM"),
        0.20,
    ),
    ("MaxText on TPU v6e", lambda row: "v6e" in row.measured.gpu, 0.12),
)
_GROUPS: tuple[tuple[str, Callable[[Compared], str]], ...] = (
    ("times by table", lambda row: row.measured.table),
    ("times by GPU and kind of model", lambda row: f"{row.gpu}, {row.family}"),
    ("times by model and GPUs", lambda row: f"{row.measured.model}, {row.measured.gpus:4,}"),
    (
        "times by plan",
        lambda row: (
            f"{row.measured.table}: {'pipeline' if row.measured.pipeline > 1 else 'no pipeline'}, "
            f"TP {'within' if row.measured.tensor <= _NODE else 'across'} nodes"
        ),
    ),
)


def _has_run(row: Compared) -> bool:
    return row.measured.seconds is not None or row.measured.memory is not None


def _is_valid(row: Compared) -> bool:
    """Return whether a pipeline has the number of micro-batches that nanotron requires."""
    return count_micro_batches(row.measured) >= row.measured.pipeline - 1


def _fits(row: Compared) -> bool:
    return row.ours.memory <= _find_capacity(find_system(row.measured).overrides)


@cache
def _find_capacity(overrides: tuple[str, ...]) -> float:
    """Return the bytes of memory of a machine's GPU, from its preset."""
    (preset,) = (each.partition("=")[2] for each in overrides if each.startswith("npu="))
    return units.parse(str(read_values("npu", preset)["memory"]), units.BYTES)


def _print_errors(title: str, groups: dict[str, list[Compared]], console: Console) -> None:
    lines = []
    for name, own in groups.items():
        found = Errors.from_rows(own)
        figures = (found.mean, found.median, found.worst)
        cells = (*(f"{each:.1%}" for each in figures), f"{found.bias:+.1%}")
        lines.append((name, str(found.rows), *cells))
    print_line("", console)
    console.print(make_table((title, "rows", "mean", "median", "worst", "bias"), lines))


def _build_value(aim: Aim) -> Value:
    """Return a statistic as a point that is compared with a perfect 1: an error of 10 % is 1.1."""
    source = "tests/golden/plans"
    if aim.least:
        limits = within_range(aim.least, aim.most)
        return Value(aim.name, 1.0, aim.ours, limits, source, basis="recorded")
    limits = within_share(aim.most)
    return Value(aim.name, 1.0, 1.0 + aim.ours, limits, source, basis="recorded")
