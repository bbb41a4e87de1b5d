"""Where a sampler of Optuna's is in its random numbers, in the version that is installed."""

import numpy as np
import optuna
import pytest

from dimsweep.sweeper.search.optuna_sampler import random_states

SAMPLERS = {
    "TPESampler": {"n_startup_trials": 3},
    "NSGAIISampler": {"population_size": 4},
    "RandomSampler": {},
}


def proposed(study: optuna.Study, n: int) -> list[dict[str, float]]:
    found = []
    for _ in range(n):
        trial = study.ask({name: optuna.distributions.FloatDistribution(0, 1) for name in "ab"})
        study.tell(trial, (trial.params["a"] - 0.3) ** 2 + trial.params["b"])
        found.append(trial.params)
    return found


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_with_the_states_of_another_proposes_the_same(name: str) -> None:
    """So all of them are found: a part whose state was forgotten would propose something else."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    one, other = (
        optuna.create_study(sampler=getattr(optuna.samplers, name)(seed=seed, **SAMPLERS[name]))
        for seed in (1, 2)
    )
    proposed(one, 12)
    other.add_trials(one.get_trials())
    states = list(random_states(one.sampler))
    for own, kept in zip(random_states(other.sampler), states, strict=True):
        own.set_state(kept.get_state())
    assert len({id(state) for state in states}) >= 1
    assert proposed(other, 12) == proposed(one, 12)
    assert not np.array_equal(states[0].get_state()[1], np.random.RandomState(1).get_state()[1])
