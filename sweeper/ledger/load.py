"""Reading a study's rows."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from engine import DimsweepError
from sweeper.ledger import files
from sweeper.ledger.conform import conforming
from sweeper.ledger.files import DamagedError
from sweeper.ledger.merge import each_once, in_order
from sweeper.ledger.place import Place, place, reaching
from sweeper.ledger.record import StudyRecord, read_study
from sweeper.ledger.rows import row_schema

_FETCHES = 16  # files of an object store at once


def load(folder: str | Place) -> pa.Table:
    """All rows of the study in ``folder``, ordered by cell and trial, each once.

    Safe while a sweep is writing: no load returns fewer rows than an earlier one.  Raises
    :class:`DimsweepError` if there is no study, or if files of it are damaged; it names them.
    """
    folder = place(folder)
    study = read_study(folder)
    try:
        with reaching(folder):
            tables, damaged = _tables(folder, study)
    except OSError as error:
        raise DimsweepError(
            f"the rows cannot be read: {error.strerror or error}", where=str(folder)
        ) from error
    if damaged:
        raise DimsweepError(
            "files of the ledger are not what a sweep wrote:"
            + "".join(f"\n  {d}" for d in damaged),
            where=str(folder),
            hint="sweep the study again: it sets them aside and evaluates their trials again",
        )
    if not tables:
        n_dims = max((len(cell.dims) for cell in study.cells), default=0)
        return row_schema(n_dims, study.grid, study.parameters).empty_table()
    by_number = [rows for number in sorted(tables) for rows in tables[number]]
    return in_order(each_once(pa.concat_tables(by_number, promote_options="default")))


def _tables(folder: Place, study: StudyRecord) -> tuple[dict[int, list[pa.Table]], list[str]]:
    """The rows of the files by their number, and what is damaged."""
    tables, damaged = dict[int, list[pa.Table]](), list[str]()

    def keep(file: Place, rows: pa.Table | DamagedError) -> None:
        try:
            if isinstance(rows, DamagedError):
                raise rows
            tables.setdefault(files.number(file), []).append(conforming(rows, study))
        except DamagedError as error:
            damaged.append(f"{file}: {error}")

    # Logs first: the rows of one that is sealed meanwhile are in a part when the parts are listed.
    for log in files.logs(folder):
        try:
            content = files.read_log(log, study.identity)
        except FileNotFoundError:
            continue
        if content.batches:
            keep(log, pa.Table.from_batches(content.batches).combine_chunks())
        if content.damage:
            damaged.append(f"{log}: {content.damage}")
    parts = files.parts(folder)
    for part, rows in zip(parts, _read(parts, study.identity), strict=True):
        keep(part, rows)
    return tables, damaged


def _read(parts: Sequence[Place], study: str) -> Iterable[pa.Table | DamagedError]:
    """The rows of parts, or what is wrong with them; several are fetched at once from a store."""

    def read(part: Place) -> pa.Table | DamagedError:
        try:
            return files.read_part(part, study)
        except DamagedError as error:
            return error

    if all(isinstance(part, Path) for part in parts):
        return map(read, parts)
    with ThreadPoolExecutor(_FETCHES) as pool:
        return list(pool.map(read, parts))
