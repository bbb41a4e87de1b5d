"""The command dimsweep report: print a study's tables, draw its pictures and write its page."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dimsweep.sweeper.cli.overrides import Overrides

if TYPE_CHECKING:
    from rich.console import Console

    from dimsweep.sweeper.ledger.place import Place


class _Results(Overrides):
    """Argument type: overrides, or the folder of a study's results."""

    def meaning(self, word: str) -> str | None:
        from dimsweep.sweeper.ledger.place import STUDY, find_results_folder

        return super().meaning(word) or (
            word if (find_results_folder(word) / STUDY).is_file() else None
        )

    def unknown(self, word: str) -> str:
        from dimsweep.engine import find_nearest
        from dimsweep.sweeper.ledger.place import STUDY
        from dimsweep.sweeper.places import list_studies

        names = [folder.parent.name for folder in Path("results").glob(f"*/{STUDY}")]
        what = f"{word!r} is neither a study nor a folder of results"
        if close := find_nearest(word, [*names, *list_studies()]):
            return f"{what}; did you mean {close}?"
        return f"{what}; results/ has {', '.join(sorted(names)) or 'no results'}"


def _complete_section(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from dimsweep.sweeper.questions.findings import SECTION_NAMES

    return [name for name in SECTION_NAMES if name.startswith(incomplete)]


@click.command("report")
@click.argument("overrides", nargs=-1, type=_Results(), metavar="[STUDY] [KEY=VALUE]...")
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    help="Draw what was found, with time and cost, into this .png, .svg or .pdf.",
)
@click.option("--full", is_flag=True, help="Print every section, not only the answer.")
@click.option("--section", shell_complete=_complete_section, help="Print this section alone.")
def report_command(
    overrides: Sequence[str], picture: Path | None, full: bool, section: str | None
) -> int:
    """Print a study's answer on one screen, and write its page again.

    The results are read from results/NAME. A study that still runs is reported as it is now.

    \b
    Usual keys:
      study=NAME             the study to report
      name=NAME              the name of its results, if it was run with one
      results=FOLDER         where results lie

    \b
    Examples:
      dimsweep report libra_gpt3_4d
      dimsweep report results/my_cmaes --full
      dimsweep report libra_gpt3_4d --section what-if
      dimsweep report libra_gpt3_4d --picture best_split.png
      dimsweep report fair_networks --picture networks.pdf
    """
    from rich.console import Console

    report_study(_folder(overrides), Console(), picture, full=full, section=section)
    return 0


def _folder(overrides: Sequence[str]) -> "Place":
    """Return the results folder that overrides mean, even if the configuration is now invalid."""
    from dimsweep.engine import DimsweepError
    from dimsweep.sweeper.cli.overrides import is_override
    from dimsweep.sweeper.config.compose import compose
    from dimsweep.sweeper.config.overrides import read_override
    from dimsweep.sweeper.ledger.place import STUDY, find_results_folder, parse_place
    from dimsweep.sweeper.questions.plan import study_name

    if folders := [word for word in overrides if not is_override(word) or Path(word).is_dir()]:
        if others := [word for word in overrides if word != folders[0]]:
            what = f"{folders[0]!r} is a folder of results, so nothing else may be given"
            hint = "give it alone; `dimsweep compare` shows the best of several"
            raise DimsweepError(what, where=others[0], hint=hint, code="conflict")
        return find_results_folder(folders[0])
    try:
        composed = compose(overrides, may_sweep=True)
    except DimsweepError:
        given = {word.key: str(word.parsed.value()) for word in map(read_override, overrides)}
        name = given.get("name") or Path(given.get("study", "")).stem
        folder = parse_place(given.get("results", "results")) / name
        if not name or not (folder / STUDY).is_file():
            raise
        return folder
    return parse_place(composed.config.results) / study_name(composed)


def report_study(
    folder: "Place",
    console: "Console",
    picture: Path | None = None,
    *,
    full: bool = False,
    section: str | None = None,
    before: str = "",
) -> None:
    """Print a study's answer, and write its HTML page and a picture.

    ``full`` prints the whole report, ``section`` one section. ``before`` was printed already; its
    lines are subtracted from the screen.
    """
    from dimsweep.sweeper.draw.canvas import kind_of
    from dimsweep.sweeper.draw.page import write_report
    from dimsweep.sweeper.draw.terminal import (
        print_report,
        print_screen,
        print_section,
    )
    from dimsweep.sweeper.questions.findings import read_report
    from dimsweep.sweeper.terminal import count_lines, print_line

    if picture is not None:
        kind_of(picture, "--picture")  # refuses a wrong one before anything is written
    report = read_report(folder)
    if section is not None:
        print_section(report, section, console)
        return
    page = f"page: {folder / 'report' / 'report.html'}"
    if full:
        print_report(report, console)
    else:
        texts = filter(None, (before, page))
        used = sum(count_lines(text, console.width) for text in texts)
        print_screen(report, folder, console, reserved=used)
    write_report(report, folder / "report")
    print_line(page, console)
    if picture is not None:
        from dimsweep.sweeper.draw.found import write_picture

        print_line(f"wrote {write_picture(report, picture)}", console)
