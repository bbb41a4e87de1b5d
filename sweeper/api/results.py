"""Read the findings of a study from its folder, also while it runs."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
import pyarrow as pa

from dimsweep.engine import DimsweepError, needing
from dimsweep.sweeper.draw.found import write_picture
from dimsweep.sweeper.draw.page import render_charts, write_report
from dimsweep.sweeper.ledger.place import Place, find_results_folder
from dimsweep.sweeper.ledger.record import StudyRecord, read_study
from dimsweep.sweeper.ledger.rows import BANDWIDTH
from dimsweep.sweeper.ledger.stored import load
from dimsweep.sweeper.objective import TIME
from dimsweep.sweeper.output import write_file
from dimsweep.sweeper.questions.findings import read_report
from dimsweep.sweeper.questions.what_if.findings import WhatIf, group_changes
from dimsweep.sweeper.report.decisions import scenes
from dimsweep.sweeper.report.naming import label
from dimsweep.sweeper.report.report import Report
from dimsweep.sweeper.report.summary import CellSummary

_HEIGHT = 620  # pixels of a notebook's output


@dataclass(frozen=True)
class Plot:
    """An HTML page of charts; Jupyter shows it in a frame. It needs no network."""

    page: str

    def save(self, file: str | Path) -> Path:
        """Write the page into a file that ends in .html, and return its path.

        Raises :class:`DimsweepError` for another ending, since a browser draws the charts.
        """
        path = Path(file)
        if path.suffix.lower() not in (".html", ".htm"):
            raise DimsweepError(
                "charts are saved as a page, whose name ends in .html",
                where=str(file),
                code="unsupported",
                hint="Results.write_picture draws what was found into a .png, .svg or .pdf",
            )
        return write_file(path, "the page", self.page.encode())

    def _repr_html_(self) -> str:
        """Return the HTML frame that Jupyter shows."""
        inside = html.escape(self.page, quote=True)
        return (
            f'<iframe srcdoc="{inside}" width="100%" height="{_HEIGHT}" frameborder="0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"a page of charts, {len(self.page) / 1e6:.1f} MB; save(file) writes it"


if TYPE_CHECKING:
    import polars


class Results:
    """The results of a study, in a folder such as ``results/libra_gpt3_4d``.

    The name of a study may be given for its folder in ``results``.  Each access reads the folder
    again, so results follow a sweep that still runs.
    """

    def __init__(self, folder: str | Place) -> None:
        self.folder = find_results_folder(folder)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r})"

    @property
    def record(self) -> StudyRecord:
        """Record of the study; raises :class:`DimsweepError` if the folder has none."""
        return read_study(self.folder)

    @property
    def report(self) -> Report:
        """Report with all findings; raises :class:`DimsweepError` while no trial is complete."""
        return read_report(self.folder)

    @property
    def headline(self) -> str:
        """Main finding, as a sentence."""
        return f"{self.report.headline}."

    def to_arrow(self) -> pa.Table:
        """Return all rows, sorted by cell and trial (docs/results.md lists the columns)."""
        return load(self.folder)

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a Pandas table."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """Return all rows as a Polars table; raises :class:`DimsweepError` without Polars."""
        missing = DimsweepError(
            "Polars is not installed", hint="pip install polars", code="inaccessible"
        )
        with needing("polars", missing):
            import polars
        return polars.DataFrame(polars.from_arrow(self.to_arrow()))

    @property
    def best(self) -> pd.Series:
        """Best row of all decisions; of two objectives the one that the headline advises.

        Raises :class:`DimsweepError` in a study of several scenarios: :attr:`cells` has the best
        row of each.
        """
        return self._winner.best

    @property
    def bound(self) -> float | None:
        """Proven bound of the first objective, in its column's unit, in the cell of :attr:`best`.

        No split beats it. It is None without a proof.
        """
        return self._winner.bound

    @property
    def front(self) -> pd.DataFrame:
        """Rows of the Pareto front of each cell; with one objective the best row of each cell."""
        return pd.concat([cell.front for cell in self.report.found], ignore_index=True)

    @property
    def cells(self) -> pd.DataFrame:
        """Table with a row for the best trial of each cell with complete trials.

        Columns: the cell's values of the grid's axes, the split (GB/s), the objectives, the proven
        bound (of a front: the minimum time at the cost of that trial), the relative gap to it, and
        ``gain``: how many times better the trial is than the reference, which is the baseline or
        the equal split.
        """
        return _table(self.report)

    @property
    def what_if(self) -> pd.DataFrame:
        """Table with a row for each what-if: a single change of a design, without a new search.

        Columns: the cell (its number and its ``label``), the ``design`` (best, shared by a
        portfolio, or baseline), the ``change`` and its keys, the time (s), the throughput
        (``measure``, if the change alters the work of an iteration) and the cost (USD) before and
        after, the speed-up, in total and per USD, and the error of a change that cannot be
        simulated.
        """
        found = [(c, each) for c in self.report.found for own in group_changes(c) for each in own]
        return pd.DataFrame([_change(*each) for each in found], columns=_WHAT_IF)

    def plot(self, *charts: str) -> Plot:
        """Return the charts with these names, or all charts of the report.

        Names are what_wins, cells, front, best_split, next_bandwidth, timeline, parallel,
        split_map, what_if, convergence, recheck, regret and trials.  Raises :class:`DimsweepError`
        for a chart that the study does not have.
        """
        return Plot(render_charts(self.report, charts))

    def write_page(self) -> Place:
        """Write report/report.html in the folder, as ``dimsweep report`` does; return its path."""
        return write_report(self.report, self.folder / "report")

    def write_picture(self, file: str | Path) -> Path:
        """Draw the findings, with time and cost, into a .png, .svg or .pdf file; return its path.

        ``dimsweep report --picture`` draws the same picture.  Raises :class:`DimsweepError` for
        another kind of file, or if it cannot be written.
        """
        return write_picture(self.report, file)

    @property
    def _winner(self) -> CellSummary:
        decisions = self.report.decisions
        if len(decisions.scenarios) > 1:
            raise DimsweepError(
                f"the study has {len(decisions.scenarios)} scenarios "
                f"({', '.join(decisions.scenarios[0])}), and each has a separate best",
                where=f"study {self.record.name}",
                hint="use cells for the best of each, or report.decisions for the least loss",
                code="mismatch",
            )
        return decisions.best_cell(0)

    @classmethod
    def open(cls, one: "Self | str | Place") -> Self:
        """Return ``one`` if it is a :class:`Results`, else the results in the folder it names."""
        return one if isinstance(one, cls) else cls(one)  # type: ignore[arg-type]


def _table(report: Report) -> pd.DataFrame:
    return pd.DataFrame([_described(cell) for cell in report.found])


def _described(cell: CellSummary) -> dict[str, Any]:
    """Return a cell's axis values and its best trial, as a row."""
    split = {BANDWIDTH.at(d): b for d, b in enumerate(cell.split(cell.best).tolist())}
    values = {objective.column: objective.value(cell.best) for objective in cell.objectives}
    parameters = {key: cell.best[key] for key in cell.parameters}
    return {
        **cell.cell.coordinates,
        **split,
        **parameters,
        **values,
        "bound": cell.limit,
        "gap": cell.gap,
        "gain": cell.gain(cell.objective),
        "reference": None if cell.reference is None else cell.reference.name,
    }


_WHAT_IF = (
    *(
        "cell",
        "label",
        "design",
        "change",
        "sets",
        "time_before_s",
        "time_after_s",
        "measure",
        "before",
    ),
    *("after", "times_as_fast", "cost_before_usd", "cost_after_usd", "per_usd", "error"),
)


def _change(cell: CellSummary, one: WhatIf) -> dict[str, Any]:
    """Return a what-if of a cell as a row."""
    before, after = one.of.row, one.row
    measure = one.measure
    return {
        "cell": cell.cell.cell,
        "label": label(cell),
        "design": one.of.name,
        "change": one.name,
        "sets": dict(one.keys),
        "time_before_s": before["time_s"],
        "time_after_s": after["time_s"],
        "measure": measure.column,
        "before": before[measure.column],
        "after": after[measure.column],
        "times_as_fast": one.speed,
        "cost_before_usd": before["cost_usd"],
        "cost_after_usd": after["cost_usd"],
        "per_usd": one.per_cost,
        "error": str(after["error"]) if one.failed else None,
    }


def compare(*studies: Results | str | Place) -> pd.DataFrame:
    """Return a table with a row for the best trial of each cell of several studies.

    Columns: the study, the ``scenario`` (model, batch, and the axes that are scenarios), the cell's
    values of the grid's axes, the split (GB/s), the objectives, the proven bound and the gap to it.
    ``over_best`` is the factor by which a row is worse than the best row of its scenario, in the
    first objective. ``sure`` is the probability that a measurement confirms this, if the first
    objective is the time and the model's error is known (docs/accuracy.md).

    Rows of a scenario are adjacent; different models are not ranked against each other.

    Each study is a :class:`Results` or the name of a folder of results.  Raises
    :class:`DimsweepError` if their first objectives differ.
    """
    found = [Results.open(study) for study in studies]
    records = [each.record for each in found]
    objectives = {record.objectives[0].name: record.objectives[0] for record in records}
    if len(objectives) != 1:
        named = ", ".join(f"{r.name}: {r.objectives[0].name}" for r in records)
        raise DimsweepError(
            f"studies of different objectives cannot be ranked: {named}"
            if records
            else "no study was given to compare",
            hint="compare studies with the same first objective",
            code="mismatch" if records else "missing",
        )
    (objective,) = objectives.values()
    tables, cells = [], list[CellSummary]()
    for name, one, scene in zip(_names(records), found, scenes(records), strict=True):
        report = one.report
        cells += report.found
        of_cells = [scene[cell.cell.cell] for cell in report.found]
        front = pd.DataFrame({"study": [name] * len(of_cells), "scenario": of_cells})
        tables.append(pd.concat([front, _table(report)], axis=1))
    rows = pd.concat(tables, ignore_index=True)
    place = {name: i for i, name in enumerate(dict.fromkeys(rows["scenario"]))}
    rows = rows.sort_values("scenario", key=lambda own: own.map(place), kind="stable")
    cells = [cells[i] for i in rows.index]
    rows = rows.reset_index(drop=True)
    loss = objective.loss(rows[objective.column])
    least = loss.groupby(rows["scenario"]).transform("idxmin")
    sure = [
        _surely(cells[i], cells[best]) if objective is TIME and i != best else None
        for i, best in enumerate(least)
    ]
    return rows.assign(over_best=loss / loss[least].to_numpy(), sure=sure)


def _surely(cell: CellSummary, best: CellSummary) -> float | None:
    return best.probability_better(best.best, cell, cell.best)


def _names(records: Sequence[StudyRecord]) -> list[str]:
    """Return the studies' names; equal ones are numbered."""
    names = [record.name for record in records]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]
