"""Random and quasi-random search, drawn in blocks.

These two do not learn, so they need none of Optuna's bookkeeping of trials, which would cost more
a trial than simulating it.  They are the same distributions: uniform, and scrambled Sobol.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine import DimsweepError
from sweeper.space.space import Floats, Space, Trial


class BlockSampler:
    """Search by ``sampler: random`` or ``qmc``."""

    prefetch = 2

    def __init__(self, config: Mapping[str, Any], space: Space, first: list[Trial]) -> None:
        if config["options"]:
            raise DimsweepError(f"{config['sampler']} takes no options", where="search.options")
        self._space, self._first, self._asked = space, first, 0
        self._sampler = config["sampler"]
        if self._sampler == "random":
            self._random = np.random.default_rng(config["seed"])
        else:
            from scipy.stats import qmc  # takes a second to import

            self._sobol = qmc.Sobol(space.n_unit, scramble=True, rng=config["seed"])

    def ask(self, n: int) -> list[Trial]:
        trials = self._first[self._asked : self._asked + n]
        n -= len(trials)
        self._asked += len(trials)
        if n:
            trials += self._space.from_unit(self._draw(n), self._asked, self._sampler)
            self._asked += n
        return trials

    def tell(
        self, trials: Sequence[Trial], values: Sequence[object], slopes: Sequence[object]
    ) -> None:
        """Nothing to learn."""

    def _draw(self, n: int) -> Floats:
        if self._sampler == "random":
            return self._random.random((n, self._space.n_unit))
        with warnings.catch_warnings():
            # Sobol warns unless n is a power of two; a study's size is the user's choice.
            warnings.simplefilter("ignore", UserWarning)
            unit: Floats = self._sobol.random(n)
        return unit
