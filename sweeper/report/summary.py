"""The findings of each cell of a study, as data, with the evidence for them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from dimsweep.engine import DimsweepError, units
from dimsweep.engine.cluster import add_npus
from dimsweep.engine.network import Bill
from dimsweep.engine.workload.plan import DeviceMesh
from dimsweep.sweeper.calibrate.evidence import Evidence, compute_confidence, find_evidence
from dimsweep.sweeper.config.cost import Cost
from dimsweep.sweeper.config.network import GRAPHS
from dimsweep.sweeper.config.npu import OtherNpuKind
from dimsweep.sweeper.config.workload.model import Model
from dimsweep.sweeper.ledger.pieces import Places
from dimsweep.sweeper.ledger.record import CellRecord, StudyRecord
from dimsweep.sweeper.ledger.rows import (
    ASKED,
    BANDWIDTH,
    BASELINE,
    COMPLETE,
    RECHECK,
    SLOPE,
    WHAT_IF,
)
from dimsweep.sweeper.ledger.stored import Stored
from dimsweep.sweeper.objective import COST, TIME, Objective
from dimsweep.sweeper.report.causes import frequent_errors
from dimsweep.sweeper.report.trials import Floats as Floats
from dimsweep.sweeper.report.trials import Overview, Rows, Searched
from dimsweep.sweeper.simulation.program import build_cluster
from dimsweep.sweeper.study.ranking import NEAR, find_best
from dimsweep.sweeper.study.restore import load_design

Baselines = Mapping[tuple[str, ...], tuple[CellRecord, pd.Series]]


@dataclass(frozen=True)
class Reference:
    """The design with which a cell's best trial is compared: the baseline or the equal split."""

    name: str  # in a sentence
    head: str  # above a column
    row: pd.Series
    dims: tuple[str, ...]
    is_common: bool = False  # whether all cells of a scenario share it; an equal split is per cell


def reference_of(
    study: StudyRecord, cell: CellRecord, baselines: Baselines, equal: pd.Series | None
) -> Reference | None:
    """Return the reference of a cell; None without one.

    In a study with a baseline it is the baseline in the cell's scenario, if that can be simulated.
    In other studies it is the equal split.
    """
    if not study.baseline:
        return None if equal is None else Reference("the equal split", "equal", equal, cell.dims)
    found = baselines.get(tuple(study.scenario(cell.coordinates).values()))
    if found is None:
        return None
    today, row = found
    size = "" if today.n_npus == cell.n_npus else f" of {today.n_npus:,} NPUs"
    return Reference(f"the baseline{size}", "baseline", row, today.dims, is_common=True)


def baselines_of(rows: pd.DataFrame, study: StudyRecord) -> Baselines:
    """Return the baseline's cell and row for each scenario in which it was simulated."""
    own = rows[(rows["origin"] == BASELINE) & (rows["state"] == COMPLETE)]
    places = {(row["cell"], row["key"]): i for i, row in own[["cell", "key"]].iterrows()}
    return {
        tuple(study.scenario(cell.coordinates).values()): (cell, own.loc[place])
        for cell in study.baselines
        if (place := places.get((cell.cell, cell.key))) is not None
    }


def without_baseline(rows: pd.DataFrame, study: StudyRecord) -> list[tuple[Mapping[str, str], str]]:
    """Return the scenarios in which the baseline is infeasible, each with the reason."""
    found = [(each.coordinates, each.error) for each in study.no_baselines]
    failed = rows[(rows["origin"] == BASELINE) & (rows["state"] != COMPLETE)]
    errors = dict(zip(failed["key"], failed["error"], strict=True))
    found += [(c.coordinates, str(errors[c.key])) for c in study.baselines if c.key in errors]
    return [(study.scenario(coordinates), error) for coordinates, error in found]


def equal_split(
    complete: pd.DataFrame, cell: CellRecord, parameters: Sequence[str], config: Mapping[str, Any]
) -> pd.Series | None:
    """Return the row with equal bandwidths whose other keys equal the configuration's; else None.

    Bandwidths are equal to within the step of the space. A trial that was proposed as the equal
    split need not be it: constraints may forbid it, and a searched key may not have the
    configuration's value among its own.
    """
    step = value_of(config, "space.bandwidth.step")
    near = units.parse(step, units.BANDWIDTH) / 1e9 if isinstance(step, str) else 0.0
    for _, row in complete[complete["origin"] == "equal"].iterrows():
        split = row[BANDWIDTH.names(len(cell.dims))].to_numpy(float)
        is_even = split.max() - split.min() <= max(1.5 * near, 1e-3 * split.mean())
        if is_even and all(_is_value(row[key], value_of(config, key)) for key in parameters):
            return row
    return None


def value_of(config: Mapping[str, Any], name: str) -> Any:
    """Return the value at a dotted key of a recorded configuration; None if missing."""
    node: Any = config
    for part in name.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _is_value(text: str, value: Any) -> bool:
    """Return whether a row's text equals the configuration's value, or that value is unset."""
    if value is None or str(value) == str(text):
        return True
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True)
class Recheck:
    """One of the best designs that was simulated again at a higher fidelity."""

    rank: int  # in the search, from 1
    phases: pd.Series  # the row of the search
    messages: pd.Series  # the row at the other fidelity, which may have failed

    @property
    def fidelity(self) -> str:
        """Name of the fidelity of the second simulation."""
        return str(self.messages["fidelity"])

    @property
    def failed(self) -> bool:
        return bool(self.messages["state"] != COMPLETE)

    def by_messages(self, digits: int = 4) -> str:
        """Format the iteration time of the second simulation."""
        time = self.messages["time_s"]
        return "failed" if self.failed else units.format_quantity(time, units.TIME, digits)

    @property
    def ratio(self) -> str:
        """Iteration time of the second simulation divided by the first, as text."""
        by_phases = self.phases["time_s"]
        if self.failed or not by_phases:
            return "-"
        return f"{self.messages['time_s'] / by_phases:.3f}"


@dataclass(frozen=True)
class CellSummary:
    """One cell of a study: its trials, and the rows among them that a report names.

    A cell has a best trial only if :attr:`found`. Rechecks, trials of a portfolio and what-ifs
    count neither for the best trial nor for the frontier.
    """

    study: StudyRecord
    cell: CellRecord
    objectives: tuple[Objective, ...]
    parameters: tuple[str, ...]
    #: The trials of the cell's search.
    trials: Searched
    #: The nondominated rows, by the first objective; with one objective only the best row.
    front: pd.DataFrame
    #: The equal split with the configuration's plan; None if it is not complete.
    equal: pd.Series | None
    #: Rows of rechecked designs.
    again: pd.DataFrame
    #: Places of the splits that were tried for a whole portfolio.
    shared: Places
    #: Rows of all what-ifs of the study, complete or not.
    changed: pd.DataFrame
    #: Price of one NPU (USD), which every cost includes.
    npu_price: float = 0.0
    #: The design that gains are measured against; None without one.
    reference: Reference | None = None
    #: The row of a portfolio's shared split, which the answer names.
    for_all: pd.Series | None = None

    @property
    def found(self) -> bool:
        """True if any trial of the cell's search was simulated without an error."""
        return self.trials.n_complete > 0

    @property
    def begun(self) -> bool:
        """True if any trial was simulated, with or without an error."""
        return self.found or self.trials.n_broken > 0

    @cached_property
    def best(self) -> pd.Series:
        """Row of the best trial.

        With two objectives it is the best in the second within 1% of the best in the first.
        """
        return self.front.iloc[find_best(self.front, self.objectives)]

    @property
    def named(self) -> pd.Series:
        """Row that the study's answer names: the best, or that of a portfolio's shared split."""
        return self.best if self.for_all is None else self.for_all

    @property
    def first(self) -> pd.Series:
        """Row that is best in the first objective, whatever its second."""
        return self.front.iloc[0]

    @cached_property
    def runner_up(self) -> pd.Series | None:
        """The best row with other searched values than the named row; None without one."""
        if not self.parameters:
            return None
        others = self.trials.front_without(self.named)
        return None if others.empty else others.iloc[find_best(others, self.objectives)]

    @property
    def objective(self) -> Objective:
        """The first objective, by which trials are ranked."""
        return self.objectives[0]

    @cached_property
    def evidence(self) -> Evidence:
        """Measured errors of simulated times that are comparable to the best trial's."""
        return self.evidence_of(self.best)

    def evidence_of(self, row: pd.Series) -> Evidence:
        """Return the measured errors of simulated times that are comparable to the row's."""
        try:
            return find_evidence(load_design(self.study, self.cell, row))
        except DimsweepError as error:  # of another version of dimsweep, or a file of its is gone
            what = str(error).partition("\n")[0]
            return Evidence(reason=f"its configuration cannot be read ({what})")

    def axes_of(self, row: pd.Series) -> list[str]:
        """Return the parallel axes of a row's plan in each network dimension, such as ``tensor 8``.

        The texts are empty for a workload without a plan.
        """
        nothing = [""] * len(self.dims)
        try:
            config = load_design(self.study, self.cell, row)
            workload = config.workload
            if not isinstance(workload, Model):
                return nothing
            cluster = build_cluster(config)
            mesh = DeviceMesh.place(
                workload.parallel, cluster.topology.sizes, cluster.symmetric_dims
            )
        except (DimsweepError, KeyError):  # of another version, or a design of other keys
            return nothing
        groups = {axis: mesh.groups[axis].sizes for axis in workload.parallel}
        return [
            ", ".join(f"{axis} {sizes[d]}" for axis, sizes in groups.items() if sizes[d] > 1)
            for d in range(len(self.dims))
        ]

    def probability_better(
        self,
        row: pd.Series,
        other: "CellSummary",
        theirs: pd.Series,
        objective: Objective = TIME,
    ) -> float | None:
        """Return the probability that a measurement confirms the better one of two rows.

        ``theirs`` is a row of an ``other`` cell. The ``objective`` must be proportional to the
        time. None if no measured run covers one of the rows.
        """
        difference = math.log(objective.value(row) / objective.value(theirs))
        try:
            designs = (
                load_design(self.study, self.cell, row),
                load_design(other.study, other.cell, theirs),
            )
            return compute_confidence(difference, *designs)
        except (DimsweepError, KeyError):  # of another version, or a design of other keys
            return None

    @property
    def searchers(self) -> set[str]:
        """Names of the searchers that proposed trials: the sampler, and searchers from Python."""
        origins = self.trials.origins
        asked = {name.removeprefix(ASKED) for name in origins if name.startswith(ASKED)}
        return asked if asked and self.study.finished is None else {self.cell.sampler, *asked}

    @property
    def n_designs(self) -> int | None:
        """Number of designs in the space, infeasible ones included; None unless all were tried."""
        if not self.cell.exhaustive or self.study.finished is False or self.stopped:
            return None
        return None if self.trials.n_lost else self.trials.n_designs

    @property
    def bound(self) -> float | None:
        """Proven bound on the first objective over all splits of the space; None if unknown."""
        return self.cell.bound

    @property
    def limited(self) -> Objective:
        """Objective of the proven limits: the first one, or the time if a frontier is proven."""
        return self.objective if self.cell.front is None else TIME

    def limit_of(self, row: pd.Series) -> float | None:
        """Return the proven limit, in :attr:`limited`, of designs that cost no more than a row.

        Without a proven frontier it is the limit of all splits. Among networks and plans it is the
        limit of all designs. None if nothing is proven.
        """
        if self.study.proof is not None and not self.study.is_shared:
            return self.study.proof.limit(COST.value(row) if self.study.proof.front else None)
        if self.cell.front is None:
            return self.bound
        return float(self.cell.front.minimum_time(np.array([COST.value(row)]))[0])

    def gap_at_cost(self, row: pd.Series) -> float | None:
        """Return the relative gap of a row to its limit (:meth:`limit_of`).

        It is None without a limit.
        """
        return _gap(self.limited, row, self.limit_of(row))

    @property
    def limit(self) -> float | None:
        """Proven limit (:meth:`limit_of`) for the best trial; None if nothing is proven."""
        return self.limit_of(self.best)

    @property
    def gap(self) -> float | None:
        """Relative gap of the best trial to its limit."""
        return self.gap_at_cost(self.best)

    def gap_of(self, row: pd.Series) -> float | None:
        """Return the relative gap of a row to the bound on the first objective at any cost."""
        return _gap(self.objective, row, self.bound)

    @property
    def is_proven(self) -> bool:
        """True if the best trial is within 1% of its proven limit."""
        return self.gap is not None and self.gap <= NEAR

    def saved(self, row: pd.Series | None = None) -> Floats | None:
        """Return the marginal value of bandwidth (D,), in seconds per GB/s.

        With ``row``: along its critical path. Without: at the named design, from the bound's
        optimum if the gap is closed, where every limiting dimension is worth something. With
        several workloads or a cost in the objective the optimum does not apply, and the critical
        path is used. None if unknown; NaN where the slope is not finite.
        """
        is_optimum = self.is_proven and len(self.objectives) == 1 and self.for_all is None
        if row is None and is_optimum and self.cell.ms_per_GBps is not None:
            slopes = np.array(self.cell.ms_per_GBps, dtype=float)
        else:
            at = self.named if row is None else row
            slopes = np.array([at.get(name) for name in SLOPE.names(len(self.dims))], float)
        if not np.isfinite(slopes).any():
            return None
        return np.maximum(np.where(np.isfinite(slopes), -slopes, np.nan), 0.0) / 1e3

    @property
    def npus_cost(self) -> float:
        """Price of the NPUs of all kinds (USD), which every cost includes."""
        config, n = self.study.config_of(self.cell), self.cell.n_npus
        kinds = config.get("other_npus") or ()
        others = [
            OtherNpuKind.from_plain(each).purchase("", n, Cost.from_plain(config["cost"]))
            for each in kinds
        ]
        rest = n - sum(len(other.at) for other in others)
        bill = add_npus(Bill(()), ((other.part, len(other.at)) for other in others))
        return self.npu_price * rest + (bill.cost or 0.0)

    @property
    def prices(self) -> Floats | None:
        """Price of each dimension (D,) in USD per GB/s; None unless all are known and positive."""
        prices = self.cell.usd_per_GBps
        return np.array(prices) if prices and min(prices) > 0 else None

    def front_gaps(self, rows: pd.DataFrame) -> Floats | None:
        """Return, for each row, the relative gap of its time to the limit at its cost."""
        if self.cell.front is None:
            return None
        least = self.cell.front.minimum_time(rows[COST.column].to_numpy(float))
        return np.asarray(rows[TIME.column].to_numpy(float) / least - 1)

    @property
    def stopped(self) -> bool:
        """True if the search stopped before its budget because it was close enough to the bound."""
        limit, gap = self.cell.stops_at_gap, self.gap_of(self.first) if self.found else None
        return limit is not None and gap is not None and gap <= limit

    @property
    def dims(self) -> list[str]:
        """The names of the cell's dimensions, innermost first."""
        return list(self.cell.dims)

    @property
    def compared(self) -> list[tuple[str, pd.Series]]:
        """The best row and its reference, each with the header of its column."""
        own = [("best", self.best)]
        return own if self.reference is None else [*own, (self.reference.head, self.reference.row)]

    @property
    def priced(self) -> bool:
        """True if the costs of the trials are known."""
        return self.trials.priced

    @property
    def speedup(self) -> float | None:
        """The reference's time divided by the best trial's; None without a reference."""
        return self.gain(TIME)

    @property
    def split_varies(self) -> bool:
        """True if the complete trials differ in bandwidth; false for a graph."""
        return self.trials.split_varies and not self.of_graph

    def gain(self, objective: Objective, row: pd.Series | None = None) -> float | None:
        """Return how many times better a row (default: the best) is than the reference.

        It is None without a reference.
        """
        if self.reference is None:
            return None
        own = objective.value(self.best if row is None else row)
        other = objective.value(self.reference.row)
        worse, better = (other, own) if objective.sign > 0 else (own, other)
        ratio = worse / better if better else math.nan
        return ratio if math.isfinite(ratio) else None

    @cached_property
    def of_graph(self) -> bool:
        """True if the network is a graph, which has no bandwidths per dimension."""
        network = self.study.config_of(self.cell).get("network") or {}
        return any(network.get(name) for name in GRAPHS)

    def split(self, row: pd.Series) -> Floats:
        """Return the bandwidths (D,) of a row in GB/s."""
        return np.asarray(row[self.trials.bandwidths], float)

    @cached_property
    def rechecked(self) -> list[Recheck]:
        """The designs that were simulated again, in the order of the search's ranking."""
        if self.again.empty:
            return []
        ranked = self.trials.ranked(self.again)
        places = dict.fromkeys(own[1] for own in ranked if own)
        phases = self.trials.rows.take(np.array(list(places), np.int64))
        found = [
            Recheck(own[0], phases.loc[own[1]], messages)
            for own, (_, messages) in zip(ranked, self.again.iterrows(), strict=True)
            if own is not None
        ]
        return sorted(found, key=lambda recheck: recheck.rank)

    @property
    def fidelities(self) -> list[str]:
        """Names of the fidelities of the rechecks, in the order of simulation."""
        return list(dict.fromkeys(map(str, self.again["fidelity"])))

    @property
    def design(self) -> list[str]:
        """Names of the columns that distinguish designs."""
        return self.trials.design


def _gap(objective: Objective, row: pd.Series, bound: float | None) -> float | None:
    if bound is None or not math.isfinite(bound) or bound == 0:
        return None
    return objective.gap(objective.value(row), bound)


def summarise(rows: pd.DataFrame | Stored | Rows, study: StudyRecord) -> list[CellSummary]:
    """Return a summary for each cell of ``study`` from the ledger's ``rows``.

    Raises :class:`DimsweepError` if no trial of the study is complete.
    """
    return summaries_of(Overview.from_rows(Rows.wrap(rows), study), study)


def summaries_of(seen: Overview, study: StudyRecord) -> list[CellSummary]:
    """Return a summary for each cell of a study from ``seen``, the overview of its rows.

    Raises :class:`DimsweepError` if no trial of the study is complete.
    """
    every = seen.searched.values()
    if not any(each.n_complete for each in every):
        raise _nothing_complete(seen, study)
    for each in every:
        for objective in study.objectives:
            if each.n_valueless.get(objective.column):
                name = objective.name
                raise DimsweepError(
                    f"cell {each.cell.cell} has trials without a value of the objective {name}",
                    where=f"study {study.name}",
                    hint="a cost needs prices for all tiers of the topology",
                    code="missing",
                )
    # Of all cells at once, so that no file is read for each of them.
    kept = seen.rows.take(np.array([p for s in every for p in (*s.front, *s.equal)], np.int64))
    kept = kept[~kept.index.duplicated()]
    baselines = baselines_of(seen.extra_rows, study)
    return [_summary(seen, one, study, kept, baselines) for one in every]


def _summary(
    seen: Overview, trials: Searched, study: StudyRecord, kept: pd.DataFrame, baselines: Baselines
) -> CellSummary:
    cell, extra = trials.cell, seen.extra_rows
    config = study.config_of(cell)
    equals = kept.loc[trials.equal].sort_values("trial", kind="stable")
    equal = equal_split(equals, cell, study.parameters, config)
    own = extra[(extra["cell"] == cell.cell) & (extra["origin"] == RECHECK)]
    return CellSummary(
        study=study,
        cell=cell,
        objectives=study.objectives,
        parameters=study.parameters,
        trials=trials,
        front=kept.loc[trials.front],
        equal=equal,
        again=own.sort_values("trial"),
        shared=seen.shared.get(cell.cell, np.empty(0, np.int64)),
        changed=extra[extra["origin"] == WHAT_IF],
        npu_price=_npu_price(config),
        reference=reference_of(study, cell, baselines, equal),
    )


def _npu_price(config: Mapping[str, Any]) -> float:
    """Return the price of one NPU (USD) in a recorded configuration."""
    cost = config.get("cost")
    if isinstance(cost, Mapping) and cost.get("parts"):
        return Cost.from_plain(cost).npu_price
    price = value_of(config, "cost.npu")
    return 0.0 if price is None else units.parse(price, units.MONEY, zero=True)


def _nothing_complete(seen: Overview, study: StudyRecord) -> DimsweepError:
    where, n = f"study {study.name}", sum(each.n_broken for each in seen.searched.values())
    if not n:
        problem = "no trial has been run yet"
        return DimsweepError(problem, where=where, hint="run the study first", code="missing")
    text, times = frequent_errors(seen.broken())[0]
    return DimsweepError(
        f"no trial is complete: all {n} failed or are infeasible",
        where=where,
        hint=f"the most frequent error ({times} times): {text}",
        code="infeasible",
    )
