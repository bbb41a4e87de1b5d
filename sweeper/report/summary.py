"""What a study found, as data: the trials of each cell, and what stands out among them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine import DimsweepError, units
from sweeper.build.evidence import Evidence, evidence
from sweeper.ledger.record import CellRecord, StudyRecord
from sweeper.ledger.rows import (
    BESIDE,
    COMPLETE,
    FAILED,
    INFEASIBLE,
    LOST,
    PORTFOLIO,
    RECHECK,
    WHAT_IF,
)
from sweeper.objective import COST, TIME, Objective
from sweeper.report.causes import frequent_errors
from sweeper.report.recheck import Recheck
from sweeper.report.references import (
    Baselines,
    Reference,
    baselines_of,
    equal_split,
    reference_of,
    value_of,
)
from sweeper.study.kept import design_of
from sweeper.study.ranking import NEAR, best, front, near, ranking

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CellSummary:
    """One cell of a study: its trials and what stands out among them.

    ``cell`` is its entry in the study.
    ``complete`` and ``failed`` are its rows in the order of asking.  ``best`` is the row that
    stands for the cell (:func:`sweeper.study.ranking.best`): what is told of one design is of it;
    but in a portfolio the answer names the one split for all, whose row here is ``for_all``.
    ``front`` holds the rows that no other row beats in one objective without losing in the other,
    by the first objective; of rows alike in both the earliest, and of one objective only ``best``.
    ``equal`` is the equal split, of plans as the configuration has them; None where none is
    complete.  ``reference`` is what gains are against: the study's baseline in this cell's
    scenario, in a study without one the equal split, or None, where no gain can be told.  There is
    a best trial only if ``found``.
    ``again`` are the rows of designs simulated again message by message, ``shared`` those of
    splits tried for a whole portfolio, and ``changed`` those of designs with one change (the
    what-ifs), of its own and of the baseline, complete or not; they count for none of these.
    ``npu_price`` (USD) is in every cost.  ``study`` is the whole of which this is a cell.
    """

    study: StudyRecord
    cell: CellRecord
    objectives: tuple[Objective, ...]
    parameters: tuple[str, ...]
    complete: pd.DataFrame
    failed: pd.DataFrame
    front: pd.DataFrame
    equal: pd.Series | None
    again: pd.DataFrame
    shared: pd.DataFrame
    changed: pd.DataFrame
    npu_price: float = 0.0
    reference: Reference | None = None
    for_all: pd.Series | None = None

    @property
    def found(self) -> bool:
        """Whether any trial is complete."""
        return not self.complete.empty

    @property
    def begun(self) -> bool:
        """Whether any trial was simulated, or failed."""
        return self.found or not self.failed.empty

    @cached_property
    def best(self) -> pd.Series:
        """The best row; of two objectives what is within 1% of the best in the first one, which
        :attr:`first` is, and best in the second."""
        return self.complete.iloc[best(self.complete, self.objectives)]

    @property
    def named(self) -> pd.Series:
        """The row that the study's answer names: the best, or that of a portfolio's one split."""
        return self.best if self.for_all is None else self.for_all

    @property
    def first(self) -> pd.Series:
        """The row that is best in the first objective, whatever the second."""
        return self.front.iloc[0]

    @cached_property
    def runner_up(self) -> pd.Series | None:
        """What the best row would be with other values of the searched keys, if keys are
        searched."""
        if not self.parameters:
            return None
        keys = list(self.parameters)
        others = self.complete[(self.complete[keys] != self.best[keys]).any(axis=1)]
        return None if others.empty else others.iloc[best(others, self.objectives)]

    @property
    def objective(self) -> Objective:
        """The first objective, by which trials are ranked."""
        return self.objectives[0]

    @cached_property
    def evidence(self) -> Evidence:
        """How far such times as the best trial's are from measured ones."""
        return self.evidence_of(self.best)

    def evidence_of(self, row: pd.Series) -> Evidence:
        """How far such times as the ``row``'s are from measured ones."""
        try:
            return evidence(design_of(self.study, self.cell, row))
        except DimsweepError as error:  # of another version of dimsweep, or a file of its is gone
            return Evidence(reason=f"its configuration cannot be read ({error.what})")

    @property
    def n_designs(self) -> int | None:
        """How many designs the space has, where every one of them was tried; those that cannot be
        among them."""
        tried = pd.concat([self.complete, self.failed])
        if not self.cell.exhaustive or self.study.finished is False or self.stopped:
            return None
        if (tried["state"] == LOST).any():
            return None
        return len(tried.drop_duplicates(subset=self.design))

    @property
    def bound(self) -> float | None:
        """What no split of the space can beat in the first objective, if that is known."""
        return self.cell.bound

    @cached_property
    def limit(self) -> float | None:
        """What no split that costs no more than the best trial can beat in the first objective;
        where no front is proven, what no split can beat, whatever it costs."""
        if self.cell.front is None:
            return self.bound
        return float(self.cell.front.least_time(np.array([COST.of(self.best)]))[0])

    @property
    def gap(self) -> float | None:
        """By what share the best trial could be better at most, if its limit could be reached."""
        return self._gap(self.best, self.limit)

    def gap_of(self, row: pd.Series) -> float | None:
        """By what share a ``row`` could be better at most, whatever that costs."""
        return self._gap(row, self.bound)

    def _gap(self, row: pd.Series, bound: float | None) -> float | None:
        if bound is None or not math.isfinite(bound) or bound == 0:
            return None
        own = self.objective.of(row)
        return (own / bound if self.objective.sign > 0 else bound / own) - 1

    @property
    def is_proven(self) -> bool:
        """Whether the best trial is as good in practice as the proven bound."""
        return self.gap is not None and self.gap <= NEAR

    def saved(self, row: pd.Series | None = None) -> Floats | None:
        """(D,) what the next bandwidth in each dimension saves, in seconds per GB/s.

        Of a row, along its one critical path.  Without one, of the design that the answer names:
        what the proven bound says at its optimum, where dimensions that limit the time together are
        each worth something, as long as the best is near that; else, and where other workloads or a
        cost count, too, which that optimum does not know, along that design's critical path.
        None if not known; NaN where the slope is no finite number.
        """
        is_optimum = self.is_proven and len(self.objectives) == 1 and self.for_all is None
        if row is None and is_optimum and self.cell.ms_per_GBps is not None:
            slopes = np.array(self.cell.ms_per_GBps, dtype=float)
        else:
            at = self.named if row is None else row
            slopes = np.array([at.get(f"ms_per_GBps_{d}") for d in range(len(self.dims))], float)
        if not np.isfinite(slopes).any():
            return None
        return np.maximum(np.where(np.isfinite(slopes), -slopes, np.nan), 0.0) / 1e3

    @property
    def npus_cost(self) -> float:
        """What the NPUs cost (USD), which is in every cost."""
        return self.npu_price * self.cell.n_npus

    @property
    def prices(self) -> Floats | None:
        """(D,) USD per GB/s, if every dimension has one that is not zero."""
        prices = self.cell.usd_per_GBps
        return np.array(prices) if prices and min(prices) > 0 else None

    def front_gaps(self, rows: pd.DataFrame) -> Floats | None:
        """By what share each row could be faster at most, on a network that costs no more."""
        if self.cell.front is None:
            return None
        least = self.cell.front.least_time(rows[COST.column].to_numpy(float))
        return np.asarray(rows[TIME.column].to_numpy(float) / least - 1)

    @property
    def stopped(self) -> bool:
        """Whether the search had come near enough to the bound to stop."""
        limit, gap = self.cell.stops_at_gap, self.gap_of(self.first) if self.found else None
        return limit is not None and gap is not None and gap <= limit

    @property
    def dims(self) -> list[str]:
        """The names of the cell's dimensions, innermost first."""
        return list(self.cell.dims)

    @property
    def compared(self) -> list[tuple[str, pd.Series]]:
        """The best row, and what it is compared with, each under the head of its column."""
        own = [("best", self.best)]
        return own if self.reference is None else [*own, (self.reference.head, self.reference.row)]

    @property
    def priced(self) -> bool:
        """Whether it is known what the trials cost."""
        return bool(self.complete[COST.column].notna().any())

    @property
    def speedup(self) -> float | None:
        """How many times faster the best trial is than the reference; None without one."""
        return self.gain(TIME)

    @property
    def split_varies(self) -> bool:
        """Whether the complete trials differ in bandwidth at all."""
        return len(self.complete[self._bandwidths].drop_duplicates()) > 1

    def gain(self, objective: Objective, row: pd.Series | None = None) -> float | None:
        """How many times better a ``row``, or the best, is than the reference; None without one."""
        if self.reference is None:
            return None
        own = objective.of(self.best if row is None else row)
        other = objective.of(self.reference.row)
        worse, better = (other, own) if objective.sign > 0 else (own, other)
        ratio = worse / better if better else math.nan
        return ratio if math.isfinite(ratio) else None

    def split(self, row: pd.Series) -> Floats:
        """(D,) bandwidths of ``row`` in GB/s."""
        return np.asarray(row[self._bandwidths], float)

    def shares(self) -> Floats:
        """(P, D) shares, 0..1, of the complete trials' total bandwidth."""
        bandwidth = np.asarray(self.complete[self._bandwidths], float)
        return np.asarray(bandwidth / bandwidth.sum(axis=1, keepdims=True))

    def near_best(self) -> pd.Series:
        """(P,) which complete trials are within 1% of the best in the first objective."""
        values = self.complete[self.objective.column]
        return near(values, self.objective.of(self.first))

    def widest_dims(self) -> tuple[int, int]:
        """The two dimensions whose shares vary most among the better half of the trials, in order.

        The better half, because what a search does elsewhere says nothing of where it went.
        """
        better = ranking(self.complete, self.objectives)[: -(-len(self.complete) // 2)]
        spread = self.shares()[better].std(axis=0)
        first, second = sorted(np.argsort(-spread, kind="stable")[:2])
        return int(first), int(second)

    def best_designs(self, limit: int) -> pd.DataFrame:
        """The ``limit`` best rows, best first, each design (split and parameters) once."""
        ranked = self.complete.iloc[ranking(self.complete, self.objectives)]
        return ranked.drop_duplicates(subset=self.design).head(limit)

    @cached_property
    def rechecked(self) -> list[Recheck]:
        """The designs simulated again, in the order of the search's ranking."""
        designs, found = self.best_designs(len(self.complete)), []
        for _, messages in self.again.iterrows():
            given = messages[self.design].dropna()  # a failed row lacks a split that is not varied
            same = np.flatnonzero((designs[given.index] == given).all(axis=1))
            found += [Recheck(int(i) + 1, designs.iloc[i], messages) for i in same[:1]]
        return sorted(found, key=lambda recheck: recheck.rank)

    @property
    def fidelities(self) -> list[str]:
        """In which designs were simulated again, in their order."""
        return list(dict.fromkeys(map(str, self.again["fidelity"])))

    @property
    def design(self) -> list[str]:
        """The columns that tell designs apart."""
        return [*self._bandwidths, *self.parameters]

    @property
    def _bandwidths(self) -> list[str]:
        return [f"bandwidth_{d}_GBps" for d in range(len(self.dims))]


def summarise(rows: pd.DataFrame, study: StudyRecord) -> list[CellSummary]:
    """A summary for each cell of ``study`` from the ledger's ``rows``.

    Raises :class:`DimsweepError` when no trial of the study is complete.
    """
    searched = rows[~rows["origin"].isin(BESIDE)]
    if not (searched["state"] == COMPLETE).any():
        raise _nothing_complete(searched, study)
    baselines, changed = baselines_of(rows, study), rows[rows["origin"] == WHAT_IF]
    return [
        _summarise_cell(rows[rows["cell"] == cell.cell], cell, study, baselines, changed)
        for cell in study.cells
    ]


def _summarise_cell(
    rows: pd.DataFrame,
    cell: CellRecord,
    study: StudyRecord,
    baselines: Baselines,
    changed: pd.DataFrame,
) -> CellSummary:
    objectives = study.objectives
    rows = rows.sort_values("trial")
    again, shared = rows["origin"] == RECHECK, rows["origin"] == PORTFOLIO
    searched = ~rows["origin"].isin(BESIDE)
    complete = rows[searched & (rows["state"] == COMPLETE)]
    for objective in objectives:
        if complete[objective.column].isna().any():
            raise DimsweepError(
                f"cell {cell.cell} has trials without a value of the objective {objective.name}",
                where=f"study {study.name}",
                hint="a cost needs prices for all tiers of the topology",
            )
    config = {**study.config, **(cell.config or {})}
    equal = equal_split(complete, cell, study.parameters, config)
    reference = reference_of(study, cell, baselines, equal)
    designs = {*complete["key"], *rows[shared]["key"]}
    designs |= {reference.row["key"]} if reference is not None else set()
    return CellSummary(
        study=study,
        cell=cell,
        objectives=objectives,
        parameters=study.parameters,
        complete=complete,
        failed=rows[searched & rows["state"].isin([FAILED, INFEASIBLE, LOST])],
        front=complete.iloc[front(complete, objectives)],
        equal=equal,
        again=rows[again],
        shared=rows[shared],
        npu_price=_npu_price(config),
        reference=reference,
        changed=changed if changed.empty else changed[changed["change_of"].isin(designs)],
    )


def _npu_price(config: Mapping[str, Any]) -> float:
    """What one NPU costs (USD)."""
    price = value_of(config, "cost.npu")
    return 0.0 if price is None else units.parse(price, units.MONEY, zero=True)


def _nothing_complete(rows: pd.DataFrame, study: StudyRecord) -> DimsweepError:
    where = f"study {study.name}"
    if rows.empty:
        return DimsweepError("no trial has been run yet", where=where, hint="run the study first")
    text, times = frequent_errors(rows)[0]
    return DimsweepError(
        f"no trial is complete: all {len(rows)} failed or are infeasible",
        where=where,
        hint=f"the most frequent error ({times} times): {text}",
    )
