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
from dimsweep.sweeper.objective import Objective
from dimsweep.sweeper.report import naming, words
from dimsweep.sweeper.report.causes import frequent_errors
from dimsweep.sweeper.report.decisions import LEVEL, Decisions, Question, factors, question
from dimsweep.sweeper.report.portfolio import PortfolioSummary, summarise_portfolios
from dimsweep.sweeper.report.proof import moved, rival, sentence, ties
from dimsweep.sweeper.report.remarks import idle_axes, tight, unsold
from dimsweep.sweeper.report.summary import CellSummary, summaries_of, without_baseline
from dimsweep.sweeper.report.trials import Overview, Rows
from dimsweep.sweeper.study.ranking import physical


def headline(decisions: Decisions) -> str:
    """The sentence, without a full stop."""
    several = len(decisions.decisions) > 1, len(decisions.scenarios) > 1
    if several == (True, True):
        return _of_regrets(decisions)
    if several == (True, False):
        return _of_decisions(decisions)
    if several == (False, True):
        return _of_scenarios(decisions)
    (cell,) = decisions.cells.values()
    return f"{_who([cell])}{_of_one(decisions, cell)}"


def _of_one(decisions: Decisions, cell: CellSummary) -> str:
    """The finding of one cell, which names the plan where it is the answer."""
    text = words.finding(cell)
    if question(decisions) is Question.PLAN and cell.parameters:
        name = words.best_name(cell)
        return text.replace(f"the {name}", f"the {name} ({naming.searched(cell, cell.best)})", 1)
    return text


def _of_decisions(decisions: Decisions) -> str:
    """Which decision is best in the one scenario, and how near the next one is."""
    best, name = decisions.best(0), decisions.name(decisions.order(0)[0])
    text = f"{_who(list(decisions.cells.values()))}{name} is {words.most(best)}"
    if (gain := describe_gain(best)) is not None:
        text += f", {gain}"
    text += f" ({words.values_of(best, best.best)})"
    return text + _next(decisions)


def _next(decisions: Decisions) -> str:
    found = decisions.behind(0)
    if found is None:
        return ""
    other, share = found
    name = decisions.beside(other, decisions.order(0)[0])
    if share < LEVEL:
        alike = sum(decisions.regrets[i, 0] < LEVEL for i in decisions.order(0)) - 2
        more = f" and {alike} more" if alike > 0 else ""
        return f"; {name}{more} {'are' if more else 'is'} as good{_cheaper(decisions)}"
    cell = decisions.cells[other, 0]
    which = "runner-up" if _is_next(cell) else "next simulated design"
    return f"; the {which}, {name}, is {words.behind_best(share, cell, cell.best)}"


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
    """Which of those that are as good as the best costs least, and how much less; empty where none
    costs noticeably less, or costs are not known."""
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
    return f" and {who}costs {words.fine_percent(less)} less"


def _of_scenarios(decisions: Decisions) -> str:
    """How the best design of each scenario compares with the reference there."""
    found, over = list(decisions.cells.values()), f"Over {decisions.count}"
    names, objective = f"{words.best_name(found[0])}s", found[0].objective
    gains = [gain for cell in found if (gain := cell.gain(objective)) is not None]
    reference = next((cell.reference.name for cell in found if cell.reference), "")
    if not gains:
        values = sorted(objective.of(cell.best) for cell in found)
        low, high = objective.show(values[0]), objective.show(values[-1])
        return f"{over}, the {names} found range from {low} to {high}"
    where = over if len(gains) == len(found) else f"{over}, in {len(gains)} that compare"
    if max(gains) < words.NOTICEABLE:
        if min(gains) < 1 / words.NOTICEABLE:
            return f"{where}, nothing found beats {reference}"
        return f"{where}, {reference} is within 0.5% of the best found"
    most = decisions.scene(_most(decisions, objective))
    text = f"{where}, the {names} are {words.gained(gains, objective, reference)}"
    return text if words.ratio(min(gains)) == words.ratio(max(gains)) else f"{text} (most: {most})"


def _most(decisions: Decisions, objective: Objective) -> int:
    """The scenario in which the most is gained."""
    gains = {s: cell.gain(objective) or 0.0 for (_, s), cell in decisions.cells.items()}
    return max(gains, key=gains.__getitem__)


def _of_regrets(decisions: Decisions) -> str:
    """Which decision loses least over all scenarios, what it gains, and how near the next is."""
    least, over = decisions.ranking[0], f"Over {decisions.count}"
    worst = float(decisions.worst[least])
    objective = decisions.objective
    found = factors(decisions)
    is_pair = len(decisions.decisions) == 2 and len(found) == 1
    both_run = bool((decisions.worst < math.inf).all())
    if is_pair and both_run and not decisions.is_weighted:
        (one,) = found
        gained = words.gained(one.values, objective, one.reference)
        return f"{over}, {one.subject} is {gained}{_each_its_own(decisions)}"
    if not worst < math.inf:
        cells = decisions.chosen()
        ran = f"{len(cells)} of {len(decisions.scenarios)} scenarios"
        return f"No decision ran in all scenarios: {decisions.name(least)} ran in most, {ran}"
    name, each = decisions.name(least), "each" if decisions.share.all() else "each that counts"
    if worst <= 0:
        text = f"{over}, {name} is {words.most(decisions.chosen()[0])} in {each}"
    elif worst < LEVEL:
        text = f"{over}, {name} is as good as the best of {each}"
    else:
        place = decisions.worst_scene(least)
        most = f"{describe_loss(decisions, least)}{words.measured_in(objective)}"
        text = f"{over}, {name} loses least: {most} against the best of {each} ({place})"
    cells = decisions.chosen()
    gains = [gain for c in cells if (gain := c.gain(objective, c.named)) is not None]
    baseline = _baseline(decisions.chosen())
    if baseline and gains:
        text += f"; it is {words.gained(gains, objective, baseline)}"
    if len(decisions.ranking) > 1:
        other = decisions.ranking[1]
        runs = decisions.worst[other] < math.inf
        told = f"{describe_loss(decisions, other)} behind" if runs else "not in all of them"
        text += f"; next is {decisions.name(other)}, {told}"
    return text


def describe_loss(decisions: Decisions, decision: int) -> str:
    """What a decision that runs everywhere loses: at most, and, where scenarios have weights, in
    their mean."""
    most = f"at most {words.loss(float(decisions.worst[decision]))}"
    if not decisions.is_weighted:
        return most
    return f"{words.loss(float(decisions.mean[decision]))} in the weighted mean, {most}"


def describe_gain(cell: CellSummary) -> str | None:
    """What the trial that the cell's answer names gains over the baseline; None without one.

    Cells that compete each have an equal split of their own, which is no common reference.
    """
    gain, name = cell.gain(cell.objective, cell.named), _baseline([cell])
    if gain is None or not name:
        return None
    return words.gained([gain], cell.objective, name)


def _each_its_own(decisions: Decisions) -> str:
    """That designs are compared of which a search chose the rest, for each on its own."""
    cell = decisions.chosen()[0]
    searched = cell.split_varies or cell.parameters
    return f", each with its own best {words.noun(cell)}" if searched else ""


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
    return f"{workload} on {n_npus:,} NPUs: "


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
        complete = sum(summary.trials.n_complete for summary in self.summaries)
        samplers = ", ".join(sorted(set().union(*(each.searchers for each in self.summaries))))
        if self.study.is_certified:
            samplers = "bounds, best first"
        return (
            f"{complete:,} of {complete + self.n_broken:,} trials complete"
            + words.unfinished(self.study, [s for s in self.summaries if s.begun])
            + f", searched by {samplers}"
            + ("" if self.study.is_certified else words.stopped_early(self.summaries))
            + words.simulated_again(self.summaries)
            + words.shared(self.summaries)
        )

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
        missing = words.no_baseline(self.without_baseline)
        return [*missing, *tight(self.found), *unsold(self.found), *map(words.idle, self.idle)]

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
