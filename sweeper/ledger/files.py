"""Files of a ledger. They contain the identity of their study, and checksums of their content.

    log-00002-1f3a9c5e.arrows     an Arrow stream; the name ends in a random number of its writer,
                                  and each batch carries a CRC-32 of its rows and of all before it
    part-00001-8d2b70c4.parquet   immutable rows; the name ends in the CRC-32 of the file

The schema of either has in its metadata the identity of its study, and the version that wrote it.
No two writers ever write the same file, and sealing the same rows twice makes the same part.  The
first versions wrote neither identities nor checksums: for these the identity is empty.
"""

import os
import re
import secrets
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dimsweep.sweeper.ledger import versions
from dimsweep.sweeper.ledger.place import NEW, STUDY, Place, Sink, list_folder, read
from dimsweep.sweeper.ledger.rows import ROWS_VERSION

_STUDY, _CHECK, _VERSION = b"dimsweep.study", b"dimsweep.crc32", b"dimsweep.rows"
_LOG = re.compile(r"(?:log|cells)-(\d{5,})(-[0-9a-f]{8})?\.arrows")
LOG = "log-"  # so begins the name of a log of rows
_BOOKMARK = re.compile(r"search-\d{5,}\.json")
_PART = re.compile(r"part-(\d{5,})(?:-([0-9a-f]{8}))?\.parquet")

# Arrow's default allocator asks for huge pages, which take the system seconds for a million rows.
if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
    with suppress(NotImplementedError):  # where Arrow is built without the other one
        pa.set_memory_pool(pa.jemalloc_memory_pool())


class DamagedError(Exception):
    """Error of a file whose content is not what its writer wrote; the message has the reason."""


@dataclass(frozen=True)
class LogContent:
    """The rows read from a log.

    ``damage`` describes unreadable batches. A writer that dies may leave half a batch of ``torn``
    bytes at the end, which is not damage.
    """

    batches: list[pa.RecordBatch]
    damage: str | None = None
    torn: int = 0


class Log:
    """A log that this process writes. Its ``n_rows`` rows also stay in memory."""

    def __init__(
        self,
        folder: Place,
        number: int,
        schema: pa.Schema,
        study: str,
        sink: Callable[[Place], Sink],
        prefix: str = LOG,
    ) -> None:
        """Create the file of the log; raises :class:`OSError` if ``sink`` fails."""
        self.number = number
        self.path = folder / f"{prefix}{number:05d}-{secrets.token_hex(4)}.arrows"
        self.rows, self.n_rows = list[pa.RecordBatch](), 0
        self._schema = schema.with_metadata(_file_metadata(study))
        self._check = zlib.crc32(self._schema.serialize())
        self._file = sink(self.path)
        self._stream = pa.ipc.new_stream(self._file, self._schema)
        self._file.flush()

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows; when this returns, they are passed to the sink.

        Raises :class:`OSError` if they cannot be written; rows that were written before are safe.
        """
        own = batch.replace_schema_metadata(self._schema.metadata)
        check = zlib.crc32(own.serialize(), self._check)
        self._stream.write_batch(own, custom_metadata={_CHECK: f"{check:08x}"})
        self._file.flush()
        self._check = check
        self.rows.append(batch)
        self.n_rows += len(batch)

    def is_mine(self) -> bool:
        """Return whether the file exists and is still the file that this writer created."""
        return self._file.is_mine()

    @property
    def n_unsafe(self) -> int:
        """Number of rows that would be lost if this process died."""
        written = self._file.n_safe - 1  # the first is the schema
        return sum(len(batch) for batch in self.rows[max(written, 0) :])

    def save(self) -> None:
        """Write the rows so that they survive this process.

        Raises :class:`OSError` if that fails.
        """
        self._file.save()

    def close(self) -> None:
        """Close the file without writing more; rows that were not written are lost."""
        self._file.discard()


def logs(folder: Place, prefix: str = LOG) -> list[Place]:
    """Return the files in ``folder`` with names of logs, sorted."""
    return [file for file in list_folder(folder) if file.name.startswith(prefix)]


def strays(folder: Place) -> list[Place]:
    """Return files whose name resembles a record's or a bookmark's but is not one, sorted.

    They are copies, for example: no sweep gives such names.
    """
    alike = [file for file in list_folder(folder) if file.name.startswith(("study", "search"))]
    return [file for file in alike if file.name != STUDY and not _BOOKMARK.fullmatch(file.name)]


def bookmarks(folder: Place) -> list[Place]:
    """Return the files with checkpoints of searches in ``folder``, sorted."""
    return [file for file in list_folder(folder) if _BOOKMARK.fullmatch(file.name)]


def unfinished(folder: Place) -> list[Place]:
    """Return temporary files of killed writers, which were not renamed yet."""
    return [file for file in list_folder(folder) if file.name.startswith(NEW)]


def parts(folder: Place) -> list[Place]:
    """Return the files in ``folder`` with names of parts, sorted."""
    return [file for file in list_folder(folder) if file.name.startswith("part-")]


def number(file: Place) -> int:
    """Return the number in the name of a log or part; -1 for any other file."""
    match = _LOG.fullmatch(file.name) or _PART.fullmatch(file.name)
    return int(match[1]) if match else -1


def read_log(file: Place, study: str) -> LogContent:
    """Read the log of a ``study``; raises :class:`FileNotFoundError` if it is missing."""
    data = read(file)
    match = _LOG.fullmatch(file.name)
    if not match or (study and not match[2]):
        return LogContent([], "no sweep gives a log this name")
    source, batches, whole = pa.BufferReader(data), [], 0
    try:
        reader = pa.ipc.open_stream(source)
        if (reader.schema.metadata or {}).get(_STUDY, b"").decode(errors="replace") != study:
            return LogContent([], "it is of another study")
        check, whole = zlib.crc32(reader.schema.serialize()), source.tell()
        while True:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
            check = _check_batch(batch, metadata, check, marked=bool(study))
            batches.append(_rename_to_current(batch.replace_schema_metadata(None)))
            whole = source.tell()
    except DamagedError as error:
        return LogContent(batches, str(error))
    except (pa.ArrowException, OSError, EOFError, StopIteration, ValueError):
        rest = data.slice(whole).to_pybytes()
    # A batch begins with its checksum, and the first one follows a schema that is whole.
    if rest.count(_CHECK) > (1 if whole else 0):
        return LogContent(batches, f"its last {len(rest)} bytes cannot be read")
    return LogContent(batches, torn=len(rest))


def read_owner(file: Place) -> str | None:
    """Return the identity of the study in the metadata of a log or part; None if missing."""
    try:
        source = pa.BufferReader(read(file))
        if _PART.fullmatch(file.name):
            schema = pq.read_schema(source)
        else:
            schema = pa.ipc.open_stream(source).schema
        return (schema.metadata or {})[_STUDY].decode()
    except (OSError, EOFError, ValueError, KeyError, pa.ArrowException):
        return None


def _rename_to_current(rows: Any) -> Any:
    """Return rows with their columns renamed to the names of this version."""
    return rows.rename_columns([versions.COLUMNS.get(name, name) for name in rows.schema.names])


def _all_column_names(columns: Sequence[str] | None) -> list[str] | None:
    """Return the given names, and the names of these columns in all other versions."""
    if columns is None:
        return None
    return [*columns, *(then for then, now in versions.COLUMNS.items() if now in columns)]


def _check_batch(
    batch: pa.RecordBatch, metadata: pa.KeyValueMetadata | None, before: int, *, marked: bool
) -> int:
    """Return the checksum of a batch, which includes the batches ``before``.

    Raises :class:`DamagedError` if the written one differs, or is missing in a file that is
    ``marked`` with its study.
    """
    try:
        batch.validate(full=True)  # offsets that point nowhere must not be followed
        check = zlib.crc32(batch.serialize(), before)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedError(f"a batch is invalid: {error}") from error
    if marked and (metadata or {}).get(_CHECK, b"") != f"{check:08x}".encode():
        raise DamagedError("a checksum is wrong")
    return check


def _file_metadata(study: str) -> dict[bytes, str]:
    return {_STUDY: study, _VERSION: str(ROWS_VERSION)}


def encode_part(rows: pa.Table, number: int, study: str) -> tuple[str, pa.Buffer]:
    """Return the file name and the bytes of the part with ``rows``."""
    sink = pa.BufferOutputStream()
    rows = rows.replace_schema_metadata(_file_metadata(study))
    texts = [field.name for field in rows.schema if pa.types.is_string(field.type)]
    # Keys are all different, and numbers nearly so: a dictionary of them only takes time.
    repeated = [name for name in texts if name != "key"]
    pq.write_table(rows, sink, use_dictionary=repeated, compression="lz4", write_page_checksum=True)
    data = sink.getvalue()
    return f"part-{number:05d}-{zlib.crc32(data):08x}.parquet", data


def read_schema(file: Place) -> pa.Schema:
    """Return the columns of a part, which :func:`read_part` has checked before."""
    with file.open("rb") as source:
        return _rename_to_current(pq.read_schema(source).remove_metadata().empty_table()).schema


def read_columns(file: Place, columns: Sequence[str]) -> pa.Table:
    """Read some columns of a part, which :func:`read_part` has checked before.

    Only the pages of these columns are read, each checked by its own checksum. Raises
    :class:`DamagedError` if they cannot be read.
    """
    try:
        with file.open("rb") as source:
            part = pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False)
            rows = part.read(_all_column_names(columns), use_threads=False)
            return _rename_to_current(rows.replace_schema_metadata(None))
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(str(error)) from error


def read_part(file: Place, study: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read all columns, or some ``columns``, of the rows of a part.

    Raises :class:`DamagedError` if its content differs from what was written, or if it belongs to
    another study than ``study``.
    """
    match = _PART.fullmatch(file.name)
    if not match or (study and not match[2]):
        raise DamagedError("no sweep gives a part this name")
    data = read(file)
    if match[2] and f"{zlib.crc32(data):08x}" != match[2]:
        raise DamagedError("its checksum is not the one in its name")
    try:
        part = pq.ParquetFile(pa.BufferReader(data))
        metadata = part.schema_arrow.metadata or {}
        if metadata.get(_STUDY, b"").decode() != study:
            raise DamagedError("it is of another study")
        # One thread: more of them wait for one another's memory from the system.
        rows = part.read(_all_column_names(columns), use_threads=False)
        return _rename_to_current(rows.replace_schema_metadata(None))
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(str(error)) from error
