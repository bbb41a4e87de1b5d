"""A model of the iteration time, made of the critical paths of the trials simulated so far.

A path holds T(b) = fixed + sum over d of work_d / b_d along it: the run's own time and slopes at
its own point, and a convex guess elsewhere.  The model is the highest of these guesses: a
cutting-plane (bundle) method with cuts straight in 1/b.  A cut above a time that was simulated is
lowered onto it, as bundle methods do for functions that are not convex: there the events have
another order.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dimsweep.engine import DimsweepError, Prices
from dimsweep.engine.bound import LinearSpace
from dimsweep.sweeper.space.trials import Floats

_KEPT = 60  # the cuts of the best points
_ITERATIONS = 200
_TOLERANCE = 1e-9  # of what is minimised
_LEAST = 1e-3  # of the centre's bandwidth, to keep away from zero


class CutModel:
    """A model of time; with ``prices``, of time times cost.  Bandwidths are bytes/s, times s."""

    def __init__(self, space: LinearSpace, prices: Prices | None) -> None:
        self.n_dims = space.n_dims
        n_dims, same, ends = space.n_dims, space.equal, np.eye(space.n_dims)
        bounded = np.isfinite(space.high)
        self._equal, self._level = space.coefficients[same], space.limits[same]
        self._upper = np.vstack([space.coefficients[~same], ends[bounded], -ends])
        self._limit = np.concatenate([space.limits[~same], space.high[bounded], -space.low])
        self._prices = prices or Prices((0.0,) * n_dims, fixed=1.0)
        self._points = np.empty((0, n_dims))
        self._times = np.empty(0)
        self._work = np.empty((0, n_dims))

    def add(self, bandwidth: Floats, time: float, slopes: Floats) -> None:
        """A run: its split (D,), time, and slopes (D,) of time in bandwidth."""
        points, times = np.vstack([self._points, bandwidth]), np.append(self._times, time)
        best = np.argsort(times * self._prices.cost(points), kind="stable")[:_KEPT]
        self._points, self._times = points[best], times[best]
        self._work = np.vstack([self._work, -slopes * bandwidth**2])[best]

    def state(self) -> dict[str, Any]:
        """What :meth:`restore` needs, as plain data."""
        return {
            "points": self._points.tolist(),
            "times": self._times.tolist(),
            "work": self._work.tolist(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the runs of another model; raises :class:`DimsweepError` for other dimensions."""
        if any(len(each) != self.n_dims for name in ("points", "work") for each in state[name]):
            what = f"the kept search is not of {self.n_dims} dimensions, as the study's network is"
            raise DimsweepError(what, hint="sweep under another name=")
        shape = (-1, self._points.shape[1])
        self._points, self._work = (
            np.array(state[name], dtype=float).reshape(shape) for name in ("points", "work")
        )
        self._times = np.array(state["times"], dtype=float)

    def value(self, bandwidth: Floats, time: float) -> float:
        """What is minimised, for a run of that time."""
        return time * float(self._prices.cost(bandwidth))

    def promise(self, bandwidth: Floats) -> float:
        """What is minimised, as the model has it."""
        return self.value(bandwidth, float((self._fixed() + self._work @ (1 / bandwidth)).max()))

    def minimum(self, centre: Floats, radius: float) -> Floats:
        """The split (D,) that promises least, within the rules and a factor e^radius of ``centre``
        in each dimension.

        It is a convex problem in x = b s with s = 1 / cost: (fixed + sum of work / b) / s is
        fixed / s + sum of work / x, and a linear rule on b is a linear one on x and s.
        """
        from scipy.optimize import minimize  # takes a second to import

        n, top = len(centre), self._times.max()
        if top == 0:
            return centre
        # z = (x, s, bound on the value), all of them 1 at the centre.
        fixed, work = self._fixed() / top, self._work / centre / top
        equal, upper = self._scaled_rules(centre, radius)
        cost_is_one = np.eye(len(equal))[-1]

        def room(z: Floats) -> Floats:
            return np.concatenate([z[-1] - fixed / z[n] - work @ (1 / z[:n]), -upper @ z[:-1]])

        def slope_of_room(z: Floats) -> Floats:
            cuts = np.column_stack([work / z[:n] ** 2, fixed / z[n] ** 2, np.ones(len(fixed))])
            return np.vstack([cuts, _padded(-upper)])

        found = minimize(
            lambda z: z[-1],
            np.ones(n + 2),
            jac=lambda z: np.eye(n + 2)[-1],
            bounds=[(_LEAST, None)] * (n + 1) + [(0, None)],
            constraints=[
                {"type": "ineq", "fun": room, "jac": slope_of_room},
                {
                    "type": "eq",
                    "fun": lambda z: equal @ z[:-1] - cost_is_one,
                    "jac": lambda z: _padded(equal),
                },
            ],
            method="SLSQP",
            options={"maxiter": _ITERATIONS, "ftol": _TOLERANCE},
        )
        least: Floats = found.x[:n] / found.x[n] * centre
        return least if np.isfinite(least).all() else centre

    def _fixed(self) -> Floats:
        """(C,) the part of each cut that no bandwidth shortens, lowered where runs were faster."""
        transfers = self._work @ (1 / self._points).T  # of each cut at each point
        return np.asarray(np.maximum((self._times - transfers).min(axis=1), 0.0))

    def _scaled_rules(self, centre: Floats, radius: float) -> tuple[Floats, Floats]:
        """Rules on (x, s): equal @ . is 0, but 1 in the last row, and upper @ . is at most 0."""
        n = len(centre)
        equal = _rows(self._equal * centre, self._level)
        # Of no rows the rank is 0, which NumPy has not always known.
        ranks = [0, *(np.linalg.matrix_rank(equal[: i + 1]) for i in range(len(equal)))]
        independent = equal[np.diff(ranks) > 0]
        cost = np.append(np.array(self._prices.per_bandwidth) * centre, self._prices.fixed)
        upper = [
            _rows(self._upper * centre, self._limit),
            _rows(np.eye(n), np.full(n, np.exp(radius))),
            _rows(-np.eye(n), np.full(n, -np.exp(-radius))),
        ]
        return np.vstack([independent, cost / cost.sum()]), np.vstack(upper)


def _rows(coefficients: Floats, limits: Floats) -> Floats:
    """Rules coefficients @ b <= limits as rows on (x, s), with entries up to 1."""
    rows = np.column_stack([coefficients, -limits])
    return np.asarray(rows / np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-300))


def _padded(rows: Floats) -> Floats:
    """Rows on (x, s) as rows on (x, s, bound)."""
    return np.column_stack([rows, np.zeros(len(rows))])
