"""How many times better one value of a decision is than another, with all else equal."""

from dataclasses import dataclass
from itertools import groupby

from dimsweep.sweeper.report import naming, words
from dimsweep.sweeper.report.decisions import Decisions
from dimsweep.sweeper.report.summary import CellSummary

BASELINE = "the baseline"


@dataclass(frozen=True)
class Factors:
    """What a ``subject`` is against a ``reference``: how many times better, for each pair of cells
    that differ in nothing else, with the scenario that the pair is in."""

    subject: str
    reference: str
    scenarios: tuple[str, ...]
    values: tuple[float, ...]

    @property
    def claim(self) -> str:
        """The range of the factors, in a sentence without a full stop."""
        n, scenes = len(self.values), len(set(self.scenarios))
        text = f"{self.subject} against {self.reference}: {words.ratios(self.values)}"
        if n == 1:
            return text
        over = f"{n} scenarios" if n == scenes else f"{n} pairs"
        return f"{text} over {over}" + (f" in {scenes} scenarios" if 1 < scenes < n else "")

    @property
    def ranges(self) -> list[tuple[str, float, float, int]]:
        """For each scenario the least and the largest factor, and of how many."""
        pairs = sorted(zip(self.scenarios, self.values, strict=True), key=lambda pair: pair[0])
        own = {s: [v for _, v in each] for s, each in groupby(pairs, key=lambda pair: pair[0])}
        first = dict.fromkeys(self.scenarios)
        return [(s, min(own[s]), max(own[s]), len(own[s])) for s in first]


def factors(decisions: Decisions) -> list[Factors]:
    """The factors of a study: of each decision against the baseline, or, without one, of the second
    value of each two-valued decision against its first."""
    if any(c.reference and c.reference.is_common for c in decisions.cells.values()):
        return _against_baseline(decisions)
    axes = list(decisions.decisions[0])
    found = [_of_axis(decisions, axis) for axis in axes]
    return [each for each in found if each is not None]


def _against_baseline(decisions: Decisions) -> list[Factors]:
    found = []
    for d in decisions.ranking:
        pairs = [
            (decisions.scene(s), gain)
            for s in range(len(decisions.scenarios))
            if (cell := decisions.cells.get((d, s))) is not None
            and (gain := cell.gain(decisions.objective, cell.named)) is not None
        ]
        if pairs:
            scenes, values = zip(*pairs, strict=True)
            cell = decisions.chosen()[0]
            own = words.noun(cell) if cell.for_all is None else "one split for all"
            name = decisions.name(d) or f"the {own}"
            found.append(Factors(name, BASELINE, scenes, values))
    return found


def _of_axis(decisions: Decisions, axis: str) -> Factors | None:
    """The second of an axis' two values against the first; None if it has others, or no pair."""
    values = list(dict.fromkeys(each[axis] for each in decisions.decisions))
    if len(values) != 2:
        return None
    first, second = values
    by_place: dict[tuple[object, int], dict[str, CellSummary]] = {}
    for (d, s), cell in decisions.cells.items():
        rest = tuple((k, v) for k, v in decisions.decisions[d].items() if k != axis)
        by_place.setdefault((rest, s), {})[decisions.decisions[d][axis]] = cell
    pairs = [
        (decisions.scene(s), _factor(each[second], each[first]))
        for (_, s), each in by_place.items()
        if len(each) == 2
    ]
    if not pairs:
        return None
    scenes, found = zip(*pairs, strict=True)
    (short,) = naming.short_keys([axis])
    subject, reference = (naming.coordinates_of({axis: value}) for value in (second, first))
    return Factors(subject, reference.removeprefix(f"{short} "), scenes, found)


def _factor(cell: CellSummary, other: CellSummary) -> float:
    """How many times better a cell's best is than another's."""
    own, its = (c.objective.loss(c.objective.of(c.named)) for c in (cell, other))
    return float(its / own) if own else float("nan")
