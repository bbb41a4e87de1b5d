"""What interruptions and checkpoints make of a job's time, for the terminal and for programs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rich.console import Console

from dimsweep.engine import Result, units
from dimsweep.engine.reliability import Reliability, Renewal
from dimsweep.sweeper.terminal import say, table


def print_interruptions(result: Result, console: Console) -> None:
    """Print how often the job is interrupted, and where its time goes then; nothing where it is not
    known."""
    renewal, reliability = result.renewal, result.program.cluster.reliability
    if renewal is None or reliability is None:
        return
    console.print(table(("interruptions", "", ""), _rows(result, renewal)))
    often, seldom = (_kept(result, reliability, factor) for factor in (0.5, 2.0))
    say(
        f"twice as many interruptions would leave {f'{often:.1%}'} for training,"
        f" half as many {f'{seldom:.1%}'}",
        console,
    )


def plain(result: Result) -> dict[str, Any]:
    """What no row of a study has of it."""
    renewal = result.renewal
    if renewal is None:
        return {}
    return {
        "between_interruptions_s": renewal.between,
        "checkpoint_bytes": _state(result),
        "checkpoint_interval_s": float(renewal.interval),
        "checkpoint_stall_s": renewal.stall,
    }


def _rows(result: Result, renewal: Renewal) -> Iterator[tuple[str, str, str]]:
    taken, kept = renewal.stall + renewal.beside, float(renewal.kept)
    yield "one in the mean every", units.format_duration(renewal.between), ""
    if state := _state(result):
        yield "a checkpoint holds", units.format_bytes(state), ""
    if taken:
        yield "  is written in", units.format_duration(taken), ""
        yield "  stops training for", units.format_duration(renewal.stall), ""
    every = units.format_duration(float(renewal.interval))
    chosen = result.program.cluster.reliability
    best = chosen is not None and chosen.checkpoint.interval is None
    yield f"  is taken every{' (the best)' * best}", every, ""
    yield "time for training (ETTR)", "", f"{kept:.1%}"
    yield "  stopped for checkpoints", "", f"{float(renewal.writing):.1%}"
    yield "  trained again after interruptions", "", f"{float(renewal.again):.1%}"
    yield "  restarting", "", f"{renewal.restarting:.1%}"


def _state(result: Result) -> float:
    amount = result.program.workload.amount
    return amount.state if amount is not None else 0.0


def _kept(result: Result, reliability: Reliability, factor: float) -> float:
    """The share that is left where ``factor`` times the time is between interruptions."""
    other = replace(reliability, npu_time=reliability.npu_time * factor)
    return float(other.renewal(result.program.n_npus, _state(result), result.time).kept)
