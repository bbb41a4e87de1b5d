"""Linear constraints on a bandwidth split, such as ``b2 + b3 == 200 GB/s``, and budgets."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dimsweep.engine import DimsweepError, units
from dimsweep.engine.bound import LinearSpace
from dimsweep.sweeper.space.split.grid import Floats, Row


def format_bandwidth(bandwidth: float) -> str:
    """Format a bandwidth (bytes/s), which may be a NumPy number."""
    return units.format_bandwidth(float(bandwidth))


def format_difference(right: float, wrong: float) -> str:
    """Format the bandwidth ``right``, with its distance from the bandwidth ``wrong``."""
    return f"{format_bandwidth(right)} ({format_bandwidth(abs(right - wrong))} apart)"


@dataclass(frozen=True)
class LinearExpression:
    """A linear expression in the bandwidths b: coefficients . b + constant, in bytes/s."""

    coefficients: tuple[Fraction, ...]
    constant: Fraction

    def evaluate(self, bandwidth: Floats) -> float:
        """Return the value at the bandwidths (D,)."""
        return float(np.array(self.coefficients, dtype=float) @ bandwidth) + float(self.constant)


@dataclass(frozen=True)
class Constraint:
    """A linear constraint on a bandwidth split: left side, relation, right side."""

    text: str
    left: LinearExpression
    relation: str
    right: LinearExpression

    def excess(self) -> LinearExpression:
        """Return the left side minus the right side."""
        pairs = zip(self.left.coefficients, self.right.coefficients, strict=True)
        return LinearExpression(
            tuple(a - b for a, b in pairs), self.left.constant - self.right.constant
        )

    def row(self, step: float) -> Row:
        """Return the constraint on bandwidths of n steps: ``coefficients . n <= limit`` (or ==)."""
        excess = self.excess()
        sign = -1 if self.relation == ">=" else 1
        numbers = [sign * c for c in (*excess.coefficients, -excess.constant / Fraction(step))]
        scale = math.lcm(*(number.denominator for number in numbers))
        *coefficients, limit = (int(number * scale) for number in numbers)
        return tuple(coefficients), limit

    def check(self, bandwidth: Floats, tolerance: float, where: str) -> None:
        """Raise :class:`DimsweepError` at the key ``where`` if ``bandwidth`` (D,) breaks it."""
        left, right = self.left.evaluate(bandwidth), self.right.evaluate(bandwidth)
        broken = {"<=": left - right, ">=": right - left, "==": abs(left - right)}[self.relation]
        if broken > tolerance * max(1.0, *(abs(float(c)) for c in self.excess().coefficients)):
            raise DimsweepError(
                f"{self.text!r} does not hold: its left side is {format_bandwidth(left)}",
                where=where,
                hint=f"its right side is {format_difference(right, left)}",
                code="infeasible",
            )


_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,2})?"
_TERM = re.compile(
    rf"""\s* (?P<sign>[-+]?) \s*
    (?: (?:(?P<factor>{_NUMBER})\s*\*\s*)? b(?P<dimension>\d+)
      | (?P<number>{_NUMBER}) \s* (?P<unit>[A-Za-zµ][A-Za-zµ/()]*)? )
    \s* (?=[-+]|$)""",
    re.VERBOSE,
)
_FORM = "write sums of terms such as 2*b0 and 200 GB/s on both sides of one <=, >= or =="


def parse_constraint(text: str, index: int, n_dims: int) -> Constraint:
    """Parse a constraint; raises :class:`DimsweepError` at the key ``constraints[index]``."""
    try:
        parts = re.split(r"(<=|>=|==)", text)
        if len(parts) != 3:
            n = len(parts) // 2
            problem = f"{text!r} has {n or 'no'} relation{'s' if n else ''}"
            raise DimsweepError(problem, hint=_FORM, code="bad-syntax")
        left, relation, right = parts
        constraint = Constraint(
            text, _parse_side(left, text, n_dims), relation, _parse_side(right, text, n_dims)
        )
        if not any(constraint.excess().coefficients):
            problem = f"{text!r} constrains no dimension"
            raise DimsweepError(problem, hint=_FORM, code="bad-syntax")
        return constraint
    except DimsweepError as error:
        raise error.with_prefix(f"constraints[{index}]") from error


def _parse_side(side: str, text: str, n_dims: int) -> LinearExpression:
    coefficients, constant = [Fraction(0)] * n_dims, Fraction(0)
    position = 0
    while position < len(side) or position == 0:
        term = _TERM.match(side, position)
        if term is None:
            raise _term_error(side[position:].strip(), text)
        position = term.end()
        sign = -1 if term["sign"] == "-" else 1
        if term["dimension"] is None:
            constant += sign * _parse_constant(term["number"], term["unit"], text)
        elif int(term["dimension"]) < n_dims:
            coefficients[int(term["dimension"])] += sign * Fraction(term["factor"] or 1)
        else:
            raise DimsweepError(
                f"{text!r} names b{term['dimension']}, but the network has {n_dims} dimensions",
                hint=f"they are b0 to b{n_dims - 1}",
                code="unknown-name",
            )
    return LinearExpression(tuple(coefficients), constant)


def _parse_constant(number: str, unit: str | None, text: str) -> Fraction:
    if unit is None and float(number) == 0:
        return Fraction(0)
    if unit is None:
        raise DimsweepError(
            f"{text!r}: {number} needs a unit",
            hint=f"write a bandwidth, such as {number} GB/s",
            code="wrong-type",
        )
    try:
        return Fraction(units.parse(f"{number} {unit}", units.BANDWIDTH, zero=True))
    except DimsweepError as error:
        raise error.replace(problem=f"{text!r}: {error.problem}", where="") from error


def _term_error(rest: str, text: str) -> DimsweepError:
    if re.search(r"b\d+\s*[*/]\s*b\d+", rest):
        return DimsweepError(
            f"{text!r} is not linear: it multiplies or divides two bandwidths",
            hint=_FORM,
            code="unsupported",
        )
    return DimsweepError(f"{text!r}: cannot read {rest!r}", hint=_FORM, code="bad-syntax")


format_usd = units.format_money

_UNITS = 2**44  # units of the limit, to which prices are rounded up
_NOISE = 1e-9


@dataclass(frozen=True)
class Spending:
    """A limit in USD on the cost of bandwidths, at ``prices`` (D,) above zero in USD per byte/s.

    The objective decides what more bandwidth is worth: the best split for time usually costs the
    limit, to a step, and the best one for performance per cost may cost much less.
    """

    prices: Floats
    limit: float

    def row(self, step: float) -> Row:
        """Return the limit as a rule on bandwidths of n steps, in whole numbers."""
        unit = self.limit / _UNITS
        return tuple(math.ceil(price * step / unit) for price in self.prices), _UNITS

    def rule(self) -> tuple[str, Floats, str, float]:
        """Return the limit as a rule of a LinearSpace: on bandwidths, scaled by the mean price."""
        mean = float(self.prices.mean())
        return f"cost <= {format_usd(self.limit)}", self.prices / mean, "<=", self.limit / mean

    def check_minima(self, low: Floats, step: float) -> None:
        """Raise :class:`DimsweepError` if the minima (D,) alone exceed the limit.

        See :meth:`row` for rounding.
        """
        row, most = self.row(step)
        if float(np.dot(row, low / step)) > most:
            raise DimsweepError(
                f"the minima cost {format_usd(float(self.prices @ low))}; "
                f"{format_usd(self.limit)} are available for bandwidth",
                where="cost",
                code="infeasible",
            )

    def check(self, bandwidth: Floats) -> None:
        """Raise :class:`DimsweepError` for a ``bandwidth`` (D,) that costs more than the limit."""
        cost = float(self.prices @ np.asarray(bandwidth))
        if cost > self.limit * (1 + _NOISE):
            raise DimsweepError(
                f"the bandwidths cost {format_usd(cost)}",
                where="cost",
                hint=f"{format_usd(self.limit)} are available for bandwidth",
                code="infeasible",
            )


Rule = tuple[str, Floats, str, float]  # of a LinearSpace: its text, coefficients, relation, limit


class BudgetedSpace(ABC):
    """Base class of spaces of splits with a budget.

    The bandwidths add up to a total (bytes/s), or cost up to a sum of money, or have no budget.
    """

    n_free: int
    _total: float | None
    _spending: Spending | None
    _constraints: Sequence[Constraint]

    @abstractmethod
    def nearest(self, bandwidth: Floats) -> Floats:
        """Return the split nearest (least squares) to ``bandwidth``, both (D,) in bytes/s."""

    @abstractmethod
    def linear(self) -> LinearSpace:
        """Return the linear rules that every split obeys.

        Points that obey them need not be splits.
        """

    @property
    def has_budget(self) -> bool:
        """True if the bandwidths have a total or a cost limit."""
        return self._total is not None or self._spending is not None

    def split_along(self, direction: Floats) -> Floats:
        """Return the split (D,) proportional to ``direction`` (D,) that uses up the budget.

        It is the split nearest to that proportion. Raises ValueError without a budget.
        """
        if self._spending is not None:
            scale = self._spending.limit / float(self._spending.prices @ direction)
        elif self._total is not None:
            scale = self._total / float(direction.sum())
        else:
            raise ValueError("no total and no cost to use up")
        return self.nearest(direction * scale)

    def _unit_points(self, u: Floats) -> Floats:
        """Return ``u`` as points (P, F) of the unit cube; raises ValueError if it is not."""
        u = np.asarray(u, dtype=float)
        if u.ndim != 2 or u.shape[1] != self.n_free:
            raise ValueError(f"unit points of shape {u.shape}; expected (points, {self.n_free})")
        if not ((u >= 0) & (u <= 1)).all():
            raise ValueError("unit points outside [0, 1]")
        return u

    def _constraint_rules(self) -> Iterator[Rule]:
        for constraint in self._constraints:
            excess = constraint.excess()
            row = np.array(excess.coefficients, dtype=float)
            yield constraint.text, row, constraint.relation, -float(excess.constant)
