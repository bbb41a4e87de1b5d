"""One row for each cell of a grid, or for each simulated design: its name and its best trial."""

from collections.abc import Sequence

import pandas as pd

from dimsweep.sweeper.objective import COST, PERF_PER_COST, TIME
from dimsweep.sweeper.report import merits, naming, words
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.summary import CellSummary

_ETTR = "ettr"  # what interruptions leave of the time, which makes other figures of it


def table(report: Report) -> list[Sheet]:
    summaries = report.summaries if report.study.proof is None else report.ordered
    if len(summaries) <= 1:
        return []
    heads, named = _names(report, summaries)
    priced = any(s.priced for s in summaries)
    over = next((s.reference.name for s in report.found if s.reference), "").removeprefix("the ")
    split = any(s.split_varies for s in report.found)
    gains = [o for o in (TIME, PERF_PER_COST) if over and o in (TIME, *summaries[0].objectives)]
    failed = any(s.trials.n_broken for s in summaries)
    bounded = any(s.bound is not None for s in summaries)
    graphs = all(s.of_graph for s in summaries)
    columns = [*heads]
    columns += ["best split,\nGB/s" if split else "GB/s"] * (not graphs) + ["time"]
    figures = merits.of_model(summaries)
    told = {each.name for each in (TIME, COST, PERF_PER_COST, *figures)}
    sought = [each for each in summaries[0].objectives if each.name not in told]
    columns += [each.name.replace("_", " ") for each in sought]
    kept = bool(sought) and any(pd.notna(s.best.get(_ETTR)) for s in report.found)
    columns += ["ETTR"] * kept
    columns += [f"{'it/s per USD' if o is PERF_PER_COST else 'faster'}\nthan {over}" for o in gains]
    columns += [merits.head(figure) for figure in figures]
    columns += [words.cost_head(summaries), "it/s per\nM USD"] * priced
    columns += ["gap"] * bounded + ["failed"] * failed
    rows = []
    for s, names in zip(summaries, named, strict=True):
        row = [*names]
        if s.found:
            best = s.best
            row += [words.short_split(s, best)] * (not graphs) + [words.seconds(best["time_s"])]
            row += [each.show(each.of(best)) for each in sought]
            row += [_ettr(best)] * kept
            row += [words.ratio(s.gain(objective)) for objective in gains]
            row += [merits.cell(figure, best) for figure in figures]
            row += [words.million_usd(best["cost_usd"])] * priced
            row += [words.per_million_usd(best["perf_per_cost"])] * priced
            row += ["-" if s.gap is None else words.fine_percent(s.gap)] * bounded
        else:
            row += ["none complete", *["-"] * (len(columns) - len(heads) - 1 - failed)]
        rows.append((*row, *[str(s.trials.n_broken)] * failed))
    return [Sheet("The best trial of every cell", tuple(columns), rows, n_names=len(heads))]


def _ettr(best: pd.Series) -> str:
    share = best.get(_ETTR)
    return "-" if share is None or pd.isna(share) else f"{share:.2%}"


def _names(report: Report, cells: Sequence[CellSummary]) -> tuple[list[str], list[Sequence[str]]]:
    """The heads of the columns of names, and the names of each cell: a column for each axis of a
    grid, and one for designs, which have too many axes for that."""
    if report.study.proof is not None:
        return ["design"], [(name,) for name in naming.in_turn(cells)]
    keys = list(cells[0].cell.coordinates)
    return naming.short_keys(keys), [[c.cell.coordinates[key] for key in keys] for c in cells]


SECTION = Section(of_study=table)
