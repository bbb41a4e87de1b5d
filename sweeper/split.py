"""The splits of an NPU's bandwidth over its network dimensions, as a unit cube to search.

Samplers propose points of a unit cube; a study wants bandwidths b_0 .. b_{D-1} on a grid that add
up to a total, respect a minimum and a maximum each, and obey linear constraints.
:class:`SplitSpace` maps one onto the other, both ways.

Everything is exact, because everything is a whole number of grid steps:

* Equalities (the total is one) are solved over the integers: x = origin + basis y, with the basis
  in echelon form, so that y is as a rule the first bandwidths themselves and the last ones follow.
* Inequalities are projected onto y_0, then (y_0, y_1), ... by Fourier-Motzkin elimination.  Each
  y_i then has an interval given the earlier ones.  Where both bounds have a coefficient above one
  the projection is the "dark shadow" of the Omega test (Pugh, 1991): it leaves out the few points,
  about a step from the boundary, whose interval might hold no integer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from engine import DimsweepError, units

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Row = tuple[tuple[int, ...], int]  # coefficients and limit: coefficients . y <= limit (or ==)

_LARGEST = 2**62  # of an int64 sum, with room to spare
_MANY_ROWS = 60  # from here on linear programs that drop redundant rows pay for themselves
_SWEEPS = 1000
_CANDIDATES = 1_000_000


class SplitSpace:
    """The feasible splits of a total bandwidth over ``n_dims`` dimensions, as a unit cube.

    ``total``: what the bandwidths add up to, in bytes/s; None leaves each free in its own range.
    ``minimum``, ``maximum``: one per dimension, in bytes/s, rounded inward to the grid; a maximum
    may be infinite when there is a total.
    ``step``: the grid, a whole number of bytes/s; every bandwidth is a multiple of it.
    ``constraints``: such as ``"b0 >= b1"``, ``"b2 + b3 == 200 GB/s"`` or ``"b1 <= 4 * b2"``.

    ``n_free`` is the number of unit coordinates: D, less one for each independent equality, stated
    or implied (a minimum that equals its maximum, minima that add up to the total, ...).

    Every decoded point obeys every rule exactly.  Every feasible grid point can be reached under
    minima, maxima, orderings, sums, equalities of any kind and one ratio bound.  Where several
    rules with factors meet (``b0 <= 4*b1`` and ``b1 <= 3*b2``) points about a step from the
    boundary may be left out, and a space no wider than that may be refused as empty.

    Raises :class:`DimsweepError` for rules that make no sense or leave no split.
    """

    n_free: int

    def __init__(
        self,
        n_dims: int,
        *,
        total: float | None,
        minimum: Sequence[float],
        maximum: Sequence[float],
        step: float,
        constraints: Sequence[str] = (),
    ) -> None:
        _check_numbers(n_dims, total, minimum, maximum, step)
        self._total = total
        self._minimum = np.array(minimum, dtype=float)
        self._maximum = np.array(maximum, dtype=float)
        self._step = float(step)
        self._constraints = [_parse(text, i, n_dims) for i, text in enumerate(constraints)]
        self._box = _box_in_steps(total, minimum, maximum, step)
        self._grid = self._solve()
        self.n_free = self._grid.n_free

    def decode(self, u: Floats) -> Floats:
        """The splits (P, D), in bytes/s, of unit points ``u`` (P, F) in [0, 1].

        Coordinate i takes y_i = hi - (hi - lo) u_i^(1/k) of its interval [lo, hi], where k counts
        the coordinates, from this one on, that draw on the same remainder.  With no maxima or
        constraints this is stick breaking with Beta(1, k) shares: uniform u give splits uniform on
        the simplex.  (Counting from ``hi`` rather than ``lo`` puts the crowded end at u = 0, where
        floats are dense enough to tell its grid points apart.)

        Raises ValueError for another shape or for values outside [0, 1].
        """
        u = np.asarray(u, dtype=float)
        if u.ndim != 2 or u.shape[1] != self.n_free:
            raise ValueError(f"unit points of shape {u.shape}; expected (points, {self.n_free})")
        if not ((u >= 0) & (u <= 1)).all():
            raise ValueError("unit points outside [0, 1]")
        y = np.empty((self.n_free, len(u)), dtype=np.int64)
        for i, sharers in enumerate(self._grid.sharers):
            low, high = self._grid.interval(i, y[:i])
            below = np.floor((high - low + 1) * u[:, i] ** (1 / sharers)).astype(np.int64)
            y[i] = high - np.minimum(below, high - low)
        return self._in_bytes(y)

    def encode(self, bandwidth: Floats) -> Floats:
        """Unit coordinates (F,) that :meth:`decode` to ``nearest(bandwidth)``, (D,) in bytes/s."""
        y = self._nearest(bandwidth)
        u = np.empty(self.n_free)
        for i, sharers in enumerate(self._grid.sharers):
            low, high = (int(bound[0]) for bound in self._grid.interval(i, y[:i, None]))
            u[i] = ((high - y[i] + 0.5) / (high - low + 1)) ** sharers
        return u

    def nearest(self, bandwidth: Floats) -> Floats:
        """The feasible grid split nearest (least squares) to ``bandwidth``, both (D,) in bytes/s.

        Exact, unless more than a million grid points compete (a wish far outside a corner that
        is not on the grid); then a close one.  Raises DimsweepError for another shape or values
        that are not finite.
        """
        return self._in_bytes(self._nearest(bandwidth))

    def equal(self) -> Floats:
        """The split (D,) nearest to equal shares of the total; without one, to mid-range."""
        if self._total is None:
            return self.nearest((self._minimum + self._maximum) / 2)
        return self.nearest(np.full(len(self._minimum), self._total / len(self._minimum)))

    def check(self, bandwidth: Floats) -> None:
        """Raise a DimsweepError that names the first rule ``bandwidth`` (D,), in bytes/s, breaks.

        Rounding errors (1e-9 of the largest bandwidth, at most half a step) and points off the
        grid are let through.
        """
        b = self._checked(bandwidth)
        tolerance = min(self._step / 2, 1e-9 * float(np.abs(b).max()))
        for name, bounds, sign in (("min", self._minimum, -1), ("max", self._maximum, 1)):
            for i in np.flatnonzero(sign * (b - bounds) > tolerance)[:1]:
                raise DimsweepError(
                    f"b{i} is {_said(b[i])}",
                    where=name,
                    hint=f"its {name}imum is {_compared(bounds[i], b[i])}",
                )
        if self._total is not None and abs(b.sum() - self._total) > tolerance:
            raise DimsweepError(
                f"the bandwidths add up to {_said(b.sum())}",
                where="total",
                hint=f"the total is {_compared(self._total, b.sum())}",
            )
        for i, constraint in enumerate(self._constraints):
            constraint.check(b, tolerance, where=f"constraints[{i}]")

    def _checked(self, bandwidth: Floats) -> Floats:
        b = np.asarray(bandwidth, dtype=float)
        if b.shape != self._minimum.shape or not np.isfinite(b).all():
            raise DimsweepError(
                f"{b} is not a split over {len(self._minimum)} dimensions",
                hint=f"give {len(self._minimum)} finite bandwidths",
            )
        return b

    def _nearest(self, bandwidth: Floats) -> Integers:
        return self._grid.nearest(self._checked(bandwidth) / self._step)

    def _in_bytes(self, y: Integers) -> Floats:
        return self._grid.points(y).astype(np.float64) * self._step

    def _solve(self) -> _Grid:
        try:
            return self._grid_of(self._constraints)
        except _EmptyError:
            # The minima, maxima and total agree (see _box_in_steps), so a constraint is to blame.
            n = next(n for n in count() if self._is_empty(self._constraints[: n + 1]))
            raise self._conflict(n) from None

    def _is_empty(self, constraints: Sequence[_Constraint]) -> bool:
        try:
            self._grid_of(constraints)
        except _EmptyError:
            return True
        return False

    def _grid_of(self, constraints: Sequence[_Constraint]) -> _Grid:
        equalities, rows = self._rules(constraints)
        return _Grid(len(self._minimum), equalities, rows, largest=max(self._box[1]))

    def _rules(self, constraints: Sequence[_Constraint]) -> tuple[list[Row], list[Row]]:
        """The equalities and the inequalities among the rules, in steps."""
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

    def _conflict(self, n: int) -> DimsweepError:
        """Why constraint ``n`` cannot hold together with the rules before it."""
        constraint, where = self._constraints[n], f"constraints[{n}]"
        excess = constraint.excess()
        low, high = (
            bound * self._step + float(excess.constant)
            for bound in _extent(excess.coefficients, *self._rules(self._constraints[:n]))
        )
        noise = 1e-6 * self._step
        if (low <= noise or constraint.relation == ">=") and (
            high >= -noise or constraint.relation == "<="
        ):
            return DimsweepError(
                f"{constraint.text!r} leaves no split, or hardly any, on the grid of "
                f"{_said(self._step)}",
                where=where,
                hint="use multiples of the step in it, or a finer step",
            )
        span = f"from {_said(low)} to {_said(high)}" if high - low > noise else _said(low)
        return DimsweepError(
            f"{constraint.text!r} cannot hold together with the rules before it",
            where=where,
            hint=f"by those, its left side minus its right side is {span}",
        )


# -- The rules as the user writes them ------------------------------------------------------------


def _said(bandwidth: float) -> str:
    return units.format_bandwidth(float(bandwidth))


def _compared(right: float, wrong: float) -> str:
    return f"{_said(right)} ({_said(abs(right - wrong))} apart)"


def _check_numbers(
    n_dims: int,
    total: float | None,
    minimum: Sequence[float],
    maximum: Sequence[float],
    step: float,
) -> None:
    if not (math.isfinite(step) and step > 0 and float(step).is_integer()):
        raise DimsweepError(
            f"{step:g} B/s cannot be the step of the grid",
            where="step",
            hint="the step is a whole number of bytes/s above zero",
        )
    for name, bounds in (("min", minimum), ("max", maximum)):
        if len(bounds) != n_dims:
            raise DimsweepError(f"{len(bounds)} values for {n_dims} dimensions", where=name)
    for i, (low, high) in enumerate(zip(minimum, maximum, strict=True)):
        if not (0 <= low < math.inf):
            raise DimsweepError(
                f"the minimum of b{i} is {low:g} B/s",
                where="min",
                hint="a minimum is zero or more, and finite",
            )
        if not low <= high:
            raise DimsweepError(
                f"the minimum of b{i}, {_said(low)}, is more than its maximum, {_said(high)}",
                where="min",
            )
        if total is None and high == math.inf:
            raise DimsweepError(
                f"b{i} has no upper end",
                where="max",
                hint="without a total every dimension needs a finite maximum",
            )
    if total is not None and not 0 < total < math.inf:
        raise DimsweepError(
            f"the total is {total:g} B/s",
            where="total",
            hint="a total is more than zero, and finite",
        )


def _box_in_steps(
    total: float | None, minimum: Sequence[float], maximum: Sequence[float], step: float
) -> tuple[list[int], list[int]]:
    """The minima and the maxima in steps, rounded inward (a millionth of a step is noise)."""
    whole = math.inf if total is None else round(total / step, 6)
    low = [math.ceil(round(bound / step, 6)) for bound in minimum]
    high = [math.floor(min(round(bound / step, 6), whole)) for bound in maximum]
    if total is not None and whole != round(whole):
        raise DimsweepError(
            f"the total {_said(total)} is not a multiple of the step {_said(step)}",
            where="total",
            hint=f"the nearest is {_said(max(1, round(whole)) * step)}",
        )
    for i, (first, last) in enumerate(zip(low, high, strict=True)):
        if first > last:
            raise DimsweepError(
                f"no multiple of the step {_said(step)} lies between the minimum "
                f"and the maximum of b{i}",
                where="min",
            )
    if total is not None:
        _check_reach(sum(low) * step, total, "min")
        _check_reach(sum(high) * step, total, "max")
    return low, high


def _check_reach(reach: float, total: float, name: str) -> None:
    gap = reach - total if name == "min" else total - reach
    if gap > 0:
        relation = "more" if name == "min" else "less"
        raise DimsweepError(
            f"the {name}ima, on the grid, add up to {_said(reach)}: {_said(gap)} "
            f"{relation} than the total {_said(total)}",
            where=name,
        )


@dataclass(frozen=True)
class _Linear:
    """coefficients . b + constant, in bytes/s."""

    coefficients: tuple[Fraction, ...]
    constant: Fraction

    def at(self, bandwidth: Floats) -> float:
        return float(np.array(self.coefficients, dtype=float) @ bandwidth) + float(self.constant)


@dataclass(frozen=True)
class _Constraint:
    text: str
    left: _Linear
    relation: str
    right: _Linear

    def excess(self) -> _Linear:
        """The left side minus the right side."""
        pairs = zip(self.left.coefficients, self.right.coefficients, strict=True)
        return _Linear(tuple(a - b for a, b in pairs), self.left.constant - self.right.constant)

    def row(self, step: float) -> Row:
        """The constraint as ``coefficients . n <= limit`` (or ==) for bandwidths of n steps."""
        excess = self.excess()
        sign = -1 if self.relation == ">=" else 1
        numbers = [sign * c for c in (*excess.coefficients, -excess.constant / Fraction(step))]
        scale = math.lcm(*(number.denominator for number in numbers))
        *coefficients, limit = (int(number * scale) for number in numbers)
        return tuple(coefficients), limit

    def check(self, bandwidth: Floats, tolerance: float, where: str) -> None:
        left, right = self.left.at(bandwidth), self.right.at(bandwidth)
        broken = {"<=": left - right, ">=": right - left, "==": abs(left - right)}[self.relation]
        if broken > tolerance * max(1.0, *(abs(float(c)) for c in self.excess().coefficients)):
            raise DimsweepError(
                f"{self.text!r} does not hold: its left side is {_said(left)}",
                where=where,
                hint=f"its right side is {_compared(right, left)}",
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


def _parse(text: str, index: int, n_dims: int) -> _Constraint:
    try:
        parts = re.split(r"(<=|>=|==)", text)
        if len(parts) != 3:
            n = len(parts) // 2
            raise DimsweepError(f"{text!r} has {n or 'no'} relation{'s' if n else ''}", hint=_FORM)
        left, relation, right = parts
        constraint = _Constraint(
            text, _parse_side(left, text, n_dims), relation, _parse_side(right, text, n_dims)
        )
        if not any(constraint.excess().coefficients):
            raise DimsweepError(f"{text!r} says nothing of any dimension", hint=_FORM)
        return constraint
    except DimsweepError as error:
        raise error.at(f"constraints[{index}]") from error


def _parse_side(side: str, text: str, n_dims: int) -> _Linear:
    coefficients, constant = [Fraction(0)] * n_dims, Fraction(0)
    position = 0
    while position < len(side) or position == 0:
        term = _TERM.match(side, position)
        if term is None:
            raise _unreadable(side[position:].strip(), text)
        position = term.end()
        sign = -1 if term["sign"] == "-" else 1
        if term["dimension"] is None:
            constant += sign * _constant(term["number"], term["unit"], text)
        elif int(term["dimension"]) < n_dims:
            coefficients[int(term["dimension"])] += sign * Fraction(term["factor"] or 1)
        else:
            raise DimsweepError(
                f"{text!r} names b{term['dimension']}, but there are {n_dims} dimensions",
                hint=f"they are b0 to b{n_dims - 1}",
            )
    return _Linear(tuple(coefficients), constant)


def _constant(number: str, unit: str | None, text: str) -> Fraction:
    if unit is None and float(number) == 0:
        return Fraction(0)
    if unit is None:
        raise DimsweepError(
            f"{text!r}: {number} needs a unit",
            hint=f"it is a bandwidth; write {number} GB/s, for instance",
        )
    try:
        return Fraction(units.parse(f"{number} {unit}", units.BANDWIDTH, zero=True))
    except DimsweepError as error:
        raise DimsweepError(f"{text!r}: {error.what}", hint=error.hint) from error


def _unreadable(rest: str, text: str) -> DimsweepError:
    if re.search(r"b\d+\s*[*/]\s*b\d+", rest):
        return DimsweepError(
            f"{text!r} is not linear: it multiplies or divides two bandwidths", hint=_FORM
        )
    return DimsweepError(f"{text!r}: cannot read {rest!r}", hint=_FORM)


# -- The integer points that obey them ------------------------------------------------------------


class _EmptyError(Exception):
    """No integer point obeys the rules (or none that the dark shadow can promise)."""


class _Grid:
    """The integer points x (D,) of a polytope within [0, largest]^D, by coordinates y (F,).

    x = origin + basis y.  ``sharers`` gives, for each coordinate, how many coordinates from it on
    (itself included) enter a dimension that it enters too.  Raises _EmptyError.
    """

    def __init__(
        self, n_dims: int, equalities: Sequence[Row], rows: Sequence[Row], largest: int
    ) -> None:
        origin = [0] * n_dims
        columns = [[int(i == j) for i in range(n_dims)] for j in range(n_dims)]
        for row in equalities:
            origin, columns = _cut(origin, columns, *_restated(row, origin, columns))
        implied: Row | None
        while True:
            origin, columns = _echelon(origin, columns)
            restated = _tightest(_restated(row, origin, columns) for row in rows)
            levels, implied = _eliminate(restated, len(columns))
            if implied is None:
                break
            origin, columns = _cut(origin, columns, *implied)
        _check_int64(origin, columns, levels, largest)
        self.n_free = len(columns)
        self._origin = np.array(origin, dtype=np.int64)
        self._basis = np.array(columns, dtype=np.int64).reshape(len(columns), n_dims).T
        self._rows = restated
        self._levels = [
            (_Bound(lower, i), _Bound(upper, i)) for i, (lower, upper) in enumerate(levels)
        ]
        used = (self._basis != 0).astype(int)
        self.sharers = [int(np.count_nonzero((used.T @ used)[i, i:])) for i in range(self.n_free)]

    def interval(self, i: int, earlier: Integers) -> tuple[Integers, Integers]:
        """The least and greatest y_i (P,), given the earlier coordinates (i, P)."""
        lower, upper = self._levels[i]
        return -lower.room(earlier), upper.room(earlier)

    def points(self, y: Integers) -> Integers:
        """x (P, D) for y (F, P), or (D,) for (F,)."""
        x: Integers = (self._basis @ y).T + self._origin
        return x

    def nearest(self, wish: Floats) -> Integers:
        """The coordinates y (F,) of the point nearest to ``wish`` (D,), a real point.

        With z = metric y, distances in x are distances in z.  Any prices >= 0 of the rows give, for
        every feasible z, |z - wish|^2 = constant + |z - centre|^2 + 2 prices . slack.  So a point
        whose last two terms ("loss") make r^2 can only be beaten within r of the centre, and prices
        that make the centre the projection of the wish onto the polytope make r small.
        """
        if self.n_free == 0:
            return np.empty(0, dtype=np.int64)
        metric = _lower_metric(self._basis)
        inverse = np.linalg.inv(metric)
        normals = np.array(list(self._rows), dtype=float) @ inverse
        limits = np.array(list(self._rows.values()), dtype=float)
        # The columns of basis @ inverse are orthonormal.
        target = (self._basis @ inverse).T @ (wish - self._origin)
        centre, prices = _project(target, normals, limits)

        force, spare = prices @ normals, prices @ (limits - normals @ centre)

        def loss(y: Integers) -> Floats:
            away = metric @ y - centre[:, None]
            return np.asarray((away**2).sum(axis=0) + 2 * (spare - force @ away))

        best, square = self._rounded(metric, centre), 0.5
        while (least := loss(best[:, None])[0]) > square:
            square = min(2 * square, least)
            ball = self._ball(metric, centre, square)
            if ball is None:
                break
            rivals = np.column_stack([best, ball])
            best = rivals[:, loss(rivals).argmin()]
        return best

    def _rounded(self, metric: Floats, centre: Floats) -> Integers:
        """A feasible y (F,) near the centre: round one coordinate after the other."""
        y = np.empty((self.n_free, 1), dtype=np.int64)
        for i, row in enumerate(metric):
            middle = np.rint((centre[i] - row[:i] @ y[:i]) / row[i]).astype(np.int64)
            y[i] = np.clip(middle, *self.interval(i, y[:i]))
        return y[:, 0]

    def _ball(self, metric: Floats, centre: Floats, square: float) -> Integers | None:
        """All feasible y (F, P) with |metric y - centre|^2 <= square; None if too many."""
        y, left = np.empty((0, 1), dtype=np.int64), np.array([square])
        for i, row in enumerate(metric):
            middle = (centre[i] - row[:i] @ y) / row[i]
            reach = np.sqrt(left) / row[i] + 1e-9
            low, high = self.interval(i, y)
            low = np.maximum(low, np.ceil(middle - reach).astype(np.int64))
            counts = np.maximum(
                np.minimum(high, np.floor(middle + reach).astype(np.int64)) - low + 1, 0
            )
            if counts.sum() > _CANDIDATES:
                return None
            parent = np.repeat(np.arange(len(low)), counts)
            rank = np.arange(len(parent)) - np.repeat(np.cumsum(counts) - counts, counts)
            new = low[parent] + rank
            y = np.vstack([y[:, parent], new])
            left = np.maximum(left[parent] - (row[i] * (new - middle[parent])) ** 2, 0)
        return y


def _check_int64(
    origin: Sequence[int],
    columns: Sequence[Sequence[int]],
    levels: Sequence[tuple[list[Row], list[Row]]],
    largest: int,
) -> None:
    """Refuse rules whose sums, over points within [0, largest]^D, might overflow."""
    basis = np.array(columns, dtype=float).reshape(len(columns), len(origin)).T
    reach = np.abs(np.linalg.pinv(basis)) @ [float(largest + abs(o)) for o in origin]
    sums = [(tuple(c[p] for c in columns), o) for p, o in enumerate(origin)]
    sums += [row for lower, upper in levels for row in (*lower, *upper)]
    for coefficients, constant in sums:
        if sum(abs(c) * r for c, r in zip(coefficients, reach, strict=True)) >= _LARGEST - abs(
            constant
        ):
            raise DimsweepError(
                "these rules need larger whole numbers than 64 bits hold",
                where="constraints",
                hint="use a coarser step, or coefficients with fewer digits",
            )


class _Bound:
    """Rows that bound coordinate i on one side, given the earlier ones."""

    def __init__(self, rows: Sequence[Row], i: int) -> None:
        self._earlier = np.array([row[:i] for row, _ in rows], dtype=np.int64).reshape(len(rows), i)
        self._own = np.array([[abs(row[i])] for row, _ in rows], dtype=np.int64)
        self._limits = np.array([[limit] for _, limit in rows], dtype=np.int64)

    def room(self, earlier: Integers) -> Integers:
        """The greatest y_i (P,), or the greatest -y_i, that all rows allow."""
        least: Integers = ((self._limits - self._earlier @ earlier) // self._own).min(axis=0)
        return least


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _restated(row: Row, origin: Sequence[int], columns: Sequence[Sequence[int]]) -> Row:
    """A row on x as a row on y, where x = origin + columns y."""
    coefficients, limit = row
    return tuple(_dot(coefficients, c) for c in columns), limit - _dot(coefficients, origin)


def _cut(
    origin: list[int], columns: list[list[int]], coefficients: Sequence[int], constant: int
) -> tuple[list[int], list[list[int]]]:
    """The part of the lattice origin + columns y where coefficients . y == constant."""
    weighted = [[*c, weight] for c, weight in zip(columns, coefficients, strict=True)]
    pivot, rest = _gather(weighted, -1)
    if pivot is None:
        if constant != 0:
            raise _EmptyError
    else:
        times, remainder = divmod(constant, pivot.pop())
        if remainder:
            raise _EmptyError
        origin = _added(origin, times, pivot)
    return origin, [column[:-1] for column in rest]


def _echelon(origin: list[int], columns: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """The same lattice in Hermite normal form: column j starts at dimension p_j, p_0 < p_1 < ...

    Where it starts with a one, dimension p_j has no other column and no origin: y_j is x[p_j].
    """
    done: list[list[int]] = []
    for p in range(len(origin)):
        pivot, columns = _gather(columns, p)
        if pivot is not None:
            done = [_added(column, -(column[p] // pivot[p]), pivot) for column in done]
            origin = _added(origin, -(origin[p] // pivot[p]), pivot)
            done.append(pivot)
    return origin, done


def _gather(columns: list[list[int]], entry: int) -> tuple[list[int] | None, list[list[int]]]:
    """A basis of the same lattice in which one column alone has the entry, above zero (Euclid).

    Returns that column, or None if all have zero there, and the others.
    """
    rest = [column for column in columns if column[entry] == 0]
    live = [column for column in columns if column[entry] != 0]
    while len(live) > 1:
        live.sort(key=lambda column: abs(column[entry]))
        least = live[0]
        reduced = [_added(c, -(c[entry] // least[entry]), least) for c in live[1:]]
        rest += [column for column in reduced if column[entry] == 0]
        live = [least, *(column for column in reduced if column[entry] != 0)]
    if not live:
        return None, rest
    return (live[0] if live[0][entry] > 0 else [-a for a in live[0]]), rest


def _added(a: Sequence[int], times: int, b: Sequence[int]) -> list[int]:
    return [x + times * y for x, y in zip(a, b, strict=True)]


def _tightest(rows: Iterable[Row]) -> dict[tuple[int, ...], int]:
    """The rows in lowest terms with their limits rounded down; one for each set of coefficients."""
    tightest: dict[tuple[int, ...], int] = {}
    for row, limit in rows:
        divisor = math.gcd(*row)
        if divisor:
            row, limit = tuple(c // divisor for c in row), limit // divisor
            tightest[row] = min(limit, tightest.get(row, limit))
        elif limit < 0:
            raise _EmptyError
    return tightest


def _eliminate(
    rows: dict[tuple[int, ...], int], n: int
) -> tuple[list[tuple[list[Row], list[Row]]], Row | None]:
    """For each of the n coordinates, its lower and upper bounds by the earlier ones.

    Or, second, a row found to be an equality at every point (with levels to throw away).
    """
    levels: list[tuple[list[Row], list[Row]]] = []
    for i in reversed(range(n)):
        lower = [(row, limit) for row, limit in rows.items() if row[i] < 0]
        upper = [(row, limit) for row, limit in rows.items() if row[i] > 0]
        levels.insert(0, (lower, upper))
        shadow = [(row, limit) for row, limit in rows.items() if row[i] == 0]
        for low, low_limit in lower:
            for high, high_limit in upper:
                a, b = -low[i], high[i]
                row = tuple(b * c + a * d for c, d in zip(low, high, strict=True))
                limit = b * low_limit + a * high_limit
                if limit == 0 and not any(row):
                    return levels, (low, low_limit)
                shadow.append((row, limit - (a - 1) * (b - 1)))
        rows = _tightest(shadow)
        if len(rows) > _MANY_ROWS:
            rows = _irredundant(rows)
    return levels, None


def _irredundant(rows: dict[tuple[int, ...], int]) -> dict[tuple[int, ...], int]:
    """The rows without those that the others imply at integer points."""
    from scipy.optimize import linprog  # a second to import; rarely needed

    normals, limits = np.array(list(rows), dtype=float), np.array(list(rows.values()), dtype=float)
    sizes = np.abs(normals).max(axis=1)
    normals, limits = normals / sizes[:, None], limits / sizes
    keep = np.ones(len(rows), dtype=bool)
    for j in reversed(range(len(rows))):
        keep[j] = False
        most = linprog(-normals[j], normals[keep], limits[keep], bounds=(None, None))
        if most.status == 2:
            raise _EmptyError
        # A row is a whole number at integer points, so half a unit too much is none; the 1e-6 is
        # for the tolerance of the solver.
        implied = most.status == 0 and -most.fun <= limits[j] + 0.5 / sizes[j] - 1e-6
        keep[j] = not implied
    return {row: limit for (row, limit), kept in zip(rows.items(), keep, strict=True) if kept}


# -- Real points ----------------------------------------------------------------------------------


def _lower_metric(basis: Integers) -> Floats:
    """The lower triangular M (F, F) with |M y| == |basis y|."""
    gram = (basis.T @ basis).astype(float)
    metric: Floats = np.linalg.cholesky(gram[::-1, ::-1])[::-1, ::-1].T
    return metric


def _project(point: Floats, normals: Floats, limits: Floats) -> tuple[Floats, Floats]:
    """The z nearest to ``point`` with normals . z <= limits, and the rows' prices (Hildreth)."""
    z, prices = point.copy(), np.zeros(len(limits))
    squares = (normals**2).sum(axis=1)
    for _ in range(_SWEEPS):
        moved = 0.0
        for i, normal in enumerate(normals):
            change = max(-prices[i], (normal @ z - limits[i]) / squares[i])
            prices[i] += change
            z -= change * normal
            moved = max(moved, abs(change))
        if moved < 1e-9:
            break
    return z, prices


def _extent(
    objective: Sequence[Fraction], equalities: Sequence[Row], rows: Sequence[Row]
) -> tuple[float, float]:
    """The least and the greatest value of objective . x over the real points of the polytope."""
    from scipy.optimize import linprog  # a second to import; for error messages alone

    system: dict[str, Any] = {"bounds": (None, None)}
    for kind, members in (("eq", equalities), ("ub", rows)):
        if members:
            system[f"A_{kind}"], system[f"b_{kind}"] = zip(*members, strict=True)
    weights = np.array(objective, dtype=float)
    return linprog(weights, **system).fun, -linprog(-weights, **system).fun
