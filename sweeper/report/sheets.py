"""The report's tables as plain texts; the terminal and the page only dress them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from sweeper.objective import PERF_PER_COST
from sweeper.report.recheck import Comparison, agreement, pairs
from sweeper.report.summary import CellSummary, Recheck, frequent_errors
from sweeper.report.words import (
    fine_percent,
    gbps,
    million_usd,
    per_million_usd,
    percent,
    ratio,
    seconds,
    short_keys,
    usd,
)
from sweeper.study.rules import verdict


@dataclass(frozen=True)
class Sheet:
    """A table of texts; the first ``n_names`` columns are names, the others numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    n_names: int = 1


def measures(summary: CellSummary) -> Sheet:
    """Where the time goes and what it costs: the best trial, and the equal split beside it."""
    shown = _shown(summary)
    tallies = [_by_collective(row) for row in shown]
    rows = [
        ("iteration time", [seconds(row["time_s"]) for row in shown]),
        *_by_messages(summary, shown),
        ("  compute", [seconds(row["compute_s"]) for row in shown]),
        ("  exposed communication", [seconds(row["exposed_s"]) for row in shown]),
    ]
    for name in dict.fromkeys(name for tally in tallies for name in tally):
        rows.append((f"    {name}", [seconds(tally.get(name, 0.0)) for tally in tallies]))
    if summary.speedup is not None:
        rows.append(("speed-up over equal", [ratio(summary.speedup), ""]))
    if _priced(summary):
        rows.append(("network cost", [usd(row["cost_usd"]) for row in shown]))
        efficiency = [per_million_usd(row["perf_per_cost"]) for row in shown]
        rows.append(("iterations/s per M USD", efficiency))
    if (gain := summary.gain(PERF_PER_COST)) is not None:
        rows.append(("  over equal", [ratio(gain), ""]))
    if summary.bound is not None and summary.gap is not None:
        rows.append(("proven bound", [summary.objective.show(summary.bound, 6), ""]))
        rows.append(("  gap to it", [fine_percent(summary.gap), ""]))
    rows += [(key, [str(row[key]) for row in shown]) for key in summary.parameters]
    columns = ("", "best", "equal")[: 1 + len(shown)]
    return Sheet("Time and cost", columns, [(name, *cells) for name, cells in rows])


def dimensions(summary: CellSummary) -> Sheet:
    """Each dimension's bandwidth, utilisation and exposed communication, best and equal."""
    shown, shares = _shown(summary), summary.split(summary.best)
    rows = []
    for d, name in enumerate(summary.dims):
        cells = [name, percent(shares[d] / shares.sum())]
        for row in shown:
            cells += [gbps(row[f"bandwidth_{d}_GBps"]), percent(row[f"utilisation_{d}"])]
            cells += [seconds(row[f"exposed_{d}_s"])]
        rows.append(tuple(cells))
    if any(row["waiting_s"] > 0 for row in shown):
        waits = [cell for row in shown for cell in ("", "", seconds(row["waiting_s"]))]
        rows.append(("waiting", "", *waits))
    columns = ["dimension", "share"]
    for which in ("best", "equal")[: len(shown)]:
        columns += [f"{which}\nGB/s", "util.", "exposed"]
    return Sheet("Dimensions", tuple(columns), rows)


def worth(summary: CellSummary) -> list[Sheet]:
    """The best trial's critical path, and what the next bandwidth in each dimension is worth; none
    where the path is not known (message by message, or a ledger from before it was kept)."""
    best = summary.best
    if pd.isna(best.get("path_compute_s")):
        return []
    columns = ["critical path", "transfer", "latency", "endpoint", "next GB/s\nsaves"]
    columns += ["next k USD\nsaves"] * _priced(summary)
    rows = [
        (name, seconds(best[f"path_{name}_s"]), *[""] * (len(columns) - 2))
        for name in ("compute", "memory")
        if name == "compute" or best["path_memory_s"] > 0
    ]
    for d, name in enumerate(summary.dims):
        parts = [best[f"path_{part}_{d}_s"] for part in ("transfer", "latency", "endpoint")]
        saved = [-best[f"ms_per_GBps_{d}"] / 1e3]
        saved += [-best[f"ms_per_usd_{d}"]] * _priced(summary)
        cells = ["-" if pd.isna(value) else seconds(value) for value in (*parts, *saved)]
        rows.append((name, *cells))
    return [Sheet("What more bandwidth is worth at the best trial", tuple(columns), rows)]


def provisioned(summary: CellSummary) -> list[Sheet]:
    """Whether dimensions are provisioned for one another at the best trial; none where no
    collective crosses two of them."""
    split, rows = summary.split(summary.best), []
    for pair in summary.pairs:
        provision = pair.provision(split)
        inner, outer = summary.dims[pair.inner], summary.dims[pair.outer]
        rows.append((pair.group, inner, outer, verdict(provision), f"{provision:.2f}x"))
    columns = ("group", "fed by", "dimension", "is", "of just\nenough")
    title = "Are the dimensions of the best trial provisioned for one another?"
    return [Sheet(title, columns, rows, n_names=4)] if rows else []


def overview(summaries: Sequence[CellSummary]) -> list[Sheet]:
    """What there is to say of a grid of cells, one row each."""
    return [cells(summaries), *rechecked_cells(summaries)]


def cells(summaries: Sequence[CellSummary]) -> Sheet:
    """One row a cell: its coordinates and its best trial, with gains over the equal split."""
    keys = list(summaries[0].cell["coordinates"])
    priced = any(_priced(s) for s in summaries)
    gain = PERF_PER_COST in summaries[0].objectives
    failed = any(len(s.failed) for s in summaries)
    bounded = any(s.bound is not None for s in summaries)
    columns = [*short_keys(keys), "best split,\nGB/s", "time", "speed-\nup"]
    columns += ["cost,\nM USD", "it/s per\nM USD"] * priced + ["gain"] * gain
    columns += ["gap"] * bounded + ["failed"] * failed
    rows = []
    for s in summaries:
        row = [str(s.cell["coordinates"][key]) for key in keys]
        if s.found:
            best = s.best
            row += [_split(s, best), seconds(best["time_s"]), ratio(s.speedup)]
            row += [million_usd(best["cost_usd"]), per_million_usd(best["perf_per_cost"])] * priced
            row += [ratio(s.gain(PERF_PER_COST))] * gain
            row += ["-" if s.gap is None else fine_percent(s.gap)] * bounded
        else:
            row += ["none complete", *["-"] * (2 + 2 * priced + gain + bounded)]
        rows.append((*row, *[str(len(s.failed))] * failed))
    return Sheet("Best trial of every cell", tuple(columns), rows, n_names=len(keys))


def rechecked(summary: CellSummary) -> list[Sheet]:
    """The designs looked at again message by message, and those that failed; none if none was."""
    if not summary.rechecked:
        return []
    comparison = Comparison.of(summary)
    name = comparison.measure.name.replace("_", " ")
    columns = ["rank", "split, GB/s", *short_keys(summary.parameters), f"{name},\nby phases"]
    columns += ["by\nmessages", "ratio", "rank by\nmessages"]
    texts = []
    for recheck in summary.rechecked:
        cells = [str(recheck.rank), _split(summary, recheck.phases)]
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
    sheets = [Sheet(title, tuple(columns), texts, n_names=2)]
    if comparison.failed:
        errors = [(str(r.rank), str(r.messages["error"])) for r in comparison.failed]
        sheets.append(Sheet("Failed designs", ("rank", "error"), errors, n_names=2))
    return sheets


def rechecked_cells(summaries: Sequence[CellSummary]) -> list[Sheet]:
    """One row a cell: its best design by phases and by messages; none if none was rechecked."""
    shown = [summary for summary in summaries if summary.rechecked]
    if not shown:
        return []
    keys = list(shown[0].cell["coordinates"])
    columns = [*short_keys(keys), "time of the\nsearch's best", "by\nmessages", "ratio"]
    columns += ["best by\nmessages", "orders agree"]
    texts = []
    for summary in shown:
        comparison, best = Comparison.of(summary), summary.rechecked[0]
        cells = [str(summary.cell["coordinates"][key]) for key in keys]
        cells += [seconds(best.phases["time_s"], 6), *_time_by_messages(best, 6)]
        cells += [f"rank {comparison.best.rank}" if comparison.complete else "-", pairs(comparison)]
        texts.append(tuple(cells))
    return [Sheet("The best, message by message", tuple(columns), texts, n_names=len(keys))]


def trials(summary: CellSummary, rows: pd.DataFrame, title: str) -> Sheet:
    """Some trials of a cell, a row each."""
    dims = [f"{name} GB/s" for name in summary.dims]
    columns = ["trial", "origin", *dims, *short_keys(summary.parameters), "time"]
    columns += ["cost", "it/s per M USD"] * _priced(summary)
    texts = []
    for _, row in rows.iterrows():
        cells = [str(row["trial"]), str(row["origin"])]
        cells += [gbps(b) for b in summary.split(row)]
        cells += [str(row[key]) for key in summary.parameters]
        cells += [seconds(row["time_s"], digits=6)]
        cells += [usd(row["cost_usd"]), per_million_usd(row["perf_per_cost"])] * _priced(summary)
        texts.append(tuple(cells))
    return Sheet(title, tuple(columns), texts, n_names=2)


def front(summary: CellSummary, rows: pd.DataFrame, title: str) -> Sheet:
    """Some trials of the front, only what is traded for what: narrower than :func:`trials`."""
    names = [objective.name.replace("_", " ") for objective in summary.objectives]
    gaps = summary.front_gaps(rows)
    columns = [*names, "split, GB/s", *short_keys(summary.parameters)]
    columns += ["gap in time\nto the bound"] * (gaps is not None)
    texts = [
        (
            *(o.show(o.of(row)) for o in summary.objectives),
            _split(summary, row),
            *(str(row[key]) for key in summary.parameters),
            *([] if gaps is None else [fine_percent(gaps[i])]),
        )
        for i, (_, row) in enumerate(rows.iterrows())
    ]
    return Sheet(title, tuple(columns), texts, n_names=0)


def failures(failed: pd.DataFrame) -> Sheet:
    """Every error text and the number of trials it stopped."""
    rows = [(text, str(times)) for text, times in frequent_errors(failed)]
    return Sheet("Failed trials", ("error", "trials"), rows)


def _shown(summary: CellSummary) -> list[Any]:
    return [row for row in (summary.best, summary.equal) if row is not None]


def _by_messages(summary: CellSummary, shown: Sequence[Any]) -> list[tuple[str, list[str]]]:
    """The line of iteration times message by message, if any of the rows was looked at again."""
    found = {recheck.phases["trial"]: recheck for recheck in summary.rechecked}
    times = [
        _time_by_messages(found[row["trial"]], 4)[0] if row["trial"] in found else ""
        for row in shown
    ]
    return [("  message by message", times)] if any(times) else []


def _time_by_messages(recheck: Recheck, digits: int) -> tuple[str, str]:
    """The iteration time, and its ratio to that by phases."""
    if recheck.failed:
        return "failed", "-"
    by_messages, by_phases = recheck.messages["time_s"], recheck.phases["time_s"]
    return seconds(by_messages, digits), f"{by_messages / by_phases:.3f}" if by_phases else "-"


def _priced(summary: CellSummary) -> bool:
    return bool(summary.complete["cost_usd"].notna().any())


def _split(summary: CellSummary, row: pd.Series) -> str:
    """The split in few characters."""
    return " ".join(f"{b:.0f}" if b >= 100 else f"{b:.3g}" for b in summary.split(row))


def _by_collective(row: pd.Series) -> dict[str, float]:
    """Exposed seconds by collective, without those that are always hidden."""
    return {name: time for name, time in dict(row["exposed_by_collective_s"]).items() if time}
