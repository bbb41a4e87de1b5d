"""A cluster: its network, its NPUs, and the settings of its collective library."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.cluster.cost import Prices
from dimsweep.engine.cluster.network_model import NetworkModel
from dimsweep.engine.cluster.npu import Npu, ShareCurve
from dimsweep.engine.cluster.remote_memory import RemoteMemory
from dimsweep.engine.errors import Code, DimsweepError, prefixing_errors
from dimsweep.engine.kinds import CollectiveKind, DimensionOrder, QueueOrder
from dimsweep.engine.network.degrade import find_reduced_speeds
from dimsweep.engine.network.fabric import Auto
from dimsweep.engine.reliability import Reliability
from dimsweep.engine.settings import Bounds, Index, check_settings
from dimsweep.engine.topology.blocks import SubgroupBandwidth
from dimsweep.engine.topology.topology import Topology
from dimsweep.engine.units import MAX_PICOSECONDS, TIME, Duration

# --- collective libraries and measured collectives ------------------------------------------------


Knots = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class RailShares:
    """The shares of a rail's bandwidth that collectives reach, by number of nodes.

    Each curve has pairs of nodes and share, by rising nodes.  Between two pairs the share is linear
    in the logarithm of the nodes.  Fewer nodes have the share of the first pair.
    """

    #: All-reduces: with more nodes they keep the share of the last pair, as trees do.
    all_reduce: Knots
    #: All other collectives: with more nodes their share falls on as between the last two pairs,
    #: as that of rings does, whose steps are as many as the ranks.
    all_gather: Knots

    def __post_init__(self) -> None:
        for where, knots in vars(self).items():
            with prefixing_errors(where):
                ShareCurve(knots)

    def find(self, kind: CollectiveKind, nodes: int) -> float:
        """Return the share of a rail's bandwidth that a collective on ``nodes`` nodes reaches."""
        knots = self.all_gather
        if kind is CollectiveKind.ALL_REDUCE:
            return ShareCurve(self.all_reduce).evaluate(nodes)
        most, share = knots[-1]
        if nodes <= most or len(knots) == 1:
            return ShareCurve(knots).evaluate(nodes)
        fewer, higher = knots[-2]
        slope = math.log(share / higher) / math.log(most / fewer)
        return share * (nodes / most) ** min(slope, 0.0)


@dataclass(frozen=True)
class Nccl:
    """NCCL on GPUs of one kind.

    ``gpu`` is a name in :data:`engine.collective.library.nccl.gpus.GPUS`.  ``algo``, ``proto`` and
    ``nvls_enable`` are the values of NCCL_ALGO, NCCL_PROTO and NCCL_NVLS_ENABLE.
    """

    gpu: str
    algo: str = ""
    proto: str = ""
    nvls_enable: int = 2  # 0: NCCL does without the NVLink switch's reduction
    rails: RailShares | None = None  # None: as on InfiniBand


class Timing(NamedTuple):
    """A measured collective among ``ranks`` GPUs on ``nodes`` nodes.

    ``n_bytes`` is the size that nccl-tests prints: the larger of a rank's input and output.
    ``duration`` is in picoseconds.
    """

    kind: CollectiveKind
    ranks: int
    nodes: int
    n_bytes: int
    duration: int


@dataclass(frozen=True)
class Timings:
    """Measured collectives of a cluster; ``source`` is the file that contains them.

    ``bandwidth`` (bytes/s) is the bandwidth of each dimension during the measurement; empty: that
    of the topology.
    """

    timings: tuple[Timing, ...]
    source: str
    bandwidth: tuple[float, ...] = ()
    left_out: str = ""  #: the rows of the source that are no timings, such as "2 rows of broadcast"


# --- clusters -------------------------------------------------------------------------------------


_Chunks = Annotated[int, Bounds(at_least=1, at_most=65536)]
_DELAY = Bounds(at_least=0, at_most=MAX_PICOSECONDS)


@dataclass(frozen=True)
class CollectiveModel:
    """The settings of the collective library.

    A ``library`` and ``timings`` exclude ``algorithms`` and Themis.
    """

    #: Chunks that a collective is split into.
    chunks: _Chunks = 64
    #: Order in which the chunks of a collective pass the dimensions.
    order: DimensionOrder = DimensionOrder.BASELINE
    #: Order in which a port serves its waiting chunks.
    queue: QueueOrder = QueueOrder.FIFO
    #: Bandwidth of a group that spans a part of a dimension's NPUs: of the group's own links
    #: (`physical`), or, optimistically, of all links of the dimension (`full`).
    subgroup_bandwidth: SubgroupBandwidth = SubgroupBandwidth.PHYSICAL
    #: Time that each step of a collective takes at its sender and receiver.
    endpoint_delay: Annotated[int, TIME, _DELAY] = Duration(0, "0 ns")
    #: Algorithm of each dimension; `auto`, or an empty tuple: the block's topology-aware one.
    algorithms: tuple[str, ...] = ()
    #: Algorithm of all-to-alls in each dimension; `auto`: the block's own.
    all_to_all: tuple[str, ...] = ()
    #: Chunks of a collective that crosses one dimension only, where chunks cannot overlap; by
    #: default the value of `chunks`.
    chunks_on_one_dimension: _Chunks | None = None
    #: Streams of a group. Its collectives are assigned to them in turn, and each stream runs one at
    #: a time.
    streams: _Chunks = 1
    #: Collective library, which chooses algorithm and protocol of each collective over all
    #: dimensions.
    library: Nccl | None = None
    #: Times of collectives measured on the cluster itself.
    timings: Timings | None = None
    #: Number of innermost dimensions within a node, for a library and for measured times.
    node_dimensions: Index = 1

    def __post_init__(self) -> None:
        check_settings(self)
        if self.library is not None or self.timings is not None:
            self._check_library()

    def _check_library(self) -> None:
        """Raise :class:`DimsweepError` for settings that a library or timings already determine."""
        source = "NCCL" if self.library is not None else "the measured collectives"
        for key in ("algorithms", "all_to_all"):
            if any(name != "auto" for name in getattr(self, key)):
                problem = f"{source} determines the algorithms"
                raise DimsweepError(problem, where=key, hint="use auto", code="conflict")
        if self.order is not DimensionOrder.BASELINE:
            problem, hint = f"{source} determines the order of dimensions", "use baseline"
            raise DimsweepError(problem, where="order", hint=hint, code="conflict")


class OtherNpus(NamedTuple):
    """NPUs of the network, by their numbers, that are a different ``npu``."""

    npu: Npu
    at: tuple[int, ...]


class Npus(NamedTuple):
    """NPUs of several ``kinds``; ``of`` holds the kind of each rank, (N,), or None for one kind."""

    kinds: tuple[Npu, ...]
    of: NDArray[np.int64] | None

    def peak(self, flops: float, narrow: Mapping[str, float]) -> float | None:
        """Return the mean peak FLOP/s over all NPUs; None unless all NPUs state a peak.

        ``flops`` is the number of FLOPs to compute, and ``narrow`` the number of them in each
        narrower precision.
        """
        peaks = [npu.peak(flops, narrow) for npu in self.kinds]
        known = [peak for peak in peaks if peak is not None]
        if len(known) < len(self.kinds):
            return None
        # The mean of equal numbers might round.
        return known[0] if len({*known}) == 1 else float(np.array(known)[self.of].mean())


@dataclass(frozen=True)
class Cluster:
    """The hardware and libraries that a workload runs on."""

    topology: Topology
    npu: Npu = field(default_factory=Npu)
    collectives: CollectiveModel = field(default_factory=CollectiveModel)
    network: NetworkModel = field(default_factory=NetworkModel)
    prices: Prices | None = None
    memory: RemoteMemory | None = None  # of each NPU, beyond its own
    power: Prices | None = None  # in watts
    other_npus: tuple[OtherNpus, ...] = ()  # those that are no ``npu``
    reliability: Reliability | None = None  # None: nothing ever fails

    @property
    def npus(self) -> Npus:
        """NPUs by rank; NPUs that differ from ``npu``, or are slower, form separate kinds.

        Raises :class:`DimsweepError` for a graph whose number of NPUs differs from the topology's,
        for an NPU number that does not exist or belongs to two kinds, and for kinds that reduce at
        different rates, because collectives assume one rate.
        """
        model = self.network
        n_npus = self.topology.n_npus if model.graph is None else model.graph.n_npus
        with prefixing_errors("network.degrade"):
            slow = find_reduced_speeds(model.degrade, n_npus)
        if not slow and not self.other_npus:
            return Npus((self.npu,), None)
        model.check_npus(self.topology.n_npus)
        whole = np.ones(n_npus, dtype=[("kind", np.int64), ("share", float)])
        whole["kind"] = 0
        whole["share"][list(slow)] = list(slow.values())
        for number, (npu, numbers) in enumerate(self.other_npus):
            with prefixing_errors(f"other_npus[{number}]"):
                self._check_others(npu, numbers, whole["kind"])
            whole["kind"][list(numbers)] = number + 1
        own = whole[list(model.placement)] if model.placement else whole
        found, of = np.unique(own, return_inverse=True)
        each = (self.npu, *(other.npu for other in self.other_npus))
        kinds = (replace(each[i], speed=each[i].speed * share) for i, share in found.tolist())
        return Npus(tuple(kinds), of if len(found) > 1 else None)

    @property
    def slowest_speed(self) -> float:
        """Speed of the slowest NPU as a fraction of the speed of ``npu``.

        Raises as :attr:`npus` does.
        """
        return min(npu.speed for npu in self.npus.kinds) / self.npu.speed

    def _check_others(self, npu: Npu, numbers: tuple[int, ...], taken: NDArray[np.int64]) -> None:
        outside = [i for i in numbers if not 0 <= i < len(taken)]
        if outside or not numbers:
            problem = f"unknown NPU {outside[0]}" if outside else "no NPU is given"
            hint = f"NPUs are numbered from 0 to {len(taken) - 1}"
            code: Code = "unknown-name" if outside else "missing"
            raise DimsweepError(problem, where="at", hint=hint, code=code)
        seen = Counter(numbers)
        if twice := [i for i in numbers if taken[i] or seen[i] > 1]:
            problem = f"NPU {twice[0]} is given twice"
            raise DimsweepError(problem, where="at", hint="give each NPU once", code="duplicate")
        if npu.reduce_bandwidth != self.npu.reduce_bandwidth:
            raise DimsweepError(
                "all members of a collective must reduce at the same rate",
                where="npu.reduce_bandwidth",
                hint="give the value of npu.reduce_bandwidth, or null for both",
                code="conflict",
            )

    @property
    def symmetric_dims(self) -> tuple[bool, ...]:
        """For each dimension, True if its NPUs are interchangeable."""
        network = self.network
        plain = network.graph is None and network.interconnect is None and self.npus.of is None
        free = plain and not any(fabric != Auto() for fabric in network.fabrics)
        return tuple(free and dim.block.is_symmetric for dim in self.topology.dims)
