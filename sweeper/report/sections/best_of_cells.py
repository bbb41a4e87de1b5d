"""One row for each cell of a grid: its coordinates and its best trial."""

from sweeper.objective import PERF_PER_COST
from sweeper.report import merits
from sweeper.report.report import Report
from sweeper.report.sheet import Section, Sheet
from sweeper.report.words import (
    fine_percent,
    million_usd,
    per_million_usd,
    ratio,
    seconds,
    short_keys,
    short_split,
)


def table(report: Report) -> list[Sheet]:
    summaries = report.summaries
    if len(summaries) == 1:
        return []
    keys = list(summaries[0].cell.coordinates)
    priced = any(s.priced for s in summaries)
    gain = PERF_PER_COST in summaries[0].objectives
    failed = any(len(s.failed) for s in summaries)
    bounded = any(s.bound is not None for s in summaries)
    columns = [*short_keys(keys), "best split,\nGB/s", "time", "speed-\nup"]
    figures = merits.of_model(summaries)
    columns += [merits.head(figure) for figure in figures]
    columns += ["cost,\nM USD", "it/s per\nM USD"] * priced + ["gain"] * gain
    columns += ["gap"] * bounded + ["failed"] * failed
    rows = []
    for s in summaries:
        row = [s.cell.coordinates[key] for key in keys]
        if s.found:
            best = s.best
            row += [short_split(s, best), seconds(best["time_s"]), ratio(s.speedup)]
            row += [merits.cell(figure, best) for figure in figures]
            row += [million_usd(best["cost_usd"]), per_million_usd(best["perf_per_cost"])] * priced
            row += [ratio(s.gain(PERF_PER_COST))] * gain
            row += ["-" if s.gap is None else fine_percent(s.gap)] * bounded
        else:
            row += ["none complete", *["-"] * (2 + len(figures) + 2 * priced + gain + bounded)]
        rows.append((*row, *[str(len(s.failed))] * failed))
    return [Sheet("The best trial of every cell", tuple(columns), rows, n_names=len(keys))]


SECTION = Section(of_study=table)
