"""The files that have a study's rows, looked at for the first time: are they what sweeps write?"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dimsweep.sweeper.ledger import files
from dimsweep.sweeper.ledger.conform import check, checked, conforming, schema_as_known
from dimsweep.sweeper.ledger.files import DamagedError
from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.schema import NAMING

Places = NDArray[np.int64]

_FETCHES = 16  # files of an object store at once
CHECKED = [*(column.name for column in NAMING), "time_s"]  # what tells rows from what is none


@dataclass
class Piece:
    """A part, or the rows of a ``log``, with its columns as this version writes them.

    Its ``n`` rows that count have the places from ``first`` on among all rows of the study;
    ``counting`` are they, if not all of them do, and ``cells`` are theirs.  It is ``as_written``
    if it is a part that has these columns.
    """

    source: Place
    schema: pa.Schema
    log: pa.Table | None = None
    n: int = 0
    first: int = 0
    counting: Places | None = None
    cells: frozenset[int] = frozenset()
    as_written: bool = False

    def read(self, schema: pa.Schema) -> pa.Table:
        """The columns of ``schema`` of all its rows; raises :class:`DamagedError` if they cannot be
        read any more."""
        if self.log is not None:
            return conforming(self.log, schema)
        # Columns that the file lacks have as many rows as those that any file has.
        names = list(dict.fromkeys(["cell", *schema.names]))
        return conforming(files.read_columns(self.source, names), schema)


def look(
    folder: Place, study: StudyRecord, ahead: Sequence[str] | None, damaged: list[str]
) -> Iterator[tuple[Piece, pa.Table]]:
    """Each file that has rows, with the columns that are ``CHECKED`` and those ``ahead`` (None:
    all), in any order; what is wrong with others is added to ``damaged``.

    Raises :class:`OSError` if one cannot be read.
    """
    # Logs first: the rows of one that is sealed meanwhile are in a part when the parts are listed.
    for log in files.logs(folder):
        try:
            content = files.read_log(log, study.identity)
        except FileNotFoundError:
            continue
        if content.batches:
            rows = pa.Table.from_batches(content.batches).combine_chunks()
            try:
                schema = schema_as_known(rows.schema, study)
                own = conforming(rows, schema)
                check(own, study)
                yield Piece(log, schema, own), own
            except DamagedError as error:
                damaged.append(f"{log}: {error}")
        if content.damage:
            damaged.append(f"{log}: {content.damage}")
    parts = files.parts(folder)
    names = None if ahead is None else list(dict.fromkeys([*checked(study), *ahead]))
    for part, found in _read(parts, study, names):
        if isinstance(found, DamagedError):
            damaged.append(f"{part}: {found}")
        else:
            yield found


def _read(
    parts: Sequence[Place], study: StudyRecord, names: Sequence[str] | None
) -> Iterator[tuple[Place, tuple[Piece, pa.Table] | DamagedError]]:
    """Parts with their rows, or what is wrong with them; several are fetched at once from a
    store."""

    def read(part: Place) -> tuple[Piece, pa.Table] | DamagedError:
        try:
            return _of_part(part, study, names)
        except DamagedError as error:
            return error

    if all(isinstance(part, Path) for part in parts):
        yield from ((part, read(part)) for part in parts)
        return
    with ThreadPoolExecutor(_FETCHES) as pool:
        waiting = deque[tuple[Place, Future[tuple[Piece, pa.Table] | DamagedError]]]()
        for part in parts:
            waiting.append((part, pool.submit(read, part)))
            if len(waiting) > _FETCHES:
                first, found = waiting.popleft()
                yield first, found.result()
        yield from ((part, found.result()) for part, found in waiting)


def _of_part(
    part: Place, study: StudyRecord, names: Sequence[str] | None
) -> tuple[Piece, pa.Table]:
    """A part that is whole, with some of its columns; raises :class:`DamagedError`."""
    rows = files.read_part(part, study.identity, names)
    given = rows.schema if names is None else files.schema_of(part)
    piece = Piece(part, schema_as_known(given, study))
    own = piece.schema
    piece.as_written = given.equals(own)
    if names is not None:
        own = pa.schema([own.field(name) for name in names if name in own.names])
        # A column of another type is told now, and not when somebody asks for it.
        others = [f for f in piece.schema if f.name in given.names and f.name not in names]
        odd = pa.schema([f for f in others if given.field(f.name).type != f.type])
        if len(odd):
            piece.read(odd)
    rows = conforming(rows, own)
    check(rows.select(checked(study)), study)
    return piece, rows
