"""Break each promise of docs/results.md in the code, in three ways, and see which tests notice.

    python -m tests.faults.mutants [NUMBER ...]

Each mutant is applied to a copy of the working tree, in which the short fault suite runs (all
faults against promises, 60 damages, 6 kills; it stops at the first that tells), and if it tells
nothing, the unit tests that are named with the promise.  Ends with 1 if a mutant survives both.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEDGER, RUN = "sweeper/ledger/", "sweeper/run/executor/"
_LIMIT = 3600  # seconds; a mutant that hangs for longer is noticed, on a loaded machine, too
_UNIT = {
    LEDGER: ["tests/sweeper/ledger"],
    RUN: ["tests/sweeper/run/test_faults.py", "tests/sweeper/run/test_nodes.py"],
}


_LOGS_FIRST = """\
    for log in files.logs(folder):
        try:
            content = files.read_log(log, study.identity)
        except FileNotFoundError:
            continue
        if content.batches:
            rows = pa.Table.from_batches(content.batches).combine_chunks()
            try:
                schema = build_schema(rows.schema, study)
                own = conform_rows(rows, schema)
                check_rows(own, study)
                yield Piece(log, schema, own), own
            except DamagedError as error:
                damaged.append(f"{log}: {error}")
        if content.damage:
            damaged.append(f"{log}: {content.damage}")
"""
_PARTS = "    parts = files.parts(folder)\n"


@dataclass(frozen=True)
class Mutant:
    """A promise, broken: ``before``, a text that ``file`` has once, becomes ``after``."""

    promise: int
    says: str
    file: str
    before: str
    after: str

    def apply(self, root: Path) -> None:
        """Write it into a copy; raises :class:`ValueError` if the text is not there once."""
        text = (root / self.file).read_text(encoding="utf-8")
        if text.count(self.before) != 1:
            raise ValueError(f"{self.file} has {self.before!r} {text.count(self.before)} times")
        (root / self.file).write_text(text.replace(self.before, self.after), encoding="utf-8")


MUTANTS = [
    Mutant(
        1,
        "rows stay in the driver's memory",
        LEDGER + "files.py",
        "        self._file.flush()\n        self._check = check\n",
        "        self._check = check\n",
    ),
    Mutant(
        1,
        "a log is removed before its part is written",
        LEDGER + "ledger.py",
        "        self._seal(self._log.number, self._log.rows)\n"
        "        self._log.path.unlink(missing_ok=True)\n",
        "        self._log.path.unlink(missing_ok=True)\n"
        "        self._seal(self._log.number, self._log.rows)\n",
    ),
    Mutant(
        1,
        "files are written in their place",
        LEDGER + "place.py",
        'new = file.with_name(f"{NEW}{os.getpid()}-{file.name}")',
        "new = file",
    ),
    Mutant(
        2,
        "files are not synced",
        LEDGER + "place.py",
        "            os.fsync(handle.fileno())\n",
        "",
    ),
    Mutant(2, "folders are not synced", LEDGER + "place.py", "    _sync_folder(file.parent)\n", ""),
    Mutant(
        2,
        "files are synced before they are written",
        LEDGER + "place.py",
        "            handle.flush()\n            os.fsync(handle.fileno())\n",
        "            os.fsync(handle.fileno())\n            handle.flush()\n",
    ),
    Mutant(
        3,
        "a part is not read again",
        LEDGER + "ledger.py",
        "if not files.read_part(part, self._study).equals(rows):",
        "if False:",
    ),
    Mutant(
        3,
        "a part that is damaged when it is read again is taken",
        LEDGER + "ledger.py",
        "            raise _damaged_part_error(part, error) from error\n",
        "            pass\n",
    ),
    Mutant(
        3,
        "of a part that is read again only the rows are counted",
        LEDGER + "ledger.py",
        "if not files.read_part(part, self._study).equals(rows):",
        "if len(files.read_part(part, self._study)) != len(rows):",
    ),
    Mutant(
        4,
        "a log's checksums are not compared",
        LEDGER + "files.py",
        'if marked and (metadata or {}).get(_CHECK, b"") != f"{check:08x}".encode():',
        "if marked and metadata is None:",
    ),
    Mutant(
        4,
        "rows of another study's part are taken",
        LEDGER + "files.py",
        'if metadata.get(_STUDY, b"").decode() != study:',
        "if _STUDY not in metadata:",
    ),
    Mutant(
        4,
        "a damaged log is removed",
        LEDGER + "ledger.py",
        "                self._set_aside(log, content.damage)\n                continue\n",
        "                self.notes.append(f'{log} is damaged')\n",
    ),
    Mutant(
        5,
        "a lost row counts as one that was simulated",
        LEDGER + "rows.py",
        "return np.asarray(failed + 2 * lost)",
        "return np.asarray(failed + 0 * lost)",
    ),
    Mutant(
        5,
        "a trial that two sweeps wrote counts twice",
        LEDGER + "rows.py",
        "    return table.take(pa.array(np.sort(by[first])))",
        "    return table",
    ),
    Mutant(
        5,
        "a load lists the parts before it reads the logs",
        LEDGER + "pieces.py",
        _LOGS_FIRST + _PARTS,
        _PARTS + _LOGS_FIRST,
    ),
    Mutant(
        6,
        "there is no lock",
        LEDGER + "lock.py",
        "                lock.acquire(timeout=0)\n            except OSError as error:",
        "                pass\n            except OSError as error:",
    ),
    Mutant(
        6,
        "a sweep that lost its lock goes on",
        LEDGER + "ledger.py",
        "            if not self._log.is_mine():\n                self._stop_for_other_sweep()\n",
        "",
    ),
    Mutant(
        6,
        "two writers' logs have the same name",
        LEDGER + "files.py",
        "{number:05d}-{secrets.token_hex(4)}.arrows",
        "{number:05d}-00000000.arrows",
    ),
    Mutant(
        7,
        "a lost trial is not tried a second time",
        RUN + "ray.py",
        "if lost and call.piece.tries + 1 < _MAX_TRIES:",
        "if lost and call.piece.tries + 1 < 1:",
    ),
    Mutant(
        7,
        "a lost trial is tried again where it was lost",
        RUN + "ray.py",
        "self._retry(call.piece, lost, avoid=call.seat)",
        "self._retry(call.piece, lost)",
    ),
    Mutant(
        7,
        "a lost trial of an earlier sweep is not tried again",
        LEDGER + "ledger.py",
        "self._recover({LOST, FAILED} if retry_failed else {LOST})",
        "self._recover({LOST, FAILED} if retry_failed else {})",
    ),
    Mutant(
        8,
        "a lost node's pieces are dropped",
        RUN + "ray.py",
        "        self._queue.extendleft(reversed(pieces))\n",
        "",
    ),
    Mutant(
        8,
        "what waited for a dead worker is dropped",
        RUN + "ray.py",
        "        self._queue.extendleft(call.piece for call in reversed(waited))\n",
        "",
    ),
    Mutant(
        8,
        "a dead worker has no successor",
        RUN + "ray.py",
        "would keep its CPU from the new one\n        self._start(last.seat)\n",
        "would keep its CPU from the new one\n",
    ),
    Mutant(
        9,
        "the system's errors are not told as what they mean",
        LEDGER + "ledger.py",
        "        except OSError as error:\n            if self._is_deleted():",
        "        except TimeoutError as error:\n            if self._is_deleted():",
    ),
    Mutant(
        9,
        "rows that were not written are called safe",
        LEDGER + "ledger.py",
        "            self._log.append(batch)\n            self._index_rows(batch)\n",
        "            self._index_rows(batch)\n            self._log.append(batch)\n",
    ),
    Mutant(
        9,
        "a sweep whose pulse cannot be written ends",
        LEDGER + "lock.py",
        "    with suppress(OSError), translating_store_errors(folder):\n        write(",
        "    with translating_store_errors(folder):\n        write(",
    ),
    Mutant(
        10,
        "the record is not read back from a store",
        LEDGER + "ledger.py",
        "if not isinstance(file, Path) and (not file.exists() or read(file) != text):",
        "if not file.exists() and isinstance(file, Path):",
    ),
    Mutant(
        10,
        "rows that no store has are called safe",
        LEDGER + "place.py",
        "        self._flushed = self.tell(), self._flushed[1] + 1\n",
        "        self._flushed = self.tell(), self._flushed[1] + 1\n"
        "        self.n_safe = self._flushed[1]\n",
    ),
    Mutant(
        10,
        "a lease that another sweep has taken is renewed",
        LEDGER + "lock.py",
        "if newest is None or newest.name != self._file.name or not self._is_mine():",
        "if newest is None:",
    ),
]


def copied(root: Path) -> Path:
    """A copy of what git knows of the working tree, or would add to it."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():  # the package's rooms are links
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name, follow_symlinks=False)
    imported = [sys.executable, "-c", "import tests.faults.__main__"]
    subprocess.run(imported, cwd=root, check=True)  # what cannot run would notice every mutant
    return root


def noticed_by(root: Path, mutant: Mutant) -> str | None:
    """The suite that sees the mutant in a copy, and what it says; ``None`` if none does."""
    tests = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--durations=0"]
    room = next(room for room in _UNIT if mutant.file.startswith(room))
    suites = {
        "faults": ["-m", "tests.faults", "0", "0"],
        "damages": ["-m", "tests.faults", "0", "60", "only"],
        "kills": ["-m", "tests.faults", "6", "0", "only"],
        "unit tests": [*tests, *_UNIT[room]],
    }
    (root / "tmp").mkdir()
    environment = os.environ | {"TMPDIR": str(root / "tmp")}  # what is ended leaves something
    for suite, words in suites.items():
        with tempfile.TemporaryFile("w+") as errors:
            command = [sys.executable, *words]
            process = subprocess.Popen(
                command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
            )
            limit = threading.Timer(_LIMIT, process.kill)
            limit.start()
            with process:
                assert process.stdout is not None
                for line in process.stdout:
                    if line.startswith(("BROKEN", "FAILED")):
                        process.terminate()
                        limit.cancel()
                        return f"{suite}: {line.strip()}"
            limit.cancel()
            if process.returncode:
                errors.seek(0)
                last = (errors.read().splitlines() or [f"exit code {process.returncode}"])[-1]
                return f"{suite}: {last.strip()}"
    return None


def main(numbers: list[int]) -> bool:
    """Try the mutants with these numbers, from 0, or all; whether each was noticed."""
    by: dict[str, int] = {}
    for i in numbers or range(len(MUTANTS)):
        with tempfile.TemporaryDirectory() as scratch:
            root = copied(Path(scratch))
            MUTANTS[i].apply(root)
            found = noticed_by(root, MUTANTS[i])
        suite = (found or "nobody").partition(":")[0]
        by[suite] = by.get(suite, 0) + 1
        print(f"{i} ({MUTANTS[i].promise}) {MUTANTS[i].says}: {found or 'SURVIVES'}", flush=True)
    print(", ".join(f"{n} noticed by {suite}" for suite, n in by.items()))
    return "nobody" not in by


if __name__ == "__main__":
    sys.exit(not main([int(word) for word in sys.argv[1:]]))
