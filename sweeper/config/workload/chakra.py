"""Chakra execution traces."""

from typing import ClassVar

import engine
from engine import Cluster
from engine.formats.chakra import read_chakra_workload, read_groups
from sweeper.config.parts.part import within
from sweeper.config.parts.places import found
from sweeper.config.workload.workload import Workload


class ChakraTraces(Workload):
    """Chakra execution traces: ``traces`` is PREFIX of PREFIX.<rank>.et, or one .et file for all
    ranks; ``groups`` a file of communicator groups.  Both may lie beside the studies."""

    FILES: ClassVar[tuple[str, ...]] = ("traces", "groups")

    traces: str
    groups: str | None = None

    def build(self, cluster: Cluster) -> engine.Workload:
        groups = None if self.groups is None else found(self.groups)
        with within("workload.groups"):
            read_groups(groups, cluster.topology.n_npus)
        with within("workload.traces"):
            return read_chakra_workload(
                found(self.traces), groups, cluster.topology.sizes, self.name
            )
