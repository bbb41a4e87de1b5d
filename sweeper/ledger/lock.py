"""What keeps a second sweep out of a study's folder."""

import errno
from pathlib import Path
from typing import Protocol

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.keeper import Keeper
from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.ledger.sink import DiskSink, Sink

# What file systems answer that have no flock, such as Lustre without the mount option of that name;
# 524 is Linux' own ENOTSUPP, which has no name in errno.
_NO_FLOCK = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, 524}


class Lock(Protocol):
    """A study's, held by this process.  ``notes`` say what a user should know of it."""

    notes: list[str]

    def sink(self, path: Place) -> Sink:
        """Where the bytes of the log at ``path`` go."""

    def release(self) -> None:
        """Let others write the study."""


def hold(folder: Place) -> Lock:
    """The lock of ``folder``, held by this process until it is released or the process dies.

    Raises :class:`DimsweepError` if another sweep holds it, and :class:`OSError` if the folder
    cannot be written.
    """
    return FolderLock(folder) if isinstance(folder, Path) else Keeper(folder)


class FolderLock:
    """The lock of a folder of this machine, or that it mounts.

    Where the file system has no flock the lock is a file that names its process
    (:class:`filelock.SoftFileLock`), which a process that is killed leaves behind; a later one
    on the same machine sees that it is dead.
    """

    def __init__(self, folder: Path) -> None:
        lock: BaseFileLock = FileLock(folder / "lock", fallback_to_soft=False)
        try:
            try:
                lock.acquire(timeout=0)
            except OSError as error:
                if isinstance(error, Timeout) or error.errno not in _NO_FLOCK:
                    raise
                lock = SoftFileLock(folder / "lock.held")
                lock.acquire(timeout=0)
        except Timeout:
            raise DimsweepError(
                "another sweep is writing this study", where=str(folder), hint=_holder(lock)
            ) from None
        self._folder, self._lock = folder, lock
        self.notes = _says_of(lock)

    def sink(self, path: Place) -> DiskSink:
        """A file to which bytes are appended."""
        return DiskSink(self._folder / path.name)

    def release(self) -> None:
        """Let others write the study."""
        self._lock.release()


def _says_of(lock: BaseFileLock) -> list[str]:
    if not isinstance(lock, SoftFileLock):
        return []
    return [
        f"the file system has no locks (flock), so the file {lock.lock_file} keeps other sweeps "
        "out; it must be removed by hand if a sweep on another machine was killed"
    ]


def _holder(lock: BaseFileLock) -> str:
    if not isinstance(lock, SoftFileLock):
        return ""
    return (
        f"its file system has no locks (flock), and process {lock.pid} left {lock.lock_file}; "
        "remove this file if no sweep is running on any machine"
    )
