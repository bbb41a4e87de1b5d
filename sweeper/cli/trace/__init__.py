"""dimsweep trace: Chakra execution traces, a file for each command."""

import click

from dimsweep.sweeper.cli.lazy import Commands, Lazy


@click.group("trace", cls=Commands)
def command() -> None:
    """Check, count, draw, simulate, write and convert Chakra traces.

    SOURCE is a file, a folder, or the PREFIX of PREFIX.<rank>.et. Communicator groups are read from
    PREFIX.groups.json beside the traces, or from --groups FILE.
    """


for _name in ("lint", "stats", "show", "write", "learn", "synthesise", "obfuscate", "convert"):
    command.add_command(Lazy(_name, "dimsweep.sweeper.cli.trace"))
