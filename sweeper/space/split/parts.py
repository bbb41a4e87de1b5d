"""Splits whose bandwidths are sold: for each dimension, one of a list of bandwidths."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from dimsweep.engine import DimsweepError
from dimsweep.engine.bound import LinearSpace
from dimsweep.sweeper.space.split.constraint import (
    BudgetedSpace,
    Rule,
    Spending,
    format_bandwidth,
    parse_constraint,
)
from dimsweep.sweeper.space.split.grid import Floats

_MOST = 100_000  # splits
_NOISE = 1e-9


class PartsSpace(BudgetedSpace):
    """The splits with bandwidths that are ``sold`` for each dimension, as a unit cube.

    It works as :class:`SplitSpace`, but budgets are maxima: of the sum of bandwidths (``total``),
    or of their cost (``spending``).  ``minimum`` and ``maximum`` have a bandwidth for each
    dimension, in bytes/s, and ``constraints`` are texts such as ``"b0 >= b1"``.

    ``n_free`` is the number of unit coordinates: one for each dimension with several bandwidths.

    Raises :class:`DimsweepError` for rules that leave no split.
    """

    def __init__(
        self,
        sold: Sequence[Sequence[float]],
        *,
        total: float | None,
        minimum: Sequence[float],
        maximum: Sequence[float],
        constraints: Sequence[str] = (),
        spending: Spending | None = None,
    ) -> None:
        self._total, self._spending = total, spending
        self._constraints = [
            parse_constraint(text, i, len(sold)) for i, text in enumerate(constraints)
        ]
        for d, bandwidths in enumerate(sold):
            if not any(minimum[d] <= each <= maximum[d] for each in bandwidths):
                raise DimsweepError(
                    f"no part for b{d} is between its minimum and its maximum",
                    where="parts",
                    hint=f"parts for sale: {', '.join(map(format_bandwidth, bandwidths))}",
                    code="infeasible",
                )
        kept = [
            [each for each in bandwidths if low <= each <= high]
            for bandwidths, low, high in zip(sold, minimum, maximum, strict=True)
        ]
        if np.prod([float(len(each)) for each in kept]) > _MOST:
            problem = f"the parts have more than {_MOST:,} splits"
            raise DimsweepError(problem, where="parts", code="too-many")
        every = np.array(list(itertools.product(*kept)))
        self._rows = every[[self._find_broken_rule(row) is None for row in every]]
        if not len(self._rows):
            broken = self._find_broken_rule(every[0])
            assert broken is not None
            problem = f"no parts obey the rules; for the slowest ones, {broken.problem}"
            raise DimsweepError(problem, where=broken.where, hint=broken.hint, code="infeasible")
        self._free = [d for d in range(len(sold)) if len(np.unique(self._rows[:, d])) > 1]
        self.n_free = len(self._free)

    def __len__(self) -> int:
        """Return the number of splits."""
        return len(self._rows)

    def decode(self, u: Floats) -> Floats:
        """Return the splits (P, D), in bytes/s, of unit points ``u`` (P, F) in [0, 1].

        Each coordinate chooses evenly among the bandwidths that the earlier ones leave.
        """
        u = self._unit_points(u)
        return np.array([self._decode_point(row) for row in u.tolist()]).reshape(len(u), -1)

    def _decode_point(self, unit: Sequence[float]) -> Floats:
        rows = self._rows
        for d, x in zip(self._free, unit, strict=True):
            values = np.unique(rows[:, d])
            rows = rows[rows[:, d] == values[min(int(x * len(values)), len(values) - 1)]]
        return np.asarray(rows[0])

    def iterate_splits(self) -> Iterator[Floats]:
        """Yield every split (P, D), in bytes/s, in ascending order."""
        yield self._rows

    def encode(self, bandwidth: Floats) -> Floats:
        """Return unit coordinates (F,) of the split nearest to ``bandwidth`` (D,), in bytes/s."""
        nearest, rows, u = self.nearest(bandwidth), self._rows, []
        for d in self._free:
            values = np.unique(rows[:, d])
            u.append((int(np.searchsorted(values, nearest[d])) + 0.5) / len(values))
            rows = rows[rows[:, d] == nearest[d]]
        return np.array(u)

    def nearest(self, bandwidth: Floats) -> Floats:
        b = np.asarray(bandwidth, dtype=float)
        if b.shape != self._rows.shape[1:] or not np.isfinite(b).all():
            problem = f"{b} is not a split over {self._rows.shape[1]} dimensions"
            raise DimsweepError(problem, code="mismatch")
        return np.asarray(self._rows[int(((self._rows - b) ** 2).sum(axis=1).argmin())])

    def equal_split(self) -> Floats:
        """Return the split (D,) nearest to equal bandwidths."""
        if self.has_budget:
            return self.split_along(np.ones(self._rows.shape[1]))
        return self.nearest(np.full(self._rows.shape[1], self._rows.mean()))

    def linear(self) -> LinearSpace:
        """Return the linear rules on bandwidths between the slowest and the fastest parts."""
        n, rules = self._rows.shape[1], list[Rule]()
        if self._total is not None:
            rules.append(
                (f"total <= {format_bandwidth(self._total)}", np.ones(n), "<=", self._total)
            )
        if self._spending is not None:
            rules.append(self._spending.rule())
        rules += self._constraint_rules()
        return LinearSpace.build(self._rows.min(axis=0), self._rows.max(axis=0), rules)

    def check(self, bandwidth: Floats) -> None:
        """Raise :class:`DimsweepError` for the first rule that ``bandwidth`` (D,) breaks."""
        b = np.asarray(bandwidth, dtype=float)
        if (broken := self._find_broken_rule(b)) is not None:
            raise broken
        if not (np.abs(self._rows - b) <= _NOISE * b).all(axis=1).any():
            given, nearest = (
                ", ".join(map(format_bandwidth, each.tolist())) for each in (b, self.nearest(b))
            )
            problem, hint = f"no parts have {given}", f"the nearest parts have {nearest}"
            raise DimsweepError(problem, where="parts", hint=hint, code="infeasible")

    def _find_broken_rule(self, b: Floats) -> DimsweepError | None:
        """Return the error of the first rule that the split ``b`` breaks, or None."""
        if self._total is not None and b.sum() > self._total * (1 + _NOISE):
            hint = f"the total is {format_bandwidth(self._total)}"
            problem = f"the bandwidths add up to {format_bandwidth(b.sum())}"
            return DimsweepError(problem, where="total", hint=hint, code="infeasible")
        try:
            if self._spending is not None:
                self._spending.check(b)
            for i, constraint in enumerate(self._constraints):
                constraint.check(b, _NOISE * float(b.max()), where=f"constraints[{i}]")
        except DimsweepError as error:
            return error
        return None
