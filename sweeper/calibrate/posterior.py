"""Parameters of a cluster that measurements calibrate, and their posterior.

Each parameter is the logarithm of a factor on keys of the configuration; 0 is the preset's value.

The logarithm of a measured time is the logarithm of the simulated time plus two errors.  One
follows Student's t with few degrees of freedom, so that outliers have little weight (Lange, Little
and Taylor, "Robust statistical modeling using the t distribution", 1989).  The other is normal and
shared by similar measurements: iterations of one model and plan have a common error on any machine,
which must not be attributed to this machine.

The prior of the parameters is normal.  Near the mode the simulated logarithm is linear in the
parameters, so the posterior is approximately normal (Laplace).  Gauss-Newton steps find the mode.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from dimsweep.engine.topology import parse_shape
from dimsweep.sweeper.config.schema import Config
from dimsweep.sweeper.part import expand_per_dimension

Floats = npt.NDArray[np.float64]

#: Parameters with prior widths; ``network`` and ``latency`` exist for each dimension.
WIDTHS = ("compute", "memory", "launch", "overlap", "network", "latency")
_LEAST_LATENCY = 1e5  # ps: lower bound of the latency that a factor multiplies


@dataclass(frozen=True)
class Parameter:
    """A factor on keys of the configuration that measurements calibrate."""

    name: str
    label: str  # for people
    keys: tuple[str, ...]  # of the configuration, which it multiplies
    width: float  # prior deviation of its logarithm
    dimension: int | None = None  # of the network

    def maximum_logarithm(self, config: Config) -> float:
        """Return the upper bound of the factor's logarithm; efficiencies are at most 1."""
        if self.name not in ("compute", "memory", "overlap"):
            return math.inf
        return math.log(1 / getattr(config.npu, self.keys[0].removeprefix("npu.")))


def slope_step(name: str) -> float:
    """Return the step of a parameter's logarithm for finite differences.

    The step of the overlap is longer, because its first hundredth splits kernels in two and adds
    their latency.
    """
    return 0.2 if name == "overlap" else 0.05


def list_parameters(config: Config, widths: Mapping[str, float] | None = None) -> list[Parameter]:
    """Return the parameters of a cluster.

    ``widths`` are by the names of WIDTHS; they default to 1, for callers that ignore the prior.
    """
    widths = dict.fromkeys(WIDTHS, 1.0) if widths is None else widths
    found = [
        Parameter("compute", "compute efficiency", ("npu.efficiency",), widths["compute"]),
        Parameter("memory", "memory efficiency", ("npu.memory_efficiency",), widths["memory"]),
        Parameter("launch", "launch and host", ("npu.launch", "npu.host"), widths["launch"]),
        Parameter("overlap", "overlap of collectives", ("npu.overlap",), widths["overlap"]),
    ]
    for d in range(len(parse_shape(str(config.topology.shape)))):
        found += [
            Parameter(
                f"network_{d}",
                f"bandwidth of dimension {d}",
                ("topology.bandwidth",),
                widths["network"],
                d,
            ),
            Parameter(
                f"latency_{d}",
                f"latency of dimension {d}",
                ("topology.latency",),
                widths["latency"],
                d,
            ),
        ]
    return found


def compute_settings(config: Config, parameters: Sequence[Parameter], at: Floats) -> dict[str, Any]:
    """Return the values of configuration keys for ``parameters`` with the logarithms ``at``."""
    settings: dict[str, Any] = {}
    n = len(parse_shape(str(config.topology.shape)))
    assert config.topology.bandwidth is not None
    assert config.topology.latency is not None
    bandwidth = list(map(float, expand_per_dimension(config.topology.bandwidth, n, "bandwidth")))
    latency = list(map(float, expand_per_dimension(config.topology.latency, n, "latency")))
    for parameter, logarithm in zip(parameters, at, strict=True):
        factor, d = math.exp(logarithm), parameter.dimension
        if d is None:
            for key in parameter.keys:
                value = float(getattr(config.npu, key.removeprefix("npu.")))
                settings[key] = _format_setting(key, value * factor)
        elif d >= n:
            continue
        elif parameter.name.startswith("network"):
            bandwidth[d] *= factor
        elif logarithm:
            latency[d] = max(latency[d], _LEAST_LATENCY) * factor
    settings["topology.bandwidth"] = [f"{each / 1e9:.9g} GB/s" for each in bandwidth]
    settings["topology.latency"] = [f"{ps / 1e3:.6g} ns" for ps in latency]
    return settings


def _format_setting(key: str, value: float) -> float | str:
    if key in ("npu.launch", "npu.host"):
        return f"{value / 1e6:.6g} us"
    return min(1.0, round(value, 6))


DEGREES = 4.0  # degrees of freedom of an error
_ROUNDS = 4  # Gauss-Newton steps
_WEIGHINGS = 30  # iterations that alternate between the parameters and the weights of errors
_DOUBT = 4.0  # weight of the prior scale of errors, in measurements


@dataclass(frozen=True)
class Errors:
    """Standard deviations of the errors of N measured logarithms, before the fit."""

    own: Floats  # (N,) deviations of separate errors
    shared: Floats  # (N, R) loadings on R shared errors of deviation 1

    @classmethod
    def independent(cls, own: Floats) -> "Errors":
        """Build errors of which measurements share no part; ``own`` (N,) are their deviations."""
        return cls(own, np.zeros((len(own), 0)))

    def select_rows(self, rows: npt.NDArray[np.bool_]) -> "Errors":
        """Return the errors of the selected measurements."""
        return Errors(self.own[rows], self.shared[rows])

    @property
    def total(self) -> Floats:
        """Standard deviations (N,) of the total errors, with the shared part."""
        return np.asarray(np.sqrt(self.own**2 + (self.shared**2).sum(axis=1)))


@dataclass(frozen=True)
class Linear:
    """A linear model of N simulated logarithms in P parameters, with the measured logarithms."""

    center: Floats  # (P,) parameters at which it was simulated
    values: Floats  # (N,) simulated logarithms there
    slopes: Floats  # (N, P)
    measured: Floats  # (N,) logarithms
    errors: Errors

    def select_rows(self, rows: npt.NDArray[np.bool_]) -> "Linear":
        """Return the model of the selected measurements."""
        return Linear(
            self.center,
            self.values[rows],
            self.slopes[rows],
            self.measured[rows],
            self.errors.select_rows(rows),
        )

    def without_row(self, left: int) -> "Linear":
        """Return the model without one measurement."""
        return self.select_rows(np.arange(len(self.measured)) != left)

    def predict(self, mean: Floats) -> Floats:
        """Return the simulated logarithms (N,) at the parameters ``mean``."""
        return np.asarray(self.values + self.slopes @ (mean - self.center))


@dataclass(frozen=True)
class Posterior:
    """The posterior distribution of P calibrated parameters."""

    mean: Floats  # (P,)
    covariance: Floats  # (P, P)
    scale: float  # factor of errors over the prior ones
    degrees: float  # of freedom

    def deviation(self, slopes: Floats, error: float) -> float:
        """Return the standard deviation of the error of a simulated time.

        ``slopes`` (P,) are the time's derivatives; ``error`` is the deviation of its own error.
        """
        return float(np.sqrt(slopes @ self.covariance @ slopes + (self.scale * error) ** 2))


def compute_posterior(linear: Linear, widths: Floats, most: Floats) -> Posterior:
    """Return the posterior of a linear model's parameters.

    The prior has standard deviations ``widths`` and upper bounds ``most``.
    """
    n, n_parameters, degrees = len(linear.measured), len(widths), DEGREES
    own, shared = linear.errors.own, linear.errors.shared
    aims = linear.measured - linear.values + linear.slopes @ linear.center
    # Shared errors are estimated together with the parameters.
    slopes = np.hstack([linear.slopes, shared])
    widths = np.concatenate([widths, np.ones(shared.shape[1])])
    most = np.concatenate([np.minimum(most, 5.0), np.full(shared.shape[1], 5.0)])
    mean, weights, scale = np.zeros(len(widths)), np.ones(n), 1.0
    for _ in range(_WEIGHINGS):
        roots = np.sqrt(weights) / own / scale
        rows = np.vstack([slopes * roots[:, None], np.diag(1 / widths)])
        right = np.concatenate([aims * roots, np.zeros(len(widths))])
        found = np.asarray(
            scipy.optimize.lsq_linear(rows, right, (np.full(len(most), -5.0), most + 1e-9)).x
        )
        scores = (aims - slopes @ found) / own
        weights = (degrees + 1) / (degrees + (scores / scale) ** 2)
        precision = rows.T @ rows
        leverage = np.einsum("np,pq,nq->n", rows[:n], np.linalg.inv(precision), rows[:n])
        left = (weights * scores**2 / np.maximum(1 - leverage, 0.1)).sum()
        scale = float(np.sqrt((_DOUBT + left) / (_DOUBT + n)))
        if np.abs(found - mean).max() < 1e-6:
            mean = found
            break
        mean = found
    # Expected curvatures (Fisher's information of Student's t), scaled by the weights, so that
    # outliers count less.  The weights alone would overstate the precision of few measurements.
    curvatures = weights * degrees / (degrees + 3) / (own * scale) ** 2
    precision = (slopes.T * curvatures) @ slopes + np.diag(widths**-2.0)
    of_parameters = slice(n_parameters)
    covariance = np.asarray(np.linalg.inv(precision), float)[of_parameters, of_parameters]
    return Posterior(mean[of_parameters], covariance, scale, degrees)


def fit_posterior(
    simulate: Callable[[Floats], Floats],
    measured: Floats,
    errors: Errors,
    widths: Floats,
    most: Floats,
    steps: Floats,
) -> tuple[Posterior, Linear]:
    """Return the posterior of the parameters, and the linear model near its mode.

    ``simulate`` returns the (N,) simulated logarithms for (P,) parameters; ``steps`` (P,) are the
    finite differences of the slopes.
    """
    at = np.zeros(len(widths))
    posterior, linear = None, None
    for turn in range(_ROUNDS):
        values = simulate(at)
        slopes = (
            _measure_slopes(simulate, at, values, most, steps)
            if turn < 2 or linear is None
            else linear.slopes
        )
        linear = Linear(at, values, slopes, measured, errors)
        posterior = compute_posterior(linear, widths, most)
        moved = np.abs(posterior.mean - at).max()
        if moved < 0.01:
            break
        at = posterior.mean
    assert posterior is not None
    assert linear is not None
    return posterior, linear


def _measure_slopes(
    simulate: Callable[[Floats], Floats],
    at: Floats,
    values: Floats,
    most: Floats,
    steps: Floats,
) -> Floats:
    """Return derivatives (N, P) by finite differences that stay below the upper bounds."""
    found = np.zeros((len(values), len(at)))
    for p in range(len(at)):
        step = np.zeros(len(at))
        step[p] = -steps[p] if at[p] + steps[p] > most[p] else steps[p]
        found[:, p] = (simulate(at + step) - values) / step[p]
    return found


@dataclass(frozen=True)
class LeaveOneOut:
    """Predictions of each measurement from all other measurements."""

    linear: Linear
    widths: Floats
    maxima: Floats

    @cached_property
    def posteriors(self) -> Sequence[Posterior]:
        """The posterior without each one of the measurements."""
        n = len(self.linear.measured)
        return [
            compute_posterior(self.linear.without_row(i), self.widths, self.maxima)
            for i in range(n)
        ]

    @cached_property
    def errors(self) -> Floats:
        """Logarithms (N,) of predicted over measured values."""
        errors = [
            self.linear.predict(found.mean)[i] - self.linear.measured[i]
            for i, found in enumerate(self.posteriors)
        ]
        return np.array(errors)

    @cached_property
    def scores(self) -> Floats:
        """Errors (N,) divided by the standard deviations that they should have."""
        expected = [
            found.deviation(self.linear.slopes[i], error)
            for i, (found, error) in enumerate(
                zip(self.posteriors, self.linear.errors.total, strict=True)
            )
        ]
        return np.asarray(self.errors / np.array(expected))
