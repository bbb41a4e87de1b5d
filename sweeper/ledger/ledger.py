"""The ledger: the folder that holds all results of a study.

    study.json                    the record: name, objective, cells, resolved configuration
    log-00002-1f3a9c5e.arrows     rows as they arrive, written batch by batch
    part-00000-8d2b70c4.parquet   immutable rows
    search-00000.json             the checkpoint of a cell's search; it can be recomputed
    cells-00000-5f0c11ab.arrows   the cells of a large grid

Rows are appended to the log. A full log becomes the part with its number: the part is written under
another name and then renamed, and the next log begins. Therefore every row is in at least one
readable file at any moment, and a killed process loses only the rows in flight. Readers count a row
once, by its key. A lock ensures that one process writes. If the lock fails, nothing is lost,
because a writer changes only its own files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger import files
from dimsweep.sweeper.ledger.cells import (
    BOUNDS,
    CELL,
    CLOSED,
    PRUNED,
    CellBook,
    read_bookmark,
)
from dimsweep.sweeper.ledger.cells import (
    find_bookmark as read_own_bookmark,
)
from dimsweep.sweeper.ledger.cells import (
    write_bookmark as write_bookmark_file,
)
from dimsweep.sweeper.ledger.files import DamagedError, Log
from dimsweep.sweeper.ledger.index import Column, Floats, Halves, Places, ResultIndex
from dimsweep.sweeper.ledger.lock import hold
from dimsweep.sweeper.ledger.pieces import check_types, conform_rows
from dimsweep.sweeper.ledger.place import (
    STUDY,
    Place,
    make_folder,
    read,
    translating_store_errors,
    write,
)
from dimsweep.sweeper.ledger.record import (
    CellRecord,
    DamagedStudyError,
    PrunedCell,
    StudyRecord,
    check_same,
    read_record,
)
from dimsweep.sweeper.ledger.rows import (
    COMPLETE,
    EXTRA_ORIGINS,
    FAILED,
    LOST,
    ROWS_VERSION,
    Cell,
    count_keys_once,
    identity,
    in_order,
    is_requested,
    labels,
    numbers,
    relabel_rows,
    slope_columns,
    slopes,
)
from dimsweep.sweeper.ledger.shelf import Shelf
from dimsweep.sweeper.space.trials import Trials

Compact = NDArray[np.int32]

ROWS_PER_PART = 10_000
BATCHES_PER_PART = 1_000  # every batch takes memory, even a small one
_BATCH_ROWS = 100_000  # rows whose results are copied at once
_NONE = np.empty(0, dtype=np.int32)
SET_ASIDE = "damaged"  # the folder for damaged files


@dataclass(frozen=True)
class Claim:
    """The places of rows that a sweep waits for."""

    #: places of the rows, in the order of the trials
    places: Places
    #: positions of the trials to simulate
    missing: Places
    #: rows that the ledger had
    n_stored: int
    #: rows copied from other cells or studies
    n_borrowed: int


class Ledger:
    """The ledger of one study, open for writing; use it as a context manager.

    ``index`` has the objective values of the rows, and their slopes if a search learns from them.
    Trials that failed because of the environment are not in it, and with ``retry_failed`` no failed
    trials, so they are simulated again. ``notes`` list damaged files for the user.
    """

    def __init__(
        self, folder: Place, study: StudyRecord, schema: pa.Schema, *, retry_failed: bool = False
    ) -> None:
        """Create the ledger in ``folder``, or resume it.

        Raises :class:`DimsweepError` if the folder cannot be written, is in use, or holds another
        study.
        """
        self.folder, self.schema = folder, schema
        self._objective = [objective.column for objective in study.objectives]
        self._slopes = slope_columns(schema) if study.learns_from_slopes else []
        self.index = ResultIndex(len(self._objective), len(self._slopes))
        # Cells, numbers of trials and places of existing rows, by cell and number, then by file.
        self._found = _NONE, _NONE, _NONE
        with self._writing():
            make_folder(folder)
            self._lock = hold(folder)
        self.notes = list(self._lock.notes)
        try:
            with self._writing():
                self._config = self._settle_record(study)
                self._study = study.model_copy(update={"config": self._config}).identity
                self._shelf = Shelf(folder, study)
                self._book = self._open_book() if study.n_streamed is not None else None
                self._recover({LOST, FAILED} if retry_failed else {LOST})
                self._log = self._next_log()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.close()
        except DimsweepError:
            if kind is None:  # else the first error is the one to raise; the rows are in the log
                raise

    def _open_book(self) -> CellBook:
        book = CellBook(self.folder, self._study, self._lock.sink)
        for file, why in book.damaged:
            self._set_aside(file, why, "its cells are planned again")
        return CellBook(self.folder, self._study, self._lock.sink) if book.damaged else book

    def add_cell(self, record: CellRecord) -> None:
        """Record that the search of a cell of a large grid begins."""
        if self._book is not None:
            text = record.model_dump_json(exclude_defaults=True)
            with self._writing():
                self._book.add(record.cell, CELL, text, record.content)
                self._shelf.add_neighbours({record.content or ""})

    def add_pruned(self, cell: int, record: PrunedCell) -> None:
        """Record that a cell of a large grid is infeasible."""
        assert self._book is not None
        with self._writing():
            self._book.add(cell, PRUNED, record.model_dump_json())

    def add_closed(self, cell: int, bound: float) -> None:
        """Record that a cell is not searched because its lower ``bound`` excludes it."""
        assert self._book is not None
        with self._writing():
            self._book.add(cell, CLOSED, repr(bound))

    def find_closing_bound(self, cell: int) -> float | None:
        """Return the bound by which an earlier run excluded a cell, or None."""
        return None if self._book is None else self._book.closed(cell)

    def add_bounds(self, first: int, bounds: np.ndarray) -> None:
        """Record the lower bounds of consecutive cells, beginning with cell ``first``."""
        assert self._book is not None
        with self._writing():
            self._book.add(first, BOUNDS, " ".join(map(repr, bounds.tolist())))

    def find_bounds(self, first: int) -> np.ndarray | None:
        """Return the lower bounds that an earlier run recorded for cells from ``first`` on.

        It is None if no run recorded them.
        """
        return None if self._book is None else self._book.bounds(first)

    def end_search(self, cell: int, n_trials: int, how: str) -> None:
        """Record that a cell's search has ended.

        ``how`` identifies the settings of the search and the rows that it learnt from.
        """
        if self._book is not None:
            with self._writing():
                self._book.finish(cell, n_trials, how)

    def find_pruned(self, cell: int) -> PrunedCell | None:
        """Return the record of a cell that an earlier run found infeasible, or None."""
        text = None if self._book is None else self._book.pruned(cell)
        return None if text is None else PrunedCell.model_validate_json(text)

    def find_ended(self, cell: int, how: Callable[[Compact], str]) -> Compact | None:
        """Return the places of the rows of a cell's search that an earlier run ended.

        Return None if the search had other settings or other rows than ``how`` identifies.
        """
        n_trials = self._book.finished(cell) if self._book is not None else None
        if n_trials is None or self._book is None:
            return None
        places = self.trials(cell, n_trials)
        return places if self._book.is_same(cell, how(places)) else None

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows to the log.

        In a folder of this machine they survive this process when this returns; on an object store
        a few seconds later.
        """
        with self._writing():
            self._log.append(batch)
            self._index_rows(batch)
            self._shelf.add_rows(batch)
            if not self._log.is_mine():
                self._stop_for_other_sweep()
            if self._log.n_rows >= ROWS_PER_PART or len(self._log.rows) >= BATCHES_PER_PART:
                self._seal_log()
                self._log = self._next_log()

    def claim(self, cell: Cell, trials: Trials, keys: Sequence[str]) -> "Claim":
        """Reserve a row in the ledger for each trial.

        Existing results of other cells and of neighbouring studies are copied, not simulated again.
        """
        places, is_new = self.index.claim(keys, cell.number)
        new = np.flatnonzero(is_new)
        found, rows = self._shelf.rows([keys[i] for i in new.tolist()])
        if rows is not None:
            copied = new[found]
            named = labels(cell, trials.take(copied), [keys[i] for i in copied.tolist()])
            self.append(relabel_rows(rows, self.schema, named))
        return Claim(places, new[~found], len(trials) - len(new), int(found.sum()))

    def find_results(self, places: Places) -> tuple[Floats, Floats] | None:
        """Return the values (N, K) and slopes (N, D) of the rows at ``places``.

        Return None until all of them are stored.
        """
        if not self.index.landed(places).all():
            return None
        return self.index.values(places), self.index.slopes(places)

    def iterate_results(
        self, places: "Compact | Places"
    ) -> Iterator[tuple[Halves, Floats, Floats]]:
        """Yield keys, values and slopes of the rows at ``places`` in batches, to save memory."""
        for start in range(0, len(places), _BATCH_ROWS):
            own = places[start : start + _BATCH_ROWS].astype(np.int64)
            yield self.index.keys(own), self.index.values(own), self.index.slopes(own)

    def rows(self, columns: list[str] | None = None) -> pa.Table:
        """Return all rows stored so far, or some ``columns`` of them; each key of a cell once."""
        wanted = columns or self.schema.names
        needed = list(dict.fromkeys([*wanted, "key", "cell", "state"]))
        schema = pa.schema([self.schema.field(name) for name in needed])
        with self._writing():
            try:
                parts = files.parts(self.folder)
                tables = [
                    conform_rows(files.read_part(part, self._study, needed), schema)
                    for part in parts
                ]
            except DamagedError as error:
                raise _damaged_part_error(self.folder, error) from error
        if self._log.rows:
            tables.append(pa.Table.from_batches(self._log.rows).select(needed))
        table = pa.concat_tables(tables) if tables else self.schema.empty_table()
        return count_keys_once(table).select(wanted)

    def copy(self, cell: Cell, trials: Trials, own: Sequence[str], known: Sequence[str]) -> None:
        """Store complete rows with keys ``known`` also as rows of ``trials`` with keys ``own``."""
        here = self.index.places(known, cell.number) >= 0
        new = here & (self.index.places(own, cell.number) < 0)
        if not new.any():
            return
        rows = self.rows()
        mine = pc.and_(pc.equal(rows["cell"], cell.number), pc.equal(rows["state"], COMPLETE))
        rows = rows.filter(pc.and_(mine, pc.is_in(rows["key"], pa.array(known))))
        place = {key: i for i, key in enumerate(rows["key"].to_pylist())}
        copied = [i for i in np.flatnonzero(new).tolist() if known[i] in place]
        if copied:
            rows = rows.take([place[known[i]] for i in copied])
            named = labels(cell, trials.take(copied), [own[i] for i in copied])
            self.append(relabel_rows(rows, self.schema, named))

    def trials(self, cell: int, n: int) -> Compact:
        """Return the places of a cell's first ``n`` trials, by trial number.

        The rows are those of when the ledger was opened. If several rows have one number, the last
        one counts.
        """
        cells, numbers, places = self._found
        start, stop = np.searchsorted(cells, [cell, cell + 1])
        numbers, places = numbers[start:stop], places[start:stop]
        wanted = numbers < n
        wanted[:-1] &= numbers[1:] != numbers[:-1]
        return places[wanted]

    def find_bookmark(self, cell: int) -> Mapping[str, Any] | None:
        """Return the checkpoint of a cell's search, or None if this study wrote none."""
        found = read_own_bookmark(self.folder, cell)
        return found if found is not None and found.get("study") == self._study else None

    def write_bookmark(self, cell: int, bookmark: Mapping[str, Any]) -> None:
        with self._writing():
            write_bookmark_file(
                self.folder, cell, {**bookmark, "study": self._study, "rows": ROWS_VERSION}
            )

    def describe(self, study: StudyRecord) -> None:
        """Write the study's record again, with new findings."""
        kept = {"config": self._config, "provenance": self._provenance}
        file, text = self.folder / STUDY, study.model_copy(update=kept).to_json()
        with self._writing():
            write(file, text)
            # Without it no row can be read, and a store may say that it has what it has not.
            if not isinstance(file, Path) and (not file.exists() or read(file) != text):
                raise OSError(f"{file} was written, and is not there as it was written")

    def close(self) -> None:
        """Write the log as a part and release the lock."""
        try:
            with self._writing():
                self._seal_log()
                if self._book is not None:
                    self._book.close()
        finally:
            self._lock.release()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Return a context in which errors of the file system report the number of safe rows."""
        try:
            with translating_store_errors(self.folder):
                yield
        except OSError as error:
            if self._is_deleted():
                raise self._deleted_error() from error
            why = f"the results folder cannot be written: {error.strerror or error}"
            n = self._n_safe
            safe = f"; the {n} rows before this are safe" if n else ""
            raise DimsweepError(
                why + safe,
                where=str(self.folder),
                hint="the same command resumes once the folder can be written",
                code="inaccessible",
            ) from error

    @property
    def _n_safe(self) -> int:
        """Number of rows that would survive this process."""
        log = vars(self).get("_log")  # there is none yet while the folder is opened
        return len(self.index) - (log.n_unsafe if log else 0)

    def _is_deleted(self) -> bool:
        return bool(len(self.index)) and isinstance(self.folder, Path) and not self.folder.exists()

    def _deleted_error(self) -> DimsweepError:
        return DimsweepError(
            "the results folder was deleted while the sweep was running, and its rows with it",
            where=str(self.folder),
            code="missing",
        )

    def _settle_record(self, study: StudyRecord) -> Mapping[str, Any]:
        """Write the record of a new study, or check that the folder's record agrees.

        Return the configuration in the record of the first run.
        """
        file = self.folder / STUDY
        self._config, self._provenance = study.config, study.provenance
        try:
            old = read_record(self.folder) if file.exists() else None
        except DamagedStudyError as error:
            self._check_owner(study)
            self._set_aside(file, error.problem)
        else:
            if old is not None:
                check_same(old, study, self.folder)
                self._config = old.config
                new = [each for each in study.provenance if each not in old.provenance]
                self._provenance = (*old.provenance, *new)
            elif self._check_owner(study):
                self.notes.append(f"{file} was not there beside the rows, and is written again")
        self._tidy()
        self.describe(study)
        return self._config

    def _tidy(self) -> None:
        """Remove temporary files of dead writers; rename stray files and damaged checkpoints."""
        for file in files.unfinished(self.folder):
            file.unlink()
        for file in files.strays(self.folder):
            self._set_aside(file, "no sweep gives a file this name")
        for file in files.bookmarks(self.folder):
            try:
                read_bookmark(file)
            except DamagedError as error:
                self._set_aside(file, str(error), "its search starts anew")

    def _check_owner(self, study: StudyRecord) -> bool:
        """Return whether the folder has rows.

        Raises :class:`DimsweepError` if all rows belong to another study.
        """
        found = [*files.parts(self.folder), *files.logs(self.folder)]
        owners = {owner for file in found if (owner := files.read_owner(file)) is not None}
        if owners and study.identity not in owners:
            raise DimsweepError(
                f"the rows here belong to another study, whose {STUDY} is missing or damaged",
                where=str(self.folder),
                hint="give that study's options, or give the new study another name (name=...)",
                code="mismatch",
            )
        return bool(found)

    def _recover(self, again: set[str]) -> None:
        """Write logs of dead writers as parts, set damaged files aside, and index the rows.

        Rows whose place is in ``again`` are not indexed, so that they are simulated again.
        """
        for log in files.logs(self.folder):
            content = files.read_log(log, self._study)
            self._seal(files.number(log), content.batches)
            if content.damage:
                self._set_aside(log, content.damage)
                continue
            if content.torn:
                self.notes.append(f"{log} ends within a row; its trial is evaluated again")
            log.unlink()
        columns = ["key", "cell", "state", "trial", "origin", *self._objective, *self._slopes]
        found = [Column(1, 0, np.int32) for _ in range(3)]
        for part in files.parts(self.folder):
            try:
                rows = files.read_part(part, self._study, columns)
                check_types(rows, self.schema, columns)
            except DamagedError as error:
                self._set_aside(part, str(error))
                continue
            self._shelf.add_part(part, self._study)
            rows = rows.filter(pc.invert(pc.is_in(rows["state"], pa.array(sorted(again)))))
            for batch in rows.combine_chunks().to_batches():
                own = _search_rows(batch, self._index_rows(batch))
                for column, values in zip(found, own, strict=True):
                    column.extend(len(values))
                    column.rows[column.size - len(values) :, 0] = values
        cells, numbers, places = (column.rows[:, 0] for column in found)
        same, before = cells[1:] == cells[:-1], cells[1:] < cells[:-1]
        before |= same & (numbers[1:] < numbers[:-1])
        if before.any():
            order = np.lexsort((numbers, cells))
            cells = cells[order]
            numbers = numbers[order]
            places = places[order]
        self._found = cells, numbers, places

    def _set_aside(
        self,
        file: Place,
        why: str,
        so: str = "rows that were lost with it are evaluated again",
    ) -> None:
        aside = self.folder / SET_ASIDE
        make_folder(aside)
        n, target = 1, aside / file.name
        while target.exists():
            n, target = n + 1, aside / f"{file.name}.{n}"
        file.rename(str(target))
        self.notes.append(f"{file} is damaged ({why}); it is now {target}, and {so}")

    def _next_log(self) -> Log:
        taken = [*files.parts(self.folder), *files.logs(self.folder)]
        number = 1 + max(map(files.number, taken), default=-1)
        return Log(self.folder, number, self.schema, self._study, self._lock.sink)

    def _index_rows(self, batch: pa.RecordBatch) -> Places:
        own = identity(pa.Table.from_batches([batch]))
        values = numbers(batch, self._objective)
        complete = pc.equal(batch.column("state"), COMPLETE).to_numpy(zero_copy_only=False)
        values[~complete | np.isnan(values).any(axis=1)] = np.nan
        return self.index.add(own, values, slopes(batch, self._slopes))

    def _stop_for_other_sweep(self) -> None:
        """Raise an error: another sweep took over the folder because this one seemed dead."""
        if self._is_deleted():
            raise self._deleted_error()
        raise DimsweepError(
            "this sweep has lost its lock while it was running, and another sweep has taken the "
            f"study over; the {self._n_safe} rows known to it are safe",
            where=str(self.folder),
            hint="let the other sweep continue, or stop it and run the same command again",
            code="conflict",
        )

    def _seal_log(self) -> None:
        self._log.close()
        self._seal(self._log.number, self._log.rows)
        self._log.path.unlink(missing_ok=True)

    def _seal(self, number: int, batches: list[pa.RecordBatch]) -> None:
        """Write ``batches`` of rows as the part with a number, and read it back to check it."""
        if not batches:
            return
        # In one piece: sorting the rows of a thousand small batches takes a hundred times as long.
        together = pa.Table.from_batches(batches).select(self.schema.names).combine_chunks()
        rows = in_order(together)
        name, data = files.encode_part(rows, number, self._study)
        part = self.folder / name
        write(part, data)
        self._shelf.add_part(part, self._study)
        try:
            if not files.read_part(part, self._study).equals(rows):
                raise DamagedError("it has other rows")
        except DamagedError as error:
            raise _damaged_part_error(part, error) from error


def _damaged_part_error(place: Place, error: DamagedError) -> DimsweepError:
    return DimsweepError(
        f"a part of the ledger differs from the rows that were written: {error}",
        where=str(place),
        hint="check the disk; the same command sets the part aside and resumes",
        code="damaged",
    )


def _search_rows(rows: pa.RecordBatch, places: Places) -> tuple[Compact, Compact, Compact]:
    """Return cell, trial number and place of the rows that searches proposed."""
    origins = pa.chunked_array([rows.column("origin")])
    others = pc.is_in(origins, pa.array(EXTRA_ORIGINS)).to_numpy() | is_requested(origins)
    cells, numbers = (rows.column(name).to_numpy() for name in ("cell", "trial"))
    return cells[~others], numbers[~others], places[~others].astype(np.int32)
