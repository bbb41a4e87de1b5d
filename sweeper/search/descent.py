"""First-order search: each trial minimises a model built from earlier critical paths.

Along a critical path, T(b) = fixed + sum over d of work_d / b_d.  This equals the run's time and
slopes at its own point, and is a convex estimate elsewhere.  The model is the largest of these
estimates: a cutting-plane (bundle) method with cuts linear in 1/b.  A cut above a simulated time is
lowered onto it, as bundle methods do for functions that are not convex: the events have another
order there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dimsweep.engine import DimsweepError, Prices
from dimsweep.engine.bound import LinearSpace
from dimsweep.sweeper.objective import follows_slopes
from dimsweep.sweeper.search.sampler import Slopes, State, Task, Values, refuse_options
from dimsweep.sweeper.space.trials import Floats, Trial

_MAX_CUTS = 60  # the cuts of the best points
_ITERATIONS = 200
_TOLERANCE = 1e-9  # of the minimised figure
_MIN_SHARE = 1e-3  # of the centre's bandwidth, to keep away from zero


class CutModel:
    """A model of the time, or with ``prices``, of time times cost, built from earlier runs.

    Bandwidths are in bytes/s, times in s.
    """

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
        """Add a run: its split (D,), time, and slopes (D,) of time in bandwidth."""
        points, times = np.vstack([self._points, bandwidth]), np.append(self._times, time)
        best = np.argsort(times * self._prices.cost(points), kind="stable")[:_MAX_CUTS]
        self._points, self._times = points[best], times[best]
        self._work = np.vstack([self._work, -slopes * bandwidth**2])[best]

    def state(self) -> dict[str, Any]:
        """Return plain data for :meth:`restore`: the runs added so far."""
        return {
            "points": self._points.tolist(),
            "times": self._times.tolist(),
            "work": self._work.tolist(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Add the runs in the data of :meth:`state`.

        Raises :class:`DimsweepError` for other dimensions.
        """
        if any(len(each) != self.n_dims for name in ("points", "work") for each in state[name]):
            problem = f"the stored search does not have the {self.n_dims} dimensions of the network"
            raise DimsweepError(problem, hint="sweep with another name=", code="mismatch")
        shape = (-1, self._points.shape[1])
        self._points, self._work = (
            np.array(state[name], dtype=float).reshape(shape) for name in ("points", "work")
        )
        self._times = np.array(state["times"], dtype=float)

    def value(self, bandwidth: Floats, time: float) -> float:
        """Return the figure that a run is judged by: its time, or time times cost."""
        return time * float(self._prices.cost(bandwidth))

    def promise(self, bandwidth: Floats) -> float:
        """Return the time, or time times cost, that the model predicts for a split."""
        return self.value(bandwidth, float((self._fixed() + self._work @ (1 / bandwidth)).max()))

    def minimum(self, centre: Floats, radius: float) -> Floats:
        """Return the split (D,) that minimises the model in a trust region.

        It obeys the rules, and is within a factor e^radius of ``centre`` in each dimension. The
        problem is convex in x = b s with s = 1 / cost: (fixed + sum of work / b) / s is fixed / s +
        sum of work / x, and a linear rule on b is a linear one on x and s.
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
            return np.vstack([cuts, _pad(-upper)])

        found = minimize(
            lambda z: z[-1],
            np.ones(n + 2),
            jac=lambda z: np.eye(n + 2)[-1],
            bounds=[(_MIN_SHARE, None)] * (n + 1) + [(0, None)],
            constraints=[
                {"type": "ineq", "fun": room, "jac": slope_of_room},
                {
                    "type": "eq",
                    "fun": lambda z: equal @ z[:-1] - cost_is_one,
                    "jac": lambda z: _pad(equal),
                },
            ],
            method="SLSQP",
            options={"maxiter": _ITERATIONS, "ftol": _TOLERANCE},
        )
        least: Floats = found.x[:n] / found.x[n] * centre
        return least if np.isfinite(least).all() else centre

    def _fixed(self) -> Floats:
        """Return the constant part (C,) of each cut, lowered where a run was faster."""
        transfers = self._work @ (1 / self._points).T  # of each cut at each point
        return np.asarray(np.maximum((self._times - transfers).min(axis=1), 0.0))

    def _scaled_rules(self, centre: Floats, radius: float) -> tuple[Floats, Floats]:
        """Return rules on (x, s): equal @ . is 0 (1 in the last row); upper @ . is at most 0."""
        n = len(centre)
        equal = _scale_rows(self._equal * centre, self._level)
        # The rank of no rows is 0; older versions of NumPy fail there.
        ranks = [0, *(np.linalg.matrix_rank(equal[: i + 1]) for i in range(len(equal)))]
        independent = equal[np.diff(ranks) > 0]
        cost = np.append(np.array(self._prices.per_bandwidth) * centre, self._prices.fixed)
        upper = [
            _scale_rows(self._upper * centre, self._limit),
            _scale_rows(np.eye(n), np.full(n, np.exp(radius))),
            _scale_rows(-np.eye(n), np.full(n, -np.exp(-radius))),
        ]
        return np.vstack([independent, cost / cost.sum()]), np.vstack(upper)


def _scale_rows(coefficients: Floats, limits: Floats) -> Floats:
    """Return rules coefficients @ b <= limits as rows on (x, s), with entries up to 1."""
    rows = np.column_stack([coefficients, -limits])
    return np.asarray(rows / np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-300))


def _pad(rows: Floats) -> Floats:
    """Return rows on (x, s) as rows on (x, s, bound), with a coefficient of 0 for the bound."""
    return np.column_stack([rows, np.zeros(len(rows))])


_WIDEST = 1.0  # trust region: factors of e up and down around the best split
_NARROWEST = 0.02


class DescentSampler:
    """A sampler that minimises the model in a trust region around the best split so far.

    The region grows after a step that gains more than half of the predicted gain, and shrinks after
    one that gains nothing. If the model predicts no gain (the search has converged, or is stuck at
    a kink), a random split of the region adds cuts, and the region shrinks; after the narrowest one
    it becomes the widest again.

    If a collective library chooses by the bandwidths, slopes belong to its choice at one split: a
    cut may then predict more, or less, than another choice achieves.
    """

    learns_from_slopes = True
    prefetch = 1
    batch = None

    def __init__(self, task: Task) -> None:
        refuse_options(task)
        if task.by_message:
            raise DimsweepError(
                "the descent needs critical paths, which only fidelity=phase has",
                where="search.sampler",
                code="unsupported",
            )
        space, objective = task.space, task.objective
        if space.split is None or space.parameters:
            raise DimsweepError(
                "the descent searches bandwidth splits only",
                where="search.sampler",
                hint="give space.bandwidth without space.parameters, or choose another sampler",
                code="unsupported",
            )
        if not follows_slopes(objective):
            raise DimsweepError(
                "the descent searches for time or perf_per_cost, not "
                + ", ".join(each.name for each in objective),
                where="search.sampler",
                code="unsupported",
            )
        self._split = space.split
        self._waiting = list(task.first)
        self._prices = task.prices if objective[0].needs_prices else None
        self._model = CutModel(space.split.linear(), self._prices)
        self._random = np.random.default_rng(task.search.seed)
        self._known: set[tuple[float, ...]] = set()
        self._asked = 0
        self._best: tuple[float, Floats] | None = None
        self._promised: dict[int, float] = {}  # by trial
        self._radius = _WIDEST

    def ask(self, n: int) -> list[Trial]:
        """Return the next ``n`` trials."""
        trials, self._waiting = self._waiting[:n], self._waiting[n:]
        self._known.update(trial.bandwidth for trial in trials if trial.bandwidth)
        self._asked += n
        return trials + [self.propose(i) for i in range(self._asked - n + len(trials), self._asked)]

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        """Learn from trials, which this search or any other proposed."""
        for trial, value, slope in zip(trials, values, slopes, strict=True):
            promised = self._promised.pop(trial.number, None)
            if value is None or slope is None or trial.bandwidth is None:
                continue
            self._check_dimensions(trial.bandwidth, slope)
            self._known.add(trial.bandwidth)
            bandwidth = np.array(trial.bandwidth)
            time = self._time(bandwidth, value[0])
            self._model.add(bandwidth, time, np.array(slope))
            self._learn(bandwidth, self._model.value(bandwidth, time), promised)

    def _check_dimensions(self, bandwidth: Sequence[float], slope: Sequence[float]) -> None:
        """Raise :class:`DimsweepError` for a result with another number of dimensions."""
        n = self._model.n_dims
        if len(bandwidth) != n or len(slope) != n:
            raise DimsweepError(
                f"a row has {len(bandwidth)} bandwidths and {len(slope)} slopes, but this study's "
                f"network has {n} dimensions",
                hint="a search learns from rows of the same network only",
                code="mismatch",
            )

    def _time(self, bandwidth: Floats, value: float) -> float:
        if self._prices is None:
            return value
        return 1 / (value * float(self._prices.cost(bandwidth)))

    def _learn(self, bandwidth: Floats, value: float, promised: float | None) -> None:
        before = np.inf if self._best is None else self._best[0]
        if value < before:
            self._best = value, bandwidth
        if promised is None:
            return
        if value >= before:
            self._radius *= 0.6
        elif before - value > 0.5 * (before - promised):
            self._radius = min(2 * self._radius, _WIDEST)

    def propose(self, number: int) -> Trial:
        """Return the next trial, under ``number``."""
        split = tuple(self._next_split(number).tolist())
        self._known.add(split)
        return Trial(number, "descent", split)

    def _next_split(self, number: int) -> Floats:
        if self._best is None:
            if not self._known:
                return self._split.equal_split()
            return self._split.decode(self._random.random((1, self._split.n_free)))[0]
        value, centre = self._best
        if self._radius < _NARROWEST:
            self._radius = _WIDEST
        split = self._split.nearest(self._model.minimum(centre, self._radius))
        promised = self._model.promise(split)
        if tuple(split.tolist()) not in self._known and promised < value:
            self._promised[number] = promised
            return split
        factors = np.exp(self._random.uniform(-self._radius, self._radius, len(centre)))
        self._radius *= 0.5
        return self._split.nearest(centre * factors)

    def state(self, n_known: int) -> State:
        """Return plain data for :meth:`restore`."""
        return {
            "asked": n_known,
            "model": self._model.state(),
            "random": self._random.bit_generator.state,
            "known": sorted(self._known),
            "best": None if self._best is None else [self._best[0], self._best[1].tolist()],
            "promised": list(self._promised.items()),
            "radius": self._radius,
        }

    def restore(self, state: State) -> None:
        """Restore the state of a new sampler."""
        self._asked, self._waiting = state["asked"], self._waiting[state["asked"] :]
        self._model.restore(state["model"])
        self._random.bit_generator.state = state["random"]
        self._known = set(map(tuple, state["known"]))
        best = state["best"]
        self._best = None if best is None else (best[0], np.array(best[1]))
        self._promised, self._radius = dict(state["promised"]), state["radius"]
