"""CMA-ES (Hansen and Ostermeier, Evolutionary Computation 2001), generation by generation.

A search that has converged starts again somewhere else with twice the population (IPOP: Auger and
Hansen, CEC 2005).  Longer studies have more searches side by side, so that what is simulated at
once grows with the study, and workers need not wait.
"""

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from dimsweep.engine import DimsweepError, in_yaml
from dimsweep.sweeper.search.evolution import Evolution
from dimsweep.sweeper.search.sampler import State, Task, Values, refuse_options
from dimsweep.sweeper.space.trials import Trial, Trials, plain, trial_of

_OPTIONS = ("popsize", "sigma0")
_LEAST = 2  # designs of a generation
_SIGMA = 1 / 6  # of the unit cube
_DISTINCT = 0.75  # of the designs of a generation; with fewer a search is down to the grid
_UNDER_WAY = 1 / 32  # of the trials so far: as many may be asked for before they are told
_SIDE_BY_SIDE = 8  # searches, about: more of them have larger populations instead


class CmaEsSampler:
    """CMA-ES in the unit cube of the space, from the best of the trials that it is told first.

    Generations of several searches are asked for at once, and while these are simulated those of
    other searches are drawn: as many as are a small share of the trials so far, so that a short
    study has one search.  A failed trial counts as the worst of its generation.
    """

    learns_from_slopes = False

    def __init__(self, task: Task) -> None:
        if len(task.objective) > 1:
            raise DimsweepError(
                "CMA-ES searches for one objective", where="search.sampler", hint="tpe or nsga2"
            )
        refuse_options(task, _OPTIONS)
        _check_options(task.search.options)
        self._task, self._waiting, self._asked = task, Trials.of(task.first), task.start
        self._n_searches = 0
        self._best: tuple[float, Trial] | None = None
        self._searches: deque[_Search] = deque()  # the one whose turn it is first

    @property
    def prefetch(self) -> int:
        smallest = min((each.evolution.population for each in self._searches), default=np.inf)
        return 2 if self._room >= 2 * smallest else 1

    @property
    def batch(self) -> int:
        if len(self._waiting):
            return len(self._waiting)
        return sum(search.evolution.population for search in self._turn())

    @property
    def _room(self) -> int:
        """The trials that may be under way."""
        return int((self._asked - self._task.start) * _UNDER_WAY)

    def ask(self, n: int) -> Trials:
        trials, self._waiting = self._waiting[:n], self._waiting[n:]
        if not len(trials):
            turn, first = self._turn(), self._asked
            for search in turn:
                search.first, search.units = first, search.evolution.ask()
                first += len(search.units)
                self._searches.remove(search)
                self._searches.append(search)
            units = np.concatenate([search.units for search in turn])[:n]
            trials = self._task.space.from_unit(units, self._asked, "cmaes")
            for search in turn:
                own = trials[search.first - self._asked :][: len(search.units)]
                search.is_crowded = own.n_designs < _DISTINCT * len(own)
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
        first = trials[0].number
        for search in [s for s in self._searches if first <= s.first < first + len(losses)]:
            if search.tell(losses[search.first - first :][: len(search.units)]):
                larger = 1 if search.evolution.generation == 1 else 2
                self._begin(search, larger * search.evolution.population)

    def _turn(self) -> "list[_Search]":
        """The searches whose turn it is, as many as fill half of the room, but one at least."""
        idle = (search for search in list(self._searches) if search.first < 0)
        turn, size = list[_Search](), 0
        while not turn or size < self._room / 2:
            turn.append(next(idle, None) or self._new())
            size += turn[-1].evolution.population
        return turn

    def _new(self) -> "_Search":
        """One more search."""
        search = _Search()
        self._begin(search, self._task.search.options.get("popsize"))
        self._searches.append(search)
        return search

    def _begin(self, search: "_Search", population: int | None) -> None:
        """Have a search begin (again); the first does at the best trial, if there is one."""
        space, options, seed = self._task.space, self._task.search.options, self._task.search.seed
        centre = np.random.default_rng([seed, self._n_searches]).random(space.n_unit)
        if not self._n_searches and self._best is not None:
            centre = space.to_unit(self._best[1])
        self._n_searches += 1
        sigma = float(options.get("sigma0", _SIGMA))
        least = self._room // _SIDE_BY_SIDE
        search.evolution = Evolution(centre, sigma, population, seed + self._n_searches, least)

    def state(self, told: int) -> State:
        """See :class:`~sweeper.search.sampler.Resumable`."""
        flying = sorted((s for s in self._searches if s.first >= 0), key=lambda s: s.first)
        order = flying + [search for search in self._searches if search.first < 0]
        return {
            "asked": flying[0].first if flying else max(told, self._task.start),
            "best": self._best and [self._best[0], plain(self._best[1])],
            "n_searches": self._n_searches,
            "searches": [search.evolution.state() for search in order],
        }

    def restore(self, state: State) -> None:
        """See :class:`~sweeper.search.sampler.Resumable`."""
        self._asked = state["asked"]
        self._waiting = self._waiting[self._asked - self._task.start :]
        self._best = state["best"] and (state["best"][0], trial_of(state["best"][1]))
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


def _check_options(options: Mapping[str, object]) -> None:
    """Raise :class:`DimsweepError` for a population or a first step that no search can have."""
    size, sigma = options.get("popsize", _LEAST), options.get("sigma0", _SIGMA)
    if not isinstance(size, int) or isinstance(size, bool) or size < _LEAST:
        what, where = f"{in_yaml(size)} is no size of a population", "search.options.popsize"
        raise DimsweepError(what, where=where, hint=f"a whole number, {_LEAST} or more")
    if not isinstance(sigma, (int, float)) or not 0 < sigma <= 1:
        what, where = f"{in_yaml(sigma)} is no first step", "search.options.sigma0"
        raise DimsweepError(what, where=where, hint="more than 0, up to 1, the side of the space")
