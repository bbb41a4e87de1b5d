"""ATOP's description of networks by hyper-parameters: layers of switches, connected by rules."""

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from dimsweep.engine.errors import DimsweepError
from dimsweep.engine.network.generators.generator import FAR, LAYER, NEAR, Generator
from dimsweep.engine.network.wires import Wires, check_count, check_divides
from dimsweep.engine.topology.blocks import Node


@dataclass(frozen=True, kw_only=True)
class Between:
    """The connection between two adjacent layers of an ATOP network."""

    lower: int
    upper: int
    blocks: tuple[int, int]  # numbers of blocks of the lower and the upper layer (H)
    links: int | None = None  # of each lower node (E); None: to all nodes of the block
    width: int = 1  # ports of a link (B)


@dataclass(frozen=True, kw_only=True)
class Within:
    """The connections among the switches of one layer of an ATOP network, in D dimensions.

    In dimension t, node X is joined to (a[t][0] m + sum of a[t][r] X_r + c[t]) mod S, m = 1 .. P.
    """

    layer: int
    sizes: tuple[int, ...]  # of the dimensions (S)
    outward: tuple[int, ...]  # links of a node in each dimension (P)
    a: tuple[tuple[int, ...], ...]  # factors (A)
    c: tuple[int, ...]  # offsets (C)
    width: int = 1  # ports of a link (B)


@dataclass(frozen=True, kw_only=True)
class Atop(Generator):
    """A network from algorithms 1 and 2 of ATOP (Yan et al., SIGCOMM 2025).

    ``layers`` counts the NPUs and the switches of each layer (N).  Block k of the lower layer is
    joined to block k mod H of the upper layer: its node k to nodes (E k + m) mod size for
    m = 0 .. E - 1.  ``bandwidth`` is the bandwidth of a port of width 1.
    """

    kind: ClassVar[str] = "atop"

    layers: tuple[int, ...]
    between: tuple[Between, ...]
    within: tuple[Within, ...] = ()

    def lay(self, wires: Wires) -> None:
        if len(self.layers) < 1:
            hint = "such as [64, 8, 8]"
            raise DimsweepError("no layer is given", where="layers", hint=hint, code="missing")
        nodes: list[list[Node]] = [list(wires.npus(self.layers[0]))]
        for i, n in enumerate(self.layers[1:], 1):
            check_count("layers", n)
            made: list[Node] = [f"layer {i} switch {j}" for j in range(n)]
            wires.graph.add_nodes_from(made, **wires.device())
            nodes.append(made)
        for i, each in enumerate(self.between):
            try:
                _join(wires, nodes, each)
            except DimsweepError as error:
                raise error.with_prefix(f"between[{i}]") from None
        for i, inside in enumerate(self.within):
            try:
                _join_within(wires, nodes, inside)
            except DimsweepError as error:
                raise error.with_prefix(f"within[{i}]") from None


def _join(wires: Wires, nodes: list[list[Node]], by: Between) -> None:
    if not 0 <= by.lower < by.upper < len(nodes):
        problem = f"layers {by.lower} and {by.upper}; the lower number must come first"
        hint = f"layers are numbered from 0 (the NPUs) to {len(nodes) - 1}"
        raise DimsweepError(problem, where="lower", hint=hint, code="out-of-range")
    low, high = nodes[by.lower], nodes[by.upper]
    check_divides("blocks", by.blocks[0], len(low), "nodes")
    check_divides("blocks", by.blocks[1], len(high), "nodes")
    size, room = len(low) // by.blocks[0], len(high) // by.blocks[1]
    links = room if by.links is None else by.links
    if not 1 <= links <= room:
        problem = f"{links} links; it must be 1 to {room}, the nodes of a block of the upper layer"
        raise DimsweepError(problem, where="links", code="out-of-range")
    length = NEAR if by.lower == 0 else LAYER if by.upper == by.lower + 1 else FAR
    for number, node in enumerate(low):
        block, k = divmod(number, size)
        first = block % by.blocks[1] * room
        for m in range(links):
            to = high[first + (links * k + m) % room]
            medium = "copper" if by.lower == 0 and by.upper == 1 else "fibre"
            wires.cable(node, to, medium, length, by.width)  # type: ignore[arg-type]


def _join_within(wires: Wires, nodes: list[list[Node]], by: Within) -> None:
    if not 0 <= by.layer < len(nodes):
        problem = f"layer {by.layer}; it must be 0 to {len(nodes) - 1}"
        raise DimsweepError(problem, where="layer", code="out-of-range")
    own, n = nodes[by.layer], len(by.sizes)
    count = 1
    for size in by.sizes:
        check_count("sizes", size)
        count *= size
    right = len(by.outward) == len(by.a) == len(by.c) == n
    if count != len(own) or not right or any(len(row) != n + 1 for row in by.a):
        raise DimsweepError(
            f"{n} dimensions of {count} nodes for a layer of {len(own)}",
            where="sizes",
            hint="the product of sizes must be the nodes of the layer; outward and c need one "
            "number, and a one row with one number more, for each dimension",
            code="mismatch",
        )
    places = list(product(*map(range, by.sizes)))
    at = dict(zip(places, own, strict=True))
    laid = set()
    for t, size in enumerate(by.sizes):
        for place in places:
            for m in range(1, by.outward[t] + 1):
                to = list(place)
                turn = sum(a * x for a, x in zip(by.a[t][1:], place, strict=True))
                to[t] = (by.a[t][0] * m + turn + by.c[t]) % size
                ends = frozenset((place, tuple(to)))
                if len(ends) == 2 and ends not in laid:
                    laid.add(ends)
                    wires.cable(at[place], at[tuple(to)], "fibre", FAR, by.width)
