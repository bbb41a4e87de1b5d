"""Remarks on designs, those of one kind told in one line: how many there are, and where.

Rules speak of one place each: a group of ranks in a dimension, a key.  Texts that differ in numbers
and names alone say the same of several places.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

_PLACES = 3
_CELLS = re.compile(r" \(in \d+ of \d+ cells\)$")
_GROUP = re.compile(r"^[\w ,-]+: (?=dimension )")
_AMOUNT = re.compile(r"(\d) (?:[kMGT]?B/s|[pnum]?s|GB)\b")  # the unit is the number's


@dataclass(frozen=True)
class Remark:
    """What a rule says of each of several places, in the order of finding."""

    texts: Sequence[str]

    @property
    def line(self) -> str:
        """The first in full, and of the others how many there are, and where the first of them
        are."""
        first, *others = self.texts
        if not others:
            return first
        places = list(dict.fromkeys(self._places()[1:]))
        # A text whose end alone differs has no place of its own.
        shown = ", ".join(each for each in places[:_PLACES] if each)
        more = ", ..." if len(places) > _PLACES else ""
        return f"{first}; and {len(others):,} more like it{f': {shown}{more}' * bool(shown)}"

    def _places(self) -> list[str]:
        """What each text begins with, up to two words that all have in common behind a word that
        they do not; whose group it is does not count."""
        groups = [_GROUP.match(text) for text in self.texts]
        named = [group.group() if group else "" for group in groups]
        rows = [_GROUP.sub("", text).split(" ") for text in self.texts]
        alike = [len(set(words)) == 1 for words in zip(*rows, strict=False)]
        differs = alike.index(False) if False in alike else len(alike)
        ends = (i for i, pair in enumerate(pairwise(alike)) if i > differs and all(pair))
        end = next(ends, 0)
        if end and re.fullmatch(r"[\d.,]+", rows[0][end - 1]):
            end += 1  # a number, and what it counts
        found = (name + " ".join(words[:end]) for name, words in zip(named, rows, strict=True))
        return [place.rstrip(",;") for place in found]


def merged(texts: Iterable[str]) -> list[Remark]:
    """The remarks, each where the first of its kind was."""
    kinds: dict[str, list[str]] = {}
    for text in texts:
        kinds.setdefault(_kind(text), []).append(text)
    return [Remark(own) for own in kinds.values()]


def _kind(text: str) -> str:
    """A text without the places and the amounts in it."""
    plain = _AMOUNT.sub(r"\1", _GROUP.sub("", _CELLS.sub("", text)))
    return " ".join("#" if re.search(r"\d", word) else word for word in plain.split(" "))
