"""dimsweep trace stats: the totals of traces."""

from collections.abc import Iterator, Sequence

import click
from rich.console import Console

from dimsweep.engine import units
from dimsweep.engine.formats.chakra import TraceStats, read_traces, trace_stats
from dimsweep.sweeper.cli.trace.files import find_traces, groups_option, source
from dimsweep.sweeper.terminal import plural, say, table

_SHOWN = 4
_MICROSECOND = units.PICOSECONDS // 10**6


@click.command("stats")
@source
@groups_option
def command(source: str, groups: str | None) -> int:
    """Count the nodes, the work and the bytes of each class of ranks.

    Ranks with the same totals are a class.

    \b
    Example:
      dimsweep trace stats w
    """
    traces, console = find_traces(source, groups), Console()
    classes = trace_stats(read_traces(traces.files), traces.group_ranks())
    n_ranks, n_classes = plural(len(traces.files), "trace"), plural(len(classes), "class")
    say(f"{traces.name}: {n_ranks}, {n_classes} of ranks", console)
    for stats, ranks in classes:
        name = "the trace" if traces.alone else _named(ranks)
        console.print(table((name, "nodes", "amount", "recorded duration"), _rows(stats)))
    return 0


def _named(ranks: Sequence[int]) -> str:
    """Ranks in a few words."""
    some = ", ".join(map(str, ranks[:_SHOWN]))
    more = f" and {len(ranks) - _SHOWN:,} more" if len(ranks) > _SHOWN else ""
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
