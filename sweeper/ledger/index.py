"""Index of a study's rows in memory: from the key of a row to its values and slopes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Halves = NDArray[np.uint64]  # (N, 2)

_DIGITS = 32


def parse_keys(keys: Sequence[str]) -> Halves:
    """Return row keys (128-bit hashes in hexadecimal) as pairs of 64-bit numbers (N, 2)."""
    return _from_digits("".join(keys))


def parse_key_column(keys: pa.ChunkedArray) -> Halves:
    """Return an Arrow column of row keys as pairs of 64-bit numbers (N, 2)."""
    chunks = keys.cast(pa.binary(_DIGITS)).chunks
    return _from_digits(
        b"".join(
            chunk.buffers()[1].slice(_DIGITS * chunk.offset, _DIGITS * len(chunk)).to_pybytes()
            for chunk in chunks
        ).decode()
    )


def mix_with_cells(halves: Halves, cells: NDArray[np.integer[Any]]) -> Halves:
    """Return identities of rows (N, 2): their keys (N, 2) mixed with their ``cells`` (N,).

    Rows of several cells may share a key.
    """
    mixed = halves.copy()
    mixed[:, 0] ^= cells.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed


def may_repeat(identity: NDArray[np.uint64]) -> bool:
    """Return whether two rows of ``identity`` (N, C) agree in the first column, so may be equal."""
    ordered = np.sort(identity[:, 0])
    return bool((ordered[1:] == ordered[:-1]).any())


def _from_digits(digits: str) -> Halves:
    halves = np.frombuffer(bytes.fromhex(digits), dtype=">u8").reshape(-1, 2)
    return halves.astype(np.uint64)


Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Mask = NDArray[np.bool_]

_RECENT = 65_536  # keys
_GROWTH = 4  # a full table grows by a fourth


class ResultIndex:
    """The objective values and slopes of rows, by key.

    A key gets a place (a number) when it is claimed, and values once its row is stored. A key takes
    about 30 bytes, and 8 for each value.
    """

    def __init__(self, n_values: int, n_slopes: int) -> None:
        self._places = _Index()
        self._values, self._slopes = Column(n_values, np.nan), Column(n_slopes, np.nan)
        self._landed = Column(1, 0, np.bool_)
        self._n = 0

    def __len__(self) -> int:
        """Return the number of stored rows."""
        return self._n

    def places(self, keys: Sequence[str], cell: int) -> Places:
        """Return the places of a cell's keys; -1 for keys without a stored row."""
        found = self._places.find(_identity(keys, cell))
        there = np.flatnonzero(found >= 0)
        found[there[~self.landed(found[there])]] = -1
        return found

    def claim(self, keys: Sequence[str], cell: int) -> tuple[Places, Mask]:
        """Return the places of a cell's keys, and a mask of the new keys.

        If a key occurs twice, only the first occurrence is new.
        """
        return self._claim(_identity(keys, cell))

    def add(self, halves: Halves, values: Floats, slopes: Floats) -> Places:
        """Store the results of rows, and return their places.

        ``values`` (N, K) are NaN where a trial failed, ``slopes`` (N, D) where they are unknown. Of
        rows with one key, a simulated one replaces a failed one.
        """
        places, _ = self._claim(halves)
        fresh = np.sort(places[~self.landed(places)])
        self._n += int((np.diff(fresh, prepend=-1) > 0).sum())
        complete = ~np.isnan(values).any(axis=1)
        first = complete | ~self.landed(places)
        for own in (first & ~complete, complete):  # in this order, where one key comes twice
            self._landed.rows[places[own]] = True
            self._values.rows[places[own]] = values[own]
            self._slopes.rows[places[own]] = slopes[own]
        return places

    def landed(self, places: Places) -> Mask:
        """Return a mask of the places whose rows are stored."""
        return np.asarray(self._landed.rows[places, 0])

    def keys(self, places: Places) -> Halves:
        """Return the keys (N, 2) of the rows at ``places``, each mixed with its cell."""
        return self._places.keys(places)

    def values(self, places: Places) -> Floats:
        """Return the objective values (N, K) of rows at ``places``, NaN where a trial failed."""
        return self._values.rows[places]

    def slopes(self, places: Places) -> Floats:
        """Return the slopes dT/db (N, D) of the rows at ``places``, in seconds per byte/s.

        It is NaN if unknown.
        """
        return self._slopes.rows[places]

    def _claim(self, halves: Halves) -> tuple[Places, Mask]:
        places, new = self._places.claim(halves)
        for column in (self._landed, self._values, self._slopes):
            column.extend(int(new.sum()))
        return places, new


def _identity(keys: Sequence[str], cell: int) -> Halves:
    return mix_with_cells(parse_keys(keys), np.full(len(keys), cell))


class _Index:
    """A map from each key to its place: 0 for the first key that arrived, 1 for the next.

    Recent keys are in a dictionary, which answers in a microsecond but takes 160 bytes a key. The
    others are in sorted arrays (runs), of 12 bytes a key. A run is merged with the run before it
    unless the earlier run is more than twice as long, so there are few runs.
    """

    def __init__(self) -> None:
        self._keys = Column(2, 0, np.uint64)
        self._recent: dict[bytes, int] = {}  # numbered on from those in runs
        self._runs: list[tuple[NDArray[np.uint64], NDArray[np.int32]]] = []  # mixed keys, places

    def keys(self, places: Places) -> Halves:
        return self._keys.rows[places]

    def find(self, halves: Halves) -> Places:
        """Return the places of keys; -1 where a key is missing."""
        places, start = self._find_in_runs(halves), self._keys.size - len(self._recent)
        rest = np.flatnonzero(places < 0)
        found = [self._recent.get(key, -1 - start) for key in _hashable(halves[rest])]
        places[rest] = start + np.array(found, dtype=np.int64)
        return places

    def claim(self, halves: Halves) -> tuple[Places, Mask]:
        """Return the places of keys, and a mask of the new keys.

        If a key occurs twice, only the first occurrence is new.
        """
        places, recent = self._find_in_runs(halves), self._recent
        rest, n, size = np.flatnonzero(places < 0), len(recent), self._keys.size
        keys = _hashable(halves[rest])
        found = np.array([recent.setdefault(key, len(recent)) for key in keys], dtype=np.int64)
        fresh = np.diff(np.maximum.accumulate(found), prepend=-1) > 0
        fresh &= found >= n
        new = np.zeros(len(halves), dtype=bool)
        places[rest], new[rest] = size - n + found, fresh
        self._keys.extend(len(recent) - n)
        self._keys.rows[size:] = halves[new]
        if len(recent) > _RECENT:
            self._add_run(size - n)
            recent.clear()
        return places, new

    def _find_in_runs(self, halves: Halves) -> Places:
        """Return the places of keys that are in sorted runs; -1 for others."""
        places = np.full(len(halves), -1)
        mixed = _mix(halves)
        for known, numbers in self._runs:
            wanted = np.flatnonzero(places < 0)
            at = np.searchsorted(known, mixed[wanted])
            while len(wanted):
                there = np.flatnonzero(at < len(known))
                there = there[known[at[there]] == mixed[wanted[there]]]
                wanted, at = wanted[there], at[there]
                found = numbers[at]
                same = (self._keys.rows[found] == halves[wanted]).all(axis=1)
                places[wanted[same]] = found[same]
                wanted, at = wanted[~same], at[~same] + 1  # another key, mixed to the same bits
        return places

    def _add_run(self, start: int) -> None:
        """Sort the keys from place ``start`` on into a run, and merge short runs."""
        numbers = np.arange(start, self._keys.size, dtype=np.int32)
        mixed = _mix(self._keys.rows[start:])
        order = np.argsort(mixed)
        mixed, numbers = mixed[order], numbers[order]
        while self._runs and len(self._runs[-1][0]) <= 2 * len(mixed):
            before, places = self._runs.pop()
            at = np.searchsorted(before, mixed)
            mixed, numbers = np.insert(before, at, mixed), np.insert(places, at, numbers)
        self._runs.append((mixed, numbers))


def _mix(halves: Halves) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each key (N, 2)."""
    return np.asarray(halves[:, 0] ^ (halves[:, 1] * np.uint64(0x9E3779B97F4A7C15)))


def _hashable(halves: Halves) -> list[bytes]:
    """Return each key (N, 2) as bytes, which a dictionary hashes within nanoseconds."""
    return np.ascontiguousarray(halves).view("V16").ravel().tolist()


class Column:
    """A growing array of numbers; new rows have the value ``blank``."""

    def __init__(self, width: int, blank: float, kind: Any = np.float64) -> None:
        self.size, self._blank = 0, blank
        self._kept = np.empty((1024, width), kind)

    @property
    def rows(self) -> NDArray[Any]:
        """View of all rows; it becomes invalid when the array grows."""
        return self._kept[: self.size]

    def extend(self, n: int) -> None:
        """Add ``n`` rows with the blank value."""
        if self.size + n > len(self._kept):
            # In place, where the system can: of millions of rows no second copy is in memory.
            size = max(self.size + self.size // _GROWTH, self.size + n)
            # Nobody keeps a view of it; Python 3.14 counts references so that NumPy cannot tell.
            self._kept.resize((size, self._kept.shape[1]), refcheck=False)
        self._kept[self.size : self.size + n] = self._blank
        self.size += n
