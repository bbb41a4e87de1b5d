"""The posterior of a few parameters, from measurements that a linearised simulator explains.

The logarithm of a measured time is that of the simulated one, plus an error of Student's t with few
degrees of freedom, so that a measurement that nothing explains counts little (Lange, Little and
Taylor, "Robust statistical modeling using the t distribution", 1989).  The parameters' logarithms
are normal beforehand, and near the most likely ones the simulated logarithm is linear in them: the
posterior is then normal (Laplace's approximation), its mode found by Gauss-Newton steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import lsq_linear
from scipy.stats import t as student

Floats = npt.NDArray[np.float64]

DEGREES = 4.0  # of freedom of an error
STEP = 0.05  # of a logarithm, over which a slope is taken
_ROUNDS = 4  # of Gauss-Newton
_WEIGHINGS = 30  # of errors, by turns with the parameters
_DOUBT = 4.0  # measurements' worth of what is known of the size of errors beforehand


@dataclass(frozen=True)
class Linear:
    """What simulations say near ``at``: (N,) logarithms and (N, P) slopes; and (N,) measured
    logarithms, with the deviations of their errors beforehand."""

    at: Floats
    values: Floats
    slopes: Floats
    measured: Floats
    deviations: Floats

    def without(self, left: int) -> "Linear":
        keep = np.arange(len(self.measured)) != left
        return Linear(
            self.at,
            self.values[keep],
            self.slopes[keep],
            self.measured[keep],
            self.deviations[keep],
        )

    def said(self, mean: Floats) -> Floats:
        """(N,) simulated logarithms at other parameters."""
        return np.asarray(self.values + self.slopes @ (mean - self.at))


@dataclass(frozen=True)
class Posterior:
    """(P,) ``mean`` and (P, P) ``covariance`` of the parameters' logarithms, and by what factor
    errors are larger or smaller than was thought, with ``degrees`` of freedom."""

    mean: Floats
    covariance: Floats
    scale: float
    degrees: float

    def deviation(self, slopes: Floats, error: float) -> float:
        """Of a time's error, with (P,) slopes and the deviation of an error of its kind."""
        return float(np.sqrt(slopes @ self.covariance @ slopes + (self.scale * error) ** 2))

    def ends(self, slopes: Floats, error: float, share: float) -> tuple[float, float]:
        """The interval of ours over theirs, as logarithms, that holds ``share`` of errors."""
        half = student.ppf((1 + share) / 2, self.degrees) * self.deviation(slopes, error)
        return -float(half), float(half)


def solve(linear: Linear, widths: Floats, most: Floats) -> Posterior:
    """The posterior with a prior of these ``widths`` around 0, parameters at ``most`` so large."""
    n, degrees = len(linear.measured), DEGREES
    aims = linear.measured - linear.values + linear.slopes @ linear.at
    mean, weights, scale = linear.at, np.ones(n), 1.0
    for _ in range(_WEIGHINGS):
        roots = np.sqrt(weights) / linear.deviations / scale
        rows = np.vstack([linear.slopes * roots[:, None], np.diag(1 / widths)])
        right = np.concatenate([aims * roots, np.zeros(len(widths))])
        found = np.asarray(
            lsq_linear(rows, right, (np.full(len(most), -5.0), np.minimum(most, 5.0) + 1e-9)).x
        )
        scores = (aims - linear.slopes @ found) / linear.deviations
        weights = (degrees + 1) / (degrees + (scores / scale) ** 2)
        precision = rows.T @ rows
        leverage = np.einsum("np,pq,nq->n", rows[:n], np.linalg.inv(precision), rows[:n])
        left = (weights * scores**2 / np.maximum(1 - leverage, 0.1)).sum()
        scale = float(np.sqrt((_DOUBT + left) / (_DOUBT + n)))
        if np.abs(found - mean).max() < 1e-6:
            mean = found
            break
        mean = found
    # What is expected of a curvature (Fisher's information of Student's t), less where an error is
    # so large that it tells nothing; the weights themselves would be too sure of few measurements.
    curvatures = weights * degrees / (degrees + 3) / (linear.deviations * scale) ** 2
    precision = (linear.slopes.T * curvatures) @ linear.slopes + np.diag(widths**-2.0)
    return Posterior(mean, np.asarray(np.linalg.inv(precision), float), scale, degrees)


def fit(
    simulate: Callable[[Floats], Floats],
    measured: Floats,
    deviations: Floats,
    widths: Floats,
    most: Floats,
) -> tuple[Posterior, Linear]:
    """The posterior of measured logarithms, which ``simulate`` gives for parameters; and what was
    simulated near it."""
    at = np.zeros(len(widths))
    posterior, linear = None, None
    for turn in range(_ROUNDS):
        values = simulate(at)
        slopes = (
            _slopes(simulate, at, values, most) if turn < 2 or linear is None else linear.slopes
        )
        linear = Linear(at, values, slopes, measured, deviations)
        posterior = solve(linear, widths, most)
        moved = np.abs(posterior.mean - at).max()
        if moved < 0.01:
            break
        at = posterior.mean
    assert posterior is not None
    assert linear is not None
    return posterior, linear


def _slopes(
    simulate: Callable[[Floats], Floats], at: Floats, values: Floats, most: Floats
) -> Floats:
    """(N, P) by differences, away from the largest values."""
    found = np.zeros((len(values), len(at)))
    for p in range(len(at)):
        step = np.zeros(len(at))
        step[p] = -STEP if at[p] + STEP > most[p] else STEP
        found[:, p] = (simulate(at + step) - values) / step[p]
    return found


@dataclass(frozen=True)
class LeaveOneOut:
    """Each measurement, predicted from all others."""

    linear: Linear
    widths: Floats
    most: Floats

    @cached_property
    def posteriors(self) -> Sequence[Posterior]:
        n = len(self.linear.measured)
        return [solve(self.linear.without(i), self.widths, self.most) for i in range(n)]

    @cached_property
    def errors(self) -> Floats:
        """(N,) logarithms of ours over theirs."""
        said = [
            self.linear.said(found.mean)[i] - self.linear.measured[i]
            for i, found in enumerate(self.posteriors)
        ]
        return np.array(said)

    @cached_property
    def scores(self) -> Floats:
        """(N,) the same in deviations of what was to be expected."""
        expected = [
            found.deviation(self.linear.slopes[i], self.linear.deviations[i])
            for i, found in enumerate(self.posteriors)
        ]
        return np.asarray(self.errors / np.array(expected))
