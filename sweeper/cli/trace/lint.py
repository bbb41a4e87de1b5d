"""dimsweep trace lint: what is wrong in traces; and the same job with what can be repaired."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from dimsweep.engine import DimsweepError, accessing
from dimsweep.engine.formats.chakra import Scanned, read_trace, scan_traces, write_trace
from dimsweep.engine.formats.chakra.lint import Finding, lint_job, repaired
from dimsweep.sweeper.cli.trace.files import Traces, find_traces, groups_option, source
from dimsweep.sweeper.terminal import plural

REPORT = "repairs.txt"
_SHOWN = 50
_GZIP = b"\x1f\x8b"


@click.command("lint")
@source
@groups_option
@click.option(
    "--repair", type=click.Path(path_type=Path), metavar="DIR", help="Write repaired traces here."
)
def command(source: str, groups: str | None, repair: Path | None) -> int:
    """Find what is wrong in traces, and repair what can be repaired.

    Each finding names the file, the node, the byte and what would be right. The exit code is 1 if
    there is any. With --repair the job is written to DIR under the same names, with repairs.txt,
    which says what was done.

    \b
    Examples:
      dimsweep trace lint w
      dimsweep trace lint traces/ --repair repaired/
    """
    traces = find_traces(source, groups)
    scanned = scan_traces(traces.files)
    findings = lint_job(scanned, traces.group_ranks(), alone=traces.alone)
    for finding in findings[:_SHOWN]:
        print(finding)
    if len(findings) > _SHOWN:
        print(f"... and {len(findings) - _SHOWN:,} more")
    n_nodes = sum(len(one.trace.nodes) for one in scanned)
    said = plural(len(findings), "finding") if findings else "no findings"
    print(f"{said} in {plural(len(scanned), 'trace')} of {plural(n_nodes, 'node')}")
    if repair is not None:
        print(write_repaired(traces, scanned, findings, repair))
    return 1 if findings else 0


def write_repaired(
    traces: Traces, scanned: Sequence[Scanned], findings: Sequence[Finding], folder: Path
) -> str:
    """Write the job into ``folder``, under the same names, with a report; returns what was done.

    Traces without a fault are copied.  A trace that is damaged, or still no graph after the
    repairs, is left out, and the report says so.
    """
    if any(file.resolve().parent == folder.resolve() for file in traces.files):
        what = "the repaired traces would overwrite the ones given"
        raise DimsweepError(what, where=str(folder), hint="give --repair another folder")
    lines = [f"{f.where}: {f.what}: {f.repair or f'not repaired; {f.fix}'}" for f in findings]
    left_out = 0
    with accessing(folder, "the repaired traces cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        for one in scanned:
            file = one.places.path
            reason = _write(one, folder / file.name)
            if reason:
                left_out += 1
                lines.append(f"{file}: not written: {reason}")
        if traces.groups is not None:
            shutil.copy(traces.groups, folder / f"{traces.name}.groups.json")
        (folder / REPORT).write_text("".join(f"{line}\n" for line in lines))
    left = f", {left_out} left out" if left_out else ""
    return f"{plural(len(scanned) - left_out, 'trace')} in {folder}{left}; {REPORT} says why"


def _write(one: Scanned, target: Path) -> str:
    """Write a trace; or why not."""
    if one.fault is not None:
        return one.fault.what
    mended, file = repaired(one.trace), one.places.path
    try:
        if mended is one.trace:
            read_trace(file)
            shutil.copy(file, target)
        else:
            write_trace(target, mended, compress=file.read_bytes().startswith(_GZIP))
    except DimsweepError as error:
        return error.what
    return ""
