"""Where the bytes of a log go."""

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from dimsweep.sweeper.ledger.place import Place, write

_LARGEST_WRITE = 1 << 26  # bytes; a batch reaches the system in one piece


class Sink(Protocol):
    """A file that grows, each batch of it followed by a flush."""

    n_safe: int  # flushes whose bytes outlive this process

    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...

    def is_mine(self) -> bool:
        """Whether no other process has taken the study over; raises :class:`OSError` if it has not
        been known for long."""

    def save(self) -> None:
        """Make what was flushed outlive this process; raises :class:`OSError` if it cannot be."""

    def let_go(self) -> None:
        """Close it as it is; what was not flushed is dropped."""


class DiskSink(io.BufferedWriter):
    """A file of this machine, to which bytes are appended."""

    def __init__(self, path: Path) -> None:
        """Raises :class:`OSError` if it cannot be created."""
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
        """Nothing to do: what was flushed is with the system, and outlives this process."""

    def let_go(self) -> None:
        self.raw.close()


class ObjectSink(io.BytesIO):
    """A file of a store that knows no appending: bytes are kept in memory, and all of them are
    written by :meth:`save`, which another thread may call."""

    def __init__(self, path: Place, check: Callable[[], bool]) -> None:
        """``check`` is asked whether no other process has taken the study over; it raises
        :class:`OSError` if the store cannot be reached."""
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

    def let_go(self) -> None:
        with self._saving:
            self.close()
