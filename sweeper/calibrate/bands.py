"""Error intervals of simulated times, estimated from runs that others measured.

The logarithm of simulated over measured time is a sum of independent normal effects, as in a
hierarchical (variance-components) model (Searle, Casella and McCulloch, "Variance Components",
1992).  There is one effect for all runs, and one each for the architecture, the GPU, the stack, the
precision, the scale, the source, the plan within a source, and the run itself.  Effects of the
hardware and software differ between dense models and models with experts; effects of scale and plan
fade with distance, as in kriging.  Each effect has one variance, of highest posterior density.

All deviations are larger by a factor for models with experts, and by another factor for each
halving of the model's features (a variance function: Pinheiro and Bates, "Mixed-Effects Models in S
and S-PLUS", 2000, section 5.2).  A layer's arithmetic for each byte grows with its features, so a
narrow model spends more of its time outside its products, where the model is less certain.

The prediction for a new run of an unknown source is a mean and a deviation.  The deviation is
larger if fewer similar runs were measured.

Errors are not normal.  The ends of an interval are therefore quantiles of the errors of left-out
sources, in deviations from the prediction that the other sources give: split conformal prediction
(Vovk, Gammerman and Shafer, 2005), leaving out one source at a time, because the runs of one source
share most of their error.  The ends are not symmetric.

Two designs share the effects that they have in common.  The deviation of their difference is
therefore computed separately, and calibrated on pairs of runs of one source.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy  # imports its subpackages (half a second) on first use

Floats = npt.NDArray[np.float64]

SHARES = (0.5, 0.9)  # share of errors inside each interval
EFFECTS = ("architecture", "gpu", "stack", "precision", "scale", "source", "plan", "run")
_ALL = 0.05  # deviation of the effect that all errors share
_FREE = 0.5  # extra deviation of the mean of a source that constants were fitted to
_PRIOR = (2 * np.log(0.04), 1.5)  # mean and deviation of the logarithm of a variance
_WIDER = (np.log(2.0), 0.7)  # mean and deviation of log(factor of models with experts)
_NARROWER = (0.0, 0.5)  # mean and deviation of log(factor for each halving of the features)
_MIDDLE = 13.0  # log2 of the features at which that factor is 1
_FAR = 2.0  # doublings (of GPUs or of a degree) over which an effect fades to 1/e
# Larger errors are mistakes in a table, or kernels that the model lacks.  They are clipped for the
# fit, so that one row does not widen all intervals, but not when intervals are judged.
_CUT = 0.4
_PAIRS = 60  # maximum number of pairs of a source on which differences are calibrated
# Weight, in sources, of a Student's t with 4 degrees that is added to the scores: few sources are
# known, and the next one may differ from them.
_DOUBT = 3


@dataclass(frozen=True)
class Place:
    """The position of a measured run in the model of errors; near runs share more error."""

    architecture: str
    gpu: str
    kind: str  # "dense" or "experts"
    stack: str
    precision: str
    gpus: float  # log2
    plan: tuple[float, ...]  # log2 of degrees, micro-batch and model size
    source: str = ""
    free: bool = False  # constants were fitted to its source, and no other source judges it
    width: float = _MIDDLE  # log2 of the model's features

    @property
    def exponents(self) -> tuple[float, float]:
        """Exponents with which the factors ``Bands.wider`` enter this run's standard deviation."""
        return compute_exponents(self.kind == "experts", self.width)


def compute_exponents(experts: bool, width: float = _MIDDLE) -> tuple[float, float]:
    """Return the exponents of :attr:`Place.exponents` for a model with 2**``width`` features."""
    return float(experts), _MIDDLE - width


@dataclass(frozen=True)
class Band:
    """Intervals of the error of a simulated time, for several probabilities."""

    #: Both ends of log(simulated / measured), for each of SHARES.
    ends: tuple[tuple[float, float], ...]

    @classmethod
    def from_deviation(
        cls, mean: float, deviation: float, ends: Iterable[tuple[float, float]]
    ) -> "Band":
        """Build the intervals from a mean and a standard deviation.

        ``ends`` are the ends of each interval in deviations from the mean.
        """
        both = [(mean + low * deviation, mean + high * deviation) for low, high in ends]
        return cls(tuple((float(low), float(high)) for low, high in both))

    def relative_ends(self, share: float) -> tuple[float, float]:
        """Return both ends of the interval of a ``share``, as simulated / measured - 1."""
        low, high = self.ends[SHARES.index(share)]
        return float(np.expm1(low)), float(np.expm1(high))

    def contains(self, error: float, share: float) -> bool:
        """Return whether a relative error lies in the interval with probability ``share``."""
        low, high = self.relative_ends(share)
        return low <= error <= high


def _compare_attribute(name: str, rows: Sequence[Place], others: Sequence[Place]) -> Floats:
    mine, theirs = ([getattr(place, name) for place in some] for some in (rows, others))
    return np.asarray(np.equal.outer(np.array(mine), np.array(theirs)), float)


def _compare_distance(rows: Sequence[Place], others: Sequence[Place], name: str) -> Floats:
    mine, theirs = (
        np.atleast_2d([np.atleast_1d(getattr(p, name)) for p in s]) for s in (rows, others)
    )
    return fade_with_distance(mine, theirs)


def fade_with_distance(mine: Floats, theirs: Floats) -> Floats:
    """Return the (R, O) correlation of an effect between runs at (R, C) and (O, C) coordinates."""
    distance = np.abs(mine[:, None, :] - theirs[None, :, :]).sum(axis=2)
    return np.asarray(np.exp(-distance / _FAR))


def compute_shared_effects(rows: Sequence[Place], others: Sequence[Place]) -> tuple[Floats, Floats]:
    """Return correlations of the effects of two sets of places, and their fixed covariance.

    The correlations are (E, R, O), from 0 to 1, without the effect of the run.  The covariance (R,
    O) is the part that is not fitted.
    """
    kind = _compare_attribute("kind", rows, others)
    source = _compare_attribute("source", rows, others)
    found = [
        kind * _compare_attribute("architecture", rows, others),
        kind * _compare_attribute("gpu", rows, others),
        kind * _compare_attribute("stack", rows, others),
        kind
        * _compare_attribute("precision", rows, others)
        * _compare_attribute("architecture", rows, others),
        kind * _compare_distance(rows, others, "gpus"),
        source,
        source * _compare_distance(rows, others, "plan"),
    ]
    free = np.outer([p.free for p in rows], [p.free for p in others]) * source * found[1]
    return np.array(found), _ALL**2 + _FREE**2 * free


@dataclass(frozen=True)
class Bands:
    """The fitted model of the errors of simulated times."""

    variances: tuple[float, ...]  # of each of EFFECTS
    #: Factors on deviations: of models with experts, and for each halving of the features.
    wider: tuple[float, float] = (1.0, 1.0)
    ends: tuple[tuple[float, float], ...] = ()  # for each of SHARES, in deviations from the mean
    pairs: tuple[float, float] = (4.0, 1.0)  # degrees and scale of Student's t of differences

    @classmethod
    def fit(cls, places: Sequence[Place], errors: Sequence[float]) -> "Bands":
        """Fit the model to ``errors``, the logarithms of simulated over measured time."""
        effects, fixed = compute_shared_effects(places, places)
        effects = np.concatenate([effects, np.eye(len(places))[None]])
        values = np.clip(errors, -_CUT, _CUT)
        n, of_places = len(EFFECTS), np.array([place.exponents for place in places]).T
        middle, width = np.array([*[_PRIOR] * n, _WIDER, _NARROWER]).T
        both = of_places[:, :, None] + of_places[:, None, :]

        def cost(logs: Floats) -> tuple[float, Floats]:
            wider = np.exp(np.tensordot(logs[n:], both, 1))
            whole = wider * (fixed + np.tensordot(np.exp(logs[:n]), effects, 1))
            factor = scipy.linalg.cho_factor(whole, lower=True)
            solved = scipy.linalg.cho_solve(factor, values)
            inverse = scipy.linalg.cho_solve(factor, np.eye(len(values)))
            least = values @ solved / 2 + np.log(np.diag(factor[0])).sum()
            slopes = (inverse - np.outer(solved, solved)) / 2
            own = [
                np.exp(log) * np.vdot(slopes, wider * e)
                for log, e in zip(logs, effects, strict=False)
            ]
            slope = np.array([*own, *(np.vdot(slopes, each * whole) for each in both)])
            least += (((logs - middle) / width) ** 2).sum() / 2
            return float(least), slope + (logs - middle) / width**2

        found = scipy.optimize.minimize(
            cost, middle, jac=True, method="L-BFGS-B", options={"maxiter": 60}
        )
        *variances, experts, narrower = map(float, np.exp(found.x))
        bands = cls(tuple(variances), (experts, narrower))
        left = LeaveSourceOut(bands, tuple(places), tuple(errors))
        return replace(bands, ends=left.ends(), pairs=left.pairs())

    def condition(self, places: Sequence[Place], errors: Sequence[float]) -> "KnownErrors":
        """Return the model conditioned on the known ``errors`` of runs at ``places``."""
        return KnownErrors(self, tuple(places), tuple(errors))

    def deviation_of_difference(self, one: Place, other: Place) -> float:
        """Return the standard deviation of the difference between the errors of two runs."""
        common = self.compute_covariance([one], [other]).item()
        return float(
            np.sqrt(
                self.compute_variances([one])[0] + self.compute_variances([other])[0] - 2 * common
            )
        )

    def compute_confidence(self, difference: float, one: Place, other: Place) -> float:
        """Return the probability that the run that is slower in simulation is also measured slower.

        The logarithms of the simulated times differ by ``difference``.
        """
        degrees, scale = self.pairs
        off = abs(difference) / self.deviation_of_difference(one, other)
        return float(scipy.special.stdtr(degrees, off / scale))

    def compute_covariance(self, rows: Sequence[Place], others: Sequence[Place]) -> Floats:
        """Return the (R, O) covariance of the errors of different runs."""
        effects, fixed = compute_shared_effects(rows, others)
        found = fixed + np.tensordot(np.array(self.variances[:-1]), effects, 1)
        return np.asarray(
            np.outer(self._compute_factors(rows), self._compute_factors(others)) * found
        )

    def compute_full_covariance(self, rows: Sequence[Place]) -> Floats:
        """Return the (R, R) covariance of errors, with their variances on the diagonal."""
        found = self.compute_covariance(rows, rows)
        np.fill_diagonal(found, self.compute_variances(rows))
        return found

    def compute_variances(self, rows: Sequence[Place]) -> Floats:
        """Return the variances (R,) of the errors of R runs."""
        free = np.array([place.free for place in rows])
        return (sum(self.variances) + _ALL**2 + _FREE**2 * free) * self._compute_factors(rows) ** 2

    def _compute_factors(self, rows: Sequence[Place]) -> Floats:
        return np.asarray(
            np.exp(np.array([place.exponents for place in rows]) @ np.log(self.wider))
        )

    def effect_deviation(self, effect: str, powers: tuple[float, float]) -> float:
        """Return the standard deviation of one effect on a run with exponents ``powers``.

        See :func:`compute_exponents`.
        """
        variance = self.variances[EFFECTS.index(effect)]
        return float(np.sqrt(variance) * np.prod(np.power(self.wider, powers)))

    def to_json(self) -> str:
        """Return the model as text, which :meth:`from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Bands":
        """Return the model of errors from the text of :meth:`to_json`."""
        plain = json.loads(text)
        ends = tuple((low, high) for low, high in plain["ends"])
        return cls(tuple(plain["variances"]), tuple(plain["wider"]), ends, tuple(plain["pairs"]))


@dataclass(frozen=True)
class KnownErrors:
    """The model of errors, conditioned on the known errors of measured runs."""

    bands: Bands
    places: tuple[Place, ...]
    errors: tuple[float, ...]

    @cached_property
    def _factor(self) -> tuple[Floats, bool]:
        return scipy.linalg.cho_factor(self.bands.compute_full_covariance(self.places), lower=True)

    def predict(self, places: Sequence[Place]) -> tuple[Floats, Floats]:
        """Return the means and standard deviations of the errors of runs at ``places``."""
        cross = self.bands.compute_covariance(self.places, places)
        return _predict_errors(
            self._factor, cross, self.bands.compute_variances(places), self.errors
        )

    def band(self, place: Place) -> Band:
        """Return the error intervals of one run."""
        (mean,), (deviation,) = self.predict([place])
        return Band.from_deviation(mean, deviation, self.bands.ends)


def _predict_errors(
    factor: tuple[Floats, bool], cross: Floats, alone: Floats, errors: Sequence[float] | Floats
) -> tuple[Floats, Floats]:
    """Return the means and standard deviations of P errors, given K known ``errors``.

    ``factor`` is the Cholesky factor of the covariance of the known errors, ``cross`` (K, P) their
    covariance with the P errors, and ``alone`` (P,) the variances of these.
    """
    means = cross.T @ scipy.linalg.cho_solve(factor, np.clip(errors, -_CUT, _CUT))
    rest = alone - np.einsum("kp,kp->p", cross, scipy.linalg.cho_solve(factor, cross))
    return means, np.sqrt(np.maximum(rest, 1e-12))


@dataclass(frozen=True)
class LeaveSourceOut:
    """The errors of the runs of each source, predicted from the runs of all other sources."""

    bands: Bands
    places: tuple[Place, ...]
    errors: tuple[float, ...]

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """Row numbers of each source's runs, by source."""
        found: dict[str, list[int]] = {}
        for number, place in enumerate(self.places):
            found.setdefault(place.source, []).append(number)
        return found

    @cached_property
    def _covariances(self) -> tuple[Floats, Floats]:
        """Covariance (N, N) of errors, and the variances (N,) of rows of a new source."""
        places = [replace(place, free=False) for place in self.places]
        return self.bands.compute_full_covariance(self.places), self.bands.compute_variances(places)

    def predict(self, source: str, but: str = "") -> tuple[Floats, Floats]:
        """Predict the errors of a source from all other sources, without the source ``but``."""
        whole, alone = self._covariances
        own = self.groups[source]
        others = [n for n, place in enumerate(self.places) if place.source not in (source, but)]
        factor = scipy.linalg.cho_factor(whole[np.ix_(others, others)], lower=True)
        return _predict_errors(
            factor, whole[np.ix_(others, own)], alone[own], np.array(self.errors)[others]
        )

    def ends(self, but: str = "") -> tuple[tuple[float, float], ...]:
        """Return both ends of the interval for each of SHARES, in standard deviations.

        The source ``but`` is left out. A source is weighted by the square root of its number of
        rows, which share most of their errors.
        """
        if but not in self._ends:
            self._ends[but] = self._compute_ends(but)
        return self._ends[but]

    @cached_property
    def _ends(self) -> dict[str, tuple[tuple[float, float], ...]]:
        return {}

    def _compute_ends(self, but: str) -> tuple[tuple[float, float], ...]:
        doubt = scipy.special.stdtrit(4.0, (np.arange(40) + 0.5) / 40)
        scores, weights = [np.empty(0)], [np.empty(0)]
        for source, rows in self.groups.items():
            judged = np.array([not self.places[n].free for n in rows])
            if source == but or not judged.any():
                continue
            means, deviations = self.predict(source, but)
            found = (np.array(self.errors)[rows] - means) / deviations
            scores.append(found[judged])
            weights.append(np.full(judged.sum(), len(rows) ** -0.5))
        each = sum(own.sum() for own in weights) / max(1, len(weights) - 1)
        scores.append(doubt)
        weights.append(np.full(len(doubt), _DOUBT * (each or 1.0) / len(doubt)))
        values, counts = np.concatenate(scores), np.concatenate(weights)
        order = np.argsort(values)
        at = (np.cumsum(counts[order]) - counts[order] / 2) / counts.sum()
        points = [((1 - share) / 2, (1 + share) / 2) for share in SHARES]
        return tuple(
            (float(low), float(high))
            for low, high in (np.interp(pair, at, values[order]) for pair in points)
        )

    def band(self, number: int) -> Band:
        """Return the error intervals of a row, computed from the rows of other sources."""
        source = self.places[number].source
        means, deviations = self._predictions[source]
        at = self.groups[source].index(number)
        return Band.from_deviation(means[at], deviations[at], self.ends(source))

    @cached_property
    def _predictions(self) -> dict[str, tuple[Floats, Floats]]:
        return {source: self.predict(source) for source in self.groups}

    def list_pairs(self) -> list[tuple[int, int]]:
        """Return pairs of runs of one source, GPU and kind of model, about _PAIRS a source."""
        found = []
        for own in self.groups.values():
            pairs = [
                (a, b)
                for i, a in enumerate(own)
                for b in own[i + 1 :]
                if (self.places[a].gpu, self.places[a].kind)
                == (self.places[b].gpu, self.places[b].kind)
            ]
            found += pairs[:: max(1, -(-len(pairs) // _PAIRS))]
        return found

    def pairs(self, but: str = "\n") -> tuple[float, float]:
        """Fit Student's t to the differences of errors in pairs; return its degrees and scale.

        The source ``but`` is left out.
        """
        scores = [
            (self.errors[a] - self.errors[b])
            / self.bands.deviation_of_difference(self.places[a], self.places[b])
            for a, b in self.list_pairs()
            if self.places[a].source != but
        ]
        if len(scores) < 10:
            return 4.0, 1.0
        both = np.array([*scores, *(-score for score in scores)])  # pairs have no order

        degrees, _, scale = scipy.stats.t.fit(both, 4.0, floc=0.0, scale=1.0)
        return float(np.clip(degrees, 2.0, 100.0)), float(scale)
