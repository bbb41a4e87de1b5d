"""The entry point of the command line: registers the commands, and prints errors."""

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

import click

from dimsweep.sweeper.cli.lazy import Commands, Lazy
from dimsweep.sweeper.offers import find_offers


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="dimsweep", message="%(prog)s %(version)s")
def dimsweep() -> None:
    """Design a training cluster's network, with proof and measured certainty.

    KEY=VALUE arguments are Hydra overrides. Every key that `dimsweep show` prints can be set:

    \b
      dimsweep simulate workload=msft1t_libra topology=libra_3d cost=libra_3d
      dimsweep sweep study=libra_gpt3_4d search=cmaes name=my_cmaes

    Quantities need a unit: 200 GB/s (10^9 bytes), 200 GiB/s (2^30 bytes), 1.6 Tb/s (bits), 500 ns,
    64 MB. Your own files in ./conf and ./studies are found before the installed ones.

    `dimsweep COMMAND --help` explains a command and shows examples.
    """


_ROOM = "dimsweep.sweeper.cli"
assert isinstance(dimsweep, Commands)
dimsweep.add_lazily(
    _ROOM,
    *("simulate", "bill", "configuration.new", "sweep", "report"),
    *("results.board", "results.reproduce", "results.compare", "results.diff", "results.export"),
    *("sql", "configuration.list", "configuration.show", "calibrate.measure", "calibrate"),
)
for _name, _target in find_offers("command").items():
    if " " not in _name:
        dimsweep.add_command(Lazy(_name, _target))

dimsweep.add_lazily(_ROOM, "main.trace", "doctor.check-plugin", "doctor", "completion")
dimsweep.add_command(
    Lazy("complete-words", f"{_ROOM}.completion:complete_words_command", hidden=True)
)


@click.group("trace", cls=Commands)
def trace_command() -> None:
    """Check, count, draw, simulate, write and convert Chakra traces.

    SOURCE is a file, a folder, or the PREFIX of PREFIX.<rank>.et. Communicator groups are read from
    PREFIX.groups.json next to the traces, or from --groups FILE.
    """


assert isinstance(trace_command, Commands)
trace_command.path = "trace"
trace_command.add_lazily(_ROOM, "trace.lint", "trace.stats", "trace.show", "trace.write")
for _name, _target in find_offers("command").items():
    if _name.startswith("trace "):
        trace_command.add_command(Lazy(_name.removeprefix("trace "), _target))
trace_command.add_lazily(_ROOM, "trace.convert")


@dimsweep.command("help", hidden=True)
@click.pass_context
def _help(context: click.Context) -> None:
    click.echo(dimsweep.get_help(context.find_root()))


CLOSED_PIPE = 128 + 13  # the exit code where nobody reads on, as of a process that SIGPIPE ends
DEFECT = 70  # the exit code of a defect of ours: EX_SOFTWARE of sysexits.h


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code.

    A user's error is printed without a traceback. A defect of dimsweep is printed with a traceback
    and with what to report.
    """
    screen = sys.stdout
    try:
        code = _run(arguments)
        sys.stdout.flush()  # a pipe that is closed is found now, and not when Python ends
        return code
    except BrokenPipeError:
        return _leave_pipe()
    except SystemExit as end:
        # Rich and Click have caught it; Click has also put another stream before ours.
        if isinstance(end.__context__, BrokenPipeError) or sys.stdout is not screen:
            return _leave_pipe()
        raise


def _leave_pipe() -> int:
    """Drop unprinted output after a closed pipe.

    Return the exit code of a process ended by SIGPIPE.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a notebook's or a test's has no descriptor
            os.dup2(nowhere, stream.fileno())
    return CLOSED_PIPE


def _run(arguments: Sequence[str] | None) -> int:
    try:
        return dimsweep.main(arguments, prog_name="dimsweep", standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "dimsweep"
        return _print_error(f"{error.format_message()}{_as_key(error)}\n  see: {command} --help")
    except click.Abort:
        click.echo("stopped", err=True)
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:
        from dimsweep.engine import DimsweepError

        if isinstance(error, OSError) and error.strerror:
            return _print_error(f"{error.filename or 'a file'}: {error.strerror}")
        if isinstance(error, DimsweepError):
            return _print_error(str(error))
        if isinstance(error, MemoryError):
            return _print_error(f"there is not enough memory: {error}".rstrip(": "))
        return _print_defect(error)


def _as_key(error: click.UsageError) -> str:
    """Return the text "Did you mean KEY=VALUE?" for an unknown option like a key; else ""."""
    from dimsweep.sweeper.places import list_groups

    name = error.option_name.lstrip("-") if isinstance(error, click.NoSuchOption) else ""
    keys = {"nodes": "16", "fidelity": "message", **dict.fromkeys(list_groups(), "NAME")}
    return f" Did you mean {name}={keys[name]}?" if name in keys else ""


def _print_error(message: str) -> int:
    click.echo(f"error: {message}", err=True)
    return 1


def _print_defect(error: Exception) -> int:
    from dimsweep.sweeper.plugins import find_plugin_error
    from dimsweep.sweeper.versions import describe_versions

    traceback.print_exception(error)
    if of_plugin := find_plugin_error(error):
        return _print_error(str(of_plugin))
    _print_error(
        "this is a defect of dimsweep or of a library that it uses, not of your input; please "
        f"report it with the lines above and: {describe_versions()}"
    )
    return DEFECT
