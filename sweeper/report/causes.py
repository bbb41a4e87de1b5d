"""Why trials failed: messages that differ in their numbers alone are one cause.

"a stage must hold 90.26 GB of 85.9 GB" and "a stage must hold 660.1 GB of 85.9 GB" are reported as
"a stage must hold 90.26 to 660.1 GB of 85.9 GB", with how many trials there are of it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from dimsweep.engine import units

_KINDS = (units.BYTES, units.BANDWIDTH, units.TIME, units.MONEY)
_UNITS = {name: kind for kind in _KINDS for name in units.list_unit_names(kind)}
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
    """Messages of one form: its pieces of text, the least and the largest of each number between
    them with its text, how many trials there are, and the ``first`` of them."""

    pieces: Sequence[str]
    kinds: Sequence[units.Unit | None]
    first: tuple[int, ...]
    low: list[tuple[float, str]]
    high: list[tuple[float, str]]
    count: int = 0

    def add(self, found: list[tuple[float, str]], times: int, first: tuple[int, ...]) -> None:
        self.low = [min(pair, key=_value) for pair in zip(self.low, found, strict=True)]
        self.high = [max(pair, key=_value) for pair in zip(self.high, found, strict=True)]
        self.count += times
        self.first = min(self.first, first)

    def __str__(self) -> str:
        ranges = map(_range, self.low, self.high, self.kinds)
        return "".join(
            text for pair in zip(self.pieces, [*ranges, ""], strict=True) for text in pair
        )


def _value(found: tuple[float, str]) -> float:
    return found[0]


class _Causes:
    """The causes of failures that were added, in any order."""

    def __init__(self) -> None:
        self._found = dict[tuple[object, ...], _Cause]()

    def add(self, error: str, times: int, first: tuple[int, ...]) -> None:
        """So many trials failed with an error, the ``first`` of them that one."""
        pieces, kinds, values = _split_numbers(error)
        form = (*pieces, *kinds)
        if form not in self._found:
            self._found[form] = _Cause(pieces, kinds, first, values, values)
        self._found[form].add(values, times, first)

    @property
    def counts(self) -> list[tuple[str, int]]:
        ordered = sorted(self._found.values(), key=lambda cause: (-cause.count, cause.first))
        return [(str(cause), cause.count) for cause in ordered]


def causes(errors: Iterable[str]) -> list[tuple[str, int]]:
    """The causes of failures and their counts, the most frequent first, then the earliest.  A
    number that is not the same in all messages of a cause is the range that it has in them."""
    found = _Causes()
    for i, error in enumerate(errors):
        found.add(error, 1, (i,))
    return found.counts


def frequent_errors(failed: Iterable[pd.DataFrame]) -> list[tuple[str, int]]:
    """Why rows failed and how many did, some of them at a time (``cell``, ``trial``, ``error``):
    the most frequent cause first, then the earliest; texts that differ in their numbers alone are
    one, with the range of each number."""
    found = _Causes()
    for rows in failed:
        ordered = rows.sort_values(["cell", "trial"])
        errors = ordered["error"].fillna("(no error text)")
        times = errors.value_counts()
        firsts = ordered[~errors.duplicated().to_numpy()]
        for error, *first in zip(
            errors[firsts.index], firsts["cell"].tolist(), firsts["trial"].tolist(), strict=True
        ):
            found.add(error, int(times[error]), tuple(first))
    return found.counts


def _split_numbers(
    error: str,
) -> tuple[list[str], list[units.Unit | None], list[tuple[float, str]]]:
    """A message's pieces, the kinds of the numbers between them, and these with their texts."""
    pieces, kinds, values, end = list[str](), list[units.Unit | None](), [], 0
    for match in _NUMBER.finditer(error):
        number, name = match.groups()
        kind = _UNITS.get(name)
        value = float(number.replace(",", ""))
        if kind is not None:
            value *= units.unit_size(name, kind)
        pieces.append(error[end : match.start()])
        kinds.append(kind)
        values.append((value, match[0]))
        end = match.end()
    return [*pieces, error[end:]], kinds, values


def _range(low: tuple[float, str], high: tuple[float, str], kind: units.Unit | None) -> str:
    if low[0] == high[0]:
        return low[1]
    if kind is None:
        return f"{low[1]} to {high[1]}"
    texts = [units.format_quantity(value, kind, _DIGITS) for value, _ in (low, high)]
    (first, its), (_, unit) = (text.split(" ", 1) for text in texts)
    return f"{first} to {texts[1]}" if its == unit else " to ".join(texts)
