"""dimsweep packets: the packet kernel by itself."""

from pathlib import Path

import click

from sweeper.verify.packets import compare


@click.command("packets")
@click.option(
    "--check",
    "folder",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder of the recorded runs.",
)
def command(folder: Path) -> int:
    """Simulate a packet simulator's recorded runs again.

    It compares them flow by flow, as `dimsweep verify packets` does.

    \b
    Example:
      dimsweep packets --check tests/golden/roce
    """
    return compare(folder)
