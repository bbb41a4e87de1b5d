"""Objectives: one place says which of two values is the better one."""

import pytest

from dimsweep.sweeper.objective import (
    COST,
    OBJECTIVES,
    PERF_PER_COST,
    TIME,
    follows_slopes,
    parse_objectives,
)
from tests.support.refused import refused


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_a_lower_loss_is_better(objective) -> None:
    better, worse = (2.0, 1.0) if objective.maximised else (1.0, 2.0)
    assert objective.is_better(better, worse) and not objective.is_better(worse, better)
    assert not objective.is_better(better, better)
    assert objective.loss(better) < objective.loss(worse)
    assert objective.sign * better < objective.sign * worse
    assert objective.loss(objective.loss(worse)) == worse
    assert objective.is_within(worse, better, 1.0) and not objective.is_within(worse, better, 0.99)


def test_what_a_study_may_search_for() -> None:
    assert parse_objectives("time") == (TIME,)
    assert parse_objectives(["time", "cost"]) == (TIME, COST)
    for unknown in ("speed", [1]):
        with refused("", "unknown-name"):
            parse_objectives(unknown)
    for wrong in ([], ["time", "time"], ["time", "cost", "perf_per_cost"]):
        with refused("", "out-of-range"):
            parse_objectives(wrong)
    assert follows_slopes((TIME,)) and follows_slopes((PERF_PER_COST,))
    assert not follows_slopes((COST,)) and not follows_slopes((TIME, COST))


def test_values_are_shown_with_their_unit() -> None:
    shown = [TIME.show(0.7224), COST.show(2e7), PERF_PER_COST.show(1.5e-7)]
    assert shown == ["722.4 ms", "20.00 M USD", "0.15 it/s per M USD"]
    values = {"throughput": 12.5, "tokens_per_s": 1234567.0, "mfu": 0.4321, "energy": 2.5e6}
    values |= {"cost_per_token": 1.25e-6, "perf_per_watt": 3e-6}
    assert [OBJECTIVES[name].show(value) for name, value in values.items()] == [
        *("12.50 samples/s", "1.235 M tokens/s", "43.21%", "2.500 MJ"),
        *("1.250 USD/M tokens", "3.000 it/s per MW"),
    ]
