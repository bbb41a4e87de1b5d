"""What a study found, in one sentence: whose best, against what, over which scenarios."""

import math

import pandas as pd

from dimsweep.sweeper.objective import Objective
from dimsweep.sweeper.report import naming, words
from dimsweep.sweeper.report.decisions import LEVEL, Decisions
from dimsweep.sweeper.report.factors import factors
from dimsweep.sweeper.report.question import Question, question
from dimsweep.sweeper.report.summary import CellSummary
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
    if (gain := against(best)) is not None:
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
        most = f"{lost(decisions, least)}{words.measured_in(objective)}"
        text = f"{over}, {name} loses least: {most} against the best of {each} ({place})"
    cells = decisions.chosen()
    gains = [gain for c in cells if (gain := c.gain(objective, c.named)) is not None]
    baseline = _baseline(decisions.chosen())
    if baseline and gains:
        text += f"; it is {words.gained(gains, objective, baseline)}"
    if len(decisions.ranking) > 1:
        other = decisions.ranking[1]
        runs = decisions.worst[other] < math.inf
        told = f"{lost(decisions, other)} behind" if runs else "not in all of them"
        text += f"; next is {decisions.name(other)}, {told}"
    return text


def lost(decisions: Decisions, decision: int) -> str:
    """What a decision that runs everywhere loses: at most, and, where scenarios have weights, in
    their mean."""
    most = f"at most {words.loss(float(decisions.worst[decision]))}"
    if not decisions.is_weighted:
        return most
    return f"{words.loss(float(decisions.mean[decision]))} in the weighted mean, {most}"


def against(cell: CellSummary) -> str | None:
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
