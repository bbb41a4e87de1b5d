"""dimsweep trace: what is wrong with Chakra traces, what they hold, how they look, other forms."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from engine import DimsweepError
from engine.formats.chakra import read_traces, scan_traces
from engine.formats.chakra.lint import lint_job
from sweeper.cli.trace_files import counted, find_traces

_FINDINGS_SHOWN = 50
_USAGE = """\
dimsweep trace: Chakra execution traces

  dimsweep trace lint SOURCE [--repair DIR]     what is wrong; exit code 1 if anything is
  dimsweep trace stats SOURCE                   nodes, work and bytes, for each class of ranks
  dimsweep trace show SOURCE --picture FILE     the graph of a rank (--rank N) as a PNG
  dimsweep trace show SOURCE --timeline FILE [KEY=VALUE ...]
                                                simulate it, for ui.perfetto.dev
  dimsweep trace write TARGET [KEY=VALUE ...]   a workload of dimsweep's as traces
  dimsweep trace convert SOURCE TARGET [--to protobuf|gzip|json]
  dimsweep trace convert ET TARGET [--kineto PROFILE]       PyTorch's execution traces
  dimsweep trace convert LAYERS.txt TARGET [KEY=VALUE ...]  ASTRA-sim 1.0 text

SOURCE is a file, a folder, or the PREFIX of PREFIX.<rank>.et.  Communicator groups are read from
PREFIX.groups.json beside the traces, or from --groups FILE.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise DimsweepError(message, where=self.prog, hint="dimsweep trace --help")


def trace(words: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    if not words or {"-h", "--help"} & set(words):
        print(_USAGE, end="")
        return 0 if words else 2
    command = _COMMANDS.get(words[0])
    if command is None:
        raise DimsweepError(
            f"unknown command {words[0]!r}",
            where="dimsweep trace",
            hint=f"commands: {', '.join(_COMMANDS)}",
        )
    parser = _Parser(prog=f"dimsweep trace {words[0]}", add_help=False, allow_abbrev=False)
    return command(parser, words[1:])


def _lint(parser: _Parser, words: Sequence[str]) -> int:
    parser.add_argument("source")
    parser.add_argument("--groups")
    parser.add_argument("--repair", type=Path)
    given = parser.parse_args(words)
    traces = find_traces(given.source, given.groups)
    scanned = scan_traces(traces.files)
    findings = lint_job(scanned, traces.group_ranks(), alone=traces.alone)
    for finding in findings[:_FINDINGS_SHOWN]:
        print(finding)
    if len(findings) > _FINDINGS_SHOWN:
        print(f"... and {len(findings) - _FINDINGS_SHOWN:,} more")
    n_nodes = sum(len(one.trace.nodes) for one in scanned)
    said = counted(len(findings), "finding") if findings else "no findings"
    print(f"{said} in {counted(len(scanned), 'trace')} of {counted(n_nodes, 'node')}")
    if given.repair is not None:
        from sweeper.cli.trace_repair import repair

        print(repair(traces, scanned, findings, given.repair))
    return 1 if findings else 0


def _stats(parser: _Parser, words: Sequence[str]) -> int:
    from engine.formats.chakra import trace_stats
    from sweeper.cli.trace_stats import print_stats

    parser.add_argument("source")
    parser.add_argument("--groups")
    given = parser.parse_args(words)
    traces = find_traces(given.source, given.groups)
    classes = trace_stats(read_traces(traces.files), traces.group_ranks())
    print_stats(traces, classes, Console())
    return 0


def _show(parser: _Parser, words: Sequence[str]) -> int:
    parser.add_argument("source")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--groups")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--timeline")
    given = parser.parse_intermixed_args(words)
    traces = find_traces(given.source, given.groups)
    if given.picture is None and given.timeline is None:
        parser.error("give --picture FILE, --timeline FILE or both")
    if given.picture is not None:
        from sweeper.draw.trace import draw_trace

        if not 0 <= given.rank < len(traces.files):
            what = f"there is no rank {given.rank}; traces: {len(traces.files)}"
            raise DimsweepError(what, where="--rank")
        file = traces.files[given.rank]
        _write(given.picture, draw_trace(read_traces([file])[0], file.name))
        print(f"picture: {given.picture}")
    if given.timeline is not None:
        from sweeper.cli.trace_convert import timeline

        return timeline(traces, given.timeline, given.overrides)
    return 0


def _convert(parser: _Parser, words: Sequence[str]) -> int:
    from sweeper.cli.trace_convert import convert

    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--to", choices=("protobuf", "gzip", "json"))
    parser.add_argument("--kineto")
    given = parser.parse_intermixed_args(words)
    print(convert(given.source, given.target, given.to, given.kineto, given.overrides))
    return 0


def _write_workload(parser: _Parser, words: Sequence[str]) -> int:
    from sweeper.cli.trace_convert import write_workload

    parser.add_argument("target")
    parser.add_argument("overrides", nargs="*")
    given = parser.parse_args(words)
    print(write_workload(given.target, given.overrides))
    return 0


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        what = f"the picture cannot be written: {error.strerror}"
        raise DimsweepError(what, where=str(file)) from error


_COMMANDS: dict[str, Callable[[_Parser, Sequence[str]], int]] = {
    "lint": _lint,
    "stats": _stats,
    "show": _show,
    "write": _write_workload,
    "convert": _convert,
}
