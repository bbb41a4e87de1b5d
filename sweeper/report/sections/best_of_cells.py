"""One row for each cell of a grid: its coordinates and its best trial."""

from sweeper.objective import PERF_PER_COST, TIME
from sweeper.report import merits
from sweeper.report.report import Report
from sweeper.report.sheet import Section, Sheet
from sweeper.report.words import (
    cost_head,
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
    over = next((s.reference.name for s in report.found if s.reference), "").removeprefix("the ")
    split = any(s.split_varies for s in report.found)
    gains = [o for o in (TIME, PERF_PER_COST) if over and o in (TIME, *summaries[0].objectives)]
    failed = any(len(s.failed) for s in summaries)
    bounded = any(s.bound is not None for s in summaries)
    columns = [*short_keys(keys), "best split,\nGB/s" if split else "GB/s", "time"]
    figures = merits.of_model(summaries)
    columns += [f"{'it/s per USD' if o is PERF_PER_COST else 'faster'}\nthan {over}" for o in gains]
    columns += [merits.head(figure) for figure in figures]
    columns += [cost_head(summaries), "it/s per\nM USD"] * priced
    columns += ["gap"] * bounded + ["failed"] * failed
    rows = []
    for s in summaries:
        row = [s.cell.coordinates[key] for key in keys]
        if s.found:
            best = s.best
            row += [short_split(s, best), seconds(best["time_s"])]
            row += [ratio(s.gain(objective)) for objective in gains]
            row += [merits.cell(figure, best) for figure in figures]
            row += [million_usd(best["cost_usd"]), per_million_usd(best["perf_per_cost"])] * priced
            row += ["-" if s.gap is None else fine_percent(s.gap)] * bounded
        else:
            row += ["none complete", *["-"] * (len(columns) - len(keys) - 1 - failed)]
        rows.append((*row, *[str(len(s.failed))] * failed))
    return [Sheet("The best trial of every cell", tuple(columns), rows, n_names=len(keys))]


SECTION = Section(of_study=table)
