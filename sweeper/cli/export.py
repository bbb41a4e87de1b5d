"""dimsweep export: a study's rows for other tools."""

import click


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
    from dimsweep.sweeper.export.optuna import write_optuna
    from dimsweep.sweeper.export.rows import write_csv, write_parquet
    from dimsweep.sweeper.ledger.place import results_in
    from dimsweep.sweeper.ledger.stored import Stored
    from dimsweep.sweeper.questions.findings import report_of

    if not (csv or parquet or optuna):
        raise click.UsageError("say what to write: --csv, --parquet or --optuna")
    stored = Stored(results_in(study))
    if csv:
        write_csv(stored, csv)
        click.echo(f"wrote {csv}")
    if parquet:
        write_parquet(stored, parquet)
        click.echo(f"wrote {parquet}")
    if optuna:
        for name in write_optuna(report_of(stored, stored.study), optuna):
            click.echo(f"wrote {name!r} to {optuna}")
    return 0
