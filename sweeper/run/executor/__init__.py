"""Executors: where trials are simulated."""

from sweeper.run.executor.executor import Executor, make_executor

__all__ = ["Executor", "make_executor"]
