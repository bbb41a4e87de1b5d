"""dimsweep doctor: what this machine and installation have, and what is missing."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import click

_LEAST = 1 << 30  # bytes free on a disk, below which something will fail soon
_EXTRAS = {"torch": "search=gp", "s3fs": "results=s3://...", "polars": "Study.to_polars()"}


@click.command("doctor")
def command() -> int:
    """Tell versions, cores, memory, disk and what is compiled.

    The exit code is 1 if something is wrong that would end a sweep; a line says what, and what to
    do.

    \b
    Examples:
      dimsweep doctor
    """
    from dimsweep.sweeper.study.provenance import provenance
    from dimsweep.sweeper.versions import version_of

    now = provenance()
    click.echo(f"dimsweep {now.version} ({now.git or 'no git'}), Python {now.python}")
    click.echo(f"machine: {now.machine}{_memory()}")
    for package, what in now.packages.items():
        click.echo(f"  {package} {what}")
    for package, use in _EXTRAS.items():
        click.echo(f"  {package} {version_of(package)} (optional, for {use})")
    wrong = list(_problems())
    click.echo(f"kernel: {_kernel()}")
    for text in wrong:
        click.echo(f"wrong: {text}")
    if not wrong:
        click.echo("nothing is wrong")
    return 1 if wrong else 0


def _memory() -> str:
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # not on this system
        return ""
    return f", {free / 1e9:.1f} GB of memory free"


def _kernel() -> str:
    from dimsweep.engine import is_compiled

    return "compiled" if is_compiled() else "not compiled yet; the first run takes a minute longer"


def _problems() -> Iterator[str]:
    """What would end a sweep, and what to do."""
    for place, what in ((Path.cwd(), "results"), (Path("/dev/shm"), "Ray's shared memory")):
        if not place.exists():
            continue
        free = shutil.disk_usage(place).free
        click.echo(f"disk: {free / 1e9:.1f} GB free in {place}, for {what}")
        if free < _LEAST:
            yield f"{place} has less than 1 GiB free, for {what}: free some, or use another folder"
    if not os.access(Path.cwd(), os.W_OK):
        yield f"{Path.cwd()} cannot be written: go to another folder, or give results=FOLDER"
    try:
        import ray  # noqa: F401
    except ImportError as error:
        yield f"Ray cannot be imported ({error}): install it again, or use executor=inline"
