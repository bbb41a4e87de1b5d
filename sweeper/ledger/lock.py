"""The lock of a study's only writer: locks, leases, and a sign of life of a sweep.

A lock keeps a second sweep out of a folder. Object stores have no locks; a lease replaces them:

    lease-00001.json    the writer of the study, and a number that changes with every renewal

A lease is created only if no file has its name, and the newest lease counts. A sweep renews its
lease every few seconds. If a lease does not change for a while, its sweep is considered dead, and
the next sweep creates a newer lease. If the first sweep is alive after all, it notices and stops.

The pulse is a file next to the ledger that shows a sweep's progress to observers. Nothing depends
on it.
"""

import errno
import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.place import (
    DiskSink,
    ObjectSink,
    Place,
    Sink,
    create,
    list_folder,
    read,
    translating_store_errors,
    write,
)

BEAT = 3.0  # seconds
PATIENCE = 5  # beats without a sign of life


class Lease:
    """The lease of ``folder``, held until it is released or not renewed in time.

    ``notes`` name the previous holder if its sweep seems dead. Raises :class:`DimsweepError` if
    another sweep holds the lease, and :class:`OSError` if the folder cannot be written.
    """

    def __init__(self, folder: Place) -> None:
        self._folder, self._token, self._beats = folder, secrets.token_hex(8), 0
        self.notes: list[str] = []
        while not self._try_to_take():
            pass
        for older in _leases(folder):
            if older.name < self._file.name:
                older.unlink(missing_ok=True)

    def renew(self) -> bool:
        """Renew the lease; return whether this process still holds it."""
        newest = next(reversed(_leases(self._folder)), None)
        if newest is None or newest.name != self._file.name or not self._is_mine():
            return False
        self._beats += 1
        write(self._file, self._text())
        return True

    def release(self) -> None:
        """Release the lease. If that fails, others can take the lease once it has expired."""
        with suppress(OSError), translating_store_errors(self._folder):
            if self._is_mine():
                self._file.unlink(missing_ok=True)

    def _try_to_take(self) -> bool:
        """Try to take the lease; return False if another process takes it at the same time."""
        newest = next(reversed(_leases(self._folder)), None)
        number = 1
        if newest is not None:
            who, alive = _watch(newest)
            if alive:
                raise DimsweepError(
                    "another sweep is writing this study",
                    where=str(self._folder),
                    hint=who,
                    code="conflict",
                )
            self.notes.append(f"the sweep that wrote this study before seems dead: {who}")
            number += int(newest.stem.removeprefix("lease-"))
        self._file = self._folder / f"lease-{number:05d}.json"
        try:
            create(self._file, self._text())
        except NotImplementedError as error:
            raise OSError("this file system cannot make a file only if there is none") from error
        except OSError:
            if not self._file.exists():
                raise
        if not _leases(self._folder):
            raise OSError(f"{self._file} was written, and is not there")
        return self._is_mine()  # also where a lost answer was asked for once more

    def _is_mine(self) -> bool:
        try:
            return bool(_read_lease(self._file).get("token") == self._token)
        except FileNotFoundError:
            return False

    def _text(self) -> bytes:
        who = f"process {os.getpid()} on {socket.gethostname()}"
        return json.dumps({"who": who, "token": self._token, "beats": self._beats}).encode()


def _leases(folder: Place) -> list[Place]:
    return [file for file in list_folder(folder) if file.name.startswith("lease-")]


def _watch(lease: Place) -> tuple[str, bool]:
    """Return the holder of a lease, and whether the holder renews it while this function waits."""
    try:
        before = _read_lease(lease)
        who = f"its lease {lease} is that of {before.get('who')}"
        end = time.monotonic() + PATIENCE * BEAT
        while time.monotonic() < end:
            time.sleep(BEAT / 2)
            if _read_lease(lease) != before:
                return who, True
    except FileNotFoundError:  # it was released
        return f"its lease {lease} is gone", False
    return f"{who}, and was not renewed in {PATIENCE * BEAT:.0f} s", False


def _read_lease(lease: Place) -> dict[str, object]:
    try:
        content = json.loads(read(lease).to_pybytes())
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


# Errors of file systems without flock, such as Lustre without the mount option of that name; 524 is
# Linux' ENOTSUPP, which has no name in errno.
_NO_FLOCK = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, 524}


class Lock(Protocol):
    """The lock of a study, held by this process."""

    #: notes for the user
    notes: list[str]

    def sink(self, path: Place) -> Sink:
        """Return the writable file, or buffer, for the log at ``path``."""

    def release(self) -> None: ...


def hold(folder: Place) -> Lock:
    """Take the lock of ``folder`` until it is released or the process dies.

    Raises :class:`DimsweepError` if another sweep holds it, and :class:`OSError` if the folder
    cannot be written.
    """
    return FolderLock(folder) if isinstance(folder, Path) else Keeper(folder)


class FolderLock:
    """The lock of a folder on a mounted file system.

    Without flock the lock is a file that names its process (:class:`filelock.SoftFileLock`). A
    killed process leaves it behind; a later process on the same machine sees that it is dead.
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
                "another sweep is writing this study",
                where=str(folder),
                hint=_describe_holder(lock),
                code="conflict",
            ) from None
        self._folder, self._lock = folder, lock
        self.notes = _lock_notes(lock)

    def sink(self, path: Place) -> DiskSink:
        return DiskSink(self._folder / path.name)

    def release(self) -> None:
        self._lock.release()


def _lock_notes(lock: BaseFileLock) -> list[str]:
    if not isinstance(lock, SoftFileLock):
        return []
    return [
        f"the file system has no locks (flock), so the file {lock.lock_file} keeps other sweeps "
        "out; it must be removed by hand if a sweep on another machine was killed"
    ]


def _describe_holder(lock: BaseFileLock) -> str:
    if not isinstance(lock, SoftFileLock):
        return ""
    return (
        f"its file system has no locks (flock), and process {lock.pid} left {lock.lock_file}; "
        "remove this file if no sweep is running on any machine"
    )


class Keeper:
    """A thread that renews the lease of ``folder`` and saves the log periodically.

    Raises the errors of :class:`Lease`.
    """

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._lease = Lease(folder)
        self.notes = self._lease.notes
        self._logs: list[ObjectSink] = []
        self._lost, self._failures = False, 0
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="dimsweep-lease", daemon=True)
        self._thread.start()

    def sink(self, path: Place) -> ObjectSink:
        sink = ObjectSink(path, self._is_ours)
        self._logs = [each for each in self._logs if not each.closed] + [sink]
        return sink

    def release(self) -> None:
        self._stop.set()
        self._thread.join()
        self._lease.release()

    def _is_ours(self) -> bool:
        """Return whether this sweep still holds the lease.

        Raises :class:`OSError` if the store was unreachable for as long as other sweeps wait.
        """
        if self._failures >= PATIENCE:
            raise OSError(f"{self._folder} cannot be reached: {self._error}") from self._error
        return not self._lost

    def _keep(self) -> None:
        while not self._stop.wait(BEAT) and not self._lost:
            try:
                with translating_store_errors(self._folder):
                    self._lost = not self._lease.renew()
                    for log in self._logs if not self._lost else ():
                        log.save()
                self._failures = 0
            except Exception as error:  # the thread that writes rows raises it
                self._error, self._failures = error, self._failures + 1


PULSE = "pulse.json"
_DEAD = 30.0  # seconds without a beat


@dataclass(frozen=True, config=ConfigDict(allow_inf_nan=False))
class Pulse:
    """The progress of a sweep at one point in time, as shown to observers."""

    #: seconds since 1970
    at: float
    #: trials
    done: int
    #: trials
    failed: int
    #: trials/s
    rate: float
    workers: int
    #: share of the time in which workers were busy
    busy: float
    #: number of machines
    nodes: int
    #: whether the sweep has ended, in any way
    over: bool = False

    @property
    def is_alive(self) -> bool:
        """True if the sweep still runs."""
        return not self.over and time.time() - self.at < _DEAD


def beat(folder: Place, pulse: Pulse) -> None:
    """Write the progress of the sweep in ``folder``."""
    with suppress(OSError), translating_store_errors(folder):
        write(folder / PULSE, json.dumps(asdict(pulse)).encode())


def last_pulse(folder: Place) -> Pulse | None:
    """Return the last written progress of a sweep in ``folder``, or None."""
    try:
        with translating_store_errors(folder):
            return Pulse(**json.loads(read(folder / PULSE).to_pybytes()))
    except (OSError, ValueError, TypeError):
        return None
