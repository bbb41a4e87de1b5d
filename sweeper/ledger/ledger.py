"""The ledger: a folder that is the only truth about a study.

    study.json                    what the study is: name, objective, cells, resolved configuration
    log-00002-1f3a9c5e.arrows     rows as they arrive, handed to the system batch by batch
    part-00000-8d2b70c4.parquet   immutable rows

Rows go to the log; a full log becomes the part of its number, written under another name and then
renamed, and the next log begins.  So at any moment every row is in at least one readable place: a
killed process loses the rows in flight and nothing else.  Reading counts a row once, by its key.
One process writes, which a lock sees to.  Should the lock fail, no harm is done: a writer changes
no file but its own.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine import DimsweepError
from sweeper.ledger import files, keys
from sweeper.ledger.files import DamagedError, Log
from sweeper.ledger.known import Known
from sweeper.ledger.lock import hold, says_of
from sweeper.ledger.record import DamagedStudyError, StudyRecord, read_study
from sweeper.ledger.rows import (
    COMPLETE,
    FAILED,
    LOST,
    PORTFOLIO,
    RECHECK,
    Cell,
    labels,
    numbers,
    renamed,
    row_schema,
    slope_columns,
    slopes,
)
from sweeper.ledger.shelf import Shelf
from sweeper.space.trials import Trials

ROWS_PER_PART = 10_000
SET_ASIDE = "damaged"  # the folder for files that are not what a sweep wrote


class Ledger:
    """One study's ledger, open for writing; use it as a context manager.

    ``known`` has the objective values of the rows, and their slopes if a search learns from them.
    Trials of an earlier run that were lost to a fault of the environment are not among them, so
    they are evaluated again; with ``retry_failed`` neither are failed ones.
    ``notes`` say what a user should know of the folder: what was damaged, and is evaluated again.
    """

    def __init__(
        self, folder: Path, study: StudyRecord, schema: pa.Schema, *, retry_failed: bool = False
    ) -> None:
        """Create the ledger in ``folder``, or resume the one that is there.

        Raises :class:`DimsweepError` if the folder cannot be written, is in use, or holds a study
        whose rows would not mix with this one's.
        """
        self.folder, self.schema = folder, schema
        self._objective = [objective.column for objective in study.objectives]
        self._slopes = slope_columns(schema) if study.learns_from_slopes else []
        self.known = Known(len(self._objective), len(self._slopes))
        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = hold(folder)
        self.notes = says_of(self._lock)
        try:
            with self._writing():
                self._config = self._settle(study)
                self._study = study.model_copy(update={"config": self._config}).identity
                self._shelf = Shelf(folder, study)
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
            if kind is None:  # else the first error is the one to tell; the rows are in the log
                raise

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows; they are safe from this process's death when this returns."""
        with self._writing():
            self._log.append(batch)
            self._remember(batch)
            self._shelf.add_rows(batch)
            if not self._log.is_mine():
                self._give_way()
            if self._log.n_rows >= ROWS_PER_PART:
                self._seal_log()
                self._log = self._next_log()

    def borrow(self, cell: Cell, trials: Trials, own: Sequence[str]) -> np.ndarray:
        """Add rows for trials with the keys ``own`` that other cells, or other studies in the same
        results folder, have; which these are."""
        found, rows = self._shelf.rows(own)
        if rows is not None:
            named = labels(cell, trials.take(found), list(itertools.compress(own, found)))
            self.append(renamed(rows, self.schema, named))
        return found

    def describe(self, study: StudyRecord) -> None:
        """Keep what has become known of the study since it was opened."""
        kept = {"config": self._config, "provenance": self._provenance}
        same = study.model_copy(update=kept)
        with self._writing():
            _write_atomically(self.folder / "study.json", same.to_json())

    def close(self) -> None:
        """Seal what the log holds."""
        try:
            with self._writing():
                self._seal_log()
        finally:
            self._lock.release()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Within it, the system's errors are told as what they mean for the rows."""
        try:
            yield
        except OSError as error:
            if len(self.known) and not self.folder.exists():
                raise self._deleted() from error
            why = f"the results folder cannot be written: {error.strerror or error}"
            n = len(self.known)
            safe = f"; the {n} rows before this are safe" if n else ""
            raise DimsweepError(
                why + safe,
                where=str(self.folder),
                hint="the same command continues once the folder can be written",
            ) from error

    def _deleted(self) -> DimsweepError:
        return DimsweepError(
            "the results folder was deleted while the sweep was running, and its rows with it",
            where=str(self.folder),
        )

    def _settle(self, study: StudyRecord) -> Mapping[str, Any]:
        """Write what the study is, or check that it is the one that the folder holds; the
        configuration as it was written first."""
        file = self.folder / "study.json"
        self._config, self._provenance = study.config, study.provenance
        try:
            old = read_study(self.folder) if file.exists() else None
        except DamagedStudyError as error:
            self._set_aside(file, error.what)
        else:
            if old is not None:
                _check_same(old, study, self.folder)
                self._config = old.config
                new = [each for each in study.provenance if each not in old.provenance]
                self._provenance = (*old.provenance, *new)
            elif files.parts(self.folder) or files.logs(self.folder):
                raise DimsweepError("rows without a study.json", where=str(self.folder))
        self.describe(study)
        return self._config

    def _recover(self, again: set[str]) -> None:
        """Seal what dead writers' logs hold, set aside what is damaged, and remember the rest but
        for trials in a state to be evaluated ``again``."""
        for log in files.logs(self.folder):
            content = files.read_log(log, self._study)
            self._seal(files.number(log), content.batches)
            if content.damage:
                self._set_aside(log, content.damage)
                continue
            if content.torn:
                self.notes.append(f"{log} ends within a row; its trial is evaluated again")
            log.unlink()
        columns, tables = ["key", "cell", "state", *self._objective, *self._slopes], []
        for part in files.parts(self.folder):
            try:
                tables.append(files.read_part(part, self._study, columns))
                self._shelf.add_part(part, self._study)
            except DamagedError as error:
                self._set_aside(part, str(error))
        if tables:
            every = pa.concat_tables(tables)
            known = _first(every, _identity(every), _by_state)
            known = known.filter(pc.invert(pc.is_in(known["state"], pa.array(sorted(again)))))
            for batch in known.combine_chunks().to_batches():
                self._remember(batch)

    def _set_aside(self, file: Path, why: str) -> None:
        aside = self.folder / SET_ASIDE
        aside.mkdir(exist_ok=True)
        n, target = 1, aside / file.name
        while target.exists():
            n, target = n + 1, aside / f"{file.name}.{n}"
        os.replace(file, target)
        self.notes.append(
            f"{file} is damaged ({why}); it is now {target}, and rows that were lost with it are "
            "evaluated again"
        )

    def _next_log(self) -> Log:
        taken = [*files.parts(self.folder), *files.logs(self.folder)]
        number = 1 + max(map(files.number, taken), default=-1)
        return Log(self.folder, number, self.schema, self._study)

    def _remember(self, batch: pa.RecordBatch) -> None:
        own = _identity(pa.Table.from_batches([batch]))
        values = numbers(batch, self._objective)
        complete = pc.equal(batch.column("state"), COMPLETE).to_numpy(zero_copy_only=False)
        values[~complete | np.isnan(values).any(axis=1)] = np.nan
        self.known.add(own, values, slopes(batch, self._slopes))

    def _give_way(self) -> None:
        """Stop, since another sweep took this one for dead; what is known is kept for it."""
        rows = f"the {len(self.known)} rows known to it are safe"
        if not self.folder.exists():
            raise self._deleted()
        raise DimsweepError(
            "this sweep's log was taken away: the lock was removed while it was running, and "
            f"another sweep has taken the study over; {rows}",
            where=str(self.folder),
            hint="let the other sweep go on, or stop it and run the same command again",
        )

    def _seal_log(self) -> None:
        """Turn the log into an immutable part."""
        self._log.close()
        self._seal(self._log.number, self._log.rows)
        self._log.path.unlink(missing_ok=True)

    def _seal(self, number: int, batches: list[pa.RecordBatch]) -> None:
        """Write the part of ``batches``, and see that it is what was written."""
        if not batches:
            return
        rows = _in_order(pa.Table.from_batches(batches).select(self.schema.names))
        name, data = files.encode_part(rows, number, self._study)
        part = self.folder / name
        _write_atomically(part, data)
        self._shelf.add_part(part, self._study)
        try:
            whole = files.read_part(part, self._study).equals(rows)
        except DamagedError:
            whole = False
        if not whole:
            raise DimsweepError(
                "a part of the ledger is not what was written; its rows are still in their log",
                where=str(part),
                hint="check the disk; the same command continues",
            )


def load(folder: str | Path) -> pa.Table:
    """All rows of the study in ``folder``, ordered by cell and trial, each once.

    Safe while a sweep is writing: no load returns fewer rows than an earlier one.  Raises
    :class:`DimsweepError` if there is no study, or if files of it are damaged; it names them.
    """
    folder = Path(folder)
    study = read_study(folder)
    tables, damaged = dict[int, list[pa.Table]](), []
    # Logs first: the rows of one that is sealed meanwhile are in a part when the parts are listed.
    for log in files.logs(folder):
        try:
            content = files.read_log(log, study.identity)
        except FileNotFoundError:
            continue
        if content.batches:
            rows = pa.Table.from_batches(content.batches)
            tables.setdefault(files.number(log), []).append(rows)
        if content.damage:
            damaged.append(f"{log}: {content.damage}")
    for part in files.parts(folder):
        try:
            rows = files.read_part(part, study.identity)
            tables.setdefault(files.number(part), []).append(rows)
        except DamagedError as error:
            damaged.append(f"{part}: {error}")
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
    in_order = [rows for number in sorted(tables) for rows in tables[number]]
    return _in_order(_each_once(pa.concat_tables(in_order)))


def _each_once(table: pa.Table) -> pa.Table:
    """The rows of files in their order, each trial once.

    A key may occur twice where a log has become a part, where a lost lock let two sweeps evaluate
    the same trial, or where a trial was tried again: what was simulated counts.  The number of a
    trial occurs twice where a trial before it was tried again, and the search, which knew more
    then, proposed another one: the later counts.
    """
    table = _first(table, _identity(table), _by_state)
    origin = pc.index_in(table["origin"], pa.array([RECHECK, PORTFOLIO])).fill_null(2)
    cell, trial = (table[name].to_numpy().astype(np.uint64) for name in ("cell", "trial"))
    # The bits of a cell, of a kind and of a trial.
    identity = cell << np.uint64(34) | origin.to_numpy().astype(np.uint64) << np.uint64(32) | trial
    return _first(table, identity[:, None], _latest)


def _identity(table: pa.Table) -> np.ndarray:
    return keys.in_cells(keys.from_column(table["key"]), table["cell"].to_numpy())


def _by_state(table: pa.Table) -> np.ndarray:
    """Simulated rows before failed ones, and these before lost ones."""
    failed, lost = (pc.equal(table["state"], state).to_numpy() for state in (FAILED, LOST))
    return np.asarray(failed + 2 * lost)


def _latest(table: pa.Table) -> np.ndarray:
    return np.arange(len(table), 0, -1)


def _first(
    table: pa.Table, identity: np.ndarray, order: Callable[[pa.Table], np.ndarray]
) -> pa.Table:
    """The first row, by ``order`` and then by place, of those whose ``identity`` (N, C) is equal;
    in the order of the table."""
    if keys.differ(identity):
        return table
    by = np.lexsort((order(table), *identity.T))
    first = np.append(True, (identity[by[1:]] != identity[by[:-1]]).any(axis=1))
    return table.take(pa.array(np.sort(by[first])))


def _in_order(table: pa.Table) -> pa.Table:
    """The rows by cell and trial; only those are moved that are not in their place."""
    order = np.lexsort((table["trial"].to_numpy(), table["cell"].to_numpy()))
    moved = order != np.arange(len(order))
    ends = [0, *(np.flatnonzero(np.diff(moved)) + 1).tolist(), len(order)]
    return pa.concat_tables(
        table.take(pa.array(order[start:stop]))
        if moved[start]
        else table.slice(start, stop - start)
        for start, stop in itertools.pairwise(ends)
        if start < stop
    )


def _check_same(old: StudyRecord, new: StudyRecord, folder: Path) -> None:
    before, after = flat(old.config), flat(new.config)
    for version in ("model", "rows"):
        before[version], after[version] = getattr(old, version), getattr(new, version)
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if changed:
        lines = [f"\n  {key}: {before.get(key)!r} -> {after.get(key)!r}" for key in changed[:12]]
        more = f"\n  ... and {len(changed) - 12} more" if len(changed) > 12 else ""
        raise DimsweepError(
            "these results are of another study; their rows would not mix:" + "".join(lines) + more,
            where=str(folder),
            hint="give the new study a name of its own (name=...), or remove the folder",
        )


def flat(node: Any, path: str = "") -> dict[str, Any]:
    """The values of nested mappings by dotted key."""
    if isinstance(node, Mapping) and node:
        return {k: v for key in node for k, v in flat(node[key], f"{path}.{key}").items()}
    return {path.removeprefix("."): node}


def _write_atomically(file: Path, data: bytes | pa.Buffer) -> None:
    new = file.with_name(f"new-{file.name}")
    with new.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(new, file)
