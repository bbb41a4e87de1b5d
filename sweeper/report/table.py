"""The report in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from sweeper.report import portfolio, sheets, words, worth
from sweeper.report.portfolio import PortfolioSummary
from sweeper.report.summary import CellSummary, frequent_errors

_FRONT_ROWS = 10


def print_summaries(
    summaries: Sequence[CellSummary],
    portfolios: Sequence[PortfolioSummary],
    study: Mapping[str, Any],
    console: Console,
) -> None:
    """Print the finding, the tables and the failures; readable in 80 columns and in a pipe."""
    console.print(Text(portfolio.title(summaries, portfolios), style="bold"))
    console.print(Text(f"study {study['name']}: {_effort(summaries)}", style="dim"))
    one = len(summaries) == 1
    shown = _cell(summaries[0]) if one else sheets.overview(summaries)
    shown += [] if one else worth.sheet_of_cells(summaries)
    for sheet in [*portfolio.sheets_of(portfolios), *shown]:
        console.print()
        console.print(_dress(sheet))
    failed = pd.concat([summary.failed for summary in summaries])
    if len(failed):
        text, times = frequent_errors(failed)[0]
        many = f"{len(failed)} trials failed or are infeasible; most often ({times} times):"
        console.print(Text(f"\n{many}", style="bold red"))
        console.print(Text(text))


def _cell(summary: CellSummary) -> list[sheets.Sheet]:
    """The tables of the only cell."""
    found = [sheets.measures(summary), sheets.dimensions(summary), *sheets.worth(summary)]
    found += worth.sheet_of(summary)
    if len(summary.objectives) > 1:
        step = -(-len(summary.front) // _FRONT_ROWS)
        title = words.trade_off(summary) + (f" (1 in {step})" if step > 1 else "")
        found.append(sheets.front(summary, summary.front.iloc[::step], title))
    return found + sheets.rechecked(summary)


def _effort(summaries: Sequence[CellSummary]) -> str:
    complete = sum(len(summary.complete) for summary in summaries)
    samplers = ", ".join(sorted({str(summary.cell["sampler"]) for summary in summaries}))
    asked = complete + sum(len(summary.failed) for summary in summaries)
    again = words.stopped_early(summaries) + words.looked_at_again(summaries)
    again += words.shared(summaries)
    return f"{complete} of {asked} trials complete, searched by {samplers}{again}"


def _dress(sheet: sheets.Sheet) -> Table:
    """``sheet`` as a rich table.  Cells are Text, since brackets in a name are not markup."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title=sheet.title,
        title_justify="left",
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for i, column in enumerate(sheet.columns):
        justify: JustifyMethod = "left" if i < sheet.n_names else "right"
        table.add_column(Text(column), justify=justify, overflow="fold")
    for row in sheet.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
