"""The parameters that a cluster is calibrated by, and their posterior from measurements.

Each parameter is the logarithm of a factor of keys of the configuration, 0 for the preset's value.

The logarithm of a measured time is that of the simulated one, plus an error of Student's t with few
degrees of freedom, so that a measurement that nothing explains counts little (Lange, Little and
Taylor, "Robust statistical modeling using the t distribution", 1989), and a normal error that
measurements share: iterations of one model and plan are off together, whatever the machine, so what
they have in common is not all laid at the machine's door.  The parameters' logarithms
are normal beforehand, and near the most likely ones the simulated logarithm is linear in them: the
posterior is then normal (Laplace's approximation), its mode found by Gauss-Newton steps.
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
from dimsweep.sweeper.part import per_dimension

Floats = npt.NDArray[np.float64]

#: Of which parameters a prior gives the widths; each dimension has its own bandwidth and latency.
WIDTHS = ("compute", "memory", "launch", "overlap", "network", "latency")
_LEAST_LATENCY = 1e5  # ps: of a preset without one, what its factor is of


@dataclass(frozen=True)
class Parameter:
    """A factor of ``keys``; ``dimension`` of the network's, or None.  ``what`` tells people;
    ``width`` is the deviation of its logarithm before anything was measured."""

    name: str
    label: str
    keys: tuple[str, ...]
    width: float
    dimension: int | None = None

    def maximum_logarithm(self, config: Config) -> float:
        """The largest logarithm that the configuration can have: no share is more than 1."""
        if self.name not in ("compute", "memory", "overlap"):
            return math.inf
        return math.log(1 / getattr(config.npu, self.keys[0].removeprefix("npu.")))


def slope_step(name: str) -> float:
    """Of a parameter's logarithm, over which a slope is taken: a longer one for the overlap, of
    which the first hundredth costs the latency of what is cut in two, and no further one does."""
    return 0.2 if name == "overlap" else 0.05


def list_parameters(config: Config, widths: Mapping[str, float] | None = None) -> list[Parameter]:
    """Those of a cluster; ``widths`` by the name without the number of a dimension, 1 where only
    the parameters' values matter."""
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
    """The values of keys at these logarithms, as a file has them."""
    told: dict[str, Any] = {}
    n = len(parse_shape(str(config.topology.shape)))
    assert config.topology.bandwidth is not None
    assert config.topology.latency is not None
    bandwidth = list(map(float, per_dimension(config.topology.bandwidth, n, "bandwidth")))
    latency = list(map(float, per_dimension(config.topology.latency, n, "latency")))
    for parameter, logarithm in zip(parameters, at, strict=True):
        factor, d = math.exp(logarithm), parameter.dimension
        if d is None:
            for key in parameter.keys:
                value = float(getattr(config.npu, key.removeprefix("npu.")))
                told[key] = _format_setting(key, value * factor)
        elif d >= n:
            continue
        elif parameter.name.startswith("network"):
            bandwidth[d] *= factor
        elif logarithm:
            latency[d] = max(latency[d], _LEAST_LATENCY) * factor
    told["topology.bandwidth"] = [f"{each / 1e9:.9g} GB/s" for each in bandwidth]
    told["topology.latency"] = [f"{ps / 1e3:.6g} ns" for ps in latency]
    return told


def _format_setting(key: str, value: float) -> float | str:
    if key in ("npu.launch", "npu.host"):
        return f"{value / 1e6:.6g} us"
    return min(1.0, round(value, 6))


DEGREES = 4.0  # of freedom of an error
_ROUNDS = 4  # of Gauss-Newton
_WEIGHINGS = 30  # of errors, by turns with the parameters
_DOUBT = 4.0  # measurements' worth of what is known of the size of errors beforehand


@dataclass(frozen=True)
class Errors:
    """Of N measured logarithms, beforehand: (N,) deviations of each one's own error, and (N, R)
    what each has of R errors of deviation 1 that several share."""

    own: Floats
    shared: Floats

    @classmethod
    def independent(cls, own: Floats) -> "Errors":
        """Errors of which none is shared."""
        return cls(own, np.zeros((len(own), 0)))

    def select_rows(self, rows: npt.NDArray[np.bool_]) -> "Errors":
        return Errors(self.own[rows], self.shared[rows])

    @property
    def total(self) -> Floats:
        """(N,) deviations of each one's error, what it shares with others included."""
        return np.asarray(np.sqrt(self.own**2 + (self.shared**2).sum(axis=1)))


@dataclass(frozen=True)
class Linear:
    """What simulations say near ``at``: (N,) logarithms and (N, P) slopes; and (N,) measured
    logarithms, with their errors beforehand."""

    center: Floats
    values: Floats
    slopes: Floats
    measured: Floats
    errors: Errors

    def select_rows(self, rows: npt.NDArray[np.bool_]) -> "Linear":
        return Linear(
            self.center,
            self.values[rows],
            self.slopes[rows],
            self.measured[rows],
            self.errors.select_rows(rows),
        )

    def without_row(self, left: int) -> "Linear":
        return self.select_rows(np.arange(len(self.measured)) != left)

    def predict(self, mean: Floats) -> Floats:
        """(N,) simulated logarithms at other parameters."""
        return np.asarray(self.values + self.slopes @ (mean - self.center))


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


def compute_posterior(linear: Linear, widths: Floats, most: Floats) -> Posterior:
    """The posterior with a prior of these ``widths`` around 0, parameters at ``most`` so large."""
    n, n_parameters, degrees = len(linear.measured), len(widths), DEGREES
    own, shared = linear.errors.own, linear.errors.shared
    aims = linear.measured - linear.values + linear.slopes @ linear.center
    # What is shared is found beside the parameters.
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
    # What is expected of a curvature (Fisher's information of Student's t), less where an error is
    # so large that it tells nothing; the weights themselves would be too sure of few measurements.
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
    """The posterior of measured logarithms, which ``simulate`` gives for parameters; and what was
    simulated near it, with slopes over ``steps``."""
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
    """(N, P) by differences, away from the largest values."""
    found = np.zeros((len(values), len(at)))
    for p in range(len(at)):
        step = np.zeros(len(at))
        step[p] = -steps[p] if at[p] + steps[p] > most[p] else steps[p]
        found[:, p] = (simulate(at + step) - values) / step[p]
    return found


@dataclass(frozen=True)
class LeaveOneOut:
    """Each measurement, predicted from all others."""

    linear: Linear
    widths: Floats
    maxima: Floats

    @cached_property
    def posteriors(self) -> Sequence[Posterior]:
        n = len(self.linear.measured)
        return [
            compute_posterior(self.linear.without_row(i), self.widths, self.maxima)
            for i in range(n)
        ]

    @cached_property
    def errors(self) -> Floats:
        """(N,) logarithms of ours over theirs."""
        said = [
            self.linear.predict(found.mean)[i] - self.linear.measured[i]
            for i, found in enumerate(self.posteriors)
        ]
        return np.array(said)

    @cached_property
    def scores(self) -> Floats:
        """(N,) the same in deviations of what was to be expected."""
        expected = [
            found.deviation(self.linear.slopes[i], error)
            for i, (found, error) in enumerate(
                zip(self.posteriors, self.linear.errors.total, strict=True)
            )
        ]
        return np.asarray(self.errors / np.array(expected))
