"""What a dimension of a polytope's integer points may be, for many points at once.

isl answers for one point at a time.  Where its answer is an interval between linear expressions,
these are taken from it once, and NumPy does the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import islpy as isl
import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

_SET = isl.dim_type.set
_LARGEST = 2**62  # of what int64 holds


@dataclass(frozen=True)
class Bounds:
    """An interval: rule . (1, given...) // divisor, of which the greatest (``lower``, negated)
    and the least (``upper``) count."""

    lower: list[tuple[Integers, int]]
    upper: list[tuple[Integers, int]]

    @classmethod
    def of(cls, points: isl.Set, d: int, largest: Sequence[int]) -> Self | None:
        """The bounds on dimension ``d`` of ``points`` given all others, none of which is beyond
        ``largest``; ``None`` where the members are not all integers of an interval."""
        parts = points.coalesce().get_basic_sets()
        if len(parts) != 1 or parts[0].dim(isl.dim_type.div):
            return None
        lower, upper = [], []
        for rule in parts[0].get_constraints():
            factors = [rule.get_coefficient_val(_SET, i).to_python() for i in range(len(largest))]
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

    def least(self, given: Integers) -> Integers:
        """The least values (P,) where the other dimensions are ``given`` (P, D - 1)."""
        rows = [-(_value(rule, given) // divisor) for rule, divisor in self.lower]
        return np.asarray(np.max(rows, axis=0))

    def most(self, given: Integers) -> Integers:
        """The greatest values (P,)."""
        rows = [_value(rule, given) // divisor for rule, divisor in self.upper]
        return np.asarray(np.min(rows, axis=0))


def _value(rule: Integers, given: Integers) -> Integers:
    return np.asarray(rule[0] + given @ rule[1:])
