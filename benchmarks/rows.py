"""What many rows take to read: seconds and the peak of memory, each in a process of its own.

python -m benchmarks.rows 10000000

The rows are written by the ledger's own code, but simulated by a formula: time = a + sum(w / b).
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.driver import FreeExecutor
from benchmarks.study import peak_megabytes, sweep
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.ledger.rows import BANDWIDTH
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run.executor.evaluate import Outcome
from dimsweep.sweeper.run.loop import StudyPlan

TRIALS = (100_000, 1_000_000)
_NAME = "libra_gpt3_4d"
_WORTH = np.array([40.0, 9.0, 5.0, 2.0])  # seconds times GB/s, of each dimension
_LEAST = 0.1  # seconds


class FormulaExecutor(FreeExecutor):
    """Answers at once, each trial with a split and a time of its own."""

    def collect(self) -> Outcome:
        split = self._jobs[0].trials.bandwidth / 1e9
        seconds = _LEAST + (_WORTH / split).sum(axis=1)
        own = {"time_s": seconds, "time_ps": np.rint(seconds * 1e12).astype(np.int64)}
        own |= {BANDWIDTH.at(d): split[:, d] for d in range(split.shape[1])}
        rows = super().collect().rows
        for i, field in enumerate(rows.schema):
            values = own.get(field.name)
            if values is None and pa.types.is_floating(field.type):  # so that no two are alike
                values = rows.column(i).to_numpy() * seconds
            if values is not None:
                rows = rows.set_column(i, field, pa.array(values, field.type, from_pandas=True))
        return Outcome(rows, 0.0)


def main(trials: tuple[int, ...] = TRIALS) -> None:
    """Print for each number of trials what each reader of their rows takes."""
    for n in trials:
        with tempfile.TemporaryDirectory() as results:
            for name in READERS:
                command = [sys.executable, "-m", __name__, "--one", name, str(n), results]
                subprocess.run(command, check=True)


def _plan(n: int, results: str) -> StudyPlan:
    study = [f"study={_NAME}", "search=random", f"budget.trials={n}", "what_if=null"]
    return plan_study(compose([*study, f"results={results}"]))


def _sweep(n: int, results: str) -> None:
    plan = _plan(n, results)
    sweep(plan, FormulaExecutor(plan))


def _column(_: int, results: str) -> None:
    from dimsweep import load

    load(Path(results) / _NAME, ["time_s"])


def _report(_: int, results: str) -> None:
    from rich.console import Console

    from dimsweep.sweeper.cli.report import report_study

    report_study(Path(results) / _NAME, Console(quiet=True))


def _board(_: int, results: str) -> None:
    from bokeh.document import Document

    from dimsweep.sweeper.board.board import Board

    Board(Path(results)).show(Document())


def _compare(_: int, results: str) -> None:
    from dimsweep import compare

    compare(Path(results) / _NAME, Path(results) / _NAME)


def _diff(_: int, results: str) -> None:
    from dimsweep.sweeper.ledger.diff import diff

    diff(Path(results) / _NAME, Path(results) / _NAME)


def _csv(_: int, results: str) -> None:
    from dimsweep.sweeper.cli.results import export_command as command

    assert command.callback is not None
    command.callback(str(Path(results) / _NAME), str(Path(results) / "rows.csv"), None, None)
    (Path(results) / "rows.csv").unlink()


def _parquet(_: int, results: str) -> None:
    from dimsweep.sweeper.cli.results import export_command as command

    assert command.callback is not None
    command.callback(str(Path(results) / _NAME), None, str(Path(results) / "rows.parquet"), None)
    (Path(results) / "rows.parquet").unlink()


def _sql(_: int, results: str) -> None:
    from dimsweep.sweeper.cli.sql import sql_command as command

    assert command.callback is not None
    query = "SELECT origin, min(time_s), max(memory_bytes) FROM rows GROUP BY origin"
    command.callback(query, [str(Path(results) / _NAME)], as_csv=True)


def _sql_in_order(_: int, results: str) -> None:
    from dimsweep.sweeper.cli.sql import sql_command as command

    assert command.callback is not None
    query = "SELECT * FROM (SELECT * FROM rows ORDER BY key) LIMIT 1 OFFSET 1000"
    command.callback(query, [str(Path(results) / _NAME)], as_csv=True)


READERS: dict[str, Callable[[int, str], None]] = {
    "sweep": _sweep,
    "sweep again": _sweep,
    "load of one column": _column,
    "report": _report,
    "board": _board,
    "compare": _compare,
    "diff": _diff,
    "export as CSV": _csv,
    "export as Parquet": _parquet,
    "sql: a summary": _sql,
    "sql: an order of all": _sql_in_order,
}


def _one(name: str, n: int, results: str) -> None:
    wall, cpu = time.monotonic(), time.process_time()
    READERS[name](n, results)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    peak = f"{peak_megabytes():,.0f} MB"
    print(f"{n:,} rows, {name}: {wall:.1f} s, {cpu:.1f} CPU s, {peak}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        _one(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main(tuple(map(int, sys.argv[1:])))
