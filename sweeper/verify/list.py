"""dimsweep verify list: all verifications."""

import json

import click
from rich.console import Console

from sweeper.terminal import say, table
from sweeper.verify import VERIFICATIONS


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def command(as_json: bool) -> int:
    """List what can be verified.

    Each verification is shown with what it compares, and where that was published.
    """
    if as_json:
        listed = [{"name": name, **each._asdict()} for name, each in VERIFICATIONS.items()]
        print(json.dumps(listed, indent=1))
        return 0
    console = Console()
    rows = [(name, each.what, each.source) for name, each in VERIFICATIONS.items()]
    console.print(table(("name", "what it does", "published in"), rows, left=3))
    say("dimsweep verify NAME runs one; its --help tells more", console)
    return 0
