"""A cluster: network, NPU, and how the collective library uses the network."""

from dataclasses import dataclass, field

from engine.checked import convert
from engine.cluster.blocks import SubgroupBandwidth
from engine.cluster.blocks.topology import Topology
from engine.cluster.cost import Prices
from engine.cluster.library import Nccl, Timings
from engine.cluster.memory import RemoteMemory
from engine.cluster.network import NetworkModel
from engine.cluster.npu import Npu
from engine.errors import DimsweepError
from engine.kinds import DimensionOrder, QueueOrder
from engine.network.fabric import Auto
from engine.units import MAX_PICOSECONDS


@dataclass(frozen=True)
class CollectiveModel:
    """How the collective library splits and schedules.

    ``algorithms`` holds one name a dimension, ``"auto"`` for the block's topology-aware algorithm
    (an empty tuple means auto everywhere), ``all_to_all`` those of all-to-alls likewise, ``"auto"``
    for the block's own.  ``endpoint_delay`` is picoseconds per step.
    ``chunks_on_one_dimension``: of a collective that crosses only one, where chunks have nothing to
    overlap with; as many as ``chunks`` unless given.
    ``streams``: a group's collectives take this many streams in turn, and each runs one at a time.

    A ``library`` runs each collective over all its dimensions as it sees fit, and ``timings`` are
    what collectives took on the cluster itself; either knows which ranks share a node: those that
    the innermost ``node_dimensions`` join.  They leave no room for ``algorithms`` or Themis.
    """

    chunks: int = 64
    order: DimensionOrder = DimensionOrder.BASELINE
    queue: QueueOrder = QueueOrder.FIFO
    subgroup_bandwidth: SubgroupBandwidth = SubgroupBandwidth.PHYSICAL
    endpoint_delay: int = 0
    algorithms: tuple[str, ...] = ()
    all_to_all: tuple[str, ...] = ()
    chunks_on_one_dimension: int | None = None
    streams: int = 1
    library: Nccl | None = None
    timings: Timings | None = None
    node_dimensions: int = 1

    def __post_init__(self) -> None:
        convert(self)
        for key in ("chunks", "chunks_on_one_dimension", "streams"):
            number = getattr(self, key)
            if number is not None and not 1 <= number <= 65536:
                raise DimsweepError(f"{number} is not in 1..65536", where=key)
        if not 0 <= self.endpoint_delay <= MAX_PICOSECONDS:
            raise DimsweepError(f"{self.endpoint_delay} ps is no delay", where="endpoint_delay")
        if self.node_dimensions < 0:
            raise DimsweepError(f"{self.node_dimensions} is less than 0", where="node_dimensions")
        if self.library is not None or self.timings is not None:
            self._check_library()

    def _check_library(self) -> None:
        """Whether nothing else is told to do what the library does."""
        who = "NCCL" if self.library is not None else "what was measured"
        for key in ("algorithms", "all_to_all"):
            if any(name != "auto" for name in getattr(self, key)):
                raise DimsweepError(f"{who} says which algorithms run", where=key)
        if self.order is not DimensionOrder.BASELINE:
            raise DimsweepError(f"{who} has no order of dimensions but its own", where="order")


@dataclass(frozen=True)
class Cluster:
    """Everything a workload runs on."""

    topology: Topology
    npu: Npu = field(default_factory=Npu)
    collectives: CollectiveModel = field(default_factory=CollectiveModel)
    network: NetworkModel = field(default_factory=NetworkModel)
    prices: Prices | None = None
    memory: RemoteMemory | None = None  # of each NPU, beyond its own
    power: Prices | None = None  # in watts

    @property
    def symmetric(self) -> tuple[bool, ...]:
        """Of each dimension, whether NPUs may change places in it without any effect."""
        free = (self.network.graph, self.network.wafer) == (None, None) and not any(
            fabric != Auto() for fabric in self.network.fabrics
        )
        return tuple(free and dim.block.symmetric for dim in self.topology.dims)
