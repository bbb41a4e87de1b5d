"""All that a report tells of a study, and its finding in one sentence."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import pandas as pd

from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.stored import Stored
from dimsweep.sweeper.report import describe, naming, sentences, words
from dimsweep.sweeper.report.causes import frequent_errors
from dimsweep.sweeper.report.decisions import LEVEL, Decisions, Question, factors, question
from dimsweep.sweeper.report.portfolio import PortfolioSummary, summarise_portfolios
from dimsweep.sweeper.report.proof import moved, rival, sentence, ties
from dimsweep.sweeper.report.remarks import idle_axes, no_baseline, tight, unsold
from dimsweep.sweeper.report.summary import CellSummary, summaries_of, without_baseline
from dimsweep.sweeper.report.trials import Overview, Rows
from dimsweep.sweeper.study.ranking import physical


def headline(decisions: Decisions) -> str:
    """Return the finding of a study in one sentence: whose best, against what, over which
    scenarios."""
    several = len(decisions.decisions) > 1, len(decisions.scenarios) > 1
    if several == (True, True):
        return _of_regrets(decisions)
    if several == (True, False):
        return _of_decisions(decisions)
    if several == (False, True):
        return _of_scenarios(decisions)
    (cell,) = decisions.cells.values()
    finding = describe.finding(cell)
    if question(decisions) is Question.PLAN and cell.parameters:  # the plan is the answer
        name = f"the {describe.best_name(cell)}"
        finding = finding.replace(name, f"{name} ({naming.searched(cell, cell.best)})", 1)
    return f"{_who([cell])}{finding}"


def _of_decisions(decisions: Decisions) -> str:
    """Which decision is best in the one scenario, and how near the next one is."""
    best, gain = decisions.best(0), describe_gain(decisions.best(0))
    return sentences.IS_BEST(
        who=_who(list(decisions.cells.values())),
        name=decisions.name(decisions.order(0)[0]),
        most=describe.most(best),
        gained="" if gain is None else f", {gain}",
        values=describe.values_of(best, best.best),
        next=_next(decisions),
    )


def _next(decisions: Decisions) -> str:
    found = decisions.behind(0)
    if found is None:
        return ""
    other, share = found
    name = decisions.beside(other, decisions.order(0)[0])
    if share < LEVEL:
        alike = sum(decisions.regrets[i, 0] < LEVEL for i in decisions.order(0)) - 2
        more = sentences.AND_MORE(n=alike) if alike > 0 else ""
        return sentences.AS_GOOD_TOO(
            name=name, more=more, are="are" if more else "is", cheaper=_cheaper(decisions)
        )
    cell = decisions.cells[other, 0]
    which = "runner-up" if _is_next(cell) else "next simulated design"
    behind = describe.behind_best(share, cell, cell.best)
    return sentences.NEXT(which=which, name=name, behind=behind)


def _is_next(cell: CellSummary) -> bool:
    """Return whether no design can be between the best one and a ``cell``'s; among networks and
    plans only some designs are simulated, and a proof says which one is next."""
    proof = cell.study.proof
    if not cell.study.is_certified or (proof is not None and proof.cells == proof.simulated):
        return True
    rival = None if proof is None else proof.rival
    if rival is None or rival.is_open or rival.by is None:
        return False
    return physical(rival.by) == physical(cell.cell.coordinates)


def _cheaper(decisions: Decisions) -> str:
    """Which of the decisions that are as good as the best costs least, and how much less; empty
    where none costs noticeably less, or costs are not known."""
    first, *others = decisions.order(0)
    alike = [i for i in others if decisions.regrets[i, 0] < LEVEL]
    costs = {i: decisions.cells[i, 0].best.get("cost_usd") for i in (first, *alike)}
    if not decisions.cells[first, 0].priced or any(map(pd.isna, costs.values())):
        return ""
    least = min(alike, key=costs.__getitem__)
    less = 1 - costs[least] / costs[first]
    if less < words.NOTICEABLE - 1:
        return ""
    who = "" if alike == [least] else f"{decisions.beside(least, first)} "
    return sentences.CHEAPER(who=who, share=words.fine_percent(less))


def _of_scenarios(decisions: Decisions) -> str:
    """How the best design of each scenario compares with the reference there."""
    found, over = list(decisions.cells.values()), sentences.OVER(scenarios=decisions.count)
    names, objective = f"{describe.best_name(found[0])}s", found[0].objective
    own_gains = {scene: cell.gain(objective) for (_, scene), cell in decisions.cells.items()}
    gains = {scene: gain for scene, gain in own_gains.items() if gain is not None}
    reference = next((cell.reference.name for cell in found if cell.reference), "")
    if not gains:
        values = sorted(objective.of(cell.best) for cell in found)
        low, high = objective.show(values[0]), objective.show(values[-1])
        return sentences.RANGE_FROM(over=over, names=names, low=low, high=high)
    if len(gains) < len(found):
        over = sentences.OVER_SOME(over=over, n=len(gains))
    least, largest = min(gains.values()), max(gains.values())
    if largest < words.NOTICEABLE:
        beaten = least >= 1 / words.NOTICEABLE
        template = sentences.OVER_NEARLY if beaten else sentences.OVER_NOTHING_BEATS
        return template(over=over, reference=reference)
    gained = words.gained(list(gains.values()), objective, reference)
    text = sentences.OVER_GAINED(over=over, names=names, gained=gained)
    if words.ratio(least) == words.ratio(largest):
        return text
    most = max(own_gains, key=lambda scene: own_gains[scene] or 0.0)
    return sentences.MOST_IN(finding=text, scenario=decisions.scene(most))


def _of_regrets(decisions: Decisions) -> str:
    """Which decision loses least over all scenarios, what it gains, and how near the next is."""
    least, over = decisions.ranking[0], sentences.OVER(scenarios=decisions.count)
    name, worst, objective = (
        decisions.name(least),
        float(decisions.worst[least]),
        decisions.objective,
    )
    cells, found = decisions.chosen(), factors(decisions)
    is_pair = len(decisions.decisions) == 2 and len(found) == 1
    if is_pair and (decisions.worst < math.inf).all() and not decisions.is_weighted:
        (one,) = found
        searched = cells[0].split_varies or cells[0].parameters
        each = sentences.EACH_ITS_BEST(noun=describe.noun(cells[0])) if searched else ""
        gained = words.gained(one.values, objective, one.reference)
        return sentences.OF_A_PAIR(over=over, subject=one.subject, gained=gained, each=each)
    if not worst < math.inf:
        n, scenarios = len(cells), len(decisions.scenarios)
        return sentences.NONE_RAN_EVERYWHERE(name=name, n=n, scenarios=scenarios)
    each = "each" if decisions.share.all() else "each that counts"
    if worst <= 0:
        most = describe.most(cells[0])
        text = sentences.BEST_IN_EACH(over=over, name=name, most=most, each=each)
    elif worst < LEVEL:
        text = sentences.AS_GOOD_AS_EACH(over=over, name=name, each=each)
    else:
        text = sentences.LOSES_LEAST(
            over=over,
            name=name,
            most=f"{describe_loss(decisions, least)}{words.measured_in(objective)}",
            each=each,
            scenario=decisions.worst_scene(least),
        )
    gains = [gain for c in cells if (gain := c.gain(objective, c.named)) is not None]
    baseline, gained, next_one = _baseline(cells), "", ""
    if baseline and gains:
        gained = sentences.IT_IS(gained=words.gained(gains, objective, baseline))
    if len(decisions.ranking) > 1:
        other, behind = decisions.ranking[1], sentences.NOT_IN_ALL()
        if decisions.worst[other] < math.inf:
            behind = sentences.BEHIND(share=describe_loss(decisions, other))
        next_one = sentences.NEXT_IS(name=decisions.name(other), behind=behind)
    return sentences.join(text, gained, next_one)


def describe_loss(decisions: Decisions, decision: int) -> str:
    """Return what a decision that runs everywhere loses: at most, and, where scenarios have
    weights, in their mean."""
    most = sentences.AT_MOST(loss=words.loss(float(decisions.worst[decision])))
    if not decisions.is_weighted:
        return most
    mean = words.loss(float(decisions.mean[decision]))
    return sentences.WEIGHTED_MEAN(loss=mean, most=most)


def describe_gain(cell: CellSummary) -> str | None:
    """Return what the trial that the cell's answer names gains over the baseline; None without one.

    Cells that compete each have an equal split of their own, which is no common reference.
    """
    gain, name = cell.gain(cell.objective, cell.named), _baseline([cell])
    return words.gained([gain], cell.objective, name) if gain is not None and name else None


def _baseline(cells: list[CellSummary]) -> str:
    """The name of the study's baseline where a cell has it to compare with."""
    return next((c.reference.name for c in cells if c.reference and c.reference.is_common), "")


def _who(cells: list[CellSummary]) -> str:
    """The workload and the NPUs, where they are the same for all."""
    names = {(cell.cell.workload, cell.cell.n_npus) for cell in cells}
    workloads = {name for name, _ in names}
    if len(workloads) > 1:
        return ""
    if len(names) > 1:
        return f"{workloads.pop()}: "
    ((workload, n_npus),) = names
    return sentences.WHO(workload=workload, npus=n_npus)


@dataclass(frozen=True)
class Report:
    """What a study found.

    ``seen`` is what one look through its rows tells.  ``summaries`` has an entry for each cell, and
    ``portfolios`` one for each portfolio that is searched at least in part.  ``idle`` are the axes
    whose values made no difference.  ``without_baseline`` are the scenarios in which the baseline
    cannot be simulated, each with the cause.
    """

    study: StudyRecord
    seen: Overview
    summaries: list[CellSummary]
    portfolios: list[PortfolioSummary]
    idle: list[str]
    without_baseline: list[tuple[Mapping[str, str], str]] = field(default_factory=list)

    @classmethod
    def of(cls, rows: pd.DataFrame | Stored | Rows, study: StudyRecord) -> Self:
        """The report of a study whose ledger has ``rows``: a table of all of them, or its files,
        of which some columns are read at a time.

        Raises :class:`DimsweepError` when no trial is complete.
        """
        seen = Overview.of(Rows.of(rows), study)
        summaries = summaries_of(seen, study)
        portfolios = summarise_portfolios(summaries, study)
        summaries, portfolios = _with_answers(summaries, portfolios)
        idle, missing = idle_axes(seen.rows, study), without_baseline(seen.beside, study)
        return cls(study, seen, summaries, portfolios, idle, missing)

    @classmethod
    def read(cls, folder: Place) -> Self:
        """The report of the study in ``folder``; raises :class:`DimsweepError` likewise, and if
        there is none, or files of it are damaged."""
        stored = Stored(folder)
        return cls.of(stored, stored.study)

    @property
    def tried(self) -> list[CellSummary]:
        """The cells that have complete trials."""
        return [summary for summary in self.summaries if summary.found]

    @property
    def found(self) -> list[CellSummary]:
        """The same; of one network for several workloads their best plans on it alone, and of
        networks each design once, whatever names its blocks have."""
        if self.study.is_shared and self.portfolios:
            return list(self.portfolios[0].cells)
        return _once(self.tried) if self.study.is_certified else self.tried

    @property
    def n_broken(self) -> int:
        """How many trials failed or are infeasible."""
        return sum(summary.trials.n_broken for summary in self.summaries)

    @cached_property
    def causes(self) -> list[tuple[str, int]]:
        """Why they did, and how many, the most frequent cause first."""
        return frequent_errors(self.seen.broken()) if self.n_broken else []

    @cached_property
    def decisions(self) -> Decisions:
        """What competes with what, and where."""
        return Decisions.of(self.study, self.found, self.portfolios)

    @cached_property
    def chosen(self) -> list[tuple[CellSummary, pd.Series]]:
        """The cells of the answer, each with the row of what the answer names there: its best
        trial, or, in a portfolio, the one split for all."""
        return [(cell, cell.named) for cell in self.decisions.chosen()]

    @property
    def question(self) -> Question:
        """What the study asks."""
        return question(self.decisions)

    @property
    def headline(self) -> str:
        """The finding of the study, which is its portfolio's if it has one; without full stop."""
        if len(self.portfolios) == 1:
            return self.portfolios[0].headline()
        return headline(self.decisions)

    @property
    def effort(self) -> str:
        """What was simulated, and how, in a sentence without full stop; of a sweep that has not
        come to its end also what was planned."""
        return describe.effort(self.study, self.summaries)

    @property
    def proof(self) -> str:
        """How near the best of all networks and plans this is; without a full stop."""
        return sentence(self.study)

    @property
    def ties(self) -> str:
        """Which of all networks and plans come next to the best; without a full stop."""
        proof = self.study.proof
        if proof is None or proof.front or self.study.is_shared or not self.found:
            return ""
        if proof.rival is not None:
            return rival(proof, self.ordered[0].cell.coordinates)
        return ties(self.study.objectives[0], self.ordered)

    @property
    def ordered(self) -> list[CellSummary]:
        """The cells that have complete trials, that of the best one first, where they compete."""
        objective = self.study.objectives[0]
        if self.study.is_shared:
            return self.found
        return sorted(self.found, key=lambda cell: objective.sign * objective.of(cell.best))

    @property
    def what_changes(self) -> tuple[str, str]:
        """What would change the answer among networks and plans, and what then wins."""
        if self.study.proof is None or not self.chosen:
            return "", ""
        return moved(self.study.proof, self.chosen[0][0].cell.coordinates)

    @property
    def notes(self) -> list[str]:
        """Where the baseline cannot be simulated, which best designs barely fit the memory, what of
        them no part offers, and the axes that made no difference."""
        idle = [sentences.IDLE(axis=axis) for axis in self.idle]
        missing = no_baseline(self.without_baseline)
        return [*missing, *tight(self.found), *unsold(self.found), *idle]

    @property
    def remarks(self) -> list[str]:
        """What the design rules found before the study, and its notes."""
        return [*self.study.warnings, *self.notes]


def _once(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Return the cells without those that are an earlier one under another name."""
    found: dict[object, CellSummary] = {}
    for cell in cells:
        values = tuple(str(cell.best.get(name)) for name in ("time_s", "cost_usd", "memory_bytes"))
        found.setdefault((*physical(cell.cell.coordinates).items(), values), cell)
    return list(found.values())


def _with_answers(
    summaries: list[CellSummary], portfolios: list[PortfolioSummary]
) -> tuple[list[CellSummary], list[PortfolioSummary]]:
    """The same, in which the cells of each portfolio know the row of its one split for all."""
    rows = {
        cell.cell.cell: row
        for one in portfolios
        for cell, row in zip(one.cells, one.at_best(), strict=True)
    }
    summaries = [replace(s, for_all=rows.get(s.cell.cell)) for s in summaries]
    by_number = {s.cell.cell: s for s in summaries}
    return summaries, [
        replace(one, cells=[by_number[cell.cell.cell] for cell in one.cells]) for one in portfolios
    ]
