"""Folders of studies, on this machine or any file system of fsspec, and how to write in them."""

import errno
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from upath import UPath

from dimsweep.engine import DimsweepError

Place = Path | UPath  # the latter elsewhere than in this machine's folders
STUDY = "study.json"  # the name of a study's record in its folder
NEW = "new-"  # so begin the names of files that are being written


def find_results_folder(name: str | Place) -> Place:
    """Return the results folder of a study, given by its path or by its name in results/."""
    beside = Path("results") / name if isinstance(name, str) and name else None
    return beside if beside is not None and (beside / STUDY).is_file() else parse_place(name)


def parse_place(name: str | Place) -> Place:
    """Return the folder or file ``name``, which is a path or a URL such as ``s3://bucket/folder``.

    Raises :class:`DimsweepError` if the package for such URLs is missing, and for an invalid name.
    """
    if isinstance(name, Place):
        return name
    if not isinstance(name, str):
        raise DimsweepError(
            f"{name!r} is not the name of a folder",
            where="folder",
            hint='give a path such as "results/libra_gpt3_4d"',
            code="wrong-type",
        )
    if "://" not in name:
        return Path(name)
    try:
        found = UPath(name)
        found.fs.dircache.use_listings_cache = False  # other processes write there, too
    except (ImportError, ValueError) as error:
        # fsspec's own ImportError says which package is missing; one that is broken is another's.
        cause = error.__cause__
        if isinstance(error, ImportError) and not isinstance(cause, ModuleNotFoundError):
            raise
        raise DimsweepError(
            f"this file system cannot be opened: {error}",
            where=name,
            hint="install dimsweep[s3] for s3://; other file systems need other packages of fsspec",
            code="inaccessible",
        ) from error
    except OSError as error:
        raise DimsweepError(
            f"this file system cannot be reached: {error.strerror or error}",
            where=name,
            hint="check the host in the URL, or give a folder of this machine",
            code="inaccessible",
        ) from error
    return Path(found.path) if found.protocol in ("file", "local") else found


@contextmanager
def translating_store_errors(where: Place) -> Iterator[None]:
    """Return a context that turns errors of remote file systems' packages into :class:`OSError`."""
    try:
        yield
    except Exception as error:
        ours = isinstance(where, Path) or isinstance(error, DimsweepError)
        if ours or type(error).__module__ == "builtins":
            raise
        raise OSError(str(error) or type(error).__name__) from error


def make_folder(folder: Place) -> None:
    """Make a folder if it is missing; on an object store, which has no folders, do nothing."""
    folder.mkdir(parents=isinstance(folder, Path), exist_ok=True)


def list_folder(folder: Place) -> list[Place]:
    """Return the content of a folder, sorted; [] if it does not exist."""
    try:
        return sorted(folder.iterdir(), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def read(file: Place) -> pa.Buffer:
    """Return a file's bytes in Arrow's memory, which its threads may free after Python's end."""
    if isinstance(file, Path):
        with pa.OSFile(str(file)) as source:
            return source.read_buffer()
    sink = pa.BufferOutputStream()
    sink.write(file.fs.cat_file(file.path))
    return sink.getvalue()


def write(file: Place, data: bytes | pa.Buffer) -> None:
    """Write a file atomically, and replace an existing one.

    Object stores do so by themselves. When this returns, a folder of this machine has the file even
    if the machine fails.
    """
    if not isinstance(file, Path):
        file.fs.pipe_file(file.path, bytes(data))
        return
    new = file.with_name(f"{NEW}{os.getpid()}-{file.name}")
    try:
        with new.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(new, file)
    except OSError:
        with suppress(OSError):
            new.unlink()  # a full disk has better uses
        raise
    _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    """Flush the folder's entries to disk, if its file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def create(file: Place, data: bytes) -> None:
    """Write a file only if none exists.

    Raises :class:`OSError` if one exists, and :class:`NotImplementedError` if the file system
    cannot tell.
    """
    if isinstance(file, Path):
        with file.open("xb") as handle:
            handle.write(data)
    else:
        file.fs.pipe_file(file.path, data, mode="create")


_LARGEST_WRITE = 1 << 26  # bytes; a batch reaches the system in one piece


class Sink(Protocol):
    """A growing file; the writer calls flush after each batch."""

    n_safe: int  # flushes whose bytes outlive this process

    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...

    def is_mine(self) -> bool:
        """Return whether this process still owns the study.

        Raises :class:`OSError` if that could not be checked for long.
        """

    def save(self) -> None:
        """Write flushed bytes so that they survive this process.

        Raises :class:`OSError` if that fails.
        """

    def discard(self) -> None:
        """Close the file without writing more; bytes that were not flushed are lost."""


class DiskSink(io.BufferedWriter):
    """A file on this machine to which bytes are appended."""

    def __init__(self, path: Path) -> None:
        """Create the file; raises :class:`OSError` if that fails."""
        super().__init__(io.FileIO(path, "x"), _LARGEST_WRITE)
        self._path, self.n_safe = path, 0

    def flush(self) -> None:
        super().flush()
        self.n_safe += 1

    def is_mine(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self.fileno()))
        except FileNotFoundError:
            return False

    def save(self) -> None:
        """Do nothing: flushed bytes are with the operating system and survive this process."""

    def discard(self) -> None:
        self.raw.close()


class ObjectSink(io.BytesIO):
    """A file on an object store, which cannot append: :meth:`save` writes all bytes from memory.

    Another thread may call :meth:`save`.
    """

    def __init__(self, path: Place, check: Callable[[], bool]) -> None:
        """Take ``check``, a function that returns whether this process still owns the study.

        It raises :class:`OSError` if the store cannot be reached.
        """
        super().__init__()
        self._path, self._check = path, check
        self._flushed = 0, 0  # bytes, and times
        self._saving = threading.Lock()
        self.n_safe = 0

    def flush(self) -> None:
        self._flushed = self.tell(), self._flushed[1] + 1

    def save(self) -> None:
        with self._saving:
            size, times = self._flushed
            if times > self.n_safe and not self.closed:
                write(self._path, self.getvalue()[:size])
                self.n_safe = times

    def is_mine(self) -> bool:
        return self._check()

    def discard(self) -> None:
        with self._saving:
            self.close()
