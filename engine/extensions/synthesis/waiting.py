"""Description of steps' dependencies by rules that hold in jobs of other sizes, too.

A step's *label* is common to equal steps at different times: all forward products of a layer,
say.  A step depends on a step at a fixed distance, on all open ends (steps without dependents so
far), or on steps of a label that a *rule* picks: the last one before it, those of the same round of
a loop, all of them, and so on. Mostly several rules pick the same step of a trace.  The rule that
holds for most steps of the label in all traces is chosen, since it is the likeliest to hold in new
jobs.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import NamedTuple

NEAR = 16  # largest distance of a dependency in steps
OPEN = "open"
SEPARATOR = "; "

After = tuple[int, ...]
_Candidate = tuple[str, Sequence[int]]  # a rule, and the places that it picks


class Steps:
    """The labels of a rank's steps in order, and the places of each label's steps."""

    def __init__(self, labels: Sequence[str], loose: Sequence[bool]) -> None:
        """Index ``labels``; ``loose`` marks steps, such as sends, that never count as open ends."""
        self.labels, self.loose = labels, loose
        self.places: dict[str, list[int]] = defaultdict(list)
        self.number: list[int] = []  # of a step among those of its label
        for place, label in enumerate(labels):
            self.number.append(len(self.places[label]))
            self.places[label].append(place)


class Reader:
    """Iterator over a rank's steps that evaluates rules for the current step."""

    def __init__(self, steps: Steps) -> None:
        self._steps, self._at, self._far = steps, 0, -1
        self._ends: set[int] = set()  # steps without dependents so far

    def picks(self, rule: str) -> Sequence[int]:
        """Return the places of the steps that ``rule`` picks for the current step; may be empty."""
        if rule == OPEN:
            return tuple(self._ends)
        name, of, label = rule.partition(": ")
        if not of:
            place = self._at - int(rule)
            return (place,) if 0 <= place < len(self._steps.labels) else ()
        places = self._steps.places.get(label)
        return _RULES[name](self._steps, self._at, places, self._far) if places else ()

    def list_distances(self, after: After) -> Iterator[_Candidate]:
        """Yield the rules by distance or open ends that pick only current dependencies.

        These are the dependencies ``after`` of the current step.
        """
        waits = set(after)
        if waits == self._ends and waits:
            yield OPEN, after
        for before in after:
            if 0 < self._at - before <= NEAR:
                yield str(self._at - before), (before,)

    def list_rules(self, after: After) -> Iterator[_Candidate]:
        """Yield the rules by label that pick only dependencies (``after``) of the current step."""
        waits = set(after)
        for label in dict.fromkeys(self._steps.labels[before] for before in after):
            places = self._steps.places[label]
            for name, rule in _RULES.items():
                found = rule(self._steps, self._at, places, self._far)
                if found and len(found) <= len(waits) and waits.issuperset(found):
                    yield f"{name}: {label}", found

    def advance(self, after: After) -> None:
        """Move to the next step; the current one waits for ``after``."""
        self._far = min(after, default=-1)
        self._ends.difference_update(after)
        if not self._steps.loose[self._at]:
            self._ends.add(self._at)
        self._at += 1


class Waiting(NamedTuple):
    """A rank's steps: their labels, loose flags, and the places of their dependencies."""

    labels: tuple[str, ...]
    loose: tuple[bool, ...]
    after: tuple[After, ...]


def describe(waitings: Iterable[Waiting]) -> dict[Waiting, list[str] | int]:
    """Return, for each rank, the rules of each step's dependencies as text.

    A dependency without a rule is left out if others imply it.  Otherwise the number of the first
    step with such a dependency replaces the rank's texts.
    """
    distinct = list(dict.fromkeys(waitings))
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
        covered = [set().union(*rules.values()) for rules in chosen]
        texts[waiting] = [SEPARATOR.join(rules) for rules in chosen]
        uncovered = _find_uncovered(waiting.after, covered)
        if uncovered is not None:
            texts[waiting] = uncovered
        elif any(len(a) < len(b) for a, b in zip(covered, waiting.after, strict=True)):
            shorter[waiting] = waiting._replace(after=tuple(tuple(sorted(t)) for t in covered))
    if not shorter:
        return texts
    # Rules depend on the dependencies of earlier steps, which are fewer now.
    again = describe(shorter.get(waiting, waiting) for waiting in distinct)
    return {waiting: again[shorter.get(waiting, waiting)] for waiting in distinct}


def _plain_labels(waitings: Sequence[Waiting]) -> set[str]:
    """Return the labels whose steps always depend by distances and open ends only.

    They must be the same at each step of a label.  Other rules, which take most of the time, are
    not evaluated for these labels.
    """
    always: dict[str, set[str]] = {}
    for waiting in waitings:
        for label, after, candidates in zip(
            waiting.labels, waiting.after, _candidates(waiting), strict=True
        ):
            if after:
                rules = {rule for rule, _ in candidates}
                always[label] = always[label] & rules if label in always else rules
    plain = set(always)
    for waiting in waitings:
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
    """Yield the rules that hold for each step; for ``plain`` labels, by distance or open ends."""
    reader = Reader(Steps(waiting.labels, waiting.loose))
    for label, after in zip(waiting.labels, waiting.after, strict=True):
        found = list(reader.list_distances(after)) if after else []
        if after and plain is not None and label not in plain:
            found += reader.list_rules(after)
        yield found
        reader.advance(after)


def _chosen(
    after: After, candidates: Iterable[_Candidate], votes: Mapping[str, int]
) -> dict[str, Sequence[int]]:
    """Return the fewest rules that cover all dependencies of a step, the most common ones first."""
    left, chosen = set(after), dict[str, Sequence[int]]()
    for rule, found in sorted(candidates, key=lambda each: (-votes[each[0]], -len(each[1]))):
        if not left.isdisjoint(found):
            chosen[rule] = found
            left.difference_update(found)
    return chosen


def _find_uncovered(after: Sequence[After], covered: Sequence[set[int]]) -> int | None:
    """Return the first step with a dependency that is neither covered nor implied, or None."""
    missing = {
        i: set(each) - covered[i] for i, each in enumerate(after) if len(covered[i]) < len(each)
    }
    if not missing:
        return None
    before: dict[int, int] = {}  # of each step, a bit for each step that ends earlier
    for i in TopologicalSorter(dict(enumerate(covered))).static_order():
        bits = 0
        for each in covered[i]:
            bits |= before[each] | 1 << each
        before[i] = bits
    return next(
        (i for i, each in missing.items() if any(not before[i] >> j & 1 for j in each)), None
    )


# --- rules --------------------------------------------------------------------------------------

# A rule picks dependencies of a step among the places of one label; ``far`` is the farthest
# dependency of the previous step.
_Rule = Callable[[Steps, int, Sequence[int], int], Sequence[int]]


def _slice(places: Sequence[int], at: int) -> Sequence[int]:
    return places[at : at + 1] if at >= 0 else ()


def _last_before(_: Steps, i: int, places: Sequence[int], __: int) -> Sequence[int]:
    return _slice(places, bisect_left(places, i) - 1)


def _next_after(_: Steps, i: int, places: Sequence[int], __: int) -> Sequence[int]:
    return _slice(places, bisect_right(places, i))


def _first_since(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """Pick the first step of the label after the previous step of the current step's label."""
    number = steps.number[i]
    before = steps.places[steps.labels[i]][number - 1] if number else -1
    found = _slice(places, bisect_right(places, before))
    return found if found and found[0] < i else ()


def _last_until(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """Pick the last step of the label before the next step of the current step's label."""
    own, number = steps.places[steps.labels[i]], steps.number[i] + 1
    until = own[number] if number < len(own) else len(steps.labels)
    found = _slice(places, bisect_left(places, until) - 1)
    return found if found and found[0] > i else ()


def _following(_: Steps, __: int, places: Sequence[int], far: int) -> Sequence[int]:
    """Pick the label's first step after the previous step's farthest dependency: a launch, say."""
    return _slice(places, bisect_right(places, far)) if far >= 0 else ()


def _farthest_again(_: Steps, __: int, places: Sequence[int], far: int) -> Sequence[int]:
    """Pick the farthest dependency of the previous step."""
    found = _slice(places, bisect_left(places, far)) if far >= 0 else ()
    return found if found and found[0] == far else ()


def _cycle(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """Pick the label's step with the same number in the inner loop, for rounds of rounds."""
    n = len(steps.places[steps.labels[i]])
    return () if n % len(places) else _slice(places, steps.number[i] % len(places))


def _mirrored(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """Pick the label's step with the same number in reverse order, as in backward passes."""
    n = len(steps.places[steps.labels[i]])
    if n % len(places):
        return ()
    return _slice(places, len(places) - 1 - steps.number[i] % len(places))


def _owner(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """Pick the label's step in the current round of the outer loop."""
    n = len(steps.places[steps.labels[i]])
    return () if n % len(places) else _slice(places, steps.number[i] * len(places) // n)


def _strided(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """Pick the label's steps with the same number in all rounds, as of all micro-batches."""
    n = len(steps.places[steps.labels[i]])
    return () if len(places) % n else places[steps.number[i] :: n]


def _block(steps: Steps, i: int, places: Sequence[int], _: int) -> Sequence[int]:
    """Pick all steps of the label in the current round of the inner loop."""
    n = len(steps.places[steps.labels[i]])
    size, left = divmod(len(places), n)
    return () if left else places[steps.number[i] * size : (steps.number[i] + 1) * size]


_RULES: Mapping[str, _Rule] = {
    "each": _strided,
    "block": _block,
    "block's first": lambda *given: _block(*given)[:1],
    "block's last": lambda *given: _block(*given)[-1:],
    "all": lambda _, __, places, ___: places,
    "last": _last_before,
    "next": _next_after,
    "first since": _first_since,
    "last until": _last_until,
    "numbered": _cycle,
    "mirrored": _mirrored,
    "of round": _owner,
    "first": lambda _, __, places, ___: places[:1],
    "final": lambda _, __, places, ___: places[-1:],
    "following": _following,
    "again": _farthest_again,
}


def check_rule(rule: str) -> None:
    """Raise ValueError unless ``rule`` is a valid rule."""
    name, of, _ = rule.partition(": ")
    if not (name in _RULES if of else rule == OPEN or rule.isdecimal()):
        raise ValueError(f"unknown rule {rule!r}")
