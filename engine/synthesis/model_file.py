"""The model as JSON that a person can read: parts by name, steps in their loops, and formulas."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from engine.errors import DimsweepError
from engine.formats.fields import read_json, validated
from engine.synthesis.formula import Formula, Term
from engine.synthesis.grammar import Loop, Pattern, Place
from engine.synthesis.job import Symbol
from engine.synthesis.model import Layout, Part, TraceModel

FORMAT = "dimsweep trace model 2"
_HINT = "a file that dimsweep trace learn wrote"


def write_model(path: Path | str, model: TraceModel) -> None:
    """Raises :class:`DimsweepError` if the file cannot be written."""
    content = {
        "format": FORMAT,
        "jobs": model.jobs,
        "in_order": model.in_order,
        "rank_spread": model.rank_spread,
        "keys": {name: list(values) for name, values in model.keys.items()},
        "degrees": list(model.degrees),
        "layouts": {name: _layout(layout) for name, layout in model.layouts.items()},
        "parts": {
            name: {"learnt": part.learnt, "steps": _steps(part, part.pattern, ())}
            for name, part in model.parts.items()
        },
    }
    try:
        Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        what = f"the model cannot be written: {error.strerror}"
        raise DimsweepError(what, where=str(path)) from error


def _layout(layout: Layout) -> dict[str, Any]:
    return {
        "sizes": [_text(size) for size in layout.sizes],
        "axis": layout.axis,
        "stages": _text(layout.stages),
        "stride": _text(layout.stride),
        "groups": {
            name: [{"size": _text(size), "stride": _text(stride)} for size, stride in dimensions]
            for name, dimensions in layout.groups.items()
        },
    }


def _steps(part: Part, pattern: Pattern, place: Place) -> list[Any]:
    steps: list[Any] = []
    for number, item in enumerate(pattern):
        here = (*place, number)
        if isinstance(item, Loop):
            times, inner = _text(part.counts[here]), _steps(part, item.body, here)
            steps.append({"times": times, "steps": inner})
        else:
            formulas = part.quantities.get(here, {})
            steps.append({"step": item} | {name: _text(f) for name, f in formulas.items()})
    return steps


def _text(formula: Formula) -> str:
    """``3.0 * hidden^2 * tensor^-1 + 5.0; spread 0.03``."""
    terms = [
        " * ".join([repr(term.factor), *(f"{name}^{power}" for name, power in term.powers.items())])
        for term in formula.terms
    ]
    return " + ".join(terms or ["0.0"]) + (
        f"; spread {formula.spread:.6g}" if formula.spread else ""
    )


class _Dimension(BaseModel):
    size: str
    stride: str


class _Layout(BaseModel):
    sizes: list[str]
    axis: int
    stages: str
    stride: str
    groups: dict[str, list[_Dimension]]


class _Loop(BaseModel):
    times: str
    steps: "list[_Loop | dict[str, str]]"


_Steps = list[_Loop | dict[str, str]]


class _Part(BaseModel):
    learnt: int
    steps: _Steps


class _File(BaseModel):
    format: str
    keys: dict[str, tuple[float, ...]]
    degrees: tuple[str, ...]
    layouts: dict[str, _Layout]
    parts: dict[str, _Part]
    jobs: int
    in_order: bool
    rank_spread: float


def read_model(path: Path | str) -> TraceModel:
    """Raises :class:`DimsweepError` for a file that cannot be read or holds no model."""
    path = Path(path)
    content = read_json(path)
    if content.get("format") != FORMAT:
        what = (
            f"this is no model of traces: its format is {content.get('format')!r}, not {FORMAT!r}"
        )
        raise DimsweepError(what, where=str(path), hint=_HINT)
    file = validated(_File, content, path)
    try:
        return TraceModel(
            file.keys,
            file.degrees,
            {name: _read_layout(layout) for name, layout in file.layouts.items()},
            {name: _read_part(part) for name, part in file.parts.items()},
            file.jobs,
            file.in_order,
            file.rank_spread,
        )
    except ValueError as error:  # a formula or a symbol that is none
        what = f"this is no model of traces: {error}"
        raise DimsweepError(what, where=str(path), hint=_HINT) from error


def _read_layout(layout: _Layout) -> Layout:
    sizes = tuple(map(_formula, layout.sizes))
    if not -len(sizes) <= layout.axis < len(sizes):
        raise ValueError(f"there is no axis {layout.axis}")
    groups = {
        name: tuple((_formula(each.size), _formula(each.stride)) for each in dimensions)
        for name, dimensions in layout.groups.items()
    }
    axis = layout.axis % len(sizes)
    return Layout(sizes, axis, _formula(layout.stages), _formula(layout.stride), groups)


def _read_part(part: _Part) -> Part:
    counts: dict[Place, Formula] = {}
    quantities: dict[Place, dict[str, Formula]] = {}

    def pattern(steps: _Steps, place: Place) -> Pattern:
        items: list[str | Loop] = []
        for number, step in enumerate(steps):
            here = (*place, number)
            if isinstance(step, _Loop):
                counts[here] = _formula(step.times)
                items.append(Loop(pattern(step.steps, here)))
                continue
            name = step.pop("step", "")
            Symbol.of(name)
            if step:
                quantities[here] = {key: _formula(text) for key, text in step.items()}
            items.append(name)
        return tuple(items)

    return Part(pattern(part.steps, ()), counts, quantities, part.learnt)


def _formula(text: str) -> Formula:
    sum_, _, spread = text.partition("; spread ")
    terms = []
    for term in sum_.split(" + "):
        factor, *powers = term.split(" * ")
        pairs = (power.rpartition("^") for power in powers)
        terms.append(Term(float(factor), {name: int(power) for name, _, power in pairs}))
    return Formula(tuple(term for term in terms if term.factor), float(spread or 0.0))
