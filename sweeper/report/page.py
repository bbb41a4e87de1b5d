"""The report as one self-contained HTML page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sweeper.report import portfolio, sheets, words, worth
from sweeper.report.portfolio import PortfolioSummary
from sweeper.report.summary import CellSummary

_CAPTIONS = {
    "regret.png": "What does a shared network cost each workload?",
    "convergence.png": "Did the search converge?",
    "best_split.png": "What is the best split?",
    "split_map.png": "How exact must it be?",
    "pareto.png": "What does one objective cost in the other?",
    "worth.png": "Where should the next dollar go?",
    "recheck.png": "Does it hold message by message?",
}
_POINTS = 20


def render(
    summaries: Sequence[CellSummary],
    portfolios: Sequence[PortfolioSummary],
    study: Mapping[str, Any],
    pictures: Mapping[str, bytes],
    remarks: Sequence[str],
) -> str:
    """The page, with ``pictures`` (file name and PNG) and the styles inside it; ``remarks``: what
    is odd about the study.

    ``study["config"]`` must be plain YAML types.
    """
    import yaml
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found = [summary for summary in summaries if summary.found]
    one = len(summaries) == 1
    failed = pd.concat([summary.failed for summary in summaries])
    return environment.get_template("page.html.j2").render(
        study=study,
        headline=portfolio.title(summaries, portfolios),
        remarks=remarks,
        n_complete=sum(len(summary.complete) for summary in summaries),
        n_failed=len(failed),
        again=words.stopped_early(summaries)
        + words.looked_at_again(summaries)
        + words.shared(summaries),
        tables=portfolio.sheets_of(portfolios)
        + (
            _tables(found[0])
            if one
            else [*sheets.overview(summaries), *worth.sheet_of_cells(summaries)]
        ),
        pictures=[
            (_CAPTIONS[name], base64.b64encode(png).decode()) for name, png in pictures.items()
        ],
        details=[(words.label(s), ([] if one else _tables(s)) + _trials(s)) for s in found],
        failures=sheets.failures(failed),
        config=yaml.safe_dump(study["config"], sort_keys=False, allow_unicode=True),
    )


def _trials(summary: CellSummary) -> list[sheets.Sheet]:
    """The best trials; with two objectives the front, which is what best means there, as well."""
    designs = summary.best_designs(_POINTS)
    most = words.best_name(summary).split()[0]
    found = [sheets.trials(summary, designs, f"The {len(designs)} {most} designs")]
    if len(summary.objectives) > 1:
        found.insert(0, sheets.front(summary, summary.front, "Pareto front"))
    return found


def _tables(summary: CellSummary) -> list[sheets.Sheet]:
    return [
        sheets.measures(summary),
        sheets.dimensions(summary),
        *sheets.worth(summary),
        *worth.sheet_of(summary),
        *sheets.provisioned(summary),
        *sheets.rechecked(summary),
    ]
