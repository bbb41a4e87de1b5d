"""The tables of a report that all questions share.

A table is a function here and an entry in a list of :mod:`sweeper.questions.findings`.
"""

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from dimsweep.engine import units
from dimsweep.sweeper.ledger.rows import (
    BANDWIDTH,
    BY_COLLECTIVE,
    EXPOSED,
    JOB_SLOWDOWN,
    JOB_TIME,
    OUTAGE_SLOWDOWN,
    PATH,
    PATH_PARTS,
    UTILISATION,
)
from dimsweep.sweeper.objective import COST, PERF_PER_COST, TIME, Objective
from dimsweep.sweeper.report import describe, naming, sentences, words
from dimsweep.sweeper.report.decisions import BASELINE, Decisions, Factors, factors
from dimsweep.sweeper.report.describe import short_split
from dimsweep.sweeper.report.naming import narrow, short_keys
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary, Floats
from dimsweep.sweeper.report.words import (
    fine_percent,
    gbps,
    loss,
    million_usd,
    per_million_usd,
    percent,
    ratio,
    seconds,
    usd,
)
from dimsweep.sweeper.study.rules import provisioning_verdict
from dimsweep.sweeper.table import Column, Table, name_columns, tabulate

_ETTR = "ettr"  # what interruptions leave of the time, which makes other figures of it
_MOST_SCENARIOS = 6  # scenarios; of more the table has the worst and the mean alone
_MOST_DECISIONS = 20  # decisions against one baseline
_FRONT_ROWS = 10  # of a front that stands among other tables
_SPENT = 1000.0  # USD
_SMALL_SHARE = 0.1  # of the bandwidth, up to which a slope is valid
_NEARLY = 0.99  # share of the largest saving from which on dimensions tie


def tabulate_best_of_cells(report: Report) -> list[Table]:
    """Return a row for each cell of a grid, or for each simulated design, with its best trial."""
    heads, named = report.named_cells()
    summaries = [cell for cell, _ in named]
    if len(summaries) <= 1:
        return []
    over = next((s.reference.name for s in report.found if s.reference), "").removeprefix("the ")
    split = any(s.split_varies for s in report.found)
    priced = any(s.priced for s in summaries)
    gains = [o for o in (TIME, PERF_PER_COST) if over and o in (TIME, *summaries[0].objectives)]
    figures = describe.model_merits(summaries)
    shown_anyway = {each.name for each in (TIME, COST, PERF_PER_COST, *figures)}
    sought = [each for each in summaries[0].objectives if each.name not in shown_anyway]
    has_ettr = bool(sought) and any(pd.notna(s.best.get(_ETTR)) for s in report.found)
    columns = [
        Column(
            "best split,\nGB/s" if split else "GB/s",
            lambda s: short_split(s, s.best),
            not all(s.of_graph for s in summaries),
            rank=2,
        ),
        Column("time", lambda s: seconds(s.best["time_s"])),
        *(_objective_column(each) for each in sought),
        Column("ETTR", lambda s: _or_dash(s.best.get(_ETTR), "{:.2%}".format), has_ettr, rank=2),
        *(_gain_column(each, over) for each in gains),
        *(_merit_column(each) for each in figures),
        Column(describe.cost_head(summaries), lambda s: million_usd(s.best["cost_usd"]), priced),
        Column(
            "it/s per\nM USD", lambda s: per_million_usd(s.best["perf_per_cost"]), priced, rank=4
        ),
        Column(
            "gap",
            lambda s: _or_dash(s.gap, fine_percent),
            any(s.bound is not None for s in summaries),
            rank=1,
        ),
    ]
    shown = [column for column in columns if column.is_shown]
    failed = any(s.trials.n_broken for s in summaries)
    rows = []
    for s, names in named:
        texts = ["none complete", *["-"] * (len(shown) - 1)]
        if s.found:
            texts = [column.show(s) for column in shown]
        rows.append((*names, *texts, *[str(s.trials.n_broken)] * failed))
    every = (*heads, *(column.head for column in shown), *["failed"] * failed)
    ranks = (*[0] * len(heads), *(column.rank for column in shown), *[1] * failed)
    return [Table("The best trial of every cell", every, rows, len(heads), ranks)]


def _cell_keys(cell: CellSummary) -> list[str]:
    return short_keys(list(cell.cell.coordinates))


def _cell_values(cell: CellSummary) -> list[str]:
    return list(cell.cell.coordinates.values())


def _objective_column(objective: Objective) -> Column:
    name = objective.name.replace("_", " ")
    return Column(name, lambda s: objective.show(objective.value(s.best)))


def _gain_column(objective: Objective, over: str) -> Column:
    what = "it/s per USD" if objective is PERF_PER_COST else "faster"
    return Column(f"{what}\nthan {over}", lambda s: ratio(s.gain(objective)))


def _merit_column(merit: Objective) -> Column:
    return Column(words.merit_head(merit), lambda s: words.merit_cell(merit, s.best), rank=3)


def _or_dash(value: float | None, show: Callable[[float], str]) -> str:
    return "-" if value is None or pd.isna(value) else show(value)


def tabulate_scenarios(report: Report) -> list[Table]:
    """Return a row for each scenario: the best decision, its gain and cost, and the second-best.

    There is no table unless several decisions compete in several scenarios.
    """
    decisions = report.decisions
    if min(len(decisions.decisions), len(decisions.scenarios)) < 2:
        return []
    scenes = range(len(decisions.scenarios))
    best = [decisions.best_cell(s) for s in scenes]
    keys, objective = list(decisions.scenarios[0]), decisions.objective
    columns = [
        *name_columns(short_keys(keys), lambda s: list(decisions.scenarios[s].values())),
        Column("best", lambda s: _describe_best(decisions, s)),
        Column(
            objective.name.replace("_", " "),
            lambda s: objective.show(objective.value(best[s].best)),
        ),
        Column(
            "over the\nbaseline",
            lambda s: ratio(best[s].gain(objective)),
            any(cell.reference and cell.reference.is_common for cell in best),
        ),
        Column(
            describe.cost_head(best),
            lambda s: million_usd(best[s].best["cost_usd"]),
            any(cell.priced for cell in best),
            rank=1,
        ),
        Column("runner-up", lambda s: _next_in(decisions, s)[0], rank=2),
        Column("it is", lambda s: _next_in(decisions, s)[1], rank=2),
    ]
    return tabulate("The best in each scenario", scenes, columns, len(keys) + 1)


def _describe_best(decisions: Decisions, scenario: int) -> str:
    """Return the name of a scenario's best decision, with its values of the searched keys."""
    cell, name = decisions.best_cell(scenario), decisions.name(decisions.order(scenario)[0])
    own = naming.searched(cell, cell.best)
    return f"{name}; {own}" if own else name


def _next_in(decisions: Decisions, scenario: int) -> tuple[str, str]:
    found = decisions.runner_up(scenario)
    return (
        ("-", "-") if found is None else (decisions.name(found[0]), words.format_behind(found[1]))
    )


def tabulate_regrets(report: Report) -> list[Table]:
    """Return a row for each decision with its loss in each scenario, the least loss first."""
    decisions = report.decisions
    if min(len(decisions.decisions), len(decisions.scenarios)) < 2:
        return []
    n = len(decisions.scenarios)
    uneven = bool(np.ptp(decisions.share) > 0)
    heads = {
        s: narrow(decisions.scene(s)) + (f"\n({percent(decisions.share[s])})" if uneven else "")
        for s in (range(n) if n <= _MOST_SCENARIOS else ())
    }

    def show(regret: Any) -> str:
        return loss(regret) if math.isfinite(regret) else "-"  # where a decision does not run

    columns = [
        Column("decision", decisions.name),
        *(
            Column(head, lambda d, s=s: show(decisions.regrets[d, s]), rank=2)
            for s, head in heads.items()
        ),
        Column("worst", lambda d: show(decisions.worst_regrets[d])),
        Column("weighted\nmean" if uneven else "mean", lambda d: show(decisions.mean_regrets[d])),
        Column(
            "best in",
            lambda d: f"{sum(decisions.order(s)[0] == d for s in range(n))} of {n}",
            rank=1,
        ),
    ]
    counts = "each counts by its weight" if uneven else "each counts the same"
    how = ""
    if any(cell.split_varies for cell in report.found):
        one = "one split for all" if report.portfolios else "best split for that scenario"
        how = f" (each with its {one})"
    title = f"What a decision loses against the best of each scenario; {counts}{how}"
    return tabulate(title, decisions.ranking, columns)


def tabulate_factors(report: Report) -> list[Table]:
    """Return tables of speed factors between decisions.

    Two values of a decision give a row for each scenario; decisions against the baseline give a row
    for each decision.
    """
    if not report.can_compare_pairs:
        return []
    found = factors(report.decisions)
    if {each.reference for each in found} != {BASELINE} or len(found) == 1:
        return [_tabulate_scenes(each) for each in found if len(each.values) > 1]
    columns = [
        Column("decision", lambda f: f.subject),
        Column("scenarios", lambda f: str(len(f.values)), rank=1),
        Column("least", lambda f: ratio(min(f.values))),
        Column("median", _format_median),
        Column("most", lambda f: ratio(max(f.values))),
    ]
    title = f"How many times better than {BASELINE}"
    return tabulate(title, found[:_MOST_DECISIONS], columns)


def _format_median(found: Factors) -> str:
    return ratio(float(np.median(found.values)))


def _tabulate_scenes(found: Factors) -> Table:
    rows = [
        (scenario or "all", str(n), ratio(low), ratio(high))
        for scenario, low, high, n in found.ranges
    ]
    if len(rows) > 1:
        ends = ratio(min(found.values)), ratio(max(found.values))
        rows.append((f"all, median {_format_median(found)}", str(len(found.values)), *ends))
    return Table(found.claim, ("scenario", "pairs", "least", "most"), rows)


def tabulate_jobs(report: Report) -> list[Table]:
    """Return a row for each of several jobs on one network, in the best trial of each cell.

    It has the job's time among the other jobs and in isolation, and their ratio.
    """
    jobs = [
        (cell, job, time, dict(cell.best.get(JOB_SLOWDOWN.name) or ())[job])
        for cell in report.found
        for job, time in dict(cell.best.get(JOB_TIME.name) or ()).items()
    ]
    heads = _cell_keys(report.summaries[0])
    columns = [
        *name_columns(heads, lambda item: _cell_values(item[0])),
        Column("job", lambda item: item[1]),
        Column("among\nothers", lambda item: seconds(item[2])),
        Column("alone", lambda item: seconds(item[2] / item[3]), rank=1),
        Column("times as\nlong", lambda item: ratio(item[3])),
    ]
    title = "Each job with the others, and alone in the same place"
    return tabulate(title, jobs, columns, len(heads) + 1)


def tabulate_outages(report: Report) -> list[Table]:
    """Return a row for the best trial of each cell with devices or links that may be down.

    It has the increase of the iteration time while one is down, and in the mean of all time.
    """

    def longer(slowdown: float) -> str:
        return f"{slowdown - 1:+.2%}"

    def each(cell: CellSummary) -> str:
        slowdowns = dict(cell.best[OUTAGE_SLOWDOWN.name]).items()
        return "\n".join(f"{what}: {longer(slower)}" for what, slower in slowdowns)

    def mean(cell: CellSummary) -> str:
        return longer(cell.best["effective_time_s"] * cell.best["ettr"] / cell.best["time_s"])

    heads = _cell_keys(report.summaries[0])
    columns = [*name_columns(heads, _cell_values)]
    columns += [Column("while one is down", each), Column("in the\nmean", mean)]
    cells = [cell for cell in report.found if dict(cell.best.get(OUTAGE_SLOWDOWN.name) or ())]
    title = "How much longer an iteration takes while a device or link is down"
    return tabulate(title, cells, columns, len(heads) + 1)


def tabulate_time_and_cost(summary: CellSummary) -> list[Table]:
    """Return the components of the time and the cost, of the best trial and of its reference."""
    heads, shown = zip(*summary.compared, strict=True)
    rows: list[tuple[str, ...]] = []

    def add(name: str, show: Callable[..., str]) -> None:
        rows.append((name, *map(show, shown)))

    def add_best(name: str, text: str) -> None:
        rows.append((name, text, *[""] * (len(shown) - 1)))

    tallies = {id(row): _by_collective(row) for row in shown}
    add("iteration time", lambda row: seconds(row["time_s"]))
    for name in summary.fidelities:
        again = [each for each in summary.rechecked if each.fidelity == name]
        times = {each.phases["trial"]: each.by_messages() for each in again}
        if any(row["trial"] in times for row in shown):
            add(f"  {name} by {name}", lambda row, times=times: times.get(row["trial"], ""))
    add("  compute", lambda row: seconds(row["compute_s"]))
    add("  exposed communication", lambda row: seconds(row["exposed_s"]))
    collectives = list(dict.fromkeys(chain.from_iterable(tallies.values())))
    for name in collectives:
        add(f"    {name}", lambda row, name=name: seconds(tallies[id(row)].get(name, 0.0)))
    if any(row["waiting_s"] > 0 for row in shown):
        add(f"    {words.waiting(collectives)}", lambda row: seconds(row["waiting_s"]))
    if summary.speedup is not None:
        add_best(f"speed-up over {heads[-1]}", ratio(summary.speedup))
    if summary.priced:
        add(words.cost_of(summary.npu_price), lambda row: usd(row["cost_usd"]))
        if summary.npu_price:
            add_best("  of it NPUs", usd(summary.npus_cost))
        add("iterations/s per M USD", lambda row: per_million_usd(row["perf_per_cost"]))
    if (gain := summary.gain(PERF_PER_COST)) is not None:
        add_best(f"  over {heads[-1]}", ratio(gain))
    for name, title in (
        ("memory_bytes", "memory of the fullest NPU"),
        ("memory_reserved_bytes", "  PyTorch may reserve"),
    ):
        if not pd.isna(summary.best.get(name)):
            add(title, lambda row, name=name: _or_dash(row.get(name), units.format_bytes))
    for merit in words.known_merits(summary.best):
        title = merit.title or "performance per watt"
        add(title, lambda row, merit=merit: merit.show(merit.value(row)))
    if summary.limit is not None and summary.gap is not None:
        at_cost = "" if summary.cell.front is None else " at this cost"
        add_best(f"proven bound{at_cost}", summary.limited.show(summary.limit, 6))
        add_best("  gap to it", fine_percent(summary.gap))
    for key in summary.parameters:  # a baseline may have no such key
        add(key, lambda row, key=key: "-" if pd.isna(row[key]) else str(row[key]))
    return [Table("Time and cost", ("", *heads), rows)]


def _by_collective(row: pd.Series) -> dict[str, float]:
    """Return exposed seconds by kind of collective; kinds that are always hidden are left out."""
    return {name: time for name, time in dict(row[BY_COLLECTIVE.name] or ()).items() if time}


def tabulate_dimensions(summary: CellSummary) -> list[Table]:
    """Return each dimension's bandwidth, utilisation and exposed communication.

    Columns are for the best trial, and for its reference if that has the same dimensions.
    """
    compared, split = summary.compared, summary.split(summary.best)
    if summary.reference is not None and list(summary.reference.dims) != summary.dims:
        compared = compared[:1]
    wide = not summary.of_graph  # whose links are not as wide as the dimensions say
    columns = [
        Column("dimension", lambda d: summary.dims[d]),
        Column("share", lambda d: percent(split[d] / split.sum()), wide, rank=1),
    ]
    for i, (head, row) in enumerate(compared):
        first, own = ("GB/s", "util.") if wide else ("util.", f"{head}\nutil.")
        columns += [
            Column(f"{head}\n{first}", lambda d, r=row: gbps(r[BANDWIDTH.at(d)]), wide, 2 * i),
            Column(own, lambda d, r=row: percent(r[UTILISATION.at(d)]), rank=2 * i),
            Column("exposed", lambda d, r=row: seconds(r[EXPOSED.at(d)]), rank=2 * i),
        ]
    (table,) = tabulate("Dimensions", range(len(summary.dims)), columns)
    if not any(row["waiting_s"] > 0 for _, row in compared):
        return [table]
    none = [""] * wide
    waits = [text for _, row in compared for text in (*none, "", seconds(row["waiting_s"]))]
    rows = [*table.rows, ("none, waiting", *none, *waits)]
    return [Table(table.title, table.columns, rows, table.n_names, table.ranks)]


def tabulate_critical_path(summary: CellSummary) -> list[Table]:
    """Return the critical path of the best trial, by component; none without phases."""
    best = summary.best
    if pd.isna(best.get(PATH["compute"].name)):
        return []
    rows = [
        (part, seconds(best[column.name]), *[""] * (len(PATH_PARTS) - 1))
        for part, column in PATH.items()
        if part == "compute" or best[column.name] > 0
    ]
    for d, name in enumerate(summary.dims):
        rows.append((name, *(seconds(best[column.at(d)]) for column in PATH_PARTS.values())))
    columns = ("critical path", *PATH_PARTS)
    return [Table("What the time of the best trial is made of", columns, rows)]


def tabulate_next_bandwidth(summary: CellSummary) -> list[Table]:
    """Return the time that more bandwidth, or the next dollar, saves in each dimension.

    Columns are for the best and the equal split; there is no table if nothing is known.
    """
    best = summary.saved()
    if best is None:
        return []
    equal = None if summary.equal is None else summary.saved(summary.equal)
    columns = [Column("dimension", lambda d: summary.dims[d])]
    for where, saved in (("best", best), ("equal split", equal)):
        for unit in ("GB/s", "1,000 USD"):
            found = None if saved is None else saved_per(summary, saved, unit)
            if found is not None:
                head = f"{where},\nnext {unit}"
                columns.append(Column(head, lambda d, found=found: seconds(found[d])))
    title = "How much time more bandwidth, or more money for it, saves"
    return tabulate(title, range(len(summary.dims)), columns)


def tabulate_next_bandwidth_of_cells(report: Report) -> list[Table]:
    """Return a row for each cell with the time that more money, or more bandwidth, saves.

    There is no table if nothing is known, or if the cells have different dimensions.
    """
    shown = [s for s in report.found if s.saved() is not None]
    if len(report.summaries) == 1 or not shown or any(s.dims != shown[0].dims for s in shown):
        return []
    unit, heads = common_unit(shown), _cell_keys(shown[0])
    columns = [
        *name_columns(heads, _cell_values),
        *(
            Column(
                name.replace(": ", ":\n"), lambda s, d=d: seconds(float(saved_at_best(s, unit)[d]))
            )
            for d, name in enumerate(shown[0].dims)
        ),
    ]
    where = f"one {report.portfolios[0].noun} for all" if report.portfolios else "best"
    title = f"How much time the next {unit} saves at the {where}"
    return tabulate(title, shown, columns, len(heads))


def common_unit(summaries: Sequence[CellSummary]) -> str:
    """Return the unit in which savings are given: money if all cells have prices, else bandwidth.

    Prices that come in large steps count as unknown.
    """
    is_sold = all(np.isfinite(_bandwidth_bought(s)).any() for s in summaries)
    return "1,000 USD" if is_sold else "GB/s"


def claim_next_bandwidth(summary: CellSummary, unit: str) -> str:
    """Return a sentence on where the next unit of money or bandwidth saves most time.

    It has no full stop.
    """
    saved = saved_at_best(summary, unit)
    if not np.nan_to_num(saved).any():
        return sentences.SAVES_NOTHING(unit=unit)
    most = np.nanmax(saved)
    used, ties = np.flatnonzero(saved > 0), np.flatnonzero(saved > _NEARLY * most)
    if len(used) > 1 and len(used) == len(ties):
        return sentences.SAVES_ANYWHERE(unit=unit, time=seconds(most))
    names = " or in ".join(describe.dim_name(summary, int(d)) for d in ties)
    return sentences.SAVES_MOST(unit=unit, dims=names, time=seconds(most))


def saved_at_best(summary: CellSummary, unit: str) -> Floats:
    """Return the seconds that one more ``unit`` in each dimension (D,) saves at the best trial."""
    saved = summary.saved()
    assert saved is not None
    found = saved_per(summary, saved, unit)
    assert found is not None
    return found


def saved_per(summary: CellSummary, saved: Floats, unit: str) -> Floats | None:
    """Convert seconds per GB/s (D,) to seconds per ``unit``; None if nothing has a price."""
    if unit == "GB/s":
        return saved
    bought = _bandwidth_bought(summary)
    return np.asarray(saved * bought) if np.isfinite(bought).any() else None


def _bandwidth_bought(summary: CellSummary) -> Floats:
    """Return the GB/s (D,) that the next unit of money buys.

    It is NaN if that is much of the bandwidth.
    """
    if summary.prices is None:
        return np.full(len(summary.dims), np.nan)
    bought = _SPENT / summary.prices
    return np.where(bought <= _SMALL_SHARE * summary.split(summary.named), bought, np.nan)


def tabulate_provisioned(summary: CellSummary) -> list[Table]:
    """Return whether the dimensions of the best trial have bandwidths that match one another.

    There is no table if no collective crosses two dimensions, or if the split is proven to be best:
    then no other split would be faster.
    """
    if summary.is_proven:
        return []
    split = summary.split(summary.best)
    columns = [
        Column("group", lambda pair: pair.group),
        Column("fed by", lambda pair: summary.dims[pair.inner]),
        Column("dimension", lambda pair: summary.dims[pair.outer]),
        Column("provision", lambda pair: provisioning_verdict(pair.provision(split))),
        Column("of what\nsuffices", lambda pair: f"{pair.provision(split):.2f}x"),
    ]
    title = "Whether the dimensions of the best trial are provisioned for one another"
    return tabulate(title, summary.cell.pairs, columns, n_names=4)


def tabulate_front(summary: CellSummary) -> list[Table]:
    """Return some trials of the Pareto front, from one end to the other."""
    step = -(-len(summary.front) // _FRONT_ROWS)
    title = describe.trade_off(summary) + (f" (1 in {step})" if step > 1 else "")
    return _tabulate_trade_offs(summary, summary.front.iloc[::step], title)


def tabulate_full_front(summary: CellSummary) -> list[Table]:
    """Return all trials of the Pareto front."""
    return _tabulate_trade_offs(summary, summary.front, "Pareto front")


def _tabulate_trade_offs(summary: CellSummary, rows: pd.DataFrame, title: str) -> list[Table]:
    if len(summary.objectives) == 1:
        return []
    gaps = summary.front_gaps(rows)
    columns = [
        *(
            Column(o.name.replace("_", " "), lambda item, o=o: o.show(o.value(item[0])))
            for o in summary.objectives
        ),
        Column("split, GB/s", lambda item: short_split(summary, item[0]), not summary.of_graph),
        *(
            Column(head, lambda item, key=key: str(item[0][key]), rank=1)
            for head, key in zip(short_keys(summary.parameters), summary.parameters, strict=True)
        ),
        Column(
            "gap in time\nto the bound",
            lambda item: fine_percent(item[1]),
            gaps is not None,
            rank=2,
        ),
    ]
    own = rows.index if gaps is None else gaps  # no gaps, no column
    pairs = zip((row for _, row in rows.iterrows()), own, strict=True)
    return tabulate(title, pairs, columns, n_names=0)
