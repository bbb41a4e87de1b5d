"""What Optuna has no public name for; all that we know of its inside is here."""

from collections.abc import Iterator

import numpy as np


def random_states(sampler: object) -> Iterator[np.random.RandomState]:
    """The random numbers of a sampler of Optuna's and of its parts, always in the same order.

    Optuna can seed them anew, but not say where they are: so each part is looked through.
    """
    for part in vars(sampler).values():
        state = getattr(part, "rng", None)
        if isinstance(state, np.random.RandomState):
            yield state
        elif type(part).__module__.startswith("optuna.samplers") and hasattr(part, "__dict__"):
            yield from random_states(part)
