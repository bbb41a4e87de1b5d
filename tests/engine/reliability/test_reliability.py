"""How often a job is interrupted, and what is known of its checkpoints."""

from dataclasses import replace

import numpy as np
import pytest

from dimsweep.engine import (
    Cluster,
    Compute,
    GraphBuilder,
    Prices,
    Topology,
    Workload,
    simulate,
)
from dimsweep.engine.errors import Code
from dimsweep.engine.reliability import Checkpoint, Reliability, find_best_interval
from dimsweep.engine.workload.graph import Amount
from dimsweep.engine.workload.models import Transformer
from tests.support.refused import refused

DAY = 86400.0
OFTEN = Reliability(1000 * DAY, 300.0, Checkpoint(bandwidth=1e11))


def test_a_job_of_more_npus_is_interrupted_more_often() -> None:
    found = [OFTEN.renewal(n, 1e12) for n in (100, 200)]
    assert [each.between for each in found] == [10 * DAY, 5 * DAY]
    assert found[0].effective_share > found[1].effective_share


@pytest.mark.parametrize(
    ("checkpoint", "state", "taken"),
    [
        (Checkpoint(bandwidth=1e11), 1e12, (10, 0)),
        (Checkpoint(bandwidth=1e11, stall=2.0), 1e12, (2, 8)),
        (Checkpoint(bandwidth=1e11, stall=20.0), 1e12, (10, 0)),  # it does not wait for nothing
        (Checkpoint(bandwidth=1e11, stall=2.0), 0.0, (2, 0)),
        (Checkpoint(stall=2.0), 1e12, (2, 0)),
        (Checkpoint(interval=60.0), 1e12, (0, 0)),
    ],
    ids=str,
)
def test_how_long_a_checkpoint_takes(
    checkpoint: Checkpoint, state: float, taken: tuple[float, float]
) -> None:
    assert checkpoint.pause_times(state) == taken


def test_checkpoints_are_as_near_as_they_can_be() -> None:
    """At the best interval, but not before the last one is kept, nor within an iteration."""
    between = OFTEN.renewal(100, 1e12).between
    assert OFTEN.renewal(100, 1e12).interval == find_best_interval(10.0, between)
    slow = replace(OFTEN, checkpoint=Checkpoint(bandwidth=1e7, stall=0.001))
    assert slow.renewal(100, 1e12).interval == pytest.approx(1e5 - 0.001)
    found = OFTEN.renewal(100, 1e12, np.array([1.0, 1e6])).interval
    assert np.array_equal(found, [find_best_interval(10.0, between), 1e6])
    told = replace(OFTEN, checkpoint=Checkpoint(interval=60.0))
    assert told.renewal(100, 1e12, 1.0).interval == 60


@pytest.mark.parametrize(
    ("made", "where", "code", "named"),
    [
        (lambda: Reliability(0.0, 1.0), "npu_time", "out-of-range", "0 s"),
        (lambda: Reliability(np.inf, 1.0), "npu_time", "out-of-range", "inf"),
        (lambda: Reliability(1.0, -1.0), "restart", "out-of-range", "-1 s"),
        (lambda: Checkpoint(stall=0.0), "stall", "out-of-range", "0 s"),
        (lambda: Checkpoint().pause_times(1e12), "", "missing", "interval=60 min"),
        (lambda: Checkpoint(bandwidth=1e9).pause_times(0.0), "stall", "missing", ""),
        (
            lambda: Checkpoint(interval=60.0, bandwidth=1e9, stall=1.0).pause_times(1e12),
            "interval",
            "conflict",
            "17 min",
        ),
    ],
)
def test_bad_settings_are_refused(made: object, where: str, code: Code, named: str) -> None:
    assert callable(made)
    with refused(where, code, named):
        made()


def test_nothing_is_left_where_restarts_take_longer_than_goes_well() -> None:
    with refused("npu_time", "infeasible", "100,000 NPUs", "14 m"):
        replace(OFTEN, restart=5 * 3600.0).renewal(100_000, 1e12)


def test_a_checkpoint_has_weights_and_the_optimizers_state() -> None:
    model = Transformer(hidden=64, layers=2, heads=4, sequence=32, vocabulary=100)
    parameters = model.amount(8, kept=1.0).state
    assert model.amount(8, kept=14.0).state == 14 * parameters
    assert model.amount(8).state == 0, "of a pass that changes no weight"
    assert parameters == pytest.approx(2 * 12 * 64**2 + (100 + 32) * 64, rel=0.02)


def one_second() -> Workload:
    graph = GraphBuilder()
    graph.add("step", Compute(duration=10**12))
    return Workload((graph.build(),), amount=Amount(8, 800, 2e12, state=1e12))


def test_figures_of_merit_count_what_is_kept() -> None:
    topology = Topology.build("Ring(4)", bandwidth=[2e9], latency=[0])
    prices = Prices((1e-9,), lifetime=1e6)
    calm = simulate(one_second(), Cluster(topology, prices=prices))
    assert calm.renewal is None
    assert "ettr" not in calm.merits
    result = simulate(one_second(), Cluster(topology, prices=prices, reliability=OFTEN))
    assert result.renewal is not None
    kept = float(result.renewal.effective_share)
    assert 0 < kept < 1
    assert result.merits["ettr"] == kept
    assert result.merits["effective_time_s"] == 1 / kept
    assert result.merits["tokens_per_s"] == calm.merits["tokens_per_s"], "while it trains"
    each = calm.merits["usd_per_token"]
    assert result.merits["usd_per_token"] == pytest.approx(each / kept)


def test_what_a_checkpoint_takes_is_asked_before_anything_is_simulated() -> None:
    topology = Topology.build("Ring(4)", bandwidth=[2e9], latency=[0])
    unknown = replace(OFTEN, checkpoint=Checkpoint())
    with refused("reliability.checkpoint", "missing"):
        simulate(one_second(), Cluster(topology, reliability=unknown))
