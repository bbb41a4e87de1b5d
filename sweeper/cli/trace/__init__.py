"""dimsweep trace: Chakra execution traces, a file for each command."""

import click

from dimsweep.sweeper.cli.lazy import Commands, Lazy
from dimsweep.sweeper.offers import offered


@click.group("trace", cls=Commands)
def command() -> None:
    """Check, count, draw, simulate, write and convert Chakra traces.

    SOURCE is a file, a folder, or the PREFIX of PREFIX.<rank>.et. Communicator groups are read from
    PREFIX.groups.json beside the traces, or from --groups FILE.
    """


assert isinstance(command, Commands)
command.path, _ROOM = "trace", "dimsweep.sweeper.cli.trace"
command.add_lazily(_ROOM, "lint", "stats", "show", "write")
for _name, _target in offered("command").items():
    if _name.startswith("trace "):
        command.add_command(Lazy(_name.removeprefix("trace "), _target))
command.add_lazily(_ROOM, "convert")
