"""Why trials failed: messages that differ in their numbers alone are one cause.

"a stage must hold 90.26 GB of 85.9 GB" and "a stage must hold 660.1 GB of 85.9 GB" are told as
"a stage must hold 90.26 to 660.1 GB of 85.9 GB", with how many trials there are of it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from engine import units

_KINDS = (units.BYTES, units.BANDWIDTH, units.TIME, units.MONEY)
_UNITS = {name: kind for kind in _KINDS for name in units.names(kind)}
_NAMES = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
# A number that is no part of a name (mixtral_8x22b, Ring(4)_Switch(8), conf/a.yaml:12), and its
# unit if it has one.
_NUMBER = re.compile(
    r"(?<![\w.,:/(-])(\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)"
    rf"(?: ({_NAMES}))?(?![\w(/]|,\d)"
)
_DIGITS = 4


@dataclass
class _Cause:
    """Messages of one form: its pieces of text, the ``values`` in between (K,), each with the texts
    that it had, and how many trials there are."""

    pieces: Sequence[str]
    kinds: Sequence[units.Unit | None]
    values: list[dict[float, str]] = field(default_factory=list)
    count: int = 0

    def add(self, found: Sequence[tuple[float, str]]) -> None:
        self.values = self.values or [{} for _ in found]
        for seen, (value, text) in zip(self.values, found, strict=True):
            seen.setdefault(value, text)
        self.count += 1

    def __str__(self) -> str:
        ranges = map(_range, self.values, self.kinds)
        return "".join(
            text for pair in zip(self.pieces, [*ranges, ""], strict=True) for text in pair
        )


def causes(errors: Iterable[str]) -> list[tuple[str, int]]:
    """The causes of failures and their counts, the most frequent first, then the earliest.  A
    number that is not the same in all messages of a cause is the range that it has in them."""
    found = dict[tuple[object, ...], _Cause]()
    for error in errors:
        pieces, kinds, values = _taken_apart(error)
        found.setdefault((*pieces, *kinds), _Cause(pieces, kinds)).add(values)
    ordered = sorted(found.values(), key=lambda cause: -cause.count)  # stable
    return [(str(cause), cause.count) for cause in ordered]


def frequent_errors(failed: pd.DataFrame) -> list[tuple[str, int]]:
    """Why rows failed and how many did, the most frequent cause first, then the earliest; texts
    that differ in their numbers alone are one, with the range of each number."""
    return causes(failed["error"].fillna("(no error text)"))


def _taken_apart(
    error: str,
) -> tuple[list[str], list[units.Unit | None], list[tuple[float, str]]]:
    """A message's pieces, the kinds of the numbers between them, and these with their texts."""
    pieces, kinds, values, end = list[str](), list[units.Unit | None](), [], 0
    for match in _NUMBER.finditer(error):
        number, name = match.groups()
        kind = _UNITS.get(name)
        value = float(number.replace(",", ""))
        if kind is not None:
            value *= units.size(name, kind)
        pieces.append(error[end : match.start()])
        kinds.append(kind)
        values.append((value, match[0]))
        end = match.end()
    return [*pieces, error[end:]], kinds, values


def _range(seen: dict[float, str], kind: units.Unit | None) -> str:
    low, high = min(seen), max(seen)
    if low == high:
        return seen[low]
    if kind is None:
        return f"{seen[low]} to {seen[high]}"
    texts = [units.format_quantity(value, kind, _DIGITS) for value in (low, high)]
    (first, its), (_, unit) = (text.split(" ", 1) for text in texts)
    return f"{first} to {texts[1]}" if its == unit else " to ".join(texts)
