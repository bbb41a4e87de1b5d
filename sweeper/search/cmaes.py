"""CMA-ES (Hansen and Ostermeier, Evolutionary Computation 2001), generation by generation.

A search that has converged starts again somewhere else with twice the population (IPOP: Auger and
Hansen, CEC 2005), so that generations grow with the study, and with them what is simulated at once.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine import DimsweepError, suggestion
from sweeper.search.sampler import Task, Values
from sweeper.space.trials import Floats, Trial, Trials

if TYPE_CHECKING:
    from cmaes import CMA

_OPTIONS = ("popsize", "sigma0")
_SIGMA = 1 / 6  # of the unit cube
_SAME = 1e-6  # of a loss: the losses of a generation that has converged differ by less
_SIDE_BY_SIDE = 64  # from generations of this size on two searches take turns


class CmaEsSampler:
    """CMA-ES in the unit cube of the space, from the best of the trials that it is told first.

    A generation is asked for at once.  Large ones belong to two searches in turns: while one's is
    simulated the other's is drawn.  A failed trial counts as the worst of its generation.
    """

    learns_from_slopes = False

    def __init__(self, task: Task) -> None:
        if len(task.objective) > 1:
            raise DimsweepError(
                "CMA-ES searches for one objective", where="search.sampler", hint="tpe or nsga2"
            )
        for name in task.search.options:
            if name not in _OPTIONS:
                where, hint = f"search.options.{name}", suggestion(name, _OPTIONS)
                raise DimsweepError(f"{task.name} has no option {name!r}", where=where, hint=hint)
        self._task, self._waiting, self._asked = task, Trials.of(task.first), task.start
        self._n_searches = 0
        self._best: tuple[float, Trial] | None = None
        self._searches: deque[_Search] = deque()  # the one whose turn it is first
        self._owner: dict[int, _Search] = {}  # of trials that are not told yet

    @property
    def prefetch(self) -> int:
        return max(len(self._searches), 1)

    @property
    def batch(self) -> int:
        if len(self._waiting):
            return len(self._waiting)
        return self._next().population

    def ask(self, n: int) -> Trials:
        trials, self._waiting = self._waiting[:n], self._waiting[n:]
        if not len(trials):
            search = self._next()
            self._searches.rotate(-1)
            numbers = range(self._asked, self._asked + min(n, search.population))
            unit = search.ask(numbers)
            trials = self._task.space.from_unit(unit, self._asked, "cmaes")
            self._owner.update(dict.fromkeys(numbers, search))
        self._asked += len(trials)
        return trials

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[object]
    ) -> None:
        """Values of trials, of this search or of any other before it."""
        sign, numbers = self._task.objective[0].sign, Trials.of(trials).number.tolist()
        for i, (number, value) in enumerate(zip(numbers, values, strict=True)):
            loss = np.inf if value is None else sign * value[0]
            if loss < (np.inf if self._best is None else self._best[0]):
                self._best = loss, trials[i]
            search = self._owner.pop(number, None)
            if search is not None and search.tell(number, loss):
                self._begin(search, 2 * search.population)

    def _next(self) -> "_Search":
        """The search whose turn it is; the first begins at the best trial, if there is one."""
        if not self._searches:
            self._searches.append(_Search())
            self._begin(self._searches[0], self._task.search.options.get("popsize"))
        return self._searches[0]

    def _begin(self, search: "_Search", population: int | None) -> None:
        """Have a search begin (again), and a second one beside it when generations are large."""
        space, options, seed = self._task.space, self._task.search.options, self._task.search.seed
        centre = np.random.default_rng([seed, self._n_searches]).random(space.n_unit)
        if not self._n_searches and self._best is not None:
            centre = space.to_unit(self._best[1])
        self._n_searches += 1
        search.begin(
            centre, float(options.get("sigma0", _SIGMA)), population, seed + self._n_searches
        )
        if search.population >= _SIDE_BY_SIDE and len(self._searches) == 1:
            self._searches.append(_Search())
            self._begin(self._searches[1], search.population)


class _Search:
    """One run of CMA-ES, until it has converged."""

    _cma: "CMA"

    def __init__(self) -> None:
        self._units: dict[int, Floats] = {}  # of the generation, by trial
        self._told: list[tuple[Floats, float]] = []

    def begin(self, centre: Floats, sigma: float, population: int | None, seed: int) -> None:
        """Begin around ``centre`` (F,) in the unit cube."""
        from cmaes import CMA  # takes a moment to import

        # The library wants two coordinates and more; what a second one says is not used.
        self._n = len(centre)
        mean = np.append(centre, [0.5] * (self._n == 1))
        self._cma = CMA(
            mean,
            sigma,
            bounds=np.array([[0.0, 1.0]] * len(mean)),
            seed=seed,
            population_size=population,
        )

    @property
    def population(self) -> int:
        """The trials of a generation."""
        return self._cma.population_size

    def ask(self, numbers: range) -> Floats:
        """The coordinates (P, F) of trials with these numbers."""
        units = [self._cma.ask() for _ in numbers]
        self._units.update(zip(numbers, units, strict=True))
        return np.array(units)[:, : self._n]

    def tell(self, number: int, loss: float) -> bool:
        """A trial's loss, infinite if it failed; whether the search has converged with it."""
        self._told.append((self._units.pop(number), loss))
        if len(self._told) < self.population:
            return False
        losses = [loss for _, loss in self._told]
        best, worst = min(losses), max(losses)
        self._cma.tell(self._told)
        self._told = []
        return worst == best or worst - best < _SAME * abs(best) or self._cma.should_stop()
