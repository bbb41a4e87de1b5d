"""Samplers that do not learn from results: random, quasi-random and grid.

They avoid Optuna's bookkeeping, which takes longer for a trial than its simulation.  Their
distributions are Optuna's: uniform, and scrambled Sobol.  The grid proposes every point of a space.
"""

import itertools
import warnings
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.search.sampler import State, Task, refuse_options
from dimsweep.sweeper.space.trials import Floats, Setting, Trials


class BlindSampler:
    """Base class of samplers whose proposals do not depend on results."""

    learns_from_slopes = False
    prefetch = None
    batch = None

    def __init__(self, task: Task) -> None:
        self._waiting, self._asked, self._start = (
            Trials.from_list(task.first),
            task.start,
            task.start,
        )

    def state(self, n_known: int) -> State:
        """Return the sampler's state, which is just the number of trials with results."""
        return {"asked": n_known}

    def restore(self, state: State) -> None:
        """Restore the state of a new sampler."""
        drawn = state["asked"] - self._start - len(self._waiting)
        self._waiting = self._waiting[state["asked"] - self._start :]
        self._asked = state["asked"]
        if drawn > 0:
            self._skip(drawn)

    def ask(self, n: int) -> Trials:
        """Return the next ``n`` trials, or all remaining ones."""
        known, self._waiting = self._waiting[:n], self._waiting[n:]
        trials = known
        if n > len(known):
            trials = Trials.concatenate(
                known, self._draw_trials(n - len(known), self._asked + len(known))
            )
        self._asked += len(trials)
        return trials

    def tell(
        self, trials: Sequence[object], values: Sequence[object], slopes: Sequence[object]
    ) -> None:
        """Ignore the results."""

    @abstractmethod
    def _draw_trials(self, n: int, first: int) -> Trials:
        """Return the next ``n`` trials, numbered from ``first``, or all remaining ones."""

    @abstractmethod
    def _skip(self, n: int) -> None:
        """Skip ``n`` trials that an earlier run of the study has taken."""


class BlockSampler(BlindSampler):
    """Base class of samplers that draw the coordinates of many trials at once."""

    def __init__(self, task: Task) -> None:
        refuse_options(task)
        super().__init__(task)
        self._space, self._name = task.space, task.name

    def _draw_trials(self, n: int, first: int) -> Trials:
        return self._space.from_unit(self._draw(n), first, self._name)

    def _skip(self, n: int) -> None:
        self._draw(n)

    @abstractmethod
    def _draw(self, n: int) -> Floats:
        """Return the coordinates of ``n`` trials (n, space.n_unit), each in [0, 1]."""


class RandomSampler(BlockSampler):
    """A sampler of uniformly random trials."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._random = np.random.default_rng(task.search.seed)

    def _draw(self, n: int) -> Floats:
        return self._random.random((n, self._space.n_unit))


class QmcSampler(BlockSampler):
    """A sampler of trials of a scrambled Sobol sequence."""

    def __init__(self, task: Task) -> None:
        from scipy.stats import qmc  # takes a second to import

        super().__init__(task)
        self._sobol = qmc.Sobol(task.space.n_unit, scramble=True, rng=task.search.seed)

    def _draw(self, n: int) -> Floats:
        with warnings.catch_warnings():
            # Sobol warns unless n is a power of two, but users choose the size of a study.
            warnings.simplefilter("ignore", UserWarning)
            unit: Floats = self._sobol.random(n)
        return unit


_Point = tuple[Setting, Floats]  # values of keys, and splits (P, D) for them


class GridSampler(BlindSampler):
    """A sampler that proposes all combinations of the searched keys' values, each with every split.

    The last key's values vary fastest; splits are on the grid of their step, in ascending order of
    the bandwidths. Points are computed on demand, so a grid of any size starts at once. If nothing
    is searched, the grid consists of the first trials.
    """

    def __init__(self, task: Task) -> None:
        if task.space.n_unit:
            refuse_options(task)
        super().__init__(task)
        self._points = _walk_points(task) if task.space.n_unit else iter(())

    def _draw_trials(self, n: int, first: int) -> Trials:
        settings, splits = list[Setting](), [np.empty((0, 0))]
        for setting, split in self._take_points(n):
            splits.append(split)
            settings += [setting] * len(split)
        split = np.concatenate(splits[1:] or splits)
        bandwidth = split if split.shape[1] else None
        numbers = np.arange(first, first + len(split))
        return Trials.build(numbers, "grid", bandwidth, settings if any(settings) else ())

    def _take_points(self, n: int) -> Iterator[_Point]:
        """Yield the next ``n`` points of the grid, or all remaining ones."""
        while n and (point := next(self._points, None)) is not None:
            setting, split = point
            now, later = split[:n], split[n:]
            if len(later):
                self._points = itertools.chain([(setting, later)], self._points)
            n -= len(now)
            yield setting, now

    def _skip(self, n: int) -> None:
        deque(self._take_points(n), maxlen=0)


def grid_size(task: Task, limit: int) -> int:
    """Return the number of trials of a grid, or ``limit`` if there are more."""
    n = len(task.first)
    for _, split in _walk_points(task):
        if n >= limit:
            break
        n += len(split)
    return min(n, limit)


def _walk_points(task: Task) -> Iterator[_Point]:
    """Yield each combination of keys' values with splits (P, D).

    D is 0 if splits are not searched.
    """
    keys = task.space.parameters
    values = []
    for name, parameter in keys.items():
        found = parameter.all_values()
        if found is None:
            raise DimsweepError(
                "a grid needs a step for each range, and no logarithm",
                where=f"space.parameters.{name}",
                hint="give a step, or values",
                code="missing",
            )
        values.append(found)
    for combination in itertools.product(*values):
        setting = Setting(dict(zip(keys, combination, strict=True)))
        if task.space.split is None:
            yield setting, np.empty((1, 0))
        else:
            yield from ((setting, split) for split in task.space.split.iterate_splits())
