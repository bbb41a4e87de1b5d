"""How long a job waits for a repair: values, laws, and a witness that breaks nodes."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from dimsweep.engine.reliability import Checkpoint, Reliability, Renewal, Spares
from tests.engine.reliability.test_renewal import Job
from tests.support.refused import refused

DAY = 86400.0
some = st.builds(
    Spares, st.integers(0, 8), st.just(8), st.floats(1e3, 1e6), broken=st.floats(0.1, 1)
)


@pytest.mark.parametrize(
    ("load", "servers", "lost"),
    [(1.0, 1, 0.5), (1.0, 2, 0.2), (3.0, 3, 0.3462), (10.0, 10, 0.2146), (20.0, 30, 0.0085)],
)
def test_it_is_erlangs_formula(load: float, servers: int, lost: float) -> None:
    """So many servers, of which the job that waits has one: the first two are a half and a fifth by
    hand, the others the share of all states, summed."""
    assert Spares(servers - 1, 8, load).waiting_share(1.0) == pytest.approx(lost, abs=6e-5)


@given(some, st.floats(1e3, 1e7))
def test_it_is_the_sum_over_all_states(spares: Spares, between: float) -> None:
    load, n = spares.mean_broken_nodes(between), spares.nodes + 1
    states = [math.exp(k * math.log(load) - math.lgamma(k + 1)) for k in range(n + 1)]
    assert spares.waiting_share(between) == pytest.approx(states[-1] / sum(states))


@given(some, st.floats(1e4, 1e7))
def test_more_spares_wait_less_and_more_breakage_more(spares: Spares, between: float) -> None:
    own = spares.waiting_share(between)
    assert 0 < own < 1
    assert replace(spares, nodes=spares.nodes + 1).waiting_share(between) < own
    assert spares.waiting_share(between / 2) > own
    assert replace(spares, repair=2 * spares.repair).waiting_share(between) > own
    assert replace(spares, broken=spares.broken / 2).waiting_share(between) < own


@given(some, st.floats(1e5, 1e7), st.integers(8, 4096))
def test_no_other_number_of_spares_trains_more_for_each_node(
    spares: Spares, between: float, training: int
) -> None:
    best = spares.find_best_count(training, between)
    most = replace(spares, nodes=best).share_per_node(training, between)
    for other in range(best + 20):
        assert replace(spares, nodes=other).share_per_node(training, between) <= most * (1 + 1e-12)
    one = replace(spares, nodes=0)
    assert one.share_per_node(training, between) == pytest.approx(1 - one.waiting_share(between))


def test_spares_that_are_billed_already_are_not_paid_twice() -> None:
    spares = Spares(2, 8, DAY)
    assert spares.cost_multiplier(64, 64) == 80 / 64
    assert spares.cost_multiplier(64, 72) == 80 / 72
    assert spares.cost_multiplier(64, 96) == 1
    assert Reliability(DAY, 60.0).cost_multiplier(64, 64) == 1


def test_what_is_left_is_of_the_time_that_the_job_does_not_wait() -> None:
    known = Reliability(1000 * DAY, 300.0, Checkpoint(stall=10.0))
    spares = Spares(1, 8, DAY, broken=0.5)
    alone, found = known.renewal(100, 0.0), replace(known, spares=spares).renewal(100, 0.0)
    assert found.waiting == spares.waiting_share(10 * DAY)
    assert found.interval == alone.interval
    for share in ("effective_share", "writing_share", "restarting_share", "repeated_share"):
        own, other = (float(getattr(each, share)) for each in (alone, found))
        assert other == pytest.approx((1 - found.waiting) * own)
    shares = (
        found.effective_share,
        found.writing_share,
        found.repeated_share,
        found.restarting_share,
        found.waiting,
    )
    assert sum(map(float, shares)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("made", "where", "named"),
    [
        (lambda: Spares(-1, 8, DAY), "nodes", "-1"),
        (lambda: Spares(10**9, 8, DAY), "nodes", "1000000000"),
        (lambda: Spares(1, 0, DAY), "npus", "0"),
        (lambda: Spares(1, 8, 0.0), "repair", "0 s"),
        (lambda: Spares(1, 8, math.inf), "repair", "inf"),
        (lambda: Spares(1, 8, DAY, broken=1.5), "broken", "1.5"),
        (lambda: Spares(1, 8, DAY, broken=0.0), "broken", "0"),
    ],
)
def test_bad_settings_are_refused(made: Callable[[], object], where: str, named: str) -> None:
    with refused(where, "out-of-range", named):
        made()


def test_a_job_that_waits_for_ever_is_a_sentence() -> None:
    known = Reliability(DAY, 60.0, Checkpoint(stall=1.0), Spares(1, 8, 1e9 * DAY))
    with refused("spares", "infeasible"):
        known.renewal(8, 0.0)


class Mended(Job):
    """A job whose interruptions break a node, which comes back as a spare once it is repaired; no
    interruption comes while it waits for one."""

    def __init__(self, renewal: Renewal, spares: Spares, seed: int, *, is_fixed: bool) -> None:
        self.spares, self.is_fixed, self.waited = spares, is_fixed, 0.0
        super().__init__(renewal, seed)
        self.shelf = simpy.Container(self.env, init=spares.nodes)
        self.going = self.env.event().succeed()

    def interrupts(self, job: Any) -> Iterator[Any]:
        while True:
            yield self.env.timeout(self.draw.expovariate(1 / self.renewal.between))
            self.going = self.env.event()
            job.interrupt()
            if self.draw.random() < self.spares.broken:
                self.env.process(self.mends())
                began = self.env.now
                yield self.shelf.get(1)
                self.waited += self.env.now - began
            self.going.succeed()

    def mends(self) -> Iterator[Any]:
        own = self.spares.repair
        yield self.env.timeout(own if self.is_fixed else self.draw.expovariate(1 / own))
        yield self.shelf.put(1)

    def restart(self) -> Iterator[Any]:
        while True:
            self.restarts += 1
            self.trained = self.effective_share
            yield self.going
            try:
                yield self.env.timeout(self.renewal.restart)
            except simpy.Interrupt:
                continue
            return


@pytest.mark.parametrize("is_fixed", [False, True], ids=["drawn", "fixed"])
@pytest.mark.parametrize(
    "spares", [Spares(0, 8, 300.0), Spares(2, 8, 900.0), Spares(1, 8, 1200.0, broken=0.5)], ids=str
)
def test_a_job_whose_nodes_break_waits_as_long(spares: Spares, is_fixed: bool) -> None:
    """On SimPy, within five standard errors: whether repairs are drawn or all take as long."""
    renewal = Renewal(60.0, 5.0, 20.0, 30.0, 300.0, spares.waiting_share(300.0))
    kept, waited = list[float](), list[float]()
    for seed in range(12):
        job, long = Mended(renewal, spares, seed, is_fixed=is_fixed), 500 * renewal.between
        job.env.run(until=long)
        kept.append(job.effective_share / long)
        waited.append(job.waited / long)
    for found, told in ((waited, renewal.waiting), (kept, float(renewal.effective_share))):
        error = stdev(found) / math.sqrt(len(found))
        assert abs(mean(found) - told) < 5 * error < 0.1
    assert renewal.waiting > 0.2
