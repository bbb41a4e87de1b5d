"""The optimal bandwidths of a convex model of the time over a linear space, with a proven bound.

Models give their pieces, and are minimised by cutting planes (Kelley, 1960): the minimum of the sum
of maxima of the known pieces is a bound. The model's pieces at that point are added until they add
nothing new.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from dimsweep.engine.bound.conic import certify, mean_piece, solve
from dimsweep.engine.bound.space import LinearSpace, Perspective, perspective
from dimsweep.engine.cluster.cost import Prices
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.lower.program import Floats, Ints

_ROUNDS = 400
_CLOSE = 1e-10  # relative; about the solver's own accuracy
_POLISH = 4
_LEAST = 1e-9  # unit, relative to the greatest
_FAR = 1e9  # a bandwidth divided by it makes any dimension the busiest


class ConvexModel(Protocol):
    """A model of the time: a sum over groups of the greatest piece, fixed + slope . 1/b.

    ``sums`` (R, D) >= 0: sums of bandwidths that pieces may divide by as if they were dimensions
    D, D + 1, ...
    """

    @property
    def sums(self) -> Floats: ...

    def pieces(self, reciprocal: Floats) -> Floats:
        """Return the greatest piece of each group, (G, D + R + 1), at 1/b (D + R,) in s/byte.

        A row contains slopes in bytes, and last its fixed seconds; none is negative.
        """
        ...


@dataclass(frozen=True)
class Optimum:
    """The best bandwidths found, their value, and a proven lower bound on every value."""

    bandwidth: Floats  # (D,) bytes/s
    value: float
    bound: float
    time: float  # seconds
    cost: float | None  # USD
    rounds: int  # cone programs solved
    per_bandwidth: Floats  # (D,)

    @property
    def gap(self) -> float:
        """Relative gap between value and bound: the largest possible improvement of the value."""
        if self.bound > 0:
            return self.value / self.bound - 1
        return 0.0 if self.value <= self.bound else np.inf


def time_of(model: ConvexModel, bandwidth: Floats) -> float:
    """Return the model's seconds at bandwidths (D,) in bytes/s; infinite if a used one is zero."""
    # The least float for zero: its reciprocal is finite, so that nothing times it is nothing.
    b = np.maximum(np.concatenate([bandwidth, model.sums @ bandwidth]), np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        return float((model.pieces(1 / b) @ np.append(1 / b, 1.0)).sum())


def optimum(model: ConvexModel, space: LinearSpace, prices: Prices | None = None) -> Optimum:
    """Return the bandwidths of ``space`` with the minimum time, or with ``prices`` time * cost.

    Minimum time * cost is maximum performance per cost.

    Parameters
    ----------
    model
        A convex model of the time.
    space
        The possible bandwidths.
    prices
        Prices of bandwidth.

    Raises
    ------
    DimsweepError
        If no bandwidths obey the rules (naming some that conflict), if nothing limits a bandwidth,
        or keeps the cost from vanishing, and for prices below zero.
    """
    form = perspective(space, model.sums, prices)
    best = _minimise(model, form)
    if best is None:
        space.check()
        raise DimsweepError(
            "the solver found no optimum",
            where="space",
            hint="set tighter minima and maxima",
            code="infeasible",
        )
    x, s = best.z[: space.n_dims], best.z[-1]
    bandwidth = _feasible(x / s * form.bandwidth, space)
    time = time_of(model, bandwidth)
    cost = None if prices is None else float(prices.cost(bandwidth))
    value = time if cost is None else time * cost
    bound = min(max(best.bound * form.cost, 0.0), value)
    work = best.mean[:-1] * form.bandwidth
    slopes = _slopes(work, np.vstack([np.eye(space.n_dims), model.sums]), bandwidth)
    return Optimum(bandwidth, value, bound, time, cost, best.rounds, slopes)


def _slopes(work: Floats, sums: Floats, bandwidth: Floats) -> Floats:
    """Return the derivative of time dT/db (D,).

    The time is ``work`` bytes (D + R,) over the sums of bandwidths in the rows of ``sums`` (D + R,
    D).
    """
    total = np.maximum(sums @ bandwidth, np.finfo(float).tiny)
    slopes: Floats = -np.where(work > 0, work / total / total, 0.0) @ sums
    return slopes


class _Best(NamedTuple):
    z: Floats
    bound: float
    rounds: int
    mean: Floats  # (D + R + 1,) of the pieces, by the multipliers of the best bound


def _minimise(model: ConvexModel, form: Perspective) -> _Best | None:
    """Return the minimum of ``model`` over ``form`` by cutting planes; ``None``: no solution."""
    cone = form.cone
    z = np.where(cone.low > 0, np.sqrt(cone.low * cone.high), cone.high / 2)
    new = _first_pieces(model, form, z)
    unit = float((new @ (1 / z)).sum(axis=1).max()) or 1.0
    pieces, group = np.zeros((0, len(z))), np.zeros(0, dtype=np.int32)
    value, best, bound, rounds, polished = np.inf, z, -np.inf, 0, 0
    mean: Floats = np.zeros(len(z))
    while rounds < _ROUNDS:
        pieces = np.concatenate([pieces, new.reshape(-1, len(z)) / unit])
        group = np.resize(np.arange(new.shape[-2], dtype=np.int32), len(pieces))
        found = solve(pieces, group, cone, np.maximum(z, _LEAST * z.max()))
        if found is None:
            break
        rounds += 1
        z = np.maximum(found.z, np.finfo(float).tiny)
        proven = certify(pieces, group, cone, found.multipliers)
        here = mean_piece(pieces, group, found.multipliers)
        if proven > bound and here is not None:
            bound, mean = proven, here
        new = form.scaled(model.pieces(form.reciprocal(z)))
        now = float((new @ (1 / z)).sum()) / unit
        if now < value:
            value, best = now, z
        if now - _known_value(pieces, group, 1 / z) <= _CLOSE * now:
            # Further rounds at the optimum, where the units fit, gain the last digits.
            polished += 1
            if polished > _POLISH or value - bound <= _CLOSE * value:
                break
    return _Best(best, bound * unit, rounds, mean * unit) if rounds else None


def _first_pieces(model: ConvexModel, form: Perspective, z: Floats) -> Floats:
    """Return the model's pieces at D + R points, each with far too little of one dimension.

    Their shape is (D + R, G, n).
    """
    result = []
    for d in range(len(z) - 1):
        reciprocal = form.reciprocal(z)
        reciprocal[d] *= _FAR
        result.append(form.scaled(model.pieces(reciprocal)))
    return np.array(result)


def _known_value(pieces: Floats, group: Ints, reciprocal: Floats) -> float:
    """Return the sum over groups of the greatest known piece at 1/z = ``reciprocal``."""
    maxima = np.zeros(int(group.max()) + 1)
    np.maximum.at(maxima, group, pieces @ reciprocal)
    return float(maxima.sum())


def _feasible(bandwidth: Floats, space: LinearSpace) -> Floats:
    """Return ``bandwidth`` projected on the bounds of ``space``, and on its equalities."""
    b = np.clip(bandwidth, space.low, space.high)
    rows, ends = space.coefficients[space.equal], space.limits[space.equal]
    if len(rows):
        b = np.clip(b - np.linalg.pinv(rows) @ (rows @ b - ends), space.low, space.high)
    return b
