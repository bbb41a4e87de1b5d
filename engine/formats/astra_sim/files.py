"""All the files of a run: ASTRA-sim's command line in, inputs and traces out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.formats.astra_sim.inputs import (
    GIB,
    Inputs,
    Network,
    Options,
    read_memory,
    read_network,
    read_system,
)
from dimsweep.engine.formats.chakra.files import read_traces
from dimsweep.engine.formats.chakra.groups import noted_groups, read_groups
from dimsweep.engine.formats.chakra.node import Node, node_of
from dimsweep.engine.formats.chakra.trace import TraceNode
from dimsweep.engine.topology.topology import Topology


def read_inputs(
    system: Path,
    network: Path,
    memory: Path | None = None,
    groups: Path | None = None,
    options: Options | None = None,
) -> Inputs:
    """Everything but the workload.  Raises :class:`DimsweepError` naming file and key."""
    dims = read_network(network)
    inputs = Inputs(
        dims,
        read_system(system),
        read_memory(memory),
        read_groups(groups, dims.n_npus),
        options or Options(),
    )
    custom = {
        kind: read_workload(_beside(prefix, system), dims.n_npus)
        for kind, prefix in inputs.system.custom.items()
    }
    return replace(inputs, custom=custom)


def with_noted_groups(
    inputs: Inputs, traces: Sequence[Sequence[Node]]
) -> tuple[Inputs, list[Sequence[Node]]]:
    """Return the inputs with the groups that the traces record, and the traces with these groups'
    names; groups of a file go before them."""
    distinct = {id(nodes): nodes for nodes in traces}
    texts = ((node.groups for node in nodes) for nodes in distinct.values())
    noted = noted_groups(texts, inputs.network.n_npus, inputs.groups)
    named = {
        key: nodes
        if all(name == group for name, group in names.items())
        else [node._replace(group=names.get(node.group, node.group)) for node in nodes]
        for (key, nodes), names in zip(distinct.items(), noted.names, strict=True)
    }
    return replace(inputs, groups=noted.ranks), [named[id(nodes)] for nodes in traces]


def read_topology(network: Path, tiers: Sequence[str] = ()) -> Topology:
    """``network.yml`` as a topology of dimsweep's own model: its bandwidths are those of single
    links, ours of an NPU's links together."""
    return topology_of(read_network(network), tiers)


def topology_of(dims: Network, tiers: Sequence[str] = ()) -> Topology:
    """The dimensions of a ``network.yml`` as a topology (see :func:`read_topology`)."""
    return Topology.build(
        "_".join(f"{b.name}({n})" for b, n in zip(dims.blocks, dims.sizes, strict=True)),
        bandwidth=[links * g * GIB for links, g in zip(dims.links, dims.gigabytes, strict=True)],
        latency=[round(ns * 1000) for ns in dims.latency],
        tiers=tiers,
    )


def read_workload(prefix: Path | str, n_npus: int) -> list[Sequence[Node]]:
    """The traces ``<prefix>.<rank>.et`` of all ranks."""
    return read_ranks([Path(f"{prefix}.{rank}.et") for rank in range(n_npus)])


def read_ranks(paths: Sequence[Path]) -> list[Sequence[Node]]:
    """The traces of the ranks, in their order; equal files are read once."""
    contents: dict[bytes, int] = {}
    number = []
    for path in paths:
        try:
            number.append(contents.setdefault(path.read_bytes(), len(contents)))
        except OSError as error:
            raise DimsweepError(
                f"the trace cannot be read: {error.strerror}",
                where=str(path),
                hint="one file a rank: <workload-configuration>.<rank>.et",
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


def _beside(prefix: str, system: Path) -> Path:
    """A path as ASTRA-sim takes it, from the current folder, or else from the system file's."""
    here = Path(prefix)
    return here if Path(f"{here}.0.et").exists() else system.parent / prefix
