"""What a pool is, and which one a config asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from engine import DimsweepError, units
from sweeper.ledger.rows import Cell
from sweeper.run.evaluate import Evaluator, Job, Outcome


class Pool(Protocol):
    """Simulates jobs somewhere; results come back in any order and in any number of pieces."""

    n_workers: int

    def submit(self, job: Job) -> None:
        """Queue the points of ``job``."""

    def collect(self) -> Outcome | None:
        """Some finished rows, or ``None`` if nothing finished for a moment.

        Called only while submitted points are outstanding.
        """

    def close(self) -> None:
        """Let go of the workers; what is queued is dropped."""


class InlinePool:
    """Simulates in this process, a slice at a time."""

    n_workers = 1
    _SLICE = 256

    def __init__(self, cells: Sequence[Cell], schema: pa.Schema) -> None:
        self._evaluator = Evaluator(cells, schema)
        self._jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        for i in range(0, len(job.points), self._SLICE):
            part = slice(i, i + self._SLICE)
            self._jobs.append(Job(job.cell, job.points[part], job.keys[part]))

    def collect(self) -> Outcome | None:
        return self._evaluator.evaluate(self._jobs.pop(0))

    def close(self) -> None:
        self._jobs.clear()


def make_pool(config: Mapping[str, Any], cells: Sequence[Cell], schema: pa.Schema) -> Pool:
    """The pool that ``config["cluster"]`` describes."""
    cluster = config["cluster"]
    if cluster["mode"] == "inline":
        return InlinePool(cells, schema)
    from sweeper.run.pool.ray_pool import RayPool  # Ray takes half a second to import

    try:
        timeout = units.parse(cluster["timeout"], units.TIME)
    except DimsweepError as error:
        raise error.at("cluster.timeout") from None
    address = cluster["address"] if cluster["mode"] == "address" else None
    return RayPool(cells, schema, actors=cluster["actors"], address=address, timeout=timeout)
