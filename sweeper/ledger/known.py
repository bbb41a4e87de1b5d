"""What the driver remembers of rows: their values by key, a few numbers a row."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.ledger.keys import Halves, from_texts, in_cells

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Known:
    """The objective values, and perhaps slopes, of rows, by key.

    A key has a place from when it is claimed, and values from when its row has landed.  It takes 16
    bytes here, and its place 8 to 16 more.
    """

    def __init__(self, n_values: int, n_slopes: int) -> None:
        self._places = _Index()
        self._values, self._slopes = _Column(n_values, np.nan), _Column(n_slopes, np.nan)
        self._landed = _Column(1, 0, np.bool_)
        self._n = 0

    def __len__(self) -> int:
        """The rows that have landed."""
        return self._n

    def places(self, keys: Sequence[str], cell: int) -> Places:
        """Where the rows of a cell with these keys are; -1 where none has landed."""
        found = self._places.find(_identity(keys, cell))
        there = np.flatnonzero(found >= 0)
        found[there[~self.landed(found[there])]] = -1
        return found

    def claim(self, keys: Sequence[str], cell: int) -> tuple[Places, Mask]:
        """The places of a cell's keys, and which of them had none before; of several equal ones
        that is the first."""
        return self._claim(_identity(keys, cell))

    def add(self, halves: Halves, values: Floats, slopes: Floats) -> Places:
        """Remember rows, or what is new of rows that are known: their keys in their cells, values
        (N, K), NaN where a trial failed, and slopes (N, D), NaN where they are not known.  Where
        they are."""
        places, _ = self._claim(halves)
        fresh = np.sort(places[~self.landed(places)])
        self._n += int((np.diff(fresh, prepend=-1) > 0).sum())
        self._landed.rows[places] = True
        self._values.rows[places] = values
        self._slopes.rows[places] = slopes
        return places

    def landed(self, places: Places) -> Mask:
        """Which rows are there."""
        return np.asarray(self._landed.rows[places, 0])

    def keys(self, places: Places) -> Halves:
        """The keys (N, 2) of rows, each in its cell."""
        return self._places.keys(places)

    def values(self, places: Places) -> Floats:
        """The objective values (N, K) of rows, NaN where a trial failed."""
        return self._values.rows[places]

    def slopes(self, places: Places) -> Floats:
        """dT/db (N, D) of rows, in seconds per byte/s, NaN where it is not known."""
        return self._slopes.rows[places]

    def _claim(self, halves: Halves) -> tuple[Places, Mask]:
        places, new = self._places.claim(halves)
        for column in (self._landed, self._values, self._slopes):
            column.extend(int(new.sum()))
        return places, new


def _identity(keys: Sequence[str], cell: int) -> Halves:
    return in_cells(from_texts(keys), np.full(len(keys), cell))


class _Index:
    """Numbers keys in the order in which they come: a table of places with open addressing, at most
    half full.  Keys are hashes, so their own bits say where to look first."""

    def __init__(self) -> None:
        self._keys = _Column(2, 0, np.uint64)
        self._table = np.full(2048, -1, dtype=np.int32)

    def keys(self, places: Places) -> Halves:
        """The keys at places."""
        return self._keys.rows[places]

    def find(self, halves: Halves) -> Places:
        """The places of keys; -1 where there is none."""
        places = np.full(len(halves), -1)
        slot, wanted = self._first_slot(halves), np.arange(len(halves))
        while len(wanted):
            taken = self._table[slot] >= 0
            wanted, slot = wanted[taken], slot[taken]
            kept, own = self._keys.rows[self._table[slot]], halves[wanted]
            same = (kept[:, 0] == own[:, 0]) & (kept[:, 1] == own[:, 1])
            places[wanted[same]] = self._table[slot[same]]
            wanted, slot = wanted[~same], self._after(slot[~same])
        return places

    def claim(self, halves: Halves) -> tuple[Places, Mask]:
        """The places of keys, and which of them are new; of equal ones, the first."""
        places, new = self.find(halves), np.zeros(len(halves), dtype=bool)
        absent = np.flatnonzero(places < 0)
        first, which = _distinct(halves[absent])
        new[absent[first]] = True
        start = self._keys.size
        number = start + np.cumsum(new) - 1
        places[absent] = number[absent[first]][which]
        self._keys.extend(int(new.sum()))
        self._keys.rows[start:] = halves[new]
        if 2 * self._keys.size > len(self._table):
            self._table = np.full(1 << (3 * self._keys.size).bit_length(), -1, dtype=np.int32)
            start = 0
        self._enter(np.arange(start, self._keys.size, dtype=np.int32))
        return places, new

    def _enter(self, places: NDArray[np.int32]) -> None:
        """Put places, of keys that are all different, into the table."""
        slot = self._first_slot(self._keys.rows[places])
        while len(places):
            free = self._table[slot] < 0
            self._table[slot[free]] = places[free]  # one of those that want the same slot
            rest = self._table[slot] != places
            places, slot = places[rest], self._after(slot[rest])

    def _first_slot(self, halves: Halves) -> Places:
        return (halves[:, 1] & np.uint64(len(self._table) - 1)).astype(np.int64)

    def _after(self, slot: Places) -> Places:
        return (slot + 1) & (len(self._table) - 1)


def _distinct(halves: Halves) -> tuple[Places, Places]:
    """Where each distinct key is first, and which of these each of the keys (N, 2) is."""
    first, which = np.unique(halves[:, 0], return_index=True, return_inverse=True)[1:]
    if len(first) < len(halves):  # rare: trials that are the same, or agree in half of their key
        first, which = np.unique(halves, axis=0, return_index=True, return_inverse=True)[1:]
    return first, which.reshape(-1)


class _Column:
    """Rows of numbers that grow; new ones are ``blank``."""

    def __init__(self, width: int, blank: float, kind: Any = np.float64) -> None:
        self.size, self._blank = 0, blank
        self._kept = np.empty((1024, width), kind)

    @property
    def rows(self) -> NDArray[Any]:
        return self._kept[: self.size]

    def extend(self, n: int) -> None:
        if self.size + n > len(self._kept):
            size, width = max(2 * self.size, self.size + n), self._kept.shape[1]
            room = np.empty((size, width), self._kept.dtype)
            room[: self.size] = self.rows
            self._kept = room
        self._kept[self.size : self.size + n] = self._blank
        self.size += n
