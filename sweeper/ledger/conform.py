"""Rows as this version writes them, of files that another one wrote, or somebody by hand."""

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sweeper.ledger.files import DamagedError
from sweeper.ledger.record import StudyRecord
from sweeper.ledger.rows import BESIDE, COMPLETE, row_schema

_NAMING = ("key", "cell", "trial", "origin", "state")  # without which a row says nothing
_DIMENSION = re.compile(r"bandwidth_(\d{1,3})_GBps")
_KEY = r"^[0-9a-f]{32}$"


def conforming(rows: pa.Table, study: StudyRecord) -> pa.Table:
    """``rows`` with the columns that rows of the study have, each of its type; those that the file
    lacks have no values, and those that it has beyond them stay.

    Raises :class:`DamagedError` that names the column for a type that is another one, and for rows
    that do not say whose they are.
    """
    given = [match for name in rows.column_names if (match := _DIMENSION.fullmatch(name))]
    n_dims = max([len(cell.dims) for cell in study.cells] + [int(m[1]) + 1 for m in given] + [0])
    expected = row_schema(n_dims, study.grid, study.parameters)
    _check_names(rows)
    columns = {}
    for field in expected:
        if field.name in rows.column_names:
            columns[field.name] = _cast(rows[field.name], field)
        elif field.name in _NAMING:
            raise DamagedError(f"it has no column {field.name!r}")
    others = {name: rows[name] for name in rows.column_names if name not in columns}
    _check(columns, study)
    lacking = [field for field in expected if field.name not in columns]
    if not lacking and not others and rows.schema.equals(expected):
        return rows
    columns |= {field.name: pa.nulls(len(rows), field.type) for field in lacking}
    return pa.table({field.name: columns[field.name] for field in expected} | others)


def check_types(rows: pa.Table, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """``rows``, of which only ``columns`` were read; raises :class:`DamagedError` if one is not as
    ``schema`` says, or a row does not say whose it is."""
    _check_names(rows)
    for name in columns:
        if name not in rows.column_names:
            raise DamagedError(f"it has no column {name!r}")
        if rows[name].type != schema.field(name).type:
            what = f"its column {name!r} holds {rows[name].type}, not {schema.field(name).type}"
            raise DamagedError(what)
    _check({name: rows[name] for name in columns}, None)
    return rows


def _check_names(rows: pa.Table) -> None:
    if twice := {name for name in rows.column_names if rows.column_names.count(name) > 1}:
        raise DamagedError(f"it has two columns {min(twice)!r}")


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        what = f"its column {field.name!r} holds {column.type}, not {field.type}"
        raise DamagedError(what) from error


def _check(columns: dict[str, pa.ChunkedArray], study: StudyRecord | None) -> None:
    """Raise :class:`DamagedError` for rows of no cell, without a key or a number, or without a
    time although they are complete."""
    for name in _NAMING:
        if columns[name].null_count and name != "origin":
            raise DamagedError(f"its column {name!r} has no value in some rows")
    if not pc.all(pc.match_substring_regex(columns["key"], _KEY), min_count=0).as_py():
        raise DamagedError("its column 'key' has what is no key")
    known = [cell.cell for cell in study.cells] if study else []
    for name in ("cell", "trial"):
        least = pc.min(columns[name]).as_py()
        if least is not None and least < 0:
            raise DamagedError(f"its column {name!r} has {least}")
    if study and known and study.n_streamed is None:
        searched = pc.invert(pc.is_in(columns["origin"], pa.array(BESIDE)))  # of no baseline
        strange = columns["cell"].filter(searched)
        strange = strange.filter(pc.invert(pc.is_in(strange, pa.array(known))))
        if len(strange):
            raise DamagedError(f"it has rows of cell {strange[0]}, which the study has not")
    if "time_s" in columns:
        complete = pc.equal(columns["state"], COMPLETE)
        if pc.any(pc.and_(complete, pc.is_null(columns["time_s"])), min_count=0).as_py():
            raise DamagedError("some of its rows are complete and have no time")
