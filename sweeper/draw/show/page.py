"""The report as one self-contained HTML page, and its pictures as files beside it."""

import base64
from pathlib import Path

import pandas as pd

from sweeper.draw.pictures import PICTURES
from sweeper.ledger.place import Place, make, reaching, write
from sweeper.ledger.record import StudyRecord
from sweeper.report import words
from sweeper.report.report import Report
from sweeper.report.sections import cell_sheets, detail_sheets, sheets
from sweeper.report.sheet import Sheet
from sweeper.report.summary import frequent_errors


def write_report(rows: pd.DataFrame, study: StudyRecord, folder: Place) -> list[Place]:
    """Write report.html and its pictures into ``folder``; returns their paths, the page first.

    ``rows`` is the study's ledger.  Raises :class:`DimsweepError` when no trial is complete.
    """
    report = Report.of(rows, study)
    drawn = [(picture, picture.draw(report)) for picture in PICTURES]
    pictures = {picture: png for picture, png in drawn if png is not None}
    captions = [(picture.caption, png) for picture, png in pictures.items()]
    files = {"report.html": render(report, captions).encode()}
    files |= {picture.file: png for picture, png in pictures.items()}
    with reaching(folder):
        make(folder)
        for name, content in files.items():
            write(folder / name, content)
    return [folder / name for name in files]


def render(report: Report, pictures: list[tuple[str, bytes]]) -> str:
    """The page, with ``pictures`` (caption and PNG) and the styles inside it."""
    import yaml
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    several = len(report.summaries) > 1
    errors = [(text, str(times)) for text, times in frequent_errors(report.failed)]
    return environment.get_template("page.html.j2").render(
        report=report,
        tables=sheets(report),
        pictures=[(caption, base64.b64encode(png).decode()) for caption, png in pictures],
        details=[
            (words.label(s), (cell_sheets(s) if several else []) + detail_sheets(s))
            for s in report.found
        ],
        failures=Sheet("Failed trials", ("error", "trials"), errors) if errors else None,
        config=yaml.safe_dump(dict(report.study.config), sort_keys=False, allow_unicode=True),
    )
