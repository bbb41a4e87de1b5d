"""The account of one simulated iteration, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine import Path, Result, units
from engine.kernels.message import MessageRun

_LINKS_SHOWN = 5


def print_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print what the design rules found, a line each."""
    for text in warnings:
        console.print(Text(f"warning: {text}", style="yellow"), soft_wrap=True)


def print_result(result: Result, config: Mapping[str, Any], console: Console) -> None:
    """Print where the time of an iteration goes and what each dimension carries."""
    program, row = result.program, result.breakdown
    console.print(
        f"{config['workload']['name']} on {program.cluster.topology.name}, {_size(result)}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(_summary(result))
    table = Table(box=None, header_style="bold")
    table.add_column("dimension", no_wrap=True)
    for name in ("bandwidth", "sent by an NPU", "busy", "utilisation", "exposed"):
        table.add_column(name, justify="right")
    for d, name in enumerate(program.names.dims):
        table.add_row(
            name,
            units.format_bandwidth(float(program.bandwidth[d])),
            units.format_bytes(float(row.bytes_sent[0, d])),
            f"{row.busy[0, d] / max(result.time_ps, 1):.1%}",
            f"{row.utilisation[0, d]:.1%}",
            units.format_time(float(row.exposed_by_dim[0, d])),
        )
    console.print(table)
    if row.path is not None and row.per_bandwidth is not None:
        console.print(_critical_path(result, row.path, row.per_bandwidth))
    if result.links:
        console.print(_busiest_links(result))


def _critical_path(result: Result, path: Path, per_bandwidth: np.ndarray) -> Table:
    """What the time is made of, and what a little more bandwidth in each dimension is worth."""
    table = Table(box=None, header_style="bold")
    table.add_column("critical path", no_wrap=True)
    names = ["transfer", "latency", "endpoint", "next GB/s saves"]
    for name in [*names, "next k USD saves"] if result.per_usd else names:
        table.add_column(name, justify="right")
    table.add_row("compute", units.format_time(float(path.compute[0])))
    if path.memory[0]:
        table.add_row("memory", units.format_time(float(path.memory[0])))
    for d, name in enumerate(result.program.names.dims):
        parts = (path.transfer, path.latency, path.endpoint)
        cells = [units.format_time(float(part[0, d])) for part in parts]
        cells.append(units.format_time(-per_bandwidth[0, d] * 1e9 * units.PICOSECONDS))
        if result.per_usd:
            saved = -result.per_usd[name] * 1e3 * units.PICOSECONDS
            cells.append(units.format_time(saved))
        table.add_row(name, *cells)
    return table


def _size(result: Result) -> str:
    program = result.program
    if isinstance(result.run, MessageRun):
        run = result.run
        return f"{program.n_npus:,} NPUs, {len(run.links):,} links, {run.n_messages:,} messages"
    return f"{program.n_npus:,} NPUs in {_plural(len(program.names.class_count), 'class', 'es')}"


def _busiest_links(result: Result) -> Table:
    """The links that were in use longest, and how many others were in use as long."""
    table = Table(box=None, header_style="bold")
    for name in ("busiest links", "bandwidth", "carried", "busy", "utilisation", "longest queue"):
        table.add_column(name, justify="left" if not table.columns else "right")
    ranked = sorted(result.links, key=lambda account: (-account.busy, -account.longest_queue))
    for account in ranked[:_LINKS_SHOWN]:
        table.add_row(
            f"{_end(account.link.source)} -> {_end(account.link.target)}",
            units.format_bandwidth(account.link.bandwidth),
            units.format_bytes(account.n_bytes),
            f"{account.busy / max(result.time_ps, 1):.1%}",
            f"{account.utilisation:.1%}",
            str(account.longest_queue),
        )
    if len(ranked) > _LINKS_SHOWN:
        table.add_row(f"... and {len(ranked) - _LINKS_SHOWN:,} more")
    return table


def _end(node: int | str) -> str:
    return f"NPU {node}" if isinstance(node, int) else node


def _summary(result: Result) -> Table:
    table = Table(box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right")

    def line(name: str, seconds: float) -> None:
        share = f"{seconds / result.time:.1%}" if result.time else ""
        table.add_row(name, units.format_time(seconds * units.PICOSECONDS), share)

    line("iteration", result.time)
    line("  compute", result.compute)
    line("  exposed communication", result.exposed)
    for name, seconds in result.exposed_by_collective.items():
        if seconds:
            line(f"    {name}", seconds)
    if result.exposed_by_dim["waiting"]:
        remote = result.program.structure.shape.memory_stream
        what = "waiting for other ranks" if not remote else "with no dimension in use"
        line(f"  {what}", result.exposed_by_dim["waiting"])
    memory = result.program.workload.footprint
    if memory is not None:
        table.add_row("memory of the fullest NPU", units.format_bytes(memory.total), memory.peak)
        if memory.remote:
            table.add_row("  and remote memory", units.format_bytes(memory.remote), "")
    if result.cost is not None:
        table.add_row("network cost", units.format_money(result.cost), "")
    if result.perf_per_cost is not None:
        efficiency = units.format_performance_per_cost(result.perf_per_cost)
        table.add_row("performance per cost", efficiency, "")
    return table


def _plural(n: int, word: str, ending: str) -> str:
    return f"{n} {word}{ending if n != 1 else ''}"
