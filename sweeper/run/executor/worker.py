"""A worker of the Ray executor: it simulates trials within limits of time and memory."""

import resource
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa

from dimsweep.sweeper.ledger.rows import Cell
from dimsweep.sweeper.places import find_file, list_files, register_copies
from dimsweep.sweeper.run.executor.evaluate import Evaluator, Job, Outcome
from dimsweep.sweeper.run.executor.guest import digest, pack, unpack


@dataclass(frozen=True)
class Limits:
    """Limits of one trial's simulation; 0 means no limit."""

    #: wall time
    seconds: float = 0.0
    #: bytes beyond the worker's use before the trial
    memory: int = 0


@dataclass(frozen=True)
class Luggage:
    """The files that a study's configurations name, packed for workers on other machines."""

    #: a ZIP archive with a folder for each file name
    archive: bytes
    #: name of the folder into which it is unpacked
    name: str
    #: path in the archive, by the name in the configuration
    folders: Mapping[str, str]

    @classmethod
    def pack(cls, cells: Sequence[Cell]) -> Self:
        """Pack the files that the cells' configurations name."""
        names = sorted({name for cell in cells for name in cell.config.files().values()})
        folders = {name: f"{i}/{find_file(name).name}" for i, name in enumerate(names)}
        files = {
            f"{i}/{file.name}": file.read_bytes()
            for i, name in enumerate(names)
            for file in list_files(name)
        }
        return cls(pack(files), f"files-{digest(files)}", folders)

    def unpack(self) -> None:
        """Write the files on this machine, so that configurations find them."""
        if self.folders:
            folder: Path = unpack(self.archive, self.name)
            register_copies({name: folder / place for name, place in self.folders.items()})


class Worker:
    """Simulates trials within limits of time and memory, and measures the time."""

    def __init__(
        self, cells: Sequence[Cell], schema: pa.Schema, limits: Limits, luggage: Luggage | None
    ) -> None:
        if luggage is not None:
            luggage.unpack()
        self._evaluator, self._limits = Evaluator(cells, schema), limits
        self._evaluator.warm()

    def evaluate(self, job: Job) -> tuple[Outcome, float]:
        """Return the outcome of a job, and the seconds that it took."""
        start = time.perf_counter()
        # Nobody handles this alarm, so it ends the process, in the middle of compiled code too.
        signal.setitimer(signal.ITIMER_REAL, self._limits.seconds)
        try:
            with _memory_limit(self._limits.memory):
                outcome = self._evaluator.evaluate(job)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return outcome, time.perf_counter() - start


@contextmanager
def _memory_limit(more: int) -> Iterator[None]:
    """Return a context that limits this process to ``more`` bytes beyond its current use."""
    if not more:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """Return the bytes of this process that RLIMIT_DATA counts."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
