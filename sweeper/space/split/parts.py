"""Splits of parts that can be bought: a list of bandwidths for each dimension."""

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
    """The splits whose every bandwidth is one that is ``sold`` for its dimension, as a unit cube.

    It does what :class:`SplitSpace` does, but budgets are limits here: bandwidths add up to
    ``total`` at most, and cost at most what ``spending`` says.  ``minimum`` and ``maximum`` are one
    per dimension, in bytes/s, and ``constraints`` such as ``"b0 >= b1"``.

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
                    hint=f"there are {', '.join(map(format_bandwidth, bandwidths))}",
                )
        kept = [
            [each for each in bandwidths if low <= each <= high]
            for bandwidths, low, high in zip(sold, minimum, maximum, strict=True)
        ]
        if np.prod([float(len(each)) for each in kept]) > _MOST:
            raise DimsweepError(f"these are more than {_MOST:,} splits", where="parts")
        every = np.array(list(itertools.product(*kept)))
        self._rows = every[[self._broken(row) is None for row in every]]
        if not len(self._rows):
            broken = self._broken(every[0])
            assert broken is not None
            what = f"no parts keep the rules; the slowest of all: {broken.problem}"
            raise DimsweepError(what, where=broken.where, hint=broken.hint)
        self._free = [d for d in range(len(sold)) if len(np.unique(self._rows[:, d])) > 1]
        self.n_free = len(self._free)

    def __len__(self) -> int:
        """Return the number of splits."""
        return len(self._rows)

    def decode(self, u: Floats) -> Floats:
        """Return the splits (P, D), in bytes/s, of unit points ``u`` (P, F) in [0, 1]: each
        coordinate chooses evenly among the bandwidths that those before it leave."""
        u = self._unit_points(u)
        return np.array([self._decoded(row) for row in u.tolist()]).reshape(len(u), -1)

    def _decoded(self, unit: Sequence[float]) -> Floats:
        rows = self._rows
        for d, x in zip(self._free, unit, strict=True):
            values = np.unique(rows[:, d])
            rows = rows[rows[:, d] == values[min(int(x * len(values)), len(values) - 1)]]
        return np.asarray(rows[0])

    def all(self) -> Iterator[Floats]:
        """Yield every split (P, D), in bytes/s, in ascending order."""
        yield self._rows

    def encode(self, bandwidth: Floats) -> Floats:
        """Return unit coordinates (F,) that :meth:`decode` to ``nearest(bandwidth)``, (D,) in
        bytes/s."""
        nearest, rows, u = self.nearest(bandwidth), self._rows, []
        for d in self._free:
            values = np.unique(rows[:, d])
            u.append((int(np.searchsorted(values, nearest[d])) + 0.5) / len(values))
            rows = rows[rows[:, d] == nearest[d]]
        return np.array(u)

    def nearest(self, bandwidth: Floats) -> Floats:
        b = np.asarray(bandwidth, dtype=float)
        if b.shape != self._rows.shape[1:] or not np.isfinite(b).all():
            raise DimsweepError(f"{b} is not a split over {self._rows.shape[1]} dimensions")
        return np.asarray(self._rows[int(((self._rows - b) ** 2).sum(axis=1).argmin())])

    def equal(self) -> Floats:
        """Return the split (D,) nearest to equal bandwidths."""
        if self.has_budget:
            return self.along(np.ones(self._rows.shape[1]))
        return self.nearest(np.full(self._rows.shape[1], self._rows.mean()))

    def linear(self) -> LinearSpace:
        """Return all bandwidths between the slowest and the fastest parts within the rules."""
        n, rules = self._rows.shape[1], list[Rule]()
        if self._total is not None:
            rules.append(
                (f"total <= {format_bandwidth(self._total)}", np.ones(n), "<=", self._total)
            )
        if self._spending is not None:
            rules.append(self._spending.rule())
        rules += self._in_text()
        return LinearSpace.build(self._rows.min(axis=0), self._rows.max(axis=0), rules)

    def check(self, bandwidth: Floats) -> None:
        """Raise a DimsweepError that names the first rule that ``bandwidth`` (D,) breaks."""
        b = np.asarray(bandwidth, dtype=float)
        if (broken := self._broken(b)) is not None:
            raise broken
        if not (np.abs(self._rows - b) <= _NOISE * b).all(axis=1).any():
            given, nearest = (
                ", ".join(map(format_bandwidth, each.tolist())) for each in (b, self.nearest(b))
            )
            raise DimsweepError(
                f"no parts have {given}", where="parts", hint=f"the nearest parts have {nearest}"
            )

    def _broken(self, b: Floats) -> DimsweepError | None:
        """Return the first rule that a split breaks, or None."""
        if self._total is not None and b.sum() > self._total * (1 + _NOISE):
            hint = f"the total is {format_bandwidth(self._total)}"
            return DimsweepError(
                f"they add up to {format_bandwidth(b.sum())}", where="total", hint=hint
            )
        try:
            if self._spending is not None:
                self._spending.check(b)
            for i, constraint in enumerate(self._constraints):
                constraint.check(b, _NOISE * float(b.max()), where=f"constraints[{i}]")
        except DimsweepError as error:
            return error
        return None
