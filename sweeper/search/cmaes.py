"""CMA-ES (Hansen and Ostermeier, Evolutionary Computation 2001), generation by generation.

A search that has converged starts again somewhere else with twice the population (IPOP: Auger and
Hansen, CEC 2005), so that generations grow with the study, and with them what is simulated at once.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from engine import DimsweepError, suggestion
from sweeper.search.evolution import Evolution
from sweeper.search.sampler import State, Task, Values
from sweeper.space.trials import Trial, Trials

_OPTIONS = ("popsize", "sigma0")
_SIGMA = 1 / 6  # of the unit cube
_DISTINCT = 0.75  # of the designs of a generation; with fewer a search is down to the grid
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

    @property
    def prefetch(self) -> int:
        return max(len(self._searches), 1)

    @property
    def batch(self) -> int:
        if len(self._waiting):
            return len(self._waiting)
        return self._next().evolution.population

    def ask(self, n: int) -> Trials:
        trials, self._waiting = self._waiting[:n], self._waiting[n:]
        if not len(trials):
            search = self._next()
            self._searches.rotate(-1)
            search.first, search.units = self._asked, search.evolution.ask()
            trials = self._task.space.from_unit(search.units[:n], self._asked, "cmaes")
            search.is_crowded = trials.n_designs < _DISTINCT * len(trials)
        self._asked += len(trials)
        return trials

    def tell(
        self, trials: Sequence[Trial], values: Sequence[Values], slopes: Sequence[object]
    ) -> None:
        """Values of trials, of this search or of any other before it."""
        sign = self._task.objective[0].sign
        losses = np.array([np.inf if value is None else sign * value[0] for value in values])
        least = int(np.argmin(losses))
        if losses[least] < (np.inf if self._best is None else self._best[0]):
            self._best = float(losses[least]), trials[least]
        for search in list(self._searches):
            if search.first == trials[0].number and search.tell(losses):
                larger = 1 if search.evolution.generation == 1 else 2
                self._begin(search, larger * search.evolution.population)

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
        sigma = float(options.get("sigma0", _SIGMA))
        search.evolution = Evolution(centre, sigma, population, seed + self._n_searches)
        if search.evolution.population >= _SIDE_BY_SIDE and len(self._searches) == 1:
            self._searches.append(_Search())
            self._begin(self._searches[1], search.evolution.population)

    def state(self, told: int) -> State | None:
        """See :class:`~sweeper.search.sampler.Sampler`."""
        if len(self._waiting) or not self._searches:
            return None
        flying = sorted((s for s in self._searches if s.first >= 0), key=lambda s: s.first)
        order = flying + [search for search in self._searches if search.first < 0]
        return {
            "asked": flying[0].first if flying else self._asked,
            "n_searches": self._n_searches,
            "searches": [search.evolution.state() for search in order],
        }

    def restore(self, state: State) -> None:
        """See :class:`~sweeper.search.sampler.Sampler`."""
        self._waiting, self._asked = self._waiting[:0], state["asked"]
        self._n_searches = state["n_searches"]
        self._searches = deque(_Search(Evolution.restored(each)) for each in state["searches"])


class _Search:
    """A run of CMA-ES, and the generation of it that is not told yet."""

    evolution: Evolution

    def __init__(self, evolution: Evolution | None = None) -> None:
        self.first, self.units = -1, np.empty((0, 0))  # the number of its first trial
        self.is_crowded = False
        if evolution is not None:
            self.evolution = evolution

    def tell(self, losses: np.ndarray) -> bool:
        """The losses of the generation; whether the search has converged with it."""
        if len(losses) < len(self.units):
            return False  # the study ends within the generation: a longer one would ask for it anew
        self.first = -1
        return self.evolution.tell(self.units, losses) or self.is_crowded
