"""Names of cells, designs and values of axes, for the terminal, pictures and the HTML page."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from dimsweep.sweeper.ledger.record import CellRecord
    from dimsweep.sweeper.report.summary import CellSummary

_WORD = r"\s+|\d[\d.,]* [a-zA-Z]+(?:/\w+)?|[^\s.,:_]*[.,:_]*"
_LETTERS, _LINES, _LINES_AT_MOST = 22, 3, 8  # of a row's name
_FEW_NAMES = 12  # names that a chart has room for in full
_SPEAK_FOR_THEMSELVES = ("workload", "shape")
_DEGREES = {"tensor": "TP", "context": "CP", "expert": "EP", "pipeline": "PP", "data": "DP"}
_DEGREE = re.compile(r"(\w+)'?: '?(\w+)")  # of a mapping, as YAML or Python writes it
_GENERATED = re.compile(r"kind: (\w+)(?:, )?(.*)")  # what a generator makes, as YAML writes it
# What is degraded, as YAML writes it: a link, switch or NPU by its name, and what became of it.
_DEGRADED = re.compile(
    r"(link|switch|npu): ([^:]+), (?:(down): true|(bandwidth|speed): (\d[\d.]* ?%))"
)
_FEW = 2  # axes, all of whose values are named


def label(summary: "CellSummary") -> str:
    """Return a cell's name within its study: the values of its axes, or else its workload."""
    return cell_label(summary.cell)


def cell_label(cell: "CellRecord") -> str:
    """Return the name of a cell of a study, which need not have results."""
    return coordinates_of(cell.coordinates) if cell.coordinates else cell.workload


def labels(cells: "Sequence[CellSummary]") -> list[str]:
    """Return names for cells, from the axis values that differ among them."""
    coordinates = [cell.cell.coordinates for cell in cells]
    first = coordinates[0] if coordinates else {}
    equal = {key for key in first if len({each.get(key) for each in coordinates}) == 1}
    others = [
        {key: value for key, value in each.items() if key not in equal} for each in coordinates
    ]
    return [coordinates_of(own) or label(cell) for own, cell in zip(others, cells, strict=True)]


def coordinates_of(coordinates: Mapping[str, str]) -> str:
    """Format the values of axes, each after its key's last name unless that is needless."""
    short = short_keys(list(coordinates))
    return ", ".join(map(_format_coordinate, coordinates, short, coordinates.values()))


def _format_coordinate(key: str, name: str, value: str) -> str:
    """Format an axis' value: ``TP4 PP4``, ``450/100 GB/s``, ``zcube(n 8)``, ``spine 0 down``."""
    last = key.rsplit(".", 1)[-1]
    if last in _SPEAK_FOR_THEMSELVES:
        return value
    if last == "parallel" and (degrees := _DEGREE.findall(value)):
        shown = ((axis, "(rest)" if degree == "rest" else degree) for axis, degree in degrees)
        return " ".join(f"{_DEGREES.get(axis, f'{axis} ')}{degree}" for axis, degree in shown)
    if last == "generator" and (made := _GENERATED.fullmatch(value)):
        return f"{made[1]}({made[2].replace(': ', ' ')})"
    if last == "generator" and value.endswith(")"):
        return value
    if last == "degrade" and value == "none":
        return "nothing degraded"
    if last == "degrade" and _DEGRADED.search(value):
        return _DEGRADED.sub(_format_degraded, value)
    numbers = value.split(", ")
    unit = numbers[0].partition(" ")[2]
    if last == "bandwidth" and unit and all(number.endswith(f" {unit}") for number in numbers):
        return f"{'/'.join(number.partition(' ')[0] for number in numbers)} {unit}"
    return f"{name} {value}"


def _format_degraded(found: re.Match[str]) -> str:
    """Format a degraded device: ``spine 0 down``, ``NPU 7 at 90 % speed``."""
    what, name, is_down, of, share = found.groups()
    name = f"NPU {name}" if what == "npu" and name.isdecimal() else name
    return f"{name} down" if is_down else f"{name} at {share} {of}"


def name_change(
    coordinates: Mapping[str, str], named: Mapping[str, str], *, as_apposition: bool = False
) -> str:
    """Return a design's name, by its differences from a design that a sentence has just named.

    As an apposition ("the runner-up, with 450/50 GB/s instead, is ...") it has no noun.
    """
    found = name_differences(coordinates, named)
    if not found:
        return coordinates_of(coordinates)
    return f"with {found} instead" if as_apposition else f"the design with {found} instead"


def name_differences(coordinates: Mapping[str, str], named: Mapping[str, str]) -> str:
    """Return the axis values that differ from ``named``, the shortest first.

    Empty if there are few values, or if all or none differ. A label that is cut keeps the shortest
    values.
    """
    found = {key: value for key, value in coordinates.items() if named.get(key) != value}
    if len(coordinates) <= _FEW or not 0 < len(found) < len(coordinates):
        return ""
    return coordinates_of(dict(sorted(found.items(), key=lambda item: len(item[1]))))


def searched(summary: "CellSummary", row: "pd.Series") -> str:
    """Format the values of the searched keys in a row."""
    return coordinates_of({key: str(row[key]) for key in summary.parameters})


def short_keys(keys: Sequence[str]) -> list[str]:
    """Return the last part of each dotted key, or the whole key if two would be equal.

    An index in a list is kept with the list's name: ``bandwidth[1]``.
    """
    named = [re.sub(r"\.(\d+)$", r"[\1]", key) for key in keys]
    last = [key.rsplit(".", 1)[-1] for key in named]
    return [short if last.count(short) == 1 else key for short, key in zip(last, keys, strict=True)]


def narrow(name: str) -> str:
    """Break a name into short lines, for the header of a narrow column."""
    return name.replace("_", "\n")


def fold_distinctly(names: Sequence[str]) -> list[str]:
    """Break names into lines as :func:`folded` does, with enough lines to keep them different."""
    for most in range(_LINES if len(names) > _FEW_NAMES else _LINES_AT_MOST - 1, _LINES_AT_MOST):
        texts = [folded(name, most=most) for name in names]
        if len(set(texts)) == len(set(names)):
            return texts
    return [folded(name, most=_LINES_AT_MOST) for name in names]


def folded(name: str, letters: int = _LETTERS, most: int = _LINES) -> str:
    """Break a name into up to ``most`` lines of about ``letters`` letters; cut the rest.

    Lines end after a comma if possible, else between words (a number and its unit are one word), or
    after a dot, comma, colon or underscore.
    """
    parts = list[str]()
    for part in re.findall(r"(?:(?!, ).)*(?:, )?", name, re.DOTALL):
        parts += [part] if len(part) <= letters else re.findall(_WORD, part)
    lines = [""]
    for word in parts:
        if lines[-1] and len((lines[-1] + word).rstrip()) > letters:
            lines.append("")
        lines[-1] += word if lines[-1] else word.lstrip()
    lines = [line.rstrip() for line in lines if line.strip()]
    if len(lines) > most:
        lines = [*lines[: most - 1], f"{lines[most - 1]} \N{HORIZONTAL ELLIPSIS}"]
    return "\n".join(lines)
