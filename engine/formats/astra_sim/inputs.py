"""ASTRA-sim 2.0's input files: system, network and remote memory."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra.node import Node
from dimsweep.engine.formats.fields import read_json, read_yaml, validated
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.block import Block
from dimsweep.engine.topology.blocks import BLOCKS

GIB = 2**30  # what a network "GB/s" is here
_ALGORITHM = re.compile(
    r"ring|direct\d*|halvingDoubling|doubleBinaryTree|oneRing|oneDirect|oneHalvingDoubling"
)
_SPLITS = 65_536  # as many as CollectiveModel.chunks may be
_BY_NAME = ConfigDict(populate_by_name=True, allow_inf_nan=False)  # a file has the aliases


def _key(name: str, default: Any, **rules: Any) -> Any:
    """A field that is called ``name`` in the file; a number is no less than zero."""
    if type(default) in (int, float):
        rules = {"ge": 0, "strict": True, **rules}
    return Field(default, validation_alias=name, **rules)


@dataclasses.dataclass(frozen=True)
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
        return math.prod(self.sizes)


@dataclass(frozen=True, config=_BY_NAME)
class BusModel:
    """A shared memory bus: LogGP's parameters (ns), and ns for reducing a hundred bytes."""

    latency: int = _key("L", 0)
    overhead: int = _key("o", 0)
    gap: int = _key("g", 0)
    per_byte: float = _key("G", 0.0)
    reduction: int = _key("local-reduction-delay", 1)


@dataclass(frozen=True, config=_BY_NAME)
class System:
    """What of ``system.json`` decides a time.  Delays in ns; without a ``bus`` between NPU and
    memory the endpoint delay stands for it."""

    algorithms: Mapping[CollectiveKind, tuple[str, ...]]
    custom: Mapping[CollectiveKind, str] = Field(default_factory=dict)
    splits: int = _key("preferred-dataset-splits", 1, ge=1, le=_SPLITS)
    endpoint_delay: int = _key("endpoint-delay", 10)
    active_chunks: int = _key("active-chunks-per-dimension", 1, ge=1)
    scheduling: Literal["LIFO", "FIFO", "EXPLICIT"] = _key("scheduling-policy", "LIFO")
    optimization: Literal["baseline", "localBWAware"] = _key("collective-optimization", "baseline")
    inter_dimension: Literal[
        "baseline", "themis", "offlineGreedy", "offlineGreedyFlex", "roundRobin"
    ] = _key("inter-dimension-scheduling", "baseline")
    intra_dimension: Literal["FIFO", "SCF", "LIFO"] = _key("intra-dimension-scheduling", "FIFO")
    local_memory_gigabytes: float = _key("local-mem-bw", 0.0)
    teraflops: float = _key("peak-perf", 0.0)
    roofline: bool = _key("roofline-enabled", False)
    replay_only: bool = _key("replay-only", False)
    shared_bus: bool = _key("model-shared-bus", False)
    bus: BusModel | None = None

    @property
    def local_memory_bandwidth(self) -> float:
        """Bytes/s."""
        return self.local_memory_gigabytes * 1e9

    @property
    def peak(self) -> float:
        """FLOP/s."""
        return self.teraflops * 1e12


@dataclass(frozen=True, config=_BY_NAME)
class RemoteMemory:
    """``latency`` in ns, ``bandwidth`` in bytes/ns."""

    kind: Literal[
        "NO_MEMORY_EXPANSION",
        "PER_NPU_MEMORY_EXPANSION",
        "PER_NODE_MEMORY_EXPANSION",
        "MEMORY_POOL",
    ] = _key("memory-type", "NO_MEMORY_EXPANSION")
    latency: float = _key("remote-mem-latency", 0.0)
    bandwidth: float = _key("remote-mem-bw", 0.0)
    npus_per_node: int = _key("num-npus-per-node", 1, ge=1)


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line adds."""

    queues_per_dim: int = 1
    injection_scale: float = 1.0
    rendezvous: bool = False
    aware: bool = False


@dataclasses.dataclass(frozen=True)
class Inputs:
    """All files but the traces."""

    network: Network
    system: System
    memory: RemoteMemory
    groups: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    options: Options = Options()
    # The traces of custom collectives by rank.
    custom: Mapping[CollectiveKind, Sequence[Sequence[Node]]] = dataclasses.field(
        default_factory=dict
    )


class _NetworkFile(BaseModel):
    """``network.yml``: lists with one entry a dimension."""

    model_config = ConfigDict(allow_inf_nan=False)

    topology: list[str] = Field(min_length=1)
    npus_count: list[Annotated[int, Field(strict=True, ge=1)]]
    bandwidth: list[Annotated[float, Field(strict=True, gt=0)]]
    latency: list[Annotated[float, Field(strict=True, ge=0)]]


def read_network(path: Path) -> Network:
    """``network.yml``.  Raises :class:`DimsweepError` naming file and key."""
    file = validated(_NetworkFile, read_yaml(path), path)
    n = len(file.topology)
    for key, values in file:
        if len(values) != n:
            raise DimsweepError(f"{len(values)} entries for {n} dimensions", where=f"{path}: {key}")
    for name in file.topology:
        if name not in BLOCKS:
            hint = ", ".join(BLOCKS)
            raise DimsweepError(f"{name!r} is no topology", where=f"{path}: topology", hint=hint)
    blocks = tuple(BLOCKS[name] for name in file.topology)
    return Network(blocks, tuple(file.npus_count), tuple(file.bandwidth), tuple(file.latency))


def key_of(kind: CollectiveKind) -> str:
    """The key of ``system.json`` that lists the algorithms for ``kind``."""
    return f"{str(kind).replace('_', '-')}-implementation"


def read_system(path: Path) -> System:
    """``system.json``.  Raises :class:`DimsweepError` naming file and key."""
    content = read_json(path)
    algorithms, custom = {}, {}
    for kind in CollectiveKind:
        given = content.get(key_of(kind), [])
        algorithms[kind] = tuple(map(str, given if isinstance(given, list) else [given]))
        for name in algorithms[kind]:
            if not _ALGORITHM.fullmatch(name):
                raise DimsweepError(
                    f"{name!r} is no algorithm",
                    where=f"{path}: {key_of(kind)}",
                    hint="ring, direct (or direct1, direct2, ...), halvingDoubling, "
                    "doubleBinaryTree, oneRing, oneDirect, oneHalvingDoubling",
                )
        if files := content.get(f"{key_of(kind)}-custom"):
            custom[kind] = str(files[0] if isinstance(files, list) else files)
    system = validated(System, {**content, "algorithms": algorithms, "custom": custom}, path)
    if not system.shared_bus:
        return system
    return dataclasses.replace(system, bus=validated(BusModel, content, path))


def read_memory(path: Path | None) -> RemoteMemory:
    """``memory.json``; no file is no memory expansion."""
    memory = RemoteMemory() if path is None else validated(RemoteMemory, read_json(path), path)
    if memory.kind != "NO_MEMORY_EXPANSION" and not memory.bandwidth:
        raise DimsweepError("it must be more than zero", where=f"{path}: remote-mem-bw")
    return memory
