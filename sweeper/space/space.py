"""The search space of a cell: the bandwidth split, and any other searched keys."""

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

_MAX_TRIED = 128  # combinations of searched values that are tried for feasibility


@dataclass(frozen=True)
class Choice:
    """A searched key that takes one of the listed ``values``."""

    values: tuple[Any, ...]

    def from_unit(self, x: float) -> Any:
        """Return the value at a coordinate ``x`` in [0, 1]."""
        return self.values[min(int(x * len(self.values)), len(self.values) - 1)]

    def to_unit(self, value: Any) -> float:
        """Return the coordinate in [0, 1] of a value."""
        return (self.values.index(value) + 0.5) / len(self.values)

    def nearest(self, value: Any) -> Any:
        """Return the listed value that equals ``value``, or the first one."""
        # A configuration's 3.0 equals a list's 3, and searches identify values by their text.
        return next((each for each in self.values if each == value), self.values[0])

    def all_values(self) -> Sequence[Any]:
        """Return all values of the searched key."""
        return self.values


@dataclass(frozen=True)
class Range:
    """A searched number from ``low`` to ``high``, optionally with a ``unit`` and a ``step``."""

    low: float
    high: float
    step: float | None
    log: bool
    integer: bool
    unit: str

    def from_unit(self, x: float) -> Any:
        """Return the value at a coordinate ``x`` in [0, 1]."""
        if self.log:
            return self.value(float(self.low * (self.high / self.low) ** x))
        return self.value(self.low + (self.high - self.low) * x)

    def to_unit(self, value: Any) -> float:
        """Return the coordinate in [0, 1] of a value."""
        number = number_and_unit(value)[0] or 0.0
        if self.low == self.high:
            return 0.5
        if self.log:
            return math.log(number / self.low) / math.log(self.high / self.low)
        return (number - self.low) / (self.high - self.low)

    def value(self, number: float) -> Any:
        """Return the nearest value of the range to a number, as written in a configuration."""
        if self.step:
            number = self.low + round((number - self.low) / self.step) * self.step
        number = min(max(number, self.low), self.high)
        if self.integer:
            return round(number)
        return f"{number!r} {self.unit}" if self.unit else number

    def all_values(self) -> Sequence[Any] | None:
        """Return all values, or None for a range without a step."""
        step = self.step or (1.0 if self.integer else None)
        if step is None or self.log:
            return None
        n = math.floor((self.high - self.low) / step + 1e-9)
        return [self.value(self.low + i * step) for i in range(n + 1)]

    def nearest(self, value: Any) -> Any:
        """Return the nearest value of the range; its lowest value if ``value`` has another unit."""
        number, unit = number_and_unit(value)
        return self.value(number if number is not None and unit == self.unit else self.low)


Parameter = Choice | Range


class Space:
    """A search space as a unit cube: coordinates of the split, then one for each searched key."""

    def __init__(self, split: AnySplit | None, parameters: Mapping[str, Parameter]) -> None:
        self.split = split
        self.parameters = dict(parameters)

    @property
    def n_split(self) -> int:
        """Number of coordinates that encode the split."""
        return self.split.n_free if self.split else 0

    @property
    def n_unit(self) -> int:
        """Number of coordinates of the unit cube."""
        return self.n_split + len(self.parameters)

    def trials(
        self, split: Floats, parameters: Sequence[Setting], first: int, origin: str
    ) -> Trials:
        """Return trials numbered from ``first``.

        ``split`` has unit coordinates (P, n_split), and ``parameters`` the values of other searched
        keys for each trial.
        """
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
        """Return coordinates (n_unit,) that encode a trial; other coordinates may do so, too."""
        split = np.empty(0)
        if self.split is not None and trial.bandwidth is not None:
            split = self.split.encode(np.array(trial.bandwidth))
        rest = [p.to_unit(trial.parameters[key]) for key, p in self.parameters.items()]
        return np.concatenate([split, rest])

    def defaults(self, config: Config) -> Setting:
        """Return, for each searched key, its value that is nearest to the configuration's."""
        return Setting({key: p.nearest(config.value(key)) for key, p in self.parameters.items()})


def build_space(config: Config, program: Program) -> Space:
    """Return the search space of a configuration, given its ``program``.

    Raises :class:`DimsweepError` naming the key.
    """
    with naming_key("space.bandwidth"):
        split = build_split(config, program.cluster.topology, program.prices)
    parameters = {}
    for name, spec in config.space.parameters.items():
        with naming_key(f"space.parameters.{name}"):
            if isinstance(config.value(name), Mapping) and isinstance(
                getattr(config, name, None), Part
            ):
                problem = "a search changes keys, not a whole group"
                hint = f"compare options of the group with a grid: {{{name}: [...]}}"
                raise DimsweepError(problem, hint=hint, code="unsupported")
            if name == "topology.bandwidth" and split is not None:
                problem = "space.bandwidth already searches the bandwidths"
                raise DimsweepError(problem, hint="leave one of the two out", code="conflict")
            parameters[name] = build_parameter(spec)
    return Space(split, parameters)


def settings_to_try(config: Config) -> Iterator[Setting]:
    """Yield values of the searched keys: those nearest to the configuration's, then others.

    The others are all combinations; of more than 128, 128 are drawn at random.
    """
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
    """Raise :class:`DimsweepError` for an invalid value of a searched key, before any trial."""
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
    """Return a hint to give a range of whole numbers if the fraction ``value`` was the mistake.

    It is "" otherwise.
    """
    try:
        if isinstance(value, float):
            config.with_values({name: int(value)})
            return "low and high without a point; in an override int(interval(LOW,HIGH))"
    except DimsweepError:
        pass
    return ""


def build_parameter(spec: ParameterConfig) -> Parameter:
    """Return the values of a searched key: a choice, or a range of numbers with one unit."""
    if spec.values is not None:
        return Choice(spec.values)
    ends = {}
    for name, value in (("low", spec.low), ("high", spec.high)):
        number, unit = number_and_unit(value)
        if number is None or not math.isfinite(number):
            hint = "give a number, with the unit of the key, such as 16 or 64 MB"
            problem = f"{value!r} is not a number"
            raise DimsweepError(problem, where=name, hint=hint, code="wrong-type")
        ends[name] = number, unit
    (low, unit), (high, other) = ends["low"], ends["high"]
    if unit != other:
        problem = f"the units of low and high differ: {unit!r} and {other!r}"
        raise DimsweepError(problem, where="high", code="mismatch")
    if low > high or (spec.log and low <= 0):
        problem, hint = f"from {low:g} to {high:g}", "low <= high, and more than 0 for log"
        raise DimsweepError(problem, hint=hint, code="out-of-range")
    step, step_unit = number_and_unit(spec.step)
    if spec.step is not None and (step is None or step <= 0 or step_unit != unit):
        problem = f"{spec.step!r}; it must be more than zero, in the unit of low and high"
        raise DimsweepError(problem, where="step", code="out-of-range")
    integer = isinstance(spec.low, int) and isinstance(spec.high, int)
    return Range(low, high, step, spec.log, integer, unit)


def number_and_unit(value: Any) -> tuple[float | None, str]:
    """Return the number at the beginning of a value, or None, and its unit."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value), ""
    number, _, unit = str(value).strip().partition(" ")
    try:
        return float(number), unit.strip()
    except ValueError:
        return None, ""
