"""Read the rows of a study from its files, one file and some columns at a time.

While files are scanned, memory holds an identity of 16 bytes per row. Afterwards it holds only the
positions of duplicate rows, and the columns of small studies.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger import files
from dimsweep.sweeper.ledger.files import DamagedError
from dimsweep.sweeper.ledger.pieces import CHECKED, Piece, Places, iterate_pieces
from dimsweep.sweeper.ledger.place import Place, parse_place, translating_store_errors
from dimsweep.sweeper.ledger.record import read_study
from dimsweep.sweeper.ledger.rows import (
    count_once,
    identity,
    in_order,
    repeated,
    row_schema,
    trial_numbers,
)

Names = NDArray[np.uint64]  # of rows, 64 bits each

_ROOM = 64_000_000  # bytes of columns that are kept, so that small studies are read once


class Stored:
    """The rows of the study in ``folder``, each counted once, read file by file.

    ``study`` is its record, and ``schema`` has all columns. A row's place is its position among all
    rows, in the order of the files.
    """

    def __init__(self, folder: str | Place, ahead: Sequence[str] | None = ()) -> None:
        """Scan the files; this is safe while a sweep is writing.

        The columns ``ahead`` (None: all) are kept during the scan, for callers that read all rows.
        Raises :class:`DimsweepError` that names the files if the study is missing or damaged.
        """
        self.folder = parse_place(folder)
        self.study = read_study(self.folder)
        self._room, self._kept = _ROOM, dict[int, dict[str, pa.ChunkedArray]]()
        found, damaged, n = list[tuple[Piece, Names, Names]](), list[str](), 0
        with self._reading():
            for piece, rows in iterate_pieces(self.folder, self.study, ahead, damaged):
                piece.n, piece.cells = len(rows), frozenset(pc.unique(rows["cell"]).to_pylist())
                found.append((piece, identity(rows)[:, 0].copy(), trial_numbers(rows, n)))
                n += len(rows)
                if ahead is None or ahead:
                    names = rows.column_names if ahead is None else ahead
                    own = {name: rows[name] for name in names if name in rows.column_names}
                    self._kept[id(piece)] = own
        if damaged:
            hint = "sweep the study again: it sets them aside and evaluates their trials again"
            if not self.study.is_current:
                hint = "move them out of the folder to read the rows of the other files"
            raise DimsweepError(
                "files of the ledger are not what a sweep wrote:"
                + "".join(f"\n  {d}" for d in damaged),
                where=str(self.folder),
                hint=hint,
            )
        found.sort(key=lambda each: files.number(each[0].source))  # stable
        self._pieces = [piece for piece, *_ in found]
        n_dims = max((len(cell.dims) for cell in self.study.cells), default=0)
        expected = row_schema(n_dims, self.study.grid, self.study.parameters)
        schemas = [piece.schema for piece in self._pieces] or [expected]
        self.schema = pa.unify_schemas(schemas, promote_options="default")
        self._drop_duplicates(found)

    @property
    def n_rows(self) -> int:
        """Number of rows, without duplicates."""
        return sum(piece.n for piece in self._pieces)

    def pieces(
        self, columns: Sequence[str], cell: int | None = None
    ) -> Iterator[tuple[Places, pa.Table]]:
        """Yield some columns of all rows, or of a cell's rows, by file, with the rows' places."""
        for piece in self._pieces:
            if cell is not None and cell not in piece.cells:
                continue
            several = cell is not None and len(piece.cells) > 1
            wanted = dict.fromkeys([*columns, *(("cell",) if several else ())])
            places, table = np.arange(piece.first, piece.first + piece.n), self._read(piece, wanted)
            if several:
                own = np.flatnonzero(table["cell"].to_numpy() == cell)
                places, table = places[own], table.take(pa.array(own))
            yield places, table.select(list(columns))

    def take(self, places: Places) -> pa.Table:
        """Return all columns of the rows at ``places``, in the order of ``places``."""
        order = np.argsort(places, kind="stable")
        ordered, found = np.asarray(places)[order], [self._empty_table(self.schema.names)]
        for piece in self._pieces:
            low, high = np.searchsorted(ordered, (piece.first, piece.first + piece.n))
            if low < high:
                table = self._read(piece, self.schema.names, keep=False)
                found.append(table.take(pa.array(ordered[low:high] - piece.first)))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_tables(found).take(pa.array(back))

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows, or some columns of them, sorted by cell and trial."""
        wanted = self.schema.names if columns is None else list(columns)
        if strange := [name for name in wanted if name not in self.schema.names]:
            hint = f"there are {', '.join(self.schema.names)}"
            problem = f"unknown column {strange[0]!r}"
            raise DimsweepError(problem, where=str(self.folder), hint=hint, code="unknown-name")
        needed = list(dict.fromkeys([*wanted, "cell", "trial"]))
        found = [table for _, table in self.pieces(needed)]
        return (
            in_order(pa.concat_tables(found)).select(wanted) if found else self._empty_table(wanted)
        )

    def in_order(self, at_once: int) -> Iterator[pa.Table]:
        """Yield all columns of all rows, sorted by cell and trial, ``at_once`` rows at a time."""
        empty = [self._empty_table(["cell", "trial"])]
        named = pa.concat_tables(empty + [table for _, table in self.pieces(["cell", "trial"])])
        order = np.lexsort((named["trial"].to_numpy(), named["cell"].to_numpy()))
        del named
        for start in range(0, max(len(order), 1), at_once):
            yield self.take(order[start : start + at_once])

    def sources(self) -> Iterator[list[Path] | pa.Table]:
        """Yield all rows in the order of the files, for readers of Parquet.

        An item is a list of files that can be read in place, or a table of the rows between them.
        """
        if not self._pieces:
            yield self._empty_table(self.schema.names)
        for readable, pieces in itertools.groupby(self._pieces, self._is_readable):
            if readable:
                yield [piece.source for piece in pieces if isinstance(piece.source, Path)]
            else:
                names = self.schema.names
                yield pa.concat_tables(self._read(piece, names, keep=False) for piece in pieces)

    def _is_readable(self, piece: Piece) -> bool:
        """Return whether a local file has a piece's rows exactly as the study counts them."""
        there = piece.as_written and isinstance(piece.source, Path)
        return there and piece.counting is None and piece.schema.equals(self.schema)

    def _empty_table(self, columns: Sequence[str]) -> pa.Table:
        return self.schema.empty_table().select(list(columns))

    def _read(self, piece: Piece, columns: Iterable[str], *, keep: bool = True) -> pa.Table:
        """Read some columns of a piece's counted rows."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        kept = self._kept.get(id(piece), {})
        found = {name: kept[name] for name in schema.names if name in kept}
        if missing := [field for field in schema if field.name not in found]:
            try:
                with self._reading():
                    rows = piece.read(pa.schema(missing))
            except DamagedError as error:
                why = f"a part of the ledger is not what it was: {error}"
                raise DimsweepError(why, where=str(piece.source)) from error
            found |= dict(zip(rows.column_names, rows.columns, strict=True))
            if keep and piece.log is None and rows.nbytes <= self._room:
                self._room -= rows.nbytes
                self._kept[id(piece)] = kept | found
        table = pa.table([found[name] for name in schema.names], schema=schema)
        return table if piece.counting is None else table.take(pa.array(piece.counting))

    def _drop_duplicates(self, found: Sequence[tuple[Piece, Names, Names]]) -> None:
        """Assign places (numbers) to the rows, without duplicates."""
        keys = repeated([own for _, own, _ in found])
        trials = repeated([own for _, _, own in found])
        start, tables = 0, list[pa.Table]()
        if len(keys) or len(trials):
            for piece, own, number in found:
                again = np.flatnonzero(np.isin(own, keys) | np.isin(number, trials))
                if len(again):
                    rows = self._read(piece, CHECKED, keep=False).take(pa.array(again))
                    tables.append(rows.append_column("place", pa.array(start + again)))
                start += piece.n
        dropped = np.empty(0, np.int64)
        if tables:
            rows = pa.concat_tables(tables)
            counting = count_once(rows)["place"].to_numpy()
            dropped = np.setdiff1d(rows["place"].to_numpy(), counting)
        start = n = 0
        for piece in self._pieces:
            low, high = np.searchsorted(dropped, (start, start + piece.n))
            if low < high:
                piece.counting = np.delete(np.arange(piece.n), dropped[low:high] - start)
            start += piece.n
            piece.n, piece.first = piece.n - int(high - low), n
            n += piece.n

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Return a context that turns errors of the system into errors about the rows."""
        try:
            with translating_store_errors(self.folder):
                yield
        except OSError as error:
            raise DimsweepError(
                f"the rows cannot be read: {error.strerror or error}", where=str(self.folder)
            ) from error


def load(folder: str | Place, columns: Sequence[str] | None = None) -> pa.Table:
    """Load the rows of the study in ``folder``, or some ``columns`` of them.

    Rows are sorted by cell and trial, each once. Memory is taken by the requested columns, and 16
    bytes a row. Safe while a sweep is writing: no load returns fewer rows than an earlier one.
    Raises :class:`DimsweepError` if the study or a column is missing, or, with their names, if
    files are damaged.
    """
    return Stored(folder, ahead=columns).table(columns)
