"""dimsweep export: a study's rows for other tools."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@click.command("export")
@click.argument("study", metavar="RESULTS/STUDY")
@click.option("--csv", metavar="FILE", help="Write the rows as CSV; maps are JSON.")
@click.option("--parquet", metavar="FILE", help="Write the rows as one Parquet file.")
@click.option(
    "--optuna", metavar="STORAGE", help="Write an Optuna study: a journal file, or sqlite:///FILE."
)
def command(study: str, csv: str | None, parquet: str | None, optuna: str | None) -> int:
    """Write a study's rows as CSV, Parquet or an Optuna study.

    The columns are those of docs/results.md. optuna-dashboard opens the storage. A study is a
    folder of results, or its name in results/; it may still run.

    \b
    Examples:
      dimsweep export libra_gpt3_4d --csv rows.csv
      dimsweep export results/libra_gpt3_4d --parquet rows.parquet --optuna study.journal
    """
    from sweeper.api.results import Results
    from sweeper.cli.folders import results_in
    from sweeper.export.optuna import write_optuna
    from sweeper.output import write_file

    if not (csv or parquet or optuna):
        raise click.UsageError("say what to write: --csv, --parquet or --optuna")
    results = Results(results_in(study))
    if csv:
        write_file(csv, "the rows", _csv(results.to_pandas()))
        click.echo(f"wrote {csv}")
    if parquet:
        write_file(parquet, "the rows", _parquet(results.to_arrow()))
        click.echo(f"wrote {parquet}")
    if optuna:
        for name in write_optuna(results.report, optuna):
            click.echo(f"wrote {name!r} to {optuna}")
    return 0


def _csv(rows: "pd.DataFrame") -> bytes:
    import json

    maps = ["exposed_by_collective_s"]
    texts = rows[maps].map(lambda pairs: None if pairs is None else json.dumps(dict(pairs)))
    return rows.assign(**texts).to_csv(index=False).encode()


def _parquet(rows: "pa.Table") -> bytes:
    import io

    import pyarrow.parquet

    content = io.BytesIO()
    pyarrow.parquet.write_table(rows, content)
    return content.getvalue()
