"""The report of a study: its findings as data, and the main finding in one sentence."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, Self

import pandas as pd

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.record import StudyRecord
from dimsweep.sweeper.ledger.stored import Stored
from dimsweep.sweeper.report import describe, naming, sentences, words
from dimsweep.sweeper.report.causes import frequent_errors
from dimsweep.sweeper.report.charts import RegretMatrix
from dimsweep.sweeper.report.decisions import LEVEL, Decisions, Question, factors, question
from dimsweep.sweeper.report.remarks import idle_axes, no_baseline, tight, unsold
from dimsweep.sweeper.report.summary import CellSummary, summaries_of, without_baseline
from dimsweep.sweeper.report.trials import Overview, Rows
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.study.restore import load_design
from dimsweep.sweeper.study.rules import answer_warnings, merge_warnings
from dimsweep.sweeper.table import Table

_CHECKED = 8  # scenarios whose answer the design rules check


def headline(report: "Report") -> str:
    """Return one sentence on a study: the best design, the reference, and the scenarios."""
    decisions = report.decisions
    several = len(decisions.decisions) > 1, len(decisions.scenarios) > 1
    if several == (True, True):
        return _compare_regrets(decisions)
    if several == (True, False):
        return _compare_decisions(report)
    if several == (False, True):
        return _compare_scenarios(decisions)
    (cell,) = decisions.cells.values()
    finding = describe.finding(cell)
    if question(decisions) is Question.PLAN and cell.parameters:  # the plan is the answer
        name = f"the {describe.best_name(cell)}"
        finding = finding.replace(name, f"{name} ({naming.searched(cell, cell.best)})", 1)
    return f"{_name_subject([cell])}{finding}"


def _compare_decisions(report: "Report") -> str:
    """Return a sentence on the best decision in the one scenario, and the second-best's loss."""
    decisions = report.decisions
    best, gain = decisions.best_cell(0), describe_gain(decisions.best_cell(0))
    return sentences.IS_BEST(
        who=_name_subject(list(decisions.cells.values())),
        name=decisions.name(decisions.order(0)[0]),
        most=describe.superlative(best),
        gained="" if gain is None else f", {gain}",
        values=describe.values_of(best, best.best),
        next=_describe_next(report),
    )


def _describe_next(report: "Report") -> str:
    decisions = report.decisions
    found = decisions.runner_up(0)
    if found is None:
        return ""
    other, share = found
    first = decisions.order(0)[0]
    if share < LEVEL:
        name = decisions.name_change(other, first)
        ties = sum(decisions.regrets[i, 0] < LEVEL for i in decisions.order(0)) - 2
        more = sentences.AND_MORE(n=ties) if ties > 0 else ""
        return sentences.AS_GOOD_TOO(
            name=name, more=more, are="are" if more else "is", cheaper=_describe_cheaper(decisions)
        )
    cell = decisions.cells[other, 0]
    which = "runner-up" if report.is_next(cell) else "next simulated design"
    behind = describe.behind_best(share, cell, cell.best)
    name = decisions.name_change(other, first, as_apposition=True)
    return sentences.NEXT(which=which, name=name, behind=behind)


def _describe_cheaper(decisions: Decisions) -> str:
    """Return a sentence on the cheapest decision as good as the best, and its saving.

    It is "" without one.
    """
    first, *others = decisions.order(0)
    ties = [i for i in others if decisions.regrets[i, 0] < LEVEL]
    costs = {i: decisions.cells[i, 0].best.get("cost_usd") for i in (first, *ties)}
    if not decisions.cells[first, 0].priced or any(map(pd.isna, costs.values())):
        return ""
    least = min(ties, key=costs.__getitem__)
    less = 1 - costs[least] / costs[first]
    if less < words.NOTICEABLE - 1:
        return ""
    who = "" if ties == [least] else f"{decisions.name_change(least, first)} "
    return sentences.CHEAPER(who=who, share=words.fine_percent(less))


def _compare_scenarios(decisions: Decisions) -> str:
    """Return a sentence that compares the best design of each scenario with the reference."""
    found, over = list(decisions.cells.values()), sentences.OVER(scenarios=decisions.count)
    names, objective = f"{describe.best_name(found[0])}s", found[0].objective
    own_gains = {scene: cell.gain(objective) for (_, scene), cell in decisions.cells.items()}
    gains = {scene: gain for scene, gain in own_gains.items() if gain is not None}
    reference = next((cell.reference.name for cell in found if cell.reference), "")
    if not gains:
        values = sorted(objective.value(cell.best) for cell in found)
        low, high = objective.show(values[0]), objective.show(values[-1])
        return sentences.RANGE_FROM(over=over, names=names, low=low, high=high)
    if len(gains) < len(found):
        over = sentences.OVER_SOME(over=over, n=len(gains))
    least, largest = min(gains.values()), max(gains.values())
    if largest < words.NOTICEABLE:
        beaten = least >= 1 / words.NOTICEABLE
        template = sentences.OVER_NEARLY if beaten else sentences.OVER_NOTHING_BEATS
        return template(over=over, reference=reference)
    gained = words.format_gain(list(gains.values()), objective, reference)
    text = sentences.OVER_GAINED(over=over, names=names, gained=gained)
    if words.ratio(least) == words.ratio(largest):
        return text
    most = max(own_gains, key=lambda scene: own_gains[scene] or 0.0)
    return sentences.MOST_IN(finding=text, scenario=decisions.scene(most))


def _compare_regrets(decisions: Decisions) -> str:
    """Return a sentence on the decision with the least regret, its gain, and the second-best."""
    least, over = decisions.ranking[0], sentences.OVER(scenarios=decisions.count)
    name, worst, objective = (
        decisions.name(least),
        float(decisions.worst_regrets[least]),
        decisions.objective,
    )
    cells, found = decisions.chosen(), factors(decisions)
    is_pair = len(decisions.decisions) == 2 and len(found) == 1
    if is_pair and (decisions.worst_regrets < math.inf).all() and not decisions.is_weighted:
        (one,) = found
        searched = cells[0].split_varies or cells[0].parameters
        each = sentences.EACH_ITS_BEST(noun=describe.noun(cells[0])) if searched else ""
        gained = words.format_gain(one.values, objective, one.reference)
        return sentences.OF_A_PAIR(over=over, subject=one.subject, gained=gained, each=each)
    if not worst < math.inf:
        n, scenarios = len(cells), len(decisions.scenarios)
        return sentences.NONE_RAN_EVERYWHERE(name=name, n=n, scenarios=scenarios)
    each = "each" if decisions.share.all() else "each that counts"
    if worst <= 0:
        most = describe.superlative(cells[0])
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
        gained = sentences.IT_IS(gained=words.format_gain(gains, objective, baseline))
    if len(decisions.ranking) > 1:
        other, behind = decisions.ranking[1], sentences.NOT_IN_ALL()
        if decisions.worst_regrets[other] < math.inf:
            behind = sentences.BEHIND(share=describe_loss(decisions, other))
        next_one = sentences.NEXT_IS(name=decisions.name(other), behind=behind)
    return sentences.join(text, gained, next_one)


def describe_loss(decisions: Decisions, decision: int) -> str:
    """Return the largest loss of a decision over the scenarios, and its weighted mean, as text."""
    most = sentences.AT_MOST(loss=words.loss(float(decisions.worst_regrets[decision])))
    if not decisions.is_weighted:
        return most
    mean = words.loss(float(decisions.mean_regrets[decision]))
    return sentences.WEIGHTED_MEAN(loss=mean, most=most)


def describe_gain(cell: CellSummary) -> str | None:
    """Return the gain of a cell's named trial over the baseline, as text; None without a baseline.

    Competing cells each have a separate equal split, which is no common reference.
    """
    gain, name = cell.gain(cell.objective, cell.named), _baseline([cell])
    return words.format_gain([gain], cell.objective, name) if gain is not None and name else None


def _baseline(cells: list[CellSummary]) -> str:
    """Return the text for the study's baseline, if a cell is compared with it."""
    return next((c.reference.name for c in cells if c.reference and c.reference.is_common), "")


def _name_subject(cells: list[CellSummary]) -> str:
    """Return the workload and the number of NPUs as text, if they are equal in all cells."""
    names = {(cell.cell.workload, cell.cell.n_npus) for cell in cells}
    workloads = {name for name, _ in names}
    if len(workloads) > 1:
        return ""
    if len(names) > 1:
        return f"{workloads.pop()}: "
    ((workload, n_npus),) = names
    return sentences.WHO(workload=workload, npus=n_npus)


class SharedDesign(Protocol):
    """One design for all workloads of a study, as the report shows it."""

    @property
    def noun(self) -> str:
        """The kind of the shared design: split or network."""

    @property
    def title(self) -> str:
        """Title of the drawing of the design."""

    @property
    def split(self) -> str:
        """The design, as text."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Weight of each workload, as a share."""

    def headline(self) -> str:
        """Return a sentence with the finding, without a full stop."""

    def describe_builds(self) -> list[str]:
        """Return a text on the plan and result of each workload; [] without separate plans."""

    def tables(self) -> list[Table]:
        """Return tables of each workload's loss, on this design and on other designs."""

    def regret_matrix(self) -> RegretMatrix:
        """Return the chart of each workload's loss, on this design and on other designs."""


@dataclass(frozen=True)
class Report:
    """The findings of a study.

    A question with other findings than the best design of each cell has a subclass, and an entry in
    :data:`sweeper.questions.findings.REPORTS`.
    """

    study: StudyRecord
    #: One look through the rows.
    seen: Overview
    #: One for each cell.
    summaries: list[CellSummary]
    #: Axes whose values made no difference.
    idle: list[str]
    #: The scenarios in which the baseline cannot be simulated, each with the cause.
    without_baseline: list[tuple[Mapping[str, str], str]] = field(default_factory=list)
    #: The designs that several workloads share, of searches that have begun.
    portfolios: Sequence[SharedDesign] = ()

    @classmethod
    def asks(cls, study: StudyRecord) -> bool:
        """Return whether a study asks the question that this report answers."""
        return True

    @classmethod
    def from_rows(cls, rows: pd.DataFrame | Stored | Rows, study: StudyRecord) -> Self:
        """Return the report of ``rows``: a table, or a ledger's files, which are read in batches.

        Raises
        ------
        DimsweepError
            If no trial is complete.
        """
        seen = Overview.from_rows(Rows.wrap(rows), study)
        summaries, portfolios = cls.share(summaries_of(seen, study), study)
        idle, missing = idle_axes(seen.rows, study), without_baseline(seen.extra_rows, study)
        return cls(study, seen, summaries, idle, missing, portfolios)

    @classmethod
    def share(
        cls, summaries: list[CellSummary], study: StudyRecord
    ) -> tuple[list[CellSummary], Sequence[SharedDesign]]:
        """Return the cells' summaries, each with its row of a shared design, and these designs."""
        return summaries, ()

    @property
    def tried(self) -> list[CellSummary]:
        """The cells with at least one complete trial."""
        return [summary for summary in self.summaries if summary.found]

    @property
    def found(self) -> list[CellSummary]:
        """The cells whose best trial can be the answer."""
        return self.tried

    @property
    def ordered(self) -> list[CellSummary]:
        """The cells whose best trial can be the answer, the best one first."""
        objective = self.study.objectives[0]
        return sorted(self.found, key=lambda cell: objective.sign * objective.value(cell.best))

    @property
    def n_broken(self) -> int:
        """Number of failed and infeasible trials."""
        return sum(summary.trials.n_broken for summary in self.summaries)

    @cached_property
    def causes(self) -> list[tuple[str, int]]:
        """The causes of failed and infeasible trials with their counts, the most frequent first."""
        return frequent_errors(self.seen.broken()) if self.n_broken else []

    @cached_property
    def decisions(self) -> Decisions:
        """The competing decisions (designs) in each scenario."""
        weights = {name: share for one in self.portfolios for name, share in one.weights.items()}
        return Decisions.from_cells(self.study, self.found, weights)

    @cached_property
    def chosen(self) -> list[tuple[CellSummary, pd.Series]]:
        """The cells of the answer, each with the row of results that the answer names.

        The row is the cell's best trial, or, in a portfolio, the trial with the one split for all.
        """
        return [(cell, cell.named) for cell in self.decisions.chosen()]

    @property
    def question(self) -> Question:
        """The kind of question that the study asks."""
        return question(self.decisions)

    @property
    def one_for_all(self) -> SharedDesign | None:
        """The design shared by all workloads; None unless there is exactly one."""
        return self.portfolios[0] if len(self.portfolios) == 1 else None

    @property
    def headline(self) -> str:
        """Sentence with the finding of the study, without a full stop."""
        return headline(self) if self.one_for_all is None else self.one_for_all.headline()

    @property
    def effort(self) -> str:
        """Text with the number of simulations and the samplers.

        For an unfinished sweep it also has the planned number.
        """
        return describe.effort(self.study, self.summaries)

    @property
    def search_claim(self) -> tuple[str, str] | None:
        """A sentence on the search of all cells together, short and long; None without one."""
        return None

    @property
    def proof(self) -> str:
        """Text with the gap of the answer to the bound of all designs, without a full stop."""
        return ""

    @property
    def ties(self) -> str:
        """Text with the designs close to the best, without a full stop."""
        return ""

    @property
    def answer_changes(self) -> tuple[str, str]:
        """Text on a change after which the answer loses, and text on the design that wins then."""
        return "", ""

    @property
    def trade_off(self) -> str:
        """Sentence on the frontier of two objectives, in the first chosen cell."""
        return describe.trade_off(self.chosen[0][0])

    @property
    def can_compare_pairs(self) -> bool:
        """True if the decisions fill a grid, so that some pairs differ in one value only."""
        return True

    def is_next(self, cell: CellSummary) -> bool:
        """Return whether no design can rank between the best one and the design of ``cell``."""
        return True

    def named_cells(self) -> tuple[list[str], list[tuple[CellSummary, list[str]]]]:
        """Return the headers of the columns that name cells, and all cells with their names."""
        heads = naming.short_keys(list(self.summaries[0].cell.coordinates))
        return heads, [(cell, list(cell.cell.coordinates.values())) for cell in self.summaries]

    def tables(self) -> list[Table]:
        """Return the tables that only this kind of question has."""
        return [table for one in self.portfolios for table in one.tables()]

    @property
    def notes(self) -> list[str]:
        """Remarks on missing baselines, nearly full memory, unsold bandwidths and idle axes."""
        idle = [sentences.IDLE(axis=axis) for axis in self.idle]
        missing = no_baseline(self.without_baseline)
        return [*missing, *tight(self.found), *unsold(self.found), *idle]

    @cached_property
    def rule_warnings(self) -> list[str]:
        """Warnings of the design rules about the answer, in up to eight scenarios."""
        found = []
        for cell, row in self.chosen[:_CHECKED]:
            try:
                config = load_design(self.study, cell.cell, row)
                program = build_program(config)
            except (DimsweepError, KeyError):  # of another version, or a missing file or plug-in
                continue
            found.append(answer_warnings(config, program, is_proven=cell.is_proven))
        return merge_warnings(found)

    @property
    def remarks(self) -> list[str]:
        """All remarks: on the answer, on the study, and the rules' warnings before the search."""
        before = [text for text in self.study.warnings if text not in self.rule_warnings]
        given = [sentences.AS_GIVEN(warning=text) for text in before]
        return [*self.rule_warnings, *self.notes, *given]
