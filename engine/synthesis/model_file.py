"""The model as JSON that a person can read: parts by name, steps in their loops, and formulas."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import DimsweepError
from engine.synthesis.formula import Formula, Term
from engine.synthesis.grammar import Loop, Pattern, Place
from engine.synthesis.job import Symbol
from engine.synthesis.model import Layout, Part, TraceModel

FORMAT = "dimsweep trace model 2"


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


def read_model(path: Path | str) -> TraceModel:
    """Raises :class:`DimsweepError` for a file that cannot be read or holds no model."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise DimsweepError(f"its format is {content['format']!r}, not {FORMAT!r}")
        return TraceModel(
            {name: tuple(map(float, values)) for name, values in content["keys"].items()},
            tuple(content["degrees"]),
            {name: _read_layout(layout) for name, layout in content["layouts"].items()},
            {name: _read_part(part) for name, part in content["parts"].items()},
            int(content["jobs"]),
            bool(content["in_order"]),
            float(content["rank_spread"]),
        )
    except OSError as error:
        what = f"the model cannot be read: {error.strerror}"
        raise DimsweepError(what, where=str(path)) from error
    except DimsweepError as error:
        raise DimsweepError(error.what, where=str(path)) from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        what = f"this is no model of traces: {type(error).__name__} {error}"
        hint = "a file that dimsweep trace learn wrote"
        raise DimsweepError(what, where=str(path), hint=hint) from error


def _read_layout(layout: Mapping[str, Any]) -> Layout:
    sizes = tuple(map(_formula, layout["sizes"]))
    axis = range(len(sizes))[int(layout["axis"])]
    groups = {
        name: tuple((_formula(group["size"]), _formula(group["stride"])) for group in dimensions)
        for name, dimensions in layout["groups"].items()
    }
    return Layout(sizes, axis, _formula(layout["stages"]), _formula(layout["stride"]), groups)


def _read_part(part: Mapping[str, Any]) -> Part:
    counts: dict[Place, Formula] = {}
    quantities: dict[Place, dict[str, Formula]] = {}

    def pattern(steps: list[Any], place: Place) -> Pattern:
        items: list[str | Loop] = []
        for number, step in enumerate(steps):
            here = (*place, number)
            if "times" in step:
                counts[here] = _formula(step["times"])
                items.append(Loop(pattern(step["steps"], here)))
            else:
                Symbol.of(step["step"])
                found = {name: _formula(text) for name, text in step.items() if name != "step"}
                if found:
                    quantities[here] = found
                items.append(step["step"])
        return tuple(items)

    return Part(pattern(part["steps"], ()), counts, quantities, int(part["learnt"]))


def _formula(text: str) -> Formula:
    sum_, _, spread = text.partition("; spread ")
    terms = []
    for term in sum_.split(" + "):
        factor, *powers = term.split(" * ")
        pairs = (power.rpartition("^") for power in powers)
        terms.append(Term(float(factor), {name: int(power) for name, _, power in pairs}))
    return Formula(tuple(term for term in terms if term.factor), float(spread or 0.0))
