"""CMA-ES (Hansen and Ostermeier, Evolutionary Computation 2001), generation by generation.

A search that has converged starts again elsewhere with twice the population (IPOP: Auger and
Hansen, CEC 2005).  Longer studies run more searches concurrently, so that more trials are simulated
at once, and workers need not wait.

The equations are those of Hansen's tutorial (arXiv:1604.00772v2): rank-one and rank-mu updates with
negative weights, and cumulative step-size adaptation.  A generation is one array, so that a trial
costs a few microseconds.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from dimsweep.engine import DimsweepError, format_yaml
from dimsweep.sweeper.search.sampler import State, Task, Values, refuse_options
from dimsweep.sweeper.space.trials import Floats, Trial, Trials, trial_from_plain, trial_to_plain

_TRIES = 100  # attempts to draw a point inside the cube, before it is moved to the wall
_MIN_SPREAD = 1e-6  # of a loss; a generation whose losses differ by less has converged
_WORST_CONDITION = 1e14  # of the covariance
_MIN_STEP = 1e-9  # step, of the unit cube


class Evolution:
    """The normal distribution of a CMA-ES search: ``centre`` (F,) and step size ``sigma``.

    ``population`` defaults to Hansen's for F coordinates, and is at least ``least``.
    """

    def __init__(
        self, centre: Floats, sigma: float, population: int | None, seed: int, least: int = 2
    ) -> None:
        n = len(centre)
        self.population = max(population or 4 + int(3 * math.log(n)), least, 2)
        self._mean, self._sigma, self.generation = np.array(centre, dtype=float), sigma, 0
        self._covariance, self._axes, self._lengths = np.eye(n), np.eye(n), np.ones(n)
        self._path, self._step_path = np.zeros(n), np.zeros(n)
        self._random = np.random.default_rng(seed)
        self._before = self._random.bit_generator.state  # before a generation without results
        self._rates = _Rates(n, self.population)

    def ask(self) -> Floats:
        """Return a generation of points (P, F); :meth:`tell` must follow before the next one."""
        self._before = self._random.bit_generator.state
        units = self._drawn(self.population)
        for _ in range(_TRIES):
            outside = ((units < 0) | (units > 1)).any(axis=1)
            if not outside.any():
                break
            units[outside] = self._drawn(int(outside.sum()))
        return np.clip(units, 0.0, 1.0)

    def _drawn(self, n: int) -> Floats:
        steps = self._random.standard_normal((n, len(self._mean))) * self._lengths
        return np.asarray(self._mean + self._sigma * (steps @ self._axes.T))

    def tell(self, units: Floats, losses: Floats) -> bool:
        """Learn from a generation of points and their losses (P,).

        Return whether the search has converged. The loss of a failed trial is infinite.
        """
        rates, n = self._rates, len(self._mean)
        order = np.argsort(losses, kind="stable")
        steps = (units[order] - self._mean) / self._sigma
        root = self._axes / self._lengths @ self._axes.T  # C^(-1/2)
        best = rates.weights[: rates.parents] @ steps[: rates.parents]
        self._mean = self._mean + self._sigma * best
        self.generation += 1

        c = rates.step
        self._step_path = (1 - c) * self._step_path + rates.step_norm * (root @ best)
        length = float(np.linalg.norm(self._step_path))
        grown = length / math.sqrt(1 - (1 - c) ** (2 * self.generation))
        stalls = float(grown >= (1.4 + 2 / (n + 1)) * rates.expected)
        self._path = (1 - rates.path) * self._path + (1 - stalls) * rates.path_norm * best

        weights = rates.weights.copy()
        lost = weights < 0
        weights[lost] *= n / np.maximum(((steps[lost] @ root) ** 2).sum(axis=1), 1e-8)
        kept = stalls * rates.path * (2 - rates.path)
        self._covariance = (
            (1 + rates.one * (kept - 1) - rates.mu * rates.weights.sum()) * self._covariance
            + rates.one * np.outer(self._path, self._path)
            + rates.mu * (steps.T * weights) @ steps
        )
        self._sigma *= math.exp(min(1.0, c / rates.damping * (length / rates.expected - 1)))
        self._decompose()
        self._before = self._random.bit_generator.state
        return self._has_converged(losses[order])

    def _decompose(self) -> None:
        self._covariance = (self._covariance + self._covariance.T) / 2
        squares, self._axes = np.linalg.eigh(self._covariance)
        self._lengths = np.sqrt(np.maximum(squares, 1e-20))

    def _has_converged(self, losses: Floats) -> bool:
        best, worst = float(losses[0]), float(losses[-1])
        same = worst == best or worst - best < _MIN_SPREAD * abs(best)
        narrow = self._sigma * float(self._lengths.max()) < _MIN_STEP
        condition = (self._lengths.max() / self._lengths.min()) ** 2
        return bool(same or narrow or condition > _WORST_CONDITION)

    def state(self) -> dict[str, Any]:
        """Return plain data for :meth:`from_state`.

        A generation without results is not included.
        """
        return {
            "population": self.population,
            "generation": self.generation,
            "sigma": self._sigma,
            "random": self._before,
            **{name: getattr(self, f"_{name}").tolist() for name in _ARRAYS},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the search restored from the data of :meth:`state`."""
        found = cls(np.array(state["mean"]), state["sigma"], state["population"], 0)
        for name in _ARRAYS:
            setattr(found, f"_{name}", np.array(state[name]))
        found.generation = state["generation"]
        found._random.bit_generator.state = found._before = state["random"]
        return found


_ARRAYS = ("mean", "covariance", "axes", "lengths", "path", "step_path")


class _Rates:
    """The learning rates of ``n`` coordinates and a population (tutorial, table 1)."""

    def __init__(self, n: int, population: int) -> None:
        raw = math.log((population + 1) / 2) - np.log(np.arange(1, population + 1))
        self.parents = population // 2
        first, last = raw[: self.parents], raw[self.parents :]
        mass = first.sum() ** 2 / (first**2).sum()
        lost = last.sum() ** 2 / max((last**2).sum(), 1e-300)
        self.one = 2 / ((n + 1.3) ** 2 + mass)
        self.mu = min(1 - self.one, 2 * (mass - 2 + 1 / mass + 0.25) / ((n + 2) ** 2 + mass))
        most = min(
            1 + self.one / self.mu,
            1 + 2 * lost / (mass + 2),
            (1 - self.one - self.mu) / (n * self.mu),
        )
        gain, loss = raw[raw > 0].sum(), max(-raw[raw < 0].sum(), 1e-300)
        self.weights = np.where(raw >= 0, raw / gain, most * raw / loss)
        self.step = (mass + 2) / (n + mass + 5)
        self.damping = 1 + 2 * max(0, math.sqrt((mass - 1) / (n + 1)) - 1) + self.step
        self.path = (4 + mass / n) / (n + 4 + 2 * mass / n)
        self.step_norm = math.sqrt(self.step * (2 - self.step) * mass)
        self.path_norm = math.sqrt(self.path * (2 - self.path) * mass)
        self.expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))


_OPTIONS = ("popsize", "sigma0")
_MIN_POPULATION = 2  # designs of a generation
_SIGMA = 1 / 6  # of the unit cube
_DISTINCT = 0.75  # share of distinct designs in a generation; with fewer a search has ended
_IN_FLIGHT = 1 / 32  # of the trials so far: maximum number of trials in flight
_CONCURRENT = 8  # approximate number of searches; larger studies have larger populations


class CmaEsSampler:
    """A sampler that runs CMA-ES in the unit cube of the space, from the best of the first trials.

    A batch has generations of several searches. While it is simulated, generations of other
    searches are drawn, up to a small share of the trials so far, so that a short study has one
    search. A failed trial counts as the worst of its generation.
    """

    learns_from_slopes = False

    def __init__(self, task: Task) -> None:
        if len(task.objective) > 1:
            problem, hint = "CMA-ES searches for one objective", "choose tpe or nsga2"
            raise DimsweepError(problem, where="search.sampler", hint=hint, code="unsupported")
        refuse_options(task, _OPTIONS)
        _check_options(task.search.options)
        self._task, self._waiting, self._asked = task, Trials.from_list(task.first), task.start
        self._n_searches = 0
        self._best: tuple[float, Trial] | None = None
        self._searches: deque[_Search] = deque()  # the next one is the first

    @property
    def prefetch(self) -> int:
        """Number of batches in flight: 2 if trials of two generations may be in flight, else 1."""
        smallest = min((each.evolution.population for each in self._searches), default=np.inf)
        return 2 if self._room >= 2 * smallest else 1

    @property
    def batch(self) -> int:
        """Number of trials to ask for next: whole generations."""
        if len(self._waiting):
            return len(self._waiting)
        return sum(search.evolution.population for search in self._turn())

    @property
    def _room(self) -> int:
        """Maximum number of trials in flight at once."""
        return int((self._asked - self._task.start) * _IN_FLIGHT)

    def ask(self, n: int) -> Trials:
        """Return the next ``n`` trials: the first trials, or generations of the next searches."""
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
        """Learn from trials, which this search or an earlier one proposed."""
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
        """Return the next searches to ask, at least one, enough for half of :attr:`_room`."""
        idle = (search for search in list(self._searches) if search.first < 0)
        turn, size = list[_Search](), 0
        while not turn or size < self._room / 2:
            turn.append(next(idle, None) or self._new())
            size += turn[-1].evolution.population
        return turn

    def _new(self) -> "_Search":
        search = _Search()
        self._begin(search, self._task.search.options.get("popsize"))
        self._searches.append(search)
        return search

    def _begin(self, search: "_Search", population: int | None) -> None:
        """Start a search with a population.

        The first one starts at the best trial, if there is one.
        """
        space, options, seed = self._task.space, self._task.search.options, self._task.search.seed
        centre = np.random.default_rng([seed, self._n_searches]).random(space.n_unit)
        if not self._n_searches and self._best is not None:
            centre = space.to_unit(self._best[1])
        self._n_searches += 1
        sigma = float(options.get("sigma0", _SIGMA))
        least = self._room // _CONCURRENT
        search.evolution = Evolution(centre, sigma, population, seed + self._n_searches, least)

    def state(self, n_known: int) -> State:
        """Return plain data for :meth:`restore`; generations in flight are drawn again."""
        flying = sorted((s for s in self._searches if s.first >= 0), key=lambda s: s.first)
        order = flying + [search for search in self._searches if search.first < 0]
        return {
            "asked": flying[0].first if flying else max(n_known, self._task.start),
            "best": self._best and [self._best[0], trial_to_plain(self._best[1])],
            "n_searches": self._n_searches,
            "searches": [search.evolution.state() for search in order],
        }

    def restore(self, state: State) -> None:
        """Restore the state of a new sampler."""
        self._asked = state["asked"]
        self._waiting = self._waiting[self._asked - self._task.start :]
        self._best = state["best"] and (state["best"][0], trial_from_plain(state["best"][1]))
        self._n_searches = state["n_searches"]
        self._searches = deque(_Search(Evolution.from_state(each)) for each in state["searches"])


class _Search:
    """A run of CMA-ES, with its generation in flight."""

    evolution: Evolution

    def __init__(self, evolution: Evolution | None = None) -> None:
        self.first, self.units = -1, np.empty((0, 0))  # the number of its first trial
        self.is_crowded = False
        if evolution is not None:
            self.evolution = evolution

    def tell(self, losses: np.ndarray) -> bool:
        """Learn the losses of the generation; return whether the search has converged."""
        if len(losses) < len(self.units):
            return False  # the study ends within the generation; a longer one draws it again
        self.first = -1
        return self.evolution.tell(self.units, losses) or self.is_crowded


def _check_options(options: Mapping[str, object]) -> None:
    """Raise :class:`DimsweepError` for an invalid population or first step."""
    size, sigma = options.get("popsize", _MIN_POPULATION), options.get("sigma0", _SIGMA)
    if not isinstance(size, int) or isinstance(size, bool) or size < _MIN_POPULATION:
        problem = f"{format_yaml(size)}; it must be a whole number, {_MIN_POPULATION} or more"
        raise DimsweepError(problem, where="search.options.popsize", code="out-of-range")
    if not isinstance(sigma, (int, float)) or not 0 < sigma <= 1:
        problem = f"{format_yaml(sigma)}; it must be more than 0, and 1 (the whole space) or less"
        raise DimsweepError(problem, where="search.options.sigma0", code="out-of-range")
