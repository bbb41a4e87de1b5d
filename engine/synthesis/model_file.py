"""The model as JSON that a person can read: parts by name, steps in their loops, and formulas."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dimsweep.engine.errors import DimsweepError, accessing
from dimsweep.engine.formats.fields import read_json, validated
from dimsweep.engine.synthesis.formula import Formula, Term
from dimsweep.engine.synthesis.grammar import Loop, Pattern, Place, leaf, loops, unroll
from dimsweep.engine.synthesis.job import Symbol
from dimsweep.engine.synthesis.model import Layout, Part, TraceModel
from dimsweep.engine.synthesis.waiting import SEPARATOR, check_rule

FORMAT = "dimsweep trace model 2"
_LARGEST = 1e30  # a factor, and the value of a key
_WIDEST = 10.0  # a spread: the standard deviation of a logarithm
_POWER = 9  # of a key
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
    with accessing(path, "the model cannot be written"):
        Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


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
        model = TraceModel(
            file.keys,
            file.degrees,
            {name: _read_layout(layout) for name, layout in file.layouts.items()},
            {name: _read_part(part) for name, part in file.parts.items()},
            file.jobs,
            file.in_order,
            file.rank_spread,
        )
        _check(model)
        return model
    except ValueError as error:  # a formula or a symbol that is none
        what = f"this is no model of traces: {error}"
        raise DimsweepError(what, where=str(path), hint=_HINT) from error


def _check(model: TraceModel) -> None:
    """Raise ValueError for a model of which no job could be made, whatever is asked for."""
    for name, values in model.keys.items():
        if not values or not all(0 < value < _LARGEST for value in values):
            raise ValueError(f"the key {name!r} has not been learnt from numbers above 0")
    if unknown := [name for name in model.degrees if name not in model.keys]:
        raise ValueError(f"{unknown[0]!r} is a degree and no key")
    if not 0 <= model.rank_spread <= _WIDEST:
        raise ValueError(f"ranks do not spread by {model.rank_spread:g}")
    groups = {name for layout in model.layouts.values() for name in layout.groups}
    for layout in model.layouts.values():
        of_groups = (each for pairs in layout.groups.values() for pair in pairs for each in pair)
        for formula in (*layout.sizes, layout.stages, layout.stride, *of_groups):
            _check_formula(formula, model.keys)
    for name, part in model.parts.items():
        for formula in part.counts.values():
            _check_formula(formula, {*model.keys, "stage", "stages"})
        once = dict.fromkeys(loops(part.pattern), 1)
        for place in unroll(part.pattern, once):
            step, quantities = Symbol.of(leaf(part.pattern, place)), part.quantities.get(place, {})
            step.check(groups)
            for rule in filter(None, step.after.split(SEPARATOR)):
                check_rule(rule)
            if step.kind in ("compute", "host") and not (
                "duration" in quantities or {"flops", "bytes"} <= quantities.keys()
            ):
                raise ValueError(f"{step.name!r} of the {name} has no duration")
            for formula in quantities.values():
                _check_formula(formula, model.keys)


def _check_formula(formula: Formula, keys: Collection[str]) -> None:
    if not 0 <= formula.spread <= _WIDEST:
        raise ValueError(f"values do not spread by {formula.spread:g}")
    for term in formula.terms:
        if unknown := [name for name in term.powers if name not in keys]:
            raise ValueError(f"a formula asks for {unknown[0]!r}, which is no key")
        if not abs(term.factor) < _LARGEST or any(abs(p) > _POWER for p in term.powers.values()):
            raise ValueError(f"{_text(formula)} is no formula of what a job can be")


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
