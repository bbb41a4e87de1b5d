"""What an executor is, and which one a config asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from engine import DimsweepError, units
from sweeper.ledger.rows import Cell
from sweeper.run.evaluate import Evaluator, Job, Outcome


class Executor(Protocol):
    """Simulates jobs somewhere; results come back in any order and in any number of pieces."""

    n_workers: int

    def submit(self, job: Job) -> None:
        """Queue the trials of ``job``."""

    def collect(self) -> Outcome | None:
        """Some finished rows, or ``None`` if nothing finished for a moment.

        Called only while submitted trials are outstanding.
        """

    def close(self) -> None:
        """Let go of the workers; what is queued is dropped."""


class InlineExecutor:
    """Simulates in this process, a slice at a time."""

    n_workers = 1
    _SLICE = 256

    def __init__(self, cells: Sequence[Cell], schema: pa.Schema) -> None:
        self._evaluator = Evaluator(cells, schema)
        self._jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        for i in range(0, len(job.trials), self._SLICE):
            part = slice(i, i + self._SLICE)
            self._jobs.append(Job(job.cell, job.trials[part], job.keys[part]))

    def collect(self) -> Outcome | None:
        return self._evaluator.evaluate(self._jobs.pop(0))

    def close(self) -> None:
        self._jobs.clear()


def make_executor(config: Mapping[str, Any], cells: Sequence[Cell], schema: pa.Schema) -> Executor:
    """The executor that ``config["executor"]`` describes."""
    executor = config["executor"]
    if executor["mode"] == "inline":
        return InlineExecutor(cells, schema)
    from sweeper.run.executor.ray import RayExecutor  # Ray takes half a second to import

    try:
        timeout = units.parse(executor["timeout"], units.TIME)
    except DimsweepError as error:
        raise error.at("executor.timeout") from None
    address = executor["address"] if executor["mode"] == "address" else None
    return RayExecutor(cells, schema, actors=executor["actors"], address=address, timeout=timeout)
