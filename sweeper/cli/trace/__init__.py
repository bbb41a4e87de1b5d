"""dimsweep trace: Chakra execution traces, a file for each command."""

import click

from dimsweep.sweeper.cli.lazy import Commands, Lazy


@click.group("trace", cls=Commands)
def command() -> None:
    """Check, count, draw, simulate, write and convert Chakra traces.

    SOURCE is a file, a folder, or the PREFIX of PREFIX.<rank>.et. Communicator groups are read from
    PREFIX.groups.json beside the traces, or from --groups FILE.
    """


for _name, _what in {
    "lint": "Find what is wrong in traces, and repair what can be repaired.",
    "stats": "Count the nodes, the work and the bytes of each class of ranks.",
    "show": "Draw the graph of a rank, or simulate the traces for a timeline.",
    "write": "Write the workload of a configuration as traces.",
    "learn": "Learn what the traces of a family of jobs have in common.",
    "synthesise": "Write the traces of a job for other keys than those that were learnt from.",
    "obfuscate": "Write traces without names, and with other sizes and durations.",
    "convert": "Write traces in another form, or from PyTorch or ASTRA-sim 1.0.",
}.items():
    command.add_command(Lazy(_name, _what, "dimsweep.sweeper.cli.trace"))
