"""Searched keys: what a place between 0 and 1 is in values."""

import numpy as np
import pytest

from dimsweep.sweeper.config.compose import compose
from dimsweep.sweeper.config.study import Search
from dimsweep.sweeper.objective import TIME
from dimsweep.sweeper.search import SAMPLERS, Task
from dimsweep.sweeper.simulation.program import build_program
from dimsweep.sweeper.space.space import Choice, Range, Space, build_space
from tests.support.refused import refused


def parameters(text: str) -> Space:
    config = compose([f"+space.parameters={text}"]).config
    return build_space(config, build_program(config))


def test_a_logarithmic_range_has_equal_ratios() -> None:
    space = parameters("{workload.batch: {low: 1, high: 10000, log: true}}")
    batch = space.parameters["workload.batch"]
    found = [batch.from_unit(x) for x in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert found == [1, 10, 100, 1000, 10000]
    linear = parameters("{workload.batch: {low: 1, high: 10000}}").parameters["workload.batch"]
    assert linear.from_unit(0.5) == 5000


@pytest.mark.parametrize("sampler", ["random", "qmc", "tpe"])
def test_samplers_know_a_logarithmic_range(sampler: str) -> None:
    """Half of all values lie below the geometric mean; of equal steps only a hundredth would."""
    space = Space(None, {"a": Range(1.0, 1e4, None, log=True, integer=False, unit="us")})
    made = SAMPLERS[sampler](Task(sampler, Search(sampler=sampler), space, (TIME,)))
    values = [float(str(trial.parameters["a"]).split()[0]) for trial in made.ask(200)]
    assert min(values) >= 1.0 and max(values) <= 1e4
    assert 0.35 <= float(np.mean(np.array(values) < 100.0)) <= 0.65


def test_a_logarithmic_range_is_above_zero() -> None:
    with refused("", "out-of-range", "from 0 to 8"):
        parameters("{workload.batch: {low: 0, high: 8, log: true}}")


def test_values_and_ranges_keep_their_unit_and_step() -> None:
    space = parameters(
        "{collective.chunks: {values: [16, 64]}, topology.latency: {low: 1 us, high: 2 us, step: "
        "0.25 us}}"
    )
    assert space.parameters["collective.chunks"] == Choice((16, 64))
    latency = space.parameters["topology.latency"]
    assert [latency.from_unit(x) for x in (0.0, 0.3, 1.0)] == ["1.0 us", "1.25 us", "2.0 us"]


def test_a_number_is_the_listed_one_that_is_equal() -> None:
    """A configuration's default of 3.0 is the 3 of a list, which Optuna knows by its text."""
    assert repr(Choice((1, 3)).nearest(3.0)) == "3"
