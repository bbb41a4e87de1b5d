"""Executors: where trials are simulated."""

from sweeper.run.executor.executor import EXECUTORS, Executor, LostClusterError, make_executor

__all__ = ["EXECUTORS", "Executor", "LostClusterError", "make_executor"]
