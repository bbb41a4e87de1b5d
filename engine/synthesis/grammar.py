"""What repeats in a sequence: loops within loops, found in one sequence and followed in others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_LONGEST = 400  # symbols of a loop's body


@dataclass(frozen=True)
class Loop:
    """``body``, any number of times; none, too, if it is not within another loop."""

    body: "Pattern"


Pattern = tuple["str | Loop", ...]
Place = tuple[int, ...]  # in a pattern: a number in each body, from the outermost
Counts = dict[Place, list[int]]  # by the place of a loop: how often, each time it comes


class _Run(NamedTuple):
    """A loop with its rounds: two that run differently often are not alike."""

    body: tuple["str | _Run", ...]
    times: int


def induce(symbols: Sequence[str]) -> Pattern:
    """The pattern of a sequence: what stands twice or more side by side becomes a loop, the
    shortest repetitions first, so that loops hold loops."""
    items: list[str | _Run] = list(symbols)
    period = 1
    while period <= min(_LONGEST, len(items) // 2):
        folded = _folded(items, period)
        # A loop that was found makes longer stretches alike.
        period = 1 if len(folded) < len(items) else period + 1
        items = folded
    return _without_times(items)


def _folded(items: list[str | _Run], period: int) -> list[str | _Run]:
    out: list[str | _Run] = []
    at = 0
    while at < len(items):
        body = items[at : at + period]
        times = 1
        while items[at + times * period : at + (times + 1) * period] == body:
            times += 1
        if times > 1:
            out.append(_Run(tuple(body), times))
            at += times * period
        else:
            out.append(items[at])
            at += 1
    return out


def _without_times(items: Sequence[str | _Run]) -> Pattern:
    return tuple(i if isinstance(i, str) else Loop(_without_times(i.body)) for i in items)


def follow(pattern: Pattern, symbols: Sequence[str]) -> tuple[Counts, list[Place]] | None:
    """How often each loop runs in a sequence that the pattern describes, and for each symbol its
    place in the pattern; None if it is another pattern's.

    Loops take all they can, and give back what the rest needs; one within another runs at least
    once.
    """
    trail: list[tuple[Place, int]] = []  # symbols (-1) and loops (how often), as they end

    def run(body: Pattern, number: int, at: int, place: Place) -> Iterator[int]:
        """Where the rest of a body may end."""
        kept = len(trail)
        while number < len(body) and isinstance(body[number], str):
            if at >= len(symbols) or symbols[at] != body[number]:
                del trail[kept:]
                return
            trail.append(((*place, number), -1))
            at, number = at + 1, number + 1
        if number == len(body):
            yield at
        else:
            loop, here = body[number], (*place, number)
            assert isinstance(loop, Loop)
            for end, times in rounds(loop.body, here, at, 0):
                trail.append((here, times))
                yield from run(body, number + 1, end, place)
                trail.pop()
        del trail[kept:]

    def rounds(body: Pattern, here: Place, at: int, times: int) -> Iterator[tuple[int, int]]:
        for end in run(body, 0, at, here):
            yield from rounds(body, here, end, times + 1)
        if times or len(here) == 1:
            yield at, times

    for end in run(pattern, 0, 0, ()):
        if end == len(symbols):
            counts: Counts = {}
            for place, times in trail:
                if times >= 0:
                    counts.setdefault(place, []).append(times)
            return counts, [place for place, times in trail if times < 0]
    return None


def unroll(pattern: Pattern, counts: dict[Place, int], place: Place = ()) -> Iterator[Place]:
    """The places of all symbols, in order, with so many rounds of each loop."""
    for number, item in enumerate(pattern):
        here = (*place, number)
        if isinstance(item, str):
            yield here
        else:
            for _ in range(counts[here]):
                yield from unroll(item.body, counts, here)


def loops(pattern: Pattern, place: Place = ()) -> Iterator[Place]:
    """The places of all loops."""
    for number, item in enumerate(pattern):
        if isinstance(item, Loop):
            yield (*place, number)
            yield from loops(item.body, (*place, number))


def leaf(pattern: Pattern, place: Place) -> str:
    """The symbol at a place."""
    item = pattern[place[0]]
    for number in place[1:]:
        assert isinstance(item, Loop)
        item = item.body[number]
    assert isinstance(item, str)
    return item
