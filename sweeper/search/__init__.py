"""Searches: who proposes the trials of a study."""

from sweeper.search.choose import LEARN_FROM_SLOPES, make_sampler, sampler_name
from sweeper.search.sampler import Sampler, Slopes, Values

__all__ = ["LEARN_FROM_SLOPES", "Sampler", "Slopes", "Values", "make_sampler", "sampler_name"]
