"""Executors: where trials are simulated."""

from sweeper.run.executor.executor import EXECUTORS, Executor, make_executor

__all__ = ["EXECUTORS", "Executor", "make_executor"]
