"""The model as JSON that a person can read: parts by name, steps in their loops, and formulas."""

from collections.abc import Collection
from pathlib import Path

from pydantic import BaseModel

from dimsweep.engine.errors import DimsweepError, accessing
from dimsweep.engine.extensions.synthesis.formula import Formula
from dimsweep.engine.extensions.synthesis.grammar import Loop, Pattern, Place, leaf, loops, unroll
from dimsweep.engine.extensions.synthesis.job import Symbol
from dimsweep.engine.extensions.synthesis.model import Layout, Part, TraceModel
from dimsweep.engine.extensions.synthesis.waiting import SEPARATOR, check_rule
from dimsweep.engine.formats.reading import read_json, validated

FORMAT = "dimsweep trace model 2"
_LARGEST = 1e30  # a factor, and the value of a key
_WIDEST = 10.0  # a spread: the standard deviation of a logarithm
_POWER = 9  # of a key
_HINT = "a file that dimsweep trace learn wrote"


class _Loop(BaseModel):
    times: Formula
    steps: "list[_Loop | dict[str, str]]"


_Steps = list[_Loop | dict[str, str]]


class _Part(BaseModel):
    learnt: int
    steps: _Steps


class _File(BaseModel):
    format: str = FORMAT
    jobs: int
    in_order: bool
    rank_spread: float
    keys: dict[str, tuple[float, ...]]
    degrees: tuple[str, ...]
    layouts: dict[str, Layout]
    parts: dict[str, _Part]


def write_model(path: Path | str, model: TraceModel) -> None:
    """Raises :class:`DimsweepError` if the file cannot be written."""
    parts = {
        name: _Part.model_construct(learnt=part.learnt, steps=_steps(part, part.pattern, ()))
        for name, part in model.parts.items()
    }
    file = _File.model_construct(**{**vars(model), "parts": parts})
    with accessing(path, "the model cannot be written"):
        Path(path).write_text(file.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _steps(part: Part, pattern: Pattern, place: Place) -> _Steps:
    steps: _Steps = []
    for number, item in enumerate(pattern):
        here = (*place, number)
        if isinstance(item, Loop):
            inner = _steps(part, item.body, here)
            steps.append(_Loop.model_construct(times=part.counts[here], steps=inner))
        else:
            formulas = part.quantities.get(here, {})
            steps.append({"step": item} | {name: str(f) for name, f in formulas.items()})
    return steps


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
        parts = {name: _read_part(part) for name, part in file.parts.items()}
        given = {name: each for name, each in file if name not in ("format", "parts")}
        model = TraceModel(**given, parts=parts)
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
        if not 0 <= layout.axis < len(layout.sizes):
            raise ValueError(f"there is no axis {layout.axis}")
        extents = [each for dimensions in layout.groups.values() for each in dimensions]
        of_groups = (formula for each in extents for formula in (each.size, each.stride))
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
            raise ValueError(f"{formula} is no formula of what a job can be")


def _read_part(part: _Part) -> Part:
    counts: dict[Place, Formula] = {}
    quantities: dict[Place, dict[str, Formula]] = {}

    def pattern(steps: _Steps, place: Place) -> Pattern:
        items: list[str | Loop] = []
        for number, step in enumerate(steps):
            here = (*place, number)
            if isinstance(step, _Loop):
                counts[here] = step.times
                items.append(Loop(pattern(step.steps, here)))
                continue
            name = step.pop("step", "")
            Symbol.of(name)
            if step:
                quantities[here] = {key: Formula.of(text) for key, text in step.items()}
            items.append(name)
        return tuple(items)

    return Part(pattern(part.steps, ()), counts, quantities, part.learnt)
