"""Text files of words: read line by line, with the number of each line."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.content import read_text


class Line(NamedTuple):
    """The words of a line, and its place in errors."""

    words: list[str]
    where: str

    def wrong(self, what: str, hint: str = "") -> DimsweepError:
        """Return an error at this line."""
        return DimsweepError(what, where=self.where, hint=hint)

    def whole(self, place: int, name: str, least: int, most: int) -> int:
        """Return the whole number at a ``place`` of the line; ``name`` is its name in errors."""
        word = self.words[place] if place < len(self.words) else ""
        return whole(word, name, self.where, least, most)

    def number(self, place: int, name: str, most: float) -> float:
        """Return the number of zero or more at a ``place`` of the line."""
        word = self.words[place] if place < len(self.words) else ""
        try:
            found = float(word)
        except ValueError:
            found = math.nan
        if not 0 <= found <= most:
            raise self.wrong(f"{name} is {word[:40]!r}", f"a number from 0 to {most:g}")
        return found


def read_lines(path: Path, what: str, comment: str = "#") -> Iterator[Line]:
    """Yield the lines of a file that have words, without those that begin with ``comment``.

    Raises :class:`DimsweepError` for a file that cannot be read; ``what`` is its name in errors.
    """
    for number, text in enumerate(read_text(path, what).splitlines(), 1):
        words = text.split()
        if words and not words[0].startswith(comment):
            yield Line(words, f"{path}: line {number}")


def whole(word: str, name: str, where: str, least: int, most: int) -> int:
    """Return a decimal number from ``least`` to ``most``, or raise :class:`DimsweepError`."""
    if not (word.isascii() and word.isdigit() and len(word) <= 20 and least <= int(word) <= most):
        hint = f"a whole number from {least:,} to {most:,}"
        raise DimsweepError(f"{name} is {word[:40]!r}", where=where, hint=hint)
    return int(word)
