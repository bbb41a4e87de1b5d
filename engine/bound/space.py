"""Linear spaces of bandwidths: bounds, equalities and inequalities, and conflicts among them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimsweep.engine.bound.conic import Cone
from dimsweep.engine.cluster.cost import Prices
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.lower.program import Floats
from dimsweep.engine.units import format_bandwidth


@dataclass(frozen=True)
class LinearSpace:
    """A set of bandwidths b (D,) in bytes/s: ``low <= b <= high``, and M linear rules.

    Rule m is ``coefficients[m] @ b <= limits[m]``, or ``==`` if ``equal[m]``. Built by
    :meth:`build`, which checks shapes.
    """

    low: Floats  # (D,)
    high: Floats  # (D,)
    coefficients: Floats  # (M, D)
    limits: Floats  # (M,)
    equal: NDArray[np.bool_]  # (M,)
    names: tuple[str, ...]

    @classmethod
    def build(
        cls,
        low: ArrayLike,
        high: ArrayLike,
        rules: Sequence[tuple[str, ArrayLike, str, float]] = (),
    ) -> "LinearSpace":
        """Build from bounds and rules (name, coefficients (D,), relation, limit in bytes/s).

        A relation is ``<=``, ``>=`` or ``==``. Raises :class:`DimsweepError` for shapes that
        disagree, values that are not numbers, a negative lower bound, or an unknown relation.
        """
        least, most = np.array(low, dtype=float), np.array(high, dtype=float)
        rows = [np.array(row, dtype=float) for _, row, _, _ in rules]
        if least.ndim != 1 or any(row.shape != least.shape for row in (most, *rows)):
            problem = "bounds and rules have different numbers of dimensions"
            raise DimsweepError(problem, where="space", code="mismatch")
        if not (np.isfinite(least).all() and (least >= 0).all()) or np.isnan(most).any():
            raise DimsweepError(
                "lower bounds must be finite and zero or more, and upper bounds numbers",
                where="space",
                code="out-of-range",
            )
        for name, row, relation, limit in rules:
            if relation not in ("<=", ">=", "=="):
                problem = f"unknown relation {relation!r}; known: <=, >=, =="
                raise DimsweepError(problem, where=name, code="unknown-name")
            if not (np.isfinite(np.array(row, dtype=float)).all() and np.isfinite(limit)):
                problem = "coefficients and limit must be finite"
                raise DimsweepError(problem, where=name, code="out-of-range")
        sign = np.array([-1.0 if relation == ">=" else 1.0 for _, _, relation, _ in rules])
        return cls(
            least,
            most,
            sign[:, None] * np.array(rows).reshape(len(rules), len(least)),
            sign * np.array([limit for *_, limit in rules], dtype=float),
            np.array([relation == "==" for _, _, relation, _ in rules], dtype=bool),
            tuple(name for name, *_ in rules),
        )

    @classmethod
    def budget(cls, n_dims: int, total: float, low: float = 0.0) -> "LinearSpace":
        """Return all splits of ``total`` bytes/s over ``n_dims`` dimensions of ``low`` or more."""
        rule = (f"total == {format_bandwidth(total)}", np.ones(n_dims), "==", total)
        return cls.build(np.full(n_dims, low), np.full(n_dims, np.inf), [rule])

    @property
    def n_dims(self) -> int:
        """Number of dimensions."""
        return len(self.low)

    def inequalities(self) -> tuple[Floats, Floats]:
        """Return all rules as ``rows @ b <= limits``; an equality becomes two inequalities."""
        rows = np.vstack([self.coefficients, -self.coefficients[self.equal]])
        return rows, np.concatenate([self.limits, -self.limits[self.equal]])

    def box(self) -> tuple[Floats, Floats]:
        """Return lower and upper bounds on b, (D,) each, that follow from the rules one by one.

        They hold for every b of the space, so bounds computed from them are sound; they need not be
        the tightest.
        """
        low, high = self.low.copy(), self.high.copy()
        rows, limits = self.inequalities()
        for _ in range(self.n_dims + 1):
            for row, limit in zip(rows, limits, strict=True):
                # The minimum of all others leaves the maximum of each.
                with np.errstate(invalid="ignore"):
                    least = np.where(row > 0, row * low, np.where(row < 0, row * high, 0.0))
                for d in np.flatnonzero(row):
                    others = np.delete(least, d)
                    # A little more, which sums can have lost in rounding.
                    room = limit - others.sum() + 1e-13 * (abs(limit) + np.abs(others).sum())
                    if row[d] > 0:
                        high[d] = min(high[d], room / row[d])
                    else:
                        low[d] = max(low[d], room / row[d])
        return low, high

    def check(self) -> None:
        """Raise :class:`DimsweepError` with a set of conflicting rules if no b obeys all rules.

        The set is irreducible: without any one of its rules the others could be obeyed (the
        deletion filter of Chinneck and Dravnieks, 1991).
        """
        rules = self._rules()
        if _feasible(rules, self.n_dims):
            return
        kept = list(rules)
        for rule in rules:
            rest = [other for other in kept if other is not rule]
            if not _feasible(rest, self.n_dims):
                kept = rest
        raise DimsweepError(
            "no bandwidths obey all rules; these conflict: " + "; ".join(rule[0] for rule in kept),
            where="space",
            hint="relax any one of them",
            code="infeasible",
        )

    def _rules(self) -> list[tuple[str, Floats, float, bool]]:
        """Return bounds and rules, each as (name, row, limit, equal)."""
        unit = np.eye(self.n_dims)
        rules = []
        for d, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            rules.append((f"b{d} >= {format_bandwidth(low)}", -unit[d], -low, False))
            if np.isfinite(high):
                rules.append((f"b{d} <= {format_bandwidth(high)}", unit[d], high, False))
        for name, row, limit, equal in zip(
            self.names, self.coefficients, self.limits, self.equal, strict=True
        ):
            rules.append((name, row, float(limit), bool(equal)))
        return rules


def _feasible(rules: Sequence[tuple[str, Floats, float, bool]], n_dims: int) -> bool:
    from scipy.optimize import linprog

    scale = max((abs(limit) for _, _, limit, _ in rules), default=0.0) or 1.0
    ends: dict[bool, tuple[list[Floats], list[float]]] = {False: ([], []), True: ([], [])}
    for _, row, limit, equal in rules:
        ends[equal][0].append(row)
        ends[equal][1].append(limit / scale)
    (a, b), (a_eq, b_eq) = ends[False], ends[True]
    found = linprog(
        np.zeros(n_dims),
        np.array(a) if a else None,
        np.array(b) if b else None,
        np.array(a_eq) if a_eq else None,
        np.array(b_eq) if b_eq else None,
        bounds=(None, None),
    )
    return bool(found.status != 2)


# --- time and cost --------------------------------------------------------------------------------
# Time, or time * cost, over a linear space of bandwidths as one convex problem, and back.
#
# Time * cost is not convex in the bandwidths b, but in x = s b with s = 1 / cost: there a piece
# slope / b + fixed of the time, times the cost, reads slope / x + fixed / s; cost is the plane
# prices . x + fixed price * s = 1, and a rule row . b <= limit is row . x <= limit * s (Charnes and
# Cooper's change of variables, 1962).  For the time alone the fixed price is one and all others are
# zero.  All numbers are scaled to the order of one.


_TIME_ALONE = 1.0  # the fixed price then


@dataclass(frozen=True)
class Perspective:
    """A space of bandwidths in scaled variables z = (x, sums of x, s), where time * cost is convex.

    ``cone`` holds the feasible z. A bandwidth of 1 in z is ``bandwidth`` bytes/s, a cost of 1 is
    ``cost`` USD.
    """

    cone: Cone
    bandwidth: float
    cost: float

    def reciprocal(self, z: Floats) -> Floats:
        """Return 1/b (D + R,) in s/byte for z (D + R + 1,)."""
        return z[-1] / (z[:-1] * self.bandwidth)

    def scaled(self, pieces: Floats) -> Floats:
        """Return pieces (G, D + R + 1) of a time (bytes and seconds) as pieces of z in seconds."""
        unit = np.full(pieces.shape[1], 1 / self.bandwidth)
        unit[-1] = 1.0
        return pieces * unit


def perspective(space: LinearSpace, sums: Floats, prices: Prices | None) -> Perspective:
    """Return ``space`` in scaled variables; ``sums`` (R, D) of bandwidths are further dimensions.

    Raises :class:`DimsweepError` for prices below zero, and if nothing limits a bandwidth, or keeps
    the cost from vanishing.
    """
    low, high = space.box()
    if (low > high).any():
        space.check()
    low = np.minimum(low, high)
    scale = _largest_number(low, high, space.limits)
    low, high, limits = low / scale, high / scale, space.limits / scale
    middle = np.where(np.isfinite(high), (low + high) / 2, 1.0)
    unit, fixed, price = 1.0, _TIME_ALONE, np.zeros(space.n_dims)
    if prices is not None:
        price, fixed = _check_prices(prices, space.n_dims)
        unit = float(price @ middle * scale + fixed) or 1.0
        price, fixed = price * scale / unit, fixed / unit
    box = _box(low, high, sums, price, fixed, _minimum_cost(space, price, fixed, low, limits))
    return Perspective(_cone(space, sums, price, fixed, limits, scale, box), scale, unit)


def _largest_number(low: Floats, high: Floats, limits: Floats) -> float:
    known = np.abs(np.concatenate([low, high, limits]))
    return float(known[np.isfinite(known)].max(initial=0.0)) or 1.0


def _check_prices(prices: Prices, n_dims: int) -> tuple[Floats, float]:
    price = np.array(prices.per_bandwidth, dtype=float)
    if price.shape != (n_dims,):
        raise DimsweepError(
            f"{len(price)} prices for {n_dims} dimensions", where="prices", code="mismatch"
        )
    if not (np.isfinite(price).all() and (price >= 0).all() and 0 <= prices.fixed < np.inf):
        problem = "prices must be finite and zero or more"
        raise DimsweepError(problem, where="prices", code="out-of-range")
    return price, prices.fixed


def _minimum_cost(
    space: LinearSpace, price: Floats, fixed: float, low: Floats, limits: Floats
) -> float:
    """Return a lower bound on the cost of all b of the space, by lower bounds or by one rule.

    A rule row . b >= limit with row >= 0 costs at least the limit at the cheapest price per unit of
    the row.
    """
    least = price @ low
    rows = np.vstack([-space.coefficients, space.coefficients[space.equal]])
    ends = np.concatenate([-limits, limits[space.equal]])
    for row, end in zip(rows, ends, strict=True):
        # Negative coefficients only raise the amount, and so the cost, of the rest.
        used = row > 0
        if end > 0 and used.any():
            least = max(least, end * (price[used] / row[used]).min())
    total = float(least + fixed)
    if total <= 0:
        raise DimsweepError(
            "nothing limits the cost from below, so ever less bandwidth is better",
            where="space",
            hint="set a total, minima, or a fixed price such as that of the NPUs",
            code="missing",
        )
    return total * (1 - 1e-12)


def _box(
    low: Floats, high: Floats, sums: Floats, price: Floats, fixed: float, least_cost: float
) -> tuple[Floats, Floats]:
    """Return lower and upper bounds on z that follow from the bounds ``low`` and ``high`` on b."""
    low = np.concatenate([low, sums @ low])
    with np.errstate(invalid="ignore", divide="ignore"):
        most_cost = fixed + np.where(price > 0, price * high, 0.0).sum()
        ends = np.minimum(high / least_cost, 1 / price)  # of x: its own price alone costs at most 1
        if not np.isfinite(ends).all():
            d = int(np.flatnonzero(~np.isfinite(ends))[0])
            raise DimsweepError(
                f"nothing limits b{d} from above",
                where="space",
                hint="set a maximum",
                code="missing",
            )
        ends = np.concatenate([ends, sums @ ends])
    s = 1 / most_cost * (1 - 1e-12), 1 / least_cost
    if not price.any():
        s = 1 / fixed, 1 / fixed
    return np.append(low * s[0], s[0]), np.append(ends, s[1])


def _cone(
    space: LinearSpace,
    sums: Floats,
    price: Floats,
    fixed: float,
    limits: Floats,
    scale: float,
    box: tuple[Floats, Floats],
) -> Cone:
    n, n_sums = space.n_dims, len(sums)
    unit, pinned = np.eye(n), space.low == space.high

    def rows(coefficients: Floats, ends: Floats) -> Floats:
        """Return each rule row . b <= end as a row of row . x - end * s <= 0."""
        return np.hstack([coefficients, np.zeros((len(ends), n_sums)), -ends[:, None]])

    raised, capped = (space.low > 0) & ~pinned, np.isfinite(space.high) & ~pinned
    equal = np.vstack(
        [
            np.concatenate([price, np.zeros(n_sums), [fixed]]),
            np.hstack([sums, -np.eye(n_sums), np.zeros((n_sums, 1))]),
            rows(space.coefficients[space.equal], limits[space.equal]),
            rows(unit[pinned], space.low[pinned] / scale),
        ]
    )
    less = np.vstack(
        [
            rows(space.coefficients[~space.equal], limits[~space.equal]),
            rows(-unit[raised], -space.low[raised] / scale),
            rows(unit[capped], space.high[capped] / scale),
        ]
    )
    return Cone(equal, np.eye(1, len(equal))[0], less, *box)
