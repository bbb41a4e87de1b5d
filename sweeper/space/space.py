"""The search space of a study: the split of the bandwidth, and any other keys of the config."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from dimsweep.engine import DimsweepError, InfeasibleError, Program
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.config.study import Parameter as ParameterConfig
from dimsweep.sweeper.part import Part, naming_key
from dimsweep.sweeper.space.budget import build_split
from dimsweep.sweeper.space.split import AnySplit
from dimsweep.sweeper.space.trials import Floats, Setting, Trial, Trials

_MAX_TRIED = 128  # combinations of searched values, to find one that is feasible


@dataclass(frozen=True)
class Choice:
    """A key that takes one of ``values``."""

    values: tuple[Any, ...]

    def from_unit(self, x: float) -> Any:
        return self.values[min(int(x * len(self.values)), len(self.values) - 1)]

    def to_unit(self, value: Any) -> float:
        return (self.values.index(value) + 0.5) / len(self.values)

    def nearest(self, value: Any) -> Any:
        # The listed one: a configuration's 3.0 is a list's 3, and searches know it by its text.
        return next((each for each in self.values if each == value), self.values[0])

    def all_values(self) -> Sequence[Any]:
        return self.values


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

    def to_unit(self, value: Any) -> float:
        number = number_and_unit(value)[0] or 0.0
        if self.low == self.high:
            return 0.5
        if self.log:
            return math.log(number / self.low) / math.log(self.high / self.low)
        return (number - self.low) / (self.high - self.low)

    def value(self, number: float) -> Any:
        """Return ``number`` as the config writes it."""
        if self.step:
            number = self.low + round((number - self.low) / self.step) * self.step
        number = min(max(number, self.low), self.high)
        if self.integer:
            return round(number)
        return f"{number!r} {self.unit}" if self.unit else number

    def all_values(self) -> Sequence[Any] | None:
        """Return all values, or None without a step."""
        step = self.step or (1.0 if self.integer else None)
        if step is None or self.log:
            return None
        n = math.floor((self.high - self.low) / step + 1e-9)
        return [self.value(self.low + i * step) for i in range(n + 1)]

    def nearest(self, value: Any) -> Any:
        number, unit = number_and_unit(value)
        return self.value(number if number is not None and unit == self.unit else self.low)


Parameter = Choice | Range


class Space:
    """Decodes unit-cube coordinates into trials: first the split's, then one for each parameter."""

    def __init__(self, split: AnySplit | None, parameters: Mapping[str, Parameter]) -> None:
        self.split = split
        self.parameters = dict(parameters)

    @property
    def n_split(self) -> int:
        return self.split.n_free if self.split else 0

    @property
    def n_unit(self) -> int:
        return self.n_split + len(self.parameters)

    def trials(
        self, split: Floats, parameters: Sequence[Setting], first: int, origin: str
    ) -> Trials:
        """Return trials numbered from ``first``; ``split`` holds unit coordinates (P, n_split),
        and ``parameters`` each trial's values of the other keys, if any."""
        bandwidth = None if self.split is None else self.split.decode(split)
        return Trials.build(np.arange(first, first + len(split)), origin, bandwidth, parameters)

    def from_unit(self, unit: Floats, first: int, origin: str) -> Trials:
        """Return trials from coordinates (P, n_unit), each in [0, 1]."""
        axes = self.parameters.items()
        parameters = [
            Setting({k: p.from_unit(x) for (k, p), x in zip(axes, row, strict=True)})
            for row in unit[:, self.n_split :].tolist()
            if row
        ]
        return self.trials(unit[:, : self.n_split], parameters, first, origin)

    def to_unit(self, trial: Trial) -> Floats:
        """Return coordinates (n_unit,) of a trial, one of several that decode to it."""
        split = np.empty(0)
        if self.split is not None and trial.bandwidth is not None:
            split = self.split.encode(np.array(trial.bandwidth))
        rest = [p.to_unit(trial.parameters[key]) for key, p in self.parameters.items()]
        return np.concatenate([split, rest])

    def defaults(self, config: Config) -> Setting:
        """Return, for each parameter, the value nearest to the config's own."""
        return Setting({key: p.nearest(config.value(key)) for key, p in self.parameters.items()})


def build_space(config: Config, program: Program) -> Space:
    """Return the space of a configuration and its ``program``; raises :class:`DimsweepError`
    naming the key."""
    with naming_key("space.bandwidth"):
        split = build_split(config, program.cluster.topology, program.prices)
    parameters = {}
    for name, spec in config.space.parameters.items():
        with naming_key(f"space.parameters.{name}"):
            if isinstance(config.value(name), Mapping) and isinstance(
                getattr(config, name, None), Part
            ):
                hint = f"options of it are simulated by a grid: {{{name}: [...]}}"
                raise DimsweepError("a trial changes keys, not a whole group", hint=hint)
            if name == "topology.bandwidth" and split is not None:
                what = "each trial's bandwidths are those of space.bandwidth"
                raise DimsweepError(what, hint="leave one of the two out")
            parameters[name] = build_parameter(spec)
    return Space(split, parameters)


def settings_to_try(config: Config) -> Iterator[Setting]:
    """Yield values of the searched keys: those nearest to the config's own, and then all
    combinations, or some of many."""
    axes = {name: build_parameter(spec) for name, spec in config.space.parameters.items()}
    if not axes:
        return
    yield Setting({name: axis.nearest(config.value(name)) for name, axis in axes.items()})
    values = [axis.all_values() for axis in axes.values()]
    if all(each is not None for each in values) and math.prod(map(len, values)) <= _MAX_TRIED:  # type: ignore[arg-type]
        rows: Iterable[Sequence[Any]] = product(*values)  # type: ignore[arg-type]
    else:
        draws = np.random.default_rng(0).random((_MAX_TRIED, len(axes))).tolist()
        rows = ([a.from_unit(x) for a, x in zip(axes.values(), r, strict=True)] for r in draws)
    yield from (Setting(dict(zip(axes, row, strict=True))) for row in rows)


def check_values(config: Config) -> None:
    """Raise :class:`DimsweepError` naming the key for an invalid value of a searched key, so that
    no trial need fail to find out."""
    for name, spec in config.space.parameters.items():
        found = build_parameter(spec)
        values = found.values if isinstance(found, Choice) else (found.value(found.low),)
        for value in values:
            try:
                config.with_values({name: value})
            except InfeasibleError:
                continue
            except DimsweepError as error:
                where = f"space.parameters.{error.where or name}"
                hint = _whole_number_hint(config, name, value) or error.hint
                raise error.replace(where=where, hint=hint) from error.__cause__


def _whole_number_hint(config: Config, name: str, value: Any) -> str:
    """Return a hint on ranges of whole numbers, if ``value`` should have been one."""
    try:
        if isinstance(value, float):
            config.with_values({name: int(value)})
            return "low and high without a point; in an override int(interval(LOW,HIGH))"
    except DimsweepError:
        pass
    return ""


def build_parameter(spec: ParameterConfig) -> Parameter:
    """Return the values of a key: a choice, or a range of numbers with one unit."""
    if spec.values is not None:
        return Choice(spec.values)
    ends = {}
    for name, value in (("low", spec.low), ("high", spec.high)):
        number, unit = number_and_unit(value)
        if number is None or not math.isfinite(number):
            hint = "a number, with a unit where the key has one, such as 16 or 64 MB"
            raise DimsweepError(f"{value!r} is no number", where=name, hint=hint)
        ends[name] = number, unit
    (low, unit), (high, other) = ends["low"], ends["high"]
    if unit != other:
        raise DimsweepError(f"the units differ: {unit!r} and {other!r}", where="high")
    if low > high or (spec.log and low <= 0):
        raise DimsweepError(
            f"from {low:g} to {high:g}", hint="low <= high, and more than 0 for log"
        )
    step, step_unit = number_and_unit(spec.step)
    if spec.step is not None and (step is None or step <= 0 or step_unit != unit):
        hint = "more than zero, in the unit of low and high"
        raise DimsweepError(f"{spec.step!r} is no step", where="step", hint=hint)
    integer = isinstance(spec.low, int) and isinstance(spec.high, int)
    return Range(low, high, step, spec.log, integer, unit)


def number_and_unit(value: Any) -> tuple[float | None, str]:
    """Return the number that a value is or begins with (None: no number), and its unit."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value), ""
    number, _, unit = str(value).strip().partition(" ")
    try:
        return float(number), unit.strip()
    except ValueError:
        return None, ""
