"""Searches: who proposes the points of a study."""

from sweeper.search.choose import make_search
from sweeper.search.search import Search, Values

__all__ = ["Search", "Values", "make_search"]
