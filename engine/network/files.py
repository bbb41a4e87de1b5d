"""Networks from files: node-link JSON and GraphML, as networkx and most graph editors write them.

A node with the attribute ``npu`` (its rank, a whole number) is an NPU, every other node a switch.
Edges have ``bandwidth``, ``latency`` and perhaps ``buffer``, each with its unit.  An undirected
graph has each link in both directions.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from engine.cluster.blocks.block import Node
from engine.errors import DimsweepError
from engine.network.graph import Network, some
from engine.units import BANDWIDTH, BYTES, parse, parse_time

if TYPE_CHECKING:  # networkx is imported by the functions that need it: few runs do
    import networkx as nx

_EXAMPLE = (
    '{"directed": false, "nodes": [{"id": "a", "npu": 0}, {"id": "b", "npu": 1}], "edges": '
    '[{"source": "a", "target": "b", "bandwidth": "50 GB/s", "latency": "500 ns"}]}'
)
_PARSERS: dict[str, Callable[[object], float]] = {
    "bandwidth": partial(parse, unit=BANDWIDTH),
    "latency": parse_time,
    "buffer": partial(parse, unit=BYTES),
}


def read_network(path: str | Path) -> Network:
    """The network in node-link JSON (``.json``) or GraphML (``.graphml``, ``.xml``).

    Raises :class:`DimsweepError` naming the file, and the node or edge, for anything malformed or
    misspelt, for parallel edges, and for what is no :class:`Network`.
    """
    path = Path(path)
    readers = {".json": _read_json, ".graphml": _read_graphml, ".xml": _read_graphml}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DimsweepError(
            "cannot tell the format of the network",
            where=str(path),
            hint=f"the name must end in {', '.join(readers)}",
        )
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise DimsweepError(f"cannot read the network: {reason}", where=str(path)) from error
    try:
        return _network(reader(content))
    except DimsweepError as error:
        raise error.at(str(path)) from None


def _read_json(content: bytes) -> "nx.MultiDiGraph":
    import networkx as nx

    try:
        data = json.loads(content)
        edges = "edges" if "edges" in data else "links"
        ids = [_hashable(node["id"]) for node in data["nodes"]]
        ends = [(_hashable(edge["source"]), _hashable(edge["target"])) for edge in data[edges]]
        directed = data.get("directed", False)
        _check_structure(ids, ends, directed)
        return nx.node_link_graph(data, edges=edges).to_directed()
    except DimsweepError:
        raise
    except Exception as error:  # whatever the shape of the JSON makes of the code above
        raise DimsweepError(
            f"no node-link JSON ({type(error).__name__}: {error})", hint=f"such as {_EXAMPLE}"
        ) from error


def _hashable(name: Any) -> Any:
    """A node's id as networkx reads it: a list is a tuple, such as the node of a product."""
    return tuple(map(_hashable, name)) if isinstance(name, list) else name


def _read_graphml(content: bytes) -> "nx.MultiDiGraph":
    import networkx as nx

    try:
        root = ElementTree.fromstring(content)
        graphs = root.findall(".//{*}graph")
        if len(graphs) != 1:
            raise DimsweepError(f"{len(graphs)} graphs in a file", hint="write one, not nested")
        directed = {"directed": True, "undirected": False}.get(graphs[0].get("edgedefault", ""))
        ids = [node.get("id") for node in root.findall(".//{*}node")]
        ends = [(edge.get("source"), edge.get("target")) for edge in root.findall(".//{*}edge")]
        _check_structure(ids, ends, directed)
        graph = nx.read_graphml(BytesIO(content), force_multigraph=True)
        # networkx leaves it to its caller to apply the file's defaults.
        for _, data in graph.nodes(data=True):
            data.update({**graph.graph["node_default"], **data})
        for _, _, data in graph.edges(data=True):
            data.update({**graph.graph["edge_default"], **data})
        return graph.to_directed()
    except DimsweepError:
        raise
    except Exception as error:  # from the XML parser, or networkx on XML that is no GraphML
        raise DimsweepError(
            f"no GraphML ({type(error).__name__}: {error})", hint="see graphml.graphdrawing.org"
        ) from error


def _check_structure(ids: list[Any], ends: list[tuple[Any, Any]], directed: object) -> None:
    """Refuses what networkx would merge, invent or guess in silence."""
    if not isinstance(directed, bool):
        raise DimsweepError(
            "the graph is neither directed nor undirected",
            hint='"directed": true or false; in GraphML, edgedefault="directed" or "undirected"',
        )
    doubled = _doubled(ids)
    if doubled:
        raise DimsweepError(f"more than one node has the id {some(doubled)}")
    known = set(ids)
    for source, target in ends:
        if not {source, target} <= known:
            stray = target if source in known else source
            raise DimsweepError(f"there is no node {stray!r}", where=f"[{source} -> {target}]")
    pairs = ends if directed else [tuple(sorted(pair, key=repr)) for pair in ends]
    parallel = _doubled(pairs)
    if parallel:
        raise DimsweepError(
            f"parallel edges: {some(f'{source} -> {target}' for source, target in parallel)}",
            hint="write one edge with the sum of their bandwidths",
        )


def _doubled(items: Iterable[Any]) -> list[Any]:
    return [item for item, times in Counter(items).items() if times > 1]


def _network(read: "nx.MultiDiGraph") -> Network:
    import networkx as nx

    names = {node: _name(node, data) for node, data in read.nodes(data=True)}
    doubled = _doubled(names.values())
    if doubled:
        kind = "NPU" if isinstance(doubled[0], int) else "switch"
        raise DimsweepError(f"more than one node is {kind} {doubled[0]}")
    graph = nx.DiGraph()
    graph.add_nodes_from(names.values())
    for source, target, data in read.edges(data=True):
        try:
            attributes = _attributes(data)
        except DimsweepError as error:
            raise error.at(f"[{source} -> {target}]") from None
        graph.add_edge(names[source], names[target], **attributes)
    return Network(graph)


def _name(node: object, data: Mapping[str, object]) -> Node:
    if "npu" not in data:
        return str(node)
    rank = data["npu"]
    if isinstance(rank, bool) or not isinstance(rank, int):
        raise DimsweepError(
            f"npu is {rank!r}, and must be a whole number",
            where=f"[{node}]",
            hint='its rank from 0, such as 3; in GraphML, of attr.type="int"',
        )
    return rank


def _attributes(data: Mapping[str, object]) -> dict[str, Any]:
    unknown = data.keys() - _PARSERS.keys()
    if unknown:
        raise DimsweepError(
            f"unknown attribute {some(sorted(unknown))}", hint=f"known: {', '.join(_PARSERS)}"
        )
    missing = [name for name in ("bandwidth", "latency") if name not in data]
    if missing:
        raise DimsweepError(f"{some(missing)} is missing", hint='such as "50 GB/s", "500 ns"')
    attributes: dict[str, Any] = {}
    for name, value in data.items():
        try:
            attributes[name] = _PARSERS[name](value)
        except DimsweepError as error:
            raise error.at(name) from None
    return attributes
