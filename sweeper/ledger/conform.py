"""Rows as this version writes them, of files that another one wrote, or somebody by hand."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dimsweep.sweeper.ledger.files import DamagedError
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.rows import BESIDE, COMPLETE
from dimsweep.sweeper.ledger.schema import BANDWIDTH, NAMING, row_schema
from dimsweep.sweeper.objective import OBJECTIVES

_NAMING = [column.name for column in NAMING]
_MEANT = {"time_s": "time"}
_KEY = r"^[0-9a-f]{32}$"


def schema_as_known(given: pa.Schema, study: StudyRecord) -> pa.Schema:
    """The columns of rows whose file has the columns ``given``: those that rows of the study have,
    each with its type, and then what the file has beyond them.

    Raises :class:`DamagedError` for a column that is there twice, and for rows that do not say
    whose they are.
    """
    check_names(given.names)
    n_dims = max([len(c.dims) for c in study.cells] + [BANDWIDTH.n_dims(given.names)])
    expected = row_schema(n_dims, study.grid, study.parameters)
    needed = (*_NAMING, *study.grid, *study.parameters)  # what says whose a row is, and of what
    if lacking := [name for name in needed if name not in given.names]:
        raise DamagedError(f"it has no column {lacking[0]!r}")
    return pa.schema([*expected, *(field for field in given if field.name not in expected.names)])


def conforming(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """``rows`` with the columns of ``schema``, each of its type, and with no values those that they
    lack.  Raises :class:`DamagedError` that names the column for a type that is another one."""
    if rows.schema.equals(schema):
        return rows
    check_names(rows.column_names)
    there = set(rows.column_names)
    columns = [
        _cast(rows[field.name], field) if field.name in there else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def check_types(rows: pa.Table, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """``rows``, of which only ``columns`` were read; raises :class:`DamagedError` if one is not as
    ``schema`` says, or a row does not say whose it is."""
    check_names(rows.column_names)
    for name in columns:
        if name not in rows.column_names:
            raise DamagedError(f"it has no column {name!r}")
        if rows[name].type != schema.field(name).type:
            what = f"its column {name!r} holds {rows[name].type}, not {schema.field(name).type}"
            raise DamagedError(what)
    check(rows, None)
    return rows


def check_names(names: Sequence[str]) -> None:
    """Raise :class:`DamagedError` for a column that is there twice."""
    if twice := {name for name in names if names.count(name) > 1}:
        raise DamagedError(f"it has two columns {min(twice)!r}")


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        what = f"its column {field.name!r} holds {column.type}, not {field.type}"
        raise DamagedError(what) from error


def check(columns: pa.Table, study: StudyRecord | None) -> None:
    """Raise :class:`DamagedError` for rows of no cell, without a key or a number, or, if the time
    is among their ``columns``, without one although they are complete."""
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
    complete = pc.equal(columns["state"], COMPLETE)
    for name in checked(study):
        if name not in _NAMING and name in columns.column_names:
            _check_numbers(_MEANT.get(name, name), columns[name].filter(complete))


def checked(study: StudyRecord | None) -> list[str]:
    """The columns that tell rows from what is none; those of a plug-in's objective are not among
    them, which rows are read without."""
    known = (OBJECTIVES[name] for name in (study.objective if study else ()) if name in OBJECTIVES)
    return list(dict.fromkeys([*_NAMING, "time_s", *(each.column for each in known)]))


def _check_numbers(what: str, column: pa.ChunkedArray) -> None:
    """Raise :class:`DamagedError` if a value of complete rows is missing, or none that can be."""
    if column.null_count:
        raise DamagedError(f"some of its rows are complete and have no {what}")
    if not pc.all(pc.and_(pc.is_finite(column), pc.greater_equal(column, 0)), min_count=0).as_py():
        raise DamagedError(f"some of its rows are complete and have a {what} that cannot be")
