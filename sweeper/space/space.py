"""The search space of a study: the split of the bandwidth, and any other keys of the config."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import DimsweepError, Program
from sweeper.space.budget import build_split
from sweeper.space.split import SplitSpace

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trial:
    """One candidate: a bandwidth split (bytes/s; ``None`` where the config's own applies) and
    values of config keys.  ``number`` counts the trials of its search; ``origin`` says whose idea
    it was."""

    number: int
    origin: str
    bandwidth: tuple[float, ...] | None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """A key that takes one of ``values``."""

    values: tuple[Any, ...]

    def from_unit(self, x: float) -> Any:
        return self.values[min(int(x * len(self.values)), len(self.values) - 1)]

    def nearest(self, value: Any) -> Any:
        return value if value in self.values else self.values[0]


@dataclass(frozen=True)
class Range:
    """A number between ``low`` and ``high``, perhaps with a ``unit``, on a grid of ``step``."""

    low: float
    high: float
    step: float | None
    log: bool
    integer: bool
    unit: str

    def from_unit(self, x: float) -> Any:
        if self.log:
            return self.value(float(self.low * (self.high / self.low) ** x))
        return self.value(self.low + (self.high - self.low) * x)

    def value(self, number: float) -> Any:
        """``number`` as the config writes it."""
        if self.step:
            number = self.low + round((number - self.low) / self.step) * self.step
        number = min(max(number, self.low), self.high)
        if self.integer:
            return round(number)
        return f"{number!r} {self.unit}" if self.unit else number

    def nearest(self, value: Any) -> Any:
        number, unit = _number_and_unit(value)
        return self.value(number if number is not None and unit == self.unit else self.low)


Parameter = Choice | Range


class Space:
    """Decodes unit-cube coordinates into trials: first the split's, then one for each parameter."""

    def __init__(self, split: SplitSpace | None, parameters: Mapping[str, Parameter]) -> None:
        self.split = split
        self.parameters = dict(parameters)

    @property
    def n_split(self) -> int:
        return self.split.n_free if self.split else 0

    @property
    def n_unit(self) -> int:
        return self.n_split + len(self.parameters)

    def trials(
        self, split: Floats, parameters: Sequence[Mapping[str, Any]], first: int, origin: str
    ) -> list[Trial]:
        """Trials numbered from ``first``; ``split`` holds unit coordinates, shape (P, n_split)."""
        if self.split is None:
            return [Trial(first + i, origin, None, p) for i, p in enumerate(parameters)]
        bandwidths = self.split.decode(split).tolist()
        return [
            Trial(first + i, origin, tuple(b), p)
            for i, (b, p) in enumerate(zip(bandwidths, parameters, strict=True))
        ]

    def from_unit(self, unit: Floats, first: int, origin: str) -> list[Trial]:
        """Trials from coordinates of shape (P, n_unit), each in [0, 1]."""
        rest = unit[:, self.n_split :]
        parameters: list[Mapping[str, Any]] = [
            {
                k: p.from_unit(float(x))
                for (k, p), x in zip(self.parameters.items(), row, strict=True)
            }
            for row in rest
        ]
        return self.trials(unit[:, : self.n_split], parameters, first, origin)

    def defaults(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """For each parameter the value that lies nearest to the config's own."""
        return {key: p.nearest(lookup(config, key)) for key, p in self.parameters.items()}


def build_space(config: Mapping[str, Any], program: Program) -> Space:
    """The space of a composed config, whose program is ``program``; raises :class:`DimsweepError`
    naming the key."""
    try:
        split = build_split(config, program.cluster.topology, program.prices)
    except DimsweepError as error:
        raise error.at("space.bandwidth") from error.__cause__
    parameters = {}
    for key, spec in config["space"]["parameters"].items():
        lookup(config, key)
        try:
            parameters[key] = _parameter(spec)
        except DimsweepError as error:
            raise error.at(f"space.parameters.{key}") from None
    return Space(split, parameters)


def lookup(config: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key; raises :class:`DimsweepError` if there is none."""
    node: Any = config
    for part in key.split("."):
        try:
            node = node[int(part)] if isinstance(node, list) else node[part]
        except (KeyError, IndexError, ValueError, TypeError):
            known = ", ".join(map(str, node)) if isinstance(node, Mapping) else "none"
            raise DimsweepError(
                f"the configuration has no key {part!r} there",
                where=f"space.parameters.{key}",
                hint=f"keys there: {known}",
            ) from None
    return node


def with_values(config: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the config with dotted keys set."""
    result: dict[str, Any] = json.loads(json.dumps(config))
    for key, value in values.items():
        *path, last = key.split(".")
        node: Any = lookup(result, ".".join(path)) if path else result
        node[int(last) if isinstance(node, list) else last] = value
    return result


def _parameter(spec: Any) -> Parameter:
    if not isinstance(spec, Mapping):
        raise DimsweepError("give values, or low and high", hint="such as {values: [16, 64]}")
    unknown = set(spec) - {"values", "low", "high", "step", "log"}
    if unknown:
        raise DimsweepError(
            f"unknown key {sorted(unknown)[0]!r}", hint="known: values; low, high, step, log"
        )
    if "values" in spec:
        if not isinstance(spec["values"], list) or not spec["values"]:
            raise DimsweepError("values is a list with at least one entry", where="values")
        return Choice(tuple(spec["values"]))
    return _range(spec)


def _range(spec: Mapping[str, Any]) -> Range:
    ends = {}
    for key in ("low", "high"):
        if key not in spec:
            raise DimsweepError("a range needs low and high", where=key)
        ends[key] = _number_and_unit(spec[key])
        if ends[key][0] is None:
            raise DimsweepError(f"{spec[key]!r} is no number", where=key)
    (low, unit), (high, other) = ends["low"], ends["high"]
    if unit != other:
        raise DimsweepError(f"the units differ: {unit!r} and {other!r}", where="high")
    assert low is not None
    assert high is not None
    step, step_unit = _number_and_unit(spec.get("step"))
    log = bool(spec.get("log", False))
    if low > high or (log and low <= 0):
        raise DimsweepError(
            f"from {low:g} to {high:g}", hint="low <= high, and more than 0 for log"
        )
    if step is not None and (step <= 0 or step_unit != unit):
        raise DimsweepError(f"{spec['step']!r} is no step", where="step")
    integer = isinstance(spec["low"], int) and isinstance(spec["high"], int)
    return Range(low, high, step, log, integer, unit)


def _number_and_unit(value: Any) -> tuple[float | None, str]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value), ""
    number, _, unit = str(value).strip().partition(" ")
    try:
        return float(number), unit.strip()
    except ValueError:
        return None, ""
