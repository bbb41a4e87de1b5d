"""The Pareto front of two objectives: only what is traded for what."""

import pandas as pd

from dimsweep.sweeper.report.naming import short_keys
from dimsweep.sweeper.report.sheet import Section, Sheet
from dimsweep.sweeper.report.summary import CellSummary
from dimsweep.sweeper.report.words import fine_percent, short_split, trade_off

_ROWS = 10  # of a front that stands among other tables


def table(summary: CellSummary) -> list[Sheet]:
    """Some trials of the front, from one end to the other."""
    step = -(-len(summary.front) // _ROWS)
    title = trade_off(summary) + (f" (1 in {step})" if step > 1 else "")
    return _front(summary, summary.front.iloc[::step], title)


def whole(summary: CellSummary) -> list[Sheet]:
    return _front(summary, summary.front, "Pareto front")


def _front(summary: CellSummary, rows: pd.DataFrame, title: str) -> list[Sheet]:
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
    return [Sheet(title, tuple(columns), texts, n_names=0)]


SECTION = Section(of_cell=table, details=whole)
