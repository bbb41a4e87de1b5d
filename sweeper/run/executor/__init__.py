"""Executors: simulate trials in this process, or in workers of a Ray cluster."""

from dimsweep.sweeper.run.executor.cluster import LostClusterError
from dimsweep.sweeper.run.executor.executor import EXECUTORS, Executor, make_executor
