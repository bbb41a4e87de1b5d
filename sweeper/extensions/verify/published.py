"""Run published studies, and evaluate their points' SQL expressions on the rows with DuckDB."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import click
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.draw.canvas import reduced
from dimsweep.sweeper.draw.page import write_report
from dimsweep.sweeper.extensions.verify.command import verifications
from dimsweep.sweeper.extensions.verify.files import StudyFiles, find_published
from dimsweep.sweeper.extensions.verify.picture import Picture, draw_picture, read_picture
from dimsweep.sweeper.extensions.verify.points import (
    Findings,
    Line,
    Point,
    Shape,
    Value,
    build_record,
    create_console,
    json_option,
    map_in_processes,
    print_points,
    read_lines,
)
from dimsweep.sweeper.ledger.ledger import Ledger
from dimsweep.sweeper.ledger.place import Place
from dimsweep.sweeper.ledger.record import read_study
from dimsweep.sweeper.ledger.rows import EXTRA_ORIGINS
from dimsweep.sweeper.ledger.stored import load
from dimsweep.sweeper.questions.findings import read_report
from dimsweep.sweeper.questions.plan import plan_study
from dimsweep.sweeper.run.loop import StudyPlan
from dimsweep.sweeper.run.session import run_in_ledger
from dimsweep.sweeper.terminal import format_count, print_line, showing_progress

ROWS = "rows"  # the table of the study itself
_NAMED = re.compile(r"\b(?:from|join)\s+\"?([a-z_]\w*)", re.IGNORECASE)


def find_table_names(text: str) -> list[str]:
    """Return each word after FROM or JOIN in an SQL text: the names of possible tables."""
    return list(dict.fromkeys(_NAMED.findall(text)))


class Answers:
    """A database with tables and views on which SQL expressions are evaluated."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def connect(cls, tables: Mapping[str, pa.Table], views: Path | None) -> Iterator["Answers"]:
        """Open a database with ``tables``, and the views and macros of a file of SQL.

        Raises :class:`DimsweepError` naming an invalid file of SQL.
        """
        with duckdb.connect(config={"enable_external_access": "false"}) as connection:
            for name, table in tables.items():
                connection.register(name, table)
            if views is not None:
                try:
                    connection.execute(views.read_text(encoding="utf-8"))
                except (duckdb.Error, UnicodeDecodeError) as error:
                    raise _convert_error(error, str(views)) from error
            yield cls(connection)

    def check(self, query: str, where: str) -> None:
        """Raise :class:`DimsweepError` for a query that does not fit the columns of the tables."""
        self._prepare(query, where)

    def evaluate(self, expression: str, where: str) -> Any:
        """Return the value of an SQL expression, which must be equal in all rows."""
        found = [each["value"] for each in self.rows(build_query(expression), where)]
        if len(found) > 1:
            problem = f"{expression!r} has {len(found)} values; it must have one"
            hint = "aggregate the rows, such as max(time_s) FILTER (WHERE ...)"
            raise DimsweepError(problem, where=where, hint=hint, code="mismatch")
        if not found or found[0] is None:
            problem = f"{expression!r} has no value"
            hint = "no row matches, or its trial was not simulated: dimsweep report"
            raise DimsweepError(problem, where=where, hint=hint, code="missing")
        return found[0]

    def rows(self, query: str, where: str) -> list[dict[str, Any]]:
        """Return the rows of a query."""
        try:
            found = self._prepare(query, where)
            return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise _convert_error(error, where) from error

    def _prepare(self, query: str, where: str) -> duckdb.DuckDBPyRelation:
        """Return the query, parsed but not executed yet."""
        try:
            if len(duckdb.extract_statements(query)) != 1:
                raise DimsweepError("not a single query", where=where, code="bad-syntax")
            return self._connection.sql(query)
        except (duckdb.Error, UnicodeDecodeError) as error:  # a table's names may be any bytes
            raise _convert_error(error, where) from error


def build_query(expression: str) -> str:
    """Return the SQL query for the value of an expression."""
    return f"SELECT DISTINCT ({expression}\n) AS value FROM {ROWS}"


def _convert_error(error: Exception, where: str) -> DimsweepError:
    """Return an error with DuckDB's message, shortened to one line and its suggestion."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith("LINE")]
    hint = next((line for line in lines[1:] if line.startswith(("Candidate", "Did you"))), "")
    return DimsweepError(lines[0], where=where, hint=hint, code="bad-syntax")


# Points use a study's own trials only, so no what-ifs are simulated.
_QUIET = "what_if=null"


def find_points(files: StudyFiles, *overrides: str, folders: list[Place] | None = None) -> Findings:
    """Sweep a published study, or resume it, and evaluate its points on its rows.

    ``overrides`` are Hydra's, such as ``executor=inline``.  The folders of the results are appended
    to ``folders``.  Raises :class:`DimsweepError` for an invalid table, expression or study before
    anything is simulated, and for a point without a value.
    """
    queries = read_queries(files)
    tables = queries.read_tables()
    plans = {
        name: plan_study(compose([f"study={file}", _QUIET, *overrides], may_sweep=True))
        for name, file in queries.find_files("study")
    }
    empty = {name: add_bounds(plan.schema.empty_table(), {}) for name, plan in plans.items()}
    with Answers.connect(tables | empty, files.views) as answers:
        for query, where in queries.queries:
            answers.check(query, where)
    for name, plan in plans.items():
        sweep_study(plan)
        tables[name] = read_rows(plan.folder)
        if folders is not None:
            folders.append(plan.folder)
    with Answers.connect(tables, files.views) as answers:
        points = [_build_point(line, answers) for line in queries.lines]
        picture = queries.picture
        if picture is None:
            return Findings(points)
        drawn = [answers.rows(panel.query, str(files.picture)) for panel in picture.panels]
    return Findings(points, lambda kind: draw_picture(picture, drawn, kind))


@dataclass(frozen=True)
class StudyQueries:
    """The SQL queries of a published study: of its points and of its picture."""

    study: StudyFiles
    lines: Sequence[Line]
    picture: Picture | None

    @property
    def queries(self) -> list[tuple[str, str]]:
        """All queries, each with its file and line."""
        found = [(build_query(line.ours), f"{line.place}: ours") for line in self.lines]
        claims = [line for line in self.lines if line.holds]
        found += [(build_query(line.holds), f"{line.place}: holds") for line in claims]
        panels = self.picture.panels if self.picture else ()
        return found + [(panel.query, str(self.study.picture)) for panel in panels]

    def find_files(self, kind: Literal["table", "study"]) -> Iterator[tuple[str, Path]]:
        """Yield name and file of each table of measurements, or of each study, that queries use."""
        of = self.study
        views = "" if of.views is None else of.views.read_text(encoding="utf-8", errors="replace")
        text = "\n".join([*(query for query, _ in self.queries), views])
        for name in find_table_names(text):
            table = of.find_table(name)
            study = of.study if name == ROWS else of.find_study(name)
            file = study if kind == "study" and table is None else table
            if file is not None and (kind == "table") == (table is not None):
                yield name, file

    def read_tables(self) -> dict[str, pa.Table]:
        """Return the tables that queries use, by name.

        Published numbers are the table ``points``.
        """
        values = [line for line in self.lines if isinstance(line.published, float)]
        columns = {name: [getattr(line, name) for line in values] for name in ("name", "published")}
        points = pa.table(columns, pa.schema([("name", pa.string()), ("published", pa.float64())]))
        return {"points": points} | {
            name: _read_measurements(file) for name, file in self.find_files("table")
        }


def read_queries(files: StudyFiles) -> StudyQueries:
    """Read a study's queries; raise :class:`DimsweepError` for an invalid file."""
    picture = read_picture(files.picture) if files.picture else None
    return StudyQueries(files, read_lines(files.points), picture)


def sweep_study(plan: StudyPlan) -> None:
    """Run or resume a study, and write its page."""
    with Ledger(plan.folder, plan.study, plan.schema) as ledger:
        run_in_ledger(ledger, plan, lambda progress: None, notify=lambda text: None)
    write_report(read_report(plan.folder), plan.folder / "report")


def read_rows(folder: Place) -> pa.Table:
    """Return the trials of a study's searches, each with the proven ``bound`` of its cell."""
    rows = load(folder)
    rows = rows.filter(pc.invert(pc.is_in(rows["origin"], pa.array(EXTRA_ORIGINS))))
    return add_bounds(rows, {cell.cell: cell.bound for cell in read_study(folder).cells})


def add_bounds(rows: pa.Table, bounds: Mapping[int, float | None]) -> pa.Table:
    """Add the column ``bound`` to rows; ``bounds`` are by the numbers of cells."""
    column = [bounds.get(number) for number in rows["cell"].to_pylist()]
    return rows.append_column("bound", pa.array(column, pa.float64()))


def _read_measurements(file: Path) -> pa.Table:
    try:
        return csv.read_csv(file)
    except pa.ArrowInvalid as error:
        problem = f"invalid table: {str(error).splitlines()[0]}"
        raise DimsweepError(problem, where=str(file), code="bad-syntax") from error


def _build_point(line: Line, answers: Answers) -> Point:
    ours = answers.evaluate(line.ours, f"{line.place}: ours")
    if isinstance(line.published, str):
        holds = answers.evaluate(line.holds, f"{line.place}: holds")
        if not isinstance(holds, bool):
            problem, where = f"{line.holds!r} is {holds!r}", f"{line.place}: holds"
            hint = "it must be true or false, such as a < b"
            raise DimsweepError(problem, where=where, hint=hint, code="wrong-type")
        parts = line.name, line.published, str(ours), holds, line.source, line.note, line.basis
        return Shape(*parts)
    return Value(
        line.name,
        line.published,
        _check_finite(ours, line),
        line.tolerance,
        line.source,
        line.unit,
        line.note,
        line.basis,
    )


def _check_finite(ours: Any, line: Line) -> float:
    try:
        value = math.nan if isinstance(ours, bool | str) else float(ours)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        problem = f"{line.ours!r} is {ours!r}; it must be a number"
        raise DimsweepError(problem, where=f"{line.place}: ours", code="wrong-type")
    return value


# --- dimsweep verify studies: every published study that has a page ------------------------------


@click.command("studies")
@json_option
@click.option("--pictures", type=click.Path(path_type=Path), help="Draw each as NAME.png in here.")
def studies_command(as_json: bool, pictures: Path | None) -> int:
    """Reproduce the published studies of docs/studies, point by point.

    One study runs on each core.  The exit code is 1 unless every value is within its tolerance and
    every claim holds.
    """
    console, found = create_console(as_json), dict[str, Sequence[Point]]()
    titles = {name: files.title for name, files in find_published().items()}
    titles |= {name: each.title for name, each in verifications().items() if each.is_study}
    names = list(titles)
    finding = map_in_processes(partial(_find_study_points, drawn=pictures is not None), names)
    for name in names:
        print_line(f"\n{name}: {titles[name]}", console, "bold")
        with showing_progress(f"simulating {name}", console):
            found[name], picture = next(finding)
        if not as_json:
            print_points(found[name], console)
        if pictures is not None and picture is not None:
            (pictures / f"{name}.png").write_bytes(picture)
    if as_json:
        records = [
            {"study": name, **build_record(point)} for name in names for point in found[name]
        ]
        print(json.dumps(records, indent=1))
    points = [point for name in names for point in found[name]]
    bad = [point for point in points if not point.holds]
    n = format_count(len(points), "point")
    print_line(
        f"\n{n} of {format_count(len(found), 'study')}, {len(bad)} not as published", console
    )
    return int(bool(bad))


def _find_study_points(name: str, *, drawn: bool) -> tuple[Sequence[Point], bytes | None]:
    """Return a study's points, and its picture if it has one and ``drawn`` is set."""
    if name in (data := find_published()):
        found = find_points(data[name], "executor=inline")  # this is already a worker process

    else:
        found = import_module(verifications()[name].target.partition(":")[0]).find()
    return list(found.points), reduced(found.draw("png")) if drawn and found.draw else None
