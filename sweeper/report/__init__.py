"""The report of a study: pictures and a page in a folder, and tables in the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from sweeper.draw import plots
from sweeper.objective import Objective
from sweeper.report import page, portfolio, table, words
from sweeper.report.idle import idle_axes
from sweeper.report.summary import CellSummary, summarise

__all__ = ["CellSummary", "Objective", "print_report", "summarise", "write_report"]


def write_report(rows: pd.DataFrame, study: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write report.html and its pictures into ``folder``; their paths, the page first.

    ``rows`` is the study's ledger, ``study`` its description.  Raises :class:`DimsweepError` when
    no trial is complete.
    """
    summaries = summarise(rows, study)
    portfolios = portfolio.summarise_portfolios(summaries, study)
    pictures = plots.draw_all(summaries)
    remarks = words.remarks(study, idle_axes(rows, study))
    if portfolios:
        pictures = {"regret.png": portfolio.regret_map(portfolios)} | pictures
    html = page.render(summaries, portfolios, study, pictures, remarks)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"report.html": html.encode(), **pictures}
    return [_write(folder / name, content) for name, content in files.items()]


def print_report(rows: pd.DataFrame, study: Mapping[str, Any], console: Console) -> None:
    """Print the report's tables; raises :class:`DimsweepError` when no trial is complete."""
    summaries = summarise(rows, study)
    portfolios = portfolio.summarise_portfolios(summaries, study)
    table.print_summaries(summaries, portfolios, study, console)
    for axis in idle_axes(rows, study):
        console.print(Text(f"\nwarning: {words.idle(axis)}", style="yellow"))


def _write(path: Path, content: bytes) -> Path:
    """Write all or nothing, so that a reader never meets half a picture."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    os.replace(temporary, path)
    return path
