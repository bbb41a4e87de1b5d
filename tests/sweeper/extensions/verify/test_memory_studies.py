"""The published study on hierarchical memory: the points that a few designs decide."""

import pytest

from tests.support.designs import simulate_designs
from tests.support.published import published_values

STUDY = "hierarchical_memory"


def test_hierarchical_memory_is_as_fast_as_drives_and_its_optimised_design_four_times() -> None:
    designs = simulate_designs(STUDY, "grid={workload.model.sequence:[2048]}")
    drives, base, best = (result.time for result in designs.values())
    theirs = published_values(STUDY)["hierarchical memory over ZeRO-Infinity, time"]
    assert base / drives == pytest.approx(theirs, rel=0.01)
    assert 4.3 < drives / best < 5


def test_each_memory_has_the_rate_that_was_published() -> None:
    rates = published_values(STUDY)
    for (memory,), result in simulate_designs(f"{STUDY}_rate").items():
        assert 100 / result.time == pytest.approx(rates[f"rate of a GPU, {memory}"], rel=0.01)
