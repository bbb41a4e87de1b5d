"""A network as a graph: NPUs and switches, joined by one-way links."""

import math
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from engine.cluster.blocks.block import Node
from engine.errors import DimsweepError
from engine.units import MAX_PICOSECONDS

if TYPE_CHECKING:  # networkx is imported by the functions that need it: few runs do
    import networkx as nx


@dataclass(frozen=True)
class Link:
    """A one-way link.

    ``bandwidth`` is bytes per second, ``latency`` picoseconds, ``buffer`` the bytes of messages
    that may wait at its far end (``None``: no limit), ``dim`` the dimension of the topology that it
    belongs to (-1: none).
    """

    source: Node
    target: Node
    bandwidth: float
    latency: int
    buffer: float | None = None
    dim: int = -1

    @property
    def name(self) -> str:
        """Such as ``NPU 3 -> leaf 0``."""
        return f"{node_name(self.source)} -> {node_name(self.target)}"


def node_name(node: Node) -> str:
    """A switch's own name, or the number of an NPU as ``NPU 3``."""
    return f"NPU {node}" if isinstance(node, int) else node


class Network:
    """A directed graph of NPUs and switches, its links numbered in the graph's order of edges.

    Edges of ``graph`` carry the attributes of a :class:`Link`.  ``sizes`` are the sizes of the
    dimensions when NPU ``i`` sits at mixed-radix coordinates, dimension 0 fastest.  Raises
    :class:`DimsweepError` naming the node or link for anything that is no network in which every
    NPU has a way to every other.
    """

    def __init__(self, graph: "nx.DiGraph", sizes: tuple[int, ...] = ()) -> None:
        self.graph = graph
        self.sizes = sizes
        self.n_npus = _count_npus(graph)
        self.links = tuple(_link(*edge) for edge in graph.edges(data=True))
        self.number = {(link.source, link.target): i for i, link in enumerate(self.links)}
        if sizes and math.prod(sizes) != self.n_npus:
            raise DimsweepError(
                f"dimensions of {sizes} have {math.prod(sizes)} NPUs, the network {self.n_npus}"
            )
        _check_ways(graph, self.n_npus)

    def named(self, names: Collection[str]) -> list[int]:
        """The numbers of links by their names, without repetition; that of a node stands for all
        links by which it sends.  Raises :class:`DimsweepError` with the nearest for a name that
        there is not."""
        known: dict[str, list[int]] = {}
        for i, link in enumerate(self.links if names else ()):
            known.setdefault(link.name, []).append(i)
            known.setdefault(node_name(link.source), []).append(i)
        for i, name in enumerate(names):
            if name not in known:
                near = " or ".join(map(repr, get_close_matches(name, known, cutoff=0.4)))
                raise DimsweepError(
                    f"no link or node is called {name!r}",
                    where=f"watch[{i}]",
                    hint=f"did you mean {near}?" if near else f"known: {some(known)}",
                )
        return list(dict.fromkeys(i for name in names for i in known[name]))


def some(items: Iterable[object]) -> str:
    """The first few of ``items``, for a message."""
    names = [str(item) for item in items]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _count_npus(graph: "nx.DiGraph") -> int:
    if not graph.is_directed() or graph.is_multigraph():
        raise DimsweepError(f"a {type(graph).__name__} is no network", hint="use a DiGraph")
    strange = [node for node in graph if isinstance(node, bool) or not isinstance(node, int | str)]
    if strange:
        raise DimsweepError(
            f"neither NPU nor switch: {some(map(repr, strange))}",
            hint="an NPU is its rank, an int; a switch its name, a str",
        )
    ranks = {node for node in graph if isinstance(node, int)}
    if not ranks:
        raise DimsweepError("the network has no NPU", hint="number the NPUs from 0")
    missing = sorted(set(range(len(ranks))) - ranks)
    if missing:
        stray = sorted(ranks - set(range(len(ranks))))
        raise DimsweepError(
            f"NPU {some(missing)} is missing, and there is NPU {some(stray)}",
            hint=f"number the {len(ranks)} NPUs from 0 to {len(ranks) - 1}",
        )
    return len(ranks)


def _link(source: Node, target: Node, attributes: Mapping[str, object]) -> Link:
    try:
        link = Link(source, target, **attributes)  # type: ignore[arg-type]  # checked below
    except TypeError as error:
        raise DimsweepError(
            str(error).removeprefix("Link.__init__() "),
            where=f"[{source} -> {target}]",
            hint="a link has a bandwidth and a latency, and may have a buffer and a dim",
        ) from None
    wrong = _wrong(link)
    if wrong:
        raise DimsweepError(wrong, where=f"[{source} -> {target}]")
    return link


def _wrong(link: Link) -> str:
    """What is wrong with a link, or nothing."""
    if link.source == link.target:
        return "a link from a node to itself; nothing could use it"
    if not _is_amount(link.bandwidth):
        return f"bandwidth {link.bandwidth!r}; it must be bytes/s, finite and more than zero"
    if not isinstance(link.latency, int) or not 0 <= link.latency <= MAX_PICOSECONDS:
        return f"latency {link.latency!r}; it must be whole picoseconds, 0 to {MAX_PICOSECONDS}"
    if link.buffer is not None and not _is_amount(link.buffer):
        return f"buffer {link.buffer!r}; it must be bytes, finite and more than zero, or None"
    return ""


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value <= sys.float_info.max


def _check_ways(graph: "nx.DiGraph", n_npus: int) -> None:
    """All NPUs reach one another exactly when all reach NPU 0 and NPU 0 reaches all."""
    import networkx as nx

    npus = set(range(1, n_npus))
    unreached = npus - nx.descendants(graph, 0)
    stranded = npus - nx.ancestors(graph, 0)
    if not unreached and not stranded:
        return
    source, target = (0, min(unreached)) if unreached else (min(stranded), 0)
    reason = ""
    if not graph.out_degree(source):
        reason = f": NPU {source} has no outgoing link"
    elif not graph.in_degree(target):
        reason = f": NPU {target} has no incoming link"
    raise DimsweepError(
        f"NPU {source} has no way to NPU {target}{reason}",
        hint="every NPU must be able to reach every other; a link leads one way only",
    )
