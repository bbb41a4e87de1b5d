"""dimsweep trace show: how a trace looks, and when everything in it happens."""

from collections.abc import Sequence

import click
from rich.console import Console

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats.chakra import read_trace
from dimsweep.sweeper.cli.overrides import overrides
from dimsweep.sweeper.cli.simulate import simulate
from dimsweep.sweeper.cli.trace.files import Traces, find_traces, groups_option, source
from dimsweep.sweeper.config.overrides import quoted
from dimsweep.sweeper.output import write_file
from dimsweep.sweeper.terminal import say


@click.command("show")
@source
@overrides
@groups_option
@click.option("--rank", default=0, metavar="N", help="The rank to draw.", show_default=True)
@click.option(
    "--picture", metavar="FILE", help="Draw the rank's graph into this .png, .svg or .pdf."
)
@click.option("--timeline", metavar="FILE", help="Simulate all traces, for ui.perfetto.dev.")
def command(
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
            raise DimsweepError(f"there is no rank {rank}; {ranks}", where="--rank")
        file = traces.files[rank]
        kind = kind_of(picture, "--picture")
        write_file(picture, "the picture", draw_trace(read_trace(file), file.name, kind))
        say(f"picture: {picture}", console)
    if timeline is not None:
        words = [*_as_workload(traces), f"timeline={quoted(timeline)}", *overrides]
        simulate(words, console)
    return 0


def _as_workload(traces: Traces) -> list[str]:
    """The overrides that make the traces a configuration's workload."""
    source = str(traces.files[0])
    if not traces.alone:
        source = source.removesuffix(".0.et")
    groups = [] if traces.groups is None else [f"workload.groups={quoted(str(traces.groups))}"]
    return ["workload=chakra", f"workload.traces={quoted(source)}", *groups]
