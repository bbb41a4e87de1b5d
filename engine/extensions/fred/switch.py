"""FRED_m(P): a switch of P ports, built of microswitches that reduce and distribute."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.extensions.fred.colour import colour, conflicts, halved
from dimsweep.engine.extensions.fred.flow import Flow, Link, Route, UnroutableError, check_flows

if TYPE_CHECKING:  # networkx is imported by the functions that need it: few runs do
    import networkx as nx

MAX_PORTS = 4096

Path = tuple[int, ...]  # the middle switch taken at each level, from the outermost


@dataclass(frozen=True)
class FredSwitch:
    """FRED_m(P): ``middles`` is m and ``ports`` is P.

    A first stage of microswitches takes two input ports each, which it may *reduce* to one; m
    switches FRED_m(P/2) are in the middle; a last stage of microswitches has two output ports each,
    to which it may *distribute* what it gets.  For an odd P the last port has a microswitch of its
    own.  FRED_m(2) is one microswitch that does both.  (A Clos network whose middle is built like
    the whole, as Benes' is of m = 2.)

    Raises :class:`DimsweepError` for fewer than two ports or middle switches.
    """

    ports: int
    middles: int = 3

    def __post_init__(self) -> None:
        if not 2 <= self.ports <= MAX_PORTS:
            raise DimsweepError(
                f"a FRED switch of {self.ports} ports", where="ports", hint=f"2 to {MAX_PORTS}"
            )
        if not 2 <= self.middles <= self.ports + 1:
            raise DimsweepError(
                f"FRED_{self.middles}({self.ports}): {self.middles} middle switches",
                where="middles",
                hint="2 pass any permutation, 3 (the paper's) any groups on consecutive ports; "
                "more than the ports are never used",
            )

    def route(self, flows: Sequence[Flow]) -> tuple[Route, ...]:
        """A route for each flow, no two of which share a link.

        Flows that share a microswitch of the first or last stage take different middle switches:
        their conflict graph is coloured with m colours, and so on inside each middle switch.
        Raises :class:`UnroutableError` naming the flows for which there is no colouring, and
        :class:`DimsweepError` for flows that share a port or leave the switch.
        """
        check_flows(flows, self.ports)
        found = [set(_ports(flow, self.ports)) for flow in flows]
        _route(self.middles, (), self.ports, list(enumerate(flows)), found)
        return tuple(
            Route(flow, frozenset(links)) for flow, links in zip(flows, found, strict=True)
        )

    def graph(self) -> "nx.DiGraph":
        """All its nodes and links: ports are ``("port in", i)`` and ``("port out", i)``, all other
        nodes microswitches."""
        import networkx as nx

        graph = nx.DiGraph()
        for port in range(self.ports):
            graph.add_edge(("port in", port), entry((), self.ports, port))
            graph.add_edge(exit_((), self.ports, port), ("port out", port))
        graph.add_edges_from(_links(self.middles, (), self.ports))
        return graph

    def n_microswitches(self) -> int:
        """How many microswitches it is built of."""
        return _count(self.middles, self.ports)


def entry(path: Path, ports: int, port: int) -> Any:
    """The microswitch at which an input port enters the switch at ``path``."""
    return ("both", path) if ports == 2 else ("reduce", path, port // 2)


def exit_(path: Path, ports: int, port: int) -> Any:
    """The microswitch at which an output port leaves the switch at ``path``."""
    return ("both", path) if ports == 2 else ("distribute", path, port // 2)


def _half(ports: int) -> int:
    return (ports + 1) // 2


def _ports(flow: Flow, ports: int) -> Iterator[Link]:
    yield from ((("port in", p), entry((), ports, p)) for p in flow.inputs)
    yield from ((exit_((), ports, p), ("port out", p)) for p in flow.outputs)


def _up(path: Path, ports: int, middle: int, port: int) -> Link:
    """From microswitch ``port`` of the first stage into a middle switch."""
    return ("reduce", path, port), entry((*path, middle), _half(ports), port)


def _down(path: Path, ports: int, middle: int, port: int) -> Link:
    """From a middle switch to microswitch ``port`` of the last stage."""
    return exit_((*path, middle), _half(ports), port), ("distribute", path, port)


def _links(m: int, path: Path, ports: int) -> Iterator[Link]:
    if ports == 2:
        return
    for middle in range(m):
        for port in range(_half(ports)):
            yield _up(path, ports, middle, port)
            yield _down(path, ports, middle, port)
        yield from _links(m, (*path, middle), _half(ports))


def _count(m: int, ports: int) -> int:
    return 1 if ports == 2 else 2 * _half(ports) + m * _count(m, _half(ports))


def _route(
    m: int, path: Path, ports: int, flows: list[tuple[int, Flow]], found: list[set[Link]]
) -> None:
    """Adds to ``found`` the links inside the switch at ``path`` of each of ``flows``, by number."""
    if ports == 2 or not flows:
        return
    choice = colour(conflicts([flow for _, flow in flows]), m)
    if choice is None:
        raise UnroutableError.naming([flow for _, flow in flows], m)
    within: dict[int, list[tuple[int, Flow]]] = {}
    for place, (number, flow) in enumerate(flows):
        middle = choice[place]
        inner = Flow(halved(flow.inputs), halved(flow.outputs), flow.name)
        found[number].update(_up(path, ports, middle, port) for port in inner.inputs)
        found[number].update(_down(path, ports, middle, port) for port in inner.outputs)
        within.setdefault(middle, []).append((number, inner))
    for middle, inside in within.items():
        _route(m, (*path, middle), _half(ports), inside, found)
