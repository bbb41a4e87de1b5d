"""Degraded networks: links that are slower, devices that are down, and the remaining network.

A degraded network is an ordinary network: routes, kernels and bounds read the remaining links.
The parts that were bought, and their prices, stay the same.

"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from dimsweep.engine.errors import DimsweepError, InfeasibleError, prefixing_errors
from dimsweep.engine.network.graph import Kind, Link, Network, abbreviate, node_name
from dimsweep.engine.topology.blocks import Node

if TYPE_CHECKING:  # networkx is imported by the functions that need it: few runs do
    import networkx as nx


# --- a choice of devices or links -----------------------------------------------------------------


_ARROW = re.compile(r"\s*(<?)->\s*")
_ANY = "*"


@dataclass(frozen=True)
class Selection:
    """Criteria that select devices or links of a network; a match meets every given criterion.

    ``named`` is a name as networks print it, such as ``leaf 0`` or ``NPU 3 -> leaf 0``, or both
    directions ``NPU 3 <-> leaf 0``; a ``*`` in it stands for any characters.  ``kind`` is the kind
    of devices.  Links lie ``between`` devices of two kinds, in either direction, and belong to
    dimension ``dim``.  ``draw`` keeps that number of the matches, drawn at random by ``seed``; a
    drawn cable takes both of its links.  A larger ``draw`` contains the smaller one.
    """

    named: str = _ANY
    kind: Kind | None = None
    between: tuple[Kind, Kind] | None = None
    dim: int | None = None
    draw: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.draw is not None and self.draw < 1:
            problem = f"{self.draw}; it must be 1 or more"
            raise DimsweepError(problem, where="draw", code="out-of-range")

    def devices(self, kinds: Mapping[Node, Kind], *, npus: bool) -> list[Node]:
        """Return the selected NPUs (``npus``), or the selected devices that are not NPUs.

        ``kinds`` holds the kind of each device of the network.
        Raises :class:`DimsweepError` for an unknown name, with the nearest one, and if no device
        or too few devices match.
        """
        self._refuse_keys(("between", "dim"), "links")
        what = f"{self.kind or 'NPU'}" if npus else f"{self.kind or 'switch'}"
        names = {
            node_name(node): node
            for node, kind in kinds.items()
            if (kind is Kind.NPU) == npus and self.kind in (None, kind)
        }
        if _ANY not in self.named and self.named not in names:
            raise _unknown_name_error(what, self.named, names)
        fitting = [name for name in names if _matches_pattern(name, self.named)]
        return [names[name] for name in self._draw_names(fitting, what)]

    def links(self, network: Network) -> list[Link]:
        """Return the selected links.  Raises :class:`DimsweepError` as for devices."""
        self._refuse_keys(("kind",), "devices")
        found = []
        for link in network.links:
            kinds = network.devices[link.source].kind, network.devices[link.target].kind
            of_dim = self.dim is None or link.dim == self.dim
            if of_dim and self.between in (None, kinds, kinds[::-1]):
                found.append(link)
        if self.named != _ANY:
            source, both, target = self._split_ends(network)

            def fits(one: Node, other: Node) -> bool:
                return _matches_pattern(node_name(one), source) and _matches_pattern(
                    node_name(other), target
                )

            found = [
                link
                for link in found
                if fits(link.source, link.target) or (both and fits(link.target, link.source))
            ]
        if self.draw is None:
            return self._require_matches(found, "link")
        cables: dict[str, list[Link]] = {}
        for link in found:
            ends = sorted((node_name(link.source), node_name(link.target)))
            cables.setdefault(" - ".join(ends), []).append(link)
        drawn = [cables[name][0] for name in self._draw_names(list(cables), "cable")]
        ways = [
            way
            for link in drawn
            for way in ((link.source, link.target), (link.target, link.source))
        ]
        return [network.links[network.number[way]] for way in ways if way in network.number]

    def _refuse_keys(self, keys: Sequence[str], of: str) -> None:
        for key in keys:
            if getattr(self, key) is not None:
                raise DimsweepError(f"only {of} have it", where=key, code="conflict")

    def _split_ends(self, network: Network) -> tuple[str, bool, str]:
        """Return the two end names in ``named``, and whether both directions are meant."""
        source, both, target = (*_ARROW.split(self.named), "", "")[:3]
        if not target:
            hint = "such as NPU 3 -> leaf 0, or NPU 3 <-> leaf 0 for both ways"
            problem = f"{self.named!r} does not name a link by its two ends"
            raise DimsweepError(problem, where="named", hint=hint, code="bad-syntax")
        known = {node_name(node): node for node in network.graph}
        for name in (source, target):
            if _ANY not in name and name not in known:
                raise _unknown_name_error("device", name, known)
        if _ANY not in self.named and known[target] not in network.graph[known[source]]:
            targets = abbreviate(map(node_name, network.graph[known[source]]))
            raise DimsweepError(
                f"no link {source} -> {target}",
                where="named",
                code="unknown-name",
                hint=f"links of {source} lead to {targets}",
            )
        return source, bool(both), target

    def _draw_names(self, names: list[str], what: str) -> list[str]:
        """Return all ``names``, or a random draw of ``draw`` names that ``seed`` determines."""
        found = self._require_matches(names, what)
        if self.draw is None:
            return found
        if self.draw > len(found):
            problem = f"{self.draw} of {len(found)}; it must be {len(found)} or less"
            hint = f"the selection matches only {len(found)} of kind {what}"
            raise DimsweepError(problem, where="draw", hint=hint, code="out-of-range")

        def lot(name: str) -> bytes:  # the same on every machine, unlike ``hash``
            return hashlib.blake2b(f"{self.seed} {name}".encode(), digest_size=8).digest()

        return sorted(found, key=lot)[: self.draw]

    def _require_matches(self, found: list, what: str) -> list:  # type: ignore[type-arg]
        if not found:
            raise DimsweepError(f"no {what} of the network matches", code="unknown-name")
        return found


def _matches_pattern(name: str, pattern: str) -> bool:
    return name == pattern or (_ANY in pattern and fnmatchcase(name, pattern.replace("[", "[[]")))


def _unknown_name_error(kind: str, name: str, known: Iterable[str]) -> DimsweepError:
    names = list(known)
    near = " or ".join(map(repr, get_close_matches(name, names, cutoff=0.4)))
    hint = f"did you mean {near}?" if near else f"known: {abbreviate(names)}" if names else ""
    problem = f"unknown {kind} {name!r}"
    return DimsweepError(problem, where="named", hint=hint, code="unknown-name")


# --- changes --------------------------------------------------------------------------------------


_OF = ("link", "switch", "npu")
_EXAMPLE = "such as {switch: leaf 0, down: true} or {link: NPU 3 -> leaf 0, bandwidth: 50 %}"


@dataclass(frozen=True)
class Change:
    """A degradation of links, of switches (any devices but NPUs), or of NPUs.

    A link, or each link of a device, keeps the fraction ``bandwidth`` of its bandwidth.  A link or
    device that is ``down`` carries nothing.  An NPU keeps the fraction ``speed`` of its compute
    speed. Raises :class:`DimsweepError` unless exactly one kind of device or link and one change
    are given.
    """

    link: Selection | None = None
    switch: Selection | None = None
    npu: Selection | None = None
    bandwidth: float | None = None
    speed: float | None = None
    down: bool = False

    def __post_init__(self) -> None:
        of = [name for name in _OF if getattr(self, name) is not None]
        if len(of) != 1:
            problem = f"{' and '.join(of)} at once" if of else "no link, switch or NPU is given"
            hint = f"give one of {', '.join(_OF)}, {_EXAMPLE}"
            raise DimsweepError(problem, hint=hint, code="conflict" if of else "missing")
        shares = {"bandwidth": self.bandwidth, "speed": self.speed}
        given = [name for name, share in shares.items() if share is not None]
        given += ["down"] * self.down
        if len(given) != 1:
            problem = f"{' and '.join(given)} at once" if given else "no change is given"
            hint = f"give one of bandwidth, speed and down, {_EXAMPLE}"
            raise DimsweepError(problem, hint=hint, code="conflict" if given else "missing")
        if self.speed is not None and self.npu is None:
            problem = f"a {of[0]} has no speed; only NPUs have one"
            hint = "such as {npu: 7, speed: 90 %}"
            raise DimsweepError(problem, where="speed", hint=hint, code="conflict")
        for name, share in shares.items():
            if share is not None and not 0 < share <= 1:
                problem = f"{100 * share:.6g} %; it must be above 0 % and at most 100 %"
                hint = "down: true if nothing remains"
                raise DimsweepError(problem, where=name, hint=hint, code="out-of-range")

    def devices(self, kinds: Mapping[Node, Kind]) -> list[Node]:
        """Return the selected devices; ``kinds`` holds the kind of each device of the network."""
        for name in ("switch", "npu"):
            which: Selection | None = getattr(self, name)
            if which is not None:
                with prefixing_errors(name):
                    return which.devices(kinds, npus=name == "npu")
        return []

    def links(self, network: Network) -> list[Link]:
        """Return the selected links, or all links of the selected devices."""
        if self.link is not None:
            with prefixing_errors("link"):
                return self.link.links(network)
        devices = {*self.devices(_kinds_by_node(network))}
        return [link for link in network.links if {link.source, link.target} & devices]


def degrade_network(
    network: Network, changes: Sequence[Change], used: Sequence[int] = ()
) -> Network:
    """Return ``network`` after all ``changes``, or ``network`` itself if nothing changes.

    Names and draws refer to the whole network, so the order of ``changes`` does not matter;
    bandwidth fractions for the same link multiply.  If ranks run only on the NPUs ``used``, in
    order of ranks, the result has these NPUs, numbered by rank; the others become idle devices,
    which may be down.

    Raises :class:`DimsweepError` naming the change if the network has no such device or link, and
    :class:`InfeasibleError` naming NPUs that cannot reach each other any more.
    """
    if not used and all(change.speed is not None for change in changes):
        return network
    npus = list(used) or list(range(network.n_npus))
    graph = _build_remaining_graph(network, changes, npus)
    return Network(_renumber(graph, used), () if used else network.sizes)


def _renumber(graph: "nx.DiGraph", used: Sequence[int]) -> "nx.DiGraph":
    """Return the graph with the NPUs ``used`` numbered by rank, and idle NPUs as named hosts."""
    import networkx as nx

    if not used:
        return graph
    ranks: dict[Node, Node] = {npu: rank for rank, npu in enumerate(used)}
    idle: dict[Node, Node] = {
        node: f"idle NPU {node}" for node in graph if isinstance(node, int) and node not in ranks
    }
    for name in idle.values():
        if name in graph:
            problem = f"a device is named {name!r}, which is the name of an NPU"
            raise DimsweepError(problem, hint="rename the device", code="duplicate")
    numbered = nx.relabel_nodes(graph, ranks | idle)
    for name in idle.values():
        numbered.nodes[name]["kind"] = Kind.HOST  # it runs nothing, and passes messages on
    return numbered


def _build_remaining_graph(
    network: Network, changes: Sequence[Change], npus: Sequence[int]
) -> "nx.DiGraph":
    """Return the remaining graph, in which all ``npus`` reach each other."""
    graph, down = network.graph.copy(), dict[str, None]()
    shares: dict[tuple[Node, Node], list[float]] = {}
    for i, change in enumerate(changes):
        if change.speed is not None:
            continue
        with prefixing_errors(f"[{i}]"):
            links, devices = change.links(network), change.devices(_kinds_by_node(network))
            if change.down:
                _check_spared(devices, npus)
        if change.bandwidth is not None:
            for link in links:
                shares.setdefault((link.source, link.target), []).append(change.bandwidth)
            continue
        graph.remove_nodes_from(devices)
        graph.remove_edges_from([(link.source, link.target) for link in links])
        down |= dict.fromkeys(map(node_name, devices) if devices else (x.name for x in links))
    for ends, left in shares.items():
        if graph.has_edge(*ends):  # in whatever order: a product is rounded by it
            graph.edges[ends]["bandwidth"] *= math.prod(sorted(left))
    if down:
        _check_reached(graph, npus, list(down))
    return graph


def find_reduced_speeds(changes: Sequence[Change], n_npus: int) -> dict[int, float]:
    """Return the fraction of its compute speed that each slowed NPU keeps, by NPU number.

    Raises :class:`DimsweepError` naming the change for an unknown NPU.
    """
    found: dict[int, float] = {}
    slower = [(i, each, each.speed) for i, each in enumerate(changes) if each.speed is not None]
    # A million NPUs are looked at where one of them is slower.
    kinds: dict[Node, Kind] = dict.fromkeys(range(n_npus if slower else 0), Kind.NPU)
    for i, change, speed in slower:
        with prefixing_errors(f"[{i}]"):
            npus = change.devices(kinds)
        for npu in npus:
            assert isinstance(npu, int)
            found[npu] = found.get(npu, 1.0) * speed
    return {npu: share for npu, share in found.items() if share < 1}


def _kinds_by_node(network: Network) -> dict[Node, Kind]:
    return {node: device.kind for node, device in network.devices.items()}


def _check_spared(devices: Sequence[Node], npus: Sequence[int]) -> None:
    busy = {*npus}
    lost = [node_name(node) for node in devices if node in busy]
    if lost:
        raise DimsweepError(
            f"{abbreviate(lost)} runs a rank, so it cannot be down",
            where="npu",
            code="conflict",
            hint="an iteration needs all its ranks: network.placement can leave an NPU out",
        )


def _check_reached(graph: "nx.DiGraph", npus: Sequence[int], down: Sequence[str]) -> None:
    """Raise :class:`InfeasibleError` naming NPUs unless all ``npus`` reach each other."""
    import networkx as nx

    parts = [sorted(part & {*npus}) for part in nx.strongly_connected_components(graph)]
    most = max(parts, key=len)
    if len(most) == len(npus):
        return
    strays = sorted({*npus} - {*most})
    reaching = nx.ancestors(graph, most[0])
    source, target = [npu for npu in strays if npu not in reaching], most
    if not source:
        reached = nx.descendants(graph, most[0])
        source, target = most, [npu for npu in strays if npu not in reached]
    raise InfeasibleError(
        f"NPU {abbreviate(source)} cannot reach NPU {abbreviate(target)} while {abbreviate(down)}"
        f" {'is' if len(down) == 1 else 'are'} down",
        hint="every rank must reach every other rank",
    )
