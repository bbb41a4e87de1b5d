"""Read ASTRA-sim 2.0's input files: system, network, remote memory and the traces of ranks."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.chakra.node import Node, node_of, read_groups, recorded_groups
from dimsweep.engine.formats.chakra.trace import TraceNode
from dimsweep.engine.formats.chakra.trace_files import read_traces
from dimsweep.engine.formats.reading import read_json, read_yaml, validated
from dimsweep.engine.kinds import CollectiveKind
from dimsweep.engine.topology.blocks import BLOCKS, Block
from dimsweep.engine.topology.topology import Topology

GIB = 2**30  # bytes of a "GB" in a network's "GB/s"
_ALGORITHM = re.compile(
    r"ring|direct\d*|halvingDoubling|doubleBinaryTree|oneRing|oneDirect|oneHalvingDoubling"
)
_SPLITS = 65_536  # as many as CollectiveModel.chunks may be
_BY_NAME = ConfigDict(populate_by_name=True, allow_inf_nan=False)  # a file has the aliases


def _key(name: str, default: Any, **rules: Any) -> Any:
    """Declare a dataclass field that the file calls ``name``; numbers must be zero or more."""
    if type(default) in (int, float):
        rules = {"ge": 0, "strict": True, **rules}
    return Field(default, validation_alias=name, **rules)


@dataclasses.dataclass(frozen=True)
class Network:
    """The dimensions of ``network.yml``: link bandwidth in GiB/s, and latency in ns a hop."""

    blocks: tuple[Block, ...]
    sizes: tuple[int, ...]
    gigabytes: tuple[float, ...]
    latency: tuple[float, ...]

    @property
    def bandwidth(self) -> tuple[float, ...]:
        """Bandwidth of one link in each dimension, in bytes per ns."""
        return tuple(g * GIB / 1e9 for g in self.gigabytes)

    @property
    def links(self) -> tuple[int, ...]:
        """Number of links of an NPU in each dimension."""
        pairs = zip(self.blocks, self.sizes, strict=True)
        return tuple(block.links(n) if n > 1 else 1 for block, n in pairs)

    @property
    def n_npus(self) -> int:
        return math.prod(self.sizes)


@dataclass(frozen=True, config=_BY_NAME)
class BusModel:
    """A shared memory bus: LogGP's parameters (ns), and the ns of reducing a hundred bytes."""

    latency: int = _key("L", 0)
    overhead: int = _key("o", 0)
    gap: int = _key("g", 0)
    per_byte: float = _key("G", 0.0)
    reduction: int = _key("local-reduction-delay", 1)


@dataclass(frozen=True, config=_BY_NAME)
class System:
    """The settings of ``system.json`` that affect a time. Delays are in ns.

    Without a ``bus`` the endpoint delay stands for the bus between NPU and memory.
    """

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
        """Bandwidth of the NPU's memory in bytes/s."""
        return self.local_memory_gigabytes * 1e9

    @property
    def peak(self) -> float:
        """Peak rate of an NPU in FLOP/s."""
        return self.teraflops * 1e12


@dataclass(frozen=True, config=_BY_NAME)
class RemoteMemory:
    """The settings of ``memory.json``: ``latency`` in ns, ``bandwidth`` in bytes/ns."""

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
    """Settings that ASTRA-sim takes on its command line."""

    queues_per_dim: int = 1
    injection_scale: float = 1.0
    rendezvous: bool = False
    aware: bool = False


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The content of all input files of ASTRA-sim, except the traces."""

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
    """Schema of ``network.yml``: lists with one entry for each dimension."""

    model_config = ConfigDict(allow_inf_nan=False)

    topology: list[str] = Field(min_length=1)
    npus_count: list[Annotated[int, Field(strict=True, ge=1)]]
    bandwidth: list[Annotated[float, Field(strict=True, gt=0)]]
    latency: list[Annotated[float, Field(strict=True, ge=0)]]


def read_network(path: Path) -> Network:
    """Read ``network.yml``. Raises :class:`DimsweepError` naming file and key."""
    file = validated(_NetworkFile, read_yaml(path), path)
    n = len(file.topology)
    for key, values in file:
        if len(values) != n:
            raise DimsweepError(
                f"{len(values)} entries for {n} dimensions", where=f"{path}: {key}", code="mismatch"
            )
    for name in file.topology:
        if name not in BLOCKS:
            hint = f"known: {', '.join(BLOCKS)}"
            raise DimsweepError(
                f"unknown topology {name!r}",
                where=f"{path}: topology",
                hint=hint,
                code="unknown-name",
            )
    blocks = tuple(BLOCKS[name] for name in file.topology)
    return Network(blocks, tuple(file.npus_count), tuple(file.bandwidth), tuple(file.latency))


def key_of(kind: CollectiveKind) -> str:
    """Return the key of ``system.json`` that lists the algorithms for ``kind``."""
    return f"{str(kind).replace('_', '-')}-implementation"


def read_system(path: Path) -> System:
    """Read ``system.json``. Raises :class:`DimsweepError` naming file and key."""
    content = read_json(path)
    algorithms, custom = {}, {}
    for kind in CollectiveKind:
        given = content.get(key_of(kind), [])
        algorithms[kind] = tuple(map(str, given if isinstance(given, list) else [given]))
        for name in algorithms[kind]:
            if not _ALGORITHM.fullmatch(name):
                raise DimsweepError(
                    f"unknown algorithm {name!r}",
                    where=f"{path}: {key_of(kind)}",
                    hint="known: ring, direct (or direct1, direct2, ...), halvingDoubling, "
                    "doubleBinaryTree, oneRing, oneDirect, oneHalvingDoubling",
                    code="unknown-name",
                )
        if files := content.get(f"{key_of(kind)}-custom"):
            custom[kind] = str(files[0] if isinstance(files, list) else files)
    system = validated(System, {**content, "algorithms": algorithms, "custom": custom}, path)
    if not system.shared_bus:
        return system
    return dataclasses.replace(system, bus=validated(BusModel, content, path))


def read_memory(path: Path | None) -> RemoteMemory:
    """Read ``memory.json``; without a file the memory is not expanded."""
    memory = RemoteMemory() if path is None else validated(RemoteMemory, read_json(path), path)
    if memory.kind != "NO_MEMORY_EXPANSION" and not memory.bandwidth:
        raise DimsweepError(
            f"{memory.bandwidth:g}; it must be greater than 0",
            where=f"{path}: remote-mem-bw",
            code="out-of-range",
        )
    return memory


def read_inputs(
    system: Path,
    network: Path,
    memory: Path | None = None,
    groups: Path | None = None,
    options: Options | None = None,
) -> Inputs:
    """Read all files but the workload.

    Parameters
    ----------
    system, network, memory, groups
        ``system.json``, ``network.yml``, ``memory.json`` and the communicator groups.
    options
        Settings of the command line.

    Raises
    ------
    DimsweepError
        Naming file and key.
    """
    dims = read_network(network)
    inputs = Inputs(
        dims,
        read_system(system),
        read_memory(memory),
        read_groups(groups, dims.n_npus),
        options or Options(),
    )
    custom = {
        kind: read_workload(_resolve_prefix(prefix, system), dims.n_npus)
        for kind, prefix in inputs.system.custom.items()
    }
    return replace(inputs, custom=custom)


def with_noted_groups(
    inputs: Inputs, traces: Sequence[Sequence[Node]]
) -> tuple[Inputs, list[Sequence[Node]]]:
    """Return ``inputs`` with the groups that the traces record, and the traces with their names.

    Groups of a file have precedence over recorded groups.
    """
    distinct = {id(nodes): nodes for nodes in traces}
    texts = ((node.groups for node in nodes) for nodes in distinct.values())
    noted = recorded_groups(texts, inputs.network.n_npus, inputs.groups)
    named = {
        key: nodes
        if all(name == group for name, group in names.items())
        else [node._replace(group=names.get(node.group, node.group)) for node in nodes]
        for (key, nodes), names in zip(distinct.items(), noted.names, strict=True)
    }
    return replace(inputs, groups=noted.ranks), [named[id(nodes)] for nodes in traces]


def read_topology(network: Path, tiers: Sequence[str] = ()) -> Topology:
    """Read ``network.yml`` as a topology of dimsweep's own model.

    The file has the bandwidth of a single link, a topology the sum over all links of an NPU.
    """
    return topology_of(read_network(network), tiers)


def topology_of(dims: Network, tiers: Sequence[str] = ()) -> Topology:
    """Convert the dimensions of a ``network.yml`` to a topology (see :func:`read_topology`)."""
    return Topology.build(
        "_".join(f"{b.name}({n})" for b, n in zip(dims.blocks, dims.sizes, strict=True)),
        bandwidth=[links * g * GIB for links, g in zip(dims.links, dims.gigabytes, strict=True)],
        latency=[round(ns * 1000) for ns in dims.latency],
        tiers=tiers,
    )


def read_workload(prefix: Path | str, n_npus: int) -> list[Sequence[Node]]:
    """Return the traces ``<prefix>.<rank>.et`` of ``n_npus`` ranks, with decoded attributes."""
    return read_ranks([Path(f"{prefix}.{rank}.et") for rank in range(n_npus)])


def read_ranks(paths: Sequence[Path]) -> list[Sequence[Node]]:
    """Return the nodes of each rank's trace, in order of ``paths``; equal files are read once."""
    contents: dict[bytes, int] = {}
    number = []
    for path in paths:
        try:
            number.append(contents.setdefault(path.read_bytes(), len(contents)))
        except OSError as error:
            raise DimsweepError(
                f"cannot read the trace: {error.strerror}",
                where=str(path),
                hint="there must be one file for each rank: <workload-configuration>.<rank>.et",
                code="inaccessible",
            ) from error
    first = [number.index(i) for i in range(len(contents))]
    known: dict[int, Node] = {}  # ranks have most of their nodes in common
    traces = [
        [_known(known, node) for node in trace.nodes]
        for trace in read_traces([paths[i] for i in first])
    ]
    return [traces[i] for i in number]


def _known(known: dict[int, Node], node: TraceNode) -> Node:
    if id(node) not in known:
        known[id(node)] = node_of(node)
    return known[id(node)]


def _resolve_prefix(prefix: str, system: Path) -> Path:
    """Return a path as ASTRA-sim resolves it: from the current folder, else the system file's."""
    here = Path(prefix)
    return here if Path(f"{here}.0.et").exists() else system.parent / prefix
