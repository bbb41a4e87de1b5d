"""Patterns of repetition in sequences: loops within loops, found in one and matched to others."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_LONGEST = 1000  # symbols of a loop's body
_Items = NDArray[np.int64]


@dataclass(frozen=True)
class Loop:
    """A part of a pattern: ``body``, repeated any number of times, including none."""

    body: "Pattern"


Pattern = tuple["str | Loop", ...]
Place = tuple[int, ...]  # in a pattern: a number in each body, from the outermost
Counts = dict[Place, list[int]]  # by the place of a loop: its rounds each time it runs


def induce(symbols: Sequence[str]) -> Pattern:
    """Return the pattern of a sequence, in which adjacent repetitions become loops.

    The shortest repetitions are folded first, so that loops contain loops.
    """
    numbers: dict[str | _Run, int] = {}
    items = np.array([numbers.setdefault(each, len(numbers)) for each in symbols], dtype=np.int64)
    period = 1
    while period <= min(_LONGEST, len(items) // 2):
        folded = _folded(items, period, numbers)
        # A new loop may make longer sections equal.
        period = 1 if len(folded) < len(items) else period + 1
        items = folded
    return _without_times(items.tolist(), list(numbers))


class _Run(NamedTuple):
    """A repeated tuple of items, by number, with its rounds; runs of unequal rounds differ."""

    body: tuple[int, ...]
    times: int


def _folded(items: _Items, period: int, numbers: dict[str | _Run, int]) -> _Items:
    """Return the items with each repetition of ``period`` items folded into one item."""
    differ = np.flatnonzero(np.append(items[period:] != items[:-period], True))
    begins = np.append(0, differ[:-1] + 1)
    out: list[_Items] = []
    at = 0
    for begin, end in zip(begins.tolist(), differ.tolist(), strict=True):
        if end - begin < period:
            continue
        first = max(begin, at)
        times = (end - first) // period + 1
        if times > 1:
            run = _Run(tuple(items[first : first + period].tolist()), times)
            number = numbers.setdefault(run, len(numbers))
            out += [items[at:first], np.array([number])]
            at = first + times * period
    return np.concatenate([*out, items[at:]]) if out else items


def _without_times(items: Iterable[int], known: Sequence[str | _Run]) -> Pattern:
    each = (known[item] for item in items)
    return tuple(i if isinstance(i, str) else Loop(_without_times(i.body, known)) for i in each)


# --- following ----------------------------------------------------------------------------------


class _Symbol(NamedTuple):
    """An instruction of the matcher: match this symbol."""

    symbol: str
    place: Place


class _Round(NamedTuple):
    """An instruction of the matcher: start a round of ``body``, or continue at ``behind``.

    If the loop is ``entered``, its first round is mandatory.
    """

    place: Place
    body: int
    behind: int
    entered: bool = False


_Program = list[_Symbol | _Round]


def _compiled(pattern: Pattern, program: _Program, least: int, place: Place = ()) -> _Program:
    for number, item in enumerate(pattern):
        here = (*place, number)
        if isinstance(item, str):
            program.append(_Symbol(item, here))
            continue
        start = len(program)
        program.append(_Round(here, 0, 0))  # replaced below, when the end of the loop is known
        _compiled(item.body, program, least, here)
        behind = len(program) + 1
        program.append(_Round(here, start + 1, behind))
        program[start] = _Round(here, start + 1, behind, bool(place) and least > 0)
    return program


def follow(
    pattern: Pattern, symbols: Sequence[str], least: int = 1
) -> tuple[Counts, list[Place]] | None:
    """Return how ``symbols`` match ``pattern``; None if they do not match.

    Returns the rounds of each loop, and the place in the pattern of each symbol.  Loops are greedy
    and backtrack; a loop within another one runs at least ``least`` times (0 or 1).  No choice is
    tried twice, so the time is at most proportional to the product of both lengths.
    """
    program = _compiled(pattern, [], least)
    trail: list[tuple[int, int]] = []  # (instruction, whether a loop continues)
    choices: list[tuple[int, int, int]] = []  # (instruction, symbol, length of the trail)
    tried: set[tuple[int, int]] = set()
    now, at = 0, 0
    while now < len(program) or at < len(symbols):
        step = program[now] if now < len(program) else None
        if isinstance(step, _Symbol) and at < len(symbols) and symbols[at] == step.symbol:
            trail.append((now, 1))
            now, at = now + 1, at + 1
        elif isinstance(step, _Round) and (now, at) not in tried:
            tried.add((now, at))
            if not step.entered:
                choices.append((now, at, len(trail)))
            trail.append((now, 1))
            now = step.body
        elif choices:
            now, at, kept = choices.pop()
            del trail[kept:]
            trail.append((now, 0))
            now = program[now].behind  # type: ignore[union-attr]
        else:
            return None
    return _counts_and_places(program, trail)


def _counts_and_places(
    program: _Program, trail: Sequence[tuple[int, int]]
) -> tuple[Counts, list[Place]]:
    counts: Counts = {}
    places: list[Place] = []
    rounds = Counter[Place]()  # so far, of unfinished loops
    for now, goes_on in trail:
        step = program[now]
        if isinstance(step, _Symbol):
            places.append(step.place)
        elif goes_on:
            rounds[step.place] += 1
        else:
            counts.setdefault(step.place, []).append(rounds.pop(step.place, 0))
    return counts, places


def unroll(pattern: Pattern, counts: dict[Place, int], place: Place = ()) -> Iterator[Place]:
    """Yield the places in the pattern of all symbols of a sequence with ``counts`` loop rounds."""
    for number, item in enumerate(pattern):
        here = (*place, number)
        if isinstance(item, str):
            yield here
        else:
            for _ in range(counts[here]):
                yield from unroll(item.body, counts, here)


def loops(pattern: Pattern, place: Place = ()) -> Iterator[Place]:
    """Yield the places of all loops in a pattern, inner ones included."""
    for number, item in enumerate(pattern):
        if isinstance(item, Loop):
            yield (*place, number)
            yield from loops(item.body, (*place, number))


def leaf(pattern: Pattern, place: Place) -> str:
    """Return the symbol at a place of the pattern."""
    item = pattern[place[0]]
    for number in place[1:]:
        assert isinstance(item, Loop)
        item = item.body[number]
    assert isinstance(item, str)
    return item
