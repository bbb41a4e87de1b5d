"""A network as a graph: NPUs, switches and other devices, joined by one-way links."""

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from dimsweep.engine.errors import DimsweepError, suggest_names
from dimsweep.engine.topology.blocks import Node
from dimsweep.engine.units import BANDWIDTH, LENGTH, MAX_PICOSECONDS, MONEY, POWER, TIME

if TYPE_CHECKING:  # networkx is imported by the functions that need it: few runs do
    import networkx as nx

Medium = Literal["", "copper", "fibre"]


class Kind(StrEnum):
    """The kind of a device; all devices but NPUs only forward messages."""

    NPU = "npu"
    NIC = "nic"
    SWITCH = "switch"
    OCS = "ocs"
    MEMORY = "memory"
    HOST = "host"


@dataclass(frozen=True)
class Device:
    """A device at a node of a network.

    ``ports`` is its radix: the number of cables that fit, counting each lane of a link (``None``:
    no limit).  A device can represent one device in each of several ``planes``, which share its
    ports evenly.  ``part`` is its name in a price list; ``price`` (USD) and ``watts`` apply to one
    device. ``fails`` is the number of failures per year and ``repair`` the seconds until it is back
    (``None``: unknown).
    """

    kind: Kind
    ports: int | None = None
    part: str = ""
    price: Annotated[float, MONEY] | None = None
    watts: Annotated[float, POWER] | None = None
    fails: float | None = None
    repair: Annotated[float, TIME] | None = None
    planes: int = 1


@dataclass(frozen=True)
class LinkRate:
    """The bandwidth (bytes/s) and latency (ps) of the links that share a name in a file."""

    bandwidth: Annotated[float, BANDWIDTH]
    latency: Annotated[int, TIME] = 0


@dataclass(frozen=True)
class Link:
    """A one-way link.

    ``bandwidth`` is in bytes/s and ``latency`` in ps.  ``buffer`` is the number of bytes that may
    wait at its far end (``None``: no limit), and ``dim`` its dimension of the topology (-1: none).

    Two links between the same devices, one each way, are one cable.  ``medium`` is ``copper``,
    ``fibre`` with a transceiver at each end, or empty for a link that is not bought, such as a
    trace on a board.  ``length`` is in metres, and ``part`` names the cable in a price list.  A
    link of several ``lanes`` consists of parallel cables; ``bandwidth`` is their sum.
    """

    source: Node
    target: Node
    bandwidth: float
    latency: int
    buffer: float | None = None
    dim: int = -1
    medium: Medium = ""
    length: Annotated[float, LENGTH] = 0.0
    lanes: int = 1
    part: str = ""

    @property
    def name(self) -> str:
        """Name in messages: ``NPU 3 -> leaf 0``."""
        return f"{node_name(self.source)} -> {node_name(self.target)}"


def node_name(node: Node) -> str:
    """Return the name of a node: a switch's name, or ``NPU 3``."""
    return f"NPU {node}" if isinstance(node, int) else node


class Network:
    """A directed graph of devices, its links numbered in the graph's order of edges.

    A node is an NPU's rank, or the name of another device.  Edges of ``graph`` carry the attributes
    of a :class:`Link`, nodes the attributes of a :class:`Device`.  Without a ``kind``, an int is an
    NPU and a name is a switch.  ``sizes`` are the sizes of the dimensions if NPU ``i`` has
    mixed-radix coordinates, dimension 0 fastest; ``hosts`` are the numbers of the NPUs in the file
    of the network, if lists of flows use them.

    Raises :class:`DimsweepError` naming the node or link if the graph is not a valid network, if an
    NPU cannot reach another, and for a device with more cables than ports.
    """

    def __init__(
        self, graph: "nx.DiGraph", sizes: tuple[int, ...] = (), hosts: tuple[int, ...] = ()
    ) -> None:
        self.graph = graph
        self.sizes = sizes
        self.hosts = hosts
        self.n_npus = _count_npus(graph)
        self.devices = dict(_build_devices(graph))
        self.links = tuple(_build_links(graph))
        self.number = {(link.source, link.target): i for i, link in enumerate(self.links)}
        if sizes and math.prod(sizes) != self.n_npus:
            raise DimsweepError(
                f"dimensions of {sizes} have {math.prod(sizes)} NPUs, the network {self.n_npus}",
                where="sizes",
                code="mismatch",
            )
        self._check_ports()
        self._check_ways()
        self._numbers: dict[tuple[int, ...], int] = {}
        self._ways: list[tuple[int, ...]] = []

    def register_route(self, links: tuple[int, ...]) -> int:
        """Register a fixed route, and return the negative number by which messages ask for it.

        ``links`` are the numbers of its links, from one NPU to another.  The number is the ``way``
        of :meth:`engine.network.routing.Router.route`.
        """
        if links not in self._numbers:
            self._numbers[links] = ~len(self._ways)
            self._ways.append(links)
        return self._numbers[links]

    def links_of_route(self, way: int) -> tuple[int, ...]:
        """Return the links of the route with the number ``way``."""
        return self._ways[~way]

    def cables(self) -> Iterator[Link]:
        """Yield one link of each cable: the first one if it has two."""
        for i, link in enumerate(self.links):
            if self.number.get((link.target, link.source), i) >= i:
                yield link

    def _check_ports(self) -> None:
        limited = {node: device.ports for node, device in self.devices.items() if device.ports}
        if not limited:
            return
        used = dict.fromkeys(limited, 0)
        for cable in self.cables():
            for node in (cable.source, cable.target):
                if node in used:
                    used[node] += cable.lanes
        for node, ports in limited.items():
            if used[node] > ports:
                raise DimsweepError(
                    f"{node_name(node)} has {used[node]} cables and {ports} ports",
                    where=f"[{node}].ports",
                    code="mismatch",
                    hint="fewer links or lanes, or a switch with more ports",
                )

    def _check_ways(self) -> None:
        """Raise :class:`DimsweepError` unless all NPUs can reach each other."""
        out: dict[Node, list[Node]] = {node: [] for node in self.devices}
        into: dict[Node, list[Node]] = {node: [] for node in self.devices}
        for link in self.links:
            out[link.source].append(link.target)
            into[link.target].append(link.source)
        npus = set(range(self.n_npus))
        unreached, stranded = npus - _find_reached(0, out), npus - _find_reached(0, into)
        if not unreached and not stranded:
            return
        source, target = (0, min(unreached)) if unreached else (min(stranded), 0)
        reason = ""
        if not out[source]:
            reason = f": NPU {source} has no outgoing link"
        elif not into[target]:
            reason = f": NPU {target} has no incoming link"
        hint = "every NPU must be able to reach every other"
        if target in _find_reached(source, {node: out[node] + into[node] for node in out}):
            hint += "; a link leads in one direction only"
        else:
            hint += "; no link joins their parts of the network"
        problem = f"no route from NPU {source} to NPU {target}{reason}"
        raise DimsweepError(problem, hint=hint, code="invalid")

    def find_links(self, names: Collection[str]) -> list[int]:
        """Return the numbers of the links with these names, without repetition.

        The name of a node selects all links on which it sends.  Raises :class:`DimsweepError` with
        the nearest names for an unknown name.
        """
        known: dict[str, list[int]] = {}
        for i, link in enumerate(self.links if names else ()):
            known.setdefault(link.name, []).append(i)
            known.setdefault(node_name(link.source), []).append(i)
        for i, name in enumerate(names):
            if name not in known:
                near = " or ".join(map(repr, get_close_matches(name, known, cutoff=0.4)))
                raise DimsweepError(
                    f"unknown link or node {name!r}",
                    where=f"watch[{i}]",
                    code="unknown-name",
                    hint=f"did you mean {near}?" if near else f"known: {abbreviate(known)}",
                )
        return list(dict.fromkeys(i for name in names for i in known[name]))


def _find_reached(start: Node, neighbours: Mapping[Node, Iterable[Node]]) -> set[Node]:
    """Return the nodes that are reachable from ``start``, including it."""
    reached, last = {start}, {start}
    while last:
        last = set().union(*(neighbours[node] for node in last)) - reached
        reached |= last
    return reached


def abbreviate(items: Iterable[object]) -> str:
    """Return the first five of ``items``, and the number of the remaining ones, as text."""
    names = [str(item) for item in items]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _count_npus(graph: "nx.DiGraph") -> int:
    if not graph.is_directed() or graph.is_multigraph():
        problem = f"a network cannot be a {type(graph).__name__}"
        raise DimsweepError(problem, hint="use a networkx.DiGraph", code="wrong-type")
    strange = [node for node in graph if isinstance(node, bool) or not isinstance(node, int | str)]
    if strange:
        raise DimsweepError(
            f"neither an NPU nor a switch: {abbreviate(map(repr, strange))}",
            hint="name an NPU by its rank, an int, and a switch by its name, a str",
            code="wrong-type",
        )
    ranks = {node for node in graph if isinstance(node, int)}
    if not ranks:
        hint = "number the NPUs from 0"
        raise DimsweepError("the network has no NPU", hint=hint, code="missing")
    missing = sorted(set(range(len(ranks))) - ranks)
    if missing:
        stray = sorted(ranks - set(range(len(ranks))))
        raise DimsweepError(
            f"NPU {abbreviate(missing)} is missing; NPU {abbreviate(stray)} is out of range",
            hint=f"number the {len(ranks)} NPUs from 0 to {len(ranks) - 1}",
            code="mismatch",
        )
    return len(ranks)


def _build_devices(graph: "nx.DiGraph") -> Iterator[tuple[Node, Device]]:
    """Yield (node, device) of a graph; nodes with equal attributes share one object."""
    made: dict[tuple[object, ...], Device] = {}
    for node, attributes in graph.nodes(data=True):
        if isinstance(node, str) and node.startswith("NPU ") and _is_taken(node, graph):
            problem = f"a device is named {node!r}, which is the name of an NPU"
            raise DimsweepError(problem, hint="rename the device", code="duplicate")
        key = (isinstance(node, int), *attributes.items())
        try:
            device = made.get(key)
        except TypeError:  # unhashable, which no attribute may be: it is refused below
            device = None
        if device is None:
            device = _build_device(node, attributes)
            made[key] = device
        yield node, device


def _is_taken(name: str, graph: "nx.DiGraph") -> bool:
    rank = name.removeprefix("NPU ")
    return rank.isdecimal() and graph.has_node(int(rank))


def _build_device(node: Node, attributes: Mapping[str, object]) -> Device:
    usual = Kind.NPU if isinstance(node, int) else Kind.SWITCH
    known = [field.name for field in fields(Device)]
    for name, value in attributes.items():
        if name not in known:
            problem, hint = f"unknown attribute {name!r}", suggest_names(name, known)
            raise DimsweepError(problem, where=f"[{node}]", hint=hint, code="unknown-key")
        if expected := _describe_expected(name, value):
            problem = f"{name} {value!r}; it must be {expected}"
            raise DimsweepError(problem, where=f"[{node}]", code="invalid")
    kind = Kind(attributes.get("kind", usual))  # type: ignore[arg-type]  # checked above
    device = Device(**{**attributes, "kind": kind})  # type: ignore[arg-type]  # checked above
    if (device.kind is Kind.NPU) != isinstance(node, int):
        problem = f"{node!r} cannot be of the kind {device.kind.value}"
        hint = "name an NPU by its rank, an int, and any other device by its name, a str"
        raise DimsweepError(problem, where=f"[{node}]", hint=hint, code="conflict")
    return device


def _describe_expected(name: str, value: object) -> str:
    """Return what an attribute of a device must be, or "" if ``value`` is valid."""
    if name == "kind":
        known = ", ".join(Kind)
        return "" if isinstance(value, str) and value in set(Kind) else f"one of {known}"
    if name == "part":
        return "" if isinstance(value, str) else "a name"
    if name in ("ports", "planes"):
        right = _is_count(value) or (value is None and name == "ports")
        return "" if right else "a whole number of at least one"
    right = value is None or (_is_number(value) and 0 <= value <= sys.float_info.max)  # type: ignore[operator]
    return "" if right else "a finite number of zero or more"


def _build_links(graph: "nx.DiGraph") -> Iterator[Link]:
    """Yield the links of a graph; links with the same values as an earlier one are not checked."""
    made: dict[tuple[object, ...], dict[str, object]] = {}
    for source, target, attributes in graph.edges(data=True):
        known = made.get(key := (*attributes, *map(id, attributes.values())))
        if known is None or source == target:
            link = _build_link(source, target, attributes)
            made[key] = vars(link)
        else:  # as dataclasses.replace, in a third of the time
            link = object.__new__(Link)
            vars(link).update(known, source=source, target=target)
        yield link


def _build_link(source: Node, target: Node, attributes: Mapping[str, object]) -> Link:
    try:
        link = Link(source, target, **attributes)  # type: ignore[arg-type]  # checked below
    except TypeError as error:
        unknown = attributes.keys() - {field.name for field in fields(Link)}
        raise DimsweepError(
            str(error).removeprefix("Link.__init__() "),
            where=f"[{source} -> {target}]",
            code="unknown-key" if unknown else "missing",
            hint=f"a link has a bandwidth and a latency, and may have {_MAY_HAVE}",
        ) from None
    if problem := _find_problem(link):
        raise DimsweepError(problem, where=f"[{source} -> {target}]", code="invalid")
    return link


_MAY_HAVE = ", ".join(field.name for field in fields(Link)[4:])


def _find_problem(link: Link) -> str:
    """Return a phrase that names a link's fault, or ""."""
    if link.source == link.target:
        return "a link from a node to itself"
    if not _is_amount(link.bandwidth):
        return f"bandwidth {link.bandwidth!r}; it must be bytes/s, finite and more than zero"
    if not isinstance(link.latency, int) or not 0 <= link.latency <= MAX_PICOSECONDS:
        return f"latency {link.latency!r}; it must be whole picoseconds, 0 to {MAX_PICOSECONDS}"
    if link.buffer is not None and not _is_amount(link.buffer):
        return f"buffer {link.buffer!r}; it must be bytes, finite and more than zero, or None"
    if link.medium not in get_args(Medium):
        return (
            f"medium {link.medium!r}; it must be copper, fibre, or empty for a link without a price"
        )
    if not (link.length == 0 or _is_amount(link.length)):
        return f"length {link.length!r}; it must be metres, finite and zero or more"
    if not _is_count(link.lanes):
        return f"lanes {link.lanes!r}; it must be a whole number of at least one"
    if not isinstance(link.part, str):
        return f"part {link.part!r}; it must be the name of a cable in a price list"
    return ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value <= sys.float_info.max


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
