"""Doors entered in a process of their own, within a time and a memory."""

import multiprocessing
import os
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from tests.faults.doors.door import DOORS, DefectError

SECONDS, MEMORY = 20, 3 << 30  # of processors, however busy they are with others; bytes
_IDLE = 300  # seconds without a sign of life on the busiest of machines
_TICKS = os.sysconf("SC_CLK_TCK")
# A library that takes an arena for each of many threads asks for addresses that it never uses.
_FEW = {"MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass
class Found:
    """What came of the inputs of one door; ``wrong`` says it by number, where it should not be."""

    tried: int = 0
    accepted: int = 0
    refused: int = 0
    wrong: dict[int, str] = field(default_factory=dict)
    slowest: float = 0.0


def enter_all(
    inputs: Iterable[tuple[str, int]], scratch: Path
) -> Iterator[tuple[str, int, str, str, float]]:
    """Go in by each door with its input of a number; what it came to (accepted, refused, failed),
    what was said, and the seconds that it took."""
    worker = _Worker(scratch)
    try:
        for name, number in inputs:
            yield (name, number, *worker.enter(name, number))
    finally:
        worker.close()


class _Worker:
    """A process that is started anew when one has ended, or was ended."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._known = Counter[str]()  # of the process that runs: whether a door was warmed up
        self._start()

    def _start(self) -> None:
        os.environ.update(_FEW)
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._scratch), daemon=True)
        self._process.start()
        theirs.close()
        self._known.clear()

    def enter(self, name: str, number: int) -> tuple[str, str, float]:
        if not self._known[name]:  # what is right is taken, however long its kernels are compiled
            self._known[name] += 1
            outcome, said, _ = self._ask(name, None, None)
            if outcome != "accepted":
                return "failed", f"what is right is not taken: {said}", 0.0
        return self._ask(name, number, SECONDS)

    def _ask(self, name: str, number: int | None, limit: float | None) -> tuple[str, str, float]:
        before, begun = _cpu(self._process.pid), time.monotonic()
        self._pipe.send((name, number))
        while not self._pipe.poll(0.5):
            took = _cpu(self._process.pid) - before
            late = time.monotonic() - begun > _IDLE and took < 1
            if limit is not None and (took > limit or late):
                self._end()
                return "failed", f"no end in {limit:.0f} s", limit
        try:
            return self._pipe.recv()  # type: ignore[no-any-return]
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            self._end()
            return "failed", f"the process ended with exit code {code}", 0.0

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._start()

    def close(self) -> None:
        self._process.kill()


def _cpu(pid: int | None) -> float:
    """The seconds of processors that a process has had."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _serve(pipe: Connection, scratch: Path) -> None:
    sys.stderr = sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    import tests.faults.doors.every  # noqa: F401

    os.chdir(scratch)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.filterwarnings("error", category=RuntimeWarning, module="dimsweep.engine")
    limited = False
    while True:
        name, number = pipe.recv()
        door = DOORS[name]
        if number is None:
            door.files  # noqa: B018
        elif not limited:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            limited = True
        start = time.process_time()
        outcome, said = "accepted", ""
        try:
            files = door.files if number is None else door.mutated(number)
            said = door.try_with(files, Path("case")) or ""
            outcome = "refused" if said else outcome
        except BaseException as error:
            outcome, said = "failed", told(error)
        pipe.send((outcome, said, time.process_time() - start))


def told(error: BaseException) -> str:
    """What is wrong, in two lines: the error, and the place of ours where it was raised."""
    if isinstance(error, DefectError):
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        places = [line for line in lines if line.startswith("File") and "dimsweep" in line]
        return "\n".join([lines[-1] if lines else "", *places[-2:]])
    frames = [
        f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    ours = [each for each in frames if "dimsweep" in each and "tests/faults" not in each] or frames
    return f"{type(error).__name__}: {error}"[:300] + f"\n{ours[-1] if ours else ''}"
