"""dimsweep verify list: all verifications."""

import json

import click
from rich.console import Console

from dimsweep.sweeper.extensions.verify import Verification
from dimsweep.sweeper.extensions.verify.command import verifications
from dimsweep.sweeper.extensions.verify.files import published
from dimsweep.sweeper.extensions.verify.points import read_lines
from dimsweep.sweeper.terminal import say, table


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def command(as_json: bool) -> int:
    """List what can be verified.

    Each verification is shown with what it compares, and where that was published.
    """
    known = _studies() | verifications()
    if as_json:
        listed = [{"name": name, **_as_record(each)} for name, each in known.items()]
        print(json.dumps(listed, indent=1))
        return 0
    console = Console()
    rows = [(name, each.what, each.source) for name, each in known.items()]
    console.print(table(("name", "what it does", "published in"), rows, left=3))
    say("dimsweep verify NAME runs one; its --help tells more", console)
    return 0


def _as_record(each: Verification) -> dict[str, object]:
    return {"what": each.what, "source": each.source, "is_study": each.is_study}


def _studies() -> dict[str, Verification]:
    """The published studies that are data, with the sources of their tables."""
    found = dict[str, Verification]()
    for name, files in published().items():
        lines = sorted(read_lines(files.points), key=lambda line: line.basis != "published")
        found[name] = Verification(files.what, lines[0].source, is_study=True)
    return found
