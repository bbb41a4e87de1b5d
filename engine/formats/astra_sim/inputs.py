"""ASTRA-sim 2.0's input files: system, network and remote memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.cluster.blocks import BLOCKS, Block
from engine.errors import DimsweepError
from engine.formats.chakra.node import Node
from engine.formats.fields import Fields, is_number, is_whole, read_json, read_yaml

GIB = 2**30  # what a network "GB/s" is here
_ALGORITHM = re.compile(
    r"ring|direct\d*|halvingDoubling|doubleBinaryTree|oneRing|oneDirect|oneHalvingDoubling"
)
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_MEMORY_TYPES = (
    "NO_MEMORY_EXPANSION",
    "PER_NPU_MEMORY_EXPANSION",
    "PER_NODE_MEMORY_EXPANSION",
    "MEMORY_POOL",
)


@dataclass(frozen=True)
class Network:
    """The dimensions: a link's ``gigabytes`` (of 2^30 bytes) a second, ``latency`` in ns a hop."""

    blocks: tuple[Block, ...]
    sizes: tuple[int, ...]
    gigabytes: tuple[float, ...]
    latency: tuple[float, ...]

    @property
    def bandwidth(self) -> tuple[float, ...]:
        """Bytes per ns."""
        return tuple(g * GIB / 1e9 for g in self.gigabytes)

    @property
    def links(self) -> tuple[int, ...]:
        """How many links an NPU has in each dimension."""
        pairs = zip(self.blocks, self.sizes, strict=True)
        return tuple(block.links(n) if n > 1 else 1 for block, n in pairs)

    @property
    def n_npus(self) -> int:
        n = 1
        for size in self.sizes:
            n *= size
        return n


@dataclass(frozen=True)
class BusModel:
    """A shared memory bus: LogGP's parameters (ns), and ns for reducing a hundred bytes."""

    latency: int
    overhead: int
    gap: int
    per_byte: float
    reduction: int


@dataclass(frozen=True)
class System:
    """What of ``system.json`` decides a time.  Delays in ns, rates in bytes/s and FLOP/s."""

    algorithms: Mapping[str, tuple[str, ...]]
    custom: Mapping[str, str]
    splits: int
    endpoint_delay: int
    active_chunks: int
    scheduling: str  # LIFO, FIFO, EXPLICIT
    optimization: str  # baseline, localBWAware
    inter_dimension: str  # baseline, themis, offlineGreedyFlex, roundRobin
    intra_dimension: str  # FIFO, SCF
    local_memory_bandwidth: float
    peak: float
    roofline: bool
    replay_only: bool
    bus: BusModel | None = None  # between NPU and memory; none: the endpoint delay stands for it


@dataclass(frozen=True)
class RemoteMemory:
    """``latency`` in ns, ``bandwidth`` in bytes/ns."""

    kind: str
    latency: float = 0.0
    bandwidth: float = 1.0
    npus_per_node: int = 1


@dataclass(frozen=True)
class Options:
    """What the command line adds."""

    queues_per_dim: int = 1
    injection_scale: float = 1.0
    rendezvous: bool = False
    aware: bool = False


@dataclass(frozen=True)
class Inputs:
    """All files but the traces."""

    network: Network
    system: System
    memory: RemoteMemory
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    options: Options = Options()
    custom: Mapping[str, Sequence[Sequence[Node]]] = field(default_factory=dict)  # traces by rank


def read_network(path: Path) -> Network:
    """``network.yml``.  Raises :class:`DimsweepError` naming file and key."""
    config = read_yaml(path)
    lists = {}
    for key in ("topology", "npus_count", "bandwidth", "latency"):
        value = config.raw.get(key)
        if not isinstance(value, list) or not value:
            raise DimsweepError("a list with one entry a dimension", where=config.where(key))
        lists[key] = value
    n = len(lists["topology"])
    for key, value in lists.items():
        if len(value) != n:
            raise DimsweepError(f"{len(value)} entries for {n} dimensions", where=config.where(key))
    for name in lists["topology"]:
        if name not in BLOCKS:
            raise DimsweepError(
                f"{name!r} is no topology", where=f"{path}: topology", hint=", ".join(BLOCKS)
            )
    for size in lists["npus_count"]:
        if not is_whole(size) or size < 1:
            raise DimsweepError(f"{size!r} is no number of NPUs", where=f"{path}: npus_count")
    for key, least in (("bandwidth", "positive"), ("latency", "zero or more")):
        for value in lists[key]:
            if not is_number(value) or value < 0 or (least == "positive" and value == 0):
                raise DimsweepError(f"{value!r}; it must be {least}", where=config.where(key))
    return Network(
        tuple(BLOCKS[name] for name in lists["topology"]),
        tuple(lists["npus_count"]),
        tuple(float(b) for b in lists["bandwidth"]),
        tuple(float(x) for x in lists["latency"]),
    )


def read_system(path: Path) -> System:
    """``system.json``.  Raises :class:`DimsweepError` naming file and key."""
    config = read_json(path)
    algorithms, custom = {}, {}
    for name in _COLLECTIVES:
        given = config.raw.get(f"{name}-implementation", [])
        algorithms[name] = tuple(map(str, given if isinstance(given, list) else [given]))
        for algorithm in algorithms[name]:
            if not _ALGORITHM.fullmatch(algorithm):
                raise DimsweepError(
                    f"{algorithm!r} is no algorithm",
                    where=f"{path}: {name}-implementation",
                    hint="ring, direct (or direct1, direct2, ...), halvingDoubling, "
                    "doubleBinaryTree, oneRing, oneDirect, oneHalvingDoubling",
                )
        if files := config.raw.get(f"{name}-implementation-custom"):
            custom[name] = str(files[0] if isinstance(files, list) else files)
    inter = config.choice(
        "inter-dimension-scheduling",
        ("baseline", "themis", "offlineGreedy", "offlineGreedyFlex", "roundRobin"),
        "baseline",
    )
    return System(
        algorithms=algorithms,
        custom=custom,
        splits=config.whole("preferred-dataset-splits", 1, least=1),
        endpoint_delay=config.whole("endpoint-delay", 10, least=0),
        active_chunks=config.whole("active-chunks-per-dimension", 1, least=1),
        scheduling=config.choice("scheduling-policy", ("LIFO", "FIFO", "EXPLICIT"), "LIFO"),
        optimization=config.choice(
            "collective-optimization", ("baseline", "localBWAware"), "baseline"
        ),
        inter_dimension="themis" if inter == "offlineGreedy" else inter,
        intra_dimension=config.choice(
            "intra-dimension-scheduling", ("FIFO", "SCF", "LIFO"), "FIFO"
        ),
        local_memory_bandwidth=config.number("local-mem-bw", 0.0) * 1e9,
        peak=config.number("peak-perf", 0.0) * 1e12,
        roofline=config.flag("roofline-enabled"),
        replay_only=config.flag("replay-only"),
        bus=_bus(config) if config.flag("model-shared-bus") else None,
    )


def _bus(config: Fields) -> BusModel:
    return BusModel(
        latency=config.whole("L", 0, least=0),
        overhead=config.whole("o", 0, least=0),
        gap=config.whole("g", 0, least=0),
        per_byte=config.number("G", 0.0),
        reduction=config.whole("local-reduction-delay", 1, least=0),
    )


def read_memory(path: Path | None) -> RemoteMemory:
    """``memory.json``; no file is no memory expansion."""
    if path is None:
        return RemoteMemory(_MEMORY_TYPES[0])
    config = read_json(path)
    kind = config.choice("memory-type", _MEMORY_TYPES, _MEMORY_TYPES[0])
    if kind == _MEMORY_TYPES[0]:
        return RemoteMemory(kind)
    bandwidth = config.number("remote-mem-bw", 0.0)
    if bandwidth <= 0:
        raise DimsweepError("it must be more than zero", where=f"{path}: remote-mem-bw")
    return RemoteMemory(
        kind,
        config.number("remote-mem-latency", 0.0),
        bandwidth,
        config.whole("num-npus-per-node", 1, least=1),
    )
