"""One row for each cell of a grid: its coordinates and its best trial."""

from dimsweep.sweeper.objective import PERF_PER_COST, TIME
from dimsweep.sweeper.report import merits, words
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet


def table(report: Report) -> list[Sheet]:
    summaries = report.summaries
    if len(summaries) == 1:
        return []
    keys = list(summaries[0].cell.coordinates)
    priced = any(s.priced for s in summaries)
    over = next((s.reference.name for s in report.found if s.reference), "").removeprefix("the ")
    split = any(s.split_varies for s in report.found)
    gains = [o for o in (TIME, PERF_PER_COST) if over and o in (TIME, *summaries[0].objectives)]
    failed = any(s.trials.n_broken for s in summaries)
    bounded = any(s.bound is not None for s in summaries)
    graphs = all(s.of_graph for s in summaries)
    columns = [*words.short_keys(keys)]
    columns += ["best split,\nGB/s" if split else "GB/s"] * (not graphs) + ["time"]
    figures = merits.of_model(summaries)
    columns += [f"{'it/s per USD' if o is PERF_PER_COST else 'faster'}\nthan {over}" for o in gains]
    columns += [merits.head(figure) for figure in figures]
    columns += [words.cost_head(summaries), "it/s per\nM USD"] * priced
    columns += ["gap"] * bounded + ["failed"] * failed
    rows = []
    for s in summaries:
        row = [s.cell.coordinates[key] for key in keys]
        if s.found:
            best = s.best
            row += [words.short_split(s, best)] * (not graphs) + [words.seconds(best["time_s"])]
            row += [words.ratio(s.gain(objective)) for objective in gains]
            row += [merits.cell(figure, best) for figure in figures]
            row += [words.million_usd(best["cost_usd"])] * priced
            row += [words.per_million_usd(best["perf_per_cost"])] * priced
            row += ["-" if s.gap is None else words.fine_percent(s.gap)] * bounded
        else:
            row += ["none complete", *["-"] * (len(columns) - len(keys) - 1 - failed)]
        rows.append((*row, *[str(s.trials.n_broken)] * failed))
    return [Sheet("The best trial of every cell", tuple(columns), rows, n_names=len(keys))]


SECTION = Section(of_study=table)
