"""Samplers: algorithms that propose the trials of a study."""

from dimsweep.sweeper.search.choose import (
    SAMPLERS,
    explain_choice,
    is_exhaustive,
    learns_from_slopes,
    make_sampler,
    n_trials,
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
