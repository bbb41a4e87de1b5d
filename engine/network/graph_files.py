"""Networks from files: node-link JSON and GraphML, as networkx and most graph editors write them.

A node with the attribute ``npu`` (its rank, a whole number) is an NPU; every other node is a
switch, unless its attribute ``kind`` says otherwise.  A node may have the attributes of a
:class:`Device`, and an edge has the attributes of a :class:`Link`, each with its unit.  Other
attributes of nodes are ignored: graph editors write them.  In an undirected graph each edge stands
for a link in both directions.
"""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

from dimsweep.engine.collector import collector_paused
from dimsweep.engine.errors import DimsweepError, find_nearest
from dimsweep.engine.network.graph import Device, Kind, Link, Network, abbreviate, node_name
from dimsweep.engine.topology.blocks import Node
from dimsweep.engine.units import BANDWIDTH, BYTES, LENGTH, MONEY, POWER, TIME, parse, parse_time

if TYPE_CHECKING:  # networkx is imported by the functions that need it: few runs do
    import networkx as nx

_Data = Mapping[str, object]  # the attributes of a node or an edge, as a file has them
_Edge = tuple[Hashable, Hashable, _Data]  # edges that are alike share what they say
# Whether edges lead one way, as the file has it; the nodes; the edges.
_Read = tuple[object, Sequence[tuple[Hashable, _Data]], Sequence[_Edge]]
_EXAMPLE = (
    '{"directed": false, "nodes": [{"id": "a", "npu": 0}, {"id": "b", "npu": 1}], "edges": '
    '[{"source": "a", "target": "b", "bandwidth": "50 GB/s", "latency": "500 ns"}]}'
)


def _keep(value: Any) -> Any:
    return value


_PARSERS: dict[str, Callable[[object], object]] = {
    "bandwidth": partial(parse, unit=BANDWIDTH),
    "latency": parse_time,
    "buffer": partial(parse, unit=BYTES),
    "medium": _keep,
    "length": partial(parse, unit=LENGTH, zero=True),
    "lanes": _keep,
    "part": _keep,
    "dim": _keep,
}
_DEVICE_PARSERS: dict[str, Callable[[object], object]] = {
    "kind": _keep,
    "ports": _keep,
    "part": _keep,
    "price": partial(parse, unit=MONEY, zero=True),
    "watts": partial(parse, unit=POWER, zero=True),
    "fails": _keep,
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
    """Return the network in node-link JSON (``.json``) or GraphML (``.graphml``, ``.xml``)."""
    path = Path(path)
    is_json = _is_json(path)
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise _access_error("read", path, error) from error
    return parse_network(content, path, is_json=is_json)


def parse_network(content: bytes, path: Path, *, is_json: bool) -> Network:
    """Return the network in node-link JSON, or in GraphML.

    Raises :class:`DimsweepError` as :func:`read_network` does, naming ``path``.
    """
    read = _read_json if is_json else _read_graphml
    try:
        with collector_paused():
            return Network(_build_graph(*read(content)))
    except DimsweepError as error:
        raise error.with_prefix(str(path)) from None


def _is_json(path: Path) -> bool:
    """Return True for the extension of node-link JSON, False for an extension of GraphML."""
    endings = {".json": True, ".graphml": False, ".xml": False}
    if path.suffix.lower() not in endings:
        raise DimsweepError(
            f"unknown file format {path.suffix!r} of a network",
            where=str(path),
            hint=f"the name must end in {', '.join(endings)}",
            code="unsupported",
        )
    return endings[path.suffix.lower()]


def _access_error(verb: str, path: Path, error: OSError | ValueError) -> DimsweepError:
    reason = getattr(error, "strerror", None) or str(error)
    problem = f"cannot {verb} the network: {reason}"
    return DimsweepError(problem, where=str(path), code="inaccessible")


def write_network(network: Network, path: str | Path) -> None:
    """Write a network as node-link JSON (``.json``) or GraphML (``.graphml``, ``.xml``).

    :func:`read_network` reads an equal network.  Raises :class:`DimsweepError` for another ending,
    and for a file that cannot be written.
    """
    import networkx as nx

    path = Path(path)
    is_json = _is_json(path)
    graph = nx.DiGraph()
    for node, device in network.devices.items():
        known = _format_attributes(device, _DEVICE_PARSERS)
        if isinstance(node, int):
            known["npu"] = node  # implies the kind
            del known["kind"]
        graph.add_node(node_name(node), **known)
    for link in network.links:
        ends = node_name(link.source), node_name(link.target)
        graph.add_edge(*ends, **_format_attributes(link, _PARSERS))
    try:
        if is_json:
            path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")), encoding="utf-8")
        else:
            nx.write_graphml(graph, path)
    except (OSError, ValueError) as error:
        raise _access_error("write", path, error) from error


def _format_attributes(of: Device | Link, names: Iterable[str]) -> dict[str, Any]:
    """Return the attributes that differ from their defaults, as text that the reader parses."""
    kind = type(of)
    usual = {name: getattr(kind, name, None) for name in names}  # none where it must be given
    changed = {name: value for name in names if (value := getattr(of, name)) != usual[name]}
    return {
        name: _WRITERS[name](value) if name in _WRITERS else value
        for name, value in changed.items()
    }


def _read_json(content: bytes) -> _Read:
    shared: dict[str, _Data] = {}

    def edge(read: dict[str, Any]) -> dict[str, Any] | _Edge:
        """Turn an object with both ends into an edge while reading: a million dicts are slow."""
        if "id" in read or "source" not in read or "target" not in read:
            return read
        source, target = _take_id(read, "source"), _take_id(read, "target")
        read.pop("key", None)  # a multigraph's
        return source, target, shared.setdefault(repr(read), read)

    try:
        data = json.loads(content, object_hook=edge)
    except (ValueError, RecursionError) as error:
        raise _json_error(str(error)) from error
    if not isinstance(data, dict):
        raise _json_error("the file must hold one object")
    nodes = [(_take_id(node, "id"), node) for node in _read_objects(data, "nodes")]
    edges = _read_objects(data, "edges" if "edges" in data else "links")
    for each in edges:
        if isinstance(each, dict):  # only one end, or an id: not a link
            _parse_link(each, f"[{_take_id(each, 'source')} -> {_take_id(each, 'target')}]")
    return data.get("directed", False), nodes, edges


def _json_error(reason: str) -> DimsweepError:
    problem = f"not node-link JSON ({reason})"
    return DimsweepError(problem, hint=f"such as {_EXAMPLE}", code="bad-syntax")


def _read_objects(data: Mapping[str, Any], key: str) -> list[Any]:
    found = data.get(key)
    if not isinstance(found, list) or not all(isinstance(each, dict | tuple) for each in found):
        raise _json_error(f"{key!r} must be a list of objects")
    return found


def _take_id(node: dict[str, Any] | _Edge, key: str) -> Hashable:
    """Remove and return the value of ``key`` in ``node``, which names a node of the graph."""
    if isinstance(node, tuple) or key not in node:
        raise _json_error(f"{key!r} is missing in {node}")
    value = node.pop(key)
    return value if isinstance(value, str) else _to_hashable(value, key)


def _to_hashable(value: Any, key: str) -> Hashable:
    """Return a node's id from JSON as a hashable value: lists become tuples."""
    if isinstance(value, dict | tuple) or value is None:
        raise _json_error(f"{key!r} is {value!r}; it must be a text, a number or a list of them")
    return tuple(_to_hashable(each, key) for each in value) if isinstance(value, list) else value


_TYPES: dict[str, Callable[[str], object]] = {
    "boolean": lambda text: {"true": True, "1": True, "false": False, "0": False}[text.lower()],
    **dict.fromkeys(("int", "long"), int),
    **dict.fromkeys(("float", "double"), float),
    "string": str,
}


class _Key(NamedTuple):
    """A ``<key>`` element of GraphML: it declares an attribute's name, type and default."""

    owner: str  # node, edge, graph, all
    name: str
    type: str
    default: ElementTree.Element | None

    def value(self, data: ElementTree.Element) -> object:
        """Return the value of a ``<data>`` or ``<default>`` element."""
        text = (data.text or "").strip()
        try:
            return _TYPES[self.type](text)
        except (ValueError, KeyError) as error:
            problem = f"{self.name} is {text!r}; it must be of the type {self.type}"
            raise _graphml_error(problem) from error


def _read_graphml(content: bytes) -> _Read:
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # the latter: its encoding
        raise _graphml_error(str(error)) from error
    space, brace, name = root.tag.rpartition("}")
    if name != "graphml":
        raise _graphml_error(f"the root element is {root.tag}; it must be graphml")
    space += brace  # searching for one name in one space is compiled, and {*} is not
    graphs = list(root.iter(f"{space}graph"))
    if len(graphs) != 1:
        problem = f"{len(graphs)} graphs in the file; there must be one"
        raise DimsweepError(problem, hint="write one graph, not nested", code="bad-syntax")
    (graph,) = graphs
    if graph.find(f"{space}hyperedge") is not None:
        raise _graphml_error("hyperedges are not supported")
    directed = {"directed": True, "undirected": False}.get(graph.get("edgedefault", ""))
    mixed, edges = str(not directed).lower(), graph.findall(f"{space}edge")
    if any(edge.get("directed") == mixed for edge in edges):
        raise _graphml_error("directed and undirected edges in one graph")
    keys = dict(_read_key(each, space) for each in root.findall(f"{space}key"))
    of_node, of_edge = (_Attributes(keys, owner, f"{space}data") for owner in ("node", "edge"))
    return (
        directed,
        [(_read_end(node, "id"), of_node.read(node)) for node in graph.findall(f"{space}node")],
        [
            (_read_end(edge, "source"), _read_end(edge, "target"), of_edge.read(edge))
            for edge in edges
        ],
    )


def _graphml_error(reason: str) -> DimsweepError:
    hint = "see graphml.graphdrawing.org"
    return DimsweepError(f"not GraphML ({reason})", hint=hint, code="bad-syntax")


def _read_key(key: ElementTree.Element, space: str) -> tuple[str, _Key]:
    own = key.get("yfiles.type")  # what yEd draws
    name, kind = own or key.get("attr.name"), "string" if own else key.get("attr.type", "string")
    if name is None or kind not in _TYPES:
        raise _graphml_error(f"a key has the attr.name {name!r} and the attr.type {kind!r}")
    return key.get("id", ""), _Key(key.get("for", "all"), name, kind, key.find(f"{space}default"))


def _read_end(element: ElementTree.Element, key: str) -> str:
    found = element.get(key)
    if found is None:
        raise _graphml_error(f"{key!r} is missing")
    return found


class _Attributes:
    """Reader of the attributes of nodes or of edges in GraphML.

    It reads ``<data>`` elements, and uses the file's defaults for missing ones.  Elements with
    equal data share one dictionary, which is parsed once.
    """

    def __init__(self, keys: Mapping[str, _Key], owner: str, tag: str) -> None:
        self._keys, self._tag = keys, tag
        self._known: dict[tuple[str | None, ...], _Data] = {}
        self._defaults = {
            key.name: key.value(key.default)
            for key in keys.values()
            if key.default is not None and key.owner == owner
        }

    def read(self, element: ElementTree.Element) -> _Data:
        data, said = [], list[str | None]()
        for each in element:
            if each.tag == self._tag and not len(each):  # elements are how an editor (yEd) draws
                data.append(each)
                said += each.get("key"), each.text
        attributes = self._known.get(tuple(said))
        if attributes is None:
            attributes = self._known[tuple(said)] = self._defaults | dict(map(self._value, data))
        return attributes

    def _value(self, data: ElementTree.Element) -> tuple[str, object]:
        key = self._keys.get(data.get("key", ""))
        if key is None:
            raise _graphml_error(f"unknown key {data.get('key')}")
        return key.name, key.value(data)


def _build_graph(
    directed: object, nodes: Sequence[tuple[Hashable, _Data]], edges: Sequence[_Edge]
) -> "nx.DiGraph":
    """Return the graph of a network; undirected links become one link in each direction."""
    import networkx as nx

    _check_structure([node for node, _ in nodes], edges, directed)
    names = _name_nodes(nodes)
    graph = nx.DiGraph()
    for node, data in nodes:
        known = {name: value for name, value in data.items() if name in _DEVICE_PARSERS}
        graph.add_node(names[node], **_parse_attributes(known, _DEVICE_PARSERS, f"[{node}]"))
    made: dict[int, dict[str, Any]] = {}  # by the id of the shared attributes
    links = []
    for source, target, data in edges:
        if id(data) not in made:
            made[id(data)] = _parse_link(data, f"[{source} -> {target}]")
        ends, known = (names[source], names[target]), made[id(data)]
        links.append((*ends, known))
        if not directed:
            links.append((*ends[::-1], known))
    graph.add_edges_from(links)
    return graph


def _check_structure(ids: list[Any], edges: Sequence[_Edge], directed: object) -> None:
    """Raise :class:`DimsweepError` for repeated or undefined nodes and edges.

    networkx would merge repeated ones and create undefined nodes without a message.
    """
    if not isinstance(directed, bool):
        raise DimsweepError(
            "the graph is neither directed nor undirected",
            hint='"directed": true or false; in GraphML, edgedefault="directed" or "undirected"',
            code="missing",
        )
    doubled = _find_duplicates(ids)
    if doubled:
        problem = f"more than one node has the id {abbreviate(doubled)}"
        raise DimsweepError(problem, hint="give each node its own id", code="duplicate")
    known = set(ids)
    for source, target, _ in edges:
        if source not in known or target not in known:
            stray = target if source in known else source
            problem, place = f"unknown node {stray!r}", f"[{source} -> {target}]"
            raise DimsweepError(problem, where=place, code="unknown-name")
    ends = [(source, target) for source, target, _ in edges]
    if len(set(ends if directed else map(frozenset, ends))) < len(ends):
        pairs = ends if directed else [tuple(sorted(pair, key=repr)) for pair in ends]
        parallel = (f"{source} -> {target}" for source, target in _find_duplicates(pairs))
        raise DimsweepError(
            f"parallel edges: {abbreviate(parallel)}",
            hint="write one edge with the sum of their bandwidths and the number of its `lanes`",
            code="duplicate",
        )


def _find_duplicates(items: Iterable[Any]) -> list[Any]:
    return [item for item, times in Counter(items).items() if times > 1]


def _name_nodes(nodes: Sequence[tuple[Hashable, _Data]]) -> dict[Any, Node]:
    """Return the rank of each NPU and the name of every other node, by their ids."""
    names = {node: _name_node(node, data) for node, data in nodes}
    doubled = _find_duplicates(names.values())
    if doubled:
        kind = "NPU" if isinstance(doubled[0], int) else "switch"
        problem = f"more than one node is {kind} {doubled[0]}"
        raise DimsweepError(problem, hint="number NPUs from 0, each once", code="duplicate")
    if not any(isinstance(name, int) for name in names.values()):
        known = sorted({str(name) for _, data in nodes for name in data})
        near = find_nearest("npu", known)
        asked = f"did you mean {near!r}? " if near else ""
        hint = f'{asked}each NPU has its rank from 0 as an attribute, such as "npu": 3'
        problem = "no node has the attribute npu, so the network has no NPU"
        raise DimsweepError(problem, hint=hint, code="missing")
    return names


def _name_node(node: object, data: _Data) -> Node:
    if "npu" not in data:
        if data.get("kind") == Kind.NPU:
            problem = "an NPU without its rank"
            hint = 'give its rank from 0 as an attribute: "npu": 3'
            raise DimsweepError(problem, where=f"[{node}]", hint=hint, code="missing")
        return str(node)
    rank = data["npu"]
    if isinstance(rank, bool) or not isinstance(rank, int):
        raise DimsweepError(
            f"npu is {rank!r}; it must be a whole number",
            where=f"[{node}]",
            hint='its rank from 0, such as 3; in GraphML, of attr.type="int"',
            code="wrong-type",
        )
    return rank


def _parse_link(data: _Data, place: str) -> dict[str, Any]:
    """Parse the attributes of a link; ``place`` names the link in errors."""
    unknown = data.keys() - _PARSERS.keys()
    missing = [name for name in ("bandwidth", "latency") if name not in data]
    if unknown:
        problem, hint = f"unknown attribute {abbreviate(sorted(unknown))}", ", ".join(_PARSERS)
        raise DimsweepError(problem, where=place, hint=f"known: {hint}", code="unknown-key")
    if missing:
        problem, hint = f"{abbreviate(missing)} is missing", 'such as "50 GB/s", "500 ns"'
        raise DimsweepError(problem, where=place, hint=hint, code="missing")
    return _parse_attributes(data, _PARSERS, place)


def _parse_attributes(
    data: _Data, parsers: Mapping[str, Callable[[object], object]], place: str
) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for name, value in data.items():
        try:
            attributes[name] = parsers[name](value)
        except DimsweepError as error:
            raise error.with_prefix(name).with_prefix(place) from None
    return attributes
