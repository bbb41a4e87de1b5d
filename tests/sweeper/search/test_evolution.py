"""CMA-ES by itself: a generation worked out by hand, and many against another implementation."""

import math

import numpy as np
import pytest

from dimsweep.sweeper.search.cmaes import Evolution

N, POPULATION = 5, 10


def test_a_generation_by_hand() -> None:
    """Parents that cancel each other out leave the mean; no step at all shrinks the deviation; and
    what was lost shrinks the covariance in its direction (tutorial, table 1, of n = 5 and 10)."""
    raw = math.log(5.5) - np.log(np.arange(1, 11))
    mass = raw[:5].sum() ** 2 / (raw[:5] ** 2).sum()
    one, c = 2 / (6.3**2 + mass), (mass + 2) / (mass + 10)
    mu = 2 * (0.25 + mass + 1 / mass - 2) / (49 + mass)
    weights = np.where(raw > 0, raw / raw[:5].sum(), (1 + one / mu) * raw / -raw[5:].sum())

    evolution = Evolution(np.full(N, 0.5), 0.1, POPULATION, seed=0)
    units = np.full((POPULATION, N), 0.5)
    units[5:, 1] += 0.2  # two deviations along the second axis, all lost
    evolution.tell(units, np.arange(POPULATION))
    assert evolution._mean.tolist() == [0.5] * N
    damping = 1 + c  # the rest of it is for populations that are larger
    assert evolution._sigma == pytest.approx(0.1 * math.exp(-c / damping))
    still = 1 - one - mu * weights.sum()
    expected = np.diag(np.full(N, still))
    expected[1, 1] += mu * N * weights[5:].sum()  # each of them counts as n long, squared
    assert evolution._covariance == pytest.approx(expected)


@pytest.mark.parametrize(("n", "population"), [(2, 6), (5, 10), (5, 60), (12, 24)])
def test_generations_are_those_of_another_implementation(n: int, population: int) -> None:
    """Both are told the same designs; that of the package ``cmaes`` has the rank-mu rate of the
    tutorial's first version, without its later 1/4, which its negative weights follow."""
    cmaes = pytest.importorskip("cmaes")
    ours = Evolution(np.full(n, 0.4), 1 / 6, population, seed=n)
    other = cmaes.CMA(mean=np.full(n, 0.4), sigma=1 / 6, population_size=population)
    rates, lost = ours._rates, other._weights < 0
    assert (rates.one, rates.step, rates.damping, rates.path) == pytest.approx(
        (other._c1, other._c_sigma, other._d_sigma, other._cc)
    )
    assert rates.mu == pytest.approx(other._cmu + 0.5 / ((n + 2) ** 2 + other._mu_eff))
    other._cmu = rates.mu
    most = (
        1 + rates.one / rates.mu,
        1
        + 2
        * other._weights[lost].sum() ** 2
        / (other._weights[lost] ** 2).sum()
        / (other._mu_eff + 2),
        (1 - rates.one - rates.mu) / (n * rates.mu),
    )
    other._weights[lost] *= min(most) / -other._weights[lost].sum()
    # It adds 1e-8 to lengths that it divides by, so the two part slowly.
    tilted = np.random.default_rng(n).standard_normal((n, n))
    for _ in range(20):
        units = ours.ask()
        losses = ((units - 0.6) @ tilted) ** 2 @ np.logspace(0, 3, n)
        ours.tell(units, losses)
        other.tell(list(zip(units, losses.tolist(), strict=True)))
        assert ours._mean == pytest.approx(other._mean, rel=1e-5)
        assert ours._sigma == pytest.approx(other._sigma, rel=1e-5)
        assert ours._covariance == pytest.approx(other._C, rel=1e-5, abs=1e-7)
