"""Chakra execution traces."""

import dimsweep.engine
from dimsweep.engine import Cluster, within
from dimsweep.engine.formats.chakra import read_chakra_workload, read_groups
from dimsweep.sweeper.config.parts.part import File
from dimsweep.sweeper.config.parts.places import found
from dimsweep.sweeper.config.workload.workload import Workload


class ChakraTraces(Workload):
    """Chakra execution traces: ``traces`` is PREFIX of PREFIX.<rank>.et, or one .et file for all
    ranks; ``groups`` a file of communicator groups.  Both may lie beside the studies."""

    traces: File
    groups: File | None = None

    def build(self, cluster: Cluster) -> dimsweep.engine.Workload:
        groups = None if self.groups is None else found(self.groups)
        with within("workload.groups"):
            read_groups(groups, cluster.topology.n_npus)
        with within("workload.traces"):
            return read_chakra_workload(
                found(self.traces), groups, cluster.topology.sizes, self.name
            )
