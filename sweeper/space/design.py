"""Designs as plain Python data: parse and check the designs that an outside searcher proposes."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dimsweep.engine import DimsweepError, format_yaml, suggest_names, units
from dimsweep.sweeper.part import naming_key
from dimsweep.sweeper.space.space import Choice, Parameter, Range, Space, number_and_unit
from dimsweep.sweeper.space.split import AnySplit
from dimsweep.sweeper.space.trials import Floats, Setting, Trial

SPLIT = "bandwidth"
_NOISE = 1e-9


def coordinate_names(space: Space) -> list[str]:
    """Return the names of the numbers from 0 to 1 that encode a bandwidth split."""
    return [f"split_{i}" for i in range(space.n_split)]


def encode_split(space: Space, trial: Trial) -> dict[str, float]:
    """Return the numbers from 0 to 1 that encode a trial's split, by name."""
    assert space.split is not None and trial.bandwidth is not None
    found = space.split.encode(np.array(trial.bandwidth)).tolist()
    return dict(zip(coordinate_names(space), found, strict=True))


def design_from_trial(trial: Trial) -> dict[str, Any]:
    """Return a trial's design as plain data: ``bandwidth`` in bytes/s, and searched keys."""
    split = {} if trial.bandwidth is None else {SPLIT: list(trial.bandwidth)}
    return {**split, **trial.parameters}


def read_design(space: Space, design: Mapping[str, Any]) -> Trial:
    """Return a trial with the given design, still without number and origin.

    A design has a value for each searched key, and a split: either ``bandwidth`` (D,), numbers in
    bytes/s or texts such as "100 GB/s", or its coordinates (:func:`coordinate_names`). A value
    between two steps of a range or of the split's grid is moved to the nearer one. Raises
    :class:`DimsweepError` for a key that is not searched or is missing, a value out of its range,
    and a split that breaks a rule.
    """
    if not isinstance(design, Mapping):
        hint = "such as {'bandwidth': ['300 GB/s', '100 GB/s'], 'collective.chunks': 16}"
        raise DimsweepError(f"{design!r} is not a mapping", hint=hint, code="wrong-type")
    split = None if space.split is None else _read_split(space, space.split, design)
    own = [] if space.split is None else [SPLIT, *coordinate_names(space)]
    for name in design:
        if name not in own and name not in space.parameters:
            hint = suggest_names(str(name), [*own[:1], *space.parameters])
            raise DimsweepError(f"{name!r} is not searched", hint=hint, code="unknown-key")
    parameters = {}
    for name, parameter in space.parameters.items():
        if name not in design:
            raise DimsweepError("the design needs this key", where=name, code="missing")
        with naming_key(name):
            parameters[name] = _read_value(parameter, design[name])
    return Trial(0, "", split, Setting(parameters))


def _read_split(space: Space, split: AnySplit, design: Mapping[str, Any]) -> tuple[float, ...]:
    names = coordinate_names(space)
    given = [name for name in names if name in design]
    if SPLIT in design and given:
        problem, hint = f"the split is given twice, also by {given[0]}", "give one of the two"
        raise DimsweepError(problem, where=SPLIT, hint=hint, code="duplicate")
    if SPLIT not in design:
        missing = [name for name in names if name not in design]
        if missing:
            problem = f"the design has no {missing[0] if given else 'split'}"
            hint = f"give {SPLIT}, or {', '.join(names)}"
            raise DimsweepError(problem, where=SPLIT, hint=hint, code="missing")
        unit = np.array([[_read_coordinate(name, design[name]) for name in names]])
        found: Floats = split.decode(unit)[0]
        return tuple(found.tolist())
    with naming_key(SPLIT):
        wish = _read_bandwidths(design[SPLIT])
        split.check(wish)
    return tuple(split.nearest(wish).tolist())


def _read_coordinate(name: str, value: Any) -> float:
    number = number_and_unit(value)[0]
    if number is None or isinstance(value, str) or not 0 <= number <= 1:
        problem = f"{format_yaml(value)}; it must be a number from 0 to 1"
        raise DimsweepError(problem, where=name, code="out-of-range")
    return number


def _read_bandwidths(given: Any) -> Floats:
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        hint = "give one for each dimension, such as ['300 GB/s', '100 GB/s']"
        problem = f"{given!r} is not a list of bandwidths"
        raise DimsweepError(problem, hint=hint, code="wrong-type")
    found = []
    for i, each in enumerate(given):
        with naming_key(f"[{i}]"):
            number = number_and_unit(each)[0]
            if isinstance(each, str) or number is None:
                number = units.parse(each, units.BANDWIDTH)
            found.append(number)
    return np.array(found)


def _read_value(parameter: Parameter, value: Any) -> Any:
    if isinstance(parameter, Choice):
        return _read_choice(parameter, value)
    return _read_range(parameter, value)


def _read_choice(parameter: Choice, value: Any) -> Any:
    """Return the value in a parameter's list that equals ``value``, or has it as JSON text."""
    for each in parameter.values:
        if each == value and isinstance(each, bool) == isinstance(value, bool):
            return each
    for each in parameter.values:
        if isinstance(value, str) and value == json.dumps(each):
            return each
    hint = "its values: " + ", ".join(map(format_yaml, parameter.values))
    raise DimsweepError(f"unknown value {format_yaml(value)}", hint=hint, code="unknown-name")


def _read_range(parameter: Range, value: Any) -> Any:
    """Return the value of a range nearest to ``value``: a number in its unit, or a text."""
    low, high, unit = parameter.low, parameter.high, parameter.unit
    text, ends = format_yaml(value), f"from {low:g} to {high:g} {unit}".rstrip()
    number, own = number_and_unit(value)
    if number is None or own not in (("", unit) if not isinstance(value, str) else (unit,)):
        raise DimsweepError(f"{text}; it must be a value {ends}", code="wrong-type")
    room = _NOISE * max(abs(low), abs(high))
    if not low - room <= number <= high + room:
        raise DimsweepError(f"{text}; it must be {ends}", code="out-of-range")
    if parameter.integer and not math.isclose(number, round(number)):
        raise DimsweepError(f"{text}; it must be a whole number {ends}", code="wrong-type")
    return parameter.value(number)
