"""A door: where a file or a text of a user's, or of a stranger's, comes in."""

import contextlib
import io
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.cli.main import DEFECT, main
from tests.support.mutations import changed

Files = Mapping[str, bytes]


class DefectError(Exception):
    """What a user must never see."""


@dataclass(frozen=True)
class Door:
    """``takes`` are the parameters of commands and the keys that lead here; ``good`` makes files
    that are right, by their names, in an empty folder, of which those that end in ``own`` (all
    unless given) are what comes in; ``enter`` reads them in the current folder, as a user does."""

    name: str
    takes: tuple[str, ...]
    good: Callable[[], Files]
    enter: Callable[[], object]
    own: tuple[str, ...] = ("",)

    @cached_property
    def files(self) -> Files:
        """What is right."""
        with emptied(Path("made")):
            return dict(self.good())

    def mutated(self, number: int) -> Files:
        """The same files, one of them changed: always in the same way for a number."""
        draw = random.Random(f"{self.name} {number}")
        files = dict(self.files)
        name = draw.choice([each for each in sorted(files) if each.endswith(self.own)])
        files[name] = changed(draw, name, files[name])
        return files

    def try_with(self, files: Files, folder: Path) -> str | None:
        """Go in with these files, in ``folder``, which is emptied: what is said, or ``None`` where
        they are taken.  Raises whatever else comes of it."""
        with emptied(folder):
            for name, content in files.items():
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                Path(name).write_bytes(content)
            try:
                self.enter()
            except DimsweepError as error:
                if not error.problem.strip():
                    raise DefectError("an error that says nothing") from error
                return str(error)
        return None


DOORS: dict[str, Door] = {}


def door(
    *takes: str, good: Callable[[], Files], own: str | tuple[str, ...] = ""
) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Registers a function as the ``enter`` of a :class:`Door`; its name says which."""

    def register(enter: Callable[[], object]) -> Callable[[], object]:
        name = enter.__name__.strip("_").replace("_", " ")
        assert name not in DOORS
        DOORS[name] = Door(name, takes, good, enter, (own,) if isinstance(own, str) else own)
        return enter

    return register


def command(*words: str) -> str:
    """Run a command; what it prints.  Raises :class:`DimsweepError` with the sentence that it ends
    in, and :class:`DefectError` where it ends in anything else."""
    said, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        code = main(words)
    text = told.getvalue()
    if code == DEFECT or "Traceback" in text + said.getvalue():
        lines = [line for line in text.splitlines() if not line.startswith(("error:", "Warning"))]
        raise DefectError("\n".join(lines))
    if "there is not enough memory:" in text:
        raise MemoryError(text)
    if text.startswith("error:") or "\nerror:" in text:
        raise DimsweepError(text.partition("error:")[2].strip())
    return said.getvalue()


@contextlib.contextmanager
def emptied(folder: Path) -> Iterator[None]:
    """Within it, the current folder is this one, and empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
