"""Causes of failed trials: messages that differ only in numbers are one cause.

"a stage must hold 90.26 GB of 85.9 GB" and "a stage must hold 660.1 GB of 85.9 GB" are reported as
"a stage must hold 90.26 to 660.1 GB of 85.9 GB", with the number of trials.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from dimsweep.engine import units

_KINDS = (units.BYTES, units.BANDWIDTH, units.TIME, units.MONEY)
_UNITS = {name: kind for kind in _KINDS for name in units.list_unit_names(kind)}
_NAMES = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
# A number that is not part of a name (mixtral_8x22b, Ring(4)_Switch(8), conf/a.yaml:12), and its
# unit if it has one.
_NUMBER = re.compile(
    r"(?<![\w.,:/(-])(\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)"
    rf"(?: ({_NAMES}))?(?![\w(/]|,\d)"
)
_DIGITS = 4


@dataclass
class _Cause:
    """Error messages that differ in numbers only, with their count."""

    pieces: Sequence[str]  # texts between the numbers
    kinds: Sequence[units.Unit | None]  # of the numbers
    first: tuple[int, ...]  # the earliest trial
    low: list[tuple[float, str]]  # minimum of each number, with its text
    high: list[tuple[float, str]]  # maximum of each number
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
    """The causes of failures; errors may be added in any order."""

    def __init__(self) -> None:
        self._found = dict[tuple[object, ...], _Cause]()

    def add(self, error: str, times: int, first: tuple[int, ...]) -> None:
        """Count ``times`` failures with a message.

        ``first`` is the earliest (cell, trial) with it.
        """
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
    """Return the causes of failures with their counts, the most frequent first, then the earliest.

    A number that differs between the messages of a cause becomes its range.
    """
    found = _Causes()
    for i, error in enumerate(errors):
        found.add(error, 1, (i,))
    return found.counts


def frequent_errors(failed: Iterable[pd.DataFrame]) -> list[tuple[str, int]]:
    """Return the causes of failed trials with their counts, the most frequent first.

    Of equal counts the earliest comes first. ``failed`` yields tables of rows with ``cell``,
    ``trial`` and ``error``. A number that differs between the messages of a cause becomes its
    range.
    """
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
    """Split a message into the texts between numbers, the units of the numbers, and the numbers."""
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
