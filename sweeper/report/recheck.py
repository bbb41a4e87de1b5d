"""Whether the ranking of the best designs holds when every message, flow or packet is simulated."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

from dimsweep.sweeper.objective import COST, TIME, Objective
from dimsweep.sweeper.report.naming import short_keys
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary, Recheck
from dimsweep.sweeper.report.table import Table
from dimsweep.sweeper.report.words import seconds, short_split

_TIE = 1e-9  # relative: what differs less is rounding
_DIGITS = 6  # the best designs are often alike


@dataclass(frozen=True)
class Comparison:
    """Designs by phases and by messages (or flows, or packets, as ``fidelity`` says), in the
    ``measure`` that tells them apart.

    That is the objective, or the time where the objective is the cost, which does not depend on how
    a design is simulated.  ``complete`` are those that did not fail, the best by phases first.
    ``agree`` and ``differ`` count the pairs of them that both ways put into the same order, and
    into opposite ones; a pair that is equal in either is in neither.
    ``first`` is what the design is called that is first by phases: of two objectives it need not be
    the best one.
    """

    fidelity: str
    objective: Objective
    measure: Objective
    complete: Sequence[Recheck]
    failed: Sequence[Recheck]
    agree: int
    differ: int
    first: str

    @classmethod
    def of(cls, summary: CellSummary, fidelity: str | None = None) -> Self:
        """The comparison of the designs of a cell that were looked at again in ``fidelity``, or in
        the last one that there is."""
        fidelity = fidelity or (summary.fidelities or ["message"])[-1]
        measure = TIME if summary.objective is COST else summary.objective
        again = [recheck for recheck in summary.rechecked if recheck.fidelity == fidelity]
        complete = [recheck for recheck in again if not recheck.failed]
        complete.sort(key=lambda recheck: measure.sign * measure.of(recheck.phases))
        orders = [
            _order(measure.of(one.phases), measure.of(other.phases))
            * _order(measure.of(one.messages), measure.of(other.messages))
            for one, other in combinations(complete, 2)
        ]
        failed = [recheck for recheck in again if recheck.failed]
        agree, differ = orders.count(1), orders.count(-1)
        first = "the search's best"
        if len(summary.objectives) > 1:
            first = f"the design that is {summary.objective.most}"
        return cls(fidelity, summary.objective, measure, complete, failed, agree, differ, first)

    @property
    def how(self) -> str:
        """How every design was simulated again, in words."""
        return f"{self.fidelity} by {self.fidelity}"

    @property
    def best(self) -> Recheck:
        """The best by messages; of equal ones that which is best by phases."""
        return min(self.complete, key=self.rank)

    def rank(self, recheck: Recheck) -> int:
        """The rank by messages, from 1; equal designs have the same."""
        values = [self.measure.of(other.messages) for other in self.complete]
        return self._rank(self.measure.of(recheck.messages), values)

    @property
    def tau(self) -> float:
        """Kendall's tau-b of the two orders (Biometrika, 1945): the pairs that agree less those
        that differ, over the geometric mean of the pairs that are no ties in the one and in the
        other order."""
        from scipy.stats import kendalltau

        orders = (
            [self.measure.of(getattr(each, how)) for each in self.complete]
            for how in ("phases", "messages")
        )
        ranks = ([self._rank(value, values) for value in values] for values in orders)
        return float(kendalltau(*ranks).statistic)

    def _rank(self, value: float, values: Sequence[float]) -> int:
        return 1 + sum(_order(other, value) == -self.measure.sign for other in values)

    def ratio(self, recheck: Recheck) -> float:
        """The measure by messages over that by phases."""
        by_phases = self.measure.of(recheck.phases)
        return self.measure.of(recheck.messages) / by_phases if by_phases else math.nan

    def by_phases(self, recheck: Recheck) -> str:
        return self.measure.show(self.measure.of(recheck.phases), _DIGITS)

    def by_messages(self, recheck: Recheck) -> str:
        return self.measure.show(self.measure.of(recheck.messages), _DIGITS)

    def name(self, recheck: Recheck) -> str:
        """What to call a design inside a sentence."""
        is_best = recheck.rank == 1 and self.measure is self.objective
        return self.first if is_best else f"design {recheck.rank}"


def agreement(comparison: Comparison) -> str:
    """Whether the ranking holds, in a sentence without a full stop."""
    if not comparison.complete:
        return f"{comparison.how} {_failed(comparison)}"
    scope = "" if comparison.measure is comparison.objective else "cost is the same, and in time "
    failed = f"; {_failed(comparison)}" if comparison.failed else ""
    return f"{comparison.how} {scope}{_verdict(comparison)}{failed}"


def pairs(comparison: Comparison) -> str:
    """In how many pairs of designs the two orders agree; ties say nothing."""
    decided = comparison.agree + comparison.differ
    return f"{comparison.agree} of {decided} pairs" if decided else "-"


def _verdict(comparison: Comparison) -> str:
    complete, best, favourite = comparison.complete, comparison.best, comparison.complete[0]
    by_messages, by_phases = comparison.by_messages(best), comparison.by_phases(best)
    n = len(complete)
    if n == 1:
        return f"{comparison.name(best)} comes to {by_messages}, by phases {by_phases}"
    if not comparison.differ:
        ranks = sorted(recheck.rank for recheck in complete)
        designs = f"the {n} best designs" if ranks == list(range(1, n + 1)) else f"{n} designs"
        untied = comparison.agree == n * (n - 1) // 2
        verdict = "the ranking of {} is the same" if untied else "no two of {} change places"
        return verdict.format(designs)
    orders = f"the orders agree in {pairs(comparison)} (Kendall tau-b {comparison.tau:.2g})"
    if best is favourite:
        return f"{comparison.name(best)} stays best ({by_messages}); {orders}"
    against = f"{comparison.by_messages(favourite)} for {comparison.name(favourite)}"
    return f"{comparison.name(best)} is best ({by_messages} against {against}); {orders}"


def _failed(comparison: Comparison) -> str:
    first, n = comparison.failed[0], len(comparison.failed)
    more = f" and {n - 1} more" if n > 1 else ""
    return f"{comparison.name(first)}{more} failed"


def _order(one: float, other: float) -> int:
    """-1, 0 or 1 as ``one`` is less than, equal to or more than ``other``."""
    if abs(one - other) <= _TIE * max(abs(one), abs(other)):
        return 0
    return 1 if one > other else -1


def tabulate(summary: CellSummary) -> list[Table]:
    """The designs looked at again in each fidelity, and those that failed; none if none was."""
    if not summary.rechecked:
        return []
    return [sheet for name in summary.fidelities for sheet in _tabulate_fidelity(summary, name)]


def _tabulate_fidelity(summary: CellSummary, fidelity: str) -> list[Table]:
    comparison, others = Comparison.of(summary, fidelity), f"{fidelity}s"
    name = comparison.measure.name.replace("_", " ")
    split = not summary.of_graph
    columns = ["rank", *["split, GB/s"] * split, *short_keys(summary.parameters)]
    columns += [f"{name},\nby phases"]
    columns += [f"by\n{others}", "ratio", f"rank by\n{others}"]
    texts = []
    for recheck in (each for each in summary.rechecked if each.fidelity == fidelity):
        cells = [str(recheck.rank), *[short_split(summary, recheck.phases)] * split]
        cells += [str(recheck.phases[key]) for key in summary.parameters]
        cells += [comparison.by_phases(recheck)]
        if recheck.failed:
            cells += ["failed", "-", "-"]
        else:
            ratio = f"{comparison.ratio(recheck):.3f}"
            cells += [comparison.by_messages(recheck), ratio, str(comparison.rank(recheck))]
        texts.append(tuple(cells))
    finding = agreement(comparison)
    title = finding[0].upper() + finding[1:]
    sheets = [Table(title, tuple(columns), texts, n_names=1 + split)]
    if comparison.failed:
        errors = [(str(r.rank), str(r.messages["error"])) for r in comparison.failed]
        sheets.append(Table("Failed designs", ("rank", "error"), errors, n_names=2))
    return sheets


def tabulate_cells(report: Report) -> list[Table]:
    """One row a cell: its best design by phases and in the last fidelity; none if none was
    rechecked."""
    shown = [summary for summary in report.summaries if summary.rechecked]
    if not shown or len(report.summaries) == 1:
        return []
    keys, last = list(shown[0].cell.coordinates), shown[0].fidelities[-1]
    columns = [*short_keys(keys), "time of the\nsearch's best", f"by\n{last}s", "ratio"]
    columns += [f"best by\n{last}s", "orders agree"]
    texts = []
    for summary in shown:
        comparison = Comparison.of(summary, last)
        best = next(each for each in summary.rechecked if each.fidelity == last)
        cells = [summary.cell.coordinates[key] for key in keys]
        cells += [seconds(best.phases["time_s"], 6), best.by_messages(6), best.ratio]
        cells += [f"rank {comparison.best.rank}" if comparison.complete else "-", pairs(comparison)]
        texts.append(tuple(cells))
    return [Table(f"The best, {last} by {last}", tuple(columns), texts, n_names=len(keys))]
