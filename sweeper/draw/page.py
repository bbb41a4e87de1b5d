"""The report as one self-contained HTML page with interactive charts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.draw.design import design_of_answer
from dimsweep.sweeper.ledger.place import Place, make_folder, translating_store_errors, write
from dimsweep.sweeper.questions.findings import (
    tabulate_cell_details,
    tabulate_cell_report,
    tabulate_study,
)
from dimsweep.sweeper.report import naming
from dimsweep.sweeper.report.answers import answers
from dimsweep.sweeper.report.bill import bill_of_design
from dimsweep.sweeper.report.remarks import merged
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.runners_up import tabulate_runners_up
from dimsweep.sweeper.table import Table

_HERE = Path(__file__).parent
_WIDTHS = {"narrow": 46, "medium": 90}  # letters of a table's row that fit without scrolling
STYLE = (_HERE / "style.css").read_text()


def write_report(report: Report, folder: Place) -> Place:
    """Write report.html into ``folder``, and return its path."""
    page = render(report).encode()
    with translating_store_errors(folder):
        make_folder(folder)
        write(folder / "report.html", page)
    return folder / "report.html"


def render(report: Report) -> str:
    """Return the HTML page, with charts, data, styles and scripts inside it."""
    import yaml

    several = len(report.summaries) > 1
    errors = [(text, f"{times:,}") for text, times in report.causes]
    return _filled(
        "page.html.j2",
        **_charts(report),
        charts_open=False,
        report=report,
        answers=answers(report),
        design=design_of_answer(report),
        runners_up=tabulate_runners_up(report),
        remarks=merged(report.remarks),
        foot=_foot(report),
        tables=tabulate_study(report),
        bill=bill_of_design(report),
        details=[
            (
                naming.label(s),
                (tabulate_cell_report(s) if several else []) + tabulate_cell_details(s),
            )
            for s in report.found
        ],
        failures=Table("By cause", ("cause", "trials"), errors) if errors else None,
        config=yaml.safe_dump(dict(report.study.config), sort_keys=False, allow_unicode=True),
    )


def _foot(report: Report) -> list[str]:
    """Return the software versions that simulated the rows, without repetitions."""
    study, found = report.study, []
    for each in study.provenance:
        commit = f"commit {each.git[:12]}{'+' * each.git.endswith('+')}" if each.git else ""
        model = f"model {study.model}" if study.model is not None else ""
        texts = [f"dimsweep {each.version}", commit, model, each.date or "", each.machine]
        found.append(", ".join(text for text in texts if text))
    return found


def render_charts(report: Report, names: Sequence[str] = ()) -> str:
    """Return a page of the charts with these names, or of all charts.

    Raises :class:`DimsweepError` for a chart that the study does not have.
    """
    return _filled("charts.html.j2", charts_open=True, **_charts(report, names))


def _charts(report: Report, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return the values for the template of the named charts."""
    from bokeh.document import Document
    from bokeh.embed import components
    from bokeh.resources import Resources

    from dimsweep.sweeper.charts import CHARTS, order_charts
    from dimsweep.sweeper.charts.points import Points

    points = Points.from_report(report)
    wanted = [chart for chart in order_charts(report) if not names or chart.name in names]
    drawn = {chart: found for chart in wanted if (found := chart.draw(points)) is not None}
    there = [chart.name for chart in drawn]
    if missing := [name for name in names if name not in there]:
        raise DimsweepError(
            f"this study has no chart {missing[0]!r}",
            code="unknown-name",
            hint=f"charts are {', '.join(chart.name for chart in CHARTS)}",
        )
    document = Document()
    # Bokeh's own look at what is drawn is one of tests/sweeper/charts: a sixth of a page's time.
    document.validate = lambda: None
    with document.models.freeze():  # or each chart would have all that came before looked through
        for _, model in drawn.values():
            document.add_root(model)
    script, places = components({chart.name: model for chart, (_, model) in drawn.items()})
    library = Resources(mode="inline", components=["bokeh", "bokeh-widgets", "bokeh-tables"])
    return {
        "title": report.study.name,
        "charts": [
            (chart, chart.captioned(points), claim, places[chart.name])
            for chart, (claim, _) in drawn.items()
        ],
        "colours": points.colours,
        "script": script,
        "library": library.render_js(),
    }


def _breakable(text: str) -> Any:
    """Return a text with break points inside long names, such as between a shape's dimensions."""
    from markupsafe import Markup, escape

    return Markup(str(escape(text)).replace("_", "_<wbr>"))


def _classify_width(sheet: Table) -> str:
    """Return a table's CSS class: ``narrow`` (a phone), ``medium`` (half a screen) or ``wide``."""
    columns = zip(sheet.columns, *sheet.rows, strict=True)
    widest = [
        max(
            (
                len(part)
                for text in (*head.split(), *texts)  # a head breaks at its spaces
                for part in (text.split() if i < sheet.n_names else [text])
            ),
            default=0,
        )
        for i, (head, *texts) in enumerate(columns)
    ]
    letters = sum(widest) + 2 * len(widest)
    return next((name for name, most in _WIDTHS.items() if letters <= most), "wide")


def _filled(template: str, **values: Any) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"breakable": _breakable, "fit": _classify_width}
    return environment.get_template(template).render(**values, style=STYLE)
