"""Find existing rows of other cells and studies, so that no trial is simulated twice.

Rows with equal keys have equal results.  Cells whose trials have keys with equal inputs (cells that
differ only in how they search) have the same ``content`` in their records. Only the files of such
cells are searched.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger import files
from dimsweep.sweeper.ledger.cells import CELL, Entries
from dimsweep.sweeper.ledger.files import DamagedError
from dimsweep.sweeper.ledger.index import ResultIndex, parse_key_column
from dimsweep.sweeper.ledger.place import STUDY, Place, list_folder
from dimsweep.sweeper.ledger.record import StudyRecord, read_record
from dimsweep.sweeper.ledger.rows import COMPLETE


class Shelf:
    """The places of complete rows by key: in this study, in its log and in neighbouring studies."""

    def __init__(self, folder: Place, study: StudyRecord) -> None:
        """Find the studies next to ``folder``; rows of this study are added as they are written."""
        contents = Counter(cell.content for cell in study.cells if cell.content)
        # Of a large grid it is not known yet which cells are alike.
        self._within = any(n > 1 for n in contents.values()) or study.n_streamed is not None
        self._places = ResultIndex(2, 0)  # of rows: their source, and where in it they are
        self._sources: list[tuple[Place, str] | pa.RecordBatch | None] = []
        self._neighbours = [
            (other, record, _read_contents(other, record))
            for other, record in _iterate_neighbours(folder)
            if (record.model, record.rows) == (study.model, study.rows)
        ]
        self.add_neighbours(contents.keys())

    def add_neighbours(self, contents: Collection[str]) -> None:
        """Add the rows of neighbouring studies that have cells with one of these ``contents``."""
        for each in [own for own in self._neighbours if not own[2].isdisjoint(contents)]:
            self._neighbours.remove(each)
            for part in files.parts(each[0]):
                self._add_part(part, each[1].identity)

    def add_part(self, part: Place, study: str) -> None:
        """Add the rows of a part of this study."""
        if self._within:
            self._add_part(part, study)
            # It has all rows of the log before it.
            own = self._sources
            own[:] = [None if isinstance(each, pa.RecordBatch) else each for each in own]

    def add_rows(self, rows: pa.RecordBatch) -> None:
        """Add rows that this study has written to its log."""
        if self._within:
            self._add(rows, pa.Table.from_batches([rows]).select(["key", "state"]))

    def rows(self, wanted: Sequence[str]) -> tuple[np.ndarray, pa.Table | None]:
        """Return a mask of the ``wanted`` keys with known rows, and these rows in that order."""
        if not len(self._places):
            return np.zeros(len(wanted), dtype=bool), None
        places = self._places.places(wanted, 0)
        found, tables, order = places >= 0, [], []
        sources, at = self._places.values(places[found]).astype(np.int64).T
        for source in np.unique(sources):
            own = np.flatnonzero(sources == source)
            held = self._sources[source]
            rows = None if held is None else self._read_rows(held, at[own])
            if rows is None or rows["key"].to_pylist() != [
                wanted[np.flatnonzero(found)[i]] for i in own
            ]:
                return np.zeros(len(wanted), dtype=bool), None  # simulated again, as if not here
            tables.append(rows)
            order += own.tolist()
        if not tables:
            return found, None
        return found, pa.concat_tables(tables, promote_options="default").take(np.argsort(order))

    def _read_rows(
        self, source: tuple[Place, str] | pa.RecordBatch, rows: np.ndarray
    ) -> pa.Table | None:
        if isinstance(source, pa.RecordBatch):
            return pa.Table.from_batches([source]).take(rows)
        try:
            return files.read_part(*source).take(rows)
        except (DamagedError, OSError):
            return None

    def _add_part(self, part: Place, study: str) -> None:
        try:
            with part.open("rb") as file:
                self._add((part, study), pq.read_table(file, columns=["key", "state"]))
        except (OSError, pa.ArrowException):
            return  # damaged, or gone: its trials are simulated again

    def _add(self, source: tuple[Place, str] | pa.RecordBatch, table: pa.Table) -> None:
        complete = pc.equal(table["state"], COMPLETE).to_numpy()
        own = parse_key_column(table["key"].filter(pa.array(complete)))
        rows = np.flatnonzero(complete)
        places = np.column_stack([np.full(len(rows), len(self._sources)), rows]).astype(float)
        self._places.add(own, places, np.empty((len(rows), 0)))
        self._sources.append(source)


def _iterate_neighbours(folder: Place) -> Iterator[tuple[Place, StudyRecord]]:
    for other in list_folder(folder.parent):
        if other.name != folder.name and (other / STUDY).is_file():
            try:
                yield other, read_record(other)
            except DimsweepError:
                continue  # not this study's to mend


def _read_contents(folder: Place, study: StudyRecord) -> frozenset[str]:
    if study.n_streamed is None:
        return frozenset(cell.content for cell in study.cells if cell.content)
    return frozenset(Entries.read(folder, study.identity).last(CELL)["content"].to_pylist())
