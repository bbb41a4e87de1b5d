"""What a study found, as data: each cell's best trial, equal split and Pareto front."""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine import DimsweepError, units
from sweeper.ledger.record import CellRecord, StudyRecord
from sweeper.ledger.rows import (
    BASELINE,
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

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]

NEAR = 0.01  # this close to the best is as good in practice


@dataclass(frozen=True)
class Recheck:
    """A design that was simulated again, by messages, flows or packets: ``rank`` (from 1) and row
    in the search, and the row of messages, which may have failed."""

    rank: int
    phases: pd.Series
    messages: pd.Series

    @property
    def fidelity(self) -> str:
        """In which it was simulated again."""
        return str(self.messages["fidelity"])

    @property
    def failed(self) -> bool:
        return bool(self.messages["state"] != COMPLETE)

    def by_messages(self, digits: int = 4) -> str:
        """The iteration time message by message."""
        time = self.messages["time_s"]
        return "failed" if self.failed else units.format_quantity(time, units.TIME, digits)

    @property
    def ratio(self) -> str:
        """The iteration time by messages over that by phases."""
        by_phases = self.phases["time_s"]
        if self.failed or not by_phases:
            return "-"
        return f"{self.messages['time_s'] / by_phases:.3f}"


@dataclass(frozen=True)
class CellSummary:
    """One cell of a study: its trials and what stands out among them.

    ``cell`` is its entry in the study.
    ``complete`` and ``failed`` are its rows in the order of asking.  ``best`` is the row with the
    best first objective; among equals the one with the best second objective, then the earliest.
    ``front`` holds the rows that no other row beats in one objective without losing in the other,
    by the first objective; of rows alike in both the earliest, and of one objective only ``best``.
    ``equal`` is None where no equal split is complete; there is a best trial only if ``found``.
    ``again`` are the rows of designs simulated again message by message, ``shared`` those of
    splits tried for a whole portfolio, ``changed`` those of designs with one change (the what-ifs),
    complete or not, and ``baseline`` is the user's own design; they count for none of these.
    ``npu_price`` (USD) is in every cost.
    """

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
    baseline: pd.DataFrame
    npu_price: float = 0.0

    @property
    def found(self) -> bool:
        """Whether any trial is complete."""
        return not self.complete.empty

    @property
    def best(self) -> pd.Series:
        """The best row."""
        return self.front.iloc[0]

    @property
    def objective(self) -> Objective:
        """The first objective, by which trials are ranked."""
        return self.objectives[0]

    @property
    def time_error(self) -> float | None:
        """The relative error of simulated times of this kind, if it is known."""
        error = self.best.get("time_error")
        return None if error is None or not math.isfinite(error) else float(error)

    @property
    def bound(self) -> float | None:
        """What no split of the space can beat in the first objective, if that is known."""
        return self.cell.bound

    @property
    def gap(self) -> float | None:
        """By what share the best trial could be better at most, if the bound could be reached."""
        if self.bound is None or not math.isfinite(self.bound) or self.bound == 0:
            return None
        best = self.objective.of(self.best)
        return (best / self.bound if self.objective.sign > 0 else self.bound / best) - 1

    @property
    def is_proven(self) -> bool:
        """Whether the best trial is as good in practice as the proven bound."""
        return self.gap is not None and self.gap <= NEAR

    def saved(self, row: pd.Series | None = None) -> Floats | None:
        """(D,) what the next bandwidth in each dimension saves, in seconds per GB/s.

        Of a row, along its one critical path.  Without one, of the best design: what the proven
        bound says at its optimum, where dimensions that limit the time together are each worth
        something, as long as the best is near that; else along the best trial's critical path.
        None if not known; NaN where the slope is no finite number.
        """
        if row is None and self.is_proven and self.cell.ms_per_GBps is not None:
            slopes = np.array(self.cell.ms_per_GBps, dtype=float)
        else:
            at = self.best if row is None else row
            slopes = np.array([at.get(f"ms_per_GBps_{d}") for d in range(len(self.dims))], float)
        if not np.isfinite(slopes).any():
            return None
        return np.maximum(np.where(np.isfinite(slopes), -slopes, np.nan), 0.0) / 1e3

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
        limit, gap = self.cell.stops_at_gap, self.gap if self.found else None
        return limit is not None and gap is not None and gap <= limit

    @property
    def dims(self) -> list[str]:
        """The names of the cell's dimensions, innermost first."""
        return list(self.cell.dims)

    @property
    def best_and_equal(self) -> list[pd.Series]:
        """The best row, and that of the equal split if there is one."""
        return [self.best] if self.equal is None else [self.best, self.equal]

    @property
    def priced(self) -> bool:
        """Whether it is known what the trials cost."""
        return bool(self.complete[COST.column].notna().any())

    @property
    def speedup(self) -> float | None:
        """How many times faster the best trial is than the equal split; None without either."""
        return self.gain(TIME)

    @property
    def split_varies(self) -> bool:
        """Whether the complete trials differ in bandwidth at all."""
        return len(self.complete[self._bandwidths].drop_duplicates()) > 1

    def gain(self, objective: Objective) -> float | None:
        """How many times better the best trial is than the equal split; None without either."""
        if self.equal is None:
            return None
        best, equal = objective.of(self.best), objective.of(self.equal)
        worse, better = (equal, best) if objective.sign > 0 else (best, equal)
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
        best = self.objective.of(self.best)
        return (values - best).abs() <= NEAR * best

    def widest_dims(self) -> tuple[int, int]:
        """The two dimensions whose shares vary most among the better half of the trials, in order.

        The better half, because what a search does elsewhere says nothing of where it went.
        """
        better = _ranking(self.complete, self.objectives)[: -(-len(self.complete) // 2)]
        spread = self.shares()[better].std(axis=0)
        first, second = sorted(np.argsort(-spread, kind="stable")[:2])
        return int(first), int(second)

    def best_designs(self, limit: int) -> pd.DataFrame:
        """The ``limit`` best rows, best first, each design (split and parameters) once."""
        ranked = self.complete.iloc[_ranking(self.complete, self.objectives)]
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
    return [_summarise_cell(rows[rows["cell"] == cell.cell], cell, study) for cell in study.cells]


def frequent_errors(failed: pd.DataFrame) -> list[tuple[str, int]]:
    """Error texts of failed rows and their counts, the most frequent first, then the earliest."""
    return Counter(failed["error"].fillna("(no error text)")).most_common()


def _summarise_cell(rows: pd.DataFrame, cell: CellRecord, study: StudyRecord) -> CellSummary:
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
    equal = complete[complete["origin"] == "equal"]
    prices = (cell.config or study.config).get("cost", {})
    return CellSummary(
        cell=cell,
        objectives=objectives,
        parameters=study.parameters,
        complete=complete,
        failed=rows[searched & rows["state"].isin([FAILED, INFEASIBLE, LOST])],
        front=complete.iloc[_front(complete, objectives)],
        equal=None if equal.empty else equal.iloc[0],
        again=rows[again],
        shared=rows[shared],
        changed=rows[rows["origin"] == WHAT_IF],
        baseline=rows[(rows["origin"] == BASELINE) & (rows["state"] == COMPLETE)],
        npu_price=units.parse(prices.get("npu", "0 USD"), units.MONEY, zero=True),
    )


def _ranking(rows: pd.DataFrame, objectives: tuple[Objective, ...]) -> Integers:
    """Positions of ``rows`` from best to worst: by the first objective, the second, the trial."""
    keys = [rows["trial"]] + [o.sign * rows[o.column] for o in reversed(objectives)]
    return np.asarray(np.lexsort(keys))


def _front(rows: pd.DataFrame, objectives: tuple[Objective, ...]) -> Integers:
    """Positions of the rows no other dominates, in ranking order."""
    order = _ranking(rows, objectives)
    if len(objectives) == 1:
        return order[:1]
    # Down the ranking the first objective only gets worse, so a row stays if and only if its
    # second objective is better than that of all rows before it.
    second = (objectives[1].sign * rows[objectives[1].column]).to_numpy()[order]
    before = np.minimum.accumulate(np.concatenate(([math.inf], second)))[:-1]
    return np.asarray(order[second < before])


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
