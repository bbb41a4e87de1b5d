"""Export a study's rows to one file, as comma-separated values or as Parquet."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from dimsweep.sweeper.ledger.stored import Stored
from dimsweep.sweeper.output import writing_file

_ROWS = "the rows"
_AT_ONCE = 50_000  # rows


def write_csv(stored: Stored, file: str | Path) -> None:
    """Write all rows as CSV, sorted by cell and trial; maps are written as JSON.

    Raises :class:`DimsweepError` if the file cannot be written.
    """
    import duckdb

    with writing_file(file, _ROWS) as out, duckdb.connect() as connection:
        head = True
        for rows in stored.in_order(_AT_ONCE):
            for place, field in enumerate(rows.schema):
                if pa.types.is_map(field.type):
                    own = rows.select([field.name]).rename_columns(["own"])
                    connection.register("maps", own)
                    found = connection.sql("SELECT to_json(own)::VARCHAR FROM maps")
                    rows = rows.set_column(place, field.name, found.to_arrow_table()[0])
            options = pc.WriteOptions(include_header=head, quoting_style="needed")
            pc.write_csv(rows, out, options)
            head = False


def write_parquet(stored: Stored, file: str | Path) -> None:
    """Write all rows as Parquet, sorted by cell and trial.

    Raises :class:`DimsweepError` if the file cannot be written.
    """
    with writing_file(file, _ROWS) as out, pq.ParquetWriter(out, stored.schema) as writer:
        for rows in stored.in_order(_AT_ONCE):
            writer.write_table(rows)
