"""Samplers: who proposes the trials of a study."""

from sweeper.search.choose import (
    SAMPLERS,
    is_exhaustive,
    learns_from_slopes,
    make_sampler,
    n_trials,
    reason,
    sampler_name,
)
from sweeper.search.sampler import STATE_VERSION, Resumable, Sampler, Slopes, State, Task, Values

__all__ = [
    "SAMPLERS",
    "STATE_VERSION",
    "Resumable",
    "Sampler",
    "Slopes",
    "State",
    "Task",
    "Values",
    "is_exhaustive",
    "learns_from_slopes",
    "make_sampler",
    "n_trials",
    "reason",
    "sampler_name",
]
