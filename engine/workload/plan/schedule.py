"""In which order a pipeline stage runs the forward and backward passes of its micro-batches."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import InfeasibleError
from dimsweep.engine.workload.plan.action import Action, Part
from dimsweep.engine.workload.plan.dualpipe import dualpipe
from dimsweep.engine.workload.plan.zero_bubble import zb_h1

Longs = NDArray[np.int64]
_NOT = np.iinfo(np.int64).max  # steps are of another kind


class Schedule(StrEnum):
    """GPipe (Huang et al., 2019): all forward, then all backward.  1F1B (Narayanan et al.,
    PipeDream-Flush 2020): backward as soon as possible, which bounds the micro-batches in flight;
    with several chunks of layers a stage it is interleaved (Narayanan et al., SC 2021).  ZB-H1:
    see :mod:`engine.workload.plan.zero_bubble`; DualPipe: :mod:`engine.workload.plan.dualpipe`."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    ZB_H1 = "zb_h1"
    DUALPIPE = "dualpipe"

    @property
    def cuts_backward(self) -> bool:
        """Whether gradients of weights may come apart from those of what came in."""
        return self in _IN_PARTS

    @property
    def both_ways(self) -> bool:
        """Whether micro-batches enter at both ends."""
        return self is Schedule.DUALPIPE


_IN_PARTS: Mapping[Schedule, Callable[..., Iterator[Action]]] = {
    Schedule.ZB_H1: zb_h1,
    Schedule.DUALPIPE: dualpipe,
}


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
    if schedule in _IN_PARTS:
        parts = _IN_PARTS[schedule]
        return tuple(parts(stage=stage, n_stages=n_stages, n_micro_batches=n_micro_batches))
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


def n_passes(order: Sequence[Action]) -> int:
    """How many forward passes there are, each with its backward pass."""
    return [action.backward for action in order].count(False)


def at_once(order: Sequence[Action], overlap: bool) -> Iterator[tuple[Action, ...]]:
    """What runs at the same time: each action alone, or a whole backward pass and the forward pass
    after it, which is another micro-batch's."""
    if not overlap:
        yield from zip(order)
        return
    i = 0
    while i < len(order):
        here, after = order[i], order[i + 1 : i + 2]
        whole = here.backward and here.part is Part.WHOLE
        pair = whole and any(not action.backward for action in after)
        yield (here, *after) if pair else (here,)
        i += 2 if pair else 1


class Repeat(NamedTuple):
    """``period`` steps of a schedule from ``start`` on, so many ``times`` in a row, each for
    micro-batches ``step`` further on."""

    start: int
    period: int
    times: int
    step: int


def repeats(
    what: Sequence[Hashable], micro_batches: Sequence[int], periods: Sequence[int]
) -> Iterator[Repeat]:
    """The steps of a schedule, in order, those that repeat themselves with one of the ``periods``
    at once; ``what`` each one is, but for its micro-batch."""
    numbers = {each: number for number, each in enumerate(dict.fromkeys(what))}
    kind = np.array([numbers[each] for each in what], dtype=np.int64)
    number = np.array(micro_batches, dtype=np.int64)
    until = {period: _until(kind, number, period) for period in {*periods} if period < len(kind)}
    start = 0
    while start < len(kind):
        period, times = 1, 1
        for each, ends in until.items():
            n = int(ends[start] - start) // each
            if n > 1 and n * each > times * period:
                period, times = each, n
        step = int(number[start + period] - number[start]) if times > 1 else 0
        yield Repeat(start, period, times, step)
        start += times * period


def _until(kind: Longs, number: Longs, period: int) -> Longs:
    """Up to where the steps from each one on repeat themselves."""
    alike, until = kind[period:] == kind[:-period], np.arange(len(kind))
    by = np.where(alike, number[period:] - number[:-period], _NOT)
    change = np.append(np.flatnonzero(by[1:] != by[:-1]) + 1, len(by))
    until[:-period][alike] = change[np.searchsorted(change, np.flatnonzero(alike), side="right")]
    return until + period


def _place(i: int, n_stages: int, n_chunks: int) -> tuple[int, int]:
    """Micro-batch and chunk of a stage's ``i``-th forward pass: groups of as many micro-batches as
    there are stages go through the first chunk, then through the next one."""
    group, within = divmod(i, n_stages * n_chunks)
    chunk, offset = divmod(within, n_stages)
    if n_chunks == 1:
        return i, 0
    return group * n_stages + offset, chunk
