"""The effect of interruptions and checkpoints on a job's time, as text and as data for JSON."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from dimsweep.engine import Result, units
from dimsweep.engine.reliability import Outage, Reliability, Renewal, Spares, compute_mean_speed
from dimsweep.sweeper.report.words import fine_percent
from dimsweep.sweeper.terminal import make_table, print_line


def print_interruptions(result: Result, console: Console) -> None:
    """Print the rate of interruptions, the lost time, and the time while a device is down.

    Prints nothing if the failure rates are unknown.
    """
    renewal, reliability = result.renewal, result.program.cluster.reliability
    if renewal is None or reliability is None:
        return
    console.print(make_table(("interruptions", "", ""), _rows(result, renewal)))
    if result.outages:
        columns = ("while it is down", "there are", "of the time", "slower", "simulated")
        console.print(make_table(columns, _outages(result.outages)))
    if reliability.spares is not None:
        of_nodes = ("spare nodes", "waiting", "for training", "per paid node, vs best")
        console.print(make_table(of_nodes, _spares(result, renewal, reliability.spares)))
    often, seldom = (_kept(result, reliability, factor) for factor in (0.5, 2.0))
    print_line(
        f"twice as many interruptions would leave {f'{often:.1%}'} for training,"
        f" half as many {f'{seldom:.1%}'}",
        console,
    )


def plain(result: Result) -> dict[str, Any]:
    """Return the figures on interruptions that no row of a study has, as data for JSON."""
    renewal = result.renewal
    if renewal is None:
        return {}
    return {
        "between_interruptions_s": renewal.between,
        "checkpoint_bytes": result.program.workload.state,
        "checkpoint_interval_s": float(renewal.interval),
        "checkpoint_stall_s": renewal.stall,
        "waiting_for_repair": renewal.waiting,
        "outages": [
            {"what": each.what, "count": each.count, "down": each.down, "slowdown": each.slowdown}
            for each in result.outages
        ],
    }


def _rows(result: Result, renewal: Renewal) -> Iterator[tuple[str, str, str]]:
    taken, kept = renewal.stall + renewal.beside, float(renewal.effective_share)
    yield "one in the mean every", units.format_duration(renewal.between), ""
    if state := result.program.workload.state:
        yield "a checkpoint holds", units.format_bytes(state), ""
    if taken:
        yield "  is written in", units.format_duration(taken), ""
        yield "  stops training for", units.format_duration(renewal.stall), ""
    every = units.format_duration(float(renewal.interval))
    chosen = result.program.cluster.reliability
    best = chosen is not None and chosen.checkpoint.interval is None
    yield f"  is taken every{' (the best)' * best}", every, ""
    if chosen is not None and chosen.spares is not None:
        broken = chosen.spares.mean_broken_nodes(renewal.between) * (1 - renewal.waiting)
        yield "nodes in repair in the mean", f"{broken:.2f}", ""
    yield "time for training (ETTR)", "", f"{kept:.1%}"
    yield "  stopped for checkpoints", "", f"{float(renewal.writing_share):.1%}"
    yield "  trained again after interruptions", "", f"{float(renewal.repeated_share):.1%}"
    yield "  restarting", "", f"{renewal.restarting_share:.1%}"
    if chosen is not None and chosen.spares is not None:
        yield "  waiting for a repair", "", f"{renewal.waiting:.1%}"


def _spares(result: Result, renewal: Renewal, spares: Spares) -> Iterator[tuple[str, ...]]:
    """Yield the effect of one spare node less or more, and of the best number of spares.

    The best number trains most per node.
    """
    n, between = result.program.n_npus, renewal.between
    best = spares.find_best_count(n, between)
    for count in sorted({max(0, spares.nodes - 1), spares.nodes, spares.nodes + 1, best}):
        other = replace(spares, nodes=count)
        waiting = other.waiting_share(between)
        left = float(renewal.effective_share) * (1 - waiting) / (1 - renewal.waiting)
        each = other.share_per_node(n, between) / replace(spares, nodes=best).share_per_node(
            n, between
        )
        mine = " (as now)" * (count == spares.nodes)
        yield f"{count:,}{mine}", f"{waiting:.1%}", f"{left:.1%}", f"{each:.1%}"


def _outages(outages: Sequence[Outage]) -> Iterator[tuple[str, ...]]:
    """Yield the duration of an outage and the slowdown during it, for each kind and in total."""
    yield from map(_outage, outages)
    time = 1 - math.prod(1 - outage.time for outage in outages)
    count = f"{sum(outage.count for outage in outages):,}"
    slower = f"{1 / compute_mean_speed(outages) - 1:+.2%}"
    yield "any of them; all the time", count, fine_percent(time), slower, ""


def _outage(outage: Outage) -> tuple[str, ...]:
    slower = sorted(1 / speed - 1 for speed in outage.speeds)
    changes = [f"{each:+.2%}" for each in (slower[0], slower[-1])]
    return (
        outage.what,
        f"{outage.count:,}",
        fine_percent(outage.time),
        " to ".join(dict.fromkeys(changes)),
        f"{len(slower)} of them",
    )


def _kept(result: Result, reliability: Reliability, factor: float) -> float:
    """Return the share of productive time with ``factor`` times the time between interruptions."""
    other = replace(reliability, npu_time=reliability.npu_time * factor)
    return float(
        other.renewal(
            result.program.n_npus, result.program.workload.state, result.time
        ).effective_share
    )
