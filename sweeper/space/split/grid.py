"""The integer points of a polytope, enumerated or addressed one coordinate at a time.

Projections and bounds are isl's (Verdoolaege, ICMS 2010), which are exact for integer points.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import islpy as isl
import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

_IS_SET = isl.dim_type.set
_LARGEST = 2**62  # of what int64 holds


@dataclass(frozen=True)
class Bounds:
    """An interval of integers whose ends are the largest and smallest of linear expressions.

    isl evaluates one point at a time; from these expressions, NumPy evaluates many. An expression
    is rule . (1, given...) // divisor; those of the lower end are negated.
    """

    lower: list[tuple[Integers, int]]
    upper: list[tuple[Integers, int]]

    @classmethod
    def from_points(cls, points: isl.Set, d: int, largest: Sequence[int]) -> Self | None:
        """Return the bounds on dimension ``d`` of ``points``, given all other dimensions.

        ``largest`` has the largest absolute values of all dimensions. Return None if the values are
        not all integers of an interval.
        """
        parts = points.coalesce().get_basic_sets()
        if len(parts) != 1 or parts[0].dim(isl.dim_type.div):
            return None
        lower, upper = [], []
        for rule in parts[0].get_constraints():
            factors = [
                rule.get_coefficient_val(_IS_SET, i).to_python() for i in range(len(largest))
            ]
            constant, own = rule.get_constant_val().to_python(), factors.pop(d)
            others = [*largest[:d], *largest[d + 1 :]]
            if abs(constant) + sum(abs(f) * x for f, x in zip(factors, others, strict=True)) > (
                _LARGEST
            ):
                return None
            row = np.array([constant, *factors], dtype=np.int64)
            if own > 0 or (own and rule.is_equality()):
                lower.append((row if own > 0 else -row, abs(own)))
            if own < 0 or (own and rule.is_equality()):
                upper.append((row if own < 0 else -row, abs(own)))
        return cls(lower, upper)

    def minimum_values(self, given: Integers) -> Integers:
        """Return the least values (P,) where the other dimensions are ``given`` (P, D - 1)."""
        rows = [-(_value(rule, given) // divisor) for rule, divisor in self.lower]
        return np.asarray(np.max(rows, axis=0))

    def maximum_values(self, given: Integers) -> Integers:
        """Return the greatest values (P,) where the other dimensions are ``given`` (P, D - 1)."""
        rows = [_value(rule, given) // divisor for rule, divisor in self.upper]
        return np.asarray(np.min(rows, axis=0))


def _value(rule: Integers, given: Integers) -> Integers:
    return np.asarray(rule[0] + given @ rule[1:])


Floats = npt.NDArray[np.float64]
Point = tuple[int, ...]
Row = tuple[tuple[int, ...], int]  # coefficients and limit: coefficients . x <= limit (or ==)

_SET = isl.dim_type.set
_MOST_TRIED = 2000  # values, in a search of the nearest point
_TOGETHER = 4096  # points
_NOISE = 1e-6  # of a step


class EmptyError(Exception):
    """Error of rules that no integer point obeys."""


class Values:
    """The values that a dimension can take: a finite, non-empty set of integers."""

    def __init__(self, members: isl.Set) -> None:
        self._members = members

    def ends(self) -> tuple[int, int]:
        """Return the least and the greatest member."""
        return self._members.dim_min_val(0).to_python(), self._members.dim_max_val(0).to_python()

    def last_up_to(self, limit: int) -> float:
        """Return the greatest member not above ``limit``, or minus infinity."""
        kept = self._members.upper_bound_val(_SET, 0, isl.Val(limit))
        return -math.inf if kept.is_empty() else kept.dim_max_val(0).to_python()

    def first_from(self, limit: int) -> float:
        """Return the least member not below ``limit``, or infinity."""
        kept = self._members.lower_bound_val(_SET, 0, isl.Val(limit))
        return math.inf if kept.is_empty() else kept.dim_min_val(0).to_python()

    def iterate_upward(self) -> Iterator[int]:
        """Yield all values in ascending order."""
        value, last = self.ends()
        while value <= last:
            yield value
            value = self.first_from(value + 1)  # type: ignore[assignment]  # infinity ends it

    def iterate_outward(self, centre: float) -> Iterator[int]:
        """Yield all members, the nearest to ``centre`` first."""
        low, high = self.last_up_to(math.floor(centre)), self.first_from(math.floor(centre) + 1)
        while math.isfinite(low) or math.isfinite(high):
            if centre - low <= high - centre:
                yield int(low)
                low = self.last_up_to(int(low) - 1)
            else:
                yield int(high)
                high = self.first_from(int(high) + 1)


class IntegerGrid:
    """The integer points x (D,) that obey ``equalities`` and ``rows`` (inequalities).

    ``free`` lists the dimensions that earlier ones do not determine.  ``sharers`` counts, for each
    free dimension, the free dimensions from it on (itself included) that affect a common dimension,
    or the ``budget``: another row, with coefficients above zero. Raises EmptyError without points.
    """

    def __init__(
        self, n_dims: int, equalities: Sequence[Row], rows: Sequence[Row], budget: Row | None = None
    ) -> None:
        rows = rows if budget is None else [*rows, budget]
        self._points = _solve_rules(n_dims, equalities, rows)
        hull, self.free = _affine_hull(self._points)
        self.sharers = _sharers(hull, self.free, budget)
        self._shadows = [
            _project_points(self._points, self.free[: i + 1]) for i in range(len(self.free))
        ]
        self._rows = [*rows, *equalities, *_negate(equalities)]
        self._bounds = self._all_bounds()

    @property
    def is_convex(self) -> bool:
        """True if each dimension takes all integers of an interval, given any earlier ones."""
        return None not in self._bounds

    def ends(self, earlier: Integers) -> tuple[Integers, Integers]:
        """Return the least and greatest values (P,) of the next free dimension of a convex grid.

        ``earlier`` (P, i) has the values of the free dimensions before it.
        """
        bounds = self._bounds[self.free[earlier.shape[1]]]
        assert bounds is not None
        return bounds.minimum_values(earlier), bounds.maximum_values(earlier)

    def points(self, values: Integers) -> Integers:
        """Return the points (P, D) of a convex grid with ``values`` (P, F) of free dimensions."""
        found = np.empty((len(values), len(self._bounds)), dtype=np.int64)
        found[:, self.free] = values
        for d, bounds in enumerate(self._bounds):
            if d not in self.free:
                assert bounds is not None
                found[:, d] = bounds.minimum_values(values)
        return found

    def iterate_points(self) -> Iterator[Integers]:
        """Yield all points as arrays (P, D), in ascending order of the free dimensions."""
        yield from self._iterate_from(np.empty((1, 0), dtype=np.int64))

    def _iterate_from(self, earlier: Integers) -> Iterator[Integers]:
        """Yield the points whose first free dimensions have the values (P, i), depth first.

        A few thousand points are in memory at a time.
        """
        if earlier.shape[1] == len(self.free):
            if self.is_convex:
                yield self.points(earlier)
            else:
                yield np.array([self.point(row) for row in earlier.tolist()], dtype=np.int64)
            return
        for rows, counts in self._count_values(earlier):
            values = self._next_values(rows, counts)
            yield from self._iterate_from(
                np.column_stack([np.repeat(rows, counts, axis=0), values])
            )

    def _count_values(self, earlier: Integers) -> Iterator[tuple[Integers, Integers]]:
        """Yield slices of ``earlier`` (P, i), with each row's number of next values.

        The next values are those that the next free dimension can have.
        """
        if not self.is_convex:
            for row in earlier:
                yield (
                    row[None],
                    np.array([sum(1 for _ in self.values(row.tolist()).iterate_upward())]),
                )
            return
        low, high = self.ends(earlier)
        counts, start = high - low + 1, 0
        ends = np.cumsum(counts)
        while start < len(earlier):
            done = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + _TOGETHER, side="right")))
            yield earlier[start:stop], counts[start:stop]
            start = stop

    def _next_values(self, earlier: Integers, counts: Integers) -> Integers:
        """Return all values of the next free dimension, row by row of ``earlier`` (P, i)."""
        if not self.is_convex:
            return np.array(
                [v for row in earlier.tolist() for v in self.values(row).iterate_upward()]
            )
        before = np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(self.ends(earlier)[0], counts) + np.arange(len(before)) - before

    def values(self, earlier: Sequence[int]) -> Values:
        """Return the possible values of the next free dimension, given the earlier values."""
        found = self._shadows[len(earlier)]
        for i, value in enumerate(earlier):
            found = found.fix_val(_SET, i, isl.Val(value))
        return Values(found.project_out(_SET, 0, len(earlier)))

    def point(self, values: Sequence[int]) -> Point:
        """Return the point x (D,) whose free dimensions have ``values``."""
        found = self._points
        for d, value in zip(self.free, values, strict=True):
            found = found.fix_val(_SET, d, isl.Val(value))
        return _coordinates(found.sample_point())

    def nearest(self, wish: Floats) -> Point:
        """Return the point x (D,) nearest to the real point ``wish`` (D,).

        A wish that breaks rules is first projected onto them.
        """
        rounded = tuple(np.rint(wish).astype(int).tolist())
        if np.abs(wish - rounded).max() < _NOISE and self._contains(rounded):
            return rounded
        centre = _project(wish, self._rows)
        best, least, n_tried = Point(), math.inf, 0

        def search(values: tuple[int, ...], square: float) -> None:
            """Search depth first, nearest values first, while they may beat the best point."""
            nonlocal best, least, n_tried
            if len(values) == len(self.free):
                x = self.point(values)
                square = float(((np.array(x) - centre) ** 2).sum())
                if square < least:
                    best, least = x, square
                return
            near = float(centre[self.free[len(values)]])
            for value in self.values(values).iterate_outward(near):
                further = square + (value - near) ** 2
                if further >= least or n_tried > _MOST_TRIED:
                    return
                n_tried += 1
                search((*values, value), further)

        search((), 0.0)
        return best

    def _all_bounds(self) -> list[Bounds | None]:
        """Return the bounds of free dimensions given earlier ones, and of others given all."""
        n_dims = self._points.dim(_SET)
        largest = [
            max(
                abs(end.to_python())
                for end in (self._points.dim_min_val(d), self._points.dim_max_val(d))
            )
            for d in range(n_dims)
        ]
        found = []
        for d in range(n_dims):
            free = [f for f in self.free if f < d or d not in self.free]
            kept = sorted([*free, d])
            shadow = _project_points(self._points, kept)
            found.append(Bounds.from_points(shadow, kept.index(d), [largest[k] for k in kept]))
        return found

    def _contains(self, x: Point) -> bool:
        return all(_dot(row, x) <= limit for row, limit in self._rows)


def find_range(
    objective: Sequence[Fraction], equalities: Sequence[Row], rows: Sequence[Row]
) -> tuple[float, float]:
    """Return the least and the greatest value of objective . x over the integer points."""
    scale = math.lcm(*(weight.denominator for weight in objective))
    points = _solve_rules(len(objective), equalities, rows)
    total = _sum([int(weight * scale) for weight in objective])
    aff = isl.Aff(f"{{ [{_names(len(objective))}] -> [{total}] }}")
    return points.min_val(aff).to_python() / scale, points.max_val(aff).to_python() / scale


def _solve_rules(n_dims: int, equalities: Sequence[Row], rows: Sequence[Row]) -> isl.Set:
    """Return the integer points that obey the rules. Raises EmptyError."""
    rules = [f"{_sum(row)} = {limit}" for row, limit in equalities]
    rules += [f"{_sum(row)} <= {limit}" for row, limit in rows]
    points = isl.Set(f"{{ [{_names(n_dims)}] : {' and '.join(rules)} }}")
    if points.is_empty():
        raise EmptyError
    return points


def _names(n_dims: int) -> str:
    return ", ".join(f"x{d}" for d in range(n_dims))


def _sum(coefficients: Sequence[int]) -> str:
    return " + ".join(f"{c}*x{d}" for d, c in enumerate(coefficients) if c) or "0"


def _project_points(points: isl.Set, kept: Sequence[int]) -> isl.Set:
    """Return the projection of points onto the dimensions ``kept``."""
    for d in reversed(range(points.dim(_SET))):
        if d not in kept:
            points = points.project_out(_SET, d, 1)
    return points


def _affine_hull(points: isl.Set) -> tuple[list[Row], list[int]]:
    """Return the equalities of all points (limits of 0), and the dimensions they leave free."""
    n_dims = points.dim(_SET)
    equal: list[list[Row]] = [[]]
    for n in range(1, n_dims + 1):
        hull = _project_points(points, range(n)).affine_hull().remove_divs()
        rules = [rule for rule in hull.get_constraints() if rule.is_equality()]
        equal.append([(_coefficients(rule, n), 0) for rule in rules])
    return equal[-1], [d for d in range(n_dims) if len(equal[d]) == len(equal[d + 1])]


def _coefficients(rule: isl.Constraint, n_dims: int) -> tuple[int, ...]:
    return tuple(rule.get_coefficient_val(_SET, d).to_python() for d in range(n_dims))


def _sharers(hull: Sequence[Row], free: Sequence[int], budget: Row | None) -> list[int]:
    """Return the ``sharers`` of :class:`IntegerGrid`; ``hull`` determines the other dimensions."""
    n_dims = len(hull) + len(free)
    rows = np.array([row for row, _ in hull], dtype=float).reshape(len(hull), n_dims)
    determined = [d for d in range(n_dims) if d not in free]
    moves = np.zeros((n_dims, len(free)))
    moves[free, range(len(free))] = 1
    if hull:
        moves[determined] = -np.linalg.solve(rows[:, determined], rows[:, free])
    if budget is not None:
        moves = np.vstack([moves, np.array(budget[0]) / max(budget[0]) @ moves])
    used = np.abs(moves) > 1e-9
    sharing = used.T.astype(int) @ used
    return [int(np.count_nonzero(row[i:])) for i, row in enumerate(sharing)]


def _coordinates(point: isl.Point) -> Point:
    n_dims = point.get_space().dim(_SET)
    return tuple(point.get_coordinate_val(_SET, d).to_python() for d in range(n_dims))


def _negate(rows: Sequence[Row]) -> list[Row]:
    """Return upper limits ``rows`` as lower limits, with opposite signs."""
    return [(tuple(-c for c in row), -limit) for row, limit in rows]


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _project(point: Floats, rows: Sequence[Row]) -> Floats:
    """Return the real point nearest to ``point`` that obeys the rules ``rows``.

    Least distance programming, by non-negative least squares (Lawson and Hanson, 1974).
    """
    from scipy.optimize import nnls  # takes half a second to import

    system = np.array([(*row, limit) for row, limit in rows], dtype=float)
    system /= np.linalg.norm(system[:, :-1], axis=1, keepdims=True)
    normals, excess = system[:, :-1], system[:, :-1] @ point - system[:, -1]
    unit = max(1.0, float(np.abs(excess).max()))
    duals = np.vstack([-normals.T, excess / unit])
    target = np.append(np.zeros(len(point)), 1.0)
    rest = duals @ nnls(duals, target)[0] - target
    return np.asarray(point - unit * rest[:-1] / rest[-1])
