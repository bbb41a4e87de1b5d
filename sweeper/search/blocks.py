"""Search that learns nothing: random and quasi-random trials, drawn in blocks.

It needs none of Optuna's bookkeeping of trials, which would cost more a trial than simulating it.
These two are the same distributions as Optuna's: uniform, and scrambled Sobol.
"""

import warnings
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from dimsweep.sweeper.search.sampler import State, Task, refuse_options
from dimsweep.sweeper.space.trials import Floats, Trials


class BlindSampler:
    """Proposes as many trials as are asked for at once, whatever becomes of those before."""

    learns_from_slopes = False
    prefetch = None
    batch = None

    def __init__(self, task: Task) -> None:
        self._waiting, self._asked, self._start = Trials.of(task.first), task.start, task.start

    def state(self, told: int) -> State:
        """See :class:`~sweeper.search.sampler.Sampler`: their number says it all."""
        return {"asked": told}

    def restore(self, state: State) -> None:
        """See :class:`~sweeper.search.sampler.Sampler`."""
        drawn = state["asked"] - self._start - len(self._waiting)
        self._waiting = self._waiting[state["asked"] - self._start :]
        self._asked = state["asked"]
        if drawn > 0:
            self._skip(drawn)

    def ask(self, n: int) -> Trials:
        known, self._waiting = self._waiting[:n], self._waiting[n:]
        trials = known
        if n > len(known):
            trials = Trials.joined(known, self._drawn(n - len(known), self._asked + len(known)))
        self._asked += len(trials)
        return trials

    def tell(
        self, trials: Sequence[object], values: Sequence[object], slopes: Sequence[object]
    ) -> None:
        """Nothing to learn."""

    @abstractmethod
    def _drawn(self, n: int, first: int) -> Trials:
        """The next ``n`` trials, numbered from ``first``, or as many as there are."""

    @abstractmethod
    def _skip(self, n: int) -> None:
        """Draw ``n`` trials that were asked for before."""


class BlockSampler(BlindSampler):
    """Draws coordinates of the unit cube."""

    def __init__(self, task: Task) -> None:
        refuse_options(task)
        super().__init__(task)
        self._space, self._name = task.space, task.name

    def _drawn(self, n: int, first: int) -> Trials:
        return self._space.from_unit(self._draw(n), first, self._name)

    def _skip(self, n: int) -> None:
        self._draw(n)

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
