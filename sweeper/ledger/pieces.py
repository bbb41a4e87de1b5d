"""Read the files with a study's rows, check them, and convert them to the columns of this version.

Earlier versions wrote other columns, and people edit files by hand. Each file is checked once, and
a file that no sweep would write is reported.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimsweep.sweeper.ledger import files
from dimsweep.sweeper.ledger.files import DamagedError
from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.rows import BANDWIDTH, COMPLETE, EXTRA_ORIGINS, NAMING, row_schema
from dimsweep.sweeper.objective import OBJECTIVES

_NAMING = [column.name for column in NAMING]
_MEANT = {"time_s": "time"}
_KEY = r"^[0-9a-f]{32}$"


def build_schema(given: pa.Schema, study: StudyRecord) -> pa.Schema:
    """Return the columns, in this version, of the rows in a file with the columns ``given``.

    These are the columns of the study's rows, each with its type, then additional columns of the
    file. Raises :class:`DamagedError` for a repeated column, and for rows without the columns that
    identify them.
    """
    check_names(given.names)
    n_dims = max([len(c.dims) for c in study.cells] + [BANDWIDTH.n_dims(given.names)])
    expected = row_schema(n_dims, study.grid, study.parameters)
    needed = (*_NAMING, *study.grid, *study.parameters)  # what says whose a row is, and of what
    if lacking := [name for name in needed if name not in given.names]:
        raise DamagedError(f"it has no column {lacking[0]!r}")
    return pa.schema([*expected, *(field for field in given if field.name not in expected.names)])


def conform_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``rows`` with the columns and types of ``schema``, null where they are missing.

    Raises :class:`DamagedError` that names a column whose type cannot be converted.
    """
    if rows.schema.equals(schema):
        return rows
    check_names(rows.column_names)
    there = set(rows.column_names)
    columns = [
        _cast(rows[field.name], field) if field.name in there else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def check_types(rows: pa.Table, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """Return ``rows``, of which only ``columns`` were read, with the types of ``schema``.

    Raises :class:`DamagedError` if a column has another type than in ``schema``, or if a row lacks
    a value that identifies it.
    """
    check_names(rows.column_names)
    for name in columns:
        if name not in rows.column_names:
            raise DamagedError(f"it has no column {name!r}")
        if rows[name].type != schema.field(name).type:
            what = f"its column {name!r} holds {rows[name].type}, not {schema.field(name).type}"
            raise DamagedError(what)
    check_rows(rows, None)
    return rows


def check_names(names: Sequence[str]) -> None:
    """Raise :class:`DamagedError` for a column name that occurs twice."""
    if twice := {name for name in names if names.count(name) > 1}:
        raise DamagedError(f"it has two columns {min(twice)!r}")


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        what = f"its column {field.name!r} holds {column.type}, not {field.type}"
        raise DamagedError(what) from error


def check_rows(columns: pa.Table, study: StudyRecord | None) -> None:
    """Raise :class:`DamagedError` for invalid rows.

    Rows need a cell, a key and a trial number; complete rows also need a time, if it was read.
    """
    for name in _NAMING:
        if columns[name].null_count and name != "origin":
            raise DamagedError(f"its column {name!r} has no value in some rows")
    if not pc.all(pc.match_substring_regex(columns["key"], _KEY), min_count=0).as_py():
        raise DamagedError("its column 'key' has an invalid key")
    known = [cell.cell for cell in study.cells] if study else []
    for name in ("cell", "trial"):
        least = pc.min(columns[name]).as_py()
        if least is not None and least < 0:
            raise DamagedError(f"its column {name!r} has {least}")
    if study and known and study.n_streamed is None:
        searched = pc.invert(pc.is_in(columns["origin"], pa.array(EXTRA_ORIGINS)))  # of no baseline
        strange = columns["cell"].filter(searched)
        strange = strange.filter(pc.invert(pc.is_in(strange, pa.array(known))))
        if len(strange):
            raise DamagedError(f"it has rows of cell {strange[0]}, which the study has not")
    complete = pc.equal(columns["state"], COMPLETE)
    for name in columns_to_check(study):
        if name not in _NAMING and name in columns.column_names:
            _check_numbers(_MEANT.get(name, name), columns[name].filter(complete))


def columns_to_check(study: StudyRecord | None) -> list[str]:
    """Return the columns to check, except the objective of a plug-in."""
    known = (OBJECTIVES[name] for name in (study.objective if study else ()) if name in OBJECTIVES)
    return list(dict.fromkeys([*_NAMING, "time_s", *(each.column for each in known)]))


def _check_numbers(what: str, column: pa.ChunkedArray) -> None:
    """Raise :class:`DamagedError` if a value of complete rows is missing or impossible.

    ``what`` names the column in the error.
    """
    if column.null_count:
        raise DamagedError(f"some of its rows are complete and have no {what}")
    if not pc.all(pc.and_(pc.is_finite(column), pc.greater_equal(column, 0)), min_count=0).as_py():
        raise DamagedError(f"some of its rows are complete and have a {what} that cannot be")


Places = NDArray[np.int64]

_FETCHES = 16  # files of an object store at once
CHECKED = [*(column.name for column in NAMING), "time_s"]  # columns that identify a valid row


@dataclass
class Piece:
    """A file of rows: a part, or a ``log`` with its rows in memory.

    Its ``n`` counted rows have the places from ``first`` on among all rows of the study.
    ``counting`` lists them if some are not counted, and ``cells`` are their cells. It is
    ``as_written`` if it is a part that has the columns of this version.
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
        """Read some columns of all rows; raises :class:`DamagedError` if they cannot be read."""
        if self.log is not None:
            return conform_rows(self.log, schema)
        # Columns that the file lacks have as many rows as those that any file has.
        names = list(dict.fromkeys(["cell", *schema.names]))
        return conform_rows(files.read_columns(self.source, names), schema)


def iterate_pieces(
    folder: Place, study: StudyRecord, ahead: Sequence[str] | None, damaged: list[str]
) -> Iterator[tuple[Piece, pa.Table]]:
    """Yield each file of rows with the columns :data:`CHECKED` and ``ahead``, in any order.

    ``ahead``: further columns; None for all. Damage of other files is appended to ``damaged``.
    Raises :class:`OSError` if a file cannot be read.
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
                schema = build_schema(rows.schema, study)
                own = conform_rows(rows, schema)
                check_rows(own, study)
                yield Piece(log, schema, own), own
            except DamagedError as error:
                damaged.append(f"{log}: {error}")
        if content.damage:
            damaged.append(f"{log}: {content.damage}")
    parts = files.parts(folder)
    names = None if ahead is None else list(dict.fromkeys([*columns_to_check(study), *ahead]))
    for part, found in _read(parts, study, names):
        if isinstance(found, DamagedError):
            damaged.append(f"{part}: {found}")
        else:
            yield found


def _read(
    parts: Sequence[Place], study: StudyRecord, names: Sequence[str] | None
) -> Iterator[tuple[Place, tuple[Piece, pa.Table] | DamagedError]]:
    """Yield each part with its rows, or with the error that it is damaged.

    From an object store, several parts are fetched at once.
    """

    def read(part: Place) -> tuple[Piece, pa.Table] | DamagedError:
        try:
            return _read_piece(part, study, names)
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


def _read_piece(
    part: Place, study: StudyRecord, names: Sequence[str] | None
) -> tuple[Piece, pa.Table]:
    """Return a part with some of its columns; raises :class:`DamagedError` if it is damaged."""
    rows = files.read_part(part, study.identity, names)
    given = rows.schema if names is None else files.read_schema(part)
    piece = Piece(part, build_schema(given, study))
    own = piece.schema
    piece.as_written = given.equals(own)
    if names is not None:
        own = pa.schema([own.field(name) for name in names if name in own.names])
        # Report a column of another type now, not when it is read.
        others = [f for f in piece.schema if f.name in given.names and f.name not in names]
        odd = pa.schema([f for f in others if given.field(f.name).type != f.type])
        if len(odd):
            piece.read(odd)
    rows = conform_rows(rows, own)
    check_rows(rows.select(columns_to_check(study)), study)
    return piece, rows
