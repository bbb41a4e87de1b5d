"""The table of a published study's points: what was published, and what ours is."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast, get_args

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import read_table
from dimsweep.sweeper.extensions.verify.points import Basis, Tolerance

COLUMNS = ("name", "published", "unit", "tolerance", "source", "note", "ours")
MORE = ("holds", "basis")  # of claims, and of what was not published


class Line(NamedTuple):
    """A line of the table. ``published`` is a number, or a claim in words, which has an expression
    for whether it ``holds``; ``ours`` is the expression of what we found."""

    place: str
    name: str
    published: float | str
    unit: str
    tolerance: Tolerance | None
    source: str
    note: str
    ours: str
    holds: str
    basis: Basis


def read_lines(file: Path) -> list[Line]:
    """The points of a table, in which empty lines and those that begin with ``#`` are comments.

    Raises :class:`DimsweepError` naming the line that is wrong.
    """
    lines = [_line(cells, place) for place, cells in read_table(file, COLUMNS, MORE)]
    if not lines:
        raise DimsweepError("it has no points", where=str(file), hint="write a line for each")
    return lines


def _line(cells: Mapping[str, str], place: str) -> Line:
    holds, basis = cells.get("holds", ""), cells.get("basis", "") or "published"
    for name in ("name", "published", "source", "ours"):
        if not cells[name]:
            raise DimsweepError(f"it has no {name}", where=place)
    if basis not in get_args(Basis):
        what, hint = f"unknown basis {basis!r}", f"one of {', '.join(get_args(Basis))}"
        raise DimsweepError(what, where=place, hint=hint)
    if holds and (cells["unit"] or cells["tolerance"]):
        hint = "a claim has `holds`; a number has a tolerance"
        raise DimsweepError("a claim has neither unit nor tolerance", where=place, hint=hint)
    return Line(
        place,
        cells["name"],
        cells["published"] if holds else _number(cells["published"], place),
        cells["unit"],
        _tolerance(cells["tolerance"], place),
        cells["source"],
        cells["note"],
        cells["ours"],
        holds,
        cast(Basis, basis),
    )


def _number(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        hint = "a claim in words needs the column `holds`"
        raise DimsweepError(f"published: {text!r} is no number", where=place, hint=hint)
    return value


def _tolerance(text: str, place: str) -> Tolerance | None:
    try:
        return Tolerance.read(text) if text else None
    except ValueError:
        hint = "such as 1%, 0.06, or 4.3 to 5; without one ours is shown, and not judged"
        what = f"tolerance: {text!r} cannot be read"
        raise DimsweepError(what, where=place, hint=hint) from None
