"""Which nodes the links of one dimension join where a fabric takes its block's place.

``npus`` are the NPUs of one such line in the order of the coordinate, ``place`` makes the names of
its switches unique.  Routing breaks ties by the order in which the links of a node come.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from engine.cluster.blocks.block import Node, Pair


def mesh(npus: range) -> Iterator[Pair]:
    """A ring without the link that closes it."""
    for i, npu in enumerate(npus):
        if i + 1 < len(npus):
            yield npu, npus[i + 1]
        if i > 0:
            yield npu, npus[i - 1]


def clos2(npus: range, place: str, leaf: int, spines: int) -> Iterator[Pair]:
    """``leaf`` NPUs to each leaf switch, each of these to each spine (Clos, BSTJ 1953)."""
    for i in range(len(npus) // leaf):
        name = f"leaf {place} no {i}"
        for npu in npus[i * leaf : (i + 1) * leaf]:
            yield from _both(npu, name)
        for j in range(spines):
            yield from _both(name, f"spine {place} no {j}")


def clos3(
    npus: range, place: str, leaf: int, pod: int, aggregations: int, cores: int
) -> Iterator[Pair]:
    """Pods of ``pod`` leaf switches and ``aggregations`` above them, joined by cores.

    Aggregation switch ``j`` of every pod leads to the ``cores`` of core group ``j`` (Al-Fares et
    al., SIGCOMM 2008).
    """
    for i in range(len(npus) // leaf):
        name = f"leaf {place} no {i}"
        for npu in npus[i * leaf : (i + 1) * leaf]:
            yield from _both(npu, name)
        for j in range(aggregations):
            yield from _both(name, f"aggregation {place} pod {i // pod} no {j}")
    for i in range(len(npus) // (leaf * pod)):
        for j in range(aggregations):
            for k in range(cores):
                aggregation = f"aggregation {place} pod {i} no {j}"
                yield from _both(aggregation, f"core {place} group {j} no {k}")


def dragonfly(npus: range, place: str, routers: int, per_router: int) -> Iterator[Pair]:
    """Groups of ``routers`` all joined, with one link between each two groups.

    The link of group ``i`` to group ``i + o`` sits at router ``(o - 1) // h``, where ``h`` is how
    many of them a router has (Kim et al., ISCA 2008).
    """
    groups = len(npus) // (routers * per_router)
    spread = -(-(groups - 1) // routers)

    def name(group: int, router: int) -> str:
        return f"router {place} group {group} no {router}"

    for i, npu in enumerate(npus):
        router = i // per_router
        yield from _both(npu, name(router // routers, router % routers))
    for group in range(groups):
        for one, other in permutations(range(routers), 2):
            yield name(group, one), name(group, other)
        for o in range(1, groups):
            far = name((group + o) % groups, (groups - o - 1) // spread)
            yield name(group, (o - 1) // spread), far


def _both(one: Node, other: Node) -> Iterator[Pair]:
    yield one, other
    yield other, one
