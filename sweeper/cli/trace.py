"""The commands of dimsweep trace: check, count, convert and draw Chakra execution traces."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from dimsweep.engine import DimsweepError, accessing, units
from dimsweep.engine.formats.chakra import (
    Scanned,
    TraceStats,
    read_trace,
    read_traces,
    scan_traces,
    trace_stats,
    write_chakra_workload,
    write_trace,
)
from dimsweep.engine.formats.chakra.lint import Finding, lint_job, repaired
from dimsweep.sweeper.cli.overrides import overrides
from dimsweep.sweeper.cli.simulate import simulate
from dimsweep.sweeper.cli.trace_files import Traces, find_traces, groups_option, source, write_keys
from dimsweep.sweeper.config.overrides import quote
from dimsweep.sweeper.output import write_file
from dimsweep.sweeper.terminal import format_count, make_table, print_line

if TYPE_CHECKING:
    from dimsweep.engine.formats.pytorch import Converted

REPORT = "repairs.txt"
_FINDINGS_SHOWN = 50
_GZIP = b"\x1f\x8b"


@click.command("lint")
@source
@groups_option
@click.option(
    "--repair", type=click.Path(path_type=Path), metavar="DIR", help="Write repaired traces here."
)
def lint_command(source: str, groups: str | None, repair: Path | None) -> int:
    """Find faults in traces, and repair some of them.

    Each finding names the file, the node, the byte and what would be right. The exit code is 1 if
    there is any. With --repair the job is written to DIR under the same names, with repairs.txt,
    which lists the repairs.

    \b
    Examples:
      dimsweep trace lint w
      dimsweep trace lint traces/ --repair repaired/
    """
    traces = find_traces(source, groups)
    scanned = scan_traces(traces.files)
    findings = lint_job(scanned, traces.group_ranks(), is_single=traces.alone)
    for finding in findings[:_FINDINGS_SHOWN]:
        print(finding)
    if len(findings) > _FINDINGS_SHOWN:
        print(f"... and {len(findings) - _FINDINGS_SHOWN:,} more")
    n_nodes = sum(len(one.trace.nodes) for one in scanned)
    said = format_count(len(findings), "finding") if findings else "no findings"
    print(f"{said} in {format_count(len(scanned), 'trace')} of {format_count(n_nodes, 'node')}")
    if repair is not None:
        print(write_repaired(traces, scanned, findings, repair))
    return 1 if findings else 0


def write_repaired(
    traces: Traces, scanned: Sequence[Scanned], findings: Sequence[Finding], folder: Path
) -> str:
    """Write the repaired traces of a job into ``folder``, with a report; return a summary.

    The names of files stay. Traces without a fault are copied.  A trace that is damaged, or still
    not a graph after the repairs, is left out, and the report says so.
    """
    if any(file.resolve().parent == folder.resolve() for file in traces.files):
        what = "the repaired traces would overwrite the given ones"
        raise DimsweepError(
            what, where=str(folder), hint="give --repair another folder", code="conflict"
        )
    lines = [f"{f.where}: {f.what}: {f.repair or f'not repaired; {f.fix}'}" for f in findings]
    left_out = 0
    with accessing(folder, "the repaired traces cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
        for one in scanned:
            file = one.places.path
            reason = _write_mended(one, folder / file.name)
            if reason:
                left_out += 1
                lines.append(f"{file}: not written: {reason}")
        if traces.groups is not None:
            shutil.copy(traces.groups, folder / f"{traces.name}.groups.json")
        (folder / REPORT).write_text("".join(f"{line}\n" for line in lines))
    left = f", {left_out} left out" if left_out else ""
    return f"{format_count(len(scanned) - left_out, 'trace')} in {folder}{left}; {REPORT} says why"


def _write_mended(one: Scanned, target: Path) -> str:
    """Write a repaired trace; return "" or the reason why it cannot be written."""
    if one.fault is not None:
        return one.fault.problem
    mended, file = repaired(one.trace), one.places.path
    try:
        if mended is one.trace:
            read_trace(file)
            shutil.copy(file, target)
        else:
            write_trace(target, mended, compress=file.read_bytes().startswith(_GZIP))
    except DimsweepError as error:
        return error.problem
    return ""


_RANKS_SHOWN = 4
_MICROSECOND = units.PICOSECONDS // 10**6


@click.command("stats")
@source
@groups_option
def stats_command(source: str, groups: str | None) -> int:
    """Count the nodes, the work and the bytes of each class of ranks.

    Ranks with the same totals are a class.

    \b
    Example:
      dimsweep trace stats w
    """
    traces, console = find_traces(source, groups), Console()
    classes = trace_stats(read_traces(traces.files), traces.group_ranks())
    n_ranks, n_classes = (
        format_count(len(traces.files), "trace"),
        format_count(len(classes), "class"),
    )
    print_line(f"{traces.name}: {n_ranks}, {n_classes} of ranks", console)
    for stats, ranks in classes:
        name = "the trace" if traces.alone else _name_ranks(ranks)
        console.print(make_table((name, "nodes", "amount", "recorded duration"), _rows(stats)))
    return 0


def _name_ranks(ranks: Sequence[int]) -> str:
    """Return the numbers of ranks as a short text."""
    some = ", ".join(map(str, ranks[:_RANKS_SHOWN]))
    more = f" and {len(ranks) - _RANKS_SHOWN:,} more" if len(ranks) > _RANKS_SHOWN else ""
    return f"{'ranks' if len(ranks) > 1 else 'rank'} {some}{more}"


def _rows(stats: TraceStats) -> Iterator[tuple[str, ...]]:
    for type_, count in stats.nodes.items():
        micros = stats.micros.get(type_, 0)
        duration = units.format_time(micros * _MICROSECOND) if micros else ""
        yield type_.name, f"{count:,}", "", duration
    yield "operations", "", f"{stats.flops:,} FLOP"
    yield "memory traffic", "", f"{stats.n_bytes:,} B"
    for item in stats.collectives:
        yield f"{item.kind} over {item.group}", f"{item.n_nodes:,}", f"{item.n_bytes:,} B"
    yield "all collectives", "", f"{stats.collective_bytes:,} B"
    if stats.sent:
        yield "messages sent", "", f"{stats.sent:,} B"
    yield "longest chain of dependencies", f"{stats.path:,}"


@click.command("show")
@source
@overrides
@groups_option
@click.option("--rank", default=0, metavar="N", help="The rank to draw.", show_default=True)
@click.option(
    "--picture", metavar="FILE", help="Draw the rank's graph into this .png, .svg or .pdf."
)
@click.option("--timeline", metavar="FILE", help="Simulate all traces, for ui.perfetto.dev.")
def show_command(
    source: str,
    overrides: Sequence[str],
    groups: str | None,
    rank: int,
    picture: str | None,
    timeline: str | None,
) -> int:
    """Draw the graph of a rank, or simulate the traces for a timeline.

    The timeline is of a simulation on the cluster that the overrides name, by dimsweep's own model.

    \b
    Examples:
      dimsweep trace show w --picture w.png --rank 3
      dimsweep trace show w --timeline run.json topology=libra_3d
    """
    traces, console = find_traces(source, groups), Console()
    if picture is None and timeline is None:
        raise click.UsageError("Give --picture FILE, --timeline FILE or both.")
    if picture is not None:
        from dimsweep.sweeper.draw.canvas import kind_of
        from dimsweep.sweeper.draw.trace import draw_trace

        if not 0 <= rank < len(traces.files):
            ranks = f"the traces are of ranks 0 to {len(traces.files) - 1:,}"
            raise DimsweepError(
                f"unknown rank {rank}; {ranks}", where="--rank", code="out-of-range"
            )
        file = traces.files[rank]
        kind = kind_of(picture, "--picture")
        write_file(picture, "the picture", draw_trace(read_trace(file), file.name, kind))
        print_line(f"picture: {picture}", console)
    if timeline is not None:
        words = [*_as_workload(traces), f"timeline={quote(timeline)}", *overrides]
        simulate(words, console)
    return 0


def _as_workload(traces: Traces) -> list[str]:
    """Return overrides that choose the traces as the workload of a configuration."""
    source = str(traces.files[0])
    if not traces.alone:
        source = source.removesuffix(".0.et")
    groups = [] if traces.groups is None else [f"workload.groups={quote(str(traces.groups))}"]
    return ["workload=chakra", f"workload.traces={quote(source)}", *groups]


@click.command("write")
@click.argument("target")
@overrides
@click.option("--keys", default="", metavar="KEY,...", help="Note these in TARGET.keys.json.")
def write_command(target: str, overrides: Sequence[str], keys: str) -> int:
    """Write the workload of a configuration as traces.

    TARGET is a prefix, for a file TARGET.<rank>.et for each rank; or it ends in .et, for one file
    of a workload whose ranks are all alike. A simulation of the traces takes as long as one of the
    workload itself. --keys notes the job's parameters, which `dimsweep trace learn` needs.

    \b
    Examples:
      dimsweep trace write w workload=gpt3_libra topology=libra_3d
      dimsweep trace write one.et workload=resnet50_libra
    """
    print(write_workload(target, overrides, keys.split(",") if keys else ()))
    return 0


def write_workload(target: str, overrides: Sequence[str], keys: Sequence[str] = ()) -> str:
    """Write the traces of a configuration's workload; return a text on the written files."""
    from dimsweep.sweeper.config.compose import compose
    from dimsweep.sweeper.simulation.program import build_cluster, build_workload

    composed = compose(overrides)
    config = composed.config
    with composed.adding_sources():
        cluster = build_cluster(config)
        workload = build_workload(config, cluster)
    if keys:
        write_keys(target, config, keys)
    groups = write_chakra_workload(workload, cluster, Path(target))
    if target.endswith(".et"):
        return f"one trace for all {cluster.topology.n_npus:,} ranks: {target}"
    groups_text = f", groups: {groups}" if groups else ""
    return f"{cluster.topology.n_npus:,} traces: {target}.<rank>.et{groups_text}"


_ENDINGS = {"protobuf": "et", "gzip": "et", "json": "json"}


@click.command("convert")
@source
@click.argument("target")
@overrides
@click.option("--to", type=click.Choice(list(_ENDINGS)), help="The form of the new traces.")
@click.option("--kineto", metavar="PROFILE", help="PyTorch's profile of the same run.")
def convert_command(
    source: str, target: str, overrides: Sequence[str], to: str | None, kineto: str | None
) -> int:
    """Write traces in another form, or from PyTorch or ASTRA-sim 1.0.

    SOURCE is traces in any form, PyTorch's execution traces (with --kineto, their profiles), or
    ASTRA-sim 1.0 text (a .txt file of layers; the overrides name the cluster that it runs on).
    TARGET is a file if SOURCE is one, or else a prefix.

    \b
    Examples:
      dimsweep trace convert w j --to json
      dimsweep trace convert et.json w.et --kineto profile.json
      dimsweep trace convert layers.txt w topology=libra_3d
    """
    print(convert(source, target, to, kineto, overrides))
    return 0


def convert(
    source: str, target: str, to: str | None, kineto: str | None, overrides: Sequence[str]
) -> str:
    """Convert traces to another format; return a text on the written files."""
    from dimsweep.engine.formats.pytorch import convert_traces, is_execution_trace

    if source.endswith(".txt"):
        layers = ["workload=astra1_text", f"workload.file={quote(source)}"]
        return write_workload(target, [*layers, *overrides])
    if overrides:
        what = "only layers (a .txt file) need a configuration; traces take no KEY=VALUE"
        raise DimsweepError(what, where=overrides[0], code="conflict")
    traces = find_traces(source)
    files = _targets(traces, target, to)
    compress = to == "gzip" or target.endswith(".gz")
    said = ""
    if is_execution_trace(traces.files[0]):
        profiles = find_traces(kineto).files if kineto else []
        converted = convert_traces(traces.files, profiles)
        contents = converted.traces
        said = _describe_converted(converted, kineto) + _write_groups(converted.groups, target)
    elif kineto:
        what = "not a PyTorch execution trace, so --kineto does not apply"
        hint = "SOURCE is what ExecutionTraceObserver recorded of the same run as the profile"
        raise DimsweepError(what, where=source, hint=hint, code="mismatch")
    else:
        contents = read_traces(traces.files)
    for file, content in zip(files, contents, strict=True):
        write_trace(file, content, compress=compress)
    n_nodes = sum(len(content.nodes) for content in contents)
    ranks = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return f"{files[0]}{ranks}: {n_nodes:,} nodes{said}"


def _targets(traces: Traces, target: str, to: str | None) -> list[Path]:
    is_json = target.removesuffix(".gz").endswith(".json")
    if traces.alone:
        if to is not None and is_json != (to == "json"):
            what = f"--to {to} needs a target that ends in .{_ENDINGS[to]}"
            raise DimsweepError(what, where=target, code="mismatch")
        files = [Path(target)]
    else:
        files = [
            Path(f"{target}.{k}.{_ENDINGS[to or 'protobuf']}") for k in range(len(traces.files))
        ]
    for file, old in zip(files, traces.files, strict=True):
        if file.resolve() == old.resolve():
            raise DimsweepError(
                "this would overwrite the source trace", where=str(file), code="conflict"
            )
    return files


def _describe_converted(converted: "Converted", kineto: str | None) -> str:
    if kineto is None:
        return "; without a profile (--kineto) nothing takes time"
    left = converted.n_left_out
    kernels = f"; {converted.n_kernels - left:,} kernels"
    return kernels + (f", {left:,} that no operator here launched left out" if left else "")


def _write_groups(groups: dict[str, list[int]], target: str) -> str:
    if not groups:
        return ""
    file = f"{target.removesuffix('.et')}.groups.json"
    return f"; groups: {write_file(file, 'the groups', json.dumps(groups).encode())}"
