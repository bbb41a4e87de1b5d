"""First-order search: each trial is where the critical paths of those before it promise most."""

from collections.abc import Sequence

import numpy as np

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.objective import follows_slopes
from dimsweep.sweeper.search.cuts import CutModel
from dimsweep.sweeper.search.sampler import Slopes, State, Task, Values, refuse_options
from dimsweep.sweeper.space.trials import Floats, Trial

_WIDEST = 1.0  # trust region: factors of e up and down around the best split
_NARROWEST = 0.02


class DescentSampler:
    """A trust region around the best split so far, in which the cuts are minimised.

    The region grows where a step keeps most of what the model promised, and shrinks where it gains
    nothing.  When the model has nothing new to promise (the search has converged, or is stuck at a
    kink) a random split of the region is taken, which adds cuts, and the region shrinks; from the
    narrowest it goes back to the widest.

    Where a collective library chooses by the bandwidths, slopes are those of the choice at their
    own split: a cut may then promise what another choice does not keep, or too little.
    """

    learns_from_slopes = True
    prefetch = 1
    batch = None

    def __init__(self, task: Task) -> None:
        refuse_options(task)
        if task.by_message:
            raise DimsweepError(
                "the descent needs critical paths, which only fidelity=phase knows",
                where="search.sampler",
            )
        space, objective = task.space, task.objective
        if space.split is None or space.parameters:
            raise DimsweepError(
                "the descent searches bandwidth splits, and nothing else",
                where="search.sampler",
                hint="space.bandwidth without space.parameters; or another sampler",
            )
        if not follows_slopes(objective):
            raise DimsweepError(
                "the descent searches for time or perf_per_cost, not "
                + ", ".join(each.name for each in objective),
                where="search.sampler",
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
        trials, self._waiting = self._waiting[:n], self._waiting[n:]
        self._known.update(trial.bandwidth for trial in trials if trial.bandwidth)
        self._asked += n
        return trials + [self.propose(i) for i in range(self._asked - n + len(trials), self._asked)]

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[Slopes]
    ) -> None:
        """Values and slopes of trials, of this search or of any other."""
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
        """Raise :class:`DimsweepError` for a row of a network with other dimensions."""
        n = self._model.n_dims
        if len(bandwidth) != n or len(slope) != n:
            raise DimsweepError(
                f"a row has {len(bandwidth)} bandwidths and {len(slope)} slopes, but this study's "
                f"network has {n} dimensions",
                hint="rows teach a search on the same network only",
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
        """The next trial, with that number."""
        split = tuple(self._next_split(number).tolist())
        self._known.add(split)
        return Trial(number, "descent", split)

    def _next_split(self, number: int) -> Floats:
        if self._best is None:
            if not self._known:
                return self._split.equal()
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

    def state(self, told: int) -> State:
        """See :class:`~sweeper.search.sampler.Resumable`."""
        return {
            "asked": told,
            "model": self._model.state(),
            "random": self._random.bit_generator.state,
            "known": sorted(self._known),
            "best": None if self._best is None else [self._best[0], self._best[1].tolist()],
            "promised": list(self._promised.items()),
            "radius": self._radius,
        }

    def restore(self, state: State) -> None:
        """See :class:`~sweeper.search.sampler.Resumable`."""
        self._asked, self._waiting = state["asked"], self._waiting[state["asked"] :]
        self._model.restore(state["model"])
        self._random.bit_generator.state = state["random"]
        self._known = set(map(tuple, state["known"]))
        best = state["best"]
        self._best = None if best is None else (best[0], np.array(best[1]))
        self._promised, self._radius = dict(state["promised"]), state["radius"]
