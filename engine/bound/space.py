"""Linear spaces of bandwidths: bounds, equalities and inequalities, and which of them conflict."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.lower.program import Floats
from dimsweep.engine.units import format_bandwidth


@dataclass(frozen=True)
class LinearSpace:
    """Bandwidths b (D,) in bytes/s with ``low <= b <= high`` that obey M ``rules``.

    Rule m says ``coefficients[m] @ b <= limits[m]``, or ``==`` where ``equal[m]``; ``names[m]`` is
    what a user calls it.  ``high`` may be infinite.  Built by :meth:`build`, which checks shapes.
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
        """``rules``: (name, coefficients (D,), ``<=``, ``>=`` or ``==``, limit in bytes/s).

        Raises :class:`DimsweepError` for shapes that disagree, values that are no numbers, a
        negative lower bound, or an unknown relation.
        """
        least, most = np.array(low, dtype=float), np.array(high, dtype=float)
        rows = [np.array(row, dtype=float) for _, row, _, _ in rules]
        if least.ndim != 1 or any(row.shape != least.shape for row in (most, *rows)):
            raise DimsweepError("bounds and rules are for different dimensions", where="space")
        if not (np.isfinite(least).all() and (least >= 0).all()) or np.isnan(most).any():
            raise DimsweepError(
                "a lower bound is zero or more, and finite; an upper one is a number", where="space"
            )
        for name, row, relation, limit in rules:
            if relation not in ("<=", ">=", "=="):
                raise DimsweepError(f"unknown relation {relation!r}", where=name)
            if not (np.isfinite(np.array(row, dtype=float)).all() and np.isfinite(limit)):
                raise DimsweepError("coefficients and limit must be finite", where=name)
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
        """All splits of ``total`` bytes/s over ``n_dims`` dimensions, each at least ``low``."""
        rule = (f"total == {format_bandwidth(total)}", np.ones(n_dims), "==", total)
        return cls.build(np.full(n_dims, low), np.full(n_dims, np.inf), [rule])

    @property
    def n_dims(self) -> int:
        return len(self.low)

    def inequalities(self) -> tuple[Floats, Floats]:
        """All rules as ``rows @ b <= limits``; an equality gives two."""
        rows = np.vstack([self.coefficients, -self.coefficients[self.equal]])
        return rows, np.concatenate([self.limits, -self.limits[self.equal]])

    def box(self) -> tuple[Floats, Floats]:
        """Bounds (D,), (D,) that follow from the rules one by one.

        They hold for every b of the space, so bounds computed from them are sound; they need not
        be the tightest.
        """
        low, high = self.low.copy(), self.high.copy()
        rows, limits = self.inequalities()
        for _ in range(self.n_dims + 1):
            for row, limit in zip(rows, limits, strict=True):
                # What the others take at least leaves the most for each.
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
        """Raise a :class:`DimsweepError` that names rules which conflict, if no b obeys all.

        The rules it names are irreducible: without any one of them the others could be obeyed
        (the deletion filter of Chinneck and Dravnieks, 1991).
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
        )

    def _rules(self) -> list[tuple[str, Floats, float, bool]]:
        """Bounds and rules by name, as (name, row, limit, equal)."""
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
