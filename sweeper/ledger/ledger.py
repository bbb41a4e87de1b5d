"""The ledger: a folder that is the only truth about a study.

    study.json           what the study is: name, objective, cells, resolved configuration
    log-00002.arrows     rows as they arrive: an Arrow stream, handed to the system batch by batch
    part-00000.parquet   immutable rows; part n was log n

Rows go to the log; a full log becomes the part of its number, written under another name and then
renamed, and the next log begins.  So at any moment every row is in exactly one readable place:
a killed process loses the rows in flight and nothing else.  One process writes, which a lock sees
to; many may read.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from engine import DimsweepError
from sweeper.ledger.record import StudyRecord, read_study
from sweeper.ledger.rows import COMPLETE, slope_columns, slopes

ROWS_PER_PART = 10_000
_SORT = [("cell", "ascending"), ("trial", "ascending")]


class Ledger:
    """One study's ledger, open for writing; use it as a context manager.

    ``values`` maps the key of every row to its objective values, or ``None`` for a failed trial;
    ``slopes``, if a search learns from them, to dT/db in seconds per byte/s, where it is known.
    """

    def __init__(self, folder: Path, study: StudyRecord, schema: pa.Schema) -> None:
        """Create the ledger in ``folder``, or resume the one that is there.

        Raises :class:`DimsweepError` if the folder cannot be written, is in use, or holds a study
        whose rows would not mix with this one's.
        """
        self.folder, self.schema = folder, schema
        self._objective = [objective.column for objective in study.objectives]
        self.values: dict[str, tuple[float, ...] | None] = {}
        self.slopes: dict[str, tuple[float, ...]] = {}
        self._slopes = slope_columns(schema) if study.learns_from_slopes else []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / "lock").open("w")
        except OSError as error:
            raise DimsweepError(
                f"the results folder cannot be written: {error.strerror}", where=str(folder)
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DimsweepError("another sweep is writing this study", where=str(folder)) from None
        self._settle(study)
        self._open_log()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows; they are safe from this process's death when this returns."""
        self._write(batch)
        self._remember(batch)
        if self._n_logged >= ROWS_PER_PART:
            self._seal()
            self._open_log()

    def describe(self, study: StudyRecord) -> None:
        """Keep what has become known of the study since it was opened."""
        _write_atomically(self.folder / "study.json", study.to_json())

    def close(self) -> None:
        """Seal what the log holds."""
        self._seal()
        self._lock.close()

    def _settle(self, study: StudyRecord) -> None:
        """Write what the study is, or check that it is the one that the folder holds."""
        if (self.folder / "study.json").exists():
            _check_same(read_study(self.folder), study, self.folder)
        elif any(self.folder.glob("part-*")) or any(self.folder.glob("log-*")):
            raise DimsweepError("rows without a study.json", where=str(self.folder))
        self.describe(study)

    def _open_log(self) -> None:
        """Start the next log with what a dead writer's log still holds."""
        for part in sorted(self.folder.glob("part-*.parquet")):
            _log_of(part).unlink(missing_ok=True)  # died between the rename and this
        number = 1 + max((_number(p) for p in self.folder.glob("part-*.parquet")), default=-1)
        self._log = self.folder / f"log-{number:05d}.arrows"
        left = list(_read_log(self._log))
        new = self._log.with_suffix(".new")
        self._file = new.open("wb", buffering=0)
        self._stream = pa.ipc.new_stream(self._file, self.schema)
        self._n_logged = 0
        for batch in left:
            self._write(batch.select(self.schema.names))
        os.replace(new, self._log)
        if not self.values:
            table = _read(self.folder, ["key", "state", *self._objective, *self._slopes])
            for batch in table.to_batches():
                self._remember(batch)

    def _write(self, batch: pa.RecordBatch) -> None:
        try:
            self._stream.write_batch(batch)
        except OSError as error:
            raise DimsweepError(
                f"a row could not be written: {error.strerror or error}", where=str(self._log)
            ) from error
        self._n_logged += len(batch)

    def _remember(self, batch: pa.RecordBatch) -> None:
        columns = [batch.column(name).to_pylist() for name in self._objective]
        for key, state, *values in zip(
            batch.column("key").to_pylist(),
            batch.column("state").to_pylist(),
            *columns,
            strict=True,
        ):
            self.values[key] = tuple(values) if state == COMPLETE else None
        if self._slopes:
            found = zip(batch.column("key").to_pylist(), slopes(batch), strict=True)
            self.slopes.update((key, slope) for key, slope in found if slope)

    def _seal(self) -> None:
        """Turn the log into an immutable part."""
        self._stream.close()
        self._file.close()
        if self._n_logged:
            rows = pa.Table.from_batches(list(_read_log(self._log)), self.schema).sort_by(_SORT)
            part = self._log.with_name(f"part-{_number(self._log):05d}.parquet")
            new = part.with_suffix(".new")
            pq.write_table(rows, new)
            _sync(new)
            os.replace(new, part)
        self._log.unlink()


def load(folder: str | Path) -> pa.Table:
    """All rows of the study in ``folder``, ordered by cell and trial.

    Safe while a sweep is writing.  Raises :class:`DimsweepError` if there is no study.
    """
    read_study(Path(folder))
    return _read(Path(folder), None).sort_by(_SORT)


def _read(folder: Path, columns: list[str] | None) -> pa.Table:
    parts = sorted(folder.glob("part-*.parquet"))
    tables = []
    for part in parts:
        try:
            tables.append(pq.read_table(part, columns=columns))
        except (OSError, pa.ArrowInvalid) as error:
            raise DimsweepError(
                f"a part of the ledger is damaged: {error}", where=str(part)
            ) from None
    for log in sorted(folder.glob("log-*.arrows")):
        if _part_of(log) not in parts:
            batches = list(_read_log(log))
            if batches:
                table = pa.Table.from_batches(batches)
                tables.append(table.select(columns) if columns else table)
    if not tables:
        return pa.table({name: [] for name in columns or ["cell", "trial"]})
    return pa.concat_tables(tables)


def _read_log(log: Path) -> Iterator[pa.RecordBatch]:
    """The whole batches of a log; a writer that died may have left half a batch at its end."""
    if not log.exists():
        return
    with log.open("rb") as file:
        try:
            yield from pa.ipc.open_stream(file)
        except (pa.ArrowInvalid, OSError, EOFError):
            return


def _check_same(old: StudyRecord, new: StudyRecord, folder: Path) -> None:
    before, after = _flat(old.config), _flat(new.config)
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


def _flat(node: Any, path: str = "") -> dict[str, Any]:
    if isinstance(node, Mapping) and node:
        return {k: v for key in node for k, v in _flat(node[key], f"{path}.{key}").items()}
    return {path.removeprefix("."): node}


def _number(path: Path) -> int:
    return int(path.stem.split("-")[1])


def _log_of(part: Path) -> Path:
    return part.with_name(f"log-{_number(part):05d}.arrows")


def _part_of(log: Path) -> Path:
    return log.with_name(f"part-{_number(log):05d}.parquet")


def _write_atomically(file: Path, data: bytes) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(data)
    _sync(new)
    os.replace(new, file)


def _sync(file: Path) -> None:
    with file.open("rb") as handle:
        os.fsync(handle.fileno())
