"""How far the time of a run that nobody measured may be from what would be measured: intervals of
the error, from errors of sources that were left out.

The logarithm of ours over theirs is a sum of independent normal effects, as in a hierarchical
(variance-components) model, Searle, Casella and McCulloch, "Variance Components" (1992), here with
effects that fade with distance as in kriging: of all runs, of the GPU's architecture, the GPU, the
stack, and the precision (each for dense models and those with experts), of the scale, the source,
of the plan within a source, and of the run itself.  Each has one variance, of highest posterior
density.  All deviations are larger by a factor for models with experts, and by another one for each
halving of a model's features (a variance function, Pinheiro and Bates, "Mixed-Effects Models in S
and S-PLUS", 2000, section 5.2): the arithmetic that a layer's products do for each byte grows with
its features, so in a narrow model more of the time passes in all else, of which less is known.
What is known of a new run, of a source that nobody has seen, is then a mean and a deviation, which
is larger the less was measured that is like it.

Errors are no normal numbers.  So the ends of an interval are those between which the errors of left
out sources lay, each in deviations from what the others said of it: split conformal prediction
(Vovk, Gammerman and Shafer, 2005) with a source at a time left out, as runs of one source share
most of their error.  These ends are not symmetric.

Two designs share the effects of all that they have in common, so the error of their difference has
a deviation of its own, judged on pairs of runs of one source.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy  # which imports its parts, half a second, when they are asked for

Floats = npt.NDArray[np.float64]

SHARES = (0.5, 0.9)  # of the errors, inside each interval
EFFECTS = ("architecture", "gpu", "stack", "precision", "scale", "source", "plan", "run")
_ALL = 0.05  # deviation of what all errors have in common
_FREE = 0.5  # of what the mean of a source is off whose rows constants were fitted to
_PRIOR = (2 * np.log(0.04), 1.5)  # mean and deviation of the logarithm of a variance
_WIDER = (np.log(2.0), 0.7)  # the same of the factor of models with experts
_NARROWER = (0.0, 0.5)  # the same of the factor for each halving of a model's features
_MIDDLE = 13.0  # doublings of a feature at which that factor is 1
_FAR = 2.0  # in how many doublings, of GPUs or of a degree, an effect fades to a third
_CUT = 0.4  # errors beyond are mistakes in a table, or kernels that the model lacks: one such row
# must not widen all intervals.  They count as they are where intervals are judged.
_PAIRS = 60  # of a source, at most, on which differences are judged
_DOUBT = 3  # sources' worth of errors like Student's t with 4 degrees: few sources are known, and
# the next one need not be like them


@dataclass(frozen=True)
class Place:
    """What of a run says which errors it shares.  ``gpus``, ``plan`` (degrees, micro-batch, size)
    and ``width`` (features of the model) are logarithms to the base 2; ``free``: constants were
    fitted to its source, and no other source says how far that made it too good."""

    architecture: str
    gpu: str
    kind: str
    stack: str
    precision: str
    gpus: float
    plan: tuple[float, ...]
    source: str = ""
    free: bool = False
    width: float = _MIDDLE

    @property
    def exponents(self) -> tuple[float, float]:
        """Those of the factors ``Bands.wider`` by which its deviation is larger."""
        return compute_exponents(self.kind == "experts", self.width)


def compute_exponents(experts: bool, width: float = _MIDDLE) -> tuple[float, float]:
    """:attr:`Place.exponents` of a model with ``experts``, of so many doublings of a feature."""
    return float(experts), _MIDDLE - width


@dataclass(frozen=True)
class Band:
    """The error of a time: ``ends`` of the logarithm of ours over theirs for each of SHARES."""

    ends: tuple[tuple[float, float], ...]

    @classmethod
    def from_deviation(
        cls, mean: float, deviation: float, ends: Iterable[tuple[float, float]]
    ) -> "Band":
        """That of a mean and a deviation, whose ``ends`` are in deviations from the mean."""
        both = [(mean + low * deviation, mean + high * deviation) for low, high in ends]
        return cls(tuple((float(low), float(high)) for low, high in both))

    def relative_ends(self, share: float) -> tuple[float, float]:
        """Ours relative to theirs, less 1."""
        low, high = self.ends[SHARES.index(share)]
        return float(np.expm1(low)), float(np.expm1(high))

    def contains(self, error: float, share: float) -> bool:
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
    """(R, O) how much runs at (R, C) and (O, C) coordinates share of an effect that fades with
    their distance."""
    apart = np.abs(mine[:, None, :] - theirs[None, :, :]).sum(axis=2)
    return np.asarray(np.exp(-apart / _FAR))


def compute_shared_effects(rows: Sequence[Place], others: Sequence[Place]) -> tuple[Floats, Floats]:
    """(E, R, O) how much of each effect but that of the run two places share, 0 to 1; and (R, O)
    the variance that no error decides."""
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
    """The model of errors: a variance of each of EFFECTS, and the factors by which deviations are
    ``wider`` for models with experts, and for each halving of a model's features; for each of
    SHARES the ends of an interval in deviations from the mean; and Student's t of differences, its
    degrees and its scale."""

    variances: tuple[float, ...]
    wider: tuple[float, float] = (1.0, 1.0)
    ends: tuple[tuple[float, float], ...] = ()
    pairs: tuple[float, float] = (4.0, 1.0)

    @classmethod
    def fit(cls, places: Sequence[Place], errors: Sequence[float]) -> "Bands":
        """The model of these errors (the logarithms of ours over theirs)."""
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
        return KnownErrors(self, tuple(places), tuple(errors))

    def deviation_of_difference(self, one: Place, other: Place) -> float:
        """The deviation of the difference of two runs' errors: that of the same user's runs, if
        they are on the same GPUs."""
        common = self.compute_covariance([one], [other]).item()
        return float(
            np.sqrt(
                self.compute_variances([one])[0] + self.compute_variances([other])[0] - 2 * common
            )
        )

    def compute_confidence(self, difference: float, one: Place, other: Place) -> float:
        """How sure it is that the slower of two runs would be measured to be slower, if their
        simulated times differ by a factor of exp(``difference``)."""
        degrees, scale = self.pairs
        off = abs(difference) / self.deviation_of_difference(one, other)
        return float(scipy.special.stdtr(degrees, off / scale))

    def compute_covariance(self, rows: Sequence[Place], others: Sequence[Place]) -> Floats:
        """(R, O) the covariance of errors of different runs."""
        effects, fixed = compute_shared_effects(rows, others)
        found = fixed + np.tensordot(np.array(self.variances[:-1]), effects, 1)
        return np.asarray(
            np.outer(self._compute_factors(rows), self._compute_factors(others)) * found
        )

    def compute_full_covariance(self, rows: Sequence[Place]) -> Floats:
        """(R, R) the covariance of all errors, each one's variance among them."""
        found = self.compute_covariance(rows, rows)
        np.fill_diagonal(found, self.compute_variances(rows))
        return found

    def compute_variances(self, rows: Sequence[Place]) -> Floats:
        """(R,) the variance of each error."""
        free = np.array([place.free for place in rows])
        return (sum(self.variances) + _ALL**2 + _FREE**2 * free) * self._compute_factors(rows) ** 2

    def _compute_factors(self, rows: Sequence[Place]) -> Floats:
        return np.asarray(
            np.exp(np.array([place.exponents for place in rows]) @ np.log(self.wider))
        )

    def effect_deviation(self, effect: str, powers: tuple[float, float]) -> float:
        """The deviation of one effect on a run of such :func:`compute_exponents`."""
        variance = self.variances[EFFECTS.index(effect)]
        return float(np.sqrt(variance) * np.prod(np.power(self.wider, powers)))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Bands":
        plain = json.loads(text)
        ends = tuple((low, high) for low, high in plain["ends"])
        return cls(tuple(plain["variances"]), tuple(plain["wider"]), ends, tuple(plain["pairs"]))


@dataclass(frozen=True)
class KnownErrors:
    """What errors that are known say of other ones."""

    bands: Bands
    places: tuple[Place, ...]
    errors: tuple[float, ...]

    @cached_property
    def _factor(self) -> tuple[Floats, bool]:
        return scipy.linalg.cho_factor(self.bands.compute_full_covariance(self.places), lower=True)

    def predict(self, places: Sequence[Place]) -> tuple[Floats, Floats]:
        """Mean and deviation of the errors of other runs, each by itself."""
        cross = self.bands.compute_covariance(self.places, places)
        return _predict_errors(
            self._factor, cross, self.bands.compute_variances(places), self.errors
        )

    def band(self, place: Place) -> Band:
        """The intervals of the error of one run."""
        (mean,), (deviation,) = self.predict([place])
        return Band.from_deviation(mean, deviation, self.bands.ends)


def _predict_errors(
    factor: tuple[Floats, bool], cross: Floats, alone: Floats, errors: Sequence[float] | Floats
) -> tuple[Floats, Floats]:
    """Mean and deviation of some errors, of variances ``alone`` (P,), by what ``errors`` (K,) are
    known: ``factor`` is that of their covariance, and ``cross`` (K, P) theirs with the others."""
    means = cross.T @ scipy.linalg.cho_solve(factor, np.clip(errors, -_CUT, _CUT))
    rest = alone - np.einsum("kp,kp->p", cross, scipy.linalg.cho_solve(factor, cross))
    return means, np.sqrt(np.maximum(rest, 1e-12))


@dataclass(frozen=True)
class LeaveSourceOut:
    """Errors, each as the sources but its own see it."""

    bands: Bands
    places: tuple[Place, ...]
    errors: tuple[float, ...]

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """The rows of each source."""
        found: dict[str, list[int]] = {}
        for number, place in enumerate(self.places):
            found.setdefault(place.source, []).append(number)
        return found

    @cached_property
    def _covariances(self) -> tuple[Floats, Floats]:
        """(N, N) of different errors, and (N,) the variances of those of a source that is new."""
        places = [replace(place, free=False) for place in self.places]
        return self.bands.compute_full_covariance(self.places), self.bands.compute_variances(places)

    def predict(self, source: str, but: str = "") -> tuple[Floats, Floats]:
        """Mean and deviation of the errors of a source, known those of all others ``but`` one."""
        whole, alone = self._covariances
        own = self.groups[source]
        others = [n for n, place in enumerate(self.places) if place.source not in (source, but)]
        factor = scipy.linalg.cho_factor(whole[np.ix_(others, others)], lower=True)
        return _predict_errors(
            factor, whole[np.ix_(others, own)], alone[own], np.array(self.errors)[others]
        )

    def ends(self, but: str = "") -> tuple[tuple[float, float], ...]:
        """For each of SHARES the ends in deviations, of all sources ``but`` one, which has no part
        in them.  A source counts by the root of its rows: they share most of their errors."""
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
        """The intervals of a row's error, from other sources alone."""
        source = self.places[number].source
        means, deviations = self._predictions[source]
        at = self.groups[source].index(number)
        return Band.from_deviation(means[at], deviations[at], self.ends(source))

    @cached_property
    def _predictions(self) -> dict[str, tuple[Floats, Floats]]:
        return {source: self.predict(source) for source in self.groups}

    def list_pairs(self) -> list[tuple[int, int]]:
        """Pairs of runs of one source, GPU and kind; of a source as many as tell enough."""
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
        """Degrees and scale of Student's t of the differences of errors in pairs."""
        scores = [
            (self.errors[a] - self.errors[b])
            / self.bands.deviation_of_difference(self.places[a], self.places[b])
            for a, b in self.list_pairs()
            if self.places[a].source != but
        ]
        if len(scores) < 10:
            return 4.0, 1.0
        both = np.array([*scores, *(-score for score in scores)])  # which is first says nothing
        degrees, _, scale = scipy.stats.t.fit(both, 4.0, floc=0.0, scale=1.0)
        return float(np.clip(degrees, 2.0, 100.0)), float(scale)
