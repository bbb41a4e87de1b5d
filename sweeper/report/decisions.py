"""The competing decisions (designs) of a study in each of its scenarios, and their regrets.

A loss is only compared with losses in the same scenario: times of different models are not
comparable.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from typing import Self

import numpy as np

from dimsweep.sweeper.config.roles import default_role, is_plan_key
from dimsweep.sweeper.config.study import Role
from dimsweep.sweeper.ledger.record import WORKLOAD, CellRecord, StudyRecord, flatten
from dimsweep.sweeper.objective import Objective
from dimsweep.sweeper.report import describe, naming, words
from dimsweep.sweeper.report.naming import short_keys
from dimsweep.sweeper.report.sentences import FACTORS, FIRST_OF
from dimsweep.sweeper.report.summary import CellSummary, Floats, value_of

# What scenarios are that differ in one thing: the model, what may be spent, what things cost.
_NOUNS = {WORKLOAD: "workloads", "space": "budgets", "cost": "prices"}
SPENT = ("space", "cost")
LEVEL = 5e-4  # losses that differ by less are equal


@dataclass(frozen=True)
class Decisions:
    """The D decisions of a study in its S scenarios, each given by the values of its axes."""

    objective: Objective
    decisions: tuple[Mapping[str, str], ...]
    scenarios: tuple[Mapping[str, str], ...]
    #: The summary of each pair with complete trials.
    cells: Mapping[tuple[int, int], CellSummary]
    #: Loss (D, S) of the best design for a scenario, or of a portfolio's shared split; NaN if
    #: nothing is complete.
    losses: Floats
    #: Weight of each scenario (S,).
    share: Floats
    #: Whether the study's roles give weights.  If not, decisions are ranked by their worst regret.
    is_weighted: bool = False

    @classmethod
    def from_cells(
        cls,
        study: StudyRecord,
        found: Sequence[CellSummary],
        weights: Mapping[str, float],
    ) -> Self:
        """Build the decisions and scenarios from the cells with complete trials, ``found``.

        ``weights`` are the weights of a portfolio's workloads, by axis value.
        """
        pairs = {
            cell.cell.cell: (
                tuple(study.decision(cell.cell.coordinates).items()),
                tuple(study.scenario(cell.cell.coordinates).items()),
            )
            for cell in found
        }
        decisions = list(dict.fromkeys(decision for decision, _ in pairs.values()))
        scenarios = list(dict.fromkeys(scenario for _, scenario in pairs.values()))
        losses = np.full((len(decisions), len(scenarios)), np.nan)
        cells = {}
        rows = {decision: i for i, decision in enumerate(decisions)}
        columns = {scenario: i for i, scenario in enumerate(scenarios)}
        for cell in found:
            decision, scenario = pairs[cell.cell.cell]
            place = rows[decision], columns[scenario]
            loss = cell.objective.loss(cell.objective.value(cell.named))
            if not losses[place] <= loss:  # of several plans that a network may have the best
                cells[place], losses[place] = cell, loss
        by_axis = {WORKLOAD: weights, **study.weights} if weights else study.weights
        share = np.array([_weight(dict(each), by_axis) for each in scenarios])
        if not share.sum():  # nothing is complete of all that counts
            share = np.ones_like(share)
        return cls(
            objective=found[0].objective,
            decisions=tuple(map(dict, decisions)),
            scenarios=tuple(map(dict, scenarios)),
            cells=cells,
            losses=losses,
            share=share / share.sum(),
            is_weighted=bool(study.weights),
        )

    def name(self, decision: int) -> str:
        """Return a decision's name for use in a sentence."""
        return naming.coordinates_of(self.decisions[decision])

    def name_change(self, decision: int, other: int, *, as_apposition: bool = False) -> str:
        """Return a decision's name for a sentence that has already named the decision ``other``."""
        names = self.decisions[decision], self.decisions[other]
        return naming.name_change(*names, as_apposition=as_apposition)

    def scene(self, scenario: int) -> str:
        """Return a scenario's name for use in a sentence."""
        return naming.coordinates_of(self.scenarios[scenario])

    @property
    def first_scenario(self) -> str:
        """Suffix that limits a statement to the first scenario of the answer, as text."""
        return FIRST_OF(scenario=self.scene(self.places[0]), scenarios=self.count)

    @property
    def count(self) -> str:
        """Number and kind of the scenarios, as text: "4 workloads"."""
        # A key of the workload, such as its batch, does not make another workload.
        varied = {a.split(".")[0] if a.split(".")[0] in SPENT else a for a in self.scenarios[0]}
        noun = _NOUNS.get(varied.pop(), "scenarios") if len(varied) == 1 else "scenarios"
        return f"{len(self.scenarios)} {noun}"

    def best_cell(self, scenario: int) -> CellSummary:
        """Return the cell of the best decision in a scenario."""
        return self.cells[self.order(scenario)[0], scenario]

    def order(self, scenario: int) -> list[int]:
        """Return the decisions with complete trials in a scenario, the best first."""
        losses = self.losses[:, scenario]
        ranked = np.argsort(losses, kind="stable")
        return ranked[~np.isnan(losses[ranked])].tolist()

    def runner_up(self, scenario: int) -> tuple[int, float] | None:
        """Return the second-best decision in a scenario and its regret; None without one.

        The two designs share most of the model's error, so the regret is more certain than the
        times.
        """
        order = self.order(scenario)
        if len(order) < 2:
            return None
        return order[1], float(self.regrets[order[1], scenario])

    @cached_property
    def regrets(self) -> Floats:
        """Relative loss of each decision against the best one in each scenario (D, S)."""
        least = np.nanmin(self.losses, axis=0)
        return np.asarray(self.losses / np.where(least == 0, np.nan, least) - 1)

    @cached_property
    def _counted(self) -> Floats:
        counts = self.share > 0
        return np.where(np.isnan(self.losses), np.inf, self.regrets)[:, counts]

    @cached_property
    def worst_regrets(self) -> Floats:
        """Largest regret of each decision over the scenarios (D,); infinite if it fails in one."""
        return self._counted.max(axis=1)

    @cached_property
    def mean_regrets(self) -> Floats:
        """Mean regret of each decision (D,), weighted by scenario."""
        return np.asarray(self._counted @ self.share[self.share > 0])

    @cached_property
    def ranking(self) -> list[int]:
        """Numbers of the decisions, the best first: by worst regret, then by mean regret.

        With weights of scenarios, the mean regret is compared before the worst one.
        """
        runs = np.isfinite(self._counted).sum(axis=1)
        then, first = (
            (self.worst_regrets, self.mean_regrets)
            if self.is_weighted
            else (self.mean_regrets, self.worst_regrets)
        )
        return np.lexsort((then, first, -runs)).tolist()

    def worst_scene(self, decision: int) -> str:
        """Return the name of the scenario with a decision's largest regret.

        Zero weights are skipped.
        """
        regrets = np.where(self.share > 0, self.regrets[decision], -np.inf)
        return self.scene(int(regrets.argmax()))

    def chosen(self) -> list[CellSummary]:
        """Return the cells, one per scenario, of the decision with the least regret overall."""
        return [self.cells[self.ranking[0], s] for s in self.places]

    @property
    def places(self) -> list[int]:
        """Indices of the scenarios in which the chosen decision has complete trials."""
        return [s for s in range(len(self.scenarios)) if (self.ranking[0], s) in self.cells]


def _weight(scenario: Mapping[str, str], weights: Mapping[str, Mapping[str, float]]) -> float:
    """Return the weight of a scenario: the product of the weights of its values."""
    return math.prod(own.get(scenario.get(axis, ""), 1.0) for axis, own in weights.items())


class Question(StrEnum):
    """A kind of question; each has its own sentence in the report."""

    SPLIT = "split"  # how to divide bandwidth over the dimensions
    PLAN = "plan"  # how to run a model on an existing machine
    NETWORK = "network"  # which of several networks, chips or libraries
    PRICE = "price"  # what one design is at several prices, or budgets
    FRONT = "front"  # the trade-off of two objectives
    SCENARIOS = "scenarios"  # how one design fares in several scenarios


def question(decisions: Decisions) -> Question:
    """Classify a study's question by its numbers of objectives, decisions and scenarios."""
    cells = list(decisions.cells.values())
    if len(cells[0].objectives) > 1:
        return Question.FRONT
    decided = _decided(decisions, cells[0])
    if decided and all(map(is_plan_key, decided)):
        return Question.PLAN
    if decided:
        return Question.NETWORK
    if len(decisions.scenarios) == 1:
        return Question.SPLIT
    varied = {axis.split(".")[0] for axis in decisions.scenarios[0]}
    return Question.PRICE if varied <= set(SPENT) else Question.SCENARIOS


def _decided(decisions: Decisions, cell: CellSummary) -> list[str]:
    """Return the keys whose values the study chooses; [] if it only splits bandwidth."""
    axes = list(decisions.decisions[0]) if len(decisions.decisions) > 1 else []
    return [*axes, *cell.parameters]


BASELINE = "the baseline"


@dataclass(frozen=True)
class Factors:
    """Speed ratios of a ``subject`` to a ``reference``, over pairs of otherwise equal cells."""

    subject: str
    reference: str
    scenarios: tuple[str, ...]  # of each pair
    values: tuple[float, ...]  # how many times better, for each pair

    @property
    def claim(self) -> str:
        """Sentence with the range of the factors, without a full stop."""
        n, scenes = len(self.values), len(set(self.scenarios))
        over = f" over {n} scenarios" if n == scenes else f" over {n} pairs"
        if 1 < scenes < n:
            over = f"{over} in {scenes} scenarios"
        return FACTORS(
            subject=self.subject,
            reference=self.reference,
            ratios=words.ratios(self.values),
            over=over if n > 1 else "",
        )

    @property
    def ranges(self) -> list[tuple[str, float, float, int]]:
        """Minimum and maximum factor and number of pairs, for each scenario by name."""
        pairs = sorted(zip(self.scenarios, self.values, strict=True), key=lambda pair: pair[0])
        own = {s: [v for _, v in each] for s, each in groupby(pairs, key=lambda pair: pair[0])}
        first = dict.fromkeys(self.scenarios)
        return [(s, min(own[s]), max(own[s]), len(own[s])) for s in first]


def factors(decisions: Decisions) -> list[Factors]:
    """Return the factors of each decision against the baseline.

    Without a baseline: of each two-valued decision's second value against its first.
    """
    if any(c.reference and c.reference.is_common for c in decisions.cells.values()):
        return _compare_with_baseline(decisions)
    axes = list(decisions.decisions[0])
    found = [_compare_values(decisions, axis) for axis in axes]
    return [each for each in found if each is not None]


def _compare_with_baseline(decisions: Decisions) -> list[Factors]:
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
            own = describe.noun(cell) if cell.for_all is None else "one split for all"
            name = decisions.name(d) or f"the {own}"
            found.append(Factors(name, BASELINE, scenes, values))
    return found


def _compare_values(decisions: Decisions, axis: str) -> Factors | None:
    """Compare the second value of a decision axis with its first, in pairs of cells.

    The cells of a pair differ only in this axis. It is None without pairs, and unless the axis has
    two values.
    """
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
    """Return the ratio of ``other``'s loss to ``cell``'s, both of their named rows."""
    own, its = (c.objective.loss(c.objective.value(c.named)) for c in (cell, other))
    return float(its / own) if own else float("nan")


_NAMED = 3  # keys that distinguish scenarios of one workload
_WORKLOAD = "workload"


def scenes(studies: Sequence[StudyRecord]) -> list[dict[int, str]]:
    """Return, for each study, the scenario of each of its cells, by cell number.

    A scenario is given by a cell's assumptions: the model with its batch, every axis that is a
    scenario in any of the studies, and, if iterations are compared, the work of an iteration. Cells
    with equal assumptions have equal names.
    """
    axes = list(dict.fromkeys(axis for study in studies for axis in study.scenarios))
    decided = {
        name for each in studies for name, role in each.roles.items() if role != Role.SCENARIO
    }
    assumed = {
        (i, cell.cell): _assumed(study, cell, axes, decided)
        for i, study in enumerate(studies)
        for cell in study.cells
    }
    cells = {(i, cell.cell): cell for i, study in enumerate(studies) for cell in study.cells}
    labels = {place: cells[place].workload for place in assumed}
    for place in _find_unequal_work(studies, cells, assumed):
        assumed[place] |= {"iteration": cells[place].work or ""}
    for name in dict.fromkeys(labels.values()):
        same_name = {place: assumed[place] for place, own in labels.items() if own == name}
        labels |= _label_cells(name, same_name)
    return [{cell.cell: labels[i, cell.cell] for cell in s.cells} for i, s in enumerate(studies)]


def _find_unequal_work(
    studies: Sequence[StudyRecord],
    cells: Mapping[tuple[int, int], CellRecord],
    assumed: Mapping[tuple[int, int], dict[str, str]],
) -> list[tuple[int, int]]:
    """Return pairs (study, cell) with equal assumptions whose iterations do unequal work.

    Empty unless the first objective compares iterations; older records do not state the work.
    """
    scene = {place: (cell.workload, *assumed[place].items()) for place, cell in cells.items()}
    works: dict[object, set[str | None]] = {}
    for place, cell in cells.items():
        works.setdefault(scene[place], set()).add(cell.work)
    return [
        place
        for place in cells
        if len(works[scene[place]] - {None}) > 1 and studies[place[0]].objectives[0].of_iterations
    ]


def _assumed(
    study: StudyRecord, cell: CellRecord, axes: Sequence[str], decided: set[str]
) -> dict[str, str]:
    """Return the assumptions under which a cell's designs compete, by key."""
    config = study.config_of(cell)
    own = {
        name: str(value)
        for name, value in flatten({_WORKLOAD: config.get(_WORKLOAD, {})}).items()
        if default_role(name) is Role.SCENARIO and name not in decided
    }
    for axis in axes:
        if axis.split(".")[0] != _WORKLOAD:
            value = cell.coordinates.get(axis, value_of(config, axis))
            own[axis] = "" if isinstance(value, Mapping) or value is None else str(value)
    return own


def _label_cells(
    name: str, assumed: Mapping[tuple[int, int], dict[str, str]]
) -> dict[tuple[int, int], str]:
    """Return a label for each cell of one workload: its name, and the assumptions that differ."""
    keys = dict.fromkeys(key for own in assumed.values() for key in own)
    differ = [key for key in keys if len({own.get(key) for own in assumed.values()}) > 1]
    shorts = dict(zip(differ, short_keys(differ), strict=True))
    names: dict[tuple[str | None, ...], str] = {}
    for own in assumed.values():
        values = tuple(own.get(key) for key in differ)
        values_text = [f"{shorts[k]} {v}" for k, v in zip(differ, values, strict=True) if v][
            :_NAMED
        ]
        label = ", ".join([name, *values_text])
        if values not in names:  # labels of different values are numbered
            twins = sum(each.split(" (")[0] == label for each in names.values())
            names[values] = f"{label} ({twins + 1})" if twins else label
    return {place: names[tuple(own.get(key) for key in differ)] for place, own in assumed.items()}
