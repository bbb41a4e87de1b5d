"""What tells two studies apart: their configurations, their provenance, their rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sweeper.ledger.load import load
from sweeper.ledger.place import Place
from sweeper.ledger.record import StudyRecord, flat, read_study
from sweeper.ledger.rows import BESIDE, COMPLETE

_NAMES = ("key", "cell", "trial", "origin")  # which say nothing of a row's result


@dataclass(frozen=True)
class Difference:
    """Two studies side by side.

    ``config`` has each key of configuration, versions and provenance that differs, with its two
    values.  Rows are matched by key: ``only`` counts those that one of them has alone, ``common``
    those that both have, and ``same`` those of them that are equal in all columns that both have.
    ``columns`` says how many rows differ in a column, with the largest relative difference where
    it has numbers.  ``best`` has the coordinates of each cell that is in both, and the two best
    values.
    """

    config: Mapping[str, tuple[Any, Any]]
    only: tuple[int, int]
    common: int
    same: int
    columns: Mapping[str, tuple[int, float | None]]
    best: list[tuple[Mapping[str, str], float | None, float | None]]


def diff(first: Place, second: Place) -> Difference:
    """How the study in ``second`` differs from that in ``first``."""
    studies, tables = [read_study(f) for f in (first, second)], [load(f) for f in (first, second)]
    texts = [_described(study) for study in studies]
    config = {
        key: (texts[0].get(key), texts[1].get(key))
        for key in {**texts[0], **texts[1]}
        if texts[0].get(key) != texts[1].get(key)
    }
    places = [{key: i for i, key in enumerate(table["key"].to_pylist())} for table in tables]
    common = [key for key in places[0] if key in places[1]]
    pairs = [
        table.take(pa.array([place[key] for key in common], pa.int64()))
        for table, place in zip(tables, places, strict=True)
    ]
    labels = {*_NAMES, *studies[0].grid, *studies[1].grid}
    unlike, columns = np.zeros(len(common), dtype=bool), dict[str, tuple[int, float | None]]()
    for name in tables[0].column_names:
        if name in tables[1].column_names and name not in labels:
            own, largest = _compared(pairs[0][name], pairs[1][name])
            if own.any():
                columns[name] = int(own.sum()), largest
            unlike |= own
    return Difference(
        config=config,
        only=(len(places[0]) - len(common), len(places[1]) - len(common)),
        common=len(common),
        same=int((~unlike).sum()),
        columns=columns,
        best=_best(studies, tables),
    )


def _described(study: StudyRecord) -> dict[str, Any]:
    versions = {"model": study.model, "rows": study.rows}
    written = [each.model_dump() for each in study.provenance[-1:]]
    return flat({**study.config, "versions": versions, "provenance": written[0] if written else {}})


def _compared(first: pa.ChunkedArray, second: pa.ChunkedArray) -> tuple[np.ndarray, float | None]:
    """Which rows differ, and the largest relative difference of numbers."""
    if pa.types.is_floating(first.type) or pa.types.is_integer(first.type):
        a, b = (column.to_numpy().astype(float) for column in (first, second))
        unlike = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        scale = np.maximum(np.maximum(np.abs(a), np.abs(b)), 1e-300)
        return unlike, float(np.nanmax(np.abs(a - b) / scale, initial=0.0, where=unlike))
    pairs = zip(first.to_pylist(), second.to_pylist(), strict=True)
    return np.array([a != b for a, b in pairs], dtype=bool), None


def _best(
    studies: list[StudyRecord], tables: list[pa.Table]
) -> list[tuple[Mapping[str, str], float | None, float | None]]:
    """The best values of the cells that both have."""
    cells = [{tuple(c.coordinates.items()): c.cell for c in study.cells} for study in studies]
    objectives = [study.objectives[0] for study in studies]
    if objectives[0].name != objectives[1].name:
        return []
    found: list[tuple[Mapping[str, str], float | None, float | None]] = []
    for coordinates in [each for each in cells[0] if each in cells[1]]:
        values = []
        for own, table in zip(cells, tables, strict=True):
            mine = (table["cell"].to_numpy() == own[coordinates]) & (
                np.array(table["state"].to_pylist(), dtype=object) == COMPLETE
            )
            mine &= ~pc.is_in(table["origin"], pa.array(BESIDE)).to_numpy()
            column = table[objectives[0].column].to_numpy()[mine] * objectives[0].sign
            values.append(float(column.min()) * objectives[0].sign if len(column) else None)
        found.append((dict(coordinates), values[0], values[1]))
    return found
