"""Where a search stood, so that it goes on from there and need not be asked from the start.

A bookmark is no part of the truth about a study.  It has a hash of what the search had been told;
if the rows say something else (some are missing, or were simulated again) it is not used.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dimsweep.sweeper.ledger.files import DamagedError
from dimsweep.sweeper.ledger.place import Place, read, write
from dimsweep.sweeper.ledger.record import checksum


class Told:
    """A hash of what a search was told, row by row, in batches of any size."""

    def __init__(self) -> None:
        self._columns = [hashlib.blake2b(digest_size=16) for _ in range(3)]

    def add(self, *columns: NDArray[Any]) -> None:
        """The keys, values and slopes (N, ...) of its next rows."""
        for own, column in zip(self._columns, columns, strict=True):
            own.update(np.ascontiguousarray(column).tobytes())

    @property
    def text(self) -> str:
        """The hash of all that was added."""
        return "".join(own.hexdigest() for own in self._columns)


def keep(folder: Place, cell: int, bookmark: Mapping[str, Any]) -> None:
    """Write a cell's bookmark, plain data, in the place of the one before it."""
    text = json.dumps({**bookmark, "checksum": checksum(bookmark)})
    write(_file(folder, cell), text.encode())


def kept(folder: Place, cell: int) -> Mapping[str, Any] | None:
    """A cell's bookmark; ``None`` if there is none, or none that is whole."""
    try:
        return read_bookmark(_file(folder, cell))
    except (OSError, DamagedError):
        return None


def read_bookmark(file: Place) -> Mapping[str, Any]:
    """A bookmark; raises :class:`DamagedError` if it is not what a sweep wrote."""
    try:
        node = json.loads(read(file).to_pybytes())
    except (ValueError, RecursionError) as error:
        raise DamagedError("it is no bookmark") from error
    if not isinstance(node, dict):
        raise DamagedError("it is no bookmark")
    if node.pop("checksum", None) != checksum(node):
        raise DamagedError("its checksum is wrong")
    return node


def _file(folder: Place, cell: int) -> Place:
    return folder / f"search-{cell:05d}.json"
