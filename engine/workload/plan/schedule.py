"""Schedules: the order of a pipeline stage's forward and backward passes."""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import InfeasibleError


class Part(StrEnum):
    """The part of a backward pass: all gradients, gradients of inputs, or gradients of weights.

    The previous stage waits for the gradients of inputs; no stage waits for gradients of weights.
    """

    WHOLE = ""
    INPUTS = "inputs"
    WEIGHTS = "weights"


class Action(NamedTuple):
    """One entry of a stage's schedule: a pass of one chunk of layers for one micro-batch.

    It is a forward pass, a backward pass, or a :class:`Part` of a backward pass.
    """

    backward: bool
    micro_batch: int
    chunk: int
    part: Part = Part.WHOLE

    @property
    def ends(self) -> bool:
        """True if the action completes a backward pass, so that the activations are freed."""
        return self.backward and self.part is not Part.INPUTS


# --- zero bubble ----------------------------------------------------------------------------------
# ZB-H1, a pipeline schedule whose bubbles are filled with the gradients of weights.
#
# Qi et al., "Zero Bubble Pipeline Parallelism" (ICLR 2024), as Megatron-DeepSpeed runs it
# (``deepspeed_zbh1_schedule.py``).  A backward pass is cut in two: gradients of inputs are
# sent to the previous stage at once, and gradients of weights follow later, after one micro-batch
# for each previous stage.  So every stage of p keeps the activations of p micro-batches, as the
# first one does in 1F1B, and the bubble is (p - 1) (f + b - w) instead of (p - 1) (f + b + w).
# Not modelled: an optimizer that starts before all stages have checked gradients for overflow.


def zb_h1(*, stage: int, n_stages: int, n_micro_batches: int) -> Iterator[Action]:
    """Yield the actions of pipeline stage ``stage`` under the ZB-H1 schedule, in order."""
    warm_up, back, late = min(n_micro_batches, n_stages - 1 - stage), 0, 0
    for forward in range(n_micro_batches + warm_up):
        if forward < n_micro_batches:
            yield Action(False, forward, 0)
        if forward < warm_up:
            continue
        yield Action(True, back, 0, Part.INPUTS)
        back += 1
        if back > stage:
            yield Action(True, late, 0, Part.WEIGHTS)
            late += 1
    for micro_batch in range(late, n_micro_batches):
        yield Action(True, micro_batch, 0, Part.WEIGHTS)


# --- DualPipe -------------------------------------------------------------------------------------
# DualPipe: micro-batches enter a pipeline at both ends.
#
# DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 3.2.1, in the order of their public
# code (``dualpipe.py`` of deepseek-ai/DualPipe).  Stage s of p holds share s of the layers for one
# half of the micro-batches and share p - 1 - s for the other half, which enters at the other end:
# twice the weights, and the activations of p + 1 passes.  Forward passes in one direction overlap
# backward passes in the other, and at both ends of an iteration gradients of weights are deferred,
# so the bubble is (p / 2 - 1) (f&b + b - 3 w) instead of 1F1B's (p - 1) (f + b).


def dualpipe(*, stage: int, n_stages: int, n_micro_batches: int) -> Iterator[Action]:
    """Yield the actions of pipeline stage ``stage`` under the DualPipe schedule, in order.

    Chunk 0 serves the micro-batches that enter at the first stage, chunk 1 the micro-batches that
    enter at the last stage.

    Raises :class:`InfeasibleError` for an odd number of stages or micro-batches, and for fewer than
    two micro-batches for each stage.
    """
    if n_stages % 2 or n_micro_batches % 2 or n_micro_batches < 2 * n_stages:
        raise InfeasibleError(
            f"{n_micro_batches} micro-batches cannot enter {n_stages} stages at both ends",
            where="plan.schedule",
            hint="even numbers of stages and micro-batches, with two or more for each stage",
        )
    out = min(stage, n_stages - 1 - stage)  # stages between it and the nearer end
    inner = n_stages // 2 - out - 1  # and between it and the middle
    run = _Passes(turned=2 * stage >= n_stages)
    for _ in range(2 * inner):
        yield run.forward(0)
    for _ in range(out + 1):
        yield from (run.forward(0), run.forward(1))
    for _ in range(inner):
        yield run.backward(1, cut=True)
        yield run.late.popleft()
        yield run.forward(1)
    for i in range(n_micro_batches // 2 - n_stages + out + 1):
        if i == 0 and not inner:  # one after the other, which keeps the bubble small
            yield from (run.forward(0), run.backward(1))
        else:
            yield from (run.backward(1), run.forward(0))
        yield from (run.backward(0), run.forward(1))
    for _ in range(inner):
        yield from (run.backward(1), run.backward(0), run.forward(1))
    for i in range(out + 1):
        yield run.backward(1, cut=2 * i > out)
        yield run.backward(0, cut=2 * i >= out)
    for _ in range(inner):
        yield run.late.popleft()
        yield run.backward(0, cut=True)
    yield from run.late


class _Passes:
    """A stage's next passes in both directions, and its deferred parts of backward passes.

    Direction 0 begins at the end of the pipeline nearer to the stage; it is chunk 1 if ``turned``.
    """

    def __init__(self, *, turned: bool) -> None:
        self._turned = turned
        self._ahead, self._behind = (count(), count()), (count(), count())
        self.late = deque[Action]()

    def forward(self, way: int) -> Action:
        return Action(False, next(self._ahead[way]), way ^ self._turned)

    def backward(self, way: int, *, cut: bool = False) -> Action:
        part = Part.INPUTS if cut else Part.WHOLE
        action = Action(True, next(self._behind[way]), way ^ self._turned, part)
        if cut:
            self.late.append(action._replace(part=Part.WEIGHTS))
        return action


# --- schedules ------------------------------------------------------------------------------------

Longs = NDArray[np.int64]
_NOT = np.iinfo(np.int64).max  # steps are of another kind


class Schedule(StrEnum):
    """The order of passes in a pipeline.

    GPipe (Huang et al., 2019): all forward, then all backward. 1F1B (Narayanan et al.,
    PipeDream-Flush 2020): backward as soon as possible, which bounds the micro-batches in flight;
    with several chunks of layers a stage it is interleaved (Narayanan et al., SC 2021). ZB-H1 and
    DualPipe: see :mod:`engine.workload.plan.schedule`.
    """

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    ZB_H1 = "zb_h1"
    DUALPIPE = "dualpipe"

    @property
    def cuts_backward(self) -> bool:
        """True if a stage may compute gradients of weights later than gradients of inputs."""
        return self in _IN_PARTS

    @property
    def both_ways(self) -> bool:
        """True if micro-batches enter the pipeline at both ends."""
        return self is Schedule.DUALPIPE


_IN_PARTS: Mapping[Schedule, Callable[..., Iterator[Action]]] = {
    Schedule.ZB_H1: zb_h1,
    Schedule.DUALPIPE: dualpipe,
}


@lru_cache(maxsize=32)  # a trial asks twice, for its memory and for its graph; its neighbours again
def actions(
    schedule: Schedule, *, stage: int, n_stages: int, n_chunks: int, n_micro_batches: int
) -> tuple[Action, ...]:
    """Return the passes that pipeline stage ``stage`` runs under ``schedule``, in order.

    Raises :class:`DimsweepError` if chunks are interleaved and ``n_stages`` does not divide
    ``n_micro_batches``.
    """
    if n_chunks > 1 and n_micro_batches % n_stages:
        raise InfeasibleError(
            f"interleaving over {n_stages} stages needs a multiple of {n_stages} micro-batches, "
            f"not {n_micro_batches}",
            where="plan.interleave",
            hint="a batch whose micro-batches are a multiple of the pipeline degree",
        )
    if schedule in _IN_PARTS:
        parts = _IN_PARTS[schedule]
        return tuple(parts(stage=stage, n_stages=n_stages, n_micro_batches=n_micro_batches))
    n = n_micro_batches * n_chunks
    forward = [_find_micro_batch(i, n_stages, n_chunks) for i in range(n)]
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
    """Return the number of forward passes in ``order``; there are as many backward passes."""
    return [action.backward for action in order].count(False)


def pair_actions(order: Sequence[Action], overlap: bool) -> Iterator[tuple[Action, ...]]:
    """Yield tuples of actions that a stage runs at the same time.

    Without ``overlap`` each action runs by itself. With it a full backward pass runs together with
    the forward pass after it.
    """
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
    """A repeated stretch of a schedule: ``period`` steps from ``start`` on, run ``times`` times.

    In each repetition the numbers of micro-batches grow by ``step``.
    """

    start: int
    period: int
    times: int
    step: int


def find_repeats(
    kinds: Sequence[Hashable], micro_batches: Sequence[int], periods: Sequence[int]
) -> Iterator[Repeat]:
    """Yield the repeated stretches of a schedule in order; each has one of the given ``periods``.

    ``kinds`` holds the kind of each step, without its micro-batch; ``micro_batches`` its number.
    """
    numbers = {each: number for number, each in enumerate(dict.fromkeys(kinds))}
    kind = np.array([numbers[each] for each in kinds], dtype=np.int64)
    number = np.array(micro_batches, dtype=np.int64)
    until = {
        period: _find_ends(kind, number, period) for period in {*periods} if period < len(kind)
    }
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


def _find_ends(kind: Longs, number: Longs, period: int) -> Longs:
    """Return, for each step, where the pattern of ``period`` steps that begins there stops."""
    alike, until = kind[period:] == kind[:-period], np.arange(len(kind))
    by = np.where(alike, number[period:] - number[:-period], _NOT)
    change = np.append(np.flatnonzero(by[1:] != by[:-1]) + 1, len(by))
    until[:-period][alike] = change[np.searchsorted(change, np.flatnonzero(alike), side="right")]
    return until + period


def _find_micro_batch(i: int, n_stages: int, n_chunks: int) -> tuple[int, int]:
    """Return the micro-batch and the chunk of a stage's ``i``-th forward pass (interleaved 1F1B).

    Groups of one micro-batch for each stage pass the first chunk, then the next one.
    """
    group, within = divmod(i, n_stages * n_chunks)
    chunk, offset = divmod(within, n_stages)
    if n_chunks == 1:
        return i, 0
    return group * n_stages + offset, chunk
