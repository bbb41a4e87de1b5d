"""One run of CMA-ES in the unit cube, a generation at a time.

The equations are those of Hansen's tutorial (arXiv:1604.00772v2): rank-one and rank-mu updates with
negative weights, and cumulative step-size adaptation.  A generation is drawn and learnt from as one
array, so that a trial costs a few microseconds.
"""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from dimsweep.sweeper.space.trials import Floats

_TRIES = 100  # to draw a point inside the cube, before it is moved to the wall
_SAME = 1e-6  # of a loss: the losses of a generation that has converged differ by less
_WORST_CONDITION = 1e14  # of the covariance
_SMALLEST = 1e-9  # step, of the unit cube


class Evolution:
    """The distribution of a search, around ``centre`` (F,) with deviation ``sigma``.

    ``population`` is Hansen's default for so many coordinates, if not given, and ``least`` or more.
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
        self._before = self._random.bit_generator.state  # without a generation that is not told yet
        self._rates = _Rates(n, self.population)

    def ask(self) -> Floats:
        """A generation (P, F); it is to be told before the next one is asked for."""
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
        """A generation and its losses (P,), infinite where a trial failed; whether the search has
        converged with it."""
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
        same = worst == best or worst - best < _SAME * abs(best)
        narrow = self._sigma * float(self._lengths.max()) < _SMALLEST
        condition = (self._lengths.max() / self._lengths.min()) ** 2
        return bool(same or narrow or condition > _WORST_CONDITION)

    def state(self) -> dict[str, Any]:
        """What :meth:`restored` needs, as plain data: before the generation that is not told."""
        return {
            "population": self.population,
            "generation": self.generation,
            "sigma": self._sigma,
            "random": self._before,
            **{name: getattr(self, f"_{name}").tolist() for name in _ARRAYS},
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """The search that a state is of."""
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
