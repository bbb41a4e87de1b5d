"""dimsweep trace lint --repair: the same job with what can safely be mended."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from engine import DimsweepError
from engine.formats.chakra import Scanned, read_traces, write_trace
from engine.formats.chakra.lint import Finding, repaired
from sweeper.cli.trace_files import Traces, counted

REPORT = "repairs.txt"
_GZIP = b"\x1f\x8b"


def repair(
    traces: Traces,
    scanned: Sequence[Scanned],
    findings: Sequence[Finding],
    folder: Path,
) -> str:
    """Write the job into ``folder``, under the same names, with a report; returns what was done.

    Traces without a fault are copied.  A trace that is damaged, or still no graph after the
    repairs, is left out, and the report says so.
    """
    if any(file.resolve().parent == folder.resolve() for file in traces.files):
        what = "the repaired traces would overwrite the ones given"
        raise DimsweepError(what, where=str(folder), hint="another folder")
    lines = [f"{f.where}: {f.what}: {f.repair or f'not repaired; {f.fix}'}" for f in findings]
    left_out = 0
    try:
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
    except OSError as error:
        what = f"the repaired traces cannot be written: {error.strerror}"
        raise DimsweepError(what, where=str(folder)) from error
    left = f", {left_out} left out" if left_out else ""
    return f"{counted(len(scanned) - left_out, 'trace')} in {folder}{left}; {REPORT} says why"


def _write(one: Scanned, target: Path) -> str:
    """Write a trace; or why not."""
    if one.fault is not None:
        return one.fault.what
    mended, file = repaired(one.trace), one.places.path
    try:
        if mended is one.trace:
            read_traces([file])
            shutil.copy(file, target)
        else:
            write_trace(target, mended, compress=file.read_bytes().startswith(_GZIP))
    except DimsweepError as error:
        return error.what
    return ""
