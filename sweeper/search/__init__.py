"""Searches: who proposes the points of a study."""

from sweeper.search.choose import LEARN_FROM_SLOPES, make_search, sampler_of
from sweeper.search.search import Search, Slopes, Values

__all__ = ["LEARN_FROM_SLOPES", "Search", "Slopes", "Values", "make_search", "sampler_of"]
