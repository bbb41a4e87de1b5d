"""Searches: who proposes the points of a study."""

from sweeper.search.search import Search, make_search

__all__ = ["Search", "make_search"]
