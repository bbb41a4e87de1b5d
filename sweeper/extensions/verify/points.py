"""Published points beside ours: their table, recorded results, and the command of all."""

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
from dimsweep.sweeper.terminal import plural, say, table, waiting, wide_console

_HERE = Path(__file__).resolve().parents[2]
_HOMES = (_HERE.parent / "golden", _HERE.parent / "tests" / "golden")


def find_recorded(name: str, given: str) -> Path:
    """The recorded results of that name: a file or a folder.

    Raises :class:`DimsweepError` saying how they are ``given`` where there are none.
    """
    for home in _HOMES:
        if (home / name).exists():
            return home / name
    raise DimsweepError(
        f"it compares recorded runs, and those of {name} are not installed",
        where=given,
        hint=f"give their folder: tests/golden/{name} of dimsweep's source, or your own",
    )


_COLUMNS = ("point", "published", "ours", "difference", "tolerance", "verdict")


class Tolerance(NamedTuple):
    """How far ours may be from the published value: relative to it, in its unit, or anywhere from
    ``low`` to ``high``."""

    kind: Literal["relative", "absolute", "between"]
    low: float
    high: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """As a table has it: ``1%`` of the published value, ``0.06`` in its unit, or ``4.3 to 5``.

        Raises :class:`ValueError` for anything else.
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
        """Ours over the published value, less 1; or ours less the published value."""
        if self.kind == "relative":
            return ours / published - 1 if published else math.inf
        return ours - published

    def holds(self, published: float, ours: float) -> bool:
        """Whether ours is near enough; the last bits of a sum are no difference."""
        found = ours if self.kind == "between" else self.difference(published, ours)
        return self.low - 1e-12 <= found <= self.high + 1e-12

    def __str__(self) -> str:
        if self.kind == "between":
            return f"{self.low:g} to {self.high:g}"
        return f"±{self.high:.3g}" if self.kind == "absolute" else f"±{self.high * 100:.3g}%"


def within_share(share: float) -> Tolerance:
    """Within a share of the published value: 0.01 is 1 %."""
    return Tolerance("relative", -share, share)


def within_amount(amount: float) -> Tolerance:
    """Within an amount, in the point's unit."""
    return Tolerance("absolute", -amount, amount)


def within_range(low: float, high: float) -> Tolerance:
    """From ``low`` to ``high``, in the point's unit."""
    return Tolerance("between", low, high)


# What a reference is: somebody's number, ours from somebody's inputs, or what somebody's program
# says when it is run.
Basis = Literal["published", "derived", "recorded"]


@dataclass(frozen=True)
class Value:
    """A published number beside ours, both in ``unit``.

    ``source`` says where it was published, ``note`` what was assumed.  Without a ``tolerance`` it
    is shown and not judged, as what it is of is not known well enough.
    """

    name: str
    published: float
    ours: float
    tolerance: Tolerance | None
    source: str
    unit: str = ""
    note: str = ""
    basis: Basis = "published"
    kind: Literal["value"] = "value"

    @property
    def holds(self) -> bool:
        return self.tolerance is None or self.tolerance.holds(self.published, self.ours)

    @property
    def difference(self) -> float:
        """Relative where the tolerance is."""
        if self.tolerance is None:
            return self.ours - self.published
        return self.tolerance.difference(self.published, self.ours)

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns of the table."""
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
        return self.tolerance is not None


@dataclass(frozen=True)
class Shape:
    """A published claim that no number stands for, beside what we found: a test of shape only."""

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
        """The columns of the table."""
        verdict = "holds" if self.holds else "FAILS"
        return (self.name, _label_basis(self.published, self.basis), self.ours, "", "", verdict)


Point = Value | Shape
_RECORD = ("name", "kind", "published", "basis", "unit", "source", "ours", "difference")


def build_record(point: Point) -> dict[str, object]:
    """A point for other programs; there is no ``verdict`` on what is not judged."""
    return {
        **{name: getattr(point, name) for name in _RECORD},
        "tolerance": None if point.tolerance is None else point.tolerance._asdict(),
        "verdict": point.holds if point.is_judged else None,
        "note": point.note,
    }


def _label_basis(reference: str, basis: Basis) -> str:
    """In the column of what was published, what was not."""
    return reference if basis == "published" else f"{reference} ({basis})"


class Findings(NamedTuple):
    """What a verification found: its points, and what draws its picture, if it has one: as
    the kind of file that it is given."""

    points: Sequence[Point]
    draw: Callable[[str], bytes] | None = None


json_option = click.option("--json", "as_json", is_flag=True, help="Print the points as JSON.")


def print_json(points: Sequence[Point]) -> None:
    """The points for other programs, on the standard output; all else goes to the other one."""
    print(json.dumps([build_record(point) for point in points], indent=1))


def print_left_out(reasons: Iterable[str], what: str, console: Console) -> None:
    """How many of ``what`` are not compared, by the reason."""
    for why, n in Counter(reasons).items():
        say(f"left out: {plural(n, what)}: {why}", console)


picture_option = click.option(
    "--picture",
    type=click.Path(path_type=Path),
    help="Draw the study into this .png, .svg or .pdf.",
)


def create_command(name: str, find: Callable[[], Findings]) -> click.Command:
    """The command ``dimsweep verify NAME``, whose help is the docstring of ``find``."""

    @click.command(name, help=find.__doc__)
    @json_option
    def command(as_json: bool) -> int:
        return run_verification(name, find, as_json=as_json)

    return command


def run_verification(
    name: str, find: Callable[[], Findings], *, as_json: bool, picture: Path | None = None
) -> int:
    """Print what a verification finds, and draw its ``picture``; returns the exit code, which is 1
    unless every value is within its tolerance and every claim holds.

    Raises :class:`DimsweepError` if a picture is asked for and there is none.
    """
    kind = "" if picture is None else kind_of(picture, "--picture")  # before it is simulated
    console = create_console(as_json)
    with waiting(f"simulating {name}", console):
        found = find()
    if as_json:
        print_json(found.points)
    else:
        print_points(found.points, console)
    if picture is not None:
        if found.draw is None:
            raise DimsweepError(f"{name} has no picture", where="--picture")
        write_picture(picture, found.draw(kind), kind)
        say(f"{picture} shows them", console)
    return int(not all(point.holds for point in found.points))


def write_picture(file: Path, drawn: bytes, kind: str) -> None:
    """Write a picture; a PNG, which may be kept in git, in two thirds of its size."""
    file.write_bytes(reduced(drawn) if kind == "png" else drawn)


def create_console(as_json: bool) -> Console:
    """Where a verification prints its table, the standard output being another's or not."""
    return wide_console(160, stderr=as_json)


def print_points(points: Sequence[Point], console: Console) -> None:
    """Values, then claims, each with its sources and notes, and a line that sums them up."""
    kinds: dict[str, tuple[str, list[Point]]] = {
        "value": ("within their tolerance", [p for p in points if p.kind == "value"]),
        "shape": ("hold (tests of shape only)", [p for p in points if p.kind == "shape"]),
    }
    for _, own in kinds.values():
        if own:
            left = 3 if own[0].kind == "shape" else 1
            columns = _COLUMNS if left == 1 else (*_COLUMNS[:3], "", "", "verdict")
            console.print(table(columns, [point.cells for point in own], left=left))
    for word, texts in (
        ("source", dict.fromkeys(point.source for point in points)),
        ("note", dict.fromkeys(point.note for point in points if point.note)),
    ):
        for text in texts:
            say(f"{word}: {text}", console)
    for kind, (verdict, own) in kinds.items():
        judged = [point for point in own if point.is_judged]
        if judged:
            good = sum(point.holds for point in judged)
            say(f"{good} of {plural(len(judged), kind)} {verdict}", console)


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
    lines = [_parse_line(cells, place) for place, cells in read_table(file, COLUMNS, MORE)]
    if not lines:
        raise DimsweepError("it has no points", where=str(file), hint="write a line for each")
    return lines


def _parse_line(cells: Mapping[str, str], place: str) -> Line:
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
        hint = "a claim in words needs the column `holds`"
        raise DimsweepError(f"published: {text!r} is no number", where=place, hint=hint)
    return value


def _parse_tolerance(text: str, place: str) -> Tolerance | None:
    try:
        return Tolerance.parse(text) if text else None
    except ValueError:
        hint = "such as 1%, 0.06, or 4.3 to 5; without one ours is shown, and not judged"
        what = f"tolerance: {text!r} cannot be read"
        raise DimsweepError(what, where=place, hint=hint) from None


# --- simulations in processes --------------------------------------------------------------------


_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


def map_in_processes(
    find: Callable[[_Given], _Found], given: Sequence[_Given], *, chunksize: int = 1
) -> Iterator[_Found]:
    """What ``find``, a function of a module, returns for each, in their order, as they come.

    A process takes ``chunksize`` of them at a time; no more than that are found in this one.  Each
    starts as a Python of its own: a fork of this one, which has threads of Arrow's, Numba's or
    Ray's, could stand still for ever.
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
    """Let Ctrl-C stop the process that asks alone, which then stops the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
