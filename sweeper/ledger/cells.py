"""The progress of searches, in files next to the rows: entries of cells, and search checkpoints.

    cells-00002-1f3a9c5e.arrows     entries, written like a log of rows, and never sealed
    search-00000.json               the checkpoint (bookmark) of the search of one cell

A cell of a large grid has an entry with its record before it has rows, and another entry when its
search has ended. A cell that a bound excluded has an entry with the bound; cells that are bounded
together share an entry at the first cell. Grids that are planned as a whole have no entries: their
cells are in ``study.json``.

With a bookmark a search resumes without asking its sampler for all trials again. A bookmark has a
hash of the rows that the search learnt from. It is ignored if the rows differ, because some are
missing or were simulated again.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dimsweep.sweeper.ledger import files
from dimsweep.sweeper.ledger.files import DamagedError, Log
from dimsweep.sweeper.ledger.place import Place, Sink, read, write
from dimsweep.sweeper.ledger.versions import checksum

PREFIX = "cells-"
CELL, PRUNED, DONE, CLOSED, BOUNDS = "cell", "pruned", "done", "closed", "bounds"
ENTRIES_PER_FILE = 10_000
_SCHEMA = pa.schema(
    [
        ("cell", pa.int32()),
        ("kind", pa.string()),
        (
            "content",
            pa.string(),
        ),  # of a cell: cells of which rows may have equal keys have the same
        ("told", pa.int32()),  # number of trials of a completed search
        ("text", pa.string()),  # the record, or a hash of the search and its rows
    ]
)


@dataclass(frozen=True)
class Entries:
    """All entries about a study's cells, in the order of writing, and any damaged files."""

    table: pa.Table
    damaged: list[tuple[Place, str]]

    @classmethod
    def read(cls, folder: Place, study: str) -> Self:
        """Read the entries about the cells of ``study`` from the files in ``folder``."""
        tables, damaged = [_SCHEMA.empty_table()], list[tuple[Place, str]]()
        for file in files.logs(folder, PREFIX):
            content = files.read_log(file, study)
            if content.batches:
                tables.append(pa.Table.from_batches(content.batches).combine_chunks())
            if content.damage:
                damaged.append((file, content.damage))
        return cls(pa.concat_tables(tables), damaged)

    def last(self, kind: str) -> pa.Table:
        """Return each cell's last entry of this ``kind``, ordered by cell."""
        table = self.table.filter(pc.equal(self.table["kind"], kind))
        cells = table["cell"].to_numpy()
        order = np.argsort(cells, kind="stable")
        return table.take(pa.array(order[np.diff(cells[order], append=-1) != 0]))


class CellBook:
    """The entries about a study's cells during a sweep.

    It has the entries of earlier runs, and appends new ones.
    """

    def __init__(self, folder: Place, study: str, sink: Callable[[Place], Sink]) -> None:
        """Read the entries in ``folder``.

        Raises :class:`OSError` if the folder cannot be written.
        """
        found = Entries.read(folder, study)
        self.damaged = found.damaged
        pruned = found.last(PRUNED)
        self._pruned = dict(
            zip(pruned["cell"].to_pylist(), pruned["text"].to_pylist(), strict=True)
        )
        closed = found.last(CLOSED)
        self._closed = dict(
            zip(closed["cell"].to_pylist(), map(float, closed["text"].to_pylist()), strict=True)
        )
        bounds = found.last(BOUNDS)
        self._bounds = dict(
            zip(bounds["cell"].to_pylist(), bounds["text"].to_pylist(), strict=True)
        )
        done = found.last(DONE)
        self._done, self._n_trials = done["cell"].to_numpy(), done["told"].to_numpy()
        self._marks = done["text"].combine_chunks()
        self._folder, self._study, self._sink = folder, study, sink
        self._log: Log | None = None

    def add(self, cell: int, kind: str, text: str, content: str | None = None) -> None:
        """Write an entry with the record of a cell; ``kind`` distinguishes infeasible cells."""
        self._add(cell, kind, content, None, text)

    def finish(self, cell: int, n_trials: int, how: str) -> None:
        """Record that a cell's search has ended.

        ``how`` identifies the settings of the search and the rows that it learnt from.
        """
        self._add(cell, DONE, None, n_trials, _short(how))

    def pruned(self, cell: int) -> str | None:
        """Return the record of a cell that an earlier run found infeasible.

        It is None for other cells.
        """
        return self._pruned.get(cell)

    def closed(self, cell: int) -> float | None:
        """Return the bound by which an earlier run excluded a cell, or None."""
        return self._closed.get(cell)

    def bounds(self, first: int) -> np.ndarray | None:
        """Return the bounds that an earlier run computed for cells from ``first`` on, or None."""
        return np.array(self._bounds[first].split(), float) if first in self._bounds else None

    def finished(self, cell: int) -> int | None:
        """Return the number of trials of a cell's search that an earlier run ended, or None."""
        i = int(np.searchsorted(self._done, cell))
        return int(self._n_trials[i]) if i < len(self._done) and self._done[i] == cell else None

    def is_same(self, cell: int, how: str) -> bool:
        """Return whether a cell's :meth:`finished` search had the settings and rows of ``how``."""
        mark: str = self._marks[int(np.searchsorted(self._done, cell))].as_py()
        return mark == _short(how)

    def close(self) -> None:
        """Close the file; raises :class:`OSError` if it cannot be written."""
        if self._log is not None:
            self._log.save()
            self._log.close()

    def _add(self, *values: object) -> None:
        if self._log is None or self._log.n_rows >= ENTRIES_PER_FILE:
            self.close()
            taken = map(files.number, files.logs(self._folder, PREFIX))
            number = 1 + max(taken, default=-1)
            self._log = Log(self._folder, number, _SCHEMA, self._study, self._sink, PREFIX)
        columns = [[value] for value in values]
        arrays = [pa.array(own, field.type) for own, field in zip(columns, _SCHEMA, strict=True)]
        self._log.append(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def write_bookmark(folder: Place, cell: int, bookmark: Mapping[str, Any]) -> None:
    """Write the checkpoint of a cell's search, as plain data; it replaces the previous one."""
    text = json.dumps({**bookmark, "checksum": checksum(bookmark)})
    write(_file(folder, cell), text.encode())


def find_bookmark(folder: Place, cell: int) -> Mapping[str, Any] | None:
    """Return the checkpoint of a cell's search, or None if it is missing or damaged."""
    try:
        return read_bookmark(_file(folder, cell))
    except (OSError, DamagedError):
        return None


def read_bookmark(file: Place) -> Mapping[str, Any]:
    """Read the checkpoint of a search; raises :class:`DamagedError` if no sweep wrote the file."""
    try:
        node = json.loads(read(file).to_pybytes())
    except (ValueError, RecursionError) as error:
        raise DamagedError("it is not a bookmark") from error
    if not isinstance(node, dict):
        raise DamagedError("it is not a bookmark")
    if node.pop("checksum", None) != checksum(node):
        raise DamagedError("its checksum is wrong")
    return node


def _file(folder: Place, cell: int) -> Place:
    return folder / f"search-{cell:05d}.json"
