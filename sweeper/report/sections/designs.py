"""The best designs of a cell, a row each."""

from sweeper.report import merits
from sweeper.report.sheet import Section, Sheet
from sweeper.report.summary import CellSummary
from sweeper.report.words import best_name, gbps, per_million_usd, seconds, short_keys, usd

_DESIGNS = 20


def table(summary: CellSummary) -> list[Sheet]:
    rows = summary.best_designs(_DESIGNS)
    columns = ["trial", "origin", *(f"{name} GB/s" for name in summary.dims)]
    columns += [*short_keys(summary.parameters), "time"]
    figures = merits.of_model([summary])
    columns += [merits.head(figure) for figure in figures]
    columns += ["cost", "it/s per M USD"] * summary.priced
    texts = []
    for _, row in rows.iterrows():
        cells = [str(row["trial"]), str(row["origin"])]
        cells += [gbps(b) for b in summary.split(row)]
        cells += [str(row[key]) for key in summary.parameters]
        cells += [seconds(row["time_s"], digits=6)]
        cells += [merits.cell(figure, row) for figure in figures]
        cells += [usd(row["cost_usd"]), per_million_usd(row["perf_per_cost"])] * summary.priced
        texts.append(tuple(cells))
    title = f"The {len(rows)} {best_name(summary).split()[0]} designs"
    return [Sheet(title, tuple(columns), texts, n_names=2)]


SECTION = Section(details=table)
