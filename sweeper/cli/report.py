"""dimsweep report: a study's tables, pictures and page."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sweeper.cli.overrides import Overrides

if TYPE_CHECKING:
    from rich.console import Console

    from sweeper.ledger.place import Place


class _Results(Overrides):
    """Overrides, or the folder of a study's results."""

    def meaning(self, word: str) -> str | None:
        name = Path(word).name
        is_results = Path("results", name, "study.json").is_file()
        return super().meaning(word) or (f"name={name}" if is_results else None)


@click.command("report")
@click.argument("overrides", nargs=-1, type=_Results(), metavar="[STUDY] [KEY=VALUE]...")
def command(overrides: Sequence[str]) -> int:
    """Print a study's tables and write its pictures and page again.

    The results are read from results/NAME; a study that still runs is reported as far as it is.

    \b
    Usual keys:
      study=NAME             the study to report
      name=NAME              the name of its results, if it was run with one
      results=FOLDER         where results lie

    \b
    Examples:
      dimsweep report libra_gpt3_4d
      dimsweep report results/my_cmaes
    """
    from rich.console import Console

    from sweeper.config.compose import compose
    from sweeper.ledger.place import place
    from sweeper.study.plan import study_name

    composed = compose(overrides)
    report_study(place(composed.config.results) / study_name(composed), Console())
    return 0


def report_study(folder: "Place", console: "Console") -> None:
    """Print a study's table and write its pictures and page."""
    from sweeper.draw.show.page import write_report
    from sweeper.draw.show.terminal import print_report
    from sweeper.ledger.load import load
    from sweeper.ledger.record import read_study
    from sweeper.terminal import say

    study = read_study(folder)
    rows = load(folder).to_pandas()
    print_report(rows, study, console)
    say(f"wrote {write_report(rows, study, folder / 'report')}", console)
