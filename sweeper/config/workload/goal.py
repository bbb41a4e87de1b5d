"""Schedules in GOAL."""

import dimsweep.engine
from dimsweep.engine import Cluster, within
from dimsweep.engine.formats import read_goal
from dimsweep.sweeper.config.parts.part import File
from dimsweep.sweeper.config.parts.places import found
from dimsweep.sweeper.config.workload.workload import Workload


class Goal(Workload):
    """A schedule in GOAL, the text of LogGOPSim and ATLAHS: ``file`` has a list of sends, receives
    and calculations (ns) for each rank."""

    file: File

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        with within("workload.file"):
            return read_goal(found(self.file), cluster.topology.sizes, self.name)
