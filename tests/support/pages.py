"""The fenced blocks of a page, and what a test does with each.

A comment before a block may say what the test does instead of what is printed:

    <!-- small: KEY=VALUE ... -->     the overrides are added to each command of the block
    <!-- small: skip, WHY -->         the block is not run
    <!-- written -->                  the block is a file that others run: it is written only
    <!-- output -->                   the block is output, not input
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

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
        return self.note.startswith(("small: skip", "output"))

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
