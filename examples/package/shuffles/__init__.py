"""Shuffles: every NPU sends a part of its data to every other one, round after round."""

from dimsweep import engine
from dimsweep.engine import Cluster, Collective, CollectiveKind, GraphBuilder, place
from dimsweep.sweeper.config.workload import KINDS, Workload
from dimsweep.sweeper.part import Bytes, WholeNumber, default


class Shuffle(Workload):
    """``rounds`` all-to-alls of the axis ``all``, one after the other, in each of which an NPU
    has ``size`` to send."""

    size: Bytes = default("64 MiB")
    rounds: WholeNumber = 4

    def build(self, cluster: Cluster) -> engine.Workload:
        """One graph for all NPUs."""
        graph = GraphBuilder()
        before: tuple[int, ...] = ()
        for number in range(self.rounds):
            shuffle = Collective(CollectiveKind.ALL_TO_ALL, self.size, "all")
            before = (graph.add(f"round {number}", shuffle, before),)
        groups = place(self.parallel, cluster.topology.sizes)
        return engine.Workload((graph.build(),), groups)


KINDS["shuffle"] = Shuffle
