"""The commands doctor and check-plugin: check an installation, or a plug-in."""

import os
import shutil
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

_LEAST = 1 << 30  # bytes free on a disk, below which something will fail soon
_EXTRAS = {"torch": "search=gp", "s3fs": "results=s3://...", "polars": "Study.to_polars()"}


@click.command("doctor")
def doctor_command() -> int:
    """Print versions, cores, memory, disk space and the state of compiled code.

    The exit code is 1 if something is wrong that would end a sweep; a line says what, and what to
    do.

    \b
    Examples:
      dimsweep doctor
    """
    from dimsweep.sweeper.study.provenance import provenance
    from dimsweep.sweeper.versions import package_version

    now = provenance()
    click.echo(f"dimsweep {now.version} ({now.git or 'no git'}), Python {now.python}")
    click.echo(f"machine: {now.machine}{_memory()}")
    for package, what in now.packages.items():
        click.echo(f"  {package} {what}")
    for package, use in _EXTRAS.items():
        click.echo(f"  {package} {package_version(package)} (optional, for {use})")
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
    """Yield each problem that would end a sweep, with its remedy."""
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


@click.command("check-plugin")
@click.argument("plugins", metavar="PLUGIN...", nargs=-1, required=True)
def check_plugin_command(plugins: Sequence[str]) -> int:
    """Check what plug-ins register, in all fidelities.

    A PLUGIN is a Python file, a module that can be imported, or the folder of a package or of a
    project whose pyproject.toml names its plug-ins. All are loaded before the first check, so that
    they may use each other. Blocks, algorithms, generators of networks, transports, memories and
    models are held against what they say of themselves and against all fidelities that know them
    (engine.testing), samplers and objectives against a small search; options of configuration
    groups are composed. The exit code is 1 if something does not hold.

    \b
    Examples:
      dimsweep check-plugin examples/plugins/nvme.py
      dimsweep check-plugin exchange.py hypercube.py
      dimsweep check-plugin my_package.hypercube
      dimsweep check-plugin examples/package
    """
    from rich.console import Console

    from dimsweep.sweeper.plugins import load_plugins, loaded_plugins
    from dimsweep.sweeper.study.plugin_checks import find_fault
    from dimsweep.sweeper.terminal import make_table, print_line

    names = list(dict.fromkeys(name for plugin in plugins for name in _names(plugin)))
    load_plugins(names, anew=True)
    found = [each for each in loaded_plugins(names) if each.plugin.name in names]
    todo = [(r.what, name, r[name]) for each in found for r, name in each.entries]
    todo += [("option", option, each.plugin.name) for each in found for option in each.options]
    rows, wrong, console = list[tuple[str, ...]](), list[str](), Console()
    for what, name, thing in todo:
        start = time.perf_counter()
        verdict = find_fault(what, name, thing)
        words = {None: "registered; it has no check", "": "holds"}
        took = f"{time.perf_counter() - start:.1f} s"
        rows.append((what, name, words.get(verdict, "does not hold"), took))
        wrong += [f"{what} {name}: {verdict}"] if verdict else []
    console.print(make_table(("what", "name", "check", "took"), rows, left=3))
    for each in wrong:
        print_line(each, console)
    return 1 if wrong else 0


def _names(plugin: str) -> Iterator[str]:
    """Yield the names by which PLUGIN is loaded: if it is a folder, the names of its modules."""
    from dimsweep.engine import DimsweepError, accessing
    from dimsweep.sweeper.places import PLUGINS

    folder = Path(plugin).absolute()
    if not folder.is_dir():
        yield plugin
    elif (folder / "__init__.py").is_file():
        sys.path.insert(0, str(folder.parent))
        yield folder.name
    else:
        project = folder / "pyproject.toml"
        with accessing(project, "the folder is neither a package nor a project"):
            text = project.read_text("utf-8")
        try:
            named = tomllib.loads(text)["project"]["entry-points"][PLUGINS]
        except (KeyError, TypeError, ValueError):
            hint = f'[project.entry-points."{PLUGINS}"] names its plug-ins'
            raise DimsweepError(
                "no plug-ins are named", where=str(project), hint=hint, code="missing"
            ) from None
        sys.path[:0] = [str(folder), str(folder / "src")]
        yield from named.values()
