"""Random and quasi-random search, drawn in blocks.

These two do not learn, so they need none of Optuna's bookkeeping of trials, which would cost more
a trial than simulating it.  They are the same distributions: uniform, and scrambled Sobol.
"""

import warnings
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from engine import DimsweepError
from sweeper.search.sampler import State, Task
from sweeper.space.trials import Floats, Trials


class BlockSampler:
    """Draws coordinates of the unit cube, as many as are asked for at once."""

    learns_from_slopes = False
    prefetch = None
    batch = None

    def __init__(self, task: Task) -> None:
        if task.search.options:
            raise DimsweepError(
                f"{task.name} takes no options", where="search.options", hint="leave them out"
            )
        self._space, self._waiting, self._asked = task.space, Trials.of(task.first), task.start
        self._name, self._start = task.name, task.start

    def state(self, told: int) -> State:
        """See :class:`~sweeper.search.sampler.Sampler`: their number says it all."""
        return {"asked": told}

    def restore(self, state: State) -> None:
        """See :class:`~sweeper.search.sampler.Sampler`."""
        drawn = state["asked"] - self._start - len(self._waiting)
        self._waiting = self._waiting[state["asked"] - self._start :]
        if drawn > 0:
            self._draw(drawn)
        self._asked = state["asked"]

    def ask(self, n: int) -> Trials:
        known, self._waiting = self._waiting[:n], self._waiting[n:]
        n -= len(known)
        self._asked += len(known)
        drawn = self._space.from_unit(self._draw(n), self._asked, self._name)
        self._asked += n
        return Trials.joined(known, drawn)

    def tell(
        self, trials: Sequence[object], values: Sequence[object], slopes: Sequence[object]
    ) -> None:
        """Nothing to learn."""

    @abstractmethod
    def _draw(self, n: int) -> Floats:
        """(n, space.n_unit) coordinates in [0, 1]."""


class RandomSampler(BlockSampler):
    """Uniformly random trials."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._random = np.random.default_rng(task.search.seed)

    def _draw(self, n: int) -> Floats:
        return self._random.random((n, self._space.n_unit))


class QmcSampler(BlockSampler):
    """Trials of a scrambled Sobol sequence."""

    def __init__(self, task: Task) -> None:
        from scipy.stats import qmc  # takes a second to import

        super().__init__(task)
        self._sobol = qmc.Sobol(task.space.n_unit, scramble=True, rng=task.search.seed)

    def _draw(self, n: int) -> Floats:
        with warnings.catch_warnings():
            # Sobol warns unless n is a power of two; a study's size is the user's choice.
            warnings.simplefilter("ignore", UserWarning)
            unit: Floats = self._sobol.random(n)
        return unit
