"""dimsweep trace write and convert: traces of workloads, and traces in other forms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from engine import DimsweepError
from engine.formats.chakra import read_traces, write_chakra_workload, write_trace
from engine.formats.pytorch import Converted, convert_traces, is_execution_trace
from sweeper.cli.trace_files import Traces, find_traces

_ENDINGS = {"protobuf": "et", "gzip": "et", "json": "json"}


def write_workload(target: str, overrides: Sequence[str]) -> str:
    """Write the traces of a configuration's workload; returns what was written."""
    from sweeper.build.program import build_cluster, build_workload
    from sweeper.config.compose import compose, plain

    composed = compose(list(overrides))
    config = plain(composed.config)
    try:
        cluster = build_cluster(config)
        workload = build_workload(config, cluster)
    except DimsweepError as error:
        raise composed.blame(error) from error.__cause__
    groups = write_chakra_workload(workload, cluster, Path(target))
    if target.endswith(".et"):
        return f"one trace for all {cluster.topology.n_npus:,} ranks: {target}"
    beside = f", groups: {groups}" if groups else ""
    return f"{cluster.topology.n_npus:,} traces: {target}.<rank>.et{beside}"


def timeline(traces: Traces, file: str, overrides: Sequence[str]) -> int:
    """Simulate traces on dimsweep's own model, and write when everything happens.

    Returns the exit code.
    """
    from sweeper.cli.main import main

    source = str(traces.files[0])
    if not traces.alone:
        source = source.removesuffix(".0.et")
    words = ["workload=chakra", f"workload.traces={_quoted(source)}"]
    if traces.groups is not None:
        words.append(f"workload.groups={_quoted(str(traces.groups))}")
    return main(["simulate", *words, f"timeline={_quoted(file)}", *overrides])


def _quoted(text: str) -> str:
    """As a value of an override, whatever is in it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def convert(
    source: str, target: str, to: str | None, kineto: str | None, overrides: Sequence[str]
) -> str:
    """Write traces in another form; returns what was written."""
    if source.endswith(".txt"):
        words = ["workload=astra1_text", f"workload.file={_quoted(source)}", *overrides]
        return write_workload(target, words)
    if overrides:
        what = f"{overrides[0]!r}: only layers (a .txt file) need a configuration"
        raise DimsweepError(what, where="dimsweep trace convert")
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
        raise DimsweepError(what, where=source)
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
    file = Path(f"{target.removesuffix('.et')}.groups.json")
    try:
        file.write_text(json.dumps(groups))
    except OSError as error:
        what = f"the groups cannot be written: {error.strerror}"
        raise DimsweepError(what, where=str(file)) from error
    return f"; groups: {file}"
