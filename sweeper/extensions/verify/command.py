"""dimsweep verify: published studies, the other verifications, and a list of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dimsweep.sweeper.cli.lazy import Commands, Lazy
from dimsweep.sweeper.cli.overrides import overrides
from dimsweep.sweeper.extensions.verify import Verification
from dimsweep.sweeper.extensions.verify.files import StudyFiles, find_published, find_study_files
from dimsweep.sweeper.offers import find_offers

if TYPE_CHECKING:
    from dimsweep.sweeper.extensions.verify.points import Findings
    from dimsweep.sweeper.ledger.place import Place

_ROOM = "dimsweep.sweeper.extensions.verify"
_STUDIES = Lazy("studies", f"{_ROOM}.published:studies_command")
_LIST = Lazy("list", f"{_ROOM}.command:list_command")
_HELP = """{what}

It sweeps the study into results/, where the same command resumes it, and compares the published
points with its rows. The exit code is 1 unless every value is within its tolerance and every claim
holds.

\b
Usual keys:
  results=FOLDER         where results lie
  executor=NAME          where trials run: local, inline (no Ray) or address (a Ray cluster)
"""


class _Published(Lazy):
    """The command that verifies a published study."""

    def __init__(self, name: str, files: StudyFiles) -> None:
        super().__init__(name, "", files.title)
        self._files = files

    def load(self) -> click.Command:
        from dimsweep.sweeper.extensions.verify.points import json_option, picture_option

        @overrides
        @json_option
        @picture_option
        def run(overrides: Sequence[str], as_json: bool, picture: Path | None) -> int:
            from dimsweep.sweeper.extensions.verify.points import create_console, run_verification
            from dimsweep.sweeper.extensions.verify.published import find_points
            from dimsweep.sweeper.terminal import print_line

            folders = list["Place"]()

            def find() -> "Findings":
                return find_points(self._files, *overrides, folders=folders)

            code = run_verification(self._files.name, find, as_json=as_json, picture=picture)
            for folder in folders:
                print_line(f"its rows and page: {folder}", create_console(as_json))
            return code

        help_text = _HELP.format(what=self._files.title)
        return click.command(self.name, help=help_text)(run)


def verifications() -> dict[str, Verification]:
    """Return the verifications of extensions, then those that installed plug-ins add, by name."""
    from dimsweep.sweeper.places import installed_plugins

    found: dict[str, Verification] = find_offers("verification")
    if installed_plugins():
        from dimsweep.sweeper.extensions.verify.registry import VERIFICATIONS
        from dimsweep.sweeper.plugins import load_plugins

        load_plugins(())
        found |= VERIFICATIONS
    return found


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def list_command(as_json: bool) -> int:
    """List the verifications, with their subjects and sources."""
    from rich.console import Console

    from dimsweep.sweeper.extensions.verify.points import read_lines
    from dimsweep.sweeper.terminal import make_table, print_line

    known = dict[str, Verification]()
    for name, files in find_published().items():
        lines = sorted(read_lines(files.points), key=lambda line: line.basis != "published")
        known[name] = Verification(files.title, lines[0].source, is_study=True)
    known |= verifications()
    if as_json:
        listed = [
            {"name": name, "what": each.title, "source": each.source, "is_study": each.is_study}
            for name, each in known.items()
        ]
        print(json.dumps(listed, indent=1))
        return 0
    console = Console()
    rows = [(name, each.title, each.source) for name, each in known.items()]
    console.print(make_table(("name", "what it does", "published in"), rows, left=3))
    print_line("dimsweep verify NAME runs one; --help describes it", console)
    return 0


class _Verifications(Commands):
    """The group of the listed verifications, and of published studies at any path."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if listed := super().get_command(ctx, cmd_name):
            return listed
        found = find_study_files(cmd_name)
        return None if found is None else _Published(cmd_name, found)


@click.group("verify", cls=_Verifications, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Compare published or recorded measurements with dimsweep's times.

    Without a name, it lists the verifications with their subjects and sources. A verification
    prints every point with its published value, ours, the difference, the tolerance and a verdict.
    The exit code is 1 if the verification misses its aim. To verify your own study, give its path:
    a YAML file with a table of points next to it, or their folder.


    \b
    Examples:
      dimsweep verify
      dimsweep verify list --json
      dimsweep verify wafer --picture wafer.png
    """
    if context.invoked_subcommand is None:
        context.invoke(_LIST.load())


assert isinstance(command, Commands)
command.path = "verify"
for _name, _files in find_published().items():
    command.add_command(_Published(_name, _files))
for _name, _each in verifications().items():
    command.add_command(Lazy(_name, _each.target, _each.title))
command.add_command(_STUDIES)
command.add_command(_LIST)
