"""In which order a pipeline stage runs the forward and backward passes of its micro-batches."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from engine.errors import InfeasibleError


class Schedule(StrEnum):
    """GPipe (Huang et al., 2019): all forward, then all backward.  1F1B (Narayanan et al.,
    PipeDream-Flush 2020): backward as soon as possible, which bounds the micro-batches in flight;
    with several chunks of layers a stage it is interleaved (Narayanan et al., SC 2021)."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"


class Action(NamedTuple):
    """A forward or backward pass of one chunk of layers for one micro-batch."""

    backward: bool
    micro_batch: int
    chunk: int


@lru_cache(maxsize=32)  # a trial asks twice, for its memory and for its graph; its neighbours again
def actions(
    schedule: Schedule, *, stage: int, n_stages: int, n_chunks: int, n_micro_batches: int
) -> tuple[Action, ...]:
    """What ``stage`` of ``n_stages`` does, in order.

    Raises :class:`DimsweepError` when micro-batches do not divide by the stages, which interleaved
    chunks need.
    """
    if n_chunks > 1 and n_micro_batches % n_stages:
        raise InfeasibleError(
            f"interleaved chunks go through {n_stages} stages in groups of as many micro-batches, "
            f"but there are {n_micro_batches}",
            where="plan.interleave",
            hint="a batch that makes a multiple of the pipeline degree",
        )
    n = n_micro_batches * n_chunks
    forward = [_place(i, n_stages, n_chunks) for i in range(n)]
    backward = [(micro_batch, n_chunks - 1 - chunk) for micro_batch, chunk in forward]
    if schedule is Schedule.GPIPE:
        warm_up = n
        # The last micro-batch is the first to go back, so that what it kept is freed first.
        backward = [(n_micro_batches - 1 - m, c) for m, c in backward]
        if n_chunks > 1:
            backward.sort(key=lambda entry: (-entry[1], -entry[0]))
            forward.sort(key=lambda entry: (entry[1], entry[0]))
    elif n_chunks == 1:
        warm_up = min(n, n_stages - 1 - stage)
    else:
        warm_up = min(n, 2 * (n_stages - 1 - stage) + (n_chunks - 1) * n_stages)
    order = [Action(False, *entry) for entry in forward[:warm_up]]
    for ahead, behind in zip(forward[warm_up:], backward, strict=False):
        order += [Action(False, *ahead), Action(True, *behind)]
    return (*order, *(Action(True, *entry) for entry in backward[n - warm_up :]))


def at_once(order: Sequence[Action], overlap: bool) -> Iterator[tuple[Action, ...]]:
    """What runs at the same time: each action alone, or a backward pass and the forward pass after
    it, which is another micro-batch's."""
    i = 0
    while i < len(order):
        here, after = order[i], order[i + 1 : i + 2]
        pair = overlap and here.backward and any(not action.backward for action in after)
        yield (here, *after) if pair else (here,)
        i += 2 if pair else 1


def _place(i: int, n_stages: int, n_chunks: int) -> tuple[int, int]:
    """Micro-batch and chunk of a stage's ``i``-th forward pass: groups of as many micro-batches as
    there are stages go through the first chunk, then through the next one."""
    group, within = divmod(i, n_stages * n_chunks)
    chunk, offset = divmod(within, n_stages)
    if n_chunks == 1:
        return i, 0
    return group * n_stages + offset, chunk
