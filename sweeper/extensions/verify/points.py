"""Compare published values with simulated ones: points, their table, and how to run commands."""

import json
import math
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Self, TypeVar, cast, get_args

import click
from rich.console import Console

from dimsweep.engine import DimsweepError
from dimsweep.engine.formats import read_table
from dimsweep.sweeper.draw.canvas import kind_of, reduced
from dimsweep.sweeper.terminal import (
    format_count,
    make_table,
    print_line,
    showing_progress,
    wide_console,
)

_HERE = Path(__file__).resolve().parents[2]
_HOMES = (_HERE.parent / "golden", _HERE.parent / "tests" / "golden")


def find_recorded(name: str, given: str) -> Path:
    """Return the file or folder of recorded results with a ``name``.

    Raises :class:`DimsweepError` if they are not installed; ``given`` is the option for a path.
    """
    for home in _HOMES:
        if (home / name).exists():
            return home / name
    raise DimsweepError(
        f"the recorded runs {name} are not installed",
        where=given,
        hint=f"give their folder: tests/golden/{name} of dimsweep's source, or your own",
        code="missing",
    )


_COLUMNS = ("point", "published", "ours", "difference", "tolerance", "verdict")


class Tolerance(NamedTuple):
    """Limits of a simulated value: of its relative or absolute difference, or of the value."""

    kind: Literal["relative", "absolute", "between"]
    low: float
    high: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``1%`` of the published value, ``0.06`` in its unit, or ``4.3 to 5``.

        Raises :class:`ValueError` for any other text.
        """
        first, to, last = text.removeprefix("±").partition(" to ")
        share = not to and first.endswith("%")
        low, high = float(first.removesuffix("%")), float(last) if to else 0.0
        if to:
            found = cls("between", low, high)
        elif share:
            found = cls("relative", -low / 100, low / 100)
        else:
            found = cls("absolute", -low, low)
        if not -math.inf < found.low <= found.high < math.inf:
            raise ValueError(text)
        return found

    def difference(self, published: float, ours: float) -> float:
        """Return the difference of our value from the published one, relative to it or absolute."""
        if self.kind == "relative":
            return ours / published - 1 if published else math.inf
        return ours - published

    def holds(self, published: float, ours: float) -> bool:
        """Return whether our value is within the tolerance, up to rounding."""
        found = ours if self.kind == "between" else self.difference(published, ours)
        return self.low - 1e-12 <= found <= self.high + 1e-12

    def __str__(self) -> str:
        if self.kind == "between":
            return f"{self.low:g} to {self.high:g}"
        return f"±{self.high:.3g}" if self.kind == "absolute" else f"±{self.high * 100:.3g}%"


def within_share(share: float) -> Tolerance:
    """Return the tolerance of a relative difference: 0.01 is 1 %."""
    return Tolerance("relative", -share, share)


def within_amount(amount: float) -> Tolerance:
    """Return the tolerance of an absolute difference, in the point's unit."""
    return Tolerance("absolute", -amount, amount)


def within_range(low: float, high: float) -> Tolerance:
    """Return the tolerance of values from ``low`` to ``high``, in the point's unit."""
    return Tolerance("between", low, high)


# A reference is a published number, a number derived from published inputs, or the recorded output
# of a program.
Basis = Literal["published", "derived", "recorded"]


@dataclass(frozen=True)
class Value:
    """A published number and the simulated one."""

    name: str
    published: float
    ours: float
    tolerance: Tolerance | None  # None: printed but not judged
    source: str  # of the published number
    unit: str = ""
    note: str = ""  # assumptions
    basis: Basis = "published"
    kind: Literal["value"] = "value"

    @property
    def holds(self) -> bool:
        """True if the value is within its tolerance, or has none."""
        return self.tolerance is None or self.tolerance.holds(self.published, self.ours)

    @property
    def difference(self) -> float:
        """Difference from the published number; relative if the tolerance is relative."""
        if self.tolerance is None:
            return self.ours - self.published
        return self.tolerance.difference(self.published, self.ours)

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of the table's columns."""
        share = self.tolerance is not None and self.tolerance.kind == "relative"
        published, ours = (f"{x:,.5g} {self.unit}".strip() for x in (self.published, self.ours))
        return (
            self.name,
            _label_basis(published, self.basis),
            ours,
            f"{self.difference * 100:+.2f}%" if share else f"{self.difference:+.3g}",
            "" if self.tolerance is None else str(self.tolerance),
            "not judged" if self.tolerance is None else "within" if self.holds else "OUTSIDE",
        )

    @property
    def is_judged(self) -> bool:
        """True if the value has a tolerance."""
        return self.tolerance is not None


@dataclass(frozen=True)
class Shape:
    """A published claim in words and the simulated result.

    Only whether the claim holds is tested.
    """

    name: str
    published: str
    ours: str
    holds: bool
    source: str
    note: str = ""
    basis: Basis = "published"
    kind: Literal["shape"] = "shape"
    is_judged: ClassVar = True
    unit: ClassVar = ""
    tolerance: ClassVar = None
    difference: ClassVar = None

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of the table's columns."""
        verdict = "holds" if self.holds else "FAILS"
        return (self.name, _label_basis(self.published, self.basis), self.ours, "", "", verdict)


Point = Value | Shape
_RECORD = ("name", "kind", "published", "basis", "unit", "source", "ours", "difference")


def build_record(point: Point) -> dict[str, object]:
    """Return a point as data for JSON; ``verdict`` is None for a point without tolerance."""
    return {
        **{name: getattr(point, name) for name in _RECORD},
        "tolerance": None if point.tolerance is None else point.tolerance._asdict(),
        "verdict": point.holds if point.is_judged else None,
        "note": point.note,
    }


def _label_basis(reference: str, basis: Basis) -> str:
    """Return the name of a reference, marked with its ``basis`` if that is not a publication."""
    return reference if basis == "published" else f"{reference} ({basis})"


class Findings(NamedTuple):
    """The result of a verification: points, and an optional picture."""

    points: Sequence[Point]
    draw: Callable[[str], bytes] | None = None  # draws its picture as a kind of file, such as png


json_option = click.option("--json", "as_json", is_flag=True, help="Print the points as JSON.")


def print_json(points: Sequence[Point]) -> None:
    """Print the points as JSON on the standard output."""
    print(json.dumps([build_record(point) for point in points], indent=1))


def print_left_out(reasons: Iterable[str], what: str, console: Console) -> None:
    """Print the number of cases that are left out for each reason; ``what`` names a case."""
    for why, n in Counter(reasons).items():
        print_line(f"left out: {format_count(n, what)}: {why}", console)


picture_option = click.option(
    "--picture",
    type=click.Path(path_type=Path),
    help="Draw the study into this .png, .svg or .pdf.",
)


def create_command(name: str, find: Callable[[], Findings]) -> click.Command:
    """Return the command ``dimsweep verify NAME``; its help is the docstring of ``find``."""

    @click.command(name, help=find.__doc__)
    @json_option
    def command(as_json: bool) -> int:
        return run_verification(name, find, as_json=as_json)

    return command


def run_verification(
    name: str, find: Callable[[], Findings], *, as_json: bool, picture: Path | None = None
) -> int:
    """Run a verification, print its points, and draw its ``picture``.

    Returns the exit code: 1 unless every value is within its tolerance and every claim holds.
    Raises :class:`DimsweepError` if the verification has no picture.
    """
    kind = "" if picture is None else kind_of(picture, "--picture")  # fails before the simulation
    console = create_console(as_json)
    with showing_progress(f"simulating {name}", console):
        found = find()
    if as_json:
        print_json(found.points)
    else:
        print_points(found.points, console)
    if picture is not None:
        if found.draw is None:
            raise DimsweepError(f"{name} has no picture", where="--picture", code="unsupported")
        write_picture(picture, found.draw(kind), kind)
        print_line(f"{picture} shows them", console)
    return int(not all(point.holds for point in found.points))


def write_picture(file: Path, drawn: bytes, kind: str) -> None:
    """Write a picture; PNGs are compressed to two thirds of their size."""
    file.write_bytes(reduced(drawn) if kind == "png" else drawn)


def create_console(as_json: bool) -> Console:
    """Return the console for tables: the standard error if JSON takes the standard output."""
    return wide_console(160, stderr=as_json)


def print_points(points: Sequence[Point], console: Console) -> None:
    """Print values, claims, their sources and notes, and the number of those that hold."""
    kinds: dict[str, tuple[str, list[Point]]] = {
        "value": ("within their tolerance", [p for p in points if p.kind == "value"]),
        "shape": ("hold (tests of shape only)", [p for p in points if p.kind == "shape"]),
    }
    for _, own in kinds.values():
        if own:
            left = 3 if own[0].kind == "shape" else 1
            columns = _COLUMNS if left == 1 else (*_COLUMNS[:3], "", "", "verdict")
            console.print(make_table(columns, [point.cells for point in own], left=left))
    for word, texts in (
        ("source", dict.fromkeys(point.source for point in points)),
        ("note", dict.fromkeys(point.note for point in points if point.note)),
    ):
        for text in texts:
            print_line(f"{word}: {text}", console)
    for kind, (verdict, own) in kinds.items():
        judged = [point for point in own if point.is_judged]
        if judged:
            good = sum(point.holds for point in judged)
            print_line(f"{good} of {format_count(len(judged), kind)} {verdict}", console)


COLUMNS = ("name", "published", "unit", "tolerance", "source", "note", "ours")
MORE = ("holds", "basis")  # optional columns: of claims, and of unpublished references


class Line(NamedTuple):
    """A published point in a file: its published value, and how ours is computed."""

    place: str  # file and line
    name: str
    published: float | str  # a number, or a claim in words
    unit: str
    tolerance: Tolerance | None
    source: str
    note: str
    ours: str  # expression of the simulated value
    holds: str  # expression that is true if a claim holds
    basis: Basis


def read_lines(file: Path) -> list[Line]:
    """Read a file of published points; empty lines and lines that begin with ``#`` are skipped.

    Raises :class:`DimsweepError` naming an invalid line.
    """
    lines = [_parse_line(cells, place) for place, cells in read_table(file, COLUMNS, MORE)]
    if not lines:
        hint = "write one line per point"
        raise DimsweepError("the table is empty", where=str(file), hint=hint, code="missing")
    return lines


def _parse_line(cells: Mapping[str, str], place: str) -> Line:
    holds, basis = cells.get("holds", ""), cells.get("basis", "") or "published"
    for name in ("name", "published", "source", "ours"):
        if not cells[name]:
            raise DimsweepError(f"the column {name} is empty", where=place, code="missing")
    if basis not in get_args(Basis):
        problem, hint = f"unknown basis {basis!r}", f"one of {', '.join(get_args(Basis))}"
        raise DimsweepError(problem, where=place, hint=hint, code="unknown-name")
    if holds and (cells["unit"] or cells["tolerance"]):
        problem = "a claim (column `holds`) has a unit or tolerance"
        hint = "leave both empty, or leave `holds` empty for a number"
        raise DimsweepError(problem, where=place, hint=hint, code="conflict")
    return Line(
        place,
        cells["name"],
        cells["published"] if holds else _parse_number(cells["published"], place),
        cells["unit"],
        _parse_tolerance(cells["tolerance"], place),
        cells["source"],
        cells["note"],
        cells["ours"],
        holds,
        cast(Basis, basis),
    )


def _parse_number(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        problem, hint = f"published: {text!r} is not a number", "a claim needs the column `holds`"
        raise DimsweepError(problem, where=place, hint=hint, code="wrong-type")
    return value


def _parse_tolerance(text: str, place: str) -> Tolerance | None:
    try:
        return Tolerance.parse(text) if text else None
    except ValueError:
        hint = "such as 1%, 0.06, or 4.3 to 5; a value without tolerance is not judged"
        problem = f"invalid tolerance {text!r}"
        raise DimsweepError(problem, where=place, hint=hint, code="bad-syntax") from None


# --- simulations in processes --------------------------------------------------------------------


_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


def map_in_processes(
    find: Callable[[_Given], _Found], given: Sequence[_Given], *, chunksize: int = 1
) -> Iterator[_Found]:
    """Yield the results of ``find``, a module-level function, in order, computed in processes.

    A process takes ``chunksize`` arguments at a time; up to ``chunksize`` arguments are computed in
    this process.  Processes are spawned: a fork of a process with threads (Arrow, Numba, Ray) may
    deadlock.
    """
    if len(given) <= chunksize:
        yield from map(find, given)
        return
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, get_context("spawn"), initializer=_ignore_interrupts) as pool:
        try:
            yield from pool.map(find, given, chunksize=chunksize)
        finally:
            pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C in a child process; the parent process handles it and stops its children."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
