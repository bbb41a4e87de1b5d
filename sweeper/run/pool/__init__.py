"""Pools: where points are simulated."""

from sweeper.run.pool.pool import Pool, make_pool

__all__ = ["Pool", "make_pool"]
