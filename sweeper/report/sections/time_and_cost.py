"""Where the time goes and what it costs: the best trial, and what it is compared with beside it."""

from collections.abc import Sequence

import pandas as pd

from dimsweep.engine import units
from dimsweep.sweeper.ledger.schema import BY_COLLECTIVE
from dimsweep.sweeper.objective import PERF_PER_COST
from dimsweep.sweeper.report import merits, words
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.summary import CellSummary


def table(summary: CellSummary) -> list[Sheet]:
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
    rows += _memory(summary, shown)
    for merit in merits.known(summary.best):
        shown_values = [merit.show(merit.of(row)) for row in shown]
        rows.append((merit.title or "performance per watt", shown_values))
    if summary.limit is not None and summary.gap is not None:
        at_cost = "" if summary.cell.front is None else " at this cost"
        rows.append((f"proven bound{at_cost}", [summary.limited.show(summary.limit, 6), ""]))
        rows.append(("  gap to it", [words.fine_percent(summary.gap), ""]))
    rows += [(key, [_text(row[key]) for row in shown]) for key in summary.parameters]
    return [Sheet("Time and cost", ("", *heads), [(name, *cells) for name, cells in rows])]


def _memory(summary: CellSummary, shown: Sequence[pd.Series]) -> list[tuple[str, list[str]]]:
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


def _text(value: object) -> str:
    """The value of a searched key; a dash for a baseline that has no such key."""
    return "-" if pd.isna(value) else str(value)


def _by_collective(row: pd.Series) -> dict[str, float]:
    """Exposed seconds by collective, without those that are always hidden."""
    return {name: time for name, time in dict(row[BY_COLLECTIVE.name] or ()).items() if time}


SECTION = Section(of_cell=table)
