"""Executors: where trials are simulated."""

from dimsweep.sweeper.run.executor.cluster import LostClusterError
from dimsweep.sweeper.run.executor.executor import EXECUTORS, Executor, make_executor
