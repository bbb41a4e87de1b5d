"""The rows that a report is of: a table, or files of which some columns are read at a time."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pandas as pd

from dimsweep.sweeper.ledger.pieces import Places
from dimsweep.sweeper.ledger.stored import Stored


class Rows(ABC):
    """The rows of a study.  The index of a row, in whatever table it is, is its place."""

    @staticmethod
    def of(rows: "pd.DataFrame | Stored | Rows") -> "Rows":
        """The rows of a table, in whatever order, or of a study's files."""
        if isinstance(rows, Rows):
            return rows
        return _OfFiles(rows) if isinstance(rows, Stored) else _OfTable(rows)

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """All columns."""

    @abstractmethod
    def pieces(self, columns: Sequence[str], cell: int | None = None) -> Iterator[pd.DataFrame]:
        """Those of some columns that there are, of all rows or of those of a cell, some thousands
        of rows at a time; together they are all rows, in any order."""

    @abstractmethod
    def take(self, places: Places) -> pd.DataFrame:
        """All columns of the rows at ``places``, in their order."""

    def there(self, columns: Sequence[str]) -> list[str]:
        """Those of some columns that there are, each once."""
        return [name for name in dict.fromkeys(columns) if name in self._known]

    def select(self, columns: Sequence[str], places: Places) -> pd.DataFrame:
        """Those of some columns that there are, of the rows at ``places``, in their order."""
        wanted = np.sort(places)
        found = [
            piece[np.isin(piece.index, wanted, assume_unique=True)]
            for piece in self.pieces(columns)
        ]
        return pd.concat(found).loc[places]

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)


class _OfTable(Rows):
    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table.reset_index(drop=True)

    @property
    def names(self) -> list[str]:
        return list(self._table.columns)

    def pieces(self, columns: Sequence[str], cell: int | None = None) -> Iterator[pd.DataFrame]:
        own = self._table if cell is None else self._table[self._table["cell"] == cell]
        yield own[self.there(columns)]

    def take(self, places: Places) -> pd.DataFrame:
        return self._table.loc[places]


class _OfFiles(Rows):
    def __init__(self, stored: Stored) -> None:
        self._stored = stored

    @property
    def names(self) -> list[str]:
        return list(self._stored.schema.names)

    def pieces(self, columns: Sequence[str], cell: int | None = None) -> Iterator[pd.DataFrame]:
        for places, table in self._stored.pieces(self.there(columns), cell):
            yield table.to_pandas().set_axis(places)

    def take(self, places: Places) -> pd.DataFrame:
        return self._stored.take(places).to_pandas().set_axis(places)
