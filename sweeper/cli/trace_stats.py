"""The totals of traces, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from engine import units
from engine.formats.chakra import TraceStats
from sweeper.cli.trace_files import Traces, counted

_SHOWN = 4
_MICROSECOND = units.PICOSECONDS // 10**6


def print_stats(
    traces: Traces, classes: Sequence[tuple[TraceStats, Sequence[int]]], console: Console
) -> None:
    """Print a table for each class of ranks that have the same totals."""
    n = len(traces.files)
    console.print(
        f"{traces.name}: {counted(n, 'trace')}, {counted(len(classes), 'kind')} of ranks",
        highlight=False,
        soft_wrap=True,
    )
    for stats, ranks in classes:
        console.print(_table(stats, f"{_named(ranks)}" if not traces.alone else "the trace"))


def _named(ranks: Sequence[int]) -> str:
    """Ranks in a few words."""
    some = ", ".join(map(str, ranks[:_SHOWN]))
    more = f" and {len(ranks) - _SHOWN:,} more" if len(ranks) > _SHOWN else ""
    return f"{'ranks' if len(ranks) > 1 else 'rank'} {some}{more}"


def _table(stats: TraceStats, name: str) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column(name, no_wrap=True)
    for column in ("nodes", "amount", "recorded duration"):
        table.add_column(column, justify="right")
    for type_, count in stats.nodes.items():
        micros = stats.micros.get(type_, 0)
        table.add_row(
            type_.name, f"{count:,}", "", units.format_time(micros * _MICROSECOND) if micros else ""
        )
    table.add_row("operations", "", f"{stats.flops:,} FLOP", "")
    table.add_row("memory traffic", "", f"{stats.n_bytes:,} B", "")
    for item in stats.collectives:
        table.add_row(f"{item.kind} over {item.group}", f"{item.n_nodes:,}", f"{item.n_bytes:,} B")
    table.add_row("all collectives", "", f"{stats.collective_bytes:,} B", "")
    if stats.sent:
        table.add_row("messages sent", "", f"{stats.sent:,} B", "")
    table.add_row("longest chain of dependencies", f"{stats.path:,}", "", "")
    return table
