"""Objectives: what a study searches for, and which of two values is the better one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from engine import DimsweepError, units

_Values = TypeVar("_Values", float, Any)  # a number, or a NumPy array or Pandas column of them


@dataclass(frozen=True)
class Objective:
    """A measure of a trial that a study minimises or maximises.

    ``column`` is the column of the rows that has its values.  ``has_slopes``: the critical path
    tells how it changes with each bandwidth, so the descent can search for it.
    """

    name: str
    column: str
    show: Callable[..., str]  # a value, and perhaps how many digits of it, with its unit
    maximised: bool = False
    needs_prices: bool = True
    has_slopes: bool = True

    @property
    def direction(self) -> str:
        """The direction as Optuna calls it."""
        return "maximize" if self.maximised else "minimize"

    @property
    def sign(self) -> int:
        """+1 if the objective is minimised, -1 if it is maximised."""
        return -1 if self.maximised else 1

    def is_better(self, value: float, than: float) -> bool:
        """Whether ``value`` is strictly better."""
        return self.sign * value < self.sign * than

    def is_within(self, value: float, bound: float, gap: float) -> bool:
        """Whether ``value`` is worse than ``bound`` by at most the share ``gap``."""
        worse, better = (bound, value) if self.maximised else (value, bound)
        return worse <= better * (1 + gap)

    def loss(self, value: _Values) -> _Values:
        """What is minimised: ``value`` itself, or its inverse if it is maximised (seconds times USD
        for performance per cost).  It is its own inverse function."""
        return 1 / value if self.maximised else value

    def of(self, row: Any) -> float:
        """The value in a row (a mapping of columns), in the unit of the column."""
        return float(row[self.column])


def _show_time(seconds: float, digits: int = 4) -> str:
    return units.format_quantity(seconds, units.TIME, digits)


def _show_cost(usd: float, digits: int = 4) -> str:
    return units.format_quantity(usd, units.MONEY, digits)


TIME = Objective("time", "time_s", _show_time, needs_prices=False)
COST = Objective("cost", "cost_usd", _show_cost, has_slopes=False)
PERF_PER_COST = Objective(
    "perf_per_cost", "perf_per_cost", units.format_performance_per_cost, maximised=True
)
OBJECTIVES = {objective.name: objective for objective in (TIME, COST, PERF_PER_COST)}


def parse_objectives(value: Any) -> tuple[Objective, ...]:
    """The one or two objectives that a study names; raises :class:`DimsweepError`."""
    names = value if isinstance(value, (list, tuple)) else [value]
    for name in names:
        if not isinstance(name, str) or name not in OBJECTIVES:
            hint = f"any of {', '.join(OBJECTIVES)}"
            raise DimsweepError(f"{name!r} is no objective", hint=hint)
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        raise DimsweepError("give one objective, or two different ones")
    return tuple(OBJECTIVES[name] for name in names)


def follows_slopes(objectives: Sequence[Objective]) -> bool:
    """Whether these are one objective, of which the critical path gives the slopes."""
    return len(objectives) == 1 and objectives[0].has_slopes
