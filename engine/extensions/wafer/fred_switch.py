"""FRED's switches: flows through a FRED_m(P), their routes by graph colouring, and remedies."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from dimsweep.engine.errors import DimsweepError

Link = tuple[Any, Any]  # from one node of a switch to another


@dataclass(frozen=True)
class Flow:
    """A stream through a switch: bytes from ``inputs`` are reduced and leave at all ``outputs``.

    A unicast has one of each, a multicast one input, a reduction one output; an all-reduce among
    the members of a group has the same ports on both sides.
    """

    inputs: frozenset[int]
    outputs: frozenset[int]
    name: str = ""

    @classmethod
    def from_ports(cls, ports: Iterable[int], name: str = "") -> "Flow":
        """Return the all-reduce of a group of NPUs at ``ports``."""
        members = frozenset(ports)
        return cls(members, members, name or "{" + ", ".join(map(str, sorted(members))) + "}")


@dataclass(frozen=True)
class Route:
    """A flow with the links inside the switch that it uses exclusively."""

    flow: Flow
    links: frozenset[Link]


class UnroutableError(DimsweepError):
    """Raised for flows that cannot all pass a switch at once.

    They share microswitches, and there are not enough middle switches to separate them.
    """

    @classmethod
    def naming(cls, flows: Sequence[Flow], middles: int) -> "UnroutableError":
        """Return the error, whose text names the flows."""
        names = "; ".join(flow.name for flow in flows)
        return cls(
            f"{len(flows)} flows share microswitches in such a way that {middles} middle switches "
            f"cannot keep them apart: {names}",
            where="network.wafer",
            hint="groups on consecutive ports, more middle switches (network.wafer.middles), or "
            "network.wafer.remedy=serialise, decompose or place",
        )


def check_flows(flows: Sequence[Flow], ports: int) -> None:
    """Raise :class:`DimsweepError` naming a flow with a missing, unknown or shared port."""
    for side in ("inputs", "outputs"):
        taken: dict[int, str] = {}
        for flow in flows:
            own = getattr(flow, side)
            if not own:
                raise DimsweepError(
                    f"the flow {flow.name} has no {side}", where="network.wafer", code="missing"
                )
            for port in sorted(own):
                if not 0 <= port < ports:
                    raise DimsweepError(
                        f"the flow {flow.name} uses port {port} of a switch of {ports} ports",
                        where="network.wafer",
                        hint=f"ports are 0 to {ports - 1}: use a smaller group, or a larger switch",
                        code="out-of-range",
                    )
                if port in taken:
                    raise DimsweepError(
                        f"the flows {taken[port]} and {flow.name} share port {port} "
                        f"among their {side}",
                        where="network.wafer",
                        hint="concurrent flows need separate ports",
                        code="conflict",
                    )
                taken[port] = flow.name


if TYPE_CHECKING:  # networkx is imported by the functions that need it: few runs do
    import networkx as nx


def conflicts(flows: Sequence[Flow]) -> "nx.Graph":
    """Return the graph of flow numbers, joined if two flows share an outer microswitch.

    The outer microswitches belong to the first and the last stage.
    """
    return joined(
        [
            {("in", switch) for switch in halved(flow.inputs)}
            | {("out", switch) for switch in halved(flow.outputs)}
            for flow in flows
        ]
    )


def joined(parts: Sequence[Iterable[Hashable]]) -> "nx.Graph":
    """Return the graph of the indices of ``parts``, joined if two have an element in common."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(len(parts)))
    has: dict[Hashable, list[int]] = {}
    for number, part in enumerate(parts):
        for thing in part:
            graph.add_edges_from((other, number) for other in has.setdefault(thing, []))
            has[thing].append(number)
    return graph


def halved(ports: Iterable[int]) -> frozenset[int]:
    """Return the microswitches, of two ports each, that ``ports`` belong to."""
    return frozenset(port // 2 for port in ports)


def colour(graph: "nx.Graph", colours: int) -> Mapping[int, int] | None:
    """Return a colour below ``colours`` for each node, unlike its neighbours' colours, or None.

    The search is exact: saturation first (Brelaz, CACM 1979), with backtracking.
    """
    import networkx as nx

    quick: dict[int, int] = nx.greedy_color(graph, strategy="saturation_largest_first")
    if max(quick.values(), default=0) < colours:
        return quick
    found: dict[int, int] = {}
    return found if _extend(graph, colours, found) else None


def _extend(graph: "nx.Graph", colours: int, found: dict[int, int]) -> bool:
    """Colour the nodes not yet in ``found``, most constrained first; return whether it succeeds."""
    if len(found) == len(graph):
        return True

    def taken(node: int) -> set[int]:
        return {found[other] for other in graph[node] if other in found}

    node = max(set(graph) - set(found), key=lambda n: (len(taken(n)), graph.degree(n), -n))
    fresh = max(found.values(), default=-1) + 1  # colours that none has are alike: try one of them
    for choice in sorted(set(range(min(colours, fresh + 1))) - taken(node)):
        found[node] = choice
        if _extend(graph, colours, found):
            return True
        del found[node]
    return False


if TYPE_CHECKING:  # networkx is imported by the functions that need it: few runs do
    import networkx as nx

MAX_PORTS = 4096

Path = tuple[int, ...]  # the middle switch taken at each level, from the outermost


@dataclass(frozen=True)
class FredSwitch:
    """A switch FRED_m(P): ``middles`` is m and ``ports`` is P.

    A first stage of microswitches takes two input ports each, which it may *reduce* to one; m
    switches FRED_m(P/2) are in the middle; a last stage of microswitches has two output ports each,
    to which it may *distribute* its input.  For an odd P the last port has a separate microswitch.
    FRED_m(2) is one microswitch that does both.  (It is a Clos network whose middle has the
    structure of the entire switch, like Benes' network of m = 2.)

    Raises :class:`DimsweepError` for fewer than two ports or middle switches.
    """

    ports: int
    middles: int = 3

    def __post_init__(self) -> None:
        if not 2 <= self.ports <= MAX_PORTS:
            raise DimsweepError(
                f"{self.ports}; it must be from 2 to {MAX_PORTS}",
                where="ports",
                code="out-of-range",
            )
        if not 2 <= self.middles <= self.ports + 1:
            raise DimsweepError(
                f"{self.middles}; it must be from 2 to {self.ports + 1}",
                where="middles",
                hint="2 pass any permutation, 3 (the paper's) any groups on consecutive ports; "
                "more than the ports are never used",
                code="out-of-range",
            )

    def route(self, flows: Sequence[Flow]) -> tuple[Route, ...]:
        """Return a route for each flow; routes share no link.

        Flows that share a microswitch of the first or last stage take different middle switches.
        Their conflict graph is coloured with m colours, and so on inside each middle switch.

        Raises :class:`UnroutableError` naming the flows without a colouring, and
        :class:`DimsweepError` for flows that share a port or leave the switch.
        """
        check_flows(flows, self.ports)
        found = [set(_ports(flow, self.ports)) for flow in flows]
        _route(self.middles, (), self.ports, list(enumerate(flows)), found)
        return tuple(
            Route(flow, frozenset(links)) for flow, links in zip(flows, found, strict=True)
        )

    def graph(self) -> "nx.DiGraph":
        """Return the graph of nodes and links.

        Ports are ``("port in", i)`` and ``("port out", i)``, all other nodes microswitches.
        """
        import networkx as nx

        graph = nx.DiGraph()
        for port in range(self.ports):
            graph.add_edge(("port in", port), entry((), self.ports, port))
            graph.add_edge(exit_((), self.ports, port), ("port out", port))
        graph.add_edges_from(_links(self.middles, (), self.ports))
        return graph

    def n_microswitches(self) -> int:
        """Return the number of microswitches of the switch, at all levels."""
        return _count(self.middles, self.ports)


def entry(path: Path, ports: int, port: int) -> Any:
    """Return the node of the microswitch by which input ``port`` enters the switch at ``path``."""
    return ("both", path) if ports == 2 else ("reduce", path, port // 2)


def exit_(path: Path, ports: int, port: int) -> Any:
    """Return the node of the microswitch by which output ``port`` leaves the switch at ``path``."""
    return ("both", path) if ports == 2 else ("distribute", path, port // 2)


def _half(ports: int) -> int:
    return (ports + 1) // 2


def _ports(flow: Flow, ports: int) -> Iterator[Link]:
    yield from ((("port in", p), entry((), ports, p)) for p in flow.inputs)
    yield from ((exit_((), ports, p), ("port out", p)) for p in flow.outputs)


def _link_up(path: Path, ports: int, middle: int, port: int) -> Link:
    """Return the link from first-stage microswitch ``port`` to middle switch ``middle``."""
    return ("reduce", path, port), entry((*path, middle), _half(ports), port)


def _link_down(path: Path, ports: int, middle: int, port: int) -> Link:
    """Return the link from middle switch ``middle`` to last-stage microswitch ``port``."""
    return exit_((*path, middle), _half(ports), port), ("distribute", path, port)


def _links(m: int, path: Path, ports: int) -> Iterator[Link]:
    if ports == 2:
        return
    for middle in range(m):
        for port in range(_half(ports)):
            yield _link_up(path, ports, middle, port)
            yield _link_down(path, ports, middle, port)
        yield from _links(m, (*path, middle), _half(ports))


def _count(m: int, ports: int) -> int:
    return 1 if ports == 2 else 2 * _half(ports) + m * _count(m, _half(ports))


def _route(
    m: int, path: Path, ports: int, flows: list[tuple[int, Flow]], found: list[set[Link]]
) -> None:
    """Add to ``found``, by number of the flow, the flow's links inside the switch at ``path``."""
    if ports == 2 or not flows:
        return
    choice = colour(conflicts([flow for _, flow in flows]), m)
    if choice is None:
        raise UnroutableError.naming([flow for _, flow in flows], m)
    within: dict[int, list[tuple[int, Flow]]] = {}
    for place, (number, flow) in enumerate(flows):
        middle = choice[place]
        inner = Flow(halved(flow.inputs), halved(flow.outputs), flow.name)
        found[number].update(_link_up(path, ports, middle, port) for port in inner.inputs)
        found[number].update(_link_down(path, ports, middle, port) for port in inner.outputs)
        within.setdefault(middle, []).append((number, inner))
    for middle, inside in within.items():
        _route(m, (*path, middle), _half(ports), inside, found)


_T = TypeVar("_T")


class Remedy(StrEnum):
    """The treatment of flows that cannot pass at once.

    ``REFUSE``: raise an error.  ``SERIALISE``: some flows pass later.  ``DECOMPOSE``: some groups
    pass as unicasts around a ring, step by step.  ``PLACE``: groups move to consecutive ports.
    """

    REFUSE = "refuse"
    SERIALISE = "serialise"
    DECOMPOSE = "decompose"
    PLACE = "place"


@dataclass(frozen=True)
class Schedule:
    """The rounds in which flows pass a switch, after the remedy: undivided, as rings, or moved."""

    rounds: tuple[tuple[Route, ...], ...]  # one after another
    serialised: tuple[Flow, ...] = ()  # pass in a later round
    # Pass as unicasts; each of a ring's p - 1 steps repeats the round's routes.
    decomposed: tuple[Flow, ...] = ()
    ports: tuple[int, ...] = ()  # new port of each port

    @property
    def n_moved(self) -> int:
        """Number of ports whose NPU was moved to another port."""
        return sum(port != place for port, place in enumerate(self.ports))

    @property
    def conflict_free(self) -> bool:
        """True if all flows pass at once, undivided, on their original ports."""
        return len(self.rounds) == 1 and not (self.decomposed or self.n_moved)


def schedule(switch: FredSwitch, flows: Sequence[Flow], remedy: Remedy) -> Schedule:
    """Return an order in which all ``flows`` pass: at once if possible, else by ``remedy``.

    Raises :class:`UnroutableError` if the remedy is to refuse, or does not help: a flow whose
    inputs differ from its outputs is not a group, so it can neither become a ring nor move.
    """
    try:
        return Schedule((switch.route(flows),))
    except UnroutableError:
        if remedy is Remedy.REFUSE:
            raise
    if remedy is Remedy.SERIALISE:
        return _serialise(switch, flows)
    groups = all(flow.inputs == flow.outputs for flow in flows)
    if not groups:
        raise UnroutableError.naming(flows, switch.middles)
    return _place(switch, flows) if remedy is Remedy.PLACE else _decompose(switch, flows)


def _fits(switch: FredSwitch, flows: Sequence[Flow]) -> bool:
    try:
        switch.route(flows)
    except UnroutableError:
        return False
    return True


def in_rounds(
    things: Sequence[_T], size: Callable[[_T], int], fit: Callable[[Sequence[_T]], bool]
) -> list[list[_T]]:
    """Return ``things`` in rounds: each in the first round that it fits, the largest first."""
    rounds: list[list[_T]] = []
    for thing in sorted(things, key=lambda thing: -size(thing)):
        room = next((one for one in rounds if fit([*one, thing])), None)
        if room is None:
            rounds.append([thing])
        else:
            room.append(thing)
    return rounds


def _serialise(switch: FredSwitch, flows: Sequence[Flow]) -> Schedule:
    rounds = in_rounds(flows, lambda flow: len(flow.inputs | flow.outputs), partial(_fits, switch))
    later = tuple(flow for one in rounds[1:] for flow in one)
    return Schedule(tuple(switch.route(one) for one in rounds), serialised=later)


def _decompose(switch: FredSwitch, flows: Sequence[Flow]) -> Schedule:
    """Return the schedule in which the smallest groups become rings until all flows can pass.

    Two middle switches pass any unicasts, so a solution always exists.
    """
    order = sorted(flows, key=lambda flow: len(flow.inputs))
    for n in range(1, len(order) + 1):
        rings, whole = order[:n], order[n:]
        steps = [*whole, *(unicast for flow in rings for unicast in ring(flow))]
        if _fits(switch, steps):
            return Schedule((switch.route(steps),), decomposed=tuple(rings))
    raise UnroutableError.naming(flows, switch.middles)


def ring(flow: Flow) -> list[Flow]:
    """Return the unicasts from each member of a group to the next; none for a group of one."""
    members = sorted(flow.inputs)
    following = [*members[1:], members[0]]
    return [
        Flow(frozenset({one}), frozenset({other}), f"{flow.name}: {one} to {other}")
        for one, other in zip(members, following, strict=True)
        if one != other
    ]


def _place(switch: FredSwitch, flows: Sequence[Flow]) -> Schedule:
    """Return the schedule with groups on consecutive ports, in the order of their first ports.

    Ports without a group follow.
    """
    check_flows(flows, switch.ports)
    order = [
        port
        for flow in sorted(flows, key=lambda flow: min(flow.inputs))
        for port in sorted(flow.inputs)
    ]
    idle = sorted(set(range(switch.ports)) - set(order))
    to = {port: place for place, port in enumerate([*order, *idle])}
    moved = [Flow.from_ports((to[port] for port in flow.inputs), flow.name) for flow in flows]
    ports = tuple(to[port] for port in range(switch.ports))
    return Schedule((switch.route(moved),), ports=ports)
