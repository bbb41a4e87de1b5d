"""Compare the ranking of the best designs at fidelity ``phase`` with a higher fidelity."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

from dimsweep.sweeper.objective import COST, TIME, Objective
from dimsweep.sweeper.report import sentences
from dimsweep.sweeper.report.describe import short_split
from dimsweep.sweeper.report.naming import short_keys
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary, Recheck
from dimsweep.sweeper.report.words import seconds
from dimsweep.sweeper.table import Column, Table, name_columns, tabulate

_TIE = 1e-9  # relative: what differs less is rounding
_DIGITS = 6  # the best designs often differ little


@dataclass(frozen=True)
class Comparison:
    """The best designs of a cell, simulated at fidelity ``phase`` and at a higher ``fidelity``."""

    fidelity: str
    objective: Objective
    #: The objective, or the time if the objective is the cost, which all fidelities share.
    measure: Objective
    #: The designs that did not fail, the best by phases first.
    complete: Sequence[Recheck]
    failed: Sequence[Recheck]
    #: Pairs in the same order by phases and by messages, and pairs in opposite orders.
    agree: int
    differ: int
    #: Name of the first design by phases, which need not be the best of two objectives.
    first: str

    @classmethod
    def from_cell(cls, summary: CellSummary, fidelity: str | None = None) -> Self:
        """Compare the designs of a cell that were rechecked at ``fidelity`` (default: the last)."""
        fidelity = fidelity or (summary.fidelities or ["message"])[-1]
        measure = TIME if summary.objective is COST else summary.objective
        again = [recheck for recheck in summary.rechecked if recheck.fidelity == fidelity]
        complete = [recheck for recheck in again if not recheck.failed]
        complete.sort(key=lambda recheck: measure.sign * measure.value(recheck.phases))
        orders = [
            _order(measure.value(one.phases), measure.value(other.phases))
            * _order(measure.value(one.messages), measure.value(other.messages))
            for one, other in combinations(complete, 2)
        ]
        failed = [recheck for recheck in again if recheck.failed]
        agree, differ = orders.count(1), orders.count(-1)
        first = "the search's best"
        if len(summary.objectives) > 1:
            first = f"the design that is {summary.objective.most}"
        return cls(fidelity, summary.objective, measure, complete, failed, agree, differ, first)

    @property
    def method(self) -> str:
        """The method of the recheck, as text: "message by message"."""
        return f"{self.fidelity} by {self.fidelity}"

    @property
    def best_design(self) -> Recheck:
        """The best design at the higher fidelity; of equal ones the best at fidelity ``phase``."""
        return min(self.complete, key=self.rank)

    def rank(self, recheck: Recheck) -> int:
        """Return a design's rank at the higher fidelity, from 1; equal designs share a rank."""
        values = [self.measure.value(other.messages) for other in self.complete]
        return self._rank(self.measure.value(recheck.messages), values)

    @property
    def tau(self) -> float:
        """Kendall's tau-b of the orders at both fidelities (Biometrika, 1945).

        It is the number of pairs that agree minus the number that differ, divided by the geometric
        mean of the numbers of pairs without a tie in each order.
        """
        from scipy.stats import kendalltau

        orders = (
            [self.measure.value(getattr(each, how)) for each in self.complete]
            for how in ("phases", "messages")
        )
        ranks = ([self._rank(value, values) for value in values] for values in orders)
        return float(kendalltau(*ranks).statistic)

    def _rank(self, value: float, values: Sequence[float]) -> int:
        return 1 + sum(_order(other, value) == -self.measure.sign for other in values)

    def ratio(self, recheck: Recheck) -> float:
        """Return a design's value at the higher fidelity divided by that at ``phase``."""
        by_phases = self.measure.value(recheck.phases)
        return self.measure.value(recheck.messages) / by_phases if by_phases else math.nan

    def by_phases(self, recheck: Recheck) -> str:
        return self.measure.show(self.measure.value(recheck.phases), _DIGITS)

    def by_messages(self, recheck: Recheck) -> str:
        return self.measure.show(self.measure.value(recheck.messages), _DIGITS)

    def name(self, recheck: Recheck) -> str:
        """Return a design's name for use in a sentence."""
        is_best = recheck.rank == 1 and self.measure is self.objective
        return self.first if is_best else f"design {recheck.rank}"


def agreement(comparison: Comparison) -> str:
    """Return a sentence on whether the ranking is the same at both fidelities."""
    failed = ""
    if comparison.failed:
        first, *others = comparison.failed
        more = sentences.AND_MORE(n=len(others)) if others else ""
        failed = sentences.SOME_FAILED(design=comparison.name(first), more=more)
    if not comparison.complete:
        return sentences.AGREEMENT(how=comparison.method, scope="", verdict=failed)
    scope = "" if comparison.measure is comparison.objective else sentences.SAME_COST()
    verdict = _verdict(comparison)
    return sentences.join(
        sentences.AGREEMENT(how=comparison.method, scope=scope, verdict=verdict), failed
    )


def pairs(comparison: Comparison) -> str:
    """Format the number of pairs of designs with the same order at both fidelities.

    Pairs of equal designs are not counted.
    """
    decided = comparison.agree + comparison.differ
    return f"{comparison.agree} of {decided} pairs" if decided else "-"


def _verdict(comparison: Comparison) -> str:
    complete, best, favourite = comparison.complete, comparison.best_design, comparison.complete[0]
    design, value = comparison.name(best), comparison.by_messages(best)
    n = len(complete)
    if n == 1:
        return sentences.ONE_AGAIN(design=design, again=value, before=comparison.by_phases(best))
    if not comparison.differ:
        ranks = sorted(recheck.rank for recheck in complete)
        designs = f"the {n} best designs" if ranks == list(range(1, n + 1)) else f"{n} designs"
        untied = comparison.agree == n * (n - 1) // 2
        return (sentences.SAME_RANKING if untied else sentences.NO_TWO_CHANGE)(designs=designs)
    orders = sentences.ORDERS_AGREE(pairs=pairs(comparison), tau=comparison.tau)
    if best is favourite:
        return sentences.STAYS_BEST(design=design, value=value, orders=orders)
    return sentences.ANOTHER_IS_BEST(
        design=design,
        value=value,
        other=comparison.by_messages(favourite),
        favourite=comparison.name(favourite),
        orders=orders,
    )


def _order(one: float, other: float) -> int:
    """Return -1, 0 or 1 if ``one`` is less than, equal to or more than ``other``."""
    if abs(one - other) <= _TIE * max(abs(one), abs(other)):
        return 0
    return 1 if one > other else -1


def tabulate_cell(summary: CellSummary) -> list[Table]:
    """Return tables of the rechecked designs at each fidelity, and of the failed ones."""
    again = summary.rechecked
    names = summary.fidelities if again else []
    return [table for name in names for table in _tabulate_fidelity(summary, name)]


def _tabulate_fidelity(summary: CellSummary, fidelity: str) -> list[Table]:
    comparison, split = Comparison.from_cell(summary, fidelity), not summary.of_graph
    name, keys = comparison.measure.name.replace("_", " "), summary.parameters

    def unless_failed(
        show: Callable[[Recheck], str], failed: str = "-"
    ) -> Callable[[Recheck], str]:
        return lambda again: failed if again.failed else show(again)

    columns = [
        Column("rank", lambda again: str(again.rank)),
        Column("split, GB/s", lambda again: short_split(summary, again.phases), split),
        *(
            Column(head, lambda again, key=key: str(again.phases[key]), rank=2)
            for head, key in zip(short_keys(keys), keys, strict=True)
        ),
        Column(f"{name},\nby phases", comparison.by_phases, rank=1),
        Column(f"by\n{fidelity}s", unless_failed(comparison.by_messages, "failed")),
        Column("ratio", unless_failed(lambda again: f"{comparison.ratio(again):.3f}")),
        Column(f"rank by\n{fidelity}s", unless_failed(lambda again: str(comparison.rank(again)))),
    ]
    own = [each for each in summary.rechecked if each.fidelity == fidelity]
    errors = [(str(r.rank), str(r.messages["error"])) for r in comparison.failed]
    return [
        *tabulate(sentences.capitalise(agreement(comparison)), own, columns, n_names=1 + split),
        *([Table("Failed designs", ("rank", "error"), errors, n_names=2)] if errors else []),
    ]


def tabulate_cells(report: Report) -> list[Table]:
    """Return a row for each cell: its best design at fidelity ``phase`` and at the last fidelity.

    There is no table if no cell was rechecked.
    """
    shown = [summary for summary in report.summaries if summary.rechecked]
    if not shown or len(report.summaries) == 1:
        return []
    keys, last = list(shown[0].cell.coordinates), shown[0].fidelities[-1]

    def best(summary: CellSummary) -> Recheck:
        return next(each for each in summary.rechecked if each.fidelity == last)

    def best_again(summary: CellSummary) -> str:
        comparison = Comparison.from_cell(summary, last)
        return f"rank {comparison.best_design.rank}" if comparison.complete else "-"

    columns = [
        *name_columns(short_keys(keys), lambda s: list(s.cell.coordinates.values())),
        Column(
            "time of the\nsearch's best", lambda s: seconds(best(s).phases["time_s"], 6), rank=1
        ),
        Column(f"by\n{last}s", lambda s: best(s).by_messages(6), rank=1),
        Column("ratio", lambda s: best(s).ratio),
        Column(f"best by\n{last}s", best_again),
        Column("orders agree", lambda s: pairs(Comparison.from_cell(s, last))),
    ]
    return tabulate(f"The best, {last} by {last}", shown, columns, n_names=len(keys))
