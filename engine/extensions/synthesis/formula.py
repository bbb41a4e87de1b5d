"""Formulas of sizes, durations and counts: sums of products of powers of a job's keys.

Keys are numbers such as the hidden size or the degree of tensor parallelism.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, GetCoreSchemaHandler, PlainSerializer, Strict

Keys = Mapping[str, float]
_INTEGER = 0.002  # slopes within this distance of a whole number are rounded
_POWERS = range(-2, 4)
_MOST_TERMS = 256
_MOST_CHOSEN = 5
_CONSTANTS = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])  # of the least value
_SMALL = 1e-9  # smallest share of a term in the quantity
_EXACT = 1e-14  # a negligible mean square of relative errors
_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Term:
    """A term of a formula: ``factor`` times the keys to their ``powers``."""

    factor: float
    powers: dict[str, int]

    def __str__(self) -> str:
        return " * ".join([repr(self.factor), *(f"{k}^{p}" for k, p in self.powers.items())])

    @classmethod
    def from_text(cls, text: str) -> "Term":
        """Return the term that ``text`` describes.  Raises ValueError for other text."""
        factor, *powers = text.split(" * ")
        pairs = (power.rpartition("^") for power in powers)
        return cls(float(factor), {name: int(power) for name, _, power in pairs})

    def evaluate(self, keys: Keys) -> float:
        """Return the value of the term for the given values of ``keys``."""
        try:
            powers = (float(keys[name]) ** power for name, power in self.powers.items())
            return self.factor * math.prod(powers)
        except OverflowError:
            return math.inf


@dataclass(frozen=True)
class Formula:
    """A sum of terms, with the spread of observed values around it.

    Observed values are log-normal around the sum; ``spread`` is the standard deviation of their
    logarithm.
    """

    terms: tuple[Term, ...]
    spread: float = 0.0

    def __str__(self) -> str:
        """Return text such as ``3.0 * hidden^2 * tensor^-1 + 5.0; spread 0.03``."""
        spread = f"; spread {self.spread:.6g}" if self.spread else ""
        return (" + ".join(map(str, self.terms)) or "0.0") + spread

    @classmethod
    def from_text(cls, text: str) -> "Formula":
        """Return the formula that ``text`` describes.  Raises ValueError for other text."""
        terms, _, spread = text.partition("; spread ")
        found = map(Term.from_text, terms.split(" + "))
        return cls(tuple(term for term in found if term.factor), float(spread or 0.0))

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> Any:
        """Return Pydantic's schema, by which files store the formula as text."""
        return handler.generate_schema(
            Annotated[str, Strict(), AfterValidator(cls.from_text), PlainSerializer(str)]
        )

    def evaluate(self, keys: Keys) -> float:
        """Return the sum of the terms for the given values of ``keys``."""
        return sum(term.evaluate(keys) for term in self.terms)


def fit(values: Sequence[float], keys: Sequence[Keys], spread: float = 0.0) -> Formula:
    """Return the formula that fits ``values``, 0 or more, one for each of ``keys``.

    The slopes of the logarithm bound the integer power of each key.  Candidates are sums of the
    products of these powers: all single ones, all pairs, extensions of the best pair, and the
    solution of non-negative least squares for all products (Lawson and Hanson, by SciPy).  The
    Bayesian information criterion of the relative errors (Schwarz, Annals of Statistics 1978)
    chooses among them.
    """
    y = np.asarray(values, dtype=float)
    if not y.any():
        return Formula(())
    if np.ptp(y) <= 1e-12 * y.max():
        return Formula((Term(float(y[0]), {}),), spread)
    names = [name for name in keys[0] if len({each[name] for each in keys}) > 1]
    table = np.array([[float(each[name]) for name in names] for each in keys])
    weights = 1 / np.maximum(y, y.max() * 1e-9)
    powers = _powers(names, table, y)
    columns = np.stack([np.prod(table**power, axis=1) for power in powers], axis=1)
    columns *= weights[:, None]
    scale = columns.max(axis=0)
    factors = _weights(columns / scale, y * weights)
    terms = [
        Term(
            float(factors[i] / scale[i]),
            {n: int(p) for n, p in zip(names, powers[i], strict=True) if p},
        )
        for i in np.flatnonzero(factors)
    ]
    return Formula(tuple(terms), spread)


def _weights(columns: _Floats, y: _Floats) -> _Floats:
    """Return nonnegative weights of the columns whose weighted sum is nearest to ``y``."""
    from scipy.optimize import nnls

    n = columns.shape[1]
    everything = nnls(columns, y)[0]
    everything[everything < _SMALL] = 0  # columns are 1 at most, and so is y
    found = [everything]
    gram, target = columns.T @ columns, columns.T @ y
    best_single = (int(np.argmax(target**2 / np.diag(gram))),)
    for chosen in (best_single, _best_pair(gram, target)):
        while chosen and len(chosen) <= _MOST_CHOSEN:
            weights = np.zeros(n)
            weights[list(chosen)] = nnls(columns[:, list(chosen)], y)[0]
            found.append(weights)
            if len(chosen) == 1:
                break
            left = y - columns @ weights
            chosen = (*chosen, int(np.argmax(columns.T @ left / np.sqrt(np.diag(gram)))))

    def criterion(weights: _Floats) -> float:
        error = max(float(np.mean((columns @ weights - y) ** 2)), _EXACT)
        return len(y) * math.log(error) + np.count_nonzero(weights) * math.log(len(y))

    return min(found, key=criterion)


def _best_pair(gram: _Floats, target: _Floats) -> tuple[int, ...]:
    """Return the two columns that fit with positive weights and the least squared error.

    ``gram`` holds the columns' products with each other, ``target`` those with the values.
    """
    own = np.diag(gram)
    determinant = own[:, None] * own - gram**2
    with np.errstate(divide="ignore", invalid="ignore"):
        first = (target[:, None] * own - gram * target) / determinant
    fits = (determinant > 1e-9 * own[:, None] * own) & (first > 0) & (first.T > 0)
    gain = np.where(fits, first * target[:, None] + first.T * target, -np.inf)
    best = int(np.argmax(gain))
    return divmod(best, len(own)) if np.isfinite(gain.flat[best]) else ()


def _powers(
    names: Sequence[str], table: NDArray[np.float64], y: NDArray[np.float64]
) -> list[NDArray[np.int64]]:
    """Return candidate powers of the keys, a row for each term.

    They surround the slope of each key within its error; the least certain key varies first.  The
    slopes belong to the values above a constant (a launch, say), which is chosen so that the rest
    is closest to a product of powers.
    """
    logs = np.column_stack([np.ones(len(y)), np.log(table)])
    inverse = np.linalg.pinv(logs)
    targets = np.log(
        np.maximum(y - np.outer(_CONSTANTS, y).min(axis=1)[:, None], y.max() * 1e-12)
    ).T
    errors = ((logs @ (inverse @ targets) - targets) * np.exp(targets) / y[:, None]) ** 2
    target = targets[:, int(np.argmin(errors.sum(axis=0)))]
    slopes = inverse @ target
    left = max(len(y) - logs.shape[1], 1)
    variance = ((logs @ slopes - target) ** 2).sum() / left
    errors = np.sqrt(variance * np.diag(np.linalg.pinv(logs.T @ logs)))[1:]
    slopes = slopes[1:]
    ranges: list[tuple[int, ...]] = []
    for slope, error in zip(slopes, errors, strict=True):
        if abs(slope) < max(_INTEGER, 2.5 * error):
            ranges.append((0,))
        elif abs(slope - round(slope)) < _INTEGER and error < _INTEGER:
            ranges.append((round(slope),))
        else:
            low, high = math.floor(slope - error), math.ceil(slope + error)
            ranges.append(tuple(p for p in range(low, high + 1) if p in _POWERS) or (0,))
    while math.prod(map(len, ranges)) > _MOST_TERMS:
        widest = int(
            np.argmax(
                [len(each) - abs(s - round(s)) for each, s in zip(ranges, slopes, strict=True)]
            )
        )
        near = sorted(ranges[widest], key=lambda p: abs(p - slopes[widest]))
        ranges[widest] = tuple(sorted(near[:-1]))
    constant = (0,) * len(names)  # a launch, say
    return [np.array(each) for each in dict.fromkeys([constant, *itertools.product(*ranges)])]


def fit_product(values: Sequence[float], keys: Sequence[Keys], names: Sequence[str]) -> Formula:
    """Return the formula that is the exact product of the fewest keys in ``names``, or inverses.

    Without an exact product, returns the fitted formula of all keys.
    """
    y = np.asarray(values, dtype=float)
    varied = [name for name in names if len({each[name] for each in keys}) > 1]
    choices = itertools.product((0, 1, -1), repeat=len(varied))
    for powers in sorted(choices, key=lambda choice: sum(map(abs, choice))):
        term = Term(1.0, {name: power for name, power in zip(varied, powers, strict=True) if power})
        factors = y / [term.evaluate(each) for each in keys]
        if np.ptp(factors) <= 1e-9 * factors.max():
            return Formula((Term(float(factors[0]), term.powers),))
    return fit(values, keys)


def fit_count(values: Sequence[int], keys: Sequence[Keys]) -> Formula | None:
    """Return the simplest formula that equals all whole-numbered ``values``, or None.

    It has one to three terms: numbers, keys, and at most one ratio of two keys.
    """
    y = np.asarray(values, dtype=float)
    if not np.ptp(y):
        return Formula((Term(float(y[0]), {}),) if y[0] else ())
    columns = _plain_terms(keys)
    powers = list(columns.values())
    ratio = [len(power) > 1 for power in powers]
    table = np.array(list(columns))
    for n_terms in (1, 2, 3):
        exact: list[tuple[Term, ...]] = []
        for chosen in itertools.combinations(range(len(powers)), n_terms):
            if sum(ratio[i] for i in chosen) > 1:
                continue
            matrix = table[list(chosen)].T
            factors = np.linalg.lstsq(matrix, y, rcond=None)[0]
            if np.abs(matrix @ factors - y).max() < 1e-6:
                pairs = zip(factors, chosen, strict=True)
                exact.append(tuple(Term(round(float(f), 9), powers[i]) for f, i in pairs))
        if exact:
            return Formula(min(exact, key=_oddity))
    return None


def _plain_terms(keys: Sequence[Keys]) -> dict[tuple[float, ...], dict[str, int]]:
    """Return the powers of 1, of each key and of each ratio of two keys, by their values.

    Of keys with equal values only one is kept.
    """
    names = [name for name in keys[0] if len({each[name] for each in keys}) > 1]
    powers: list[dict[str, int]] = [{}, *({name: 1} for name in names)]
    powers += [{a: 1, b: -1} for a, b in itertools.permutations(names, 2)]
    found: dict[tuple[float, ...], dict[str, int]] = {}
    for power in powers:
        found.setdefault(tuple(Term(1.0, power).evaluate(each) for each in keys), power)
    return found


def _oddity(terms: Sequence[Term]) -> tuple[int, float]:
    """Return the complexity of a formula: number of fractional factors, and sum of all factors."""
    return sum(term.factor % 1 > 0 for term in terms), sum(abs(term.factor) for term in terms)
