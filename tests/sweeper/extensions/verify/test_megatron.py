"""Published batch times of Megatron-LM: the smallest model, beside its formula for activations."""

import pytest

from dimsweep.sweeper.extensions.verify.megatron import CASES, simulate_case


def test_the_smallest_model_takes_its_published_time_and_activations() -> None:
    seconds, memory, formula = simulate_case(CASES[0], "full")
    assert seconds == pytest.approx(CASES[0].full, rel=0.1)
    assert 0.5 * formula < memory.activations < 2 * formula
