"""The integer points of a polytope, addressed by coordinates that can be searched one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from engine import DimsweepError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Row = tuple[tuple[int, ...], int]  # coefficients and limit: coefficients . y <= limit (or ==)

_LARGEST = 2**62  # of an int64 sum, with room to spare
_MANY_ROWS = 60  # from here on linear programs that drop redundant rows pay for themselves
_SWEEPS = 1000
_CANDIDATES = 1_000_000


class EmptyError(Exception):
    """No integer point obeys the rules (or none that the dark shadow can promise)."""


class IntegerGrid:
    """The integer points x (D,) of a polytope within [0, largest]^D, by coordinates y (F,).

    x = origin + basis y.  ``sharers`` gives, for each coordinate, how many coordinates from it on
    (itself included) enter a dimension, or the budget, that it enters too.  Raises EmptyError.

    A ``budget`` is a row of coefficients above zero that is spent: coefficients . x <= limit, and
    one more of y_j would break it, j being the last coordinate that it depends on.  So y_j follows
    from the others: it is ``follower``, which has an interval of one point.  The sum is above
    limit - ``slack``.
    """

    def __init__(
        self,
        n_dims: int,
        equalities: Sequence[Row],
        rows: Sequence[Row],
        largest: int,
        budget: Row | None = None,
    ) -> None:
        origin = [0] * n_dims
        columns = [[int(i == j) for i in range(n_dims)] for j in range(n_dims)]
        for row in equalities:
            origin, columns = _cut(origin, columns, *_restated(row, origin, columns))
        implied: Row | None
        while True:
            origin, columns = _echelon(origin, columns)
            every = [_restated(row, origin, columns) for row in rows]
            spent = budget and _restated(budget, origin, columns)
            self.follower, self.slack = _follower(spent)
            if spent:
                every += [spent, (tuple(-c for c in spent[0]), self.slack - 1 - spent[1])]
            restated = _tightest(every)
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
        if spent and self.follower is not None:
            used = np.vstack([used, [c != 0 for c in spent[0]]])
            used[:, self.follower] = 0
        sharing = used.T @ used
        self.sharers = [int(np.count_nonzero(sharing[i, i:])) for i in range(self.n_free)]

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


def _follower(spent: Row | None) -> tuple[int | None, int]:
    """The last coordinate that a budget depends on, and what one more of it takes."""
    if spent is None:
        return None, 0
    for i, taken in reversed(list(enumerate(spent[0]))):
        if taken:
            return i, abs(taken)
    return None, spent[1] + 1  # the other rules say what is spent


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
            raise EmptyError
    else:
        times, remainder = divmod(constant, pivot.pop())
        if remainder:
            raise EmptyError
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
            raise EmptyError
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
            raise EmptyError
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


def extent(
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
