"""Objectives: the measures that a study minimises or maximises, and how they are shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import nan
from operator import attrgetter
from typing import Any, Literal, Self, TypeVar

from dimsweep.engine import DimsweepError, format_yaml, suggest_names, units
from dimsweep.engine.registry import Registry

_Values = TypeVar("_Values", float, Any)  # a number, or a NumPy array or Pandas column of them


@dataclass(frozen=True)
class NetworkFigures:
    """Cost, power and other figures of networks from which an objective is computed.

    Arrays are over networks (W,), NaN where a figure is unknown. The iteration time is not
    included.
    """

    cost: Any  #: USD
    power: Any  #: W
    spending: Any  #: USD/s, for hardware over its lifetime and for electricity
    tokens: float  #: an iteration trains on; NaN of models without tokens
    kept: float  #: the share of time that interruptions leave for training
    is_interrupted: bool  #: whether the configuration says how often training is interrupted


@dataclass(frozen=True)
class Objective:
    """A measure of a trial that a study minimises or maximises."""

    name: str
    column: str  #: column of the rows with its values
    #: formats a value, and optionally its number of digits, with the unit
    show: Callable[..., str] = field(compare=False)
    most: str  #: the best design, such as "fastest"
    better: str  #: follows "2.00x" in a comparison, such as "faster than"
    title: str  #: title of a picture's axis
    unit: units.Unit | str  #: unit in a picture
    factor: float = 1.0  #: factor from the column's unit to ``unit``
    says: str = "has {}"  #: template of a sentence on a design, such as "takes {}"
    maximised: bool = False
    needs_prices: bool = False
    has_slopes: bool = False  #: the critical path has its slopes, so the descent can search for it
    of_iterations: bool = False  #: it compares iterations, which must do equal work
    #: factor on an iteration's seconds in the loss of networks, so that bounds on seconds bound
    #: the objective; None if no bound of a plan bounds it
    network_factor: Callable[[NetworkFigures], Any] | None = field(default=None, compare=False)
    #: keys that a network needs for that factor
    network_needs: str = ""

    def claim(self, value: float) -> str:
        """Return a predicate on a design with this value, such as "takes 722.7 ms"."""
        return self.says.format(self.format_value(value))

    def format_value(self, value: float) -> str:
        """Format a value for a sentence; percentages get three digits."""
        return self.show(value, 3) if self.unit == "%" else self.show(value)

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        """Direction of the search, as Optuna names it."""
        return "maximize" if self.maximised else "minimize"

    @property
    def sign(self) -> int:
        """+1 if the objective is minimised, -1 if it is maximised."""
        return -1 if self.maximised else 1

    def is_better(self, value: float, than: float) -> bool:
        """Return whether ``value`` is strictly better than the value ``than``."""
        return self.sign * value < self.sign * than

    def is_within(self, value: float, bound: float, gap: float) -> bool:
        """Return whether ``value`` is worse than ``bound`` by at most the share ``gap``."""
        worse, better = (bound, value) if self.maximised else (value, bound)
        return worse <= better * (1 + gap)

    def gap(self, value: float, bound: float) -> float:
        """Return the share by which ``value`` is worse than ``bound`` (or than another value)."""
        return (bound / value if self.maximised else value / bound) - 1

    def loss(self, value: _Values) -> _Values:
        """Return the figure that searches minimise: ``value``, or its inverse if it is maximised.

        The loss of performance per cost is in seconds times USD. The function is its own inverse.
        """
        return 1 / value if self.maximised else value

    def value(self, row: Any) -> float:
        """Return the objective's value in a row of results, in the unit of the column."""
        return float(row[self.column])

    def plain(self) -> dict[str, Any]:
        """Return the objective as plain data for JSON, without its functions."""
        left_out = ("show", "network_factor", "network_needs")
        own = {name: value for name, value in vars(self).items() if name not in left_out}
        return own | {"unit": vars(self.unit) if isinstance(self.unit, units.Unit) else self.unit}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the objective described by the data of :meth:`plain`.

        Values are shown in its unit.
        """
        unit: Any = plain["unit"]
        unit = units.Unit(**unit) if isinstance(unit, Mapping) else unit
        factor = plain["factor"]
        own = isinstance(unit, units.Unit)
        show = partial(_show, unit) if own else partial(_show_times, factor, unit)
        return cls(**{**plain, "unit": unit, "show": show})


def _show(unit: units.Unit, value: float, digits: int = 4) -> str:
    """Format a ``value`` in ``unit`` with the prefix that suits its size."""
    return units.format_quantity(value, unit, digits)


def _show_times(factor: float, unit: str, value: float, digits: int = 4) -> str:
    """Format ``factor`` times ``value`` in a fixed unit."""
    number = float(f"{factor * value:.{digits - 1}e}")
    text = f"{number:,.0f}" if abs(number) >= 10 ** (digits - 1) else f"{number:#.{digits}g}"
    return f"{text.rstrip('.')} {unit}"


def _show_share(value: float, digits: int = 4) -> str:
    return f"{100 * value:.{digits}g}%"


def _time_factor(networks: NetworkFigures) -> float:
    return 1.0


def _effective_time_factor(networks: NetworkFigures) -> float:
    return 1 / networks.kept if networks.is_interrupted else nan


def _token_factor(networks: NetworkFigures) -> Any:
    return networks.spending / (networks.tokens * networks.kept)


_PRICES = "prices: cost.tiers, of each tier that is a price in space.network, or cost.parts"
_WATTS = "watts: cost.power, of each tier that is a price in space.network, or cost.parts"

TIME = Objective(
    "time",
    "time_s",
    partial(_show, units.TIME),
    "fastest",
    "faster than",
    "iteration time",
    units.TIME,
    has_slopes=True,
    of_iterations=True,
    says="takes {}",
    network_factor=_time_factor,
)
EFFECTIVE_TIME = Objective(
    "effective_time",
    "effective_time_s",
    partial(_show, units.TIME),
    "fastest under interruptions",
    "faster, interruptions counted, than",
    "effective iteration time",
    units.TIME,
    of_iterations=True,
    says="takes {} an iteration, interruptions counted",
    network_factor=_effective_time_factor,
    network_needs="reliability says how often training is interrupted, such as reliability=llama3",
)
COST = Objective(
    "cost",
    "cost_usd",
    partial(_show, units.MONEY),
    "cheapest",
    "cheaper than",
    "cost",
    units.MONEY,
    needs_prices=True,
    says="costs {}",
    network_needs=_PRICES,
)
PERF_PER_COST = Objective(
    "perf_per_cost",
    "perf_per_cost",
    units.format_performance_per_cost,
    "best per USD",
    "as good per USD as",
    "",
    "iterations/s per million USD",
    factor=1e6,
    maximised=True,
    needs_prices=True,
    has_slopes=True,
    of_iterations=True,
    says="gives {}",
    network_factor=attrgetter("cost"),
    network_needs=_PRICES,
)
THROUGHPUT = Objective(
    "throughput",
    "samples_per_s",
    partial(_show, units.SAMPLE_RATE),
    "fastest",
    "the throughput of",
    "throughput",
    units.SAMPLE_RATE,
    maximised=True,
    says="reaches {}",
)
TOKENS = Objective(
    "tokens_per_s",
    "tokens_per_s",
    partial(_show, units.TOKEN_RATE),
    "fastest",
    "the tokens/s of",
    "throughput",
    units.TOKEN_RATE,
    maximised=True,
    says="reaches {}",
)
MFU = Objective(
    "mfu",
    "mfu",
    _show_share,
    "highest in MFU",
    "the MFU of",
    "MFU",
    "%",
    factor=100,
    maximised=True,
    says="reaches {} MFU",
)
ACCURACY = Objective(
    "accuracy",
    "accuracy",
    _show_share,
    "most accurate",
    "the accuracy of",
    "accuracy",
    "%",
    factor=100,
    maximised=True,
    says="reaches an accuracy of {}",
)
COST_PER_TOKEN = Objective(
    "cost_per_token",
    "usd_per_token",
    partial(_show_times, 1e6, "USD/M tokens"),
    "cheapest per token",
    "cheaper per token than",
    "cost of tokens",
    "USD per million tokens",
    factor=1e6,
    says="costs {}",
    network_factor=_token_factor,
    network_needs=f"cost.lifetime, for which a cluster is paid, such as 4 year; {_PRICES}",
)
ENERGY = Objective(
    "energy",
    "energy_j",
    partial(_show, units.ENERGY),
    "lowest in energy",
    "less energy than",
    "energy of an iteration",
    units.ENERGY,
    of_iterations=True,
    says="needs {} an iteration",
    network_factor=attrgetter("power"),
    network_needs=_WATTS,
)
PERF_PER_WATT = Objective(
    "perf_per_watt",
    "perf_per_watt",
    partial(_show_times, 1e6, "it/s per MW"),
    "best per watt",
    "as good per watt as",
    "",
    "iterations/s per MW",
    factor=1e6,
    maximised=True,
    of_iterations=True,
    says="gives {}",
    network_factor=attrgetter("power"),
    network_needs=_WATTS,
)
OBJECTIVES: Registry[Objective] = Registry(
    "objective",
    {
        objective.name: objective
        for objective in (
            *(TIME, COST, PERF_PER_COST, THROUGHPUT, TOKENS, MFU, ACCURACY),
            *(COST_PER_TOKEN, ENERGY, PERF_PER_WATT, EFFECTIVE_TIME),
        )
    },
)

_BUILT_IN = frozenset(OBJECTIVES)


def plugin_objectives(objectives: Sequence[Objective]) -> dict[str, dict[str, Any]]:
    """Return the ``objectives`` that plug-ins define, as plain data, by name.

    Results can then be read without the plug-ins.
    """
    return {each.name: each.plain() for each in objectives if each.name not in _BUILT_IN}


def parse_objectives(value: Any) -> tuple[Objective, ...]:
    """Return the one or two objectives that a study names; raises :class:`DimsweepError`."""
    names = value if isinstance(value, (list, tuple)) else [value]
    for name in names:
        if not isinstance(name, str) or name not in OBJECTIVES:
            problem = f"unknown objective {format_yaml(name)}"
            hint = suggest_names(str(name), OBJECTIVES)
            raise DimsweepError(problem, hint=hint, code="unknown-name")
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        problem, hint = "give one objective, or two different ones", "such as [time, cost]"
        raise DimsweepError(problem, hint=hint, code="out-of-range")
    return tuple(OBJECTIVES[name] for name in names)


def follows_slopes(objectives: Sequence[Objective]) -> bool:
    """Return whether there is one objective and the critical path gives its slopes.

    Slopes are the objective's derivatives by bandwidth.
    """
    return len(objectives) == 1 and objectives[0].has_slopes
