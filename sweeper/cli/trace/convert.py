"""dimsweep trace convert: traces in another form, or from another tool's files."""

import json
from collections.abc import Sequence
from pathlib import Path

import click

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats.chakra import read_traces, write_trace
from dimsweep.engine.formats.pytorch import Converted, convert_traces, is_execution_trace
from dimsweep.sweeper.cli.overrides import overrides
from dimsweep.sweeper.cli.trace.files import Traces, find_traces, source
from dimsweep.sweeper.cli.trace.write import write_workload
from dimsweep.sweeper.config.overrides import quoted
from dimsweep.sweeper.output import write_file

_ENDINGS = {"protobuf": "et", "gzip": "et", "json": "json"}


@click.command("convert")
@source
@click.argument("target")
@overrides
@click.option("--to", type=click.Choice(list(_ENDINGS)), help="The form of the new traces.")
@click.option("--kineto", metavar="PROFILE", help="PyTorch's profile of the same run.")
def command(
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
    """Write traces in another form; returns what was written."""
    if source.endswith(".txt"):
        layers = ["workload=astra1_text", f"workload.file={quoted(source)}"]
        return write_workload(target, [*layers, *overrides])
    if overrides:
        what = "only layers (a .txt file) need a configuration; traces take no KEY=VALUE"
        raise DimsweepError(what, where=overrides[0])
    traces = find_traces(source)
    files = _targets(traces, target, to)
    compress = to == "gzip" or target.endswith(".gz")
    said = ""
    if is_execution_trace(traces.files[0]):
        profiles = find_traces(kineto).files if kineto else []
        converted = convert_traces(traces.files, profiles)
        contents = converted.traces
        said = _said(converted, kineto) + _write_groups(converted.groups, target)
    elif kineto:
        what = "this is no PyTorch execution trace, so no profile goes with it"
        hint = "SOURCE is what ExecutionTraceObserver recorded of the same run as the profile"
        raise DimsweepError(what, where=source, hint=hint)
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
            raise DimsweepError(what, where=target)
        files = [Path(target)]
    else:
        files = [
            Path(f"{target}.{k}.{_ENDINGS[to or 'protobuf']}") for k in range(len(traces.files))
        ]
    for file, old in zip(files, traces.files, strict=True):
        if file.resolve() == old.resolve():
            raise DimsweepError("it would overwrite the trace it is made from", where=str(file))
    return files


def _said(converted: Converted, kineto: str | None) -> str:
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
