"""The sections of a report: its tables, in reading order."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from dimsweep.engine import units
from dimsweep.sweeper.ledger.schema import (
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
from dimsweep.sweeper.objective import COST, PERF_PER_COST, TIME
from dimsweep.sweeper.report import naming, portfolio, proof, recheck, what_if, words
from dimsweep.sweeper.report.decisions import BASELINE, Decisions, Factors, factors
from dimsweep.sweeper.report.naming import narrow, short_keys
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary, Floats
from dimsweep.sweeper.report.table import Table
from dimsweep.sweeper.report.words import (
    dim_name,
    fine_percent,
    gbps,
    loss,
    percent,
    ratio,
    seconds,
    short_split,
    trade_off,
)
from dimsweep.sweeper.study.rules import verdict

_ETTR = "ettr"  # what interruptions leave of the time, which makes other figures of it


def tabulate_best_of_cells(report: Report) -> list[Table]:
    summaries = report.summaries if report.study.proof is None else report.ordered
    if len(summaries) <= 1:
        return []
    heads, named = _cell_names(report, summaries)
    priced = any(s.priced for s in summaries)
    over = next((s.reference.name for s in report.found if s.reference), "").removeprefix("the ")
    split = any(s.split_varies for s in report.found)
    gains = [o for o in (TIME, PERF_PER_COST) if over and o in (TIME, *summaries[0].objectives)]
    failed = any(s.trials.n_broken for s in summaries)
    bounded = any(s.bound is not None for s in summaries)
    graphs = all(s.of_graph for s in summaries)
    columns = [*heads]
    columns += ["best split,\nGB/s" if split else "GB/s"] * (not graphs) + ["time"]
    figures = words.of_model(summaries)
    told = {each.name for each in (TIME, COST, PERF_PER_COST, *figures)}
    sought = [each for each in summaries[0].objectives if each.name not in told]
    columns += [each.name.replace("_", " ") for each in sought]
    kept = bool(sought) and any(pd.notna(s.best.get(_ETTR)) for s in report.found)
    columns += ["ETTR"] * kept
    columns += [f"{'it/s per USD' if o is PERF_PER_COST else 'faster'}\nthan {over}" for o in gains]
    columns += [words.head(figure) for figure in figures]
    columns += [words.cost_head(summaries), "it/s per\nM USD"] * priced
    columns += ["gap"] * bounded + ["failed"] * failed
    rows = []
    for s, names in zip(summaries, named, strict=True):
        row = [*names]
        if s.found:
            best = s.best
            row += [words.short_split(s, best)] * (not graphs) + [words.seconds(best["time_s"])]
            row += [each.show(each.of(best)) for each in sought]
            row += [_format_ettr(best)] * kept
            row += [words.ratio(s.gain(objective)) for objective in gains]
            row += [words.cell(figure, best) for figure in figures]
            row += [words.million_usd(best["cost_usd"])] * priced
            row += [words.per_million_usd(best["perf_per_cost"])] * priced
            row += ["-" if s.gap is None else words.fine_percent(s.gap)] * bounded
        else:
            row += ["none complete", *["-"] * (len(columns) - len(heads) - 1 - failed)]
        rows.append((*row, *[str(s.trials.n_broken)] * failed))
    return [Table("The best trial of every cell", tuple(columns), rows, n_names=len(heads))]


def _format_ettr(best: pd.Series) -> str:
    share = best.get(_ETTR)
    return "-" if share is None or pd.isna(share) else f"{share:.2%}"


def _cell_names(
    report: Report, cells: Sequence[CellSummary]
) -> tuple[list[str], list[Sequence[str]]]:
    """The heads of the columns of names, and the names of each cell: a column for each axis of a
    grid, and one for designs, which have too many axes for that."""
    if report.study.proof is not None:
        return ["design"], [(name,) for name in naming.in_turn(cells)]
    keys = list(cells[0].cell.coordinates)
    return naming.short_keys(keys), [[c.cell.coordinates[key] for key in keys] for c in cells]


def tabulate_scenarios(report: Report) -> list[Table]:
    """A row for each scenario, where several decisions compete in several."""
    decisions = report.decisions
    if min(len(decisions.decisions), len(decisions.scenarios)) < 2:
        return []
    cells = [decisions.best(s) for s in range(len(decisions.scenarios))]
    keys = list(decisions.scenarios[0])
    has_baseline = any(cell.reference and cell.reference.is_common for cell in cells)
    priced = any(cell.priced for cell in cells)
    objective = decisions.objective
    columns = [*naming.short_keys(keys), "best", objective.name.replace("_", " ")]
    columns += ["over the\nbaseline"] * has_baseline
    columns += [words.cost_head(cells)] * priced + ["runner-up", "it is"]
    rows = []
    for s, cell in enumerate(cells):
        row = [*decisions.scenarios[s].values(), _describe_best(decisions, s)]
        row.append(objective.show(objective.of(cell.best)))
        row += [words.ratio(cell.gain(objective))] * has_baseline
        row += [words.million_usd(cell.best["cost_usd"])] * priced
        found = decisions.behind(s)
        row += ["-", "-"] if found is None else [decisions.name(found[0]), words.behind(found[1])]
        rows.append(tuple(row))
    return [Table("The best in each scenario", tuple(columns), rows, n_names=len(keys) + 1)]


def _describe_best(decisions: Decisions, scenario: int) -> str:
    """The best decision, with the values of the searched keys."""
    cell, name = decisions.best(scenario), decisions.name(decisions.order(scenario)[0])
    own = naming.searched(cell, cell.best)
    return f"{name}; {own}" if own else name


_MOST_SCENARIOS = 6  # scenarios; of more the table has the worst and the mean alone


def tabulate_regrets(report: Report) -> list[Table]:
    """A row for each decision, the one that loses least first."""
    decisions = report.decisions
    if min(len(decisions.decisions), len(decisions.scenarios)) < 2:
        return []
    n = len(decisions.scenarios)
    scenes = range(n) if n <= _MOST_SCENARIOS else range(0)
    uneven = bool(np.ptp(decisions.share) > 0)
    heads = [narrow(decisions.scene(s)) for s in scenes]
    if uneven:
        heads = [f"{head}\n({percent(decisions.share[s])})" for s, head in enumerate(heads)]
    columns = ["decision", *heads, "worst", "weighted\nmean" if uneven else "mean"]
    columns += ["best in"]
    rows = []
    for d in decisions.ranking:
        row = [decisions.name(d), *(_format_regret(float(decisions.regrets[d, s])) for s in scenes)]
        row += [_format_regret(float(decisions.worst[d])), _format_regret(float(decisions.mean[d]))]
        row += [f"{_count_wins(decisions, d)} of {n}"]
        rows.append(tuple(row))
    counts = "each counts by its weight" if uneven else "each counts the same"
    how = _describe_splits(report)
    title = f"What a decision loses against the best of each scenario; {counts}{how}"
    return [Table(title, tuple(columns), rows)]


def _describe_splits(report: Report) -> str:
    """With which split a decision stands for itself, where splits are searched."""
    if not any(cell.split_varies for cell in report.found):
        return ""
    if report.portfolios:
        return " (each with its one split for all)"
    return " (each with its best split for that scenario)"


def _count_wins(decisions: Decisions, decision: int) -> int:
    return sum(decisions.order(s)[0] == decision for s in range(len(decisions.scenarios)))


def _format_regret(regret: float) -> str:
    """A regret; a dash where a decision does not run."""
    return loss(regret) if math.isfinite(regret) else "-"


_MOST_DECISIONS = 20  # decisions against one baseline


def tabulate_factors(report: Report) -> list[Table]:
    """Of two values of a decision a row for each scenario; of decisions against the baseline a row
    for each decision."""
    if report.study.is_certified:  # a few of many designs, and none of them at random
        return []
    found = factors(report.decisions)
    if {each.reference for each in found} == {BASELINE} and len(found) > 1:
        return [_tabulate_against_baseline(found[:_MOST_DECISIONS])]
    return [_tabulate_scenes(each) for each in found if len(each.values) > 1]


def _tabulate_against_baseline(found: Sequence[Factors]) -> Table:
    rows = [
        (
            f.subject,
            str(len(f.values)),
            ratio(min(f.values)),
            _format_median(f),
            ratio(max(f.values)),
        )
        for f in found
    ]
    columns = ("decision", "scenarios", "least", "median", "most")
    return Table(f"How many times better than {BASELINE}", columns, rows)


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
    """A row for each job in the best trial of each cell."""
    keys, rows = list(report.summaries[0].cell.coordinates), list[tuple[str, ...]]()
    for cell in report.found:
        slowdowns = dict(cell.best.get(JOB_SLOWDOWN.name) or ())
        for job, time in dict(cell.best.get(JOB_TIME.name) or ()).items():
            alone = words.seconds(time / slowdowns[job])
            at = (cell.cell.coordinates[key] for key in keys)
            rows.append((*at, job, words.seconds(time), alone, words.ratio(slowdowns[job])))
    columns = (*naming.short_keys(keys), "job", "among\nothers", "alone", "times as\nlong")
    title = "Each job among the others, and alone in its place"
    return [Table(title, columns, rows, n_names=len(keys) + 1)] if rows else []


def tabulate_outages(report: Report) -> list[Table]:
    """A row for the best trial of each cell of which devices or links may be down."""
    keys, rows = list(report.summaries[0].cell.coordinates), list[tuple[str, ...]]()
    for cell in report.found:
        outages = dict(cell.best.get(OUTAGE_SLOWDOWN.name) or ())
        if outages:
            at = (cell.cell.coordinates[key] for key in keys)
            each = [f"{what}: {_format_slowdown(slower)}" for what, slower in outages.items()]
            mean = cell.best["effective_time_s"] * cell.best["ettr"] / cell.best["time_s"]
            rows.append((*at, "\n".join(each), _format_slowdown(mean)))
    columns = (*naming.short_keys(keys), "while one is down", "in the\nmean")
    title = "How much longer an iteration takes while a device or link is down"
    return [Table(title, columns, rows, n_names=len(keys) + 1)] if rows else []


def _format_slowdown(slowdown: float) -> str:
    return f"{slowdown - 1:+.2%}"


def tabulate_time_and_cost(summary: CellSummary) -> list[Table]:
    heads, shown = zip(*summary.compared, strict=True)
    again = {
        name: {p.phases["trial"]: p.by_messages() for p in summary.rechecked if p.fidelity == name}
        for name in summary.fidelities
    }
    tallies = [_by_collective(row) for row in shown]
    rows = [("iteration time", [words.seconds(row["time_s"]) for row in shown])]
    for name, times in again.items():
        if any(row["trial"] in times for row in shown):
            cells = [times.get(row["trial"], "") for row in shown]
            rows.append((f"  {name} by {name}", cells))
    rows.append(("  compute", [words.seconds(row["compute_s"]) for row in shown]))
    rows.append(("  exposed communication", [words.seconds(row["exposed_s"]) for row in shown]))
    for name in dict.fromkeys(name for tally in tallies for name in tally):
        rows.append((f"    {name}", [words.seconds(tally.get(name, 0.0)) for tally in tallies]))
    if any(row["waiting_s"] > 0 for row in shown):
        name = words.waiting(name for tally in tallies for name in tally)
        rows.append((f"    {name}", [words.seconds(row["waiting_s"]) for row in shown]))
    if summary.speedup is not None:
        rows.append((f"speed-up over {heads[-1]}", [words.ratio(summary.speedup), ""]))
    if summary.priced:
        cost = words.cost_of(summary.npu_price)
        rows.append((cost, [words.usd(row["cost_usd"]) for row in shown]))
        if summary.npu_price:
            rows.append(("  of it NPUs", [words.usd(summary.npus_cost), ""]))
        efficiency = [words.per_million_usd(row["perf_per_cost"]) for row in shown]
        rows.append(("iterations/s per M USD", efficiency))
    if (gain := summary.gain(PERF_PER_COST)) is not None:
        rows.append((f"  over {heads[-1]}", [words.ratio(gain), ""]))
    rows += _memory_rows(summary, shown)
    for merit in words.known(summary.best):
        shown_values = [merit.show(merit.of(row)) for row in shown]
        rows.append((merit.title or "performance per watt", shown_values))
    if summary.limit is not None and summary.gap is not None:
        at_cost = "" if summary.cell.front is None else " at this cost"
        rows.append((f"proven bound{at_cost}", [summary.limited.show(summary.limit, 6), ""]))
        rows.append(("  gap to it", [words.fine_percent(summary.gap), ""]))
    rows += [(key, [_format_key(row[key]) for row in shown]) for key in summary.parameters]
    return [Table("Time and cost", ("", *heads), [(name, *cells) for name, cells in rows])]


def _memory_rows(summary: CellSummary, shown: Sequence[pd.Series]) -> list[tuple[str, list[str]]]:
    """Return rows for the memory that the fullest NPU holds and that PyTorch may reserve."""
    names = {
        "memory_bytes": "memory of the fullest NPU",
        "memory_reserved_bytes": "  PyTorch may reserve",
    }
    return [
        (title, ["-" if pd.isna(row.get(name)) else units.format_bytes(row[name]) for row in shown])
        for name, title in names.items()
        if not pd.isna(summary.best.get(name))
    ]


def _format_key(value: object) -> str:
    """The value of a searched key; a dash for a baseline that has no such key."""
    return "-" if pd.isna(value) else str(value)


def _by_collective(row: pd.Series) -> dict[str, float]:
    """Exposed seconds by collective, without those that are always hidden."""
    return {name: time for name, time in dict(row[BY_COLLECTIVE.name] or ()).items() if time}


def tabulate_dimensions(summary: CellSummary) -> list[Table]:
    compared, split = summary.compared, summary.split(summary.best)
    if summary.reference is not None and list(summary.reference.dims) != summary.dims:
        compared = compared[:1]
    heads, shown = zip(*compared, strict=True)
    rows, wide = [], not summary.of_graph  # whose links are not as wide as the dimensions say
    for d, name in enumerate(summary.dims):
        cells = [name, *[percent(split[d] / split.sum())] * wide]
        for row in shown:
            cells += [gbps(row[BANDWIDTH.at(d)])] * wide + [percent(row[UTILISATION.at(d)])]
            cells += [seconds(row[EXPOSED.at(d)])]
        rows.append(tuple(cells))
    if any(row["waiting_s"] > 0 for row in shown):
        none = [""] * wide
        waits = [cell for row in shown for cell in (*none, "", seconds(row["waiting_s"]))]
        rows.append(("none, waiting", *none, *waits))
    columns = ["dimension", *["share"] * wide]
    for head in heads:
        told = ["GB/s", "util.", "exposed"] if wide else ["util.", "exposed"]
        columns += [f"{head}\n{told[0]}", *told[1:]]
    return [Table("Dimensions", tuple(columns), rows)]


def tabulate_critical_path(summary: CellSummary) -> list[Table]:
    best = summary.best
    if pd.isna(best.get(PATH["compute"].name)):
        return []
    rows = [
        (part, seconds(best[column.name]), *[""] * (len(PATH_PARTS) - 1))
        for part, column in PATH.items()
        if part == "compute" or best[column.name] > 0
    ]
    for d, name in enumerate(summary.dims):
        values = [best[column.at(d)] for column in PATH_PARTS.values()]
        rows.append((name, *map(seconds, values)))
    return [
        Table("What the time of the best trial is made of", ("critical path", *PATH_PARTS), rows)
    ]


_SPENT = 1000.0  # USD
_SMALL_SHARE = 0.1  # of the bandwidth that there is: a slope says nothing of much more
_NEARLY = 0.99  # dimensions that are worth as much as this of the most are alike
_UNITS = ("GB/s", "k USD")


def tabulate_next_bandwidth(summary: CellSummary) -> list[Table]:
    """What is saved in each dimension, at the best and at the equal split; none if not known."""
    best = summary.saved()
    if best is None:
        return []
    equal = None if summary.equal is None else summary.saved(summary.equal)
    columns, values = ["dimension"], []
    for where, saved in (("best", best), ("equal split", equal)):
        for unit in _UNITS:
            found = None if saved is None else saved_per(summary, saved, unit)
            if found is not None:
                columns.append(f"{where},\nnext {unit}")
                values.append([seconds(value) for value in found])
    rows = list(zip(summary.dims, *values, strict=True))
    title = "How much time more bandwidth, or more money for it, saves"
    return [Table(title, tuple(columns), rows)]


def tabulate_next_bandwidth_of_cells(report: Report) -> list[Table]:
    """A row for each cell: what the next money (or bandwidth) saves in each dimension of the best
    trial; none if that is not known of any, or they have different dimensions."""
    shown = [s for s in report.found if s.saved() is not None]
    if len(report.summaries) == 1 or not shown or any(s.dims != shown[0].dims for s in shown):
        return []
    unit = common_unit(shown)
    keys = list(shown[0].cell.coordinates)
    rows = [
        (*(s.cell.coordinates[key] for key in keys), *map(seconds, saved_at_best(s, unit)))
        for s in shown
    ]
    columns = (*short_keys(keys), *(name.replace(": ", ":\n") for name in shown[0].dims))
    where = f"one {report.portfolios[0].noun} for all" if report.portfolios else "best"
    title = f"How much time the next {unit} saves at the {where}"
    return [Table(title, columns, rows, n_names=len(keys))]


def common_unit(summaries: Sequence[CellSummary]) -> str:
    """What is spent next: money, if all cells have prices that it is little for, or else
    bandwidth."""
    return "k USD" if all(np.isfinite(_bandwidth_bought(s)).any() for s in summaries) else "GB/s"


def claim_next_bandwidth(summary: CellSummary, unit: str) -> str:
    """Where the most is saved, in a sentence without a full stop."""
    saved = saved_at_best(summary, unit)
    if not np.nan_to_num(saved).any():
        return f"the next {unit} saves nothing in any dimension"
    most = np.nanmax(saved)
    used, alike = np.flatnonzero(saved > 0), np.flatnonzero(saved > _NEARLY * most)
    if len(used) > 1 and len(used) == len(alike):
        return f"the next {unit} saves {seconds(most)} wherever it goes"
    names = [dim_name(summary, int(d)) for d in alike]
    return f"the next {unit} saves most in {' or in '.join(names)}: {seconds(most)}"


def saved_at_best(summary: CellSummary, unit: str) -> Floats:
    """What is saved at the best trial, where that is known."""
    saved = summary.saved()
    assert saved is not None
    found = saved_per(summary, saved, unit)
    assert found is not None
    return found


def saved_per(summary: CellSummary, saved: Floats, unit: str) -> Floats | None:
    """Seconds per GB/s as seconds per ``unit``; None where nothing has a price."""
    if unit == "GB/s":
        return saved
    bought = _bandwidth_bought(summary)
    return np.asarray(saved * bought) if np.isfinite(bought).any() else None


def _bandwidth_bought(summary: CellSummary) -> Floats:
    """(D,) the GB/s that the next money buys in each dimension, NaN where it is no little."""
    if summary.prices is None:
        return np.full(len(summary.dims), np.nan)
    bought = _SPENT / summary.prices
    return np.where(bought <= _SMALL_SHARE * summary.split(summary.named), bought, np.nan)


def tabulate_provisioned(summary: CellSummary) -> list[Table]:
    if summary.is_proven:
        return []
    split, rows = summary.split(summary.best), []
    for pair in summary.cell.pairs:
        provision = pair.provision(split)
        inner, outer = summary.dims[pair.inner], summary.dims[pair.outer]
        rows.append((pair.group, inner, outer, verdict(provision), f"{provision:.2f}x"))
    columns = ("group", "fed by", "dimension", "provision", "of what\nsuffices")
    title = "Whether the dimensions of the best trial are provisioned for one another"
    return [Table(title, columns, rows, n_names=4)] if rows else []


_FRONT_ROWS = 10  # of a front that stands among other tables


def tabulate_front(summary: CellSummary) -> list[Table]:
    """Some trials of the front, from one end to the other."""
    step = -(-len(summary.front) // _FRONT_ROWS)
    title = trade_off(summary) + (f" (1 in {step})" if step > 1 else "")
    return _tabulate_trade_offs(summary, summary.front.iloc[::step], title)


def tabulate_whole_front(summary: CellSummary) -> list[Table]:
    return _tabulate_trade_offs(summary, summary.front, "Pareto front")


def _tabulate_trade_offs(summary: CellSummary, rows: pd.DataFrame, title: str) -> list[Table]:
    if len(summary.objectives) == 1:
        return []
    names = [objective.name.replace("_", " ") for objective in summary.objectives]
    gaps = summary.front_gaps(rows)
    split = not summary.of_graph
    columns = [*names, *["split, GB/s"] * split, *short_keys(summary.parameters)]
    columns += ["gap in time\nto the bound"] * (gaps is not None)
    texts = [
        (
            *(o.show(o.of(row)) for o in summary.objectives),
            *[short_split(summary, row)] * split,
            *(str(row[key]) for key in summary.parameters),
            *([] if gaps is None else [fine_percent(gaps[i])]),
        )
        for i, (_, row) in enumerate(rows.iterrows())
    ]
    return [Table(title, tuple(columns), texts, n_names=0)]


def _tabulate_proof(report: Report) -> list[Table]:
    is_shared = report.study.is_shared and report.portfolios
    show_mean = report.portfolios[0].show_mean if is_shared else None
    return proof.tabulate(report.study, report.ordered, show_mean)


def _tabulate_portfolios(report: Report) -> list[Table]:
    return [table for one in report.portfolios for table in portfolio.tabulate(one)]


# The tables of a study, which compare its cells or workloads; of one cell; and of one cell on the
# page alone.  Each function returns no table where it has nothing to say.
OF_STUDY: tuple[Callable[[Report], list[Table]], ...] = (
    _tabulate_proof,
    _tabulate_portfolios,
    tabulate_scenarios,
    tabulate_regrets,
    tabulate_factors,
    tabulate_best_of_cells,
    tabulate_jobs,
    tabulate_outages,
    tabulate_next_bandwidth_of_cells,
    what_if.tabulate_cells,
    recheck.tabulate_cells,
)
OF_CELL: tuple[Callable[[CellSummary], list[Table]], ...] = (
    tabulate_time_and_cost,
    tabulate_dimensions,
    tabulate_critical_path,
    tabulate_next_bandwidth,
    what_if.tabulate,
    tabulate_front,
    recheck.tabulate,
)
DETAILS: tuple[Callable[[CellSummary], list[Table]], ...] = (
    tabulate_provisioned,
    tabulate_whole_front,
)


def tables_of_study(report: Report) -> list[Table]:
    """Return the tables of a study, and those of its cell if it has only one."""
    tables = [table for tabulate in OF_STUDY for table in tabulate(report)]
    return tables + (tables_of_cell(report.summaries[0]) if len(report.summaries) == 1 else [])


def tables_of_cell(summary: CellSummary) -> list[Table]:
    """Return the tables of one cell."""
    return [table for tabulate in OF_CELL for table in tabulate(summary)]


def details_of_cell(summary: CellSummary) -> list[Table]:
    """Return the tables of one cell that only the page has room for."""
    return [table for tabulate in DETAILS for table in tabulate(summary)]
