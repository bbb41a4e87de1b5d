"""Networks from files: node-link JSON and GraphML, as networkx and most graph editors write them.

A node with the attribute ``npu`` (its rank, a whole number) is an NPU, every other node a switch
or what its ``kind`` says.  It may have the attributes of a :class:`Device`, and an edge has those
of a :class:`Link`, each with its unit; what else a node has is an editor's, and passed over.  An
undirected graph has each link in both directions.
"""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

from dimsweep.engine.cluster.blocks.block import Node
from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.graph import Device, Link, Network, node_name, some
from dimsweep.engine.units import BANDWIDTH, BYTES, LENGTH, MONEY, POWER, TIME, parse, parse_time

if TYPE_CHECKING:  # networkx is imported by the functions that need it: few runs do
    import networkx as nx

_EXAMPLE = (
    '{"directed": false, "nodes": [{"id": "a", "npu": 0}, {"id": "b", "npu": 1}], "edges": '
    '[{"source": "a", "target": "b", "bandwidth": "50 GB/s", "latency": "500 ns"}]}'
)


def _same(value: Any) -> Any:
    """What :class:`Network` checks, and no unit is written with."""
    return value


_PARSERS: dict[str, Callable[[object], object]] = {
    "bandwidth": partial(parse, unit=BANDWIDTH),
    "latency": parse_time,
    "buffer": partial(parse, unit=BYTES),
    "medium": _same,
    "length": partial(parse, unit=LENGTH, zero=True),
    "lanes": _same,
    "part": _same,
    "dim": _same,
}
_DEVICE_PARSERS: dict[str, Callable[[object], object]] = {
    "kind": _same,
    "ports": _same,
    "part": _same,
    "price": partial(parse, unit=MONEY, zero=True),
    "watts": partial(parse, unit=POWER, zero=True),
    "fails": _same,
    "repair": partial(parse, unit=TIME, zero=True),
}
# Numbers are written so that they come back to the bit.
_WRITERS: dict[str, Callable[[Any], object]] = {
    "bandwidth": lambda value: f"{value!r} B/s",
    "latency": lambda value: f"{value} ps",
    "buffer": lambda value: f"{value!r} B",
    "length": lambda value: f"{value!r} m",
    "price": lambda value: f"{value!r} USD",
    "watts": lambda value: f"{value!r} W",
    "repair": lambda value: f"{value!r} s",
    "kind": str,
}


def read_network(path: str | Path) -> Network:
    """The network in node-link JSON (``.json``) or GraphML (``.graphml``, ``.xml``).

    Raises :class:`DimsweepError` naming the file, and the node or edge, for anything malformed or
    misspelt, for parallel edges, and for what is no :class:`Network`.
    """
    path = Path(path)
    read = _read_json if _is_json(path) else _read_graphml
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise _no_file("read", path, error) from error
    try:
        return _network(read(content))
    except DimsweepError as error:
        raise error.at(str(path)) from None


def _is_json(path: Path) -> bool:
    """Whether a file is JSON or else GraphML, by the ending of its name."""
    endings = {".json": True, ".graphml": False, ".xml": False}
    if path.suffix.lower() not in endings:
        raise DimsweepError(
            "cannot tell the format of the network",
            where=str(path),
            hint=f"the name must end in {', '.join(endings)}",
        )
    return endings[path.suffix.lower()]


def _no_file(verb: str, path: Path, error: OSError | ValueError) -> DimsweepError:
    reason = getattr(error, "strerror", None) or str(error)
    return DimsweepError(f"cannot {verb} the network: {reason}", where=str(path))


def write_network(network: Network, path: str | Path) -> None:
    """Writes a network so that :func:`read_network` reads the same, as node-link JSON (``.json``)
    or GraphML (``.graphml``, ``.xml``).

    Raises :class:`DimsweepError` for another ending, and for a file that cannot be written.
    """
    import networkx as nx

    path = Path(path)
    is_json = _is_json(path)
    graph = nx.DiGraph()
    for node, device in network.devices.items():
        known = _written(device, _DEVICE_PARSERS)
        if isinstance(node, int):
            known["npu"] = node  # which says what kind it is of
            del known["kind"]
        graph.add_node(node_name(node), **known)
    for link in network.links:
        ends = node_name(link.source), node_name(link.target)
        graph.add_edge(*ends, **_written(link, _PARSERS))
    try:
        if is_json:
            path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")), encoding="utf-8")
        else:
            nx.write_graphml(graph, path)
    except (OSError, ValueError) as error:
        raise _no_file("write", path, error) from error


def _written(of: Device | Link, names: Iterable[str]) -> dict[str, Any]:
    """What is not as usual, as it is read."""
    kind = type(of)
    usual = {name: getattr(kind, name, None) for name in names}  # none where it must be given
    changed = {name: value for name in names if (value := getattr(of, name)) != usual[name]}
    return {
        name: _WRITERS[name](value) if name in _WRITERS else value
        for name, value in changed.items()
    }


def _read_json(content: bytes) -> "nx.DiGraph":
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _no_json(str(error)) from error
    if not isinstance(data, dict):
        raise _no_json("it is no object")
    links = "edges" if "edges" in data else "links"
    nodes = [(_id(node, "id"), node) for node in _objects(data, "nodes")]
    edges = [(_id(e, "source"), _id(e, "target"), e) for e in _objects(data, links)]
    return _graph(
        data.get("directed", False),
        [(node, _without(each, "id")) for node, each in nodes],
        [(a, b, _without(each, "source", "target", "key")) for a, b, each in edges],
    )


def _no_json(why: str) -> DimsweepError:
    return DimsweepError(f"no node-link JSON ({why})", hint=f"such as {_EXAMPLE}")


def _objects(data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = data.get(key)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise _no_json(f"{key!r} is no list of objects")
    return found


def _id(node: Mapping[str, Any], key: str) -> Hashable:
    """A node's id, hashable: a list is a tuple, such as the node of a product, as in networkx."""

    def hashable(value: Any) -> Hashable:
        if isinstance(value, dict) or value is None:
            raise _no_json(f"{key!r} is {value!r}")
        return tuple(map(hashable, value)) if isinstance(value, list) else value

    if key not in node:
        raise _no_json(f"{key!r} is missing in {node}")
    return hashable(node[key])


def _without(data: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in keys}


_TYPES: dict[str, Callable[[str], object]] = {
    "boolean": lambda text: {"true": True, "1": True, "false": False, "0": False}[text.lower()],
    **dict.fromkeys(("int", "long"), int),
    **dict.fromkeys(("float", "double"), float),
    "string": str,
}


class _Key(NamedTuple):
    """What a ``<data>`` of GraphML is, by the ``<key>`` that it names."""

    owner: str  # node, edge, graph, all
    name: str
    type: str
    default: ElementTree.Element | None

    def value(self, data: ElementTree.Element) -> object:
        """What ``<data>`` or ``<default>`` says."""
        text = (data.text or "").strip()
        try:
            return _TYPES[self.type](text)
        except (ValueError, KeyError) as error:
            raise _no_graphml(f"{self.name} is {text!r}, and no {self.type}") from error


def _read_graphml(content: bytes) -> "nx.DiGraph":
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # the latter: its encoding
        raise _no_graphml(str(error)) from error
    if root.tag.rpartition("}")[2] != "graphml":
        raise _no_graphml(f"its root is {root.tag}")
    graphs = root.findall(".//{*}graph")
    if len(graphs) != 1:
        raise DimsweepError(f"{len(graphs)} graphs in a file", hint="write one, not nested")
    (graph,) = graphs
    if graph.find("{*}hyperedge") is not None:
        raise _no_graphml("hyperedges are not read")
    directed = {"directed": True, "undirected": False}.get(graph.get("edgedefault", ""))
    mixed = str(not directed).lower()
    if any(edge.get("directed") == mixed for edge in graph.findall("{*}edge")):
        raise _no_graphml("directed and undirected edges in one graph")
    keys = dict(_key(each) for each in root.findall("{*}key"))
    return _graph(
        directed,
        [(_end(node, "id"), _data(node, keys, "node")) for node in graph.findall("{*}node")],
        [
            (_end(edge, "source"), _end(edge, "target"), _data(edge, keys, "edge"))
            for edge in graph.findall("{*}edge")
        ],
    )


def _no_graphml(why: str) -> DimsweepError:
    return DimsweepError(f"no GraphML ({why})", hint="see graphml.graphdrawing.org")


def _key(key: ElementTree.Element) -> tuple[str, _Key]:
    own = key.get("yfiles.type")  # what yEd draws
    name, kind = own or key.get("attr.name"), "string" if own else key.get("attr.type", "string")
    if name is None or kind not in _TYPES:
        raise _no_graphml(f"a key has the attr.name {name!r} and the attr.type {kind!r}")
    return key.get("id", ""), _Key(key.get("for", "all"), name, kind, key.find("{*}default"))


def _end(element: ElementTree.Element, key: str) -> str:
    found = element.get(key)
    if found is None:
        raise _no_graphml(f"{key!r} is missing")
    return found


def _data(element: ElementTree.Element, keys: Mapping[str, _Key], owner: str) -> dict[str, object]:
    """The attributes of a node or edge, and the file's defaults for those that it does not have."""
    found = {
        key.name: key.value(key.default)
        for key in keys.values()
        if key.default is not None and key.owner == owner
    }
    for data in element.findall("{*}data"):
        if len(data):  # elements, by which an editor such as yEd draws
            continue
        key = keys.get(data.get("key", ""))
        if key is None:
            raise _no_graphml(f"there is no key {data.get('key')}")
        found[key.name] = key.value(data)
    return found


def _graph(
    directed: object,
    nodes: Sequence[tuple[Any, Mapping[str, object]]],
    edges: Sequence[tuple[Any, Any, Mapping[str, object]]],
) -> "nx.DiGraph":
    """The graph, with each link of an undirected one in both directions."""
    import networkx as nx

    _check_structure([node for node, _ in nodes], [(a, b) for a, b, _ in edges], directed)
    graph = nx.DiGraph()
    for node, data in nodes:
        graph.add_node(node)
        graph.nodes[node].update(data)
    for source, target, data in edges:
        for ends in [(source, target)] if directed else [(source, target), (target, source)]:
            graph.add_edge(*ends)
            graph.edges[ends].update(data)
    return graph


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
            hint="write one edge with the sum of their bandwidths, and how many `lanes` it has",
        )


def _doubled(items: Iterable[Any]) -> list[Any]:
    return [item for item, times in Counter(items).items() if times > 1]


def _network(read: "nx.DiGraph") -> Network:
    import networkx as nx

    names = {node: _name(node, data) for node, data in read.nodes(data=True)}
    doubled = _doubled(names.values())
    if doubled:
        kind = "NPU" if isinstance(doubled[0], int) else "switch"
        raise DimsweepError(f"more than one node is {kind} {doubled[0]}")
    graph = nx.DiGraph()
    for node, data in read.nodes(data=True):
        known = {name: value for name, value in data.items() if name in _DEVICE_PARSERS}
        graph.add_node(names[node], **_parsed(known, _DEVICE_PARSERS, f"[{node}]"))
    for source, target, data in read.edges(data=True):
        place = f"[{source} -> {target}]"
        try:
            _check_known(data)
        except DimsweepError as error:
            raise error.at(place) from None
        graph.add_edge(names[source], names[target], **_parsed(data, _PARSERS, place))
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


def _check_known(data: Mapping[str, object]) -> None:
    unknown = data.keys() - _PARSERS.keys()
    if unknown:
        raise DimsweepError(
            f"unknown attribute {some(sorted(unknown))}", hint=f"known: {', '.join(_PARSERS)}"
        )
    missing = [name for name in ("bandwidth", "latency") if name not in data]
    if missing:
        raise DimsweepError(f"{some(missing)} is missing", hint='such as "50 GB/s", "500 ns"')


def _parsed(
    data: Mapping[str, object], parsers: Mapping[str, Callable[[object], object]], place: str
) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for name, value in data.items():
        try:
            attributes[name] = parsers[name](value)
        except DimsweepError as error:
            raise error.at(name).at(place) from None
    return attributes
