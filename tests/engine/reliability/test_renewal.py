"""What interruptions leave of the time: published figures, laws, and a witness that draws them."""

import math
import random
from collections.abc import Iterator
from statistics import mean, stdev
from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.reliability import Renewal, find_best_interval

MINUTE, HOUR = 60.0, 3600.0
seconds = st.floats(0, 1e4)


@pytest.mark.parametrize(("hours", "best"), [(24, 117), (6, 57), (0.25, 9.1)])
def test_the_best_interval_is_dalys(hours: float, best: float) -> None:
    """Checkpoints of 5 minutes, figures 3 to 5, by a series that ends early: 9.17 are exact."""
    found = find_best_interval(5 * MINUTE, hours * HOUR) / MINUTE
    assert found == pytest.approx(best, rel=0.01)


def test_the_best_interval_is_as_exact_where_lamberts_function_is_not() -> None:
    at, below = (find_best_interval(stall, 1.0) for stall in (1e-8, 1e-8 * (1 - 1e-9)))
    assert at == pytest.approx(below, rel=2e-8)
    assert find_best_interval(0.0, HOUR) == 0


@given(st.floats(1e-3, 1e4), seconds, seconds, st.floats(1e3, 1e7), st.floats(0.01, 100))
def test_no_interval_keeps_more_than_the_best(
    stall: float, beside: float, restart: float, between: float, other: float
) -> None:
    best = find_best_interval(stall, between)
    kept = [
        float(Renewal(tau, stall, beside, restart, between).effective_share)
        for tau in (best, best * other)
    ]
    assert kept[1] <= kept[0] * (1 + 1e-9)


@given(st.floats(1, 1e4), seconds, seconds, seconds, st.floats(1e3, 1e7))
def test_shares_are_of_the_whole_and_fall_as_all_gets_worse(
    interval: float, stall: float, beside: float, restart: float, between: float
) -> None:
    given = (interval, stall, beside, restart, between)
    found = Renewal(*given)
    kept = float(found.effective_share)
    shares = [kept, float(found.writing_share), float(found.repeated_share), found.restarting_share]
    assert all(0 <= share <= 1 + 1e-12 for share in shares)
    assert sum(shares) == pytest.approx(1)
    for i in (1, 2, 3):
        worse = [*given[:i], given[i] + 100, *given[i + 1 :]]
        assert float(Renewal(*worse).effective_share) < kept or kept < 1e-12
    assert float(Renewal(*given[:4], between / 2).effective_share) < kept


@pytest.mark.parametrize(
    ("rate", "interval", "published"),
    [(6.5, 60, 0.7), (6.5, 5, 0.93)],
)
def test_what_is_left_is_as_published_of_16000_gpus(
    rate: float, interval: float, published: float
) -> None:
    """Kokolis et al. 2025: 2,000 nodes, failures per 1,000 node-days, restarts of 5 minutes, and
    writes that stop nothing; they are told to one or two digits."""
    between = 86400 / (2000 * rate / 1000)
    found = Renewal(interval * MINUTE, 0.0, 0.0, 5 * MINUTE, between)
    assert float(found.effective_share) == pytest.approx(published, abs=0.025)


@given(st.floats(60, 3600), st.floats(0, 60), st.floats(0, 600))
def test_where_interruptions_are_rare_it_is_the_published_formula(
    interval: float, stall: float, restart: float
) -> None:
    between = 1e8
    first_order = (1 - (restart + interval / 2) / between) / (1 + stall / interval)
    found = float(Renewal(interval, stall, 0.0, restart, between).effective_share)
    assert found == pytest.approx(first_order, rel=2e-6)


@pytest.mark.parametrize(
    "renewal",
    [
        Renewal(60.0, 5.0, 0.0, 30.0, 300.0),
        Renewal(60.0, 0.0, 40.0, 30.0, 300.0),
        Renewal(100.0, 10.0, 100.0, 100.0, 200.0),
        Renewal(40.0, 1.0, 10.0, 50.0, 500.0),
    ],
    ids=str,
)
def test_a_job_that_is_interrupted_keeps_as_much(renewal: Renewal) -> None:
    """Trained on SimPy, with interruptions that are drawn: within five standard errors."""
    kept = [share_kept(renewal, seed) for seed in range(24)]
    error = stdev(kept) / math.sqrt(len(kept))
    assert abs(mean(kept) - float(renewal.effective_share)) < 5 * error < 0.05


class Job:
    """A job that trains, takes checkpoints, and goes back to the last one that was kept."""

    def __init__(self, renewal: Renewal, seed: int) -> None:
        self.env, self.renewal = simpy.Environment(), renewal
        self.trained = self.effective_share = 0.0
        self.restarts = 0  # what was written before the last one is lost
        self.draw = random.Random(seed)
        self.env.process(self.interrupts(self.env.process(self.trains())))

    def trains(self) -> Iterator[Any]:
        wait, own = self.env.timeout, self.renewal
        while True:
            try:
                yield wait(own.interval)
                self.trained += float(own.interval)
                yield wait(own.stall)
                self.env.process(self.writes(self.trained, self.restarts))
            except simpy.Interrupt:
                yield from self.restart()

    def restart(self) -> Iterator[Any]:
        while True:
            self.restarts += 1
            self.trained = self.effective_share
            try:
                yield self.env.timeout(self.renewal.restart)
            except simpy.Interrupt:
                continue
            return

    def writes(self, trained: float, restarts: int) -> Iterator[Any]:
        yield self.env.timeout(self.renewal.beside)
        if restarts == self.restarts:
            self.effective_share = trained

    def interrupts(self, job: Any) -> Iterator[Any]:
        while True:
            yield self.env.timeout(self.draw.expovariate(1 / self.renewal.between))
            job.interrupt()


def share_kept(renewal: Renewal, seed: int) -> float:
    job, long = Job(renewal, seed), 500 * renewal.between
    job.env.run(until=long)
    return job.effective_share / long
