"""What steps wait for, told in a way that holds in jobs of other sizes.

A step's *label* is what it has in common with the same step at other times: all forward products
of a layer, say.  It waits for what is a fixed distance back, for all open ends, or for steps of a
label that a *rule* picks: the last one before it, those of its own round of a loop, all of them...
Mostly several rules pick the same step of a trace.  The one is taken that holds for most steps of
the label in all traces, since it is the likeliest to hold in those that nobody has.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import NamedTuple

NEAR = 16  # steps, over which a dependency is a distance
OPEN = "open"
SEPARATOR = "; "

After = tuple[int, ...]
_Candidate = tuple[str, Sequence[int]]  # a rule, and what it picks


class Steps:
    """The labels of a rank's steps in their order, and which of them nobody need wait for."""

    def __init__(self, labels: Sequence[str], loose: Sequence[bool]) -> None:
        """``loose``: steps, such as sends, that are no open ends."""
        self.labels, self.loose = labels, loose
        self.places: dict[str, list[int]] = defaultdict(list)
        self.number: list[int] = []  # of a step among those of its label
        for place, label in enumerate(labels):
            self.number.append(len(self.places[label]))
            self.places[label].append(place)


class Reader:
    """Goes through steps in their order, and says of each what a rule picks."""

    def __init__(self, steps: Steps) -> None:
        self._steps, self._at, self._far = steps, 0, -1
        self._ends: set[int] = set()  # that nobody waits for yet

    def picks(self, rule: str) -> Sequence[int]:
        """The places that ``rule`` picks for the step that is next; none if there are none."""
        if rule == OPEN:
            return tuple(self._ends)
        name, of, label = rule.partition(": ")
        if not of:
            place = self._at - int(rule)
            return (place,) if 0 <= place < len(self._steps.labels) else ()
        places = self._steps.places.get(label)
        return _RULES[name](self._steps, self._at, places, self._far) if places else ()

    def near(self, after: After) -> Iterator[_Candidate]:
        """Distances, and all open ends, if they are what the next step waits for."""
        waits = set(after)
        if waits == self._ends and waits:
            yield OPEN, after
        for before in after:
            if 0 < self._at - before <= NEAR:
                yield str(self._at - before), (before,)

    def by_label(self, after: After) -> Iterator[_Candidate]:
        """All other rules that pick nothing but what the next step waits for."""
        waits = set(after)
        for label in dict.fromkeys(self._steps.labels[before] for before in after):
            places = self._steps.places[label]
            for name, rule in _RULES.items():
                found = rule(self._steps, self._at, places, self._far)
                if found and len(found) <= len(waits) and waits.issuperset(found):
                    yield f"{name}: {label}", found

    def advance(self, after: After) -> None:
        """The next step waits for these; go on to the one behind it."""
        self._far = min(after, default=-1)
        self._ends.difference_update(after)
        if not self._steps.loose[self._at]:
            self._ends.add(self._at)
        self._at += 1


class Waiting(NamedTuple):
    """Labels of a rank's steps, which of them are loose, and the places that each waits for."""

    labels: tuple[str, ...]
    loose: tuple[bool, ...]
    after: tuple[After, ...]


def describe(those: Iterable[Waiting]) -> dict[Waiting, list[str] | int]:
    """For each rank's steps what each of them waits for, as the text of its rules.

    A dependency that no rule tells is left out where others imply it; if they do not, the number of
    the step stands in the place of the texts.
    """
    distinct = list(dict.fromkeys(those))
    plain = _plain_labels(distinct)
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for waiting in distinct:
        for label, candidates in zip(waiting.labels, _candidates(waiting, plain), strict=True):
            votes[label].update(rule for rule, _ in candidates)
    texts: dict[Waiting, list[str] | int] = {}
    shorter: dict[Waiting, Waiting] = {}
    for waiting in distinct:
        chosen = [
            _chosen(after, candidates, votes[label])
            for label, after, candidates in zip(
                waiting.labels, waiting.after, _candidates(waiting, plain), strict=True
            )
        ]
        told = [set().union(*rules.values()) for rules in chosen]
        texts[waiting] = [SEPARATOR.join(rules) for rules in chosen]
        untold = _untold(waiting.after, told)
        if untold is not None:
            texts[waiting] = untold
        elif any(len(a) < len(b) for a, b in zip(told, waiting.after, strict=True)):
            shorter[waiting] = waiting._replace(after=tuple(tuple(sorted(t)) for t in told))
    if not shorter:
        return texts
    # Rules look at what earlier steps wait for, which is less now.
    again = describe(shorter.get(waiting, waiting) for waiting in distinct)
    return {waiting: again[shorter.get(waiting, waiting)] for waiting in distinct}


def _plain_labels(those: Sequence[Waiting]) -> set[str]:
    """The labels that distances and open ends tell all of, the same ones at each step of a label.
    No other rule is asked about them, which most of the time would go into."""
    always: dict[str, set[str]] = {}
    for waiting in those:
        for label, after, candidates in zip(
            waiting.labels, waiting.after, _candidates(waiting), strict=True
        ):
            if after:
                rules = {rule for rule, _ in candidates}
                always[label] = always[label] & rules if label in always else rules
    plain = set(always)
    for waiting in those:
        for label, after, candidates in zip(
            waiting.labels, waiting.after, _candidates(waiting), strict=True
        ):
            found = [places for rule, places in candidates if rule in always.get(label, ())]
            if label in plain and not set().union(*found).issuperset(after):
                plain.discard(label)
    return plain


def _candidates(
    waiting: Waiting, plain: Collection[str] | None = None
) -> Iterator[list[_Candidate]]:
    """The rules that hold for each step; if ``plain`` labels are given, all rules for others."""
    reader = Reader(Steps(waiting.labels, waiting.loose))
    for label, after in zip(waiting.labels, waiting.after, strict=True):
        found = list(reader.near(after)) if after else []
        if after and plain is not None and label not in plain:
            found += reader.by_label(after)
        yield found
        reader.advance(after)


def _chosen(
    after: After, candidates: Iterable[_Candidate], votes: Mapping[str, int]
) -> dict[str, Sequence[int]]:
    """As few rules as tell it all, the most common ones first."""
    left, chosen = set(after), dict[str, Sequence[int]]()
    for rule, found in sorted(candidates, key=lambda each: (-votes[each[0]], -len(each[1]))):
        if not left.isdisjoint(found):
            chosen[rule] = found
            left.difference_update(found)
    return chosen


def _untold(after: Sequence[After], told: Sequence[set[int]]) -> int | None:
    """The first step that waits for one that is not told, and is not implied by what is told."""
    missing = {i: set(each) - told[i] for i, each in enumerate(after) if len(told[i]) < len(each)}
    if not missing:
        return None
    before: dict[int, int] = {}  # of each step all that end earlier, a bit each
    for i in TopologicalSorter(dict(enumerate(told))).static_order():
        bits = 0
        for each in told[i]:
            bits |= before[each] | 1 << each
        before[i] = bits
    return next(
        (i for i, each in missing.items() if any(not before[i] >> j & 1 for j in each)), None
    )


# --- rules --------------------------------------------------------------------------------------

# Each picks, of the places of one label, those that a step waits for; ``far`` is the farthest step
# that the one before it waited for.
_Rule = Callable[[Steps, int, Sequence[int], int], Sequence[int]]


def _slice(places: Sequence[int], at: int) -> Sequence[int]:
    return places[at : at + 1] if at >= 0 else ()


def _last(_: Steps, i: int, places: Sequence[int], __: int) -> Sequence[int]:
    return _slice(places, bisect_left(places, i) - 1)


def _next(_: Steps, i: int, places: Sequence[int], __: int) -> Sequence[int]:
    return _slice(places, bisect_right(places, i))


def _first_since(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """The first one after the step of one's own label before."""
    number = steps.number[i]
    before = steps.places[steps.labels[i]][number - 1] if number else -1
    found = _slice(places, bisect_right(places, before))
    return found if found and found[0] < i else ()


def _last_until(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """The last one before the next step of one's own label."""
    own, number = steps.places[steps.labels[i]], steps.number[i] + 1
    until = own[number] if number < len(own) else len(steps.labels)
    found = _slice(places, bisect_left(places, until) - 1)
    return found if found and found[0] > i else ()


def _following(_: Steps, __: int, places: Sequence[int], far: int) -> Sequence[int]:
    """The first one after the farthest that the step before waited for: a kernel's launch."""
    return _slice(places, bisect_right(places, far)) if far >= 0 else ()


def _again(_: Steps, __: int, places: Sequence[int], far: int) -> Sequence[int]:
    """The farthest that the step before waited for."""
    found = _slice(places, bisect_left(places, far)) if far >= 0 else ()
    return found if found and found[0] == far else ()


def _cycle(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """Rounds of rounds: the one of the same number in the inner loop."""
    n = len(steps.places[steps.labels[i]])
    return () if n % len(places) else _slice(places, steps.number[i] % len(places))


def _mirrored(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """The same in the opposite order, as backward passes have."""
    n = len(steps.places[steps.labels[i]])
    if n % len(places):
        return ()
    return _slice(places, len(places) - 1 - steps.number[i] % len(places))


def _owner(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """The one of the outer loop's round."""
    n = len(steps.places[steps.labels[i]])
    return () if n % len(places) else _slice(places, steps.number[i] * len(places) // n)


def _strided(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """Those of the same number in all rounds: a layer's gradients of all micro-batches."""
    n = len(steps.places[steps.labels[i]])
    return () if len(places) % n else places[steps.number[i] :: n]


def _block(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """All those of the inner loop in one's own round."""
    n = len(steps.places[steps.labels[i]])
    size, left = divmod(len(places), n)
    return () if left else places[steps.number[i] * size : (steps.number[i] + 1) * size]


_RULES: Mapping[str, _Rule] = {
    "each": _strided,
    "block": _block,
    "block's first": lambda *given: _block(*given)[:1],
    "block's last": lambda *given: _block(*given)[-1:],
    "all": lambda _, __, places, ___: places,
    "last": _last,
    "next": _next,
    "first since": _first_since,
    "last until": _last_until,
    "numbered": _cycle,
    "mirrored": _mirrored,
    "of round": _owner,
    "first": lambda _, __, places, ___: places[:1],
    "final": lambda _, __, places, ___: places[-1:],
    "following": _following,
    "again": _again,
}


def check_rule(rule: str) -> None:
    """Raise ValueError for what is no rule."""
    name, of, _ = rule.partition(": ")
    if not (name in _RULES if of else rule == OPEN or rule.isdecimal()):
        raise ValueError(f"{rule!r} is no rule of what a step waits for")
