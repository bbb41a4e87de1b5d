"""Samplers: who proposes the trials of a study."""

from dimsweep.sweeper.search.choose import (
    SAMPLERS,
    is_exhaustive,
    learns_from_slopes,
    make_sampler,
    n_trials,
    reason,
    sampler_name,
)
from dimsweep.sweeper.search.sampler import (
    STATE_VERSION,
    Resumable,
    Sampler,
    Slopes,
    State,
    Task,
    Values,
)
