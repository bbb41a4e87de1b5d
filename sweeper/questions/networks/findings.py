"""Texts and tables about a search of networks: its proof, the next designs, and its sensitivity."""

import math
import re
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from dimsweep.sweeper.ledger.record import LEFT_OUT, Change, End, Proof, Rival, Step, StudyRecord
from dimsweep.sweeper.ledger.rows import EXPOSED, WAITED
from dimsweep.sweeper.objective import TIME, Objective
from dimsweep.sweeper.report import describe, sentences
from dimsweep.sweeper.report.naming import label, name_change
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.words import fine_percent, seconds, usd
from dimsweep.sweeper.study.ranking import NEAR, merge_identical_blocks
from dimsweep.sweeper.table import Column, Table, tabulate
from dimsweep.sweeper.terminal import format_count

_NOTHING = 1e-9  # a relative gap that is rounding
_SHOWN = 6  # designs, the best one with them
_STEPS = 8
_LITTLE = 0.002  # relative: smaller differences are no reason
_RUNNING = "Not proven yet: the search is not over"


class NetworksReport(Report):
    """The report of a search among networks and plans, including the proof of its answer."""

    @classmethod
    def asks(cls, study: StudyRecord) -> bool:
        return study.is_certified

    @property
    def found(self) -> list[CellSummary]:
        """The simulated designs; names of equal blocks do not make different designs."""
        found: dict[object, CellSummary] = {}
        for cell in self.tried:
            figures = (cell.best.get(name) for name in ("time_s", "cost_usd", "memory_bytes"))
            same = (
                *merge_identical_blocks(cell.cell.coordinates).items(),
                tuple(map(str, figures)),
            )
            found.setdefault(same, cell)
        return list(found.values())

    @property
    def effort(self) -> str:
        return describe.effort(self.study, self.summaries, by="bounds, best first")

    @property
    def search_claim(self) -> tuple[str, str]:
        short, _, rest = (self.proof or _RUNNING).partition(": ")
        return short, sentences.join(rest, self.ties)

    @property
    def proof(self) -> str:
        return sentence(self.study)

    @property
    def ties(self) -> str:
        proof = self.study.proof
        if proof is None or proof.front or not self.found:
            return ""
        if proof.rival is not None:
            return rival(proof, self.ordered[0].cell.coordinates)
        return ties(self.study.objectives[0], self.ordered)

    @property
    def answer_changes(self) -> tuple[str, str]:
        if self.study.proof is None or not self.chosen:
            return "", ""
        return moved(self.study.proof, self.chosen[0][0].cell.coordinates)

    @property
    def trade_off(self) -> str:
        return trade(self.study) or super().trade_off

    @property
    def can_compare_pairs(self) -> bool:
        """Always False: the simulated designs are a selection, not a random sample."""
        return False

    def is_next(self, cell: CellSummary) -> bool:
        proof = self.study.proof
        if proof is None:
            return False
        if proof.cells == proof.simulated:
            return True
        next_one = proof.rival
        if next_one is None or next_one.is_open or next_one.by is None:
            return False
        return merge_identical_blocks(next_one.by) == merge_identical_blocks(cell.cell.coordinates)

    def named_cells(self) -> tuple[list[str], list[tuple[CellSummary, list[str]]]]:
        """Return the header of one name column, and each design with its name.

        There are too many axes for a column each.
        """
        if self.study.proof is None:
            return super().named_cells()
        names = [[name] for name in map(label, self.ordered)]
        return ["design"], list(zip(self.ordered, names, strict=True))

    def tables(self) -> list[Table]:
        return tabulate_proof(self.study, self.ordered, self.show_mean)

    @property
    def show_mean(self) -> Callable[[float], str] | None:
        """Formatter of the mean measure of several workloads; None for one workload."""
        return None


def sentence(study: StudyRecord) -> str:
    """Return a sentence on what the search proved; "" for a study without a proof."""
    proof = study.proof
    if proof is None or proof.best is None or proof.bound is None:
        return ""
    effort = _effort(proof)
    if proof.front:
        gap = max(step.time / step.bound - 1 for step in proof.front)
        near = "" if gap < _NOTHING else sentences.BY_MORE_THAN(gap=fine_percent(gap))
        steps = format_count(len(proof.front), "step")
        return sentences.FRONT_PROVEN(near=near, steps=steps, cells=proof.cells, effort=effort)
    gap, of = study.objectives[0].gap(proof.best, proof.bound), ""
    if study.is_shared:
        gap = proof.best / proof.bound - 1
        of = sentences.OF_WORKLOADS(
            workloads=format_count(len(study.portfolios[0].share), "workload")
        )
    is_best = gap < _NOTHING
    how = sentences.THE_BEST() if is_best else sentences.WITHIN_OF_BEST(gap=fine_percent(gap))
    return sentences.BEST_OF_ALL(how=how, cells=proof.cells, of=of, effort=effort)


def _effort(proof: Proof) -> str:
    more = sum(proof.excluded[2:])
    left_out = sum(n for why, n in proof.refused.items() if why == LEFT_OUT)
    return sentences.EFFORT(
        simulated=proof.simulated,
        were="was" if proof.simulated == 1 else "were",
        bounded=sentences.BOUNDED(n=more) if more else "",
        left_out=sentences.LEFT_OUT(n=left_out) if left_out else "",
    )


def trade(study: StudyRecord) -> str:
    """Return a sentence with the two ends of a proven time-cost frontier; "" without a frontier."""
    if study.proof is None or not study.proof.front:
        return ""
    front = study.proof.front
    first, last = (
        sentences.AT_COST(time=seconds(step.time), cost=usd(step.cost))
        for step in (front[0], front[-1])
    )
    return sentences.FRONT_GOES(first=first, last=last, steps=format_count(len(front), "step"))


def ties(objective: Objective, ordered: Sequence[CellSummary]) -> str:
    """Return the number of simulated designs within 1% of the best, and how certain their order is.

    ``ordered`` has the designs, the best first. The text is "" if no other design is within 1%.
    """
    first, *others = ordered
    best = objective.value(first.best)
    near = [c for c in others if objective.gap(objective.value(c.best), best) <= NEAR]
    if not near:
        return ""
    sure = first.probability_better(first.best, near[0], near[0].best, objective)
    designs = sentences.NEAR_TIES(
        designs=format_count(len(near), "other simulated design"),
        are="is" if len(near) == 1 else "are",
        apart=fine_percent(objective.gap(objective.value(near[0].best), best)),
    )
    certainty = sentences.NOT_MEASURED() if sure is None else sentences.SURE(sure=sure)
    return sentences.A_TIE(design=designs, sure=certainty)


def rival(proof: Proof, named: Mapping[str, str]) -> str:
    """Return a sentence on the second-best design, behind the design ``named``, and its certainty.

    The text is "" if the search did not look for a second-best design.
    """
    end = proof.rival
    if end is None:
        return ""
    if end.by is None:
        if end.is_far:
            return sentences.NONE_WITHIN(factor=end.factor)
        return sentences.NONE_SIMULATED(nearest=_no_nearer(end))
    design = sentences.NEXT_DESIGN(
        which="next simulated" if end.is_open else "next",
        name=name_change(end.by, named, as_apposition=True),
        apart=fine_percent(max(end.factor - 1, 0.0)),
    )
    if end.is_open:
        design = sentences.NEXT_OPEN(design=design, nearest=_no_nearer(end))
    if end.sure is None:
        sure = sentences.NOT_MEASURED()
    else:
        sure = (sentences.SURE_ELSEWHERE if end.elsewhere else sentences.SURE)(sure=end.sure)
    if end.factor - 1 <= NEAR:
        return sentences.A_TIE(design=design, sure=sure)
    return sentences.join(design, sure)


def _no_nearer(end: Rival) -> str:
    """Return the distance to the best design that is proven for all other designs, as text."""
    least = end.factor if end.at_least is None else end.at_least
    return sentences.NONE_NEARER(least=fine_percent(max(least - 1, 0.0)))


def moved(proof: Proof, named: Mapping[str, str]) -> tuple[str, str]:
    """Return texts on the changes after which the answer ``named`` loses, and on the winner then.

    The smallest change is first. Both texts are "" if no changes were examined.
    """
    if not proof.changes:
        return "", ""
    ends = [
        (_describe_change(c.name, way, end), end)
        for c in proof.changes
        for way, end in (("below", c.near_down), ("above", c.near_up))
        if not end.is_far
    ]
    ends.sort(key=lambda each: _distance(each[1]))
    if not ends:
        reach = max(c.near_up.factor for c in proof.changes)
        kinds = dict.fromkeys(c.name.split(" ")[0].removesuffix("s") for c in proof.changes)
        *first, last = ("number of layers" if each == "layer" else each for each in kinds)
        what = f"{', '.join(first)} or {last}" if first else last
        return sentences.NO_CHANGE(what=what, low=1 / reach, high=reach), ""
    unknown = [where for where, end in ends if end.by is None]
    left = sentences.NOT_KNOWN_OF(places=", nor of ".join(unknown)) if unknown else ""
    known = [(where, end.by) for where, end in ends if end.by is not None]
    if not known:
        return sentences.NOTHING_KNOWN(), left
    (nearest, by), *others = known
    more = [sentences.OR_WHERE(where=where) for where, _ in others]
    then = sentences.THEN_BETTER(design=name_change(by, named))
    return nearest, sentences.join(then, *more, left)


_LAYERS = re.compile(r"layers of the model \((\d+)\)")


def _describe_change(name: str, way: str, end: End) -> str:
    factor = format_lost_at(end).removeprefix("x")
    if layers := _LAYERS.fullmatch(name):
        n, now = round(float(factor) * int(layers[1])), layers[1]
        comparison = "more" if way == "above" else "fewer"
        return sentences.LAYERS_BEYOND(n=n, comparison=comparison, now=now)
    return sentences.CHANGE_BEYOND(name=name, way=way, factor=factor)


def _distance(end: End) -> float:
    return max(end.factor, 1 / end.factor)


def _format_factor(end: End) -> str:
    """Format the factor up to which the answer holds, like the name of a what-if: "x2"."""
    return f"x{end.factor:.4g}"


def format_lost_at(end: End) -> str:
    """Format the factor from which on the answer is known to lose."""
    return f"x{end.factor if end.lost_at is None else end.lost_at:.4g}"


def tabulate_proof(
    study: StudyRecord, ordered: Sequence[CellSummary], show_mean: Callable[[float], str] | None
) -> list[Table]:
    """Return the tables on the proof of the best design.

    ``ordered``: the simulated cells, the best first. ``show_mean`` formats the measure of a
    portfolio.
    """
    proof, objective = study.proof, study.objectives[0]
    if proof is None or not ordered:
        return []
    if proof.front:
        return [*_tabulate_front(ordered, proof), *_tabulate_closed(proof)]
    if show_mean is not None:
        return [*_tabulate_closed(proof), *_tabulate_steps(proof, show_mean, TIME.gap)]
    return [
        *_tabulate_best(objective, ordered),
        *_tabulate_changes(ordered, proof),
        *_tabulate_closed(proof),
        *_tabulate_steps(proof, objective.show, objective.gap),
    ]


def _tabulate_front(ordered: Sequence[CellSummary], proof: Proof) -> list[Table]:
    """Tabulate the time-cost frontier: each step's simulated design, and the proven bound."""

    def distance(cell: CellSummary, step: Step) -> float:
        ratios = cell.best["time_s"] / step.time, cell.best["cost_usd"] / step.cost
        return math.fsum(abs(each - 1) for each in ratios)

    cells = [min(ordered, key=lambda cell: distance(cell, step)) for step in proof.front]
    columns = [
        Column("design", lambda item: item[0]),
        Column("costs at most", lambda item: usd(item[1].cost)),
        Column("takes", lambda item: seconds(item[1].time)),
        Column("none takes less than", lambda item: seconds(item[1].bound), rank=1),
        Column("gap", lambda item: fine_percent(item[1].time / item[1].bound - 1)),
    ]
    steps = zip(map(label, cells), proof.front, strict=True)
    return tabulate("The front of time and cost", steps, columns)


def _tabulate_changes(ordered: Sequence[CellSummary], proof: Proof) -> list[Table]:
    """Tabulate how far each quantity may change by itself, and which design wins beyond that."""
    named = ordered[0].cell.coordinates

    def winner(change: Change) -> str:
        ends = [end for end in (change.down, change.up) if not end.is_far]
        if not ends:
            return "nothing"
        end = min(ends, key=_distance)
        design = "not known" if end.by is None else name_change(end.by, named)
        return f"{format_lost_at(end)}: {design}"

    rows = [
        (
            change.name,
            winner(change),
            f"{_format_factor(change.down)} to {_format_factor(change.up)}",
            f"{_format_factor(change.near_down)} to {_format_factor(change.near_up)}",
        )
        for change in proof.changes
    ]
    end = proof.rival
    if rows and end is not None and end.by is not None:
        least = end.factor if end.at_least is None else end.at_least
        lost, held = (fine_percent(max(each - 1, 0.0)) for each in (end.factor, least))
        wins = f"{lost} more: {name_change(end.by, named)}"
        rows.append(("simulated time against others", wins, f"up to {held} more", ""))
    columns = ("alone", "what wins beyond", "the best at", "within 1% at")
    return [Table("What would change the answer", columns, rows, n_names=2)] if rows else []


def _tabulate_closed(proof: Proof) -> list[Table]:
    """Tabulate the number of cells that each level of bounds excluded, and of infeasible ones."""
    levels = ("memory and computation", "loads in closed form", "the bound of the program")
    closed = [(f"excluded by {name}", n) for name, n in zip(levels, proof.excluded, strict=True)]
    closed.append(("simulated", proof.simulated))
    rows = [(name, f"{n:,}", fine_percent(n / proof.cells)) for name, n in closed]
    rows += [(f"no cells: {reason}", f"{n:,}", "") for reason, n in proof.refused.items()]
    return [Table("How the cells were closed", ("", "cells", "of all"), rows)]


def _tabulate_steps(
    proof: Proof, show: Callable[[float], str], gap: Callable[[float, float], float]
) -> list[Table]:
    """Tabulate some steps of the search: number of simulations, best loss and lower bound."""
    every = max(1, -(-len(proof.steps) // _STEPS))
    steps = dict.fromkeys([*proof.steps[::every], *proof.steps[-1:]])
    columns = [
        Column("programs bounded", lambda step: f"{step[0]:,}"),
        Column("best so far", lambda step: show(step[1])),
        Column("no design beats", lambda step: show(step[2])),
        Column("gap", lambda step: fine_percent(max(gap(step[1], step[2]), 0.0))),
    ]
    return tabulate("How the proof went", steps, columns)


def _tabulate_best(objective: Objective, ordered: Sequence[CellSummary]) -> list[Table]:
    """Tabulate the best designs, and for all but the first the reason why they lose."""
    first, shown = ordered[0], ordered[:_SHOWN]

    def format_gap(cell: CellSummary) -> str:
        if cell is first:
            return ""
        return fine_percent(objective.gap(objective.value(cell.best), objective.value(first.best)))

    def cost(cell: CellSummary) -> str:
        own = cell.best.get("cost_usd")
        return "-" if pd.isna(own) else usd(own)

    columns = [
        Column("design", lambda item: item[0]),
        Column("why it loses", lambda item: why(item[1], first)),
        Column(objective.most, lambda item: objective.show(objective.value(item[1].best))),
        Column("behind", lambda item: format_gap(item[1])),
        Column("time", lambda item: seconds(item[1].best["time_s"]), rank=1),
        Column("cost", lambda item: cost(item[1])),
    ]
    pairs = zip(map(label, shown), shown, strict=True)
    return tabulate("The best of the simulated designs", pairs, columns, n_names=2)


def why(cell: CellSummary, first: CellSummary) -> str:
    """Return the disadvantages of a cell against the ``first`` one: more time, higher cost."""
    if cell is first:
        return "the best"
    own, best = cell.best, first.best
    found, slower = [], own["time_s"] / best["time_s"] - 1
    if slower > _LITTLE:
        found.append(f"{fine_percent(slower)} slower, in {_longest(own, best, len(cell.dims))}")
    dearer = own.get("cost_usd", 0) / (best.get("cost_usd", 0) or 1) - 1
    if dearer > _LITTLE:
        found.append(f"costs {fine_percent(dearer)} more")
    return "; ".join(found) or "a near tie"


def _longest(own: pd.Series, best: pd.Series, n_dims: int) -> str:
    """Return the component of the time that grew most: computation, communication, or waiting.

    Critical paths are not compared: two paths of equal length may pass through different operators.
    """
    dims = {f"dimension {d}": EXPOSED.at(d) for d in range(n_dims)}
    if any(pd.isna(row.get(name)) for row in (own, best) for name in dims.values()):
        dims = {"exposed communication": "exposed_s"}
    parts = {"computation": "compute_s", **dims, "waiting": WAITED.name}
    return max(parts, key=lambda part: own[parts[part]] - best[parts[part]])
