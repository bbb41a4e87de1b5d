"""What the driver remembers of rows: their values by key, a few numbers a row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sweeper.ledger.keys import Halves, from_texts, in_cells

Floats = NDArray[np.float64]


class Known:
    """The objective values, and perhaps slopes, of rows, by key.

    A key of 32 hexadecimal digits takes 16 bytes here, and its place 16 more.
    """

    def __init__(self, n_values: int, n_slopes: int) -> None:
        self._values, self._slopes = _Column(n_values), _Column(n_slopes)
        self._runs: list[_Run] = []  # the first is the largest

    def __len__(self) -> int:
        return self._values.size

    def places(self, keys: Sequence[str], cell: int) -> NDArray[np.int64]:
        """Where the rows of a cell with these keys are; -1 where there is none."""
        return self._find(in_cells(from_texts(keys), np.full(len(keys), cell)))

    def add(self, halves: Halves, values: Floats, slopes: Floats) -> None:
        """Remember rows, or what is new of rows that are known: their keys in their cells, values
        (N, K), NaN where a trial failed, and slopes (N, D), NaN where they are not known."""
        places = self._find(halves)
        new = np.flatnonzero(places < 0)
        new = new[np.lexsort(halves[new].T[::-1])]
        first = np.append(True, (np.diff(halves[new], axis=0) != 0).any(axis=1))[: len(new)]
        places[new] = len(self) + np.cumsum(first) - 1
        if len(new):
            self._insert(halves[new[first]], places[new[first]])
        for column, rows in ((self._values, values), (self._slopes, slopes)):
            column.extend(int(first.sum()))
            column.rows[places] = rows

    def values(self, places: NDArray[np.int64]) -> Floats:
        """The objective values (N, K) of rows, NaN where a trial failed."""
        return self._values.rows[places]

    def slopes(self, places: NDArray[np.int64]) -> Floats:
        """dT/db (N, D) of rows, in seconds per byte/s, NaN where it is not known."""
        return self._slopes.rows[places]

    def _find(self, halves: Halves) -> NDArray[np.int64]:
        places = np.full(len(halves), -1)
        for run in self._runs:
            at = np.searchsorted(run.first, halves[:, 0])
            wanted = np.arange(len(halves))
            while len(wanted):  # once, unless two keys agree in their first half
                wanted = wanted[at[wanted] < len(run.first)]
                wanted = wanted[run.first[at[wanted]] == halves[wanted, 0]]
                same = run.last[at[wanted]] == halves[wanted, 1]
                places[wanted[same]] = run.places[at[wanted[same]]]
                wanted = wanted[~same]
                at[wanted] += 1
        return places

    def _insert(self, keys: Halves, places: NDArray[np.int64]) -> None:
        """Add a sorted run, and merge runs of like size, so that there are few."""
        new = _Run(keys[:, 0].copy(), keys[:, 1].copy(), places)
        while self._runs and len(self._runs[-1].places) < 2 * len(new.places):
            new = self._runs.pop().merged(new)
        self._runs.append(new)


@dataclass(frozen=True)
class _Run:
    """The halves of keys, apart, sorted by the first; and where their rows are."""

    first: NDArray[np.uint64]
    last: NDArray[np.uint64]
    places: NDArray[np.int64]

    def merged(self, other: Self) -> Self:
        first = np.concatenate([self.first, other.first])
        order = np.argsort(first, kind="stable")
        last = np.concatenate([self.last, other.last])
        places = np.concatenate([self.places, other.places])
        return type(self)(first[order], last[order], places[order])


class _Column:
    """Rows of numbers that grow."""

    def __init__(self, width: int) -> None:
        self.size, self._kept = 0, np.empty((1024, width))

    @property
    def rows(self) -> Floats:
        return self._kept[: self.size]

    def extend(self, n: int) -> None:
        if self.size + n > len(self._kept):
            room = np.empty((max(2 * self.size, self.size + n), self._kept.shape[1]))
            room[: self.size] = self.rows
            self._kept = room
        self.size += n
