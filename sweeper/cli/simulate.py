"""dimsweep simulate: one iteration, and the account of its time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from engine import DimsweepError, Path, Result, run_one, units
from engine.kernels.message import MessageRun, run_messages
from sweeper.build.program import build_program
from sweeper.cli.output import write_file
from sweeper.cli.overrides import overrides
from sweeper.config.compose import compose
from sweeper.config.schema import Config
from sweeper.study.rules import design_warnings
from sweeper.terminal import plural, say, say_warnings, table, waiting

_LINKS_SHOWN = 5


@click.command("simulate")
@overrides
def command(overrides: Sequence[str]) -> int:
    """Simulate one training iteration and account for its time.

    The terminal shows where the time goes: compute, exposed communication of each collective and
    dimension, the critical path, and what more bandwidth in each dimension would save. Without
    overrides the defaults of conf/dimsweep.yaml are simulated.

    \b
    Usual keys:
      workload=NAME topology=NAME npu=NAME   presets; `dimsweep list` shows them
      topology.shape, topology.bandwidth     the network, such as Ring(4)_Switch(8) at 100 GB/s
      workload.parallel.tensor               the degree of an axis of the parallel plan
      collective.chunks, collective.order    how collectives are split and ordered
      fidelity=message                       simulate every message on every link (slower)
      timeline=FILE                          write what happens when, for ui.perfetto.dev
      picture=FILE                           draw the links and their load (fidelity=message)

    \b
    Examples:
      dimsweep simulate workload=msft1t_libra topology=libra_3d cost=libra_3d
      dimsweep simulate 'topology.bandwidth=[300 GB/s,120 GB/s,60 GB/s,20 GB/s]'
      dimsweep simulate workload=gpt3_175b topology=dgx_a100 collective=nccl npu=h100
    """
    simulate(overrides, Console())
    return 0


def simulate(overrides: Sequence[str], console: Console) -> None:
    """Simulate the configuration that ``overrides`` make, print its account and write its files."""
    composed = compose(overrides)
    config = composed.config
    try:
        by_message = config.by_message
        if config.picture is not None and not by_message:
            raise DimsweepError(
                "a picture shows single links, which only the message kernel has",
                where="picture",
                hint="add fidelity=message, or leave picture out",
            )
        program = build_program(config)
        say_warnings(
            design_warnings(composed, program, composed.overridden, searched=False), console
        )
        run = run_messages if by_message else run_one
        with waiting(f"simulating {'every message' if by_message else 'the phases'}", console):
            result = Result(run(program, record=config.timeline is not None))
    except DimsweepError as error:
        raise composed.blame(error) from error.__cause__
    print_result(result, config, console)
    if config.timeline is not None:
        content = json.dumps(result.timeline()).encode()
        file = write_file(config.timeline, "the timeline", content)
        say(f"timeline: {file} (open it at ui.perfetto.dev)", console)
    if config.picture is not None:
        from sweeper.draw.network import draw_network

        title = f"{config.workload.name} on {result.program.cluster.topology.name}"
        file = write_file(config.picture, "the picture", draw_network(result, title))
        say(f"picture: {file}", console)


def print_result(result: Result, config: Config, console: Console) -> None:
    """Print where the time of an iteration goes and what each dimension carries."""
    name = f"{config.workload.name} on {result.program.cluster.topology.name}"
    say(f"{name}, {_size(result)}", console)
    console.print(table(("", "", ""), _summary(result)))
    console.print(_dimensions(result))
    if result.breakdown.path is not None and result.breakdown.per_bandwidth is not None:
        console.print(_critical_path(result, result.breakdown.path, result.breakdown.per_bandwidth))
    if result.links:
        console.print(_busiest_links(result))


def _size(result: Result) -> str:
    n_npus = f"{result.program.n_npus:,} NPUs"
    if isinstance(result.run, MessageRun):
        return f"{n_npus}, {len(result.run.links):,} links, {result.run.n_messages:,} messages"
    return f"{n_npus} in {plural(len(result.program.names.class_count), 'class')}"


def _summary(result: Result) -> Iterator[tuple[str, str, str]]:
    """What the time is made of: names, amounts, and shares of the whole."""

    def line(name: str, seconds: float) -> tuple[str, str, str]:
        share = f"{seconds / result.time:.1%}" if result.time else ""
        return name, units.format_time(seconds * units.PICOSECONDS), share

    yield line("iteration", result.time)
    yield line("  compute", result.compute)
    yield line("  exposed communication", result.exposed)
    for name, seconds in result.exposed_by_collective.items():
        if seconds:
            yield line(f"    {name}", seconds)
    if result.exposed_by_dim["waiting"]:
        remote = result.program.structure.shape.memory_stream
        what = "waiting for other ranks" if not remote else "with no dimension in use"
        yield line(f"  {what}", result.exposed_by_dim["waiting"])
    memory = result.program.workload.footprint
    if memory is not None:
        yield "memory of the fullest NPU", units.format_bytes(memory.total), memory.peak
        if memory.remote:
            yield "  and remote memory", units.format_bytes(memory.remote), ""
    if result.cost is not None:
        yield "network cost", units.format_money(result.cost), ""
    if result.perf_per_cost is not None:
        efficiency = units.format_performance_per_cost(result.perf_per_cost)
        yield "performance per cost", efficiency, ""


def _dimensions(result: Result) -> Table:
    """What each dimension carries, and how long communication over it is exposed."""
    program, row = result.program, result.breakdown
    return table(
        ("dimension", "bandwidth", "sent by an NPU", "busy", "utilisation", "exposed"),
        (
            (
                name,
                units.format_bandwidth(float(program.bandwidth[d])),
                units.format_bytes(float(row.bytes_sent[0, d])),
                f"{row.busy[0, d] / max(result.time_ps, 1):.1%}",
                f"{row.utilisation[0, d]:.1%}",
                units.format_time(float(row.exposed_by_dim[0, d])),
            )
            for d, name in enumerate(program.names.dims)
        ),
    )


def _critical_path(result: Result, path: Path, per_bandwidth: np.ndarray) -> Table:
    """What the time is made of, and what a little more bandwidth in each dimension is worth."""
    names = ["critical path", "transfer", "latency", "endpoint", "next GB/s saves"]
    rows = [["compute", units.format_time(float(path.compute[0]))]]
    if path.memory[0]:
        rows.append(["memory", units.format_time(float(path.memory[0]))])
    for d, name in enumerate(result.program.names.dims):
        parts = (path.transfer, path.latency, path.endpoint)
        cells = [units.format_time(float(part[0, d])) for part in parts]
        cells.append(units.format_time(-per_bandwidth[0, d] * 1e9 * units.PICOSECONDS))
        if result.per_usd:
            saved = -result.per_usd[name] * 1e3 * units.PICOSECONDS
            cells.append(units.format_time(saved))
        rows.append([name, *cells])
    return table([*names, "next k USD saves"] if result.per_usd else names, rows)


def _busiest_links(result: Result) -> Table:
    """The links that were in use longest, and how many others were in use."""
    columns = ("busiest links", "bandwidth", "carried", "busy", "utilisation", "longest queue")
    ranked = sorted(result.links, key=lambda account: (-account.busy, -account.longest_queue))
    rows = [
        (
            f"{_end(account.link.source)} -> {_end(account.link.target)}",
            units.format_bandwidth(account.link.bandwidth),
            units.format_bytes(account.n_bytes),
            f"{account.busy / max(result.time_ps, 1):.1%}",
            f"{account.utilisation:.1%}",
            str(account.longest_queue),
        )
        for account in ranked[:_LINKS_SHOWN]
    ]
    more = [(f"... and {len(ranked) - _LINKS_SHOWN:,} more",)] if len(ranked) > len(rows) else []
    return table(columns, [*rows, *more])


def _end(node: int | str) -> str:
    return f"NPU {node}" if isinstance(node, int) else node
