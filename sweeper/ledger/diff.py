"""Compare two studies by their configurations, their provenance, and their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.ledger.record import StudyRecord, flatten
from dimsweep.sweeper.ledger.rows import COMPLETE, EXTRA_ORIGINS
from dimsweep.sweeper.ledger.stored import Stored

_BATCH_ROWS = 50_000  # rows
_NAMES = ("key", "cell", "trial", "origin")  # which say nothing of a row's result


@dataclass(frozen=True)
class Difference:
    """The differences between two studies; rows are matched by key."""

    #: differing keys of configuration, versions and provenance, with both values
    config: Mapping[str, tuple[Any, Any]]
    #: rows that only the first or only the second study has
    only: tuple[int, int]
    #: rows that both studies have
    common: int
    #: common rows that are equal in all common columns
    same: int
    #: number of differing rows, and the largest relative difference of numbers, by column
    columns: Mapping[str, tuple[int, float | None]]
    #: coordinates of each common cell, with both best values
    best: list[tuple[Mapping[str, str], float | None, float | None]]


def diff(first: Place, second: Place) -> Difference:
    """Compare two studies: their configurations, their provenance and their rows."""
    both = Stored(first), Stored(second)
    texts = [_flat_description(stored.study) for stored in both]
    config = {
        key: (texts[0].get(key), texts[1].get(key))
        for key in {**texts[0], **texts[1]}
        if texts[0].get(key) != texts[1].get(key)
    }
    only, pairs = _match_rows(*both)
    labels = {*_NAMES, *both[0].study.grid, *both[1].study.grid}
    unlike, columns = np.zeros(len(pairs[0]), dtype=bool), dict[str, tuple[int, float | None]]()
    for name in both[0].schema.names:
        if name in both[1].schema.names and name not in labels:
            values = [
                _column(stored, name).take(own) for stored, own in zip(both, pairs, strict=True)
            ]
            own, largest = _compare_columns(*values)
            if own.any():
                columns[name] = int(own.sum()), largest
            unlike |= own
    return Difference(
        config=config,
        only=only,
        common=len(unlike),
        same=int((~unlike).sum()),
        columns=columns,
        best=_compare_best(both),
    )


def _match_rows(first: Stored, second: Stored) -> tuple[tuple[int, int], tuple[pa.Array, pa.Array]]:
    """Return the numbers of rows without a match, and the places of matches in both studies."""
    places = []
    for stored in (first, second):
        keys = _column(stored, "key")
        table = pa.table({"key": keys, "place": np.arange(len(keys))})
        places.append(table.group_by("key").aggregate([("place", "max")]))
    common = places[0].join(places[1], "key", join_type="inner", right_suffix="_there")
    common = common.sort_by("place_max")
    only = len(places[0]) - len(common), len(places[1]) - len(common)
    return only, (common["place_max"], common["place_max_there"])


def _column(stored: Stored, name: str) -> pa.ChunkedArray:
    return stored.table([name])[name]


def _flat_description(study: StudyRecord) -> dict[str, Any]:
    versions = {"model": study.model, "rows": study.rows}
    written = [each.model_dump() for each in study.provenance[-1:]]
    return flatten(
        {**study.config, "versions": versions, "provenance": written[0] if written else {}}
    )


def _compare_columns(
    first: pa.ChunkedArray, second: pa.ChunkedArray
) -> tuple[np.ndarray, float | None]:
    """Return a mask of differing rows, and the largest relative difference of numbers."""
    if pa.types.is_floating(first.type) or pa.types.is_integer(first.type):
        a, b = (column.to_numpy().astype(float) for column in (first, second))
        unlike = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        scale = np.maximum(np.maximum(np.abs(a), np.abs(b)), 1e-300)
        return unlike, float(np.nanmax(np.abs(a - b) / scale, initial=0.0, where=unlike))
    unlike = np.zeros(len(first), dtype=bool)
    for start in range(
        0, len(first), _BATCH_ROWS
    ):  # objects take ten times what they take in columns
        pair = [column.slice(start, _BATCH_ROWS).to_pylist() for column in (first, second)]
        unlike[start : start + _BATCH_ROWS] = [a != b for a, b in zip(*pair, strict=True)]
    return unlike, None


def _compare_best(
    both: Sequence[Stored],
) -> list[tuple[Mapping[str, str], float | None, float | None]]:
    """Return, for each cell of both studies, its axis values and the best value in each study."""
    cells = [{tuple(c.coordinates.items()): c.cell for c in each.study.cells} for each in both]
    objectives = [each.study.objectives[0] for each in both]
    if objectives[0].name != objectives[1].name:
        return []
    column = objectives[0].column
    tables = [stored.table(["cell", "state", "origin", column]) for stored in both]
    found: list[tuple[Mapping[str, str], float | None, float | None]] = []
    for coordinates in [each for each in cells[0] if each in cells[1]]:
        values = []
        for own, table in zip(cells, tables, strict=True):
            mine = pc.and_(
                pc.equal(table["cell"], own[coordinates]), pc.equal(table["state"], COMPLETE)
            )
            mine = pc.and_(mine, pc.invert(pc.is_in(table["origin"], pa.array(EXTRA_ORIGINS))))
            signed = table[column].filter(mine).to_numpy() * objectives[0].sign
            values.append(float(signed.min()) * objectives[0].sign if len(signed) else None)
        found.append((dict(coordinates), values[0], values[1]))
    return found
