"""A Ray cluster of several nodes on this machine, of which any part may be killed."""

import os
import random
import signal
from contextlib import suppress
from typing import Any

from dimsweep.sweeper.run.executor.cluster import _TOKEN
from dimsweep.sweeper.run.executor.ray_inside import reload_environment
from tests.support.processes import offspring, parent, processes

ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": _TOKEN,  # Ray keeps the first one that it reads in a process
    "RAY_raylet_start_wait_time_s": "300",  # on a machine with much else to do
}


class Nodes:
    """A head without CPUs, and nodes of one CPU each; they start in the current folder.

    The environment must hold :data:`ENVIRONMENT`.
    """

    def __init__(self, n: int) -> None:
        import ray
        from ray.cluster_utils import Cluster

        reload_environment(
            ray
        )  # a sweep of this process may have kept Ray to the loopback interface
        self._cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        self.address = str(self._cluster.address)
        self.workers: list[Any] = []
        self._orphans: list[int] = []
        self.fill(n)

    def close(self) -> None:
        """End all that is left of it, agents of killed daemons as well: Ray lets them live on for
        some minutes."""
        self._cluster.shutdown()
        for pid in self._orphans:
            _kill(pid)

    def fill(self, n: int) -> None:
        """Add nodes until there are ``n``."""
        while len(self.workers) < n:
            self.workers.append(self._cluster.add_node(num_cpus=1))

    def kill_actor(self, draw: random.Random) -> bool:
        """Kill one of the actors; whether there was one."""
        raylets = {_pid(node, "raylet") for node in self.workers}
        actors = [pid for pid in processes("ray::Guest") if parent(pid) in raylets]
        if actors:
            _kill(draw.choice(actors))
        return bool(actors)

    def kill_node(self, draw: random.Random) -> None:
        """Kill a node's daemon, which ends its actors."""
        node = self.workers.pop(draw.randrange(len(self.workers)))
        self._kill_daemon(_pid(node, "raylet"))

    def kill_head(self, *, whole: bool) -> None:
        """Kill the head's table of the cluster, and its node as well if ``whole``."""
        head = self._cluster.head_node
        _kill(_pid(head, "gcs_server"))
        if whole:
            self._kill_daemon(_pid(head, "raylet"))

    def _kill_daemon(self, pid: int) -> None:
        self._orphans += offspring(pid)
        _kill(pid)


def _pid(node: Any, kind: str) -> int:
    (process,) = node.all_processes[kind]
    return int(process.process.pid)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
