"""What a study found, as data: each cell's best trial, equal split and Pareto front."""

import math
from collections.abc import Mapping, Sequence
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
from sweeper.report.causes import causes
from sweeper.study.kept import design_of

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
class Reference:
    """What a cell's best trial is compared with: its ``row``, over the dimensions ``dims``; its
    ``name`` in a sentence, and ``head`` above a column.  One that is common to a scenario's cells
    tells which of them is better, too; an equal split is each cell's own."""

    name: str
    head: str
    row: pd.Series
    dims: tuple[str, ...]
    is_common: bool = False


@dataclass(frozen=True)
class CellSummary:
    """One cell of a study: its trials and what stands out among them.

    ``cell`` is its entry in the study.
    ``complete`` and ``failed`` are its rows in the order of asking.  ``best`` is the row with the
    best first objective; among equals the one with the best second objective, then the earliest.
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

    @property
    def found(self) -> bool:
        """Whether any trial is complete."""
        return not self.complete.empty

    @property
    def begun(self) -> bool:
        """Whether any trial was simulated, or failed."""
        return self.found or not self.failed.empty

    @property
    def best(self) -> pd.Series:
        """The best row."""
        return self.front.iloc[0]

    @property
    def runner_up(self) -> pd.Series | None:
        """The best row with other values of the searched keys, if keys are searched."""
        if not self.parameters:
            return None
        ranked, keys = self.complete.iloc[_ranking(self.complete, self.objectives)], self.parameters
        others = ranked[(ranked[list(keys)] != self.best[list(keys)]).any(axis=1)]
        return None if others.empty else others.iloc[0]

    @property
    def advised(self) -> pd.Series:
        """The row that the answer names: the best; of several objectives what is within 1% of it in
        the first and best in the others, since a last per cent may cost several times as much."""
        return self.front[self.near_best()[self.front.index]].iloc[-1]

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
    def bound(self) -> float | None:
        """What no split of the space can beat in the first objective, if that is known."""
        return self.cell.bound

    @property
    def gap(self) -> float | None:
        """By what share the best trial could be better at most, if the bound could be reached."""
        return self.gap_of(self.best)

    def gap_of(self, row: pd.Series) -> float | None:
        """The same of a ``row``."""
        if self.bound is None or not math.isfinite(self.bound) or self.bound == 0:
            return None
        best = self.objective.of(row)
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
        limit, gap = self.cell.stops_at_gap, self.gap if self.found else None
        return limit is not None and gap is not None and gap <= limit

    @property
    def dims(self) -> list[str]:
        """The names of the cell's dimensions, innermost first."""
        return list(self.cell.dims)

    @property
    def compared(self) -> list[tuple[str, pd.Series]]:
        """The best row, and what it is compared with, each under the head of its column."""
        best = [("best", self.best)]
        return (
            best if self.reference is None else [*best, (self.reference.head, self.reference.row)]
        )

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
        best = objective.of(self.best if row is None else row)
        other = objective.of(self.reference.row)
        worse, better = (other, best) if objective.sign > 0 else (best, other)
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
    baselines, changed = _baselines(rows, study), rows[rows["origin"] == WHAT_IF]
    return [
        _summarise_cell(rows[rows["cell"] == cell.cell], cell, study, baselines, changed)
        for cell in study.cells
    ]


def without_baseline(rows: pd.DataFrame, study: StudyRecord) -> list[tuple[Mapping[str, str], str]]:
    """The scenarios (values of their axes) in which the baseline cannot be simulated, and why."""
    found = [(each.coordinates, each.error) for each in study.no_baselines]
    failed = rows[(rows["origin"] == BASELINE) & (rows["state"] != COMPLETE)]
    errors = dict(zip(failed["key"], failed["error"], strict=True))
    found += [(c.coordinates, str(errors[c.key])) for c in study.baselines if c.key in errors]
    return [(study.scenario(coordinates), error) for coordinates, error in found]


def _baselines(
    rows: pd.DataFrame, study: StudyRecord
) -> dict[tuple[str, ...], tuple[CellRecord, pd.Series]]:
    """The baseline's cell and row in each scenario in which it is complete."""
    own = rows[(rows["origin"] == BASELINE) & (rows["state"] == COMPLETE)]
    places = {(row["cell"], row["key"]): i for i, row in own[["cell", "key"]].iterrows()}
    return {
        tuple(study.scenario(cell.coordinates).values()): (cell, own.loc[place])
        for cell in study.baselines
        if (place := places.get((cell.cell, cell.key))) is not None
    }


def _baseline(baseline: CellRecord, row: pd.Series, cell: CellRecord) -> Reference:
    """The baseline as what a cell is compared with; of another size, it says so."""
    size = "" if baseline.n_npus == cell.n_npus else f" of {baseline.n_npus:,} NPUs"
    return Reference(f"the baseline{size}", "baseline", row, baseline.dims, is_common=True)


def frequent_errors(failed: pd.DataFrame) -> list[tuple[str, int]]:
    """Why rows failed and how many did, the most frequent cause first, then the earliest; texts
    that differ in their numbers alone are one, with the range of each number."""
    return causes(failed["error"].fillna("(no error text)"))


def _summarise_cell(
    rows: pd.DataFrame,
    cell: CellRecord,
    study: StudyRecord,
    baselines: Mapping[tuple[str, ...], tuple[CellRecord, pd.Series]],
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
    equal = _equal(complete, cell, study.parameters, config)
    if study.baseline:  # it is what gains are asked against, and where there is none there are none
        found = baselines.get(tuple(study.scenario(cell.coordinates).values()))
        reference = found and _baseline(*found, cell)
    else:
        reference = (
            None if equal is None else Reference("the equal split", "equal", equal, cell.dims)
        )
    designs = {*complete["key"], *([reference.row["key"]] if reference is not None else ())}
    return CellSummary(
        study=study,
        cell=cell,
        objectives=objectives,
        parameters=study.parameters,
        complete=complete,
        failed=rows[searched & rows["state"].isin([FAILED, INFEASIBLE, LOST])],
        front=complete.iloc[_front(complete, objectives)],
        equal=equal,
        again=rows[again],
        shared=rows[shared],
        npu_price=_npu_price(config),
        reference=reference,
        changed=changed if changed.empty else changed[changed["change_of"].isin(designs)],
    )


def _equal(
    complete: pd.DataFrame,
    cell: CellRecord,
    parameters: Sequence[str],
    config: Mapping[str, Any],
) -> pd.Series | None:
    """The row whose dimensions have equal bandwidths, as near as the grid of the space allows, and
    whose other keys are those of the configuration.

    What a search tries first as the equal split need not be it: constraints may forbid it, and a
    searched key may not have the configuration's value among its own.
    """
    step = value_of(config, "space.bandwidth.step")
    near = units.parse(step, units.BANDWIDTH) / 1e9 if isinstance(step, str) else 0.0
    for _, row in complete[complete["origin"] == "equal"].iterrows():
        split = row[[f"bandwidth_{d}_GBps" for d in range(len(cell.dims))]].to_numpy(float)
        is_even = split.max() - split.min() <= max(1.5 * near, 1e-3 * split.mean())
        if is_even and all(_is(row[key], value_of(config, key)) for key in parameters):
            return row
    return None


def value_of(config: Mapping[str, Any], name: str) -> Any:
    """The value at a dotted key of a stored configuration; None if there is none."""
    node: Any = config
    for part in name.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _is(text: str, value: Any) -> bool:
    """Whether the text of a row is a value of the configuration; of one that is not set, yes."""
    if value is None or str(value) == str(text):
        return True
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        return False


def _npu_price(config: Mapping[str, Any]) -> float:
    """What one NPU costs (USD)."""
    price = value_of(config, "cost.npu")
    return 0.0 if price is None else units.parse(price, units.MONEY, zero=True)


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
