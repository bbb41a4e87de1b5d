"""The fenced blocks of a page, and how they are run.

A comment before a block may say what a test does instead of what is printed:

    <!-- small: KEY=VALUE ... -->     the overrides are added to each command of the block
    <!-- small: skip, WHY -->         the block is not run
    <!-- written -->                  the block is a file that others run: it is written only
    <!-- output -->                   the block is what the commands before it print
    <!-- output: 9 lines from TEXT -->  the block is 9 lines of it, from the one that begins so

After ``<!-- keys: PLACE -->`` the page has the table of the keys at a dotted key, which is derived
from the fields.

``python -m tests.support.pages`` writes the tables of keys, runs the pages that have outputs, as
they stand and not small, and writes what is printed today into them (``keys`` as its argument: the
tables only). Tests compare the tables, and the outputs whose commands are not made small.
"""

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dimsweep.sweeper.cli.main import main
from dimsweep.sweeper.config.reference import key_table

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TARGETS = set(re.search(r"\.PHONY: (.+)", (ROOT / "Makefile").read_text())[1].split())
# What is the reader's shell's, and not dimsweep's.
NOT_OURS = {"git", "cd", "eval", "python"}

_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block, the line of its page at which it starts, and the comment before it."""

    language: str
    text: str
    line: int
    note: str

    @property
    def skipped(self) -> bool:
        return self.note.startswith("small: skip")

    @property
    def is_output(self) -> bool:
        return self.note == "output" or self.note.startswith("output: ")

    def shown(self, printed: str) -> str:
        """Return the part of ``printed`` that an output shows."""
        excerpt = re.fullmatch(r"output: (\d+) lines from (.+)", self.note)
        if excerpt is None:
            return printed
        lines = printed.splitlines(keepends=True)
        starts = [place for place, line in enumerate(lines) if line.startswith(excerpt[2])]
        assert starts, f"no line of the output begins with {excerpt[2]!r}"
        return "".join(lines[starts[0] :][: int(excerpt[1])])

    @property
    def only_written(self) -> bool:
        """Whether the block's file is not run by itself."""
        return self.note == "written"

    @property
    def overrides(self) -> list[str]:
        """What is added to each command to make it small."""
        is_small = self.note.startswith("small: ")
        return shlex.split(self.note.removeprefix("small: ")) if is_small else []

    @property
    def file(self) -> str | None:
        """The file that a block is, if its first line says so (``# conf/workload/mine.yaml``)."""
        named = re.match(r"# ([\w./-]+\.(?:py|ya?ml|csv))\n", self.text)
        return named[1] if named else None

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        commands = [shlex.split(line, comments=True) for line in lines]
        return [words for words in commands if words]


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            found["language"],
            found["text"],
            text.count("\n", 0, found.start("language")) + 1,
            found["note"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


_TABLE = re.compile(r"(?<=^<!-- keys: )(?P<place>[\w.]+) -->\n(?P<table>(?:\|.*\n)*)", re.MULTILINE)


def with_tables(text: str) -> str:
    """Return a page's text with its tables of keys as the fields are today."""
    return _TABLE.sub(lambda found: f"{found['place']} -->\n{key_table(found['place'])}", text)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """Blocks run in ``folder``, whose modules they may import; pages name recorded cases in
    ``tests``, and ``examples``."""
    for name in ("tests", "examples"):
        (folder / name).symlink_to(ROOT / name)
    sys.path.insert(0, str(folder))
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        sys.path.remove(str(folder))


def run(block: Block, page: Path, names: dict[str, object], is_small: bool = True) -> str:
    """Run one block as a reader does, with ``names`` of the Python blocks before it.

    Returns what its commands print.

    Raises:
        AssertionError: a command fails, or nobody knows it or the language of the block.
    """
    where = f"{name_of(page)}:{block.line}"
    if block.file is not None:
        file = Path(block.file)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text)
        if block.language == "python" and not block.only_written:
            # Compiled code is kept for functions of modules that can be imported, as a script's.
            names |= runpy.run_path(str(file), run_name="__main__")
    elif block.language == "python":
        exec(compile(block.text, where, "exec"), names)
    elif block.language == "sh":
        overrides = block.overrides if is_small else []
        return "".join(run_command([*words, *overrides], where) for words in block.commands)
    else:
        known = ("text", "yaml", "sql", "toml")
        assert block.language in known, f"{where}: what is {block.language!r}?"
    return ""


def run_command(words: list[str], where: str) -> str:
    """What a command prints, with blanks before the ends of lines left out."""
    command, *arguments = words
    if command == "make":
        assert set(arguments) <= TARGETS, where
    elif command == "dimsweep":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            assert main(arguments) == 0, f"{where}: {shlex.join(words)}"
        return plain(printed.getvalue())
    else:
        assert command in NOT_OURS, f"{where}: what is {command}?"
    return ""


def plain(text: str) -> str:
    """``text`` without blanks before the ends of lines."""
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def write_outputs(page: Path) -> None:
    """Run ``page`` at its full size, and write what is printed into its outputs.

    How long a run took differs each time: a line that differs by nothing else stays.
    """
    text, blocks, printed = page.read_text(encoding="utf-8"), blocks_of(page), ""
    names: dict[str, object] = {"__name__": page.stem}
    with tempfile.TemporaryDirectory() as folder, in_folder(Path(folder)):
        for block, after in zip(blocks, [*blocks[1:], None], strict=True):
            if block.is_output:
                kept = _kept(block.text, block.shown(printed))
                text = text.replace(block.text, "\n".join(kept) + "\n")
            elif not block.skipped:
                is_small = after is None or not after.is_output
                printed = run(block, page, names, is_small)
    page.write_text(text, encoding="utf-8")


def _kept(before: str, now: str) -> list[str]:
    def timeless(line: str) -> str:
        return re.sub(r"\bin [\d.]+ (s|min)\b", "", line)

    known = {timeless(line): line for line in before.splitlines()}
    return [known.get(timeless(line), line) for line in now.splitlines()]


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
        if "keys" not in sys.argv and any(block.is_output for block in blocks_of(page)):
            write_outputs(page)
