"""Splits of an NPU's bandwidth over its network dimensions, encoded as points of a unit cube.

Samplers propose points of a unit cube; a study needs bandwidths b_0 .. b_{D-1} on a grid that add
up to a total, or cost at most a sum of money, have minima and maxima, and obey linear constraints.
:class:`SplitSpace` maps one onto the other, both ways.

All arithmetic is exact, in whole grid steps.  Equalities (the total is one) determine some
bandwidths, usually the last ones; the others are free, and each has an interval given the earlier
ones.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dimsweep.engine import DimsweepError
from dimsweep.engine.bound import LinearSpace
from dimsweep.sweeper.space.split.constraint import (
    BudgetedSpace,
    Constraint,
    Rule,
    Spending,
    format_bandwidth,
    format_difference,
    parse_constraint,
)
from dimsweep.sweeper.space.split.grid import (
    EmptyError,
    Floats,
    IntegerGrid,
    Integers,
    Point,
    Row,
    find_range,
)


class SplitSpace(BudgetedSpace):
    """The feasible splits of a total bandwidth over ``n_dims`` dimensions, as a unit cube.

    ``n_free`` is the number of unit coordinates: D, less one for each independent equality, stated
    or implied (a minimum that equals its maximum, minima that add up to the total, ...).

    Every decoded point obeys every rule exactly, and every feasible grid point can be reached.

    Parameters
    ----------
    n_dims
        Number of dimensions D.
    total
        Sum of the bandwidths, in bytes/s; None: each is free within its range.
    minimum, maximum
        Limits for each dimension, in bytes/s, rounded inward to the grid. A maximum may be infinite
        with a total or a spending.
    step
        Step of the grid, a whole number of bytes/s.
    constraints
        Texts such as ``"b0 >= b1"``, ``"b2 + b3 == 200 GB/s"`` or ``"b1 <= 4 * b2"``.
    spending
        Limit on the cost, instead of a total.

    Raises
    ------
    DimsweepError
        For invalid rules, and for rules that leave no split.
    """

    def __init__(
        self,
        n_dims: int,
        *,
        total: float | None,
        minimum: Sequence[float],
        maximum: Sequence[float],
        step: float,
        constraints: Sequence[str] = (),
        spending: Spending | None = None,
    ) -> None:
        if spending is not None:
            if total is not None:
                problem = "give a total or a cost, not both"
                raise DimsweepError(problem, where="cost", code="conflict")
            spending.check_minima(np.array(minimum), step)
            maximum = np.minimum(maximum, spending.limit / spending.prices).tolist()
        _check_numbers(n_dims, total, minimum, maximum, step)
        self._total, self._spending = total, spending
        self._minimum = np.array(minimum, dtype=float)
        self._maximum = np.array(maximum, dtype=float)
        self._step = float(step)
        self._constraints = [
            parse_constraint(text, i, n_dims) for i, text in enumerate(constraints)
        ]
        self._box = _box_in_steps(total, minimum, maximum, step)
        if spending is not None:
            spending.check_minima(np.array(self._box[0], dtype=float) * step, step)
        self._grid = self._solve()
        self.n_free = len(self._grid.free)

    def decode(self, u: Floats) -> Floats:
        """Return the splits (P, D), in bytes/s, of unit points ``u`` (P, F) in [0, 1].

        Coordinate i takes x_i = hi - (hi - lo) u_i^(1/k) of its interval [lo, hi], where k counts
        the coordinates, from this one on, that draw on the same remainder. Without maxima and
        constraints this is stick breaking with Beta(1, k) shares: uniform u give splits uniform on
        the simplex. (Counting from ``hi`` rather than ``lo`` puts the crowded end at u = 0, where
        floats are dense enough to separate its grid points.) Raises ValueError for another shape or
        for values outside [0, 1].
        """
        u = self._unit_points(u)
        if self._grid.is_convex:
            return self._decode_convex(u)
        return np.array([self._decode_point(row) for row in u.tolist()]).reshape(len(u), -1)

    def iterate_splits(self) -> Iterator[Floats]:
        """Yield all splits (P, D), in bytes/s, a few thousand at a time.

        They are in ascending order of the free bandwidths; the last one varies fastest.
        """
        return (self._in_bytes(points) for points in self._grid.iterate_points())

    def encode(self, bandwidth: Floats) -> Floats:
        """Return unit coordinates (F,) of the split nearest to ``bandwidth`` (D,), in bytes/s."""
        x, u, values = self._nearest(bandwidth), [], list[int]()
        for d, sharers in zip(self._grid.free, self._grid.sharers, strict=True):
            low, high = self._grid.values(values).ends()
            u.append(((high - x[d] + 0.5) / (high - low + 1)) ** sharers)
            values.append(x[d])
        return np.array(u)

    def nearest(self, bandwidth: Floats) -> Floats:
        """Return the feasible split nearest (least squares) to ``bandwidth``, both (D,), bytes/s.

        A ``bandwidth`` that breaks rules is first moved to the nearest one that breaks none.
        Raises :class:`DimsweepError` for another shape or values that are not finite.
        """
        return self._in_bytes(self._nearest(bandwidth))

    def equal_split(self) -> Floats:
        """Return the split (D,) nearest to equal bandwidths that use up the budget.

        Without a budget, return the split nearest to mid-range.
        """
        if not self.has_budget:
            return self.nearest((self._minimum + self._maximum) / 2)
        return self.split_along(np.ones(len(self._minimum)))

    def linear(self) -> LinearSpace:
        """Return the linear rules of the splits, without the grid: every split obeys them."""
        rules = list[Rule]()
        if self._total is not None:
            total = round(self._total / self._step) * self._step
            rules.append(
                (f"total == {format_bandwidth(total)}", np.ones(len(self._minimum)), "==", total)
            )
        if self._spending is not None:
            rules.append(self._spending.rule())
        rules += self._constraint_rules()
        low, high = (np.array(ends, dtype=float) * self._step for ends in self._box)
        return LinearSpace.build(low, high, rules)

    def check(self, bandwidth: Floats) -> None:
        """Raise :class:`DimsweepError` for the first rule that ``bandwidth`` (D,) breaks.

        Rounding errors (1e-9 of the largest bandwidth, at most half a step) and points off the
        grid are accepted.
        """
        b = self._check_shape(bandwidth)
        tolerance = min(self._step / 2, 1e-9 * float(np.abs(b).max()))
        for name, bounds, sign in (("min", self._minimum, -1), ("max", self._maximum, 1)):
            for i in np.flatnonzero(sign * (b - bounds) > tolerance)[:1]:
                raise DimsweepError(
                    f"b{i} is {format_bandwidth(b[i])}",
                    where=name,
                    hint=f"its {name}imum is {format_difference(bounds[i], b[i])}",
                    code="infeasible",
                )
        if self._total is not None and abs(b.sum() - self._total) > tolerance:
            raise DimsweepError(
                f"the bandwidths add up to {format_bandwidth(b.sum())}",
                where="total",
                hint=f"the total is {format_difference(self._total, b.sum())}",
                code="infeasible",
            )
        if self._spending is not None:
            self._spending.check(b)
        for i, constraint in enumerate(self._constraints):
            constraint.check(b, tolerance, where=f"constraints[{i}]")

    def _check_shape(self, bandwidth: Floats) -> Floats:
        b = np.asarray(bandwidth, dtype=float)
        if b.shape != self._minimum.shape or not np.isfinite(b).all():
            raise DimsweepError(
                f"{b} is not a split over {len(self._minimum)} dimensions",
                hint=f"give {len(self._minimum)} finite bandwidths",
                code="mismatch",
            )
        return b

    def _decode_point(self, unit: Sequence[float]) -> Floats:
        values: list[int] = []
        for coordinate, sharers in zip(unit, self._grid.sharers, strict=True):
            found = self._grid.values(values)
            low, high = found.ends()
            below = math.floor((high - low + 1) * coordinate ** (1 / sharers))
            values.append(int(found.last_up_to(high - min(below, high - low))))
        return self._in_bytes(self._grid.point(values))

    def _decode_convex(self, u: Floats) -> Floats:
        """Return the result of :meth:`_decode_point` for each row, with identical arithmetic."""
        values = np.empty(u.shape, dtype=np.int64)
        for i, sharers in enumerate(self._grid.sharers):
            low, high = self._grid.ends(values[:, :i])
            # Python's own power: NumPy's differs in the last bit from machine to machine.
            share = [x ** (1 / sharers) for x in u[:, i].tolist()] if sharers > 1 else u[:, i]
            below = np.floor((high - low + 1) * np.array(share)).astype(np.int64)
            values[:, i] = high - np.minimum(below, high - low)
        return self._in_bytes(self._grid.points(values))

    def _nearest(self, bandwidth: Floats) -> Point:
        return self._grid.nearest(self._check_shape(bandwidth) / self._step)

    def _in_bytes(self, steps: Point | Integers) -> Floats:
        return np.array(steps, dtype=float) * self._step

    def _solve(self) -> IntegerGrid:
        """Return the grid of all splits.

        Constraints are added one by one to find the first conflict.
        """
        for n in range(len(self._constraints) + 1):
            try:
                grid = self._build_grid(self._constraints[:n])
            except EmptyError:
                raise self._conflict_error(n - 1) from None
        return grid

    def _build_grid(self, constraints: Sequence[Constraint]) -> IntegerGrid:
        budget = None if self._spending is None else self._spending.row(self._step)
        return IntegerGrid(len(self._minimum), *self._rules(constraints), budget)

    def _rules(self, constraints: Sequence[Constraint]) -> tuple[list[Row], list[Row]]:
        """Return the equalities and the inequalities of all rules, in grid steps."""
        equalities, rows = [], []
        for i, (low, high) in enumerate(zip(*self._box, strict=True)):
            unit = tuple(int(i == j) for j in range(len(self._minimum)))
            rows += [(unit, high), (tuple(-c for c in unit), -low)]
        if self._total is not None:
            equalities.append(((1,) * len(self._minimum), round(self._total / self._step)))
        for constraint in constraints:
            kind = equalities if constraint.relation == "==" else rows
            kind.append(constraint.row(self._step))
        return equalities, rows

    def _conflict_error(self, n: int) -> DimsweepError:
        """Return the error that constraint ``n`` contradicts the rules before it."""
        constraint, where = self._constraints[n], f"constraints[{n}]"
        excess = constraint.excess()
        equalities, rows = self._rules(self._constraints[:n])
        if self._spending is not None:
            rows.append(self._spending.row(self._step))
        low, high = (
            bound * self._step + float(excess.constant)
            for bound in find_range(excess.coefficients, equalities, rows)
        )
        noise = 1e-6 * self._step
        if (low <= noise or constraint.relation == ">=") and (
            high >= -noise or constraint.relation == "<="
        ):
            return DimsweepError(
                f"{constraint.text!r} leaves no split, or hardly any, on the grid of "
                f"{format_bandwidth(self._step)}",
                where=where,
                hint="use multiples of the step in it, or a finer step",
                code="infeasible",
            )
        span = (
            f"from {format_bandwidth(low)} to {format_bandwidth(high)}"
            if high - low > noise
            else format_bandwidth(low)
        )
        return DimsweepError(
            f"{constraint.text!r} contradicts the rules before it",
            where=where,
            hint=f"with those, its left side minus its right side is {span}",
            code="infeasible",
        )


def _check_numbers(
    n_dims: int,
    total: float | None,
    minimum: Sequence[float],
    maximum: Sequence[float],
    step: float,
) -> None:
    if not (math.isfinite(step) and step > 0 and float(step).is_integer()):
        raise DimsweepError(
            f"{step:g} B/s; it must be a whole number of bytes/s above zero",
            where="step",
            code="out-of-range",
        )
    for name, bounds in (("min", minimum), ("max", maximum)):
        if len(bounds) != n_dims:
            problem = f"{len(bounds)} values for {n_dims} dimensions"
            raise DimsweepError(problem, where=name, code="mismatch")
    for i, (low, high) in enumerate(zip(minimum, maximum, strict=True)):
        if not (0 <= low < math.inf):
            raise DimsweepError(
                f"the minimum of b{i} is {low:g} B/s; it must be zero or more, and finite",
                where="min",
                code="out-of-range",
            )
        if not low <= high:
            raise DimsweepError(
                f"the minimum of b{i}, {format_bandwidth(low)}, is more than its maximum, "
                f"{format_bandwidth(high)}",
                where="min",
                code="conflict",
            )
        if total is None and high == math.inf:
            raise DimsweepError(
                f"b{i} has no maximum, and the space has no total and no cost",
                where="max",
                hint="give a total, a cost, or a finite maximum for every dimension",
                code="missing",
            )
    if total is not None and not 0 < total < math.inf:
        problem = f"{total:g} B/s; it must be more than zero, and finite"
        raise DimsweepError(problem, where="total", code="out-of-range")


def _box_in_steps(
    total: float | None, minimum: Sequence[float], maximum: Sequence[float], step: float
) -> tuple[list[int], list[int]]:
    """Return minima and maxima in whole steps, rounded inward.

    1e-6 of a step counts as rounding.
    """
    n_steps = math.inf if total is None else round(total / step, 6)
    low = [math.ceil(round(bound / step, 6)) for bound in minimum]
    high = [math.floor(min(round(bound / step, 6), n_steps)) for bound in maximum]
    if total is not None and n_steps != round(n_steps):
        raise DimsweepError(
            f"the total {format_bandwidth(total)} is not a multiple of the step "
            f"{format_bandwidth(step)}",
            where="total",
            hint=f"the nearest is {format_bandwidth(max(1, round(n_steps)) * step)}",
            code="mismatch",
        )
    if max(high) >= 2**53:
        raise DimsweepError(
            f"the maxima have {max(high):.3g} steps, more than a floating-point number can count",
            where="step",
            hint="use a coarser step",
            code="out-of-range",
        )
    for i, (first, last) in enumerate(zip(low, high, strict=True)):
        if first > last:
            raise DimsweepError(
                f"no multiple of the step {format_bandwidth(step)} is between the minimum "
                f"and the maximum of b{i}",
                where="min",
                code="infeasible",
            )
    if total is not None:
        gaps = ("min", low, sum(low) - n_steps), ("max", high, n_steps - sum(high))
        for name, steps, gap in gaps:
            if gap > 0:
                relation = "more" if name == "min" else "less"
                raise DimsweepError(
                    f"the {name}ima, on the grid, add up to {format_bandwidth(sum(steps) * step)}: "
                    f"{format_bandwidth(gap * step)} {relation} than the total "
                    f"{format_bandwidth(total)}",
                    where=name,
                    code="infeasible",
                )
    return low, high
