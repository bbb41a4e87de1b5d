"""The linearised posterior, against one that is worked out on a grid, and its robustness."""

import numpy as np
import pytest
from scipy.stats import t as student

from dimsweep.sweeper.calibrate.posterior import DEGREES, Errors, LeaveOneOut, fit_posterior

WIDTHS, MOST = np.array([0.1, 0.5]), np.array([0.3, np.inf])
STEPS = np.full(2, 0.05)
PARTS = np.array([[3.0, 1.0], [1.0, 2.0], [2.0, 0.2]])  # seconds that each parameter divides


def simulate(at: np.ndarray) -> np.ndarray:
    return np.log((PARTS * np.exp(at)).sum(axis=1) + 0.5)


def test_the_posterior_is_that_of_a_grid() -> None:
    measured = simulate(np.array([0.08, -0.3])) + np.array([0.01, -0.02, 0.015])
    deviations = np.full(3, 0.05)
    found, _ = fit_posterior(
        simulate, measured, Errors.independent(deviations), WIDTHS, MOST, STEPS
    )
    axes = np.linspace(-0.3, 0.3, 161), np.linspace(-1.5, 1.2, 241)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    said = np.log((PARTS[None] * np.exp(grid)[:, None, :]).sum(axis=2) + 0.5)
    scores = (measured - said) / deviations / found.scale
    logs = student.logpdf(scores, DEGREES).sum(axis=1) - ((grid / WIDTHS) ** 2).sum(axis=1) / 2
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ grid
    covariance = (grid - mean).T @ ((grid - mean) * weights[:, None])
    sure = np.sqrt(np.diag(covariance))
    assert found.mean == pytest.approx(mean, abs=0.25 * sure.min())
    assert np.sqrt(np.diag(found.covariance)) == pytest.approx(sure, rel=0.2)


def test_one_wrong_measurement_moves_little_and_is_found() -> None:
    rng = np.random.default_rng(1)
    parts = rng.uniform(0.2, 3, (9, 2))

    def many(at: np.ndarray) -> np.ndarray:
        return np.log((parts * np.exp(at)).sum(axis=1))

    right = many(np.array([0.1, 0.4])) + rng.normal(0, 0.01, 9)
    wrong = right.copy()
    wrong[4] += 1.1  # three times as slow as its neighbours
    deviations = np.full(9, 0.03)
    good, _ = fit_posterior(many, right, Errors.independent(deviations), WIDTHS, MOST, STEPS)
    found, linear = fit_posterior(many, wrong, Errors.independent(deviations), WIDTHS, MOST, STEPS)
    assert found.mean == pytest.approx(good.mean, abs=0.05)
    scores = np.abs(LeaveOneOut(linear, WIDTHS, MOST).scores)
    assert scores.argmax() == 4 and scores[4] > 3 > np.delete(scores, 4).max()


def test_what_measurements_share_is_not_laid_at_the_parameters_door() -> None:
    """As many rows of one model as one likes say as much of the machine as one of them."""
    measured, own = np.full(50, 0.2), np.full(50, 0.01)
    apart, together = Errors.independent(own), Errors(own, np.full((50, 1), 0.1))

    def one(at: np.ndarray) -> np.ndarray:
        return np.full(50, at[0])

    width, most = np.array([0.1]), np.array([np.inf])
    assert fit_posterior(one, measured, apart, width, most, STEPS)[0].mean == pytest.approx(
        [0.2], abs=0.001
    )
    found, _ = fit_posterior(one, measured, together, width, most, STEPS)
    assert found.mean == pytest.approx([0.1], abs=0.001)  # half of it: both are as likely
    assert np.sqrt(found.covariance[0, 0]) == pytest.approx(0.1 * np.sqrt(0.5), rel=0.01)


def test_nothing_measured_leaves_the_prior_and_no_share_passes_one() -> None:
    few = np.log(np.array([4.5])), Errors.independent(np.array([10.0]))
    found, _ = fit_posterior(lambda at: simulate(at)[:1], *few, WIDTHS, MOST, STEPS)
    assert found.mean == pytest.approx([0, 0], abs=0.01)
    assert np.sqrt(np.diag(found.covariance)) == pytest.approx(WIDTHS, rel=0.02)
    fast = np.full(3, 5.0), Errors.independent(np.full(3, 0.02))
    assert fit_posterior(simulate, *fast, WIDTHS, MOST, STEPS)[0].mean[0] <= MOST[0] + 1e-6


def test_many_synthetic_machines_are_found_within_their_intervals() -> None:
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(60):
        truth = rng.normal(0, WIDTHS).clip(-1, MOST - 0.01)
        parts = rng.uniform(0.2, 3, (5, 2))

        def simulated(at: np.ndarray, parts: np.ndarray = parts) -> np.ndarray:
            return np.log((parts * np.exp(at)).sum(axis=1))

        measured = simulated(truth) + rng.normal(0, 0.04, 5)
        found, _ = fit_posterior(
            simulated, measured, Errors.independent(np.full(5, 0.04)), WIDTHS, MOST, STEPS
        )
        sure = student.ppf(0.95, found.degrees) * np.sqrt(np.diag(found.covariance))
        inside += list(np.abs(found.mean - truth) <= sure)
    assert 0.85 <= np.mean(inside) <= 1.0
